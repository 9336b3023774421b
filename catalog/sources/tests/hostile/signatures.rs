//! T22: discovery of signatures, in a registry with images pushed by cosign.

use std::{collections::BTreeMap, fs, path::PathBuf};

use olm_catalog_sources::{
    FoundSignatures, Mirror, Options, Source, SourceError, copy_image, copy_signatures, signatures,
};
use olm_signatures::{Reason, Requirement, Signature, Verifier};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    registry::{Fault, Registry},
    scene::status,
    support::{Image, options, sha256},
};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

#[derive(Deserialize)]
struct Fixture {
    image: String,
    simple: Vec<Simple>,
    bundles: Vec<String>,
}

#[derive(Deserialize)]
struct Simple {
    payload: String,
    annotations: BTreeMap<String, String>,
}

fn file(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../signatures/tests/fixtures").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixture(name: &str) -> Fixture {
    serde_json::from_slice(&file(&format!("{name}.json"))).expect("a fixture")
}

fn key() -> Verifier {
    let key = String::from_utf8(file("key.pub")).expect("PEM");
    Verifier::new(&Requirement { key: Some(key), ..Requirement::default() }).expect("a key")
}

/// A registry with the image of the fixtures' signatures.
struct Signed {
    registry: Registry,
    options: Options,
    digest: String,
}

impl Signed {
    async fn new() -> Self {
        let registry = Registry::start().await;
        let manifest = file("manifest.json");
        registry.push_manifest("v1", MANIFEST, &manifest);
        for blob in ["image-config.json", "image-layer.tar.gz"] {
            registry.push_blob(&file(blob));
        }
        let options = options(&registry.host());
        Self { options, registry, digest: sha256(&manifest) }
    }

    fn name(&self) -> String {
        format!("{}/org/catalog:v1", self.registry.host())
    }

    fn source(&self) -> Source {
        Source::Image { reference: self.name() }
    }

    async fn find(&self) -> Result<FoundSignatures, SourceError> {
        signatures(&self.source(), &self.options).await
    }

    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        self.registry.push_blob(bytes);
        json!({ "mediaType": media_type, "digest": sha256(bytes), "size": bytes.len() })
    }

    fn tag(&self, end: &str) -> String {
        format!("{}{end}", self.digest.replace(':', "-"))
    }

    /// As cosign 2 pushes them.
    fn push_simple(&self, name: &str) {
        let layers: Vec<Value> = fixture(name)
            .simple
            .iter()
            .map(|simple| {
                let mut layer = self.blob(SIMPLE, simple.payload.as_bytes());
                layer["annotations"] = json!(simple.annotations);
                layer
            })
            .collect();
        let config = self.blob("application/vnd.oci.image.config.v1+json", b"{}");
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
        self.registry.push_manifest(&self.tag(".sig"), MANIFEST, manifest.to_string().as_bytes());
    }

    /// As cosign 3 pushes them; returns the entry for the list of referrers.
    fn push_bundle(&self, name: &str, artifact_type: &str) -> Value {
        let layer = self.blob(BUNDLE, fixture(name).bundles[0].as_bytes());
        let config = self.blob("application/vnd.oci.empty.v1+json", b"{}");
        let subject = json!({ "mediaType": MANIFEST, "digest": self.digest, "size": 418 });
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
            "config": config, "layers": [layer], "subject": subject,
        });
        let bytes = manifest.to_string().into_bytes();
        self.registry.push_manifest("none", MANIFEST, &bytes);
        json!({ "mediaType": MANIFEST, "digest": sha256(&bytes), "size": bytes.len(), "artifactType": artifact_type })
    }

    /// In a registry from before OCI 1.1.
    fn push_fallback(&self, entries: &[Value]) {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }).to_string();
        self.registry.push_manifest(&self.tag(""), INDEX, index.as_bytes());
    }

    /// In a current registry.
    fn push_referrers(&self, entries: &[Value]) {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": entries }).to_string();
        let path = format!("/v2/org/catalog/referrers/{}", self.digest);
        self.registry.put_file(&path, &[("content-type", INDEX)], index.as_bytes());
    }
}

fn formats(found: &FoundSignatures) -> Vec<&'static str> {
    let format = |signature: &Signature| match signature {
        Signature::Simple { .. } => "simple",
        Signature::Bundle { .. } => "bundle",
    };
    found.signatures.iter().map(format).collect()
}

#[tokio::test]
async fn t22_both_formats_are_found_in_old_registries_and_in_new_ones() {
    // given a registry without referrers, with the artifact type that cosign 3 uses there
    let old = Signed::new().await;
    assert_eq!(old.digest, fixture("old-key").image);
    old.push_simple("old-key");
    let entry = old.push_bundle("new-key", "application/vnd.oci.empty.v1+json");
    old.push_fallback(&[entry]);
    // and one with referrers
    let new = Signed::new().await;
    let other = json!({ "mediaType": MANIFEST, "digest": sha256(b"sbom"), "size": 4, "artifactType": "application/spdx+json" });
    let entry = new.push_bundle("new-key", BUNDLE);
    new.push_referrers(&[other, entry]);
    for (signed, expected) in [(old, vec!["simple", "bundle"]), (new, vec!["bundle"])] {
        // when they are searched
        let found = signed.find().await.expect("found");
        // then they are found, for the image by its digest
        assert_eq!(formats(&found), expected);
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        assert_eq!(found.image, format!("{}/org/catalog@{}", signed.registry.host(), signed.digest));
        for signature in found.signatures {
            key().verify(&found.digest, &[signature]).expect("signed");
        }
    }
}

#[tokio::test]
async fn t22_an_image_without_signatures_is_not_signed_and_no_image_is_an_error() {
    let signed = Signed::new().await;
    let found = signed.find().await.expect("asked");
    assert_eq!(found.signatures, []);
    assert_eq!(key().verify(&found.digest, &found.signatures).expect_err("none").reason, Reason::NotSigned);
    let absent = Source::Image { reference: format!("{}/org/catalog:v2", signed.registry.host()) };
    let error = signatures(&absent, &signed.options).await.expect_err("no such image");
    assert!(matches!(error, SourceError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn t22_a_registry_that_does_not_answer_is_not_an_image_without_signatures() {
    for part in [".sig", "/referrers/"] {
        let signed = Signed::new().await;
        signed.registry.fault(part, 100, status(503));
        let error = signed.find().await.expect_err("not known");
        assert!(error.is_transient(), "{error}");
    }
}

#[tokio::test]
async fn t22_a_tag_that_moves_does_not_bring_the_signatures_of_another_image() {
    // given an image whose tag moves right after it was resolved
    let signed = Signed::new().await;
    signed.push_simple("old-key");
    signed.registry.fault("manifests/v1", 1, Fault::MoveTag("v1", Image::catalog("{}")));
    // when its signatures are searched, then they are those of the resolved image, and are reported for it
    let found = signed.find().await.expect("found");
    assert_eq!(found.digest, signed.digest);
    key().verify(&found.digest, &found.signatures).expect("signed");
    // and the other image has none
    let found = signed.find().await.expect("asked");
    assert_ne!(found.digest, signed.digest);
    assert_eq!(found.signatures, []);
}

#[tokio::test]
async fn t22_signatures_are_those_of_the_mirror_and_of_the_origin() {
    // given a mirror with only the image, and an origin with its signature
    let (mirror, origin) = (Signed::new().await, Signed::new().await);
    origin.push_simple("old-key");
    let mut options = origin.options.clone();
    options.plain_http.push(mirror.registry.host());
    options.mirrors = vec![Mirror { source: origin.registry.host(), mirrors: vec![mirror.registry.host()] }];
    let found = signatures(&origin.source(), &options).await.expect("found");
    assert_eq!(formats(&found), ["simple"]);
    // when the mirror has it as well, it counts once
    mirror.push_simple("old-key");
    let found = signatures(&origin.source(), &options).await.expect("found");
    assert_eq!(formats(&found), ["simple"]);
    // and when the origin cannot be reached, as in an air-gapped cluster, the signature of the mirror counts and the failure is reported
    origin.registry.fault("/v2/", 1000, status(503));
    let found = signatures(&origin.source(), &options).await.expect("found");
    assert_eq!((formats(&found), found.problems.len()), (vec!["simple"], 1));
}

#[tokio::test]
async fn t22_damaged_and_large_signatures_are_reported_and_do_not_hide_others() {
    let signed = Signed::new().await;
    signed.push_simple("old-key");
    let good = signed.push_bundle("new-key", BUNDLE);
    let damaged = signed.push_bundle("new-rsa", BUNDLE);
    let lost = json!({ "mediaType": MANIFEST, "digest": sha256(b"lost"), "size": 4, "artifactType": BUNDLE });
    let layer = json!({ "mediaType": BUNDLE, "digest": sha256(b"large"), "size": 1 << 30 });
    let config = signed.blob("application/vnd.oci.empty.v1+json", b"{}");
    let large =
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] }).to_string();
    signed.registry.push_manifest("none", MANIFEST, large.as_bytes());
    let large = json!({ "mediaType": MANIFEST, "digest": sha256(large.as_bytes()), "size": large.len(), "artifactType": BUNDLE });
    let blob = sha256(fixture("new-rsa").bundles[0].as_bytes());
    signed.registry.fault(&blob, 100, Fault::Replace(b"{}".to_vec()));
    signed.push_referrers(&[damaged, lost, large, good]);
    let found = signed.find().await.expect("found");
    assert_eq!(formats(&found), ["simple", "bundle"]);
    assert_eq!(found.problems.len(), 3, "{:?}", found.problems);
    key().verify(&found.digest, &found.signatures).expect("signed");
}

#[tokio::test]
async fn t22_many_large_signatures_are_read_up_to_a_bound() {
    let signed = Signed::new().await;
    let config = signed.blob("application/vnd.oci.image.config.v1+json", b"{}");
    let mut layers: Vec<Value> = (0..8u8).map(|n| signed.blob(SIMPLE, &vec![n; 1 << 20])).collect();
    layers[0]["annotations"] = json!({ "a": "x".repeat(10) });
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
    signed.registry.push_manifest(&signed.tag(".sig"), MANIFEST, manifest.to_string().as_bytes());
    let found = signed.find().await.expect("found");
    assert_eq!((found.signatures.len(), found.problems.len()), (1, 7));
    assert!(found.problems[0].contains("exceed 2097152 bytes"), "{}", found.problems[0]);
}

#[tokio::test]
async fn t22_a_copy_has_the_signatures_of_the_image() {
    // given an image with signatures in both formats
    let signed = Signed::new().await;
    signed.push_simple("old-key");
    let entry = signed.push_bundle("new-key", BUNDLE);
    signed.push_referrers(&[entry]);
    let folder = tempfile::tempdir().expect("a folder");
    let layout = folder.path().join("mirror");
    // when it is copied with them
    let image = copy_image(&signed.name(), &signed.options, &layout).await.expect("copied");
    let copied = copy_signatures(&signed.name(), &image.revision.digest, &signed.options, &layout)
        .await
        .expect("copied");
    assert_eq!(copied.tags, [signed.tag(".sig"), signed.tag("")]);
    // then they are found in the copy, where the image is still the only one
    for reference in [None, Some(signed.name()), Some(signed.digest.clone())] {
        let source = Source::OciLayout { path: layout.clone(), reference };
        let found = signatures(&source, &signed.options).await.expect("found");
        assert_eq!(formats(&found), ["simple", "bundle"]);
        for signature in found.signatures {
            key().verify(&found.digest, &[signature]).expect("signed");
        }
    }
    // and nothing is downloaded again
    let again =
        copy_signatures(&signed.name(), &signed.digest, &signed.options, &layout).await.expect("copied");
    assert!(again.bytes < copied.bytes, "{} {}", again.bytes, copied.bytes);
    // and an image without signatures has none in the copy, which is not an error
    let other = Signed::new().await;
    let none = copy_signatures(&other.name(), &other.digest, &other.options, &layout).await.expect("asked");
    assert!(none.tags.is_empty());
}
