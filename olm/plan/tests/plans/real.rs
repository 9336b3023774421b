//! Plans of real bundles.

use std::path::PathBuf;

use olm_bundle::Bundle;
use olm_plan::{Op, plan_schema};
use olm_resolver::Version;

use crate::world::*;

/// The version directories of every package, oldest first; none without the data.
fn packages() -> Vec<Vec<PathBuf>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var("OLM_SHARED_DATA").unwrap_or_else(|_| default.to_owned());
    let root = std::path::Path::new(&root).join("bundles/operators");
    if !root.exists() {
        println!(
            "skipped: plans of real bundles: {} is not there (OLM_SHARED_DATA names the folder)",
            root.display()
        );
        return Vec::new();
    }
    let versions = |package: PathBuf| {
        let mut versions: Vec<PathBuf> = std::fs::read_dir(package)
            .into_iter()
            .flatten()
            .map(|v| v.unwrap().path())
            .filter(|v| v.join("manifests").is_dir())
            .collect();
        versions.sort_by_key(|v| {
            let name = v.file_name().unwrap().to_string_lossy().into_owned();
            (Version::parse(&name).ok(), name)
        });
        versions
    };
    std::fs::read_dir(&root).unwrap().map(|package| versions(package.unwrap().path())).collect()
}

/// The installation of a bundle over all namespaces or its own; `None` for one that cannot be rendered.
fn installing(bundle: Bundle) -> Option<Case> {
    let mut case = Case::install("1.0.0");
    case.bundle = bundle;
    for watched in [&[][..], &["ns"]] {
        case.groups = vec![group("og", watched)];
        case.rendered = rendered(&case.bundle, &case.groups, &[]);
        if case.rendered.is_ok() {
            break;
        }
    }
    case.resolved.chosen.name = case.bundle.name().to_owned();
    case.resolved.chosen.version = case.bundle.version();
    case.rendered.is_ok().then_some(case)
}

/// The newest bundle of every package: planned on an empty cluster, applied, and planned again.
#[test]
fn real_bundles_plan_to_a_fixed_point() {
    let schema = plan_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let packages = packages();
    let mut count = 0;
    for versions in &packages {
        let Some(Ok(bundle)) = versions.last().map(|v| Bundle::from_dir(v)) else { continue };
        let Some(mut case) = installing(bundle) else { continue };
        let first = case.plan();
        let value = serde_json::to_value(&first).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", case.bundle.name());
        assert!(first.images.iter().any(|image| image.runs), "{} runs nothing", case.bundle.name());
        case.live = case.applied();
        let second = case.plan();
        let changed: Vec<_> = second.objects.iter().filter(|o| o.op != Op::Unchanged).collect();
        assert!(changed.is_empty(), "{}: {changed:#?}", case.bundle.name());
        assert_eq!(first.digest, second.digest);
        count += 1;
    }
    println!("{count} real bundles planned");
    assert!(packages.is_empty() || count > 5);
}

/// From the oldest version of every package to its newest: applied, and planned again.
#[test]
fn real_upgrades_plan_to_a_fixed_point() {
    let packages = packages();
    let mut count = 0;
    for versions in packages.iter().filter(|versions| versions.len() > 1) {
        let bundle = |folder: &PathBuf| Bundle::from_dir(folder).ok();
        let (Some(old), Some(new)) = (bundle(&versions[0]), bundle(&versions[versions.len() - 1])) else {
            continue;
        };
        let (Some(old), Some(mut next)) = (installing(old), installing(new)) else { continue };
        next.resolved.action = olm_resolver::Action::Upgrade;
        next.resolved.from = Some(olm_resolver::InstalledRef {
            name: old.bundle.name().to_owned(),
            version: old.bundle.version(),
        });
        next.live = old.applied();
        next.previous = old.rendered.ok();
        let first = next.plan();
        // every difference has its cause, and there is no drift
        for object in &first.objects {
            let foreign = object.diff.iter().find(|f| f.cause != olm_plan::Cause::Change);
            let known = next.previous.as_ref().unwrap().objects().any(|(_, o)| {
                o["kind"] == object.reference.kind.as_str() && o["metadata"]["name"] == object.name.as_str()
            });
            assert!(foreign.is_none() || !known, "{}: {object:#?}", next.bundle.name());
        }
        next.live = next.applied();
        let second = next.plan();
        assert_eq!(first.digest, second.digest);
        assert_eq!(second.counts(), (0, 0, 0), "{}: {:#?}", next.bundle.name(), second.objects);
        count += 1;
    }
    println!("{count} real upgrades planned");
    assert!(packages.is_empty() || count > 5);
}
