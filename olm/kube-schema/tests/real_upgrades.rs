//! Changes between consecutive versions of real operators: the counts are pinned, to detect changes of the
//! rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use olm_kube_schema::{ChangeCode, LiveReport, Severity, check_objects, compare};
use semver::Version;
use serde::Deserialize;
use serde_json::Value;

/// Findings of all upgrades by rule.
const COUNTS: &[(&str, &str, usize)] = &[
    ("breaking", "stored-version-removed", 8),
    ("breaking", "version-removed", 16),
    ("breaking", "type-changed", 11),
    ("breaking", "required-added", 36),
    ("breaking", "property-removed", 88),
    ("breaking", "unknown-fields-pruned", 41),
    ("breaking", "map-to-fields", 2),
    ("breaking", "enum-added", 4),
    ("breaking", "enum-value-removed", 1),
    ("breaking", "length-narrowed", 5),
    ("breaking", "pattern-added", 56),
    ("breaking", "format-changed", 8),
    ("breaking", "list-type-changed", 7),
    ("breaking", "logic-added", 1),
    ("breaking", "rule-added", 8),
    ("careful", "storage-version-changed", 13),
    ("careful", "conversion-webhook-added", 1),
    ("careful", "status-subresource-added", 4),
    ("careful", "type-changed", 4),
    ("careful", "fields-validated", 81),
    ("careful", "fields-to-map", 2),
    ("careful", "default-added", 8),
    ("careful", "logic-changed", 11),
    ("safe", "version-added", 13),
    ("safe", "version-deprecated", 1),
    ("safe", "map-type-changed", 47),
];

fn operators() -> Option<PathBuf> {
    let root = std::env::var("OLM_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let dir = Path::new(&root).join("bundles/operators");
    if dir.is_dir() {
        return Some(dir);
    }
    println!("skipped: real upgrades: no data at {}", dir.display());
    None
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Manifests of a version of an operator.
#[derive(Default)]
struct Bundle {
    crds: BTreeMap<String, Value>,
    examples: Vec<Value>,
}

fn bundle(dir: &Path) -> Bundle {
    let mut bundle = Bundle::default();
    let manifests = fs::read_dir(dir.join("manifests")).into_iter().flatten().flatten();
    for file in manifests.map(|entry| entry.path()) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !text.contains("CustomResourceDefinition") && !text.contains("ClusterServiceVersion") {
            continue;
        }
        for document in serde_yaml::Deserializer::from_str(&text) {
            let Ok(object) = Value::deserialize(document) else { break };
            match object["kind"].as_str() {
                Some("CustomResourceDefinition") => {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    bundle.crds.insert(name, object);
                }
                Some("ClusterServiceVersion") => {
                    let examples =
                        object["metadata"]["annotations"]["alm-examples"].as_str().unwrap_or_default();
                    bundle.examples = serde_json::from_str(examples).unwrap_or_default();
                }
                _ => {}
            }
        }
    }
    bundle
}

/// The versions of a package in order.
fn versions(package: &Path) -> Vec<(Version, Bundle)> {
    let mut versions: Vec<(Version, Bundle)> = folders(package)
        .iter()
        .filter_map(|dir| {
            let version = Version::parse(name(dir).trim_start_matches('v')).ok()?;
            Some((version, bundle(dir)))
        })
        .collect();
    versions.sort_by(|a, b| a.0.cmp(&b.0));
    versions
}

#[test]
fn real_upgrades_have_the_recorded_findings() {
    let Some(operators) = operators() else { return };
    let mut counts: BTreeMap<(Severity, ChangeCode), usize> = BTreeMap::new();
    let (mut steps, mut compared, mut clean, mut refused) = (0, 0, 0, 0);
    let mut examples = LiveReport::default();
    let mut missed = Vec::new();
    for package in folders(&operators) {
        let versions = versions(&package);
        let mut row: BTreeMap<Severity, usize> = BTreeMap::new();
        for pair in versions.windows(2) {
            let [(before, old), (after, new)] = pair else { continue };
            steps += 1;
            for (name, live) in &old.crds {
                let Some(next) = new.crds.get(name) else { continue };
                compared += 1;
                let changes = compare(live, next);
                for change in &changes {
                    *counts.entry((change.severity, change.code)).or_default() += 1;
                    *row.entry(change.severity).or_default() += 1;
                }
                let breaking = changes.iter().any(|change| change.severity == Severity::Breaking);
                let harmless = changes.iter().all(|change| change.severity == Severity::Safe);
                clean += usize::from(harmless);
                refused += usize::from(breaking);
                // given sample objects that are valid under the old definition
                let (group, kind) = (&live["spec"]["group"], &live["spec"]["names"]["kind"]);
                let objects: Vec<&Value> = old
                    .examples
                    .iter()
                    .filter(|object| object["kind"] == *kind)
                    .filter(|object| {
                        let api = object["apiVersion"].as_str().and_then(|api| api.split_once('/'));
                        api.is_some_and(|(of, _)| *group == of)
                    })
                    .filter(|object| check_objects(live, [*object]).is_clean())
                    .collect();
                // when they are checked against the new one
                let report = check_objects(next, objects.iter().copied());
                examples.checked += report.checked;
                examples.failing += report.failing;
                examples.losing += report.losing;
                // then a change reported as harmless is harmless
                if harmless && (report.failing > 0 || report.losing > 0) {
                    missed.push(format!("{name} {before} to {after}: {report:?}"));
                }
            }
        }
        let of = |severity| row.get(&severity).copied().unwrap_or_default();
        println!(
            "{:<45}{:>6} breaking {:>6} careful {:>6} safe",
            name(&package),
            of(Severity::Breaking),
            of(Severity::Careful),
            of(Severity::Safe)
        );
    }
    for ((severity, code), count) in &counts {
        println!("{:<10}{:<32}{count:>6}", severity.as_str(), code.as_str());
    }
    println!(
        "{steps} upgrades, {compared} definitions, {clean} unchanged or safe, {refused} with breaking changes"
    );
    println!(
        "{} sample objects: {} refused, {} lose fields",
        examples.checked, examples.failing, examples.losing
    );
    assert!(missed.is_empty(), "changes that were missed:\n{}", missed.join("\n"));
    let found: Vec<(&str, &str, usize)> =
        counts.iter().map(|((severity, code), count)| (severity.as_str(), code.as_str(), *count)).collect();
    assert_eq!((steps, compared, clean, refused), (149, 337, 251, 53));
    assert_eq!((examples.checked, examples.failing, examples.losing), (229, 4, 6));
    assert_eq!(found, COUNTS);
}
