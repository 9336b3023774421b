//! Comparison with `opm validate` on its 60 recorded cases, and with whole real catalogs.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::data;
use olm_catalog::{Catalog, Problem, Severity};
use serde_json::Value;

fn errors(catalog: &Catalog) -> Vec<&Problem> {
    catalog.problems.iter().filter(|problem| problem.severity == Severity::Error).collect()
}

/// Cases that opm accepts with a warning, by the README of the data.
const WARNED: [(&str, &str); 6] = [
    ("icon-no-mediatype", "icon-"),
    ("icon-bad-type", "icon-"),
    ("related-image-empty", "related-image-empty"),
    ("property-without-type", "property-incomplete"),
    ("package-required-bad-range", "requirement-range"),
    ("constraint-unknown-key", "constraint-key"),
];

#[test]
fn rejects_what_opm_rejects_and_accepts_what_it_accepts() {
    let Some(dir) = data("recorded/opm/validate") else { return };
    let expected = std::fs::read_to_string(dir.join("expected.jsonl")).unwrap();
    let mut differences = Vec::new();
    let mut count = 0;
    for line in expected.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let case = line["case"].as_str().unwrap();
        let catalog = Catalog::load_dir(&dir.join("cases").join(case));
        let errors = errors(&catalog);
        if errors.is_empty() != (line["exit"] == 0) {
            differences
                .push(format!("{case}: opm reports {}, expected {:#?}", line["stderr"], catalog.problems));
        }
        if let Some((_, code)) = WARNED.iter().find(|(name, _)| *name == case)
            && !catalog.problems.iter().any(|problem| problem.code.starts_with(code))
        {
            differences.push(format!("{case}: no warning {code}: {:#?}", catalog.problems));
        }
        count += 1;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(count, 60);
}

fn load(path: &Path) -> Option<Catalog> {
    let bytes = if path.extension().is_some_and(|extension| extension == "zst") {
        let Ok(output) = Command::new("zstd").args(["-dc"]).arg(path).output() else {
            println!("skipped: {} needs the command zstd", path.display());
            return None;
        };
        output.stdout
    } else {
        std::fs::read(path).unwrap()
    };
    let start = Instant::now();
    let catalog = Catalog::from_bytes(&path.display().to_string(), &bytes);
    println!("{}: {} bytes in {:?}", path.display(), bytes.len(), start.elapsed());
    Some(catalog)
}

#[test]
fn whole_real_catalogs_load() {
    for (file, packages, channels, bundles) in [
        ("catalogs/community-dev.json", 43, 115, 192),
        ("catalogs/certified-full.json.zst", 297, 747, 2_024),
        ("catalogs/community-full.json.zst", 333, 628, 6_448),
    ] {
        let Some(path) = data(file) else { continue };
        let Some(catalog) = load(&path) else { continue };
        for problem in catalog.problems.iter().take(20) {
            println!("{problem}");
        }
        assert_eq!(errors(&catalog), Vec::<&Problem>::new(), "{file}");
        assert_eq!(catalog.len(), packages, "{file}");
        assert_eq!(catalog.summaries().map(|p| p.channels.len()).sum::<usize>(), channels, "{file}");
        assert_eq!(catalog.summaries().map(|p| p.versions).sum::<usize>(), bundles, "{file}");
        for summary in catalog.summaries() {
            let package = catalog.package(&summary.name).unwrap().unwrap();
            assert!(package.head().is_some(), "{}", package.name);
            for channel in package.channels.values() {
                assert!(!channel.chain().is_empty(), "{} {}", package.name, channel.name);
            }
        }
        if packages == 333 {
            let start = Instant::now();
            let hits = catalog.search("postgres");
            println!("first search {:?}: {:?}", start.elapsed(), hits.iter().take(5).collect::<Vec<_>>());
            let start = Instant::now();
            assert_eq!(catalog.search("EtcdCluster")[0].package, "etcd");
            println!("next search {:?}", start.elapsed());
        }
    }
}

#[test]
fn real_yaml_catalogs_load() {
    let Some(dir) = data("bundles/catalogs") else { return };
    let catalog = Catalog::load_dir(&dir);
    for problem in catalog.problems.iter().take(20) {
        println!("{problem}");
    }
    assert!(!catalog.is_empty());
}
