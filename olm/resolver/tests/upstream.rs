//! Cases of OLM's own resolver tests (the numbers are those of reference/olm.md 9.5).
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use olm_resolver::{Action, Code, HopVia, SatisfiedBy, UpgradePolicy, VersionWish};
use world::{World, b, catalog_ref, gvk};

#[test]
fn case_26_new_next_to_existing() {
    let world = World::new()
        .channel("cat", "test", "alpha", &[b("test.v1", "0.0.1")])
        .channel("cat", "another", "alpha", &[b("another.v1", "1.0.1")])
        .sub("test", "alpha")
        .installed(&b("test.v1", "0.0.1"))
        .sub("another", "alpha");
    assert_eq!(world.installs(), ["another.v1"]);
}

#[test]
fn case_27_latest_and_update() {
    let world = World::new()
        .channel(
            "cat",
            "test",
            "alpha",
            &[b("test.v1", "1.0.0"), b("test.v1.0.1", "1.0.1").replaces("test.v1")],
        )
        .channel(
            "cat",
            "another",
            "alpha",
            &[
                b("another.v0.9.0", "0.9.0"),
                b("another.v1.0.0", "1.0.0").replaces("another.v0.9.0"),
                b("another.v1.0.1", "1.0.1").replaces("another.v1.0.0"),
            ],
        )
        .sub("test", "alpha")
        .installed(&b("test.v1", "1.0.0"))
        .sub("another", "alpha");
    assert_eq!(world.installs(), ["another.v1.0.1", "test.v1.0.1"]);
}

#[test]
fn case_28_exact_version_dependencies_nested() {
    let world = World::new()
        .channel("cat", "another", "alpha", &[b("another.v1.0.1", "1.0.1").needs(&["c 1.0.1", "d 1.0.1"])])
        .channel(
            "cat",
            "c",
            "alpha",
            &[b("c.v1.0.0", "1.0.0"), b("c.v1.0.1", "1.0.1").replaces("c.v1.0.0").needs(&["e 1.0.1"])],
        )
        .channel(
            "cat",
            "d",
            "alpha",
            &[
                b("d.v1.0.0", "1.0.0"),
                b("d.v1.0.1", "1.0.1").replaces("d.v1.0.0"),
                b("d.v1.0.2", "1.0.2").replaces("d.v1.0.1"),
            ],
        )
        .channel("cat", "e", "alpha", &[b("e.v1.0.1", "1.0.1")])
        .sub("another", "alpha");
    assert_eq!(world.installs(), ["another.v1.0.1", "c.v1.0.1", "d.v1.0.1", "e.v1.0.1"]);
    // every dependency says who asked for it
    let item = world.item();
    let e = item.dependencies.iter().find(|d| d.required_by == "c.v1.0.1").unwrap();
    assert!(
        matches!(&e.satisfied_by, SatisfiedBy::Install(bundle) if bundle.name == "e.v1.0.1" && bundle.channel == "alpha")
    );
}

#[test]
fn case_29_catalog_priority() {
    let other = |name: &str| b(name, "0.0.1");
    let world = World::new()
        .channel("cat", "test", "alpha", &[b("test.v1", "0.0.1").needs(&["another 0.0.1"])])
        .channel("community-operator", "another", "alpha", &[other("another.community")])
        .channel("high-priority-operator", "another", "alpha", &[other("another.high")])
        .priority("high-priority-operator", 100)
        .sub("test", "alpha");
    assert_eq!(world.installs(), ["another.high", "test.v1"]);
    // the same priority: by name
    let world = world.priority("community-operator", 100);
    assert_eq!(world.installs(), ["another.community", "test.v1"]);
    // the catalog of the one that needs it comes first, whatever its priority
    let world = world.channel("cat", "another", "alpha", &[other("another.same")]);
    assert_eq!(world.installs(), ["another.same", "test.v1"]);
}

#[test]
fn case_30_backtracking_over_a_broken_dependency() {
    let world = World::new()
        .channel("cat", "another", "alpha", &[b("another.v1", "1.0.0").needs(&["c 0.1.0"])])
        .channel("cat", "c", "alpha", &[b("c.community", "0.1.0").needs(&["d 0.1.0"])])
        .channel("certified", "c", "alpha", &[b("c.certified", "0.1.0")])
        .sub("another", "alpha");
    assert_eq!(world.installs(), ["another.v1", "c.certified"]);
}

#[test]
fn case_31_same_catalog_through_an_api_chain() {
    let mut world =
        World::new().channel("cat", "another", "alpha", &[b("another.v1", "1.0.0").requires(&["k1"])]);
    for catalog in ["aaa", "cat"] {
        world = world
            .channel(
                catalog,
                "c",
                "alpha",
                &[b(&format!("c.{catalog}"), "1.0.0").provides(&["k1"]).requires(&["k2"])],
            )
            .channel(catalog, "d", "alpha", &[b(&format!("d.{catalog}"), "1.0.0").provides(&["k2"])]);
    }
    assert_eq!(world.sub("another", "alpha").installs(), ["another.v1", "c.cat", "d.cat"]);
}

#[test]
fn case_32_default_channel() {
    let world = World::new()
        .channel("cat", "p", "stable", &[b("p.v0.0.1", "0.0.1")])
        .channel("cat", "p", "alpha", &[b("p.v0.0.2", "0.0.2")])
        .sub("p", "");
    assert_eq!(world.installs(), ["p.v0.0.1"]);
    // the same for a dependency
    let world = World::new()
        .channel("cat", "p", "alpha", &[b("p.v1", "1.0.0").requires(&["k1"])])
        .channel("cat", "another", "stable", &[b("another.v0.0.1", "0.0.1").provides(&["k1"])])
        .channel("cat", "another", "alpha", &[b("another.v0.0.2", "0.0.2").provides(&["k1"])])
        .sub("p", "alpha");
    assert_eq!(world.installs(), ["another.v0.0.1", "p.v1"]);
}

#[test]
fn case_34_operator_without_a_subscription() {
    let world = World::new()
        .channel("cat", "another", "alpha", &[b("another.v1.0.1", "1.0.1").requires(&["k1"])])
        .existing("test", &b("test.v1", "1.0.0").provides(&["k1"]), None)
        .sub("another", "alpha");
    assert_eq!(world.installs(), ["another.v1.0.1"]);
    let world = World::new()
        .channel("cat", "another", "alpha", &[b("another.v1.0.1", "1.0.1").provides(&["k1"])])
        .existing("test", &b("test.v1", "1.0.0").provides(&["k1"]), None)
        .sub("another", "alpha");
    assert_eq!(world.refused().code, Code::ApiOwnedBy);
}

#[test]
fn case_35_no_self_satisfaction() {
    let world = World::new()
        .channel("cat", "test", "stable", &[b("opA", "1.0.0").requires(&["k1", "k2"])])
        .channel("cat", "test", "alpha", &[b("opABC", "1.0.0").provides(&["k1", "k2"])])
        .channel("cat", "another", "stable", &[b("opB", "1.0.0").provides(&["k1"])])
        .channel("cat", "another", "alpha", &[b("opD", "1.0.0").provides(&["k1"])])
        .channel("other", "another", "stable", &[b("opC", "1.0.0").provides(&["k2"])])
        .channel("other", "packageC", "stable", &[b("opE", "1.0.0").provides(&["k2"])])
        .sub("test", "stable");
    assert_eq!(world.installs(), ["opA", "opB", "opE"]);
}

#[test]
fn case_36_api_moves_from_one_operator_to_another() {
    let a1 = b("opA.v1", "1.0.0").provides(&["k1"]);
    let b1 = b("opB.v1", "1.0.0").requires(&["k1"]).provides(&["k2"]);
    let a2 = b("opA.v1.0.1", "1.0.1").replaces("opA.v1").requires(&["k1"]);
    let b2 = b("opB.v1.0.1", "1.0.1").replaces("opB.v1").provides(&["k1", "k2"]);
    // first both
    let world = World::new()
        .channel("cat", "a", "alpha", std::slice::from_ref(&a1))
        .channel("cat", "b", "alpha", std::slice::from_ref(&b1))
        .sub("a", "alpha")
        .sub("b", "alpha");
    assert_eq!(world.installs(), ["opA.v1", "opB.v1"]);
    // then a new A alone, which cannot be had
    let both = |world: World| world.sub("a", "alpha").installed(&a1).sub("b", "alpha").installed(&b1);
    let world = both(World::new().channel("cat", "a", "alpha", &[a1.clone(), a2.clone()]).channel(
        "cat",
        "b",
        "alpha",
        std::slice::from_ref(&b1),
    ));
    assert_eq!(world.installs(), Vec::<String>::new());
    // then a new B too
    let world = both(World::new().channel("cat", "a", "alpha", &[a1.clone(), a2]).channel(
        "cat",
        "b",
        "alpha",
        &[b1.clone(), b2],
    ));
    assert_eq!(world.installs(), ["opA.v1.0.1", "opB.v1.0.1"]);
}

#[test]
fn case_37_version_deadlock_is_broken() {
    let a1 = b("a.v1", "1.0.0").provides(&["k1"]).requires(&["k2"]);
    let b1 = b("b.v1", "1.0.0").provides(&["k2"]).requires(&["k1"]);
    let a2 = b("a.v2", "2.0.0").replaces("a.v1").provides(&["k3"]).requires(&["k4"]);
    let b2 = b("b.v2", "2.0.0").replaces("b.v1").provides(&["k4"]).requires(&["k3"]);
    let world = World::new()
        .channel("cat", "a", "alpha", &[a1.clone(), a2])
        .channel("cat", "b", "alpha", &[b1.clone(), b2])
        .sub("a", "alpha")
        .installed(&a1)
        .sub("b", "alpha")
        .installed(&b1);
    assert_eq!(world.installs(), ["a.v2", "b.v2"]);
}

#[test]
fn case_38_older_provider() {
    let world = World::new()
        .channel("cat", "b", "alpha", &[b("b.v1", "1.0.0").requires(&["k1"])])
        .channel(
            "cat",
            "a",
            "alpha",
            &[b("a.v1", "1.0.0").provides(&["k1"]), b("a.v2", "2.0.0").replaces("a.v1")],
        )
        .sub("b", "alpha");
    assert_eq!(world.installs(), ["a.v1", "b.v1"]);
}

#[test]
fn case_39_deprecated() {
    let world =
        World::new().channel("cat", "a", "alpha", &[b("a.v1", "1.0.0").prohibited()]).sub("a", "alpha");
    assert_eq!(world.refused().code, Code::Deprecated);
    let world = World::new()
        .channel(
            "cat",
            "a",
            "alpha",
            &[
                b("a-1", "1.0.0"),
                b("a-2", "2.0.0").replaces("a-1").prohibited(),
                b("a-3", "3.0.0").replaces("a-2"),
            ],
        )
        .sub("a", "alpha");
    assert_eq!(world.installs(), ["a-3"]);
}

#[test]
fn case_40_skips_and_starting_csv() {
    let test = |name: &str, version: &str| b(name, version).provides(&["k1"]);
    let world = World::new()
        .channel(
            "cat",
            "another",
            "alpha",
            &[b("another.v1", "1.0.0").requires(&["k1"]), b("another.v2", "2.0.0").skips(&["another.v1"])],
        )
        .channel(
            "cat",
            "test",
            "alpha",
            &[
                test("test.v1", "1.0.0"),
                test("test.v2", "2.0.0").replaces("test.v1"),
                test("test.v3", "3.0.0").replaces("test.v2"),
                test("test.v4", "4.0.0").replaces("test.v2").skips(&["test.v3"]),
                test("test.v5", "5.0.0").replaces("test.v2").skips(&["test.v2", "test.v3", "test.v4"]),
                test("test.v6", "6.0.0").replaces("test.v5"),
            ],
        )
        .sub("another", "alpha")
        .with(|r| r.starting_csv = Some("another.v1".into()));
    assert_eq!(world.installs(), ["another.v1", "test.v6"]);
    // a skipped provider cannot be had
    let world = World::new()
        .channel("cat", "a", "alpha", &[b("a-1", "1.0.0").requires(&["k1"])])
        .channel(
            "cat",
            "b",
            "alpha",
            &[
                b("b-1", "1.0.0").provides(&["k1"]),
                b("b-2", "2.0.0").replaces("b-1"),
                b("b-3", "3.0.0").replaces("b-2").skips(&["b-1"]),
            ],
        )
        .sub("a", "alpha");
    assert_eq!(world.refused().code, Code::DependencyUnsatisfied);
}

#[test]
fn case_41_skip_range() {
    let v1 = b("a.v1", "0.0.0");
    let upgrade = |bundles: &[world::B]| {
        World::new().channel("cat", "a", "alpha", bundles).sub("a", "alpha").installed(&v1).item()
    };
    let item = upgrade(&[b("a.v2", "0.5.0"), b("a.v3", "1.0.0").replaces("a.v2").skip_range("<1.0.0")]);
    assert_eq!((item.chosen.name.as_str(), item.path[0].via), ("a.v3", HopVia::SkipRange));
    let item = upgrade(&[
        b("a.v2", "0.5.0"),
        b("a.v3", "1.0.0").replaces("a.v2").skip_range("<1.0.0"),
        b("a.v4", "1.1.0").replaces("a.v3").skip_range("<1.0.0 !0.0.0"),
    ]);
    assert_eq!(item.chosen.name, "a.v3");
    // and the way goes on from there
    assert_eq!(item.path.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["a.v3", "a.v4"]);
    let item =
        upgrade(&[b("a.v2", "0.5.0").skips(&["a.v1"]), b("a.v3", "1.0.0").replaces("a.v2").skips(&["a.v1"])]);
    assert_eq!((item.chosen.name.as_str(), item.path[0].via), ("a.v3", HopVia::Skips));
}

#[test]
fn case_42_an_installed_operator_holds_another_back() {
    let world = World::new()
        .channel("cat", "b", "alpha", &[b("b-1", "1.0.0"), b("b-2", "2.0.0").replaces("b-1")])
        .existing("a", &b("a-1", "1.0.0").needs(&["b 1.0.0"]), Some("ns/a"))
        .sub("b", "alpha")
        .installed(&b("b-1", "1.0.0"));
    let item = world.item();
    assert_eq!(item.action, Action::None);
    assert_eq!(item.rejected[0].code, Code::RequiredByInstalled);
}

#[test]
fn case_43_any_of_several() {
    let foo = |name: &str, version: &str, kinds: &[&str]| b(name, version).provides(kinds);
    let world = World::new()
        .channel("cat", "bar", "alpha", &[b("bar.v1", "1.0.0").any("one of them", &["g1", "g2"], &[])])
        .channel(
            "cat",
            "foo",
            "alpha",
            &[foo("foo.v0.99", "0.99.0", &["g1"]), foo("foo.v1.0.1", "1.0.1", &["g2"]).replaces("foo.v0.99")],
        )
        .sub("bar", "alpha");
    assert_eq!(world.installs(), ["bar.v1", "foo.v1.0.1"]);
    let world = World::new()
        .channel(
            "cat",
            "bar",
            "alpha",
            &[b("bar.v1", "1.0.0").any("one of them is needed", &["g1"], &["foo >=1.0.0"])],
        )
        .sub("bar", "alpha");
    assert!(world.refused().text(200).contains("one of them is needed"));
}

#[test]
fn case_46_names_that_do_not_exist() {
    let base = || World::new().channel("cat", "etcd", "stable", &[b("etcdoperator.v0.10.0", "0.10.0")]);
    let e = base().sub("ectd", "stable").refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownPackage, vec!["etcd".to_owned()]));
    let e = base().sub("etcd", "stabel").refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownChannel, vec!["stable".to_owned()]));
    let e =
        base().sub("etcd", "stable").with(|r| r.starting_csv = Some("etcdoperator.v0.10.1".into())).refused();
    assert_eq!(
        (e.code, e.nearest.clone()),
        (Code::UnknownStartingCsv, vec!["etcdoperator.v0.10.0".to_owned()])
    );
    let e = base().sub("etcd", "stable").with(|r| r.version = VersionWish::parse("0.10.9").ok()).refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownVersion, vec!["0.10.0".to_owned()]));
    let e = base().sub("etcd", "stable").with(|r| r.catalog = catalog_ref("kat")).refused();
    assert_eq!((e.code, e.nearest.clone()), (Code::UnknownCatalog, vec!["ns/cat".to_owned()]));
    assert!(e.code.is_not_found());
}

#[test]
fn case_47_two_subscriptions() {
    let base = || {
        World::new().channel("cat", "a", "alpha", &[b("a.v1", "1.0.0")]).channel(
            "cat",
            "a",
            "beta",
            &[b("a.v2", "2.0.0")],
        )
    };
    let twice = |first: &str, second: &str| {
        base().sub("a", first).sub("a", second).with(|r| r.subscription = "ns/a-too".into())
    };
    assert_eq!(twice("alpha", "alpha").installs(), ["a.v1"]);
    assert_eq!(twice("alpha", "beta").refused().code, Code::RequestsConflict);
    // two packages that provide the same API
    let world = World::new()
        .channel("cat", "a", "alpha", &[b("a.v1", "1.0.0").provides(&["k1"])])
        .channel("cat", "b", "alpha", &[b("b.v1", "1.0.0").provides(&["k1"])])
        .sub("a", "alpha")
        .installed(&b("a.v1", "1.0.0").provides(&["k1"]))
        .sub("b", "alpha");
    assert!(world.refused().text(80).contains("ns/b"), "{}", world.refused().text(80));
}

#[test]
fn case_48_package_rename() {
    let world = World::new()
        .channel("cat", "b", "alpha", &[b("b.v2", "2.0.0").replaces("a.v1")])
        .sub("b", "alpha")
        .installed(&b("a.v1", "1.0.0"));
    assert_eq!(world.installs(), ["b.v2"]);
}

#[test]
fn cluster_apis_count_as_provided() {
    let mut world = World::new()
        .channel("cat", "a", "alpha", &[b("a.v1", "1.0.0").requires(&["k1"])])
        .channel("cat", "b", "alpha", &[b("b.v1", "1.0.0").provides(&["k1"])])
        .sub("a", "alpha");
    let fact = olm_resolver::ApiFact { owner: Some("Helm release b".into()) };
    world.facts.apis.insert(gvk("k1"), fact);
    let item = world.item();
    assert_eq!(
        item.dependencies[0].satisfied_by,
        SatisfiedBy::Cluster { owner: Some("Helm release b".into()) }
    );
}

#[test]
fn versions_pins_and_self_certified_moves() {
    let chain = [
        b("p.v1", "1.0.0"),
        b("p.v2", "2.0.0").replaces("p.v1"),
        b("p.v3", "3.0.0").replaces("p.v2"),
        b("p.v4", "4.0.0").replaces("p.v3"),
    ];
    let fresh = |wish: &str| {
        let wish = VersionWish::parse(wish).unwrap();
        World::new()
            .channel("cat", "p", "stable", &chain)
            .sub("p", "stable")
            .with(|r| r.version = Some(wish))
            .item()
    };
    assert_eq!(fresh("<3.0.0").chosen.name, "p.v2");
    assert_eq!(fresh("v1.0.0").chosen.name, "p.v1");
    let at = |bundle: &world::B, wish: &str, policy| {
        World::new()
            .channel("cat", "p", "stable", &chain)
            .sub("p", "stable")
            .with(|r| {
                r.version = VersionWish::parse(wish).ok();
                r.policy = policy;
            })
            .installed(bundle)
    };
    // one hop at a time, also when the pin is further on
    let item = at(&chain[0], "3.0.0", UpgradePolicy::CatalogProvided).item();
    assert_eq!(item.chosen.name, "p.v2");
    assert_eq!(item.path.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["p.v2", "p.v3"]);
    assert!(item.why.contains("first hop"), "{}", item.why);
    // a range that what is installed fits in is no reason to fail
    let item = at(&chain[1], "<3.0.0", UpgradePolicy::CatalogProvided).item();
    assert_eq!((item.action, item.rejected[0].code), (Action::None, Code::Pinned));
    // back only at one's own risk
    let refused = at(&chain[2], "1.0.0", UpgradePolicy::CatalogProvided).refused();
    assert_eq!(refused.code, Code::NoUpgradeEdge);
    assert!(refused.fixes[0].command.contains("SelfCertified"));
    let item = at(&chain[2], "1.0.0", UpgradePolicy::SelfCertified).item();
    assert_eq!((item.chosen.name.as_str(), item.path[0].via), ("p.v1", HopVia::SelfCertified));
}
