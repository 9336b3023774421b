//! The answer is the same for any order of the input, and a solution is one.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use olm_resolver::{Action, Request, Resolution, SatisfiedBy, Universe, resolve};
use proptest::prelude::*;
use world::{B, World, b, catalog_ref};

const PACKAGES: &[&str] = &["a", "b", "c", "d", "e"];
const KINDS: &[&str] = &["K1", "K2", "K3", "K4"];

#[derive(Clone, Debug)]
struct Raw {
    replaces: bool,
    skip: bool,
    range: bool,
    provides: Vec<usize>,
    requires: Vec<usize>,
    needs: Vec<(usize, u64)>,
    prohibited: bool,
}

fn raw() -> impl Strategy<Value = Raw> {
    (
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.2),
        prop::collection::vec(0..KINDS.len(), 0..3),
        prop::collection::vec(0..KINDS.len(), 0..3),
        prop::collection::vec((0..PACKAGES.len(), 1..4u64), 0..3),
        prop::bool::weighted(0.05),
    )
        .prop_map(|(replaces, skip, range, provides, requires, needs, prohibited)| Raw {
            replaces,
            skip,
            range,
            provides,
            requires,
            needs,
            prohibited,
        })
}

fn bundles(package: &str, raws: &[Raw]) -> Vec<B> {
    let name = |n: usize| format!("{package}.v{n}");
    raws.iter()
        .enumerate()
        .map(|(i, raw)| {
            let provides: Vec<&str> = raw.provides.iter().map(|k| KINDS[*k]).collect();
            let requires: Vec<&str> = raw.requires.iter().map(|k| KINDS[*k]).collect();
            let needs: Vec<String> =
                raw.needs.iter().map(|(p, v)| format!("{} >={v}.0.0", PACKAGES[*p])).collect();
            let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
            let mut bundle =
                b(&name(i), &format!("{i}.0.0")).provides(&provides).requires(&requires).needs(&needs);
            if raw.replaces && i > 0 {
                bundle = bundle.replaces(&name(i - 1));
            }
            if raw.skip && i > 1 {
                bundle = bundle.skips(&[name(i - 2).as_str()]);
            }
            if raw.range {
                bundle = bundle.skip_range(&format!("<{i}.0.0"));
            }
            if raw.prohibited { bundle.prohibited() } else { bundle }
        })
        .collect()
}

fn worlds() -> impl Strategy<Value = (World, Vec<Option<usize>>)> {
    let package = prop::collection::vec(raw(), 1..5);
    (
        prop::collection::vec(package, PACKAGES.len()),
        prop::sample::subsequence((0..PACKAGES.len()).collect::<Vec<_>>(), 1..4),
        prop::collection::vec(prop::option::weighted(0.4, 0..5usize), PACKAGES.len()),
    )
        .prop_map(|(packages, wanted, installed)| {
            let mut world = World::new();
            for (name, raws) in PACKAGES.iter().zip(&packages) {
                world = world.channel("cat", name, "stable", &bundles(name, raws));
            }
            for i in wanted {
                world = world.sub(PACKAGES[i], "stable");
                let list = bundles(PACKAGES[i], &packages[i]);
                if let Some(at) = installed[i].filter(|at| *at < list.len()) {
                    world = world.installed(&list[at]);
                }
            }
            (world, installed)
        })
}

fn json(answer: &Result<Resolution, olm_resolver::Explanation>, requests: &[Request]) -> String {
    match answer {
        Ok(resolution) => {
            let mut items: Vec<_> = resolution.items.iter().zip(requests).collect();
            items.sort_by_key(|(_, r)| r.subscription.clone());
            serde_json::to_string(&items.iter().map(|(i, _)| i).collect::<Vec<_>>()).unwrap()
        }
        Err(explanation) => serde_json::to_string(explanation).unwrap(),
    }
}

/// One bundle per package, one owner per API, every need met, nothing prohibited.
fn check(world: &World, universe: &Universe, resolution: &Resolution) {
    let mut names: Vec<(String, String)> = Vec::new();
    for item in &resolution.items {
        if item.action != Action::None {
            names.push((item.chosen.package.clone(), item.chosen.name.clone()));
        }
        for dependency in &item.dependencies {
            if let SatisfiedBy::Install(bundle) = &dependency.satisfied_by {
                names.push((bundle.package.clone(), bundle.name.clone()));
            }
        }
    }
    names.sort();
    names.dedup();
    let mut provided: Vec<(String, olm_resolver::Gvk)> = Vec::new();
    let mut present: Vec<(String, Option<olm_resolver::Version>)> = Vec::new();
    for (package, name) in &names {
        assert_eq!(
            names.iter().filter(|(p, _)| p == package).count(),
            1,
            "two bundles of {package}: {names:?}"
        );
        let bundle = &universe.package(&catalog_ref("cat"), package).unwrap().bundles[name];
        assert!(!bundle.prohibited);
        provided.extend(bundle.provides.iter().map(|g| (package.clone(), g.clone())));
        present.push((package.clone(), bundle.version.clone()));
    }
    for item in resolution.items.iter().filter(|i| i.action == Action::None) {
        let fact = world.facts.installed.iter().find(|f| f.name == item.chosen.name).unwrap();
        provided.extend(fact.provides.iter().map(|g| (item.chosen.package.clone(), g.clone())));
        present.push((item.chosen.package.clone(), fact.version.clone()));
    }
    for (package, gvk) in &provided {
        assert!(provided.iter().all(|(p, g)| g != gvk || p == package), "two owners of {gvk}: {names:?}");
    }
    for (package, name) in &names {
        let bundle = &universe.package(&catalog_ref("cat"), package).unwrap().bundles[name];
        for gvk in &bundle.requires_apis {
            assert!(provided.iter().any(|(_, g)| g == gvk), "{name} lacks {gvk}: {names:?}");
        }
        for need in &bundle.requires_packages {
            let met = present
                .iter()
                .any(|(p, v)| *p == need.package && v.as_ref().is_some_and(|v| need.range.contains(v)));
            assert!(met, "{name} lacks {} {}: {names:?}", need.package, need.range.source());
        }
    }
}

/// Whether any choice of bundles is a solution; there are few enough to try them all.
fn satisfiable(world: &World, universe: &Universe) -> bool {
    let catalog = universe.catalog(&catalog_ref("cat")).unwrap();
    let mut options: Vec<Vec<Option<&olm_resolver::Bundle>>> = Vec::new();
    for package in catalog.packages.values() {
        let mut list: Vec<Option<&olm_resolver::Bundle>> = vec![None];
        list.extend(package.bundles.values().map(Some));
        options.push(list);
    }
    let mut index = vec![0usize; options.len()];
    loop {
        let chosen: Vec<(&str, &olm_resolver::Bundle)> = catalog
            .packages
            .keys()
            .zip(&index)
            .zip(&options)
            .filter_map(|((name, i), list)| Some((name.as_str(), list[*i]?)))
            .collect();
        if is_solution(world, universe, &chosen) {
            return true;
        }
        let mut at = 0;
        loop {
            if at == index.len() {
                return false;
            }
            index[at] += 1;
            if index[at] < options[at].len() {
                break;
            }
            index[at] = 0;
            at += 1;
        }
    }
}

/// The heads-to-tail order of a channel, worked out anew.
fn order(universe: &Universe, package: &str) -> Option<Vec<String>> {
    let channel = &universe.package(&catalog_ref("cat"), package)?.channels["stable"];
    let covered = |name: &str| {
        channel
            .entries
            .iter()
            .any(|e| e.replaces.as_deref() == Some(name) || e.skips.iter().any(|s| s == name))
    };
    let heads: Vec<_> = channel.entries.iter().filter(|e| !covered(&e.name)).collect();
    let [head] = heads.as_slice() else { return None };
    let mut names = Vec::new();
    let mut at = Some(*head);
    while let Some(entry) = at {
        if !channel.entries.iter().any(|e| e.skips.contains(&entry.name)) {
            names.push(entry.name.clone());
        }
        at = channel.entries.iter().find(|e| entry.replaces.as_deref() == Some(e.name.as_str()));
    }
    Some(names)
}

fn is_solution(world: &World, universe: &Universe, chosen: &[(&str, &olm_resolver::Bundle)]) -> bool {
    let usable = chosen.iter().all(|(package, bundle)| {
        !bundle.prohibited && order(universe, package).is_some_and(|o| o.contains(&bundle.name))
    });
    let requested = world.requests.iter().all(|r| chosen.iter().any(|(p, _)| *p == r.package));
    let owners = chosen.iter().all(|(p, bundle)| {
        bundle.provides.iter().all(|g| chosen.iter().all(|(q, other)| p == q || !other.provides.contains(g)))
    });
    let needs = chosen.iter().all(|(_, bundle)| {
        bundle.requires_apis.iter().all(|g| chosen.iter().any(|(_, o)| o.provides.contains(g)))
            && bundle.requires_packages.iter().all(|n| {
                chosen
                    .iter()
                    .any(|(p, o)| *p == n.package && o.version.as_ref().is_some_and(|v| n.range.contains(v)))
            })
    });
    usable && requested && owners && needs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_order_gives_the_same_answer((world, _) in worlds(), seed in any::<u64>()) {
        let first = world.resolve();
        // when everything that has an order is shuffled
        let mut other = world.clone();
        let mut state = seed | 1;
        let mut next = move |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n.max(1)
        };
        let turn = next(7);
        other.requests.rotate_left(turn % world.requests.len().max(1));
        other.facts.installed.reverse();
        other.catalogs.reverse();
        for (_, catalog) in &mut other.catalogs {
            for package in catalog.packages.values_mut() {
                for channel in package.channels.values_mut() {
                    let by = next(channel.entries.len());
                    channel.entries.rotate_left(by);
                    channel.entries.reverse();
                }
                for bundle in package.bundles.values_mut() {
                    bundle.provides.reverse();
                    bundle.requires_apis.reverse();
                    bundle.requires_packages.reverse();
                }
            }
        }
        let second = resolve(&other.universe(), &other.requests, &other.facts);
        prop_assert_eq!(json(&first, &world.requests), json(&second, &other.requests));
    }

    #[test]
    fn a_resolution_is_a_solution((world, _) in worlds()) {
        if let Ok(resolution) = world.resolve() {
            check(&world, &world.universe(), &resolution);
        }
    }

    #[test]
    fn brute_force_agrees_on_whether_there_is_one((mut world, _) in worlds()) {
        // given nothing installed: then every bundle of the channels is a candidate
        world.facts.installed.clear();
        for request in &mut world.requests {
            request.installed = None;
        }
        let universe = world.universe();
        let answer = resolve(&universe, &world.requests, &world.facts);
        prop_assert_eq!(answer.is_ok(), satisfiable(&world, &universe), "{:?}", answer);
    }
}
