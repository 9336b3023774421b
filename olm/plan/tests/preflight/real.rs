//! Real bundles: installed one after the other on a healthy cluster.

use std::collections::BTreeMap;

use olm_bundle::Bundle;
use olm_plan::{FindingCode, kinds_needed};
use olm_resolver::Version;

use crate::crds::known;
use crate::world::World;

/// The versions of a package in the order of their numbers.
fn versions(package: &std::path::Path) -> Vec<Bundle> {
    let folders =
        std::fs::read_dir(package).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_dir());
    let mut bundles: Vec<(Option<Version>, Bundle)> =
        folders.filter_map(|folder| Bundle::from_dir(&folder).ok()).map(|b| (b.version(), b)).collect();
    bundles.sort_by(|a, b| a.0.cmp(&b.0));
    bundles.into_iter().map(|(_, bundle)| bundle).collect()
}

/// Codes that concern a bundle, and not its environment.
const OF_BUNDLES: &[FindingCode] = &[
    FindingCode::UnsupportedInstallMode,
    FindingCode::BundleNotRenderable,
    FindingCode::KubernetesTooOld,
    FindingCode::RequiredApiMissing,
    FindingCode::CrdConversionUnsupported,
];

#[test]
fn real_bundles_are_checked_without_false_alarms() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var("OLM_SHARED_DATA").unwrap_or_else(|_| default.to_owned());
    let root = std::path::Path::new(&root).join("bundles/operators");
    if !root.exists() {
        println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", root.display());
        return;
    }
    let (mut installs, mut upgrades) = (0, 0);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for package in std::fs::read_dir(&root).unwrap() {
        let mut before: Option<World> = None;
        for bundle in versions(&package.unwrap().path()) {
            let mut world = World::from(bundle);
            world.watch(&[]);
            let name = world.bundle.name().to_owned();
            // only the bundle itself can block a first installation
            for finding in world.findings() {
                let own_account =
                    finding.code == FindingCode::NameCollision && finding.subject.ends_with("/default");
                assert!(OF_BUNDLES.contains(&finding.code) || own_account, "{name}: {finding:#?}");
            }
            installs += 1;
            if let Some(before) = before.take() {
                world = before.then(world);
                let kinds = world.with_input(|input| kinds_needed(input, &world.live));
                // without custom resources no CRD change blocks
                world.facts.custom_objects =
                    kinds.into_iter().map(|kind| (kind.crd, known(vec![]))).collect();
                for finding in world.findings() {
                    *seen.entry(format!("{} {:?}", finding.code, finding.severity)).or_default() += 1;
                    let about_objects = matches!(
                        finding.code,
                        FindingCode::CrdObjectsInvalid
                            | FindingCode::CrdFieldsPruned
                            | FindingCode::CrdRemoved
                            | FindingCode::NotChecked
                    );
                    assert!(!about_objects, "{name}: {finding:#?}");
                }
                upgrades += 1;
            }
            before = world.rendered().is_ok().then_some(world);
        }
    }
    println!("{installs} installs and {upgrades} upgrades; of the upgrades: {seen:#?}");
    assert!(installs > 20 && upgrades > 10);
}
