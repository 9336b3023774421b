//! T22: `olm catalog verify`, with signatures of cosign.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::olm;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const SUBJECT: &str = "https://github.com/acme/catalog/.github/workflows/release.yml@refs/heads/main";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/signatures/tests/fixtures").join(name)
}

fn flag(name: &str) -> String {
    fixture(name).display().to_string()
}

/// Writes an OCI layout of an image with these signatures; returns the name of the image.
fn layout(root: &Path, signatures: &[&str]) -> String {
    let blobs = root.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let blob = |media_type: &str, bytes: &[u8]| {
        let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(blobs.join(&hex), bytes).unwrap();
        json!({"mediaType": media_type, "digest": format!("sha256:{hex}"), "size": bytes.len()})
    };
    let mut entries = Vec::new();
    let mut name = |mut entry: Value, name: &str| {
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        entries.push(entry);
    };
    let image = blob(MANIFEST, &fs::read(fixture("manifest.json")).unwrap());
    let tag = image["digest"].as_str().unwrap().replace(':', "-");
    name(image, "quay.io/acme/catalog:v1");
    let (mut layers, mut bundles) = (Vec::new(), Vec::new());
    let config = blob("application/vnd.oci.empty.v1+json", b"{}");
    let manifest = |layers: &[Value]| {
        let text = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        blob(MANIFEST, text.to_string().as_bytes())
    };
    for signature in signatures {
        let found: Value =
            serde_json::from_slice(&fs::read(fixture(&format!("{signature}.json"))).unwrap()).unwrap();
        for simple in found["simple"].as_array().unwrap() {
            let media_type = "application/vnd.dev.cosign.simplesigning.v1+json";
            let mut layer = blob(media_type, simple["payload"].as_str().unwrap().as_bytes());
            layer["annotations"] = simple["annotations"].clone();
            layers.push(layer);
        }
        for bundle in found["bundles"].as_array().unwrap() {
            let media_type = "application/vnd.dev.sigstore.bundle.v0.3+json";
            let mut entry = manifest(&[blob(media_type, bundle.as_str().unwrap().as_bytes())]);
            entry["artifactType"] = json!(media_type);
            bundles.push(entry);
        }
    }
    if !layers.is_empty() {
        name(manifest(&layers), &format!("quay.io/acme/catalog:{tag}.sig"));
    }
    if !bundles.is_empty() {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": bundles});
        name(blob(INDEX, index.to_string().as_bytes()), &format!("quay.io/acme/catalog:{tag}"));
    }
    fs::write(root.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
    fs::write(root.join("index.json"), index.to_string()).unwrap();
    format!("oci:{}:quay.io/acme/catalog:v1", root.display())
}

#[test]
fn t22_verify_shows_the_signer_of_an_image_in_both_formats() {
    let (key, root) = (flag("key.pub"), flag("root.json"));
    let identity =
        ["--certificate-identity", SUBJECT, "--certificate-oidc-issuer", ISSUER, "--trusted-root", &root];
    for (signature, flags, signer) in [
        ("old-key", &["--key", key.as_str()][..], "signed by:  key sha256:"),
        ("new-key", &["--key", &key], "signed by:  key sha256:"),
        ("old-keyless", &identity, "signed by:  https://github.com/acme/catalog/"),
        ("new-keyless", &identity, "log:        entry verified"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let image = layout(dir.path(), &[signature]);
        let ran = olm(&[&["catalog", "verify", &image], flags].concat());
        assert_eq!(ran.code, Some(0), "{signature}: {}", ran.err);
        assert!(ran.out.contains(": verified\n") && ran.out.contains(signer), "{}", ran.out);
        let ran = olm(&[&["catalog", "verify", &image, "-o", "json"], flags].concat());
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, &answer["verified"]), (Some(0), &json!(true)));
        assert!(answer["signer"].is_object() && answer["digest"].is_string(), "{answer}");
    }
}

#[test]
fn t22_verify_explains_a_failed_requirement_and_exits_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let (key, other, root) = (flag("key.pub"), flag("other.pub"), flag("root.json"));
    let identity =
        ["--certificate-identity", SUBJECT, "--certificate-oidc-issuer", ISSUER, "--trusted-root", &root];
    for (n, (signatures, flags, reason, message)) in [
        (&[][..], &["--key", key.as_str()][..], "NotSigned", "not signed: no signature found"),
        (&["old-key"], &["--key", &other], "WrongKey", "not signed with the required key"),
        (&["old-other"], &["--key", &key], "OtherImage", "the signature is for another image"),
        (&["new-key"], &["--key", &key, "--trusted-root", &root], "LogEntryMissing", "no transparency log"),
        (&["new-expired"], &identity, "CertificateNotValid", "certificate"),
        (
            &["attest", "new-evil", "old-evil"],
            &identity,
            "WrongIdentity",
            "none of 3 signatures meets the requirement: signed by",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let image = layout(&dir.path().join(n.to_string()), signatures);
        let ran = olm(&[&["catalog", "verify", &image], flags].concat());
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{signatures:?}: {}", ran.err);
        assert!(ran.err.contains(message) && ran.err.contains("hint: "), "{}", ran.err);
        let ran = olm(&[&["catalog", "verify", &image, "-o", "json"], flags].concat());
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            (ran.code, &answer["verified"], &answer["reason"]),
            (Some(1), &json!(false), &json!(reason))
        );
        assert_eq!(answer["refusals"].as_array().unwrap().len(), signatures.len());
    }
}

#[test]
fn t22_verify_refuses_a_command_line_that_anyone_would_meet() {
    let dir = tempfile::tempdir().unwrap();
    let image = layout(dir.path(), &["old-key"]);
    let key = flag("key.pub");
    for (flags, code, message) in [
        (&[][..], 2, "--key"),
        (&["--certificate-oidc-issuer", ISSUER], 2, "--certificate-identity"),
        (&["--certificate-identity", SUBJECT], 2, "--certificate-oidc-issuer: missing"),
        (&["--certificate-identity", SUBJECT, "--key", &key], 2, "cannot be used with"),
        (
            &["--certificate-identity-regexp", ".*", "--certificate-oidc-issuer", ISSUER],
            2,
            "matches the empty string",
        ),
        (&["--key", "no-such-file"], 3, "failed to read no-such-file"),
        (&["--key", "Cargo.toml"], 2, "--key: expected a PEM public key"),
    ] {
        let ran = olm(&[&["catalog", "verify", &image], flags].concat());
        assert_eq!(ran.code, Some(code), "{flags:?}: {}", ran.err);
        assert!(ran.err.contains(message), "{flags:?}: {}", ran.err);
    }
    let ran = olm(&["catalog", "verify", dir.path().join("oci-layout").to_str().unwrap(), "--key", &key]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("is not an image"), "{}", ran.err);
}
