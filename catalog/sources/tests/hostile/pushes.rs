//! Registries that refuse pushes, and the requests of a push.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use olm_catalog_sources::{Observer, Pushed, SourceError, Transferred, image_platforms, push_image};
use serde_json::json;

use crate::{
    registry::Fault,
    scene::{Scene, login, status},
    support::Image,
};

/// An image in a layout, to be pushed to `team/olm:v1`.
struct Push {
    scene: Scene,
    image: Image,
    layout: PathBuf,
    target: String,
}

impl Push {
    async fn new() -> Self {
        let mut scene = Scene::new().await;
        let host = scene.registry.host();
        scene.options.credentials = login(&host, "bob", "hunter2");
        let (image, layout) = (Image::catalog("{}"), scene.folder.path().join("layout"));
        image.write_layout(&layout, "v1");
        Self { target: format!("{host}/team/olm:v1"), scene, image, layout }
    }

    async fn run(&self) -> Result<Pushed, SourceError> {
        push_image(&self.layout, &self.image.digest(), &self.target, &self.scene.options).await
    }

    /// A refused push: its message, which begins with the target.
    async fn denied(&self) -> String {
        let error = self.run().await.expect_err("denied");
        assert_eq!(error.code(), "AccessDenied", "{error}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("failed to push {}: access denied (", self.target)), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        text
    }
}

#[tokio::test]
async fn a_push_without_the_right_names_the_repository_and_the_credentials() {
    // Given a token service that refuses the credentials, and one whose token permits reading only
    for refuses in [true, false] {
        let push = Push::new().await;
        let (registry, host) = (&push.scene.registry, push.scene.registry.host());
        registry.guard("Bearer may-push", &format!("Bearer realm=\"http://{host}/token\""));
        registry.put_file("/token", &[], b"{\"token\":\"may-read\"}");
        if refuses {
            registry.fault("/token", 9, status(403));
        }
        // When an image is pushed
        let text = push.denied().await;
        // Then the message names them, and the requested token has the scope of a push
        assert!(text.contains("(401)"), "{text}");
        assert!(text.contains(&format!("tried secret olm/pull, entry {host} (user bob)")), "{text}");
        assert!(text.ends_with("check their push permission"), "{text}");
        let asked = registry.asked();
        let token = asked.iter().find(|asked| asked.path.starts_with("/token")).expect("a request");
        assert!(token.path.contains("scope=repository%3Ateam%2Folm%3Apull%2Cpush"), "{}", token.path);
    }
}

#[tokio::test]
async fn credentials_that_a_registry_does_not_ask_for_were_not_tried() {
    let push = Push::new().await;
    push.scene.registry.fault("/blobs/uploads/", 9, status(403));
    let text = push.denied().await;
    let why = format!("{} refused the request without asking for credentials", push.scene.registry.host());
    assert!(text.ends_with(&why), "{text}");
}

#[tokio::test]
async fn a_read_only_registry_is_reported() {
    let push = Push::new().await;
    push.scene.registry.fault("/blobs/uploads/", 9, status(405));
    let text = push.run().await.expect_err("refused").to_string();
    assert!(
        text.starts_with(&format!("failed to push {}: the registry is read-only (405)", push.target)),
        "{text}"
    );
}

#[tokio::test]
async fn a_repeated_upload_counts_once_in_the_progress() {
    let mut seen = Vec::new();
    for failures in [0, 2] {
        // Given a registry that receives a blob, and fails
        let mut push = Push::new().await;
        let totals = Arc::new(Mutex::new((0, 0)));
        let counted = Arc::clone(&totals);
        push.scene.options.observer = Observer::new(move |change| {
            let mut counted = counted.lock().expect("not poisoned");
            match change {
                Transferred::Began(bytes) => counted.0 += bytes,
                Transferred::Ended(missing) => counted.0 -= missing,
                Transferred::Bytes(bytes) => counted.1 += bytes,
                Transferred::Lost(bytes) => counted.1 -= bytes,
            }
        });
        push.scene.registry.fault("/v2/upload/", failures, status(503));
        // When the push succeeds later
        push.run().await.expect("pushed");
        seen.push(*totals.lock().expect("not poisoned"));
    }
    // Then the totals are those of a push without a failure
    let (expected, moved) = seen[0];
    assert!(expected > 0 && expected == moved, "{seen:?}");
    assert_eq!(seen[0], seen[1]);
}

/// Many registries do not allow deletions.
#[tokio::test]
async fn a_push_deletes_nothing() {
    let push = Push::new().await;
    push.run().await.expect("pushed");
    let asked = push.scene.registry.asked();
    let last = asked.last().expect("requests");
    assert_eq!((last.method.as_str(), last.path.as_str()), ("PUT", "/v2/team/olm/manifests/v1"));
    assert!(asked.iter().all(|asked| ["HEAD", "POST", "PUT"].contains(&asked.method.as_str())), "{asked:?}");
}

#[tokio::test]
async fn platforms_are_those_of_the_index_or_of_the_configuration() {
    let scene = Scene::new().await;
    let here = if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" };
    let name = |tag: &str| format!("{}/org/catalog:{tag}", scene.registry.host());
    assert_eq!(image_platforms(&name("v1"), &scene.options).await.expect("found"), [here]);
    let entry = |os: &str, architecture: &str| {
        let mut entry = scene.image.descriptor();
        entry["platform"] = json!({"os": os, "architecture": architecture});
        entry
    };
    let index = "application/vnd.oci.image.index.v1+json";
    let manifests = [entry("linux", "arm64"), entry("unknown", "unknown"), entry("linux", "s390x")];
    let list = json!({"schemaVersion": 2, "mediaType": index, "manifests": manifests}).to_string();
    scene.registry.push_manifest("v2", index, list.as_bytes());
    let found = image_platforms(&name("v2"), &scene.options).await.expect("found");
    assert_eq!(found, ["linux/arm64", "linux/s390x"]);
    // A configuration without an end is not read.
    let config = scene.image.blobs.keys().find(|digest| *digest != scene.layer()).expect("a configuration");
    scene.registry.fault(config, 1, Fault::Endless);
    assert_eq!(
        image_platforms(&name("v1"), &scene.options).await.expect_err("endless").code(),
        "LimitExceeded"
    );
}
