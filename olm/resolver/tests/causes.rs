//! Versions with a common cause share a line, every missing API is named, and later hops are distinguished
//! from missing edges.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use olm_resolver::{Action, Code, Node, Resolved, VersionRequest};
use world::{B, World, b};

/// `count` versions of package a, each of which replaces the one before it.
fn versions(count: u32, shape: impl Fn(u32, B) -> B) -> Vec<B> {
    let name = |at: u32| format!("a.v1.{at}.0");
    let bundle = |at: u32| {
        let bundle = shape(at, b(&name(at), &format!("1.{at}.0")));
        if at == 0 { bundle } else { bundle.replaces(&name(at - 1)) }
    };
    (0..count).map(bundle).collect()
}

/// Subject and text of the candidates of a request that cannot be met.
fn lines(world: &World) -> Vec<String> {
    let refused = world.refused();
    let children = refused.nodes.iter().flat_map(|node| &node.children);
    children.map(|child| format!("{}: {}", child.subject, child.text)).collect()
}

fn rejected(item: &Resolved) -> Vec<(&str, Code, &str)> {
    item.rejected.iter().map(|r| (r.name.as_str(), r.code, r.text.as_str())).collect()
}

#[test]
fn versions_that_share_a_cause_share_a_line() {
    let list = versions(47, |_, bundle| bundle.requires(&["Moon"]));
    let world = World::new().channel("cat", "a", "stable", &list).sub("a", "stable");
    assert_eq!(lines(&world), ["versions 1.0.0 to 1.46.0 (47): requires API Moon (g/v)"]);
    let refused = world.refused();
    let text = refused.text(80);
    assert!(text.contains("none of 47 candidates") && !text.contains("the first are"), "{text}");
    assert_eq!(text.matches("Moon").count(), 2, "{text}");
    let message = refused.condition_message();
    assert!(message.contains("; versions 1.0.0 to 1.46.0 (47): requires API Moon (g/v) ("), "{message}");
}

#[test]
fn each_cause_has_a_separate_line() {
    let list = versions(6, |at, bundle| match at {
        0 | 1 => bundle.kube("1.40.0"),
        3 => bundle.requires(&["Sun"]),
        _ => bundle.requires(&["Moon"]),
    });
    let world = World::new().channel("cat", "a", "stable", &list).kubernetes("1.33.0").sub("a", "stable");
    assert_eq!(
        lines(&world),
        [
            "versions 1.2.0 to 1.5.0 (3): requires API Moon (g/v)",
            "a.v1.3.0: requires API Sun (g/v)",
            "versions 1.0.0, 1.1.0: it requires Kubernetes 1.40.0 or newer; this cluster runs 1.33.0",
        ]
    );
}

#[test]
fn every_missing_api_is_named() {
    let needy = b("a.v1", "1.0.0").requires(&["Moon", "Stars", "Sun"]).needs(&["rocket >=1.0.0"]);
    let world = World::new().channel("cat", "a", "stable", std::slice::from_ref(&needy)).sub("a", "stable");
    let needs = "requires API Moon (g/v), API Stars (g/v), API Sun (g/v) and package rocket >=1.0.0";
    assert_eq!(lines(&world), [format!("a.v1: {needs}")]);
    let refused = world.refused();
    let below: Vec<&str> = refused.nodes[0].children[0].children.iter().map(|n| n.subject.as_str()).collect();
    assert_eq!(below, ["API Moon (g/v)", "API Stars (g/v)", "API Sun (g/v)", "package rocket >=1.0.0"]);
    // also where another version is chosen
    let list = [b("a.v0", "0.1.0"), needy.replaces("a.v0")];
    let item = World::new().channel("cat", "a", "stable", &list).sub("a", "stable").item();
    let text = "requires API Moon (g/v), API Stars (g/v) and API Sun (g/v): not provided by any catalog; \
                requires package rocket >=1.0.0: package rocket not found in any catalog";
    assert_eq!(rejected(&item), [("a.v1", Code::DependencyUnsatisfied, text)]);
}

#[test]
fn every_missing_api_of_a_dependency_is_named() {
    let world = World::new()
        .channel("cat", "a", "stable", &[b("a.v1", "1.0.0").requires(&["Bucket"])])
        .channel("cat", "b", "stable", &[b("b.v1", "1.0.0").provides(&["Bucket"]).requires(&["Moon", "Sun"])])
        .sub("a", "stable");
    let refused = world.refused();
    let bucket = &refused.nodes[0].children[0].children[0];
    assert_eq!(bucket.children[0].text, "requires API Moon (g/v) and API Sun (g/v)");
}

/// a needs an unprovided API and b; b needs a.
#[test]
fn bundles_that_need_each_other_end_the_tree() {
    let world = World::new()
        .channel("cat", "a", "stable", &[b("a.v1", "1.0.0").provides(&["A"]).requires(&["B", "Moon"])])
        .channel("cat", "b", "stable", &[b("b.v1", "1.0.0").provides(&["B"]).requires(&["A"])])
        .sub("a", "stable");
    let a = &world.refused().nodes[0].children[0];
    assert_eq!(a.text, "requires API Moon (g/v) and API B (g/v)");
    fn depth(node: &Node) -> usize {
        1 + node.children.iter().map(depth).max().unwrap_or_default()
    }
    // a, API B, b, API A, a, API Moon
    assert_eq!(depth(a), 6);
}

#[test]
fn many_needs_are_counted() {
    let kinds: Vec<String> = (0..40).map(|at| format!("K{at:02}")).collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let list = [b("a.v1", "1.0.0").requires(&kinds)];
    let world = World::new().channel("cat", "a", "stable", &list).sub("a", "stable");
    let [line] = &lines(&world)[..] else { panic!() };
    assert!(line.contains("API K19 (g/v) and 20 more") && !line.contains("K20"), "{line}");
}

#[test]
fn later_hops_have_edges() {
    let list = versions(4, |_, bundle| bundle);
    let world = World::new().channel("cat", "a", "stable", &list).sub("a", "stable").installed(&list[0]);
    let text = "reachable in a later upgrade, after a.v1.1.0";
    let item = world.item();
    assert_eq!(
        rejected(&item),
        [("a.v1.3.0", Code::LaterHop, text), ("a.v1.2.0", Code::LaterHop, text)],
        "{item:?}"
    );
    // a range that only a later hop meets does not change it
    let wish = VersionRequest::parse(">=1.2.0").ok();
    let item = world.with(|r| r.version = wish).item();
    assert!(rejected(&item).contains(&("a.v1.3.0", Code::LaterHop, text)), "{item:?}");
}

/// 3 follows 2 and 1, 4 follows both: the chosen version leads there, even if a better version is
/// unavailable.
#[test]
fn later_hops_follow_the_chosen_version() {
    let list = [
        b("a.v1", "1.0.0"),
        b("a.v2", "2.0.0").replaces("a.v1"),
        b("a.v3", "3.0.0").replaces("a.v2").skip_range(">=1.0.0 <3.0.0").requires(&["Moon"]),
        b("a.v4", "4.0.0").replaces("a.v3").skip_range(">=2.0.0 <4.0.0"),
    ];
    let item =
        World::new().channel("cat", "a", "stable", &list).sub("a", "stable").installed(&list[0]).item();
    assert_eq!(item.chosen.name, "a.v2");
    assert_eq!(rejected(&item)[0], ("a.v4", Code::LaterHop, "reachable in a later upgrade, after a.v2"));
}

/// The next hop is unavailable: it is the cause, and the following one is still a later hop.
#[test]
fn later_hops_wait_for_the_next_one() {
    let list = versions(3, |at, bundle| if at == 1 { bundle.kube("1.40.0") } else { bundle });
    let item = World::new()
        .channel("cat", "a", "stable", &list)
        .kubernetes("1.33.0")
        .sub("a", "stable")
        .installed(&list[0])
        .item();
    assert_eq!(item.action, Action::None);
    let codes: Vec<Code> = item.rejected.iter().map(|r| r.code).collect();
    assert_eq!(codes, [Code::LaterHop, Code::KubernetesTooOld]);
}

#[test]
fn an_installed_version_that_left_the_catalog_is_named() {
    let list = versions(2, |_, bundle| bundle);
    let world = World::new().channel("cat", "a", "stable", &list).sub("a", "stable");
    let item = world.clone().installed(&b("a.v0.9.0", "0.9.0")).item();
    assert_eq!(
        item.why,
        "a.v0.9.0 is installed and not in catalog ns/cat, and no upgrade from it exists in channel stable of \
            package a"
    );
    assert!(item.rejected.iter().all(|r| r.code == Code::NoUpgradeEdge), "{item:?}");
    // an edge that names it starts there
    let list = [b("a.v1", "1.0.0").replaces("a.v0.9.0"), b("a.v2", "2.0.0").replaces("a.v1")];
    let world = World::new().channel("cat", "a", "stable", &list).sub("a", "stable");
    let item = world.installed(&b("a.v0.9.0", "0.9.0")).item();
    assert_eq!((item.chosen.name.as_str(), item.rejected[0].code), ("a.v1", Code::LaterHop));
}
