//! What users read when there is no resolution; the snapshots are the text.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use olm_resolver::{CatalogRef, Code, DependencyPolicy, Explanation, VersionWish};
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

/// Text at 80 columns with the condition message, after checks that hold for every explanation.
fn shown(e: &Explanation) -> String {
    let text = e.text(80);
    for line in text.lines() {
        // a command is never broken; everything else fits
        assert!(line.chars().count() <= 80 || line.trim_start().starts_with("kubectl"), "{line}");
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
    let wish = VersionWish::parse("0.11.0").ok();
    let e = world().sub("etcd", "stable").with(|r| r.version = wish).refused();
    assert_eq!(e.code, Code::NotInChannel);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn unreadable_catalog() {
    let world = World::new().sub("etcd", "stable");
    let mut universe = world.universe();
    universe.set_unavailable(&CatalogRef::new("ns", "cat"), "directory /srv/catalog does not exist");
    let e = olm_resolver::resolve(&universe, &world.requests, &world.facts).unwrap_err();
    assert_eq!(e.code, Code::CatalogUnavailable);
    insta::assert_snapshot!(shown(&e));
}

#[test]
fn last_good_data_of_an_unreadable_catalog_counts() {
    let world = world().sub("etcd", "stable");
    let mut universe = world.universe();
    universe.set_unavailable(&CatalogRef::new("ns", "cat"), "timeout");
    let resolution = olm_resolver::resolve(&universe, &world.requests, &world.facts).unwrap();
    assert_eq!(resolution.items[0].chosen.name, "etcdoperator.v0.10.1");
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

/// Also for success: why this one, why not newer.
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
