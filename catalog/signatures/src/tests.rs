//! Attack T22 with signatures that cosign made; see `tests/fixtures/README.md`.

mod attacks;
mod hostile;
mod requirements;

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

use crate::{Format, Identity, NotVerified, Reason, Requirement, Signature, Signer, Verified, Verifier};

const SUBJECT: &str = "https://github.com/acme/catalog/.github/workflows/release.yml@refs/heads/main";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

#[derive(Clone, Deserialize)]
struct Fixture {
    image: String,
    simple: Vec<Simple>,
    bundles: Vec<String>,
}

#[derive(Clone, Deserialize)]
struct Simple {
    payload: String,
    annotations: BTreeMap<String, String>,
}

impl Fixture {
    fn signatures(&self) -> Vec<Signature> {
        let simple = self.simple.iter().map(|simple| Signature::Simple {
            payload: simple.payload.clone().into_bytes(),
            annotations: simple.annotations.clone(),
        });
        let bundles = self.bundles.iter().map(|json| Signature::Bundle { json: json.clone().into_bytes() });
        simple.chain(bundles).collect()
    }
}

fn text(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixture(name: &str) -> Fixture {
    serde_json::from_str(&text(&format!("{name}.json"))).unwrap()
}

/// The image of all fixtures except `*-other`.
fn image() -> String {
    fixture("old-key").image
}

fn key(name: &str) -> Requirement {
    Requirement { key: Some(text(name)), ..Requirement::default() }
}

/// The key, and an entry in the log.
fn logged(name: &str) -> Requirement {
    Requirement { trusted_root: Some(text("root.json")), ..key(name) }
}

fn identity() -> Identity {
    Identity { issuer: Some(ISSUER.to_owned()), subject: Some(SUBJECT.to_owned()), ..Identity::default() }
}

fn by(identity: Identity) -> Requirement {
    Requirement { identity: Some(identity), trusted_root: Some(text("root.json")), key: None }
}

fn verify(requirement: &Requirement, found: &[Signature]) -> Result<Verified, NotVerified> {
    Verifier::new(requirement).expect("the requirement is good").verify(&image(), found)
}

fn check(requirement: &Requirement, name: &str) -> Result<Verified, NotVerified> {
    verify(requirement, &fixture(name).signatures())
}

#[track_caller]
fn refused(requirement: &Requirement, name: &str, reason: Reason) -> String {
    let refused = check(requirement, name).expect_err(name);
    assert_eq!(refused.reason, reason, "{name}: {}", refused.message);
    assert_eq!(refused.refusals.len(), 1);
    refused.message
}

#[test]
fn signatures_of_cosign_are_verified_in_both_formats() {
    for (requirement, name, format, logs) in [
        (key("key.pub"), "old-key", Format::SimpleSigning, false),
        (key("key.pub"), "new-key", Format::Bundle, false),
        (key("key.pub"), "old-key-log", Format::SimpleSigning, false),
        (key("key.pub"), "new-key-log", Format::Bundle, false),
        (logged("key.pub"), "old-key-log", Format::SimpleSigning, true),
        (logged("key.pub"), "new-key-log", Format::Bundle, true),
        (key("rsa.pub"), "old-rsa", Format::SimpleSigning, false),
        (key("rsa.pub"), "new-rsa", Format::Bundle, false),
        (by(identity()), "old-keyless", Format::SimpleSigning, true),
        (by(identity()), "new-keyless", Format::Bundle, true),
        (by(identity()), "new-keyless-v2", Format::Bundle, true),
    ] {
        let verified = check(&requirement, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((verified.format, verified.logged), (format, logs), "{name}");
        match verified.signer {
            Signer::Key { fingerprint } => assert!(fingerprint.starts_with("sha256:"), "{name}"),
            Signer::Identity { subject, issuer } => {
                assert_eq!((subject.as_str(), issuer.as_str()), (SUBJECT, ISSUER), "{name}");
                assert!(verified.signed_at.is_some(), "{name}");
            }
        }
    }
}

#[test]
fn a_signature_with_an_ed25519_key_is_verified() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    // A SubjectPublicKeyInfo of id-Ed25519 is this prefix and the key.
    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend_from_slice(pair.public_key().as_ref());
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
    let mut simple = fixture("old-key");
    let signature = STANDARD.encode(pair.sign(simple.simple[0].payload.as_bytes()));
    simple.simple[0].annotations.insert("dev.cosignproject.cosign/signature".to_owned(), signature);
    let requirement = Requirement { key: Some(pem), ..Requirement::default() };
    assert!(verify(&requirement, &simple.signatures()).is_ok());
    refused(&requirement, "old-key", Reason::WrongKey);
}

#[test]
fn one_good_signature_among_others_suffices_and_the_others_are_reported() {
    let mut found = fixture("old-other").signatures();
    found.extend(fixture("attest").signatures());
    found.extend(fixture("new-key").signatures());
    let verified = verify(&key("key.pub"), &found).unwrap();
    let reasons: Vec<Reason> = verified.refusals.iter().map(|refusal| refusal.reason).collect();
    assert_eq!(reasons, [Reason::OtherImage, Reason::NotASignature]);
}

#[test]
fn of_several_bad_signatures_the_closest_is_reported() {
    let mut found = fixture("attest").signatures();
    found.extend(fixture("new-evil").signatures());
    found.extend(fixture("old-key").signatures());
    let refused = verify(&by(identity()), &found).unwrap_err();
    assert_eq!(refused.reason, Reason::WrongIdentity);
    assert!(
        refused
            .message
            .starts_with("none of 3 signatures meets the requirement: signed by https://github.com/evil/")
    );
}

#[test]
fn every_reason_has_a_sentence_and_a_next_step() {
    assert_eq!(
        refused(&by(identity()), "old-evil", Reason::WrongIdentity),
        format!(
            "signed by https://github.com/evil/catalog/.github/workflows/release.yml@refs/heads/main (issuer {ISSUER}), \
             expected {SUBJECT}"
        )
    );
    for reason in [
        Reason::NotSigned,
        Reason::NotASignature,
        Reason::WrongKey,
        Reason::WrongIdentity,
        Reason::WrongIssuer,
        Reason::OtherImage,
        Reason::CertificateNotValid,
        Reason::CertificateNotTrusted,
        Reason::LogEntryMissing,
        Reason::LogEntryInvalid,
        Reason::SignatureInvalid,
        Reason::Malformed,
        Reason::Unsupported,
    ] {
        assert!(!reason.hint().is_empty());
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
    }
}
