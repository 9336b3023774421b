//! `render_fbc` equals the output of `opm render --migrate` for the same bundles.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use base64::Engine;
use olm_bundle::{Bundle, Manifests, render_fbc, render_fbc_with};
use serde_json::Value;

/// Maps sorted by key, and lists with a random order upstream sorted by content.
fn normal(mut document: Value) -> Value {
    document.sort_all_objects();
    for key in ["properties", "relatedImages"] {
        if let Some(list) = document.get_mut(key).and_then(Value::as_array_mut) {
            list.sort_by_cached_key(Value::to_string);
        }
    }
    document
}

fn recorded() -> Option<Vec<(String, Bundle, Value)>> {
    let (recorded, root) =
        (common::data("recorded/opm/render-dev.jsonl")?, common::data("bundles/operators")?);
    let read = |line: Value| {
        let dir = line["dir"].as_str().unwrap().to_owned();
        let bundle = Bundle::from_dir(&root.join(&dir)).unwrap();
        (dir, bundle, line["blob"].clone())
    };
    Some(common::json_lines(&recorded).into_iter().map(read).collect())
}

#[test]
fn every_bundle_renders_as_opm_renders_it() {
    // given the output of opm for each real bundle
    let Some(recorded) = recorded() else { return };
    assert!(recorded.len() >= 192, "{}", recorded.len());

    // when each is rendered with the image of the recording
    for (dir, bundle, expected) in recorded {
        let ours = normal(render_fbc(&bundle, expected["image"].as_str().unwrap()));
        let expected = normal(expected);

        // then nothing differs: name, package, image, every property with its value, every related image
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&ours), keys(&expected), "{dir}");
        for key in keys(&expected) {
            let (ours, expected) = (&ours[&key], &expected[&key]);
            for (ours, expected) in
                ours.as_array().into_iter().flatten().zip(expected.as_array().into_iter().flatten())
            {
                assert_eq!(ours, expected, "{dir}: {key}");
            }
            assert_eq!(ours, expected, "{dir}: {key}");
        }
    }
}

#[test]
fn the_order_is_that_of_opm() {
    let Some(recorded) = recorded() else { return };
    let order = |document: &Value| -> Vec<String> {
        let properties = document["properties"].as_array().unwrap().iter();
        let properties = properties.map(|property| property["type"].to_string());
        let images = document["relatedImages"].as_array().unwrap().iter();
        properties.chain(images.map(|image| image["image"].to_string())).collect()
    };
    for (dir, bundle, expected) in recorded {
        let ours = render_fbc(&bundle, expected["image"].as_str().unwrap());
        assert_eq!(order(&ours), order(&expected), "{dir}");
    }
}

#[test]
fn with_objects_the_bundle_can_be_read_back() {
    let Some(root) = common::data("bundles/operators") else { return };
    let bundle = Bundle::from_dir(&root.join("ack-rds-controller/0.1.3")).unwrap();

    // given a rendering without image, with its manifests
    let document = render_fbc_with(&bundle, "", Manifests::Objects);
    assert!(document.get("image").is_none());

    // when the manifests are read out of it
    let data = document["properties"].as_array().unwrap().iter();
    let data = data.filter(|property| property["type"] == "olm.bundle.object");
    let objects = data.map(|property| {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(property["value"]["data"].as_str().unwrap())
            .unwrap();
        serde_json::from_slice(&bytes).unwrap()
    });
    let again = Bundle::from_objects(objects.collect()).unwrap();

    // then it is the same bundle
    assert_eq!(again.csv_raw, bundle.csv_raw);
    assert_eq!(again.objects, bundle.objects);
}
