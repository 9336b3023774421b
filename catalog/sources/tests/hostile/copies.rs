//! Copies for air-gapped clusters.

use std::fs;

use olm_catalog_sources::{Fetched, Source, copy_image, fetch};

use crate::{
    scene::{Scene, status},
    support::{ETCD, Image, expected, files},
};

#[tokio::test]
async fn a_copy_resumes_where_it_stopped_and_is_listed_when_complete() {
    // Given a registry that fails after the layer
    let scene = Scene::new().await;
    let config = scene.image.blobs.keys().find(|digest| *digest != scene.layer()).expect("a configuration");
    scene.registry.fault(config, 3, status(503));
    let (name, layout) = (format!("{}/org/catalog:v1", scene.registry.host()), scene.dest.clone());
    let error = copy_image(&name, &scene.options, &layout).await.expect_err("broken");
    assert!(error.is_transient(), "{error}");
    assert!(!layout.join("index.json").exists());
    scene.registry.asked();

    // When it is copied again
    let revision = copy_image(&name, &scene.options, &layout).await.expect("copied").revision;

    // Then the layer is not downloaded twice, and the copy can be read by the same name
    assert_eq!(scene.asked_for(scene.layer()), 0);
    let source = Source::OciLayout { path: layout.clone(), reference: Some(name.clone()) };
    let read = scene.folder.path().join("read");
    match fetch(&source, &scene.options, None, &read).await.expect("read") {
        Fetched::New { revision: copied, .. } => assert_eq!(copied, revision),
        other => panic!("{other:?}"),
    }
    assert_eq!(files(&read), expected(&[("etcd/catalog.json", ETCD)]));

    // And a newer image replaces it in the list
    scene.registry.push("v1", &Image::catalog("{}"));
    let newer = copy_image(&name, &scene.options, &layout).await.expect("copied").revision;
    let index = fs::read_to_string(layout.join("index.json")).expect("an index");
    assert!(index.contains(&newer.digest) && !index.contains(&revision.digest), "{index}");
}
