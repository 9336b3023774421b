//! The same questions that OLM v0's own resolver was asked on a real catalog, and the same answers, except for the
//! differences that are listed here with their reasons.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use olm_plan::universe_of;
use olm_resolver::{
    Action, CatalogRef, Facts, Installed, InstalledRef, Request, Resolved, SatisfiedBy, Universe, resolve,
};
use serde::Deserialize;

#[derive(Deserialize, Debug)]
struct Recorded {
    package: String,
    channel: String,
    #[serde(default)]
    installed: Option<String>,
    ok: bool,
    #[serde(default)]
    result: Vec<String>,
    #[serde(default)]
    err: Option<String>,
}

fn shared(path: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("OLM_SHARED_DATA").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let file = root.join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is not there (OLM_SHARED_DATA names the folder)", file.display());
    None
}

fn load() -> Option<Universe> {
    let catalog = shared("catalogs/community-dev.json")?;
    let catalog = olm_catalog::Catalog::from_bytes("community-dev", &std::fs::read(catalog).unwrap());
    assert!(catalog.len() >= 40, "{:?}", catalog.problems);
    let packages =
        catalog.summaries().map(|summary| catalog.package(&summary.name).unwrap().unwrap()).collect();
    Some(universe_of(&[(id(), packages)]))
}

fn id() -> CatalogRef {
    CatalogRef::new("test", "cat")
}

fn recorded(file: &str) -> Option<Vec<Recorded>> {
    let text = std::fs::read_to_string(shared(file)?).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn request(case: &Recorded) -> Request {
    Request {
        subscription: format!("test/{}", case.package),
        package: case.package.clone(),
        catalog: id(),
        channel: Some(case.channel.clone()),
        ..Request::default()
    }
}

/// `package/channel/bundle` of everything that will be installed.
fn installs(item: &Resolved) -> BTreeSet<String> {
    let mut set = BTreeSet::new();
    let text = |b: &olm_resolver::ChosenBundle| format!("{}/{}/{}", b.package, b.channel, b.name);
    if item.action != Action::None {
        set.insert(text(&item.chosen));
    }
    for dependency in &item.dependencies {
        if let SatisfiedBy::Install(bundle) = &dependency.satisfied_by {
            set.insert(text(bundle));
        }
    }
    set
}

#[test]
fn one_subscription_and_nothing_installed() {
    let (Some(universe), Some(cases)) = (load(), recorded("recorded/olm-v0/dev.solo.jsonl")) else { return };
    let mut differences = Vec::new();
    for case in &cases {
        // given nothing installed, when one Subscription asks for a channel
        let answer = resolve(&universe, &[request(case)], &Facts::default());
        // then the same bundles are chosen, or both refuse
        let expected: BTreeSet<String> = case.result.iter().cloned().collect();
        match (&answer, case.ok) {
            (Ok(resolution), true) if installs(&resolution.items[0]) == expected => {}
            (Err(_), false) => {}
            (Ok(resolution), _) => {
                differences.push(format!("{case:?}: {:?}", installs(&resolution.items[0])));
            }
            (Err(explanation), _) => differences.push(format!("{case:?}: {}", explanation.text(200))),
        }
    }
    assert!(differences.is_empty(), "{} of {}:\n{}", differences.len(), cases.len(), differences.join("\n"));
    println!("{} cases, no differences", cases.len());
}

/// Where we differ from OLM v0 on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// The skipRange of the installed bundle includes its own version, and OLM v0 "upgrades" it to itself. We say that
    /// there is nothing to do.
    UpgradeToItself,
    /// Something that the installed operator needs is not there and cannot be had. OLM v0 then fails for the whole
    /// namespace; we leave the operator that is there alone, and name what its newer versions lack.
    InstalledLacksSomething,
}

#[test]
fn every_bundle_installed_once() {
    let (Some(universe), Some(cases)) = (load(), recorded("recorded/olm-v0/dev.upgrade.jsonl")) else {
        return;
    };
    let mut unknown = Vec::new();
    let mut known: BTreeMap<Difference, usize> = BTreeMap::new();
    for case in &cases {
        // given a bundle installed by the Subscription
        let name = case.installed.clone().unwrap();
        let bundle = &universe.package(&id(), &case.package).unwrap().bundles[&name];
        let installed = Installed {
            name: name.clone(),
            namespace: "test".into(),
            package: Some(case.package.clone()),
            version: bundle.version.clone(),
            subscription: Some(format!("test/{}", case.package)),
            provides: bundle.provides.clone(),
            requires_apis: bundle.requires_apis.clone(),
            requires_packages: bundle.requires_packages.clone(),
            requires_any: bundle.requires_any.clone(),
        };
        let reference = InstalledRef { name: name.clone(), version: bundle.version.clone() };
        let facts = Facts { installed: vec![installed], ..Facts::default() };
        // when it is resolved
        let request = Request { installed: Some(reference), ..request(case) };
        let answer = resolve(&universe, &[request], &facts);
        // then the same hop is chosen
        let expected: BTreeSet<String> = case.result.iter().cloned().collect();
        let itself = BTreeSet::from([format!("{}/{}/{name}", case.package, case.channel)]);
        match &answer {
            Ok(r) if case.ok && installs(&r.items[0]) == expected => {}
            Ok(r) if case.ok && expected == itself && r.items[0].action == Action::None => {
                *known.entry(Difference::UpgradeToItself).or_insert(0) += 1;
            }
            Ok(r) if !case.ok && r.items[0].action == Action::None && installs(&r.items[0]).is_empty() => {
                *known.entry(Difference::InstalledLacksSomething).or_insert(0) += 1;
            }
            Err(_) if !case.ok && case.err.as_deref().is_some_and(|e| e.contains("replacement chain")) => {}
            Ok(r) => unknown.push(format!("{case:?}: {:?} {:?}", r.items[0].action, installs(&r.items[0]))),
            Err(e) => unknown.push(format!("{case:?}: {}", e.text(200))),
        }
    }
    assert!(unknown.is_empty(), "{} of {}:\n{}", unknown.len(), cases.len(), unknown.join("\n"));
    println!("{} cases, listed differences: {known:?}", cases.len());
    let expected = [(Difference::UpgradeToItself, 1), (Difference::InstalledLacksSomething, 4)];
    assert_eq!(known, expected.into_iter().collect());
}
