//! Every real bundle parses, is judged and is described as upstream describes it.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use olm_bundle::{Bundle, Severity, bundle_properties, yaml};
use serde_json::Value;

/// The package-manifest format has no metadata; its manifests make a bundle all the same.
fn from_manifests(dir: &Path) -> Result<Bundle, olm_bundle::BundleError> {
    let mut objects = Vec::new();
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.is_file()) {
        for document in yaml::documents(&file.display().to_string(), &fs::read(file).unwrap())? {
            objects.push(document.value);
        }
    }
    Bundle::from_objects(objects)
}

#[test]
fn every_real_bundle_parses_and_is_judged() {
    let Some(root) = common::data("bundles") else { return };
    let mut count = 0;
    let mut by_code: BTreeMap<String, usize> = BTreeMap::new();
    let mut broken = Vec::new();
    type Load = fn(&Path) -> Result<Bundle, olm_bundle::BundleError>;
    for (folder, load) in
        [("operators", Bundle::from_dir as Load), ("packagemanifests", from_manifests as Load)]
    {
        for package in common::folders(&root.join(folder)) {
            for version in common::folders(&package) {
                if folder == "operators" && !version.join("manifests").exists() {
                    continue;
                }
                count += 1;
                match load(&version) {
                    Ok(bundle) => {
                        for finding in bundle.validate() {
                            assert!(!finding.field.is_empty() && !finding.text.is_empty(), "{finding:?}");
                            *by_code
                                .entry(format!("{:?} {}", finding.severity, finding.code))
                                .or_default() += 1;
                            if finding.severity == Severity::Error {
                                println!(
                                    "{}: {} {}: {}",
                                    version.display(),
                                    finding.code,
                                    finding.field,
                                    finding.text
                                );
                            }
                        }
                    }
                    Err(error) => broken.push(error.to_string()),
                }
            }
        }
    }
    println!("{count} bundles, findings {by_code:#?}");
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(count >= 217, "{count}");
}

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
        // What opm adds for people to see is what the catalog reads from the CSV itself.
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
