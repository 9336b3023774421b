//! Well-formed signatures that do not meet the requirement.

use super::*;

#[test]
fn t22_an_image_without_a_signature_is_not_signed() {
    for requirement in [key("key.pub"), logged("key.pub"), by(identity())] {
        let refused = verify(&requirement, &[]).unwrap_err();
        assert_eq!(refused.reason, Reason::NotSigned);
        assert_eq!(refused.message, "not signed: no signature found");
    }
}

#[test]
fn t22_a_signature_with_another_key_is_refused() {
    for name in ["old-key", "new-key", "old-key-log", "new-key-log", "old-rsa", "new-rsa"] {
        refused(&key("other.pub"), name, Reason::WrongKey);
    }
    for name in ["old-key-log", "new-key-log"] {
        refused(&logged("other.pub"), name, Reason::WrongKey);
    }
    // Keys of one kind are not accepted for another.
    for (public, name) in [("rsa.pub", "old-key"), ("rsa.pub", "new-key"), ("key.pub", "old-rsa")] {
        refused(&key(public), name, Reason::WrongKey);
    }
}

#[test]
fn t22_a_signature_by_another_identity_is_refused() {
    for name in ["old-evil", "new-evil"] {
        let message = refused(&by(identity()), name, Reason::WrongIdentity);
        assert!(message.contains("github.com/evil/catalog"), "{message}");
    }
}

#[test]
fn t22_a_signature_by_the_identity_of_another_issuer_is_refused() {
    let other = Identity { issuer: Some("https://gitlab.example".to_owned()), ..identity() };
    for name in ["old-keyless", "new-keyless", "new-keyless-v2"] {
        let message = refused(&by(other.clone()), name, Reason::WrongIssuer);
        assert!(message.ends_with("expected https://gitlab.example"), "{message}");
    }
}

#[test]
fn t22_a_name_in_the_field_of_another_kind_is_not_that_name() {
    let alice = Identity { subject: Some("alice@example.com".to_owned()), ..identity() };
    for name in ["old-confused", "new-confused"] {
        refused(&by(alice.clone()), name, Reason::WrongIdentity);
        // Nor where any name would match.
        let any = Identity { subject: None, subject_regexp: Some(".+".to_owned()), ..identity() };
        refused(&by(any), name, Reason::WrongIdentity);
    }
}

#[test]
fn t22_the_right_signature_of_another_image_is_refused() {
    for name in ["old-other", "new-other"] {
        let message = refused(&key("key.pub"), name, Reason::OtherImage);
        assert!(message.contains(&fixture(name).image), "{message}");
    }
    let other = fixture("old-other").image;
    for (requirement, names) in [
        (key("key.pub"), &["old-key", "new-key"][..]),
        (logged("key.pub"), &["old-key-log", "new-key-log"]),
        (by(identity()), &["old-keyless", "new-keyless", "new-keyless-v2"]),
    ] {
        for name in names {
            let verifier = Verifier::new(&requirement).unwrap();
            let refused = verifier.verify(&other, &fixture(name).signatures()).unwrap_err();
            assert_eq!(refused.reason, Reason::OtherImage, "{name}: {refused}");
        }
    }
}

#[test]
fn t22_a_signature_from_after_its_certificate_expired_is_refused() {
    for name in ["old-expired", "new-expired"] {
        refused(&by(identity()), name, Reason::CertificateNotValid);
    }
}

#[test]
fn t22_a_certificate_of_another_authority_is_refused() {
    let elsewhere = Requirement { trusted_root: None, ..by(identity()) };
    for name in ["old-keyless", "new-keyless", "new-keyless-v2"] {
        let refused = check(&elsewhere, name).unwrap_err();
        // Its log, its timestamp authority and its certificate are all unknown; the order of detection does
        // not matter.
        let unknown = [Reason::CertificateNotTrusted, Reason::LogEntryInvalid];
        assert!(unknown.contains(&refused.reason), "{name}: {refused}");
    }
    // The log is known and the authority is not.
    let mut root: serde_json::Value = serde_json::from_str(&text("root.json")).unwrap();
    let authority = root["timestampAuthorities"][0]["certChain"]["certificates"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    root["certificateAuthorities"][0]["certChain"]["certificates"] = serde_json::json!([authority]);
    let other = Requirement { trusted_root: Some(root.to_string()), ..by(identity()) };
    for name in ["old-keyless", "new-keyless", "new-keyless-v2"] {
        refused(&other, name, Reason::CertificateNotTrusted);
    }
}

#[test]
fn t22_a_certificate_for_something_else_or_outside_of_certificate_transparency_is_refused() {
    for name in ["old-noeku", "old-nosct", "new-nosct"] {
        refused(&by(identity()), name, Reason::CertificateNotTrusted);
    }
}

#[test]
fn t22_a_signature_without_a_log_entry_is_refused_where_the_root_has_a_log() {
    for name in ["old-key", "new-key"] {
        refused(&logged("key.pub"), name, Reason::LogEntryMissing);
    }
    let mut old = fixture("old-keyless");
    old.simple[0].annotations.remove("dev.sigstore.cosign/bundle");
    assert_eq!(verify(&by(identity()), &old.signatures()).unwrap_err().reason, Reason::LogEntryMissing);
    for name in ["new-keyless", "new-keyless-v2"] {
        for without in ["/tlogEntries", "/tlogEntries/0/inclusionProof", "/tlogEntries/0/*"] {
            let mut new = fixture(name);
            let mut bundle: serde_json::Value = serde_json::from_str(&new.bundles[0]).unwrap();
            let material = bundle["verificationMaterial"].as_object_mut().unwrap();
            match without {
                "/tlogEntries" => _ = material.remove("tlogEntries"),
                one => {
                    let entry = material["tlogEntries"][0].as_object_mut().unwrap();
                    entry.remove("inclusionProof");
                    if one.ends_with('*') {
                        entry.remove("inclusionPromise");
                    }
                }
            }
            new.bundles[0] = bundle.to_string();
            let refused = verify(&by(identity()), &new.signatures()).unwrap_err();
            assert_eq!(refused.reason, Reason::LogEntryMissing, "{name} without {without}: {refused}");
        }
    }
}

#[test]
fn t22_a_log_entry_of_another_signature_is_refused() {
    // given a signature with the log entry of another one, which is really in the log
    let (mut old, other) = (fixture("old-keyless"), fixture("old-evil"));
    let name = "dev.sigstore.cosign/bundle";
    old.simple[0].annotations.insert(name.to_owned(), other.simple[0].annotations[name].clone());
    let refused = verify(&by(identity()), &old.signatures()).unwrap_err();
    assert_eq!(refused.reason, Reason::LogEntryInvalid, "{refused}");
    let (mut new, other) = (fixture("new-keyless"), fixture("new-evil"));
    let mut bundle: serde_json::Value = serde_json::from_str(&new.bundles[0]).unwrap();
    let other: serde_json::Value = serde_json::from_str(&other.bundles[0]).unwrap();
    bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"].clone();
    new.bundles[0] = bundle.to_string();
    let refused = verify(&by(identity()), &new.signatures()).unwrap_err();
    assert_eq!(refused.reason, Reason::LogEntryInvalid, "{refused}");
}

#[test]
fn t22_an_attestation_is_not_a_signature() {
    refused(&key("key.pub"), "attest", Reason::NotASignature);
}

#[test]
fn t22_the_signature_of_a_file_is_not_that_of_an_image() {
    // given a bundle of `cosign sign-blob` for a file with the digest of the image
    let mut blob: serde_json::Value = serde_json::from_str(&fixture("new-key").bundles[0]).unwrap();
    let envelope = blob.as_object_mut().unwrap().remove("dsseEnvelope").unwrap();
    blob["messageSignature"] = serde_json::json!({ "signature": envelope["signatures"][0]["sig"] });
    let found = [Signature::Bundle { json: blob.to_string().into_bytes() }];
    assert_eq!(verify(&key("key.pub"), &found).unwrap_err().reason, Reason::NotASignature);
}

#[test]
fn t22_a_key_is_not_an_identity_and_an_identity_is_not_a_key() {
    for name in ["old-key-log", "new-key-log"] {
        refused(&by(identity()), name, Reason::WrongIdentity);
    }
    for name in ["old-keyless", "new-keyless", "new-keyless-v2"] {
        refused(&key("key.pub"), name, Reason::WrongKey);
        refused(&logged("key.pub"), name, Reason::WrongKey);
    }
}

#[test]
fn t22_a_digest_is_compared_in_the_one_way_that_it_is_written() {
    let verifier = Verifier::new(&key("key.pub")).unwrap();
    let found = fixture("old-key").signatures();
    let digest = image();
    for other in [
        digest.to_uppercase(),
        digest.replace("sha256:", "sha512:"),
        digest.replace("sha256:", ""),
        format!("{digest}0"),
        digest[..40].to_owned(),
        String::new(),
    ] {
        assert_eq!(verifier.verify(&other, &found).unwrap_err().reason, Reason::Unsupported, "{other}");
    }
}
