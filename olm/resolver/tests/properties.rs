//! Properties of every universe: the order of the input has no effect, unrelated content changes nothing, and
//! a search ends.
//!
//! `OLM_TEST_LONG=1` runs a hundred times as many universes, `OLM_SEED=n` one of them.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use olm_resolver::{Code, Resolution, resolve};
use world::generate::{Style, model};
use world::hard::pigeons;
use world::model::{Catalog, Channel, Content, Edge, Kind, Model, Need, Package};
use world::rng::{Rng, seeds};
use world::shrink::shrink;
use world::{World, b};

/// The complete result of each Subscription.
fn reported(world: &World, resolution: &Resolution) -> BTreeMap<String, String> {
    let items = world.requests.iter().zip(&resolution.items);
    items
        .map(|(request, item)| {
            let text = match item {
                Ok(item) => serde_json::to_string(item).unwrap(),
                Err(why) => serde_json::to_string(&**why).unwrap(),
            };
            (request.subscription.clone(), text)
        })
        .collect()
}

fn answer(world: &World) -> BTreeMap<String, String> {
    reported(world, &world.resolve())
}

/// Checks a property of many models; shows the smallest model that violates it.
fn models(what: &str, count: u64, wrong: impl Fn(&Model, u64) -> Option<String>) {
    seeds(what, count, |seed| {
        let rng = &mut Rng::new(seed);
        let style = Style::of(rng);
        let model = model(rng, style);
        if wrong(&model, seed).is_some() {
            let least = shrink(&model, |m| wrong(m, seed).is_some());
            panic!("seed {seed}: {}\n{least:#?}", wrong(&least, seed).unwrap_or_default());
        }
    });
}

fn differ(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) -> Option<String> {
    let both = first.iter().map(|(name, text)| (name, text, second.get(name)));
    let different = both.filter(|(_, a, b)| Some(*a) != *b);
    different.map(|(name, a, b)| format!("{name}: {a}\nrather than: {b:?}")).next()
}

/// The same world with everything ordered differently.
fn shuffled(world: &World, rng: &mut Rng) -> World {
    let mut other = world.clone();
    rng.shuffle(&mut other.requests);
    rng.shuffle(&mut other.facts.installed);
    rng.shuffle(&mut other.facts.policy);
    for request in &mut other.requests {
        rng.shuffle(&mut request.skip_versions);
    }
    for operator in &mut other.facts.installed {
        rng.shuffle(&mut operator.requires);
        rng.shuffle(&mut operator.labels);
        rng.shuffle(&mut operator.properties);
    }
    rng.shuffle(&mut other.catalogs);
    for (_, catalog) in &mut other.catalogs {
        for package in catalog.packages.values_mut() {
            rng.shuffle(&mut package.channels);
            rng.shuffle(&mut package.bundles);
            for channel in &mut package.channels {
                rng.shuffle(&mut channel.entries);
                for entry in &mut channel.entries {
                    rng.shuffle(&mut entry.skips);
                }
            }
            for bundle in &mut package.bundles {
                rng.shuffle(&mut bundle.requires);
                rng.shuffle(&mut bundle.labels);
                rng.shuffle(&mut bundle.properties);
            }
        }
    }
    other
}

#[test]
fn any_order_gives_the_same_answer_and_the_same_explanation() {
    models("any_order_gives_the_same_answer_and_the_same_explanation", 400, |model, seed| {
        let mut world = model.world();
        // two rules that exclude one bundle, whose order matters too
        for kind in ["K0", "K1"] {
            let not = serde_json::json!({ "not": { "constraints": [
                { "all": { "constraints": [
                    { "gvk": world::build::gvk_value(kind) },
                    { "package": world::build::package_value("a >=3.0.0") } ] } } ] } });
            world.facts.policy.push(olm_constraint::Constraint::parse(&not).unwrap());
        }
        let first = answer(&world);
        differ(&first, &answer(&shuffled(&world, &mut Rng::new(seed))))
    });
}

/// Packages that provide nothing that could be required.
fn unrelated(name: &'static str, kind: Kind) -> Package {
    let bundles = (1..=3).map(|major| Content {
        major,
        provides: [kind].into(),
        needs: vec![Need::Api(kind), Need::Package("a", 1, 99)],
        ..Content::default()
    });
    let entries = (1..=3).map(|major| Edge { major, replaces: Some(major - 1), ..Edge::default() });
    Package {
        name,
        channels: vec![Channel { name: "stable", entries: entries.collect() }],
        bundles: bundles.collect(),
    }
}

#[test]
fn unrelated_packages_change_nothing() {
    models("unrelated_packages_change_nothing", 400, |model, _| {
        let first = answer(&model.world());
        let mut more = model.clone();
        for catalog in &mut more.catalogs {
            catalog.packages.insert(0, unrelated("aa", 50));
            catalog.packages.push(unrelated("zz", 51));
        }
        let packages = vec![unrelated("aa", 52), unrelated("mm", 53)];
        more.catalogs.push(Catalog { name: "zoo", priority: 1000, packages });
        differ(&first, &answer(&more.world()))
    });
}

/// The same model with other names for everything.
fn renamed(model: &Model) -> Model {
    fn name(name: &str) -> &'static str {
        match name {
            "a" => "a2",
            "b" => "b2",
            "c" => "c2",
            "d" => "d2",
            "e" => "e2",
            "x" => "x2",
            "y" => "y2",
            other => panic!("{other}"),
        }
    }
    fn need(it: &Need) -> Need {
        let all = |list: &[Need]| list.iter().map(need).collect();
        match it {
            Need::Api(kind) => Need::Api(kind + 20),
            Need::Cel(kind) => Need::Cel(kind + 20),
            Need::Package(package, from, below) => Need::Package(name(package), *from, *below),
            Need::Label(label) => Need::Label(label + 20),
            Need::All(list) => Need::All(all(list)),
            Need::Any(list) => Need::Any(all(list)),
            Need::Not(list) => Need::Not(all(list)),
        }
    }
    fn content(it: &mut Content) {
        it.provides = it.provides.iter().map(|kind| kind + 20).collect();
        it.labels = it.labels.iter().map(|label| label + 20).collect();
        it.needs = it.needs.iter().map(need).collect();
    }
    let mut other = model.clone();
    for package in other.catalogs.iter_mut().flat_map(|c| &mut c.packages) {
        package.name = name(package.name);
        package.bundles.iter_mut().for_each(content);
    }
    for sub in &mut other.subs {
        sub.package = name(sub.package);
        sub.name = format!("{}-of-others", sub.name);
        sub.installed.iter_mut().for_each(content);
    }
    for fixed in &mut other.fixed {
        fixed.package = name(fixed.package);
        content(&mut fixed.content);
    }
    other.cluster = other.cluster.iter().map(|kind| kind + 20).collect();
    other.policy = other.policy.iter().map(need).collect();
    other
}

/// Two models in one.
fn joined(first: &Model, second: &Model) -> Model {
    let mut both = first.clone();
    for catalog in &second.catalogs {
        match both.catalogs.iter_mut().find(|c| c.name == catalog.name) {
            Some(same) => same.packages.extend(catalog.packages.iter().cloned()),
            None => both.catalogs.push(catalog.clone()),
        }
    }
    both.subs.extend(second.subs.iter().cloned());
    both.fixed.extend(second.fixed.iter().cloned());
    both.cluster.extend(&second.cluster);
    both.policy.extend(second.policy.iter().cloned());
    both
}

#[test]
fn requests_that_cannot_touch_each_other_do_not_matter_to_each_other() {
    let what = "requests_that_cannot_touch_each_other_do_not_matter_to_each_other";
    models(what, 400, |model, seed| {
        // given unrelated Subscriptions, of other packages and other APIs, in the same catalogs
        let rng = &mut Rng::new(seed.wrapping_mul(31).wrapping_add(7));
        let style = Style::of(rng);
        let mut others = renamed(&world::generate::model(rng, style));
        // priorities belong to the catalogs
        for catalog in &mut others.catalogs {
            let known = model.catalogs.iter().find(|c| c.name == catalog.name);
            catalog.priority = known.map_or(catalog.priority, |c| c.priority);
        }
        let alone = answer(&model.world());
        let together = answer(&joined(model, &others).world());
        // then ours get the same result as without them
        differ(&alone, &together)
    });
}

/// Subscriptions of another namespace do not matter while they have nothing installed: a result describes
/// what could be, and their own resolution finds the later state.
#[test]
fn namespaces_are_decided_apart() {
    models("namespaces_are_decided_apart", 200, |model, _| {
        let world = model.world();
        let alone = answer(&world);
        let mut more = world.clone();
        for request in &world.requests {
            let mut other = request.clone();
            other.subscription = request.subscription.replacen("ns/", "another/", 1);
            other.installed = None;
            more.requests.push(other);
        }
        differ(&alone, &answer(&more))
    });
}

/// A contradiction that only exponential work would find: the search ends with a report of its work, and does
/// not fail unrelated requests.
#[test]
fn a_hard_universe_ends_within_the_budget() {
    let hard = |count| {
        pigeons(count)
            .channel("cat", "easy", "stable", &[b("easy.v1", "1.0.0")])
            .sub("holes", "stable")
            .sub("easy", "stable")
    };
    let world = hard(16);
    let resolution = resolve(&world.universe(), &world.requests, &world.facts);
    let why = resolution.items[0].as_ref().unwrap_err();
    assert_eq!(why.code, Code::GaveUp);
    assert!(why.summary.contains("ns/holes"), "{}", why.summary);
    assert!(why.summary.contains("gave up after"), "{}", why.summary);
    assert!(why.nodes[0].text.contains("package holes"), "{:?}", why.nodes);
    assert_eq!(resolution.items[1].as_ref().unwrap().chosen.name, "easy.v1");
    // a small one of the same kind is decided
    let small = hard(5).resolve();
    assert_eq!(small.items[0].as_ref().unwrap_err().code, Code::RequestsConflict);
    // and so is one with room for all
    let mut room = hard(6);
    room.catalogs[0].1.packages.remove("pigeon5");
    let holes = room.catalogs[0].1.packages.get_mut("holes").unwrap();
    holes.bundles[0].requires.retain(|need| !need.to_string().contains("pigeon5"));
    let names: BTreeSet<String> = room.installs().into_iter().collect();
    assert_eq!(names.len(), 5 + 2, "{names:?}");
}

/// Every refusal has a hint.
#[test]
fn every_refusal_has_a_fix_and_fits_into_a_condition() {
    models("every_refusal_has_a_fix_and_fits_into_a_condition", 400, |model, _| {
        let resolution = model.world().resolve();
        resolution.items.iter().find_map(|item| {
            let why = item.as_ref().err()?;
            let short = why.condition_message().chars().count() <= 1000;
            let reported = !why.nodes.is_empty() && why.nodes.iter().all(|node| !node.text.is_empty());
            let command =
                why.fixes.first().is_some_and(|fix| !fix.text.is_empty() && !fix.command.is_empty());
            (!(short && reported && command)).then(|| why.text(120))
        })
    });
}
