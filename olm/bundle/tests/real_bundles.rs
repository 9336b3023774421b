//! Every real bundle is described as in upstream.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use olm_bundle::{Bundle, bundle_properties};
use serde_json::Value;

#[test]
fn properties_equal_those_of_opm() {
    let (Some(recorded), Some(root)) =
        (common::data("recorded/opm/render-dev.jsonl"), common::data("bundles/operators"))
    else {
        return;
    };
    let normal = |type_: &str, value: &Value| {
        let mut value = value.clone();
        value.sort_all_objects();
        format!("{type_} {value}")
    };
    let mut differences = Vec::new();
    for line in common::json_lines(&recorded) {
        let dir = line["dir"].as_str().unwrap();
        let blob = &line["blob"];
        let bundle = Bundle::from_dir(&root.join(dir)).unwrap();
        assert_eq!(blob["name"], bundle.name(), "{dir}");
        assert_eq!(blob["package"].as_str(), bundle.package(), "{dir}");
        // opm adds display metadata, which the catalog reads from the CSV itself.
        let expected: Vec<&Value> = blob["properties"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|p| p["type"] != "olm.csv.metadata")
            .collect();
        let mut expected: Vec<String> =
            expected.iter().map(|p| normal(p["type"].as_str().unwrap(), &p["value"])).collect();
        expected.sort();
        let mut ours: Vec<String> = bundle_properties(&bundle, bundle.package().unwrap())
            .iter()
            .map(|property| normal(&property.type_, &property.value))
            .collect();
        ours.sort();
        if ours != expected {
            differences.push(format!("{dir}: ours {ours:#?} opm {expected:#?}"));
        }
    }
    assert!(differences.is_empty(), "{} differ: {}", differences.len(), differences.join("\n"));
}
