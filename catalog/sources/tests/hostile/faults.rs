//! Servers that are busy, broken, slow, or send wrong content.

use std::time::Duration;

use olm_catalog_sources::Limits;

use crate::{
    registry::Fault,
    scene::{Scene, status},
    support::Image,
};

#[tokio::test]
async fn a_registry_that_is_busy_is_asked_again() {
    let scene = Scene::new().await;
    scene.registry.fault("/manifests/", 2, Fault::Status(429, vec![("retry-after", "0".to_owned())]));
    scene.registry.fault("/blobs/", 2, status(503));
    scene.good().await;
    assert_eq!(scene.asked_for("/manifests/"), 3);
}

#[tokio::test]
async fn patience_ends_with_the_last_reason() {
    let scene = Scene::new().await;
    scene.registry.fault("/manifests/", 99, status(503));
    let error = scene.bad().await;
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(text.contains("after 3 attempts") && text.contains("503"), "{text}");
    assert_eq!(scene.asked_for("/manifests/"), 3);
}

#[tokio::test]
async fn what_is_not_there_is_asked_for_once() {
    for code in [404, 403, 400] {
        let scene = Scene::new().await;
        scene.registry.fault("/manifests/", 99, status(code));
        let error = scene.bad().await;
        assert!(!error.is_transient(), "{error}");
        assert_eq!(scene.asked_for("/manifests/"), 1, "{error}");
    }
}

#[tokio::test]
async fn a_broken_download_resumes_where_it_broke() {
    let scene = Scene::new().await;
    scene.registry.fault(scene.layer(), 1, Fault::Cut(20));
    scene.good().await;
    let ranges: Vec<_> = scene.registry.asked().into_iter().filter_map(|a| a.range).collect();
    assert_eq!(ranges, ["bytes=20-"]);
}

#[tokio::test]
async fn a_broken_download_starts_over_where_ranges_are_unknown() {
    let scene = Scene::new().await;
    scene.registry.without_ranges();
    scene.registry.fault(scene.layer(), 2, Fault::Cut(20));
    scene.good().await;
}

#[tokio::test]
async fn a_blob_that_is_always_cut_off_reports_the_offset() {
    let scene = Scene::new().await;
    scene.registry.without_ranges();
    scene.registry.fault(scene.layer(), 99, Fault::Cut(20));
    let text = scene.bad().await.to_string();
    assert!(text.contains("interrupted after 20 of") && text.contains("3 attempts"), "{text}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    for fault in [Fault::Hang, Fault::Stall(10)] {
        let mut scene = Scene::new().await;
        scene.options.timeouts.read_timeout = Duration::from_millis(100);
        scene.registry.fault(scene.layer(), 99, fault);
        let error = scene.bad().await;
        assert!(error.is_transient() && error.to_string().contains("3 attempts"), "{error}");
    }
}

#[tokio::test]
async fn wrong_content_is_never_taken() {
    // Given other content of the same length behind a digest, and of another length
    let scene = Scene::new().await;
    let length = scene.image.blobs[scene.layer()].len();
    scene.registry.fault(scene.layer(), 1, Fault::Replace(vec![0; length]));
    let error = scene.bad().await;
    assert_eq!(error.code(), "DigestMismatch");
    assert_eq!(scene.asked_for(scene.layer()), 1, "asking again would not help");

    scene.registry.fault(scene.layer(), 1, Fault::Replace(vec![0; length + 1]));
    assert!(scene.bad().await.to_string().contains("longer than"));

    // And other content behind a manifest's digest
    let name = format!("org/catalog@{}", scene.image.digest());
    scene.registry.fault("/manifests/", 1, Fault::Replace(Image::catalog("other").manifest));
    let error = scene.fetch(&name, None).await.expect_err("failed");
    assert_eq!(error.code(), "DigestMismatch");
}

#[tokio::test]
async fn nothing_is_read_without_an_end() {
    let mut scene = Scene::new().await;
    scene.options.limits = Limits { manifest_bytes: 100_000, ..Limits::default() };
    scene.registry.fault("/manifests/", 1, Fault::Endless);
    let text = scene.bad().await.to_string();
    assert!(text.contains("raise `limits.manifest_bytes`"), "{text}");

    scene.registry.fault("/manifests/", 1, Fault::Replace(vec![b' '; 200_000]));
    assert_eq!(scene.bad().await.code(), "LimitExceeded");

    scene.registry.fault(scene.layer(), 1, Fault::Endless);
    assert!(scene.bad().await.to_string().contains("longer than"));

    // An endless error page is not read either
    scene.registry.fault("/token", 1, Fault::Endless);
    scene.registry.guard("Bearer x", &format!("Bearer realm=\"http://{}/token\"", scene.registry.host()));
    assert_eq!(scene.bad().await.code(), "LimitExceeded");
}

#[tokio::test]
async fn sizes_are_limited_before_anything_is_downloaded() {
    let mut scene = Scene::new().await;
    scene.options.limits.download_bytes = 50;
    let text = scene.bad().await.to_string();
    assert!(text.contains("limits.download_bytes"), "{text}");
    assert_eq!(scene.asked_for("/blobs/"), 0);
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let scene = Scene::new().await;
    let location = format!("http://{}/v2/org/catalog/manifests/v1", scene.registry.host());
    scene.registry.fault("/manifests/", 99, Fault::Status(302, vec![("location", location)]));
    let text = scene.bad().await.to_string();
    assert!(text.contains("too many redirects"), "{text}");
}
