//! Explanations for users; the snapshots are the text.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use olm_resolver::{CatalogRef, Code, DependencyPolicy, Explanation, VersionRequest};
use world::{B, World, b};

fn etcd() -> Vec<B> {
    vec![
        b("etcdoperator.v0.9.4", "0.9.4"),
        b("etcdoperator.v0.10.0", "0.10.0").replaces("etcdoperator.v0.9.4"),
        b("etcdoperator.v0.10.1", "0.10.1").replaces("etcdoperator.v0.10.0"),
    ]
}

fn world() -> World {
    World::new().channel("cat", "etcd", "stable", &etcd()).channel(
        "cat",
        "etcd",
        "candidate",
        &[b("etcdoperator.v0.11.0", "0.11.0")],
    )
}

/// Default terminal width.
const WIDTH: usize = 80;

/// Text at 80 columns with the condition message, after checks that hold for every explanation.
fn shown(e: &Explanation) -> String {
    let text = e.text(WIDTH);
    for line in text.lines() {
        // a command is never broken, and neither is a word; everything else fits
        let trimmed = line.trim_start_matches(|c: char| c.is_whitespace() || "├└│─".contains(c));
        let command = trimmed.starts_with("kubectl ") || trimmed.starts_with("olm ");
        let one_word = !trimmed.contains(char::is_whitespace);
        assert!(line.chars().count() <= WIDTH || command || one_word, "{line}");
        assert_eq!(line, line.trim_end());
    }
    assert!(e.condition_message().chars().count() <= 1000);
    let json = serde_json::to_string(e).unwrap();
    assert_eq!(&serde_json::from_str::<Explanation>(&json).unwrap(), e);
    format!("{text}\ncondition: {}\n", e.condition_message())
}

#[test]
fn unknown_package() {
    let e = world().sub("ectd", "stable").refused();
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn unknown_channel() {
    let e = world().sub("etcd", "stabel").refused();
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn version_in_another_channel() {
    let wish = VersionRequest::parse("0.11.0").ok();
    let e = world().sub("etcd", "stable").with(|r| r.version = wish).refused();
    assert_eq!(e.code, Code::NotInChannel);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn unreadable_catalog() {
    let world = World::new().sub("etcd", "stable");
    let mut universe = world.universe();
    universe.set_unavailable(&CatalogRef::new("ns", "cat"), "directory /srv/catalog does not exist");
    let answer = olm_resolver::resolve(&universe, &world.requests, &world.facts).items.remove(0);
    let e = answer.unwrap_err();
    assert_eq!(e.code, Code::CatalogUnavailable);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn last_good_data_of_an_unreadable_catalog_counts() {
    let world = world().sub("etcd", "stable");
    let mut universe = world.universe();
    universe.set_unavailable(&CatalogRef::new("ns", "cat"), "timeout");
    let answer = olm_resolver::resolve(&universe, &world.requests, &world.facts).items.remove(0);
    assert_eq!(answer.unwrap().chosen.name, "etcdoperator.v0.10.1");
}

#[test]
fn a_chain_of_missing_dependencies() {
    let e = World::new()
        .channel(
            "cat",
            "backup",
            "stable",
            &[
                b("backup.v1", "1.0.0").needs(&["etcd >=0.9.0 <0.10.0"]),
                b("backup.v2", "2.0.0").replaces("backup.v1").requires(&["Bucket"]),
            ],
        )
        .channel("cat", "etcd", "stable", &[b("etcdoperator.v0.9.4", "0.9.4").requires(&["Certificate"])])
        .channel("cat", "bucket", "stable", &[b("bucket.v1", "1.0.0").provides(&["Bucket"]).kube("1.40.0")])
        .kubernetes("1.33.2")
        .sub("backup", "stable")
        .refused();
    assert_eq!(e.code, Code::DependencyUnsatisfied);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn too_old_a_cluster_and_a_version_that_is_skipped_by_the_user() {
    let e = World::new()
        .channel(
            "cat",
            "etcd",
            "stable",
            &[
                b("etcdoperator.v0.9.4", "0.9.4"),
                b("etcdoperator.v0.10.0", "0.10.0").replaces("etcdoperator.v0.9.4").kube("1.40.0"),
            ],
        )
        .kubernetes("1.33.2")
        .sub("etcd", "stable")
        .with(|r| r.skip_versions = vec!["0.9.4".into()])
        .refused();
    assert_eq!(e.code, Code::KubernetesTooOld);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn an_api_that_another_operator_owns() {
    let e = World::new()
        .channel("cat", "etcd", "stable", &[b("etcdoperator.v0.10.1", "0.10.1").provides(&["EtcdCluster"])])
        .existing("old-etcd", &b("old-etcd.v3", "3.0.0").provides(&["EtcdCluster"]), Some("ns/old-etcd"))
        .sub("etcd", "stable")
        .refused();
    assert_eq!(e.code, Code::ApiOwnedBy);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn dependencies_that_must_be_present() {
    let e = World::new()
        .channel("cat", "backup", "stable", &[b("backup.v1", "1.0.0").needs(&["etcd >=0.9.0"])])
        .channel("cat", "etcd", "stable", &etcd())
        .sub("backup", "stable")
        .with(|r| r.dependencies = DependencyPolicy::RequirePresent)
        .refused();
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn requests_in_each_others_way() {
    let e = World::new()
        .channel("cat", "a", "stable", &[b("a.v1", "1.0.0").provides(&["Thing"])])
        .channel("cat", "b", "stable", &[b("b.v1", "1.0.0").provides(&["Thing"])])
        .sub("a", "stable")
        .sub("b", "stable")
        .refused();
    assert_eq!(e.code, Code::RequestsConflict);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn a_channel_without_order() {
    let e = World::new()
        .channel(
            "cat",
            "a",
            "stable",
            &[b("a.v1", "1.0.0").replaces("a.v2"), b("a.v2", "2.0.0").replaces("a.v1")],
        )
        .sub("a", "stable")
        .refused();
    assert_eq!(e.code, Code::BrokenChannel);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn a_constraint_that_is_not_understood() {
    let e = World::new()
        .channel("cat", "a", "stable", &[b("a.v1", "1.0.0").unsupported("it has an olm.label.required")])
        .sub("a", "stable")
        .refused();
    assert_eq!(e.code, Code::UnsupportedConstraint);
}

/// Also for success: why this version, and why none newer.
#[test]
fn why_not_newer() {
    let world = World::new()
        .channel(
            "cat",
            "etcd",
            "stable",
            &[
                b("etcdoperator.v0.9.4", "0.9.4"),
                b("etcdoperator.v0.9.5", "0.9.5"),
                b("etcdoperator.v0.10.0", "0.10.0")
                    .replaces("etcdoperator.v0.9.4")
                    .skips(&["etcdoperator.v0.9.5"]),
                b("etcdoperator.v0.10.1", "0.10.1").replaces("etcdoperator.v0.10.0"),
                b("etcdoperator.v0.10.2", "0.10.2").replaces("etcdoperator.v0.10.1"),
                b("etcdoperator.v0.12.0", "0.12.0")
                    .replaces("etcdoperator.v0.10.2")
                    .kube("1.40.0")
                    .skip_range("<0.12.0"),
                b("etcdoperator.v0.12.1", "0.12.1")
                    .replaces("etcdoperator.v0.12.0")
                    .requires(&["Moon"])
                    .skip_range("<0.12.0"),
            ],
        )
        .channel("cat", "etcd", "candidate", &[b("etcdoperator.v0.13.0", "0.13.0")])
        .kubernetes("1.33.2")
        .sub("etcd", "stable")
        .with(|r| r.skip_versions = vec!["0.10.2".into()])
        .installed(&b("etcdoperator.v0.9.4", "0.9.4"));
    let item = world.item();
    let mut text = format!("{} {}: {}\n", item.action.as_str(), item.chosen.name, item.why);
    for hop in &item.path {
        text.push_str(&format!("  hop {} via {:?}\n", hop.name, hop.via));
    }
    for r in &item.rejected {
        text.push_str(&format!("  not {} [{}] {}\n", r.name, r.code, r.text));
        if let Some(fix) = &r.fix {
            text.push_str(&format!("      {}: {}\n", fix.text, fix.command));
        }
    }
    insta::assert_snapshot!(text);
}

/// Two packages that provide the same API, each in two versions.
fn rivals(names: &[&str]) -> World {
    let mut world = World::new();
    for name in names {
        let bundle = |version: &str| b(&format!("{name}.v{version}"), version).provides(&["Thing"]);
        let second = bundle("2.0.0").replaces(&format!("{name}.v1.0.0"));
        world = world.channel("cat", name, "stable", &[bundle("1.0.0"), second]);
    }
    names.iter().fold(world, |world, name| world.sub(name, "stable"))
}

#[test]
fn two_requests_that_cannot_be_met_together() {
    let world = rivals(&["first", "second"]);
    let resolution = world.resolve();
    // both have the same explanation
    let [Err(a), Err(b)] = resolution.items.as_slice() else { panic!("{resolution:?}") };
    assert_eq!(a, b);
    assert_eq!(a.code, Code::RequestsConflict);
    insta::assert_snapshot!(shown(a));
}

/// Any two of the three could be met: a and b need one half of what c has as a whole.
#[test]
fn three_requests_that_cannot_be_met_together() {
    let world = World::new()
        .channel("cat", "store", "one", &[b("store.v1", "1.0.0").provides(&["Left"])])
        .channel("cat", "store", "two", &[b("store.v2", "2.0.0").provides(&["Right"])])
        .channel("cat", "spare", "one", &[b("spare.v1", "1.0.0").provides(&["Left", "Right"])])
        .channel("cat", "a", "stable", &[b("a.v1", "1.0.0").requires(&["Left"])])
        .channel("cat", "b", "stable", &[b("b.v1", "1.0.0").requires(&["Right"])])
        .channel("cat", "c", "stable", &[b("c.v1", "1.0.0").provides(&["Spare"]).needs(&["idle 1.0.0"])])
        .channel("cat", "idle", "stable", &[b("idle.v1", "1.0.0").provides(&["Idle"])])
        .package("cat", "spare", |spare| {
            spare.bundles[0].requires.push(olm_constraint::Constraint::api(world::gvk("Idle")))
        })
        .package("cat", "spare", |spare| spare.bundles[0].provides.push(world::gvk("Spare")))
        .sub("a", "stable")
        .sub("b", "stable")
        .sub("c", "stable");
    let resolution = world.resolve();
    for item in &resolution.items {
        assert_eq!(item.as_ref().unwrap_err().code, Code::RequestsConflict);
    }
    insta::assert_snapshot!(shown(resolution.items[0].as_ref().unwrap_err()));
    // without any one of them the others are met
    for gives_way in 0..3 {
        let mut two = world.clone();
        two.requests.remove(gives_way);
        assert!(two.resolve().items.iter().all(Result::is_ok), "{gives_way}");
    }
}

#[test]
fn a_rule_that_nothing_meets() {
    let rule = "properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'store' && \
                semver_compare(p.value.version, '2.0.0') >= 0)";
    let e = World::new()
        .channel(
            "cat",
            "backup",
            "stable",
            &[b("backup.v1", "1.0.0").cel(rule, "a store of the second generation is needed")],
        )
        .channel("cat", "store", "stable", &[b("store.v1", "1.0.0")])
        .sub("backup", "stable")
        .refused();
    assert_eq!(e.code, Code::DependencyUnsatisfied);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn something_that_must_not_be() {
    let constraint = serde_json::json!({
        "failureMessage": "a store without the old protocol is needed",
        "all": { "constraints": [
            { "gvk": world::build::gvk_value("Store") },
            { "not": { "constraints": [{ "gvk": world::build::gvk_value("OldProtocol") }] } } ] }
    });
    let e = World::new()
        .channel("cat", "backup", "stable", &[b("backup.v1", "1.0.0").constraint(&constraint)])
        .channel("cat", "store", "stable", &[b("store.v1", "1.0.0").provides(&["OldProtocol", "Store"])])
        .sub("backup", "stable")
        .refused();
    insta::assert_snapshot!(shown(&e));
}

/// A requirement is present; its own requirement is not, and may not be installed along.
#[test]
fn a_chain_of_dependencies_that_must_be_present() {
    let e = World::new()
        .channel("cat", "backup", "stable", &[b("backup.v1", "1.0.0").requires(&["Bucket"])])
        .channel(
            "cat",
            "bucket",
            "stable",
            &[b("bucket.v1", "1.0.0").provides(&["Bucket"]).requires(&["Certificate"])],
        )
        .channel("cat", "certs", "stable", &[b("certs.v1", "1.0.0").provides(&["Certificate"])])
        .sub("backup", "stable")
        .with(|r| r.dependencies = DependencyPolicy::RequirePresent)
        .sub("bucket", "stable")
        .with(|r| r.dependencies = DependencyPolicy::RequirePresent)
        .refused();
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn nothing_but_deprecated_bundles() {
    let e = World::new()
        .channel(
            "cat",
            "etcd",
            "stable",
            &[
                b("etcdoperator.v0.9.4", "0.9.4").prohibited(),
                b("etcdoperator.v0.10.0", "0.10.0").replaces("etcdoperator.v0.9.4").prohibited(),
            ],
        )
        .sub("etcd", "stable")
        .refused();
    assert_eq!(e.code, Code::Deprecated);
    insta::assert_snapshot!(shown(&e));
}

/// A bundle deprecated by its catalog is installed when there is no other, and reported.
#[test]
fn a_deprecated_bundle_is_reported_with_the_choice() {
    let item = World::new()
        .channel(
            "cat",
            "etcd",
            "stable",
            &[b("etcdoperator.v0.9.4", "0.9.4").deprecated("0.9 is not maintained")],
        )
        .package("cat", "etcd", |package| {
            package.deprecated = Some("use etcd-next".into());
            package.channels[0].deprecated = Some("stable is at its end".into());
        })
        .sub("etcd", "stable")
        .item();
    let reported = [
        "olm.package/etcd: use etcd-next",
        "olm.channel/stable: stable is at its end",
        "olm.bundle/etcdoperator.v0.9.4: 0.9 is not maintained",
    ];
    assert_eq!(item.deprecations, reported);
}

#[test]
fn a_search_that_gave_up() {
    let e = world::hard::pigeons(16).sub("holes", "stable").refused();
    assert_eq!(e.code, Code::GaveUp);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn a_policy_of_the_cluster() {
    let only = serde_json::json!({
        "failureMessage": "only what the platform team has looked at may be installed (ask in #platform)",
        "any": { "constraints": [{ "package": world::build::package_value("etcd <0.10.0") }] }
    });
    let mut world =
        world().sub("etcd", "stable").with(|r| r.version = VersionRequest::parse(">=0.10.0").ok());
    world.facts.policy.push(olm_constraint::Constraint::parse(&only).unwrap());
    let e = world.refused();
    assert_eq!(e.code, Code::ForbiddenByPolicy);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn an_openshift_that_is_too_new() {
    let mut bundle = b("etcdoperator.v0.9.4", "0.9.4");
    bundle.bundle.max_openshift_version = "4.18.0".parse().ok();
    let mut world = World::new().channel("cat", "etcd", "stable", &[bundle]).sub("etcd", "stable");
    world.facts.openshift = "4.19.3".parse().ok();
    insta::assert_snapshot!(shown(&world.refused()));
}

/// Names come from catalogs and run when a user pastes a command.
#[test]
fn commands_quote_the_names_of_a_hostile_catalog() {
    let commands = |e: &Explanation| e.fixes.iter().map(|fix| fix.command.clone()).collect::<Vec<_>>();
    let e = World::new().channel("cat", "etcd", "stable; rm -rf ~", &etcd()).sub("etcd", "stable").refused();
    assert_eq!(e.code, Code::UnknownChannel);
    assert_eq!(commands(&e), ["olm set-channel etcd 'stable; rm -rf ~' -n ns", "olm show etcd"]);
    let e = World::new()
        .channel("cat", "$(rm)", "stable", &[b("rm.v1", "1.0.0")])
        .sub("$(rm)", "stabel")
        .refused();
    assert!(commands(&e).contains(&"olm show '$(rm)'".to_owned()), "{:?}", commands(&e));
}
