//! Cases 36, 37, 42, 47, 48 and 50: installed operators.

use olm_resolver::{Action, Code};

use crate::world::{World, b};

/// An API moves from one operator to another: both are upgraded at once, or none.
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
    // then a new A alone, which is unavailable
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

/// Each of two operators needs the other in the same generation; both are upgraded in one step.
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

/// An installed operator needs exactly the version of another installed one.
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

/// Two Subscriptions of one package get one bundle when they follow one channel, and nothing when they follow
/// two; and an API has one owner.
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

/// The installed bundle was of another package; the new one replaces it by name.
#[test]
fn case_48_package_rename() {
    let world = World::new()
        .channel("cat", "b", "alpha", &[b("b.v2", "2.0.0").replaces("a.v1")])
        .sub("b", "alpha")
        .installed(&b("a.v1", "1.0.0"));
    assert_eq!(world.installs(), ["b.v2"]);
}

/// The Subscription names its installed operator, but no such operator exists. OLM reinstalls it as a step of
/// the resolution; here the resolver reports no change, and the plan restores the missing objects.
#[test]
fn case_48_subscription_without_its_operator() {
    let a1 = b("a.v1", "1.0.0");
    let mut world =
        World::new().channel("cat", "a", "alpha", std::slice::from_ref(&a1)).sub("a", "alpha").installed(&a1);
    world.facts.installed.clear();
    let item = world.item();
    assert_eq!((item.action, item.chosen.name.as_str()), (Action::None, "a.v1"));
    assert_eq!(item.chosen.channel, "alpha");
    // and an upgrade continues from there
    let a2 = b("a.v2", "2.0.0").replaces("a.v1");
    let mut world =
        World::new().channel("cat", "a", "alpha", &[a1.clone(), a2]).sub("a", "alpha").installed(&a1);
    world.facts.installed.clear();
    assert_eq!(world.installs(), ["a.v2"]);
}

/// An upgrade failed half-way: a.v1 still exists, being replaced, and a.v2, installed by the Subscription,
/// failed; the catalog has a.v3 that replaces a.v2. OLM resolves that only with the upgrade strategy
/// `TechPreviewUnsafeFailForward`, after it has walked the chain of replacements and checked the phase of
/// each link ("csv ... in phase Failed instead of Replacing", "csv ... has already been seen"). Here there is
/// no switch and no walk: an older bundle of the same package never blocks the next one, so an upgrade is
/// always possible. An operator of another package that owns the API blocks it in both.
#[test]
fn case_50_fail_forward() {
    let a = |n: usize| b(&format!("a.v{n}"), &format!("{n}.0.0")).provides(&["k"]);
    let after = |n: usize| a(n).replaces(&format!("a.v{}", n - 1));
    // a.v1 replacing, a.v2 failed
    let two = || {
        World::new()
            .channel("cat", "a", "alpha", &[a(1), after(2), after(3)])
            .existing("a", &a(1), None)
            .sub("a", "alpha")
            .installed(&after(2))
    };
    assert_eq!(two().installs(), ["a.v3"]);
    // a chain of three
    let three = World::new()
        .channel("cat", "a", "alpha", &[a(1), after(2), after(3), after(4)])
        .existing("a", &a(1), None)
        .existing("a", &after(2), None)
        .sub("a", "alpha")
        .installed(&after(3));
    assert_eq!(three.installs(), ["a.v4"]);
    // a foreign operator being deleted owns the API
    let foreign = two().existing("b", &b("b.v1", "1.0.0").provides(&["k"]), None).item();
    assert_eq!(foreign.action, Action::None);
    assert_eq!(foreign.rejected[0].code, Code::ApiOwnedBy);
    assert!(foreign.rejected[0].text.contains("b.v1"), "{}", foreign.rejected[0].text);
    // the same operator without an installed a is a refusal
    let fresh = World::new()
        .channel("cat", "a", "alpha", &[a(1)])
        .existing("b", &b("b.v1", "1.0.0").provides(&["k"]), None)
        .sub("a", "alpha");
    assert_eq!(fresh.refused().code, Code::ApiOwnedBy);
}
