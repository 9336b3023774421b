//! Cases 52 to 56: the resolver of OLM v1, which has no channel order and no dependencies.
//!
//! Package p has 0.1.0, 1.0.0, 1.0.1, 1.0.2, 2.0.0 in channel alpha, 0.1.0 and 1.0.2 in beta, 3.0.0 in gamma;
//! 1.0.0 and 1.0.1 are deprecated by the catalog. v1 takes the highest version; here it is the first of the
//! channel's order, as in v0, so the package has a chain of `replaces` in addition to v1's skipRanges.
//! (Without one the channel has no order, and only a pin can select from it; see case 52.)

use olm_resolver::{Action, Code, UpgradePolicy, VersionRequest};

use crate::world::{B, World, b};

fn p(version: &str) -> B {
    b(&format!("p.v{version}"), version)
}

fn after(version: &str, before: &str, range: &str) -> B {
    p(version).replaces(&format!("p.v{before}")).skip_range(range)
}

fn world() -> World {
    World::new()
        .channel("cat", "p", "gamma", &[p("3.0.0").skip_range(">=2.0.0 <3.0.0")])
        .channel(
            "cat",
            "p",
            "alpha",
            &[
                p("0.1.0"),
                after("1.0.0", "0.1.0", "<1.0.0").deprecated("use 1.0.2"),
                after("1.0.1", "1.0.0", "<1.0.1").deprecated("use 1.0.2"),
                after("1.0.2", "1.0.1", "<1.0.2"),
                after("2.0.0", "1.0.2", ">=1.0.0 <2.0.0"),
            ],
        )
        .channel("cat", "p", "beta", &[p("0.1.0"), after("1.0.2", "0.1.0", "<1.0.2")])
}

/// The result of a Subscription to a channel (empty: any) with a version (empty: any).
fn ask(world: World, channel: &str, version: &str) -> Result<String, Code> {
    let wish = (!version.is_empty()).then(|| VersionRequest::parse(version).unwrap());
    let world = world.sub("p", channel).with(|r| r.version = wish);
    match world.resolve().items.remove(0) {
        Ok(item) => Ok(item.chosen.name),
        Err(why) => Err(why.code),
    }
}

fn gets(name: &str) -> Result<String, Code> {
    Ok(format!("p.v{name}"))
}

/// With nothing installed: versions and channels restrict the choice.
#[test]
fn case_52_v1_version_and_channel_filters() {
    assert_eq!(ask(world(), "", ""), gets("3.0.0"));
    assert_eq!(ask(world(), "", ">=1.0.0 <2.0.0"), gets("1.0.2"));
    assert_eq!(ask(world(), "", "4.0.0"), Err(Code::UnknownVersion));
    assert_eq!(ask(world(), "stable", ""), Err(Code::UnknownChannel));
    assert_eq!(ask(world(), "beta", ""), gets("1.0.2"));
    assert_eq!(ask(world(), "beta", "3.0.0"), Err(Code::NotInChannel));
    assert_eq!(ask(world(), "alpha", "0.1.0"), gets("0.1.0"));
    // edges by skipRange alone give a channel no order; v1 would take the highest version, v0 refuses, and so
    // does this resolver
    let unordered =
        || World::new().channel("cat", "p", "alpha", &[p("0.1.0"), p("1.0.0").skip_range("<1.0.0")]);
    assert_eq!(ask(unordered(), "alpha", ""), Err(Code::BrokenChannel));
    assert_eq!(ask(unordered(), "alpha", "1.0.0"), gets("1.0.0"));
}

/// Bundles deprecated by the catalog come after all others in the range, and are chosen when there is no
/// other.
#[test]
fn case_53_v1_deprecated_bundles_come_last() {
    assert_eq!(ask(world(), "", ">=0.1.0 <=1.0.0"), gets("0.1.0"));
    assert_eq!(ask(world(), "", ">=1.0.0 <=1.0.1"), gets("1.0.1"));
}

/// Several catalogs have the package. v1 searches all of them and fails when two match (`[b c]`); here a
/// Subscription names its catalog, so there is nothing to decide. (For dependencies there is, see case 29.)
#[test]
fn case_54_v1_several_catalogs() {
    let world = || {
        World::new()
            .channel("b", "p", "alpha", &[p("1.0.0").deprecated("old")])
            .channel("c", "p", "alpha", &[p("1.0.1").deprecated("old")])
            .channel("d", "p", "alpha", &[p("1.0.2")])
            .channel("e", "p", "alpha", &[p("1.0.3").deprecated("old")])
            .channel("f", "p", "alpha", &[p("1.0.4"), after("1.0.5", "1.0.4", "<1.0.5")])
    };
    let from = |catalog: &str, version: &str| {
        let wish = VersionRequest::parse(version).unwrap();
        let world = world().sub("p", "alpha").with(|r| {
            r.catalog.name = catalog.into();
            r.version = Some(wish);
        });
        world.resolve().items.remove(0).map(|item| item.chosen.name).map_err(|why| why.code)
    };
    assert_eq!(from("d", "<=1.0.3"), gets("1.0.2"));
    assert_eq!(from("b", "<=1.0.1"), gets("1.0.0"));
    assert_eq!(from("c", "<=1.0.1"), gets("1.0.1"));
    assert_eq!(from("f", "<=1.0.4"), gets("1.0.4"));
    assert_eq!(from("f", ">=1.0.4 <=1.0.5"), gets("1.0.5"));
    assert_eq!(from("d", ">=1.0.4"), Err(Code::UnknownVersion));
}

/// With a version installed: the highest that an edge leads to, or with `SelfCertified` any.
#[test]
fn case_55_v1_upgrades() {
    let at = |installed: &str, version: &str, policy: UpgradePolicy| {
        let wish = (!version.is_empty()).then(|| VersionRequest::parse(version).unwrap());
        world()
            .sub("p", "")
            .with(|r| {
                r.version = wish;
                r.policy = policy;
            })
            .installed(&p(installed))
    };
    let (by_edges, at_will) = (UpgradePolicy::CatalogProvided, UpgradePolicy::SelfCertified);
    assert_eq!(at("0.1.0", "", by_edges).installs(), ["p.v1.0.2"]);
    let refused = at("0.1.0", "<1.0.0 >=2.0.0", by_edges).refused();
    assert_eq!(refused.code, Code::UnknownVersion);
    assert!(refused.text(200).contains("<1.0.0 >=2.0.0"), "{}", refused.text(200));
    assert_eq!(at("1.0.2", "<1.0.2", at_will).installs(), ["p.v0.1.0"]);
    assert_eq!(at("1.0.2", ">0.1.0 <1.0.0", at_will).refused().code, Code::UnknownVersion);
    // a catalog that has never been read has no content; one that was read keeps its last content
    let mut gone = World::new().channel("cat", "p", "alpha", &[]).sub("p", "alpha");
    gone.catalogs[0].1.packages.clear();
    gone.catalogs[0].1.health = olm_resolver::Health::Unavailable { reason: "timeout".into() };
    assert_eq!(gone.refused().code, Code::CatalogUnavailable);
    let mut old = at("0.1.0", "", by_edges);
    old.catalogs[0].1.health = olm_resolver::Health::Unavailable { reason: "timeout".into() };
    assert_eq!(old.installs(), ["p.v1.0.2"]);
}

/// Successors of a version: `replaces`, `skips` and `skipRange` lead into the entry that has them, build
/// metadata is part of a name, and an unknown version leads nowhere.
#[test]
fn case_56_v1_successors() {
    let next = |installed: &str| {
        let world = World::new()
            .channel(
                "cat",
                "p",
                "alpha",
                &[
                    p("2.0.0"),
                    p("2.1.0").replaces("p.v2.0.0"),
                    p("2.2.0").replaces("p.v2.1.0").skips(&["p.v2.0.0+1"]),
                    p("2.2.1"),
                    p("2.3.0").replaces("p.v2.2.0").skips(&["p.v2.2.1"]),
                    after("2.4.0", "2.3.0", ">=2.3.0 <2.4.0"),
                ],
            )
            .sub("p", "alpha")
            .installed(&p(installed));
        let item = world.item();
        (item.action, item.chosen.name)
    };
    let upgrade = |name: &str| (Action::Upgrade, format!("p.v{name}"));
    assert_eq!(next("2.0.0"), upgrade("2.1.0"));
    assert_eq!(next("2.2.1"), upgrade("2.3.0"));
    assert_eq!(next("2.3.0"), upgrade("2.4.0"));
    assert_eq!(next("2.0.0+1"), upgrade("2.2.0"));
    assert_eq!(next("7.0.0"), (Action::None, "p.v7.0.0".to_owned()));
}
