//! Fields that upstream does not have: `version` with policies, and APIs that the cluster serves.

use olm_resolver::{Action, Code, HopVia, SatisfiedBy, UpgradePolicy, VersionRequest};

use crate::world::{self, World, b, gvk};

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
        let wish = VersionRequest::parse(wish).unwrap();
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
                r.version = VersionRequest::parse(wish).ok();
                r.policy = policy;
            })
            .installed(bundle)
    };
    // one hop at a time, even if the pin is further on
    let item = at(&chain[0], "3.0.0", UpgradePolicy::CatalogProvided).item();
    assert_eq!(item.chosen.name, "p.v2");
    assert_eq!(item.path.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["p.v2", "p.v3"]);
    assert!(item.why.contains("first hop"), "{}", item.why);
    // a range that includes the installed version is not a failure
    let item = at(&chain[1], "<3.0.0", UpgradePolicy::CatalogProvided).item();
    assert_eq!((item.action, item.rejected[0].code), (Action::None, Code::Pinned));
    // back only when self-certified
    let refused = at(&chain[2], "1.0.0", UpgradePolicy::CatalogProvided).refused();
    assert_eq!(refused.code, Code::NoUpgradeEdge);
    assert!(refused.fixes[0].command.contains("SelfCertified"));
    let item = at(&chain[2], "1.0.0", UpgradePolicy::SelfCertified).item();
    assert_eq!((item.chosen.name.as_str(), item.path[0].via), ("p.v1", HopVia::SelfCertified));
}
