//! Upgrades from the recorded etcd operators of upstream to the shipped one.

use std::sync::Arc;

use olm_plan::universe_of;
use olm_resolver::{Action, CatalogRef, Facts, InstalledRef, Request, Universe, Version, resolve};

use crate::along::shared;

const PACKAGE: &str = "etcd";

fn package(catalog: &olm_catalog::Catalog) -> Arc<olm_catalog::Package> {
    catalog.package(PACKAGE).unwrap().expect("package etcd")
}

/// The installed bundles, one after the other, when each offered upgrade is taken.
fn way(universe: &Universe, catalog: &CatalogRef, from: &str, channel: Option<&str>) -> Vec<String> {
    let mut have = vec![from.to_owned()];
    loop {
        let name = have.last().unwrap().clone();
        let version = name.split_once(".v").and_then(|(_, version)| Version::parse(version).ok());
        let request = Request {
            subscription: "ns/etcd".into(),
            package: PACKAGE.into(),
            catalog: catalog.clone(),
            channel: channel.map(str::to_owned),
            installed: Some(InstalledRef { name, version }),
            ..Request::default()
        };
        let answer = resolve(universe, &[request], &Facts::default()).items.remove(0);
        let resolved = answer.unwrap_or_else(|why| panic!("{have:?}: {}", why.text(100)));
        match resolved.action {
            Action::None => return have,
            Action::Upgrade => have.push(resolved.chosen.name),
            Action::Install => panic!("{have:?}: installed anew: {}", resolved.why),
        }
        assert!(have.len() < 10, "{have:?}");
    }
}

/// From the last bundle of one of upstream's channels, a Subscription to the shipped catalog reaches the head
/// of the channel of the same name, and of `stable`, without a new installation. So it does from the earlier
/// bundles.
#[test]
fn every_recorded_etcd_operator_upgrades_to_ours() {
    let Some(file) = shared("catalogs/community-dev.json") else { return };
    let content = std::fs::read(file).unwrap();
    let theirs = package(&olm_catalog::Catalog::from_bytes("community-dev", &content));
    let ours = package(&olm_catalog::shipped());
    let id = CatalogRef::new("olm", "shipped");
    let universe = universe_of(&[(id.clone(), vec![Arc::clone(&ours)])]);
    let head = |channel: &str| ours.head_of(channel).map(|bundle| bundle.name.clone()).expect("a head");
    let mut seen = Vec::new();
    for channel in theirs.channels.values() {
        for entry in &channel.entries {
            // Where the Subscription stays in its channel, and where it moves to the stable one.
            let wide = entry.name.ends_with("-clusterwide");
            let mut asked = vec![(Some(channel.name.as_str()), channel.name.as_str())];
            if !wide {
                asked.extend([(Some("stable"), "stable"), (None, ours.default_channel.as_str())]);
            }
            for (wanted, channel) in asked {
                let way = way(&universe, &id, &entry.name, wanted);
                assert_eq!(way.last(), Some(&head(channel)), "{way:?} in channel {channel}");
                assert!(way.len() > 1, "{way:?} in channel {channel}");
            }
            seen.push(entry.name.clone());
        }
    }
    for last in ["etcdoperator.v0.9.4", "etcdoperator.v0.9.4-clusterwide"] {
        assert!(seen.iter().any(|name| name == last), "{last} is not in {seen:?}");
    }
}
