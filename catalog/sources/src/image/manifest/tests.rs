use serde_json::json;

use super::*;

fn pinned(document: &serde_json::Value) -> Pinned {
    let media_type = Some("application/vnd.oci.image.manifest.v1+json".to_owned());
    Pinned::new("the manifest", document.to_string().into_bytes(), media_type, None).expect("pinned")
}

fn descriptor(platform: Option<(&str, &str)>) -> Descriptor {
    Descriptor {
        media_type: "application/vnd.oci.image.layer.v1.tar+gzip".into(),
        digest: Digest::of(b"x"),
        size: 1,
        artifact_type: None,
        platform: platform.map(|(os, architecture)| Platform {
            architecture: architecture.into(),
            os: os.into(),
            variant: None,
        }),
        annotations: None,
    }
}

fn here() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

#[test]
fn the_image_of_this_machine_is_chosen() {
    let list = [descriptor(Some(("linux", "s390x"))), descriptor(Some(("linux", here())))];
    let chosen = choose("x", &list).expect("one");
    assert_eq!(chosen.platform.as_ref().map(|p| p.architecture.as_str()), Some(here()));
}

#[test]
fn the_only_image_is_chosen_whatever_it_is_for_and_attestations_are_none() {
    let list = [descriptor(Some(("linux", "s390x"))), descriptor(Some(("unknown", "unknown")))];
    assert!(choose("x", &list).is_ok());
    assert!(choose("x", &[descriptor(None)]).is_ok());
}

#[test]
fn no_choice_is_made_blindly() {
    let list =
        [descriptor(Some(("linux", "s390x"))), descriptor(Some(("windows", here()))), descriptor(None)];
    let error = choose("x", &list).expect_err("three").to_string();
    assert!(error.contains("linux/s390x") && error.contains("none given"), "{error}");
    assert!(choose("x", &[]).is_err());
}

#[test]
fn documents_of_two_minds_are_refused() {
    let layer = json!({"mediaType": "m", "digest": Digest::of(b"x").to_string(), "size": 1});
    for (document, reason) in [
        (json!({"schemaVersion": 1, "fsLayers": []}), "Docker manifest schema 1"),
        (json!({"schemaVersion": 2}), "neither an index"),
        (json!({"schemaVersion": 2, "manifests": [], "config": layer, "layers": []}), "neither an index"),
        (
            json!({"schemaVersion": 2, "config": layer, "layers": [],
                   "mediaType": "application/vnd.oci.image.index.v1+json"}),
            "but its media type is",
        ),
        (json!({"schemaVersion": 2, "config": {"digest": "sha256:0", "size": 1}, "layers": []}), "64"),
        (
            json!({"schemaVersion": 2, "config": {"digest": layer["digest"], "size": -1}, "layers": []}),
            "not an image manifest",
        ),
        (json!({"schemaVersion": 2, "config": layer, "layers": vec![layer.clone(); 600]}), "600 layers"),
        (json!("text"), "not an image manifest"),
    ] {
        let Err(error) = pinned(&document).parse() else { panic!("accepted: {document}") };
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn layers_are_archives_and_nothing_else() {
    let of = |media_type: &str| Descriptor { media_type: media_type.into(), ..descriptor(None) };
    for good in [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ] {
        assert!(check_layer("x", &of(good)).is_ok(), "{good}");
    }
    for bad in ["", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "application/vnd.wasm"] {
        assert!(check_layer("x", &of(bad)).is_err(), "{bad}");
    }
}

#[test]
fn labels_may_be_missing() {
    for document in ["{}", r#"{"config": null}"#, r#"{"config": {"Labels": null}}"#] {
        let config = ImageConfig::parse("the image", document.into()).expect(document);
        assert!(config.labels.is_empty() && config.check_platform("the image").is_ok());
    }
}

#[test]
fn an_image_of_another_platform_does_not_run_here() {
    let check = |os: &str, architecture: &str| {
        let document = format!(r#"{{"os": "{os}", "architecture": "{architecture}"}}"#);
        ImageConfig::parse("the image", document.into()).expect("parsed").check_platform("the image")
    };
    assert!(check("linux", architecture()).is_ok());
    let error = check("linux", "pdp11").expect_err("refused").to_string();
    assert!(error.contains("it is an image for linux/pdp11, this machine runs linux/"), "{error}");
    assert!(check("windows", architecture()).is_err());
}
