//! OLM v1: the highest version that the channels and edges allow; no order of channels, no dependencies.

use std::collections::BTreeMap;

use olm_resolver::{Action, Explanation, Package, Resolved, Universe};
use olm_version::precedence;
use serde::Deserialize;

use crate::{ask, id, load, recorded};

#[derive(Deserialize, Debug)]
struct Recorded {
    package: String,
    #[serde(default)]
    channels: Vec<String>,
    #[serde(default)]
    installed: Option<String>,
    #[serde(default)]
    bundle: Option<String>,
    #[serde(default)]
    err: Option<String>,
}

/// Deliberate differences from OLM v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// v1 rejects every bundle with dependencies. Here they are resolved (v0.rs proves the equivalence with
    /// v0).
    DependenciesAreRefused,
    /// The Subscription names no channel. v1 searches all of them for the highest version; here the default
    /// channel comes first, as in v0, because another one may be a preview.
    AnotherChannel,
}

/// The reason of a difference, if it is a deliberate one.
fn reason(universe: &Universe, case: &Recorded, ours: &Result<Resolved, Explanation>) -> Option<Difference> {
    if case.err.as_deref().is_some_and(|e| e.contains("has a dependency declared via property")) {
        return Some(Difference::DependenciesAreRefused);
    }
    let item = ours.as_ref().ok()?;
    let package: &Package = universe.package(&id(), &case.package)?;
    let theirs = package.bundle(case.bundle.as_deref()?)?;
    let inside = |channel: &str| {
        package.channel(channel).is_some_and(|c| c.entries.iter().any(|e| e.name == theirs.name))
    };
    let higher = precedence(theirs.version.as_ref()?, item.chosen.version.as_ref()?).is_gt();
    let of_another = case.channels.is_empty() && !inside(&item.chosen.channel);
    (higher && of_another).then_some(Difference::AnotherChannel)
}

fn compare(universe: &Universe, cases: &[Recorded]) -> BTreeMap<Difference, usize> {
    let mut unknown = Vec::new();
    let mut known = BTreeMap::new();
    for case in cases {
        // given nothing installed or one bundle, when a Subscription requests the package, or a channel of it
        let channel = case.channels.first().map(String::as_str);
        let ours = ask(universe, &case.package, channel, case.installed.as_deref());
        // then the same bundle is chosen (v1 "chooses" the installed one where nothing is to be done)
        let same = |item: &Resolved| Some(&item.chosen.name) == case.bundle.as_ref();
        if ours.as_ref().is_ok_and(same) {
            let item = ours.as_ref().unwrap();
            assert_eq!(item.action == Action::None, case.installed == case.bundle, "{case:?}");
            continue;
        }
        match reason(universe, case, &ours) {
            Some(difference) => *known.entry(difference).or_insert(0) += 1,
            None => unknown.push(match &ours {
                Ok(item) => format!("{case:?}: {:?} {:?}", item.chosen, item.why),
                Err(why) => format!("{case:?}: {}", why.text(200)),
            }),
        }
    }
    assert!(unknown.is_empty(), "{} of {}:\n{}", unknown.len(), cases.len(), unknown.join("\n"));
    println!("{} cases, listed differences: {known:?}", cases.len());
    known
}

#[test]
fn nothing_installed() {
    let (Some(universe), Some(cases)) = (load(), recorded::<Recorded>("recorded/olm-v1/dev.resolve.jsonl"))
    else {
        return;
    };
    let expected = [(Difference::DependenciesAreRefused, 19), (Difference::AnotherChannel, 1)];
    assert_eq!(compare(&universe, &cases), expected.into_iter().collect());
}

#[test]
fn every_bundle_installed_once() {
    let (Some(universe), Some(cases)) = (load(), recorded::<Recorded>("recorded/olm-v1/dev.upgrade.jsonl"))
    else {
        return;
    };
    let expected = [(Difference::DependenciesAreRefused, 23)];
    assert_eq!(compare(&universe, &cases), expected.into_iter().collect());
}
