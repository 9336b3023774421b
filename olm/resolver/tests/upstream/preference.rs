//! Cases 26 to 35: preferences among candidates and catalogs.

use olm_resolver::{Code, SatisfiedBy};

use crate::world::{World, b};

/// An operator is installed and newest; another one is added.
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

/// One operator is upgraded while another one is installed for the first time, at its newest.
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

/// Packages are required in exactly one version, though there are newer ones; the dependencies have exact
/// dependencies of their own.
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
    // every dependency names its dependent
    let item = world.item();
    let e = item.dependencies.iter().find(|d| d.required_by == "c.v1.0.1").unwrap();
    assert!(
        matches!(&e.satisfied_by, SatisfiedBy::Install(bundle) if bundle.name == "e.v1.0.1" && bundle.channel == "alpha")
    );
}

/// The preferred provider: the catalog of the dependent, then the highest priority, then the name.
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
    // the catalog of the dependent comes first, whatever its priority
    let world = world.channel("cat", "another", "alpha", &[other("another.same")]);
    assert_eq!(world.installs(), ["another.same", "test.v1"]);
}

/// The first provider has an unmet requirement; the second one is taken.
#[test]
fn case_30_backtracking_over_a_broken_dependency() {
    let world = World::new()
        .channel("cat", "another", "alpha", &[b("another.v1", "1.0.0").needs(&["c 0.1.0"])])
        .channel("cat", "c", "alpha", &[b("c.community", "0.1.0").needs(&["d 0.1.0"])])
        .channel("certified", "c", "alpha", &[b("c.certified", "0.1.0")])
        .sub("another", "alpha");
    assert_eq!(world.installs(), ["another.v1", "c.certified"]);
}

/// APIs that lead from bundle to bundle stay in the catalog they began in.
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

/// Without a channel the default one is used, by Subscriptions and dependencies alike, whatever is newer
/// elsewhere.
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

/// An operator without a Subscription provides the requirement; no other can own its API.
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

/// A package cannot meet its own requirement from another of its channels: two other packages must.
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

/// A catalog of another namespace is another catalog: its content is not found under this one's name. In OLM
/// an entry of a snapshot can claim another source ("expected exactly one operator, got 0"); here a bundle
/// always belongs to the catalog that contains it.
#[test]
fn case_33_scope_of_a_catalog() {
    let mut world = World::new().channel("cat", "a", "alpha", &[b("a.v1", "1.0.0")]).sub("a", "alpha");
    world.catalogs[0].0.namespace = "elsewhere".into();
    let refused = world.refused();
    assert_eq!(
        (refused.code, refused.nearest.clone()),
        (Code::UnknownCatalog, vec!["elsewhere/cat".to_owned()])
    );
    world.requests[0].catalog.namespace = "elsewhere".into();
    assert_eq!(world.installs(), ["a.v1"]);
}
