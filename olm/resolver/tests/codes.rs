//! Every reason code has a universe here that produces it. A code without one does not compile.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use std::collections::BTreeMap;

use olm_constraint::Constraint;
use olm_resolver::{Code, DependencyPolicy, Health, Node, Range, VersionRequest, wrapped};
use world::{B, World, b, catalog_ref};

/// Every code of a resolution with the line that reports it: of failures, of their trees, and of rejected
/// candidates.
fn reported(world: &World) -> BTreeMap<Code, String> {
    fn collect(lines: &mut BTreeMap<Code, String>, nodes: &[Node]) {
        for node in nodes {
            collect(lines, &node.children);
            lines.entry(node.code).or_insert_with(|| format!("{}: {}", node.subject, node.text));
        }
    }
    let mut lines = BTreeMap::new();
    for item in world.resolve().items {
        match item {
            Ok(item) => {
                for rejected in item.rejected {
                    lines
                        .entry(rejected.code)
                        .or_insert_with(|| format!("{}: {}", rejected.name, rejected.text));
                }
            }
            Err(why) => {
                collect(&mut lines, &why.nodes);
                lines.entry(why.code).or_insert_with(|| why.summary.clone());
            }
        }
    }
    lines
}

/// The example of a code's page is the line that reports it. UPDATE=1 writes it.
fn documented(code: Code, line: &str) {
    let example = wrapped("    ", "      ", &format!("{line} [{code}]"), 100);
    olm_testing::example(&format!("reasons/{code}.md"), &example);
}

/// One test for each code: its universe must report it. The `match` must name every code.
macro_rules! codes {
    ($($code:ident $name:ident => $world:expr;)*) => {
        #[allow(dead_code)] // it only has to compile
        fn every_code_has_a_test(code: Code) {
            match code { $(Code::$code => {})* }
        }
        $(
            #[test]
            fn $name() {
                let world: World = $world;
                let lines = reported(&world);
                let line = lines.get(&Code::$code);
                documented(Code::$code, line.unwrap_or_else(|| panic!("{lines:#?}")));
                // the word is the name of the code, also in JSON
                assert_eq!(Code::$code.as_str(), stringify!($code));
                assert_eq!(serde_json::to_string(&Code::$code).unwrap(), format!("\"{}\"", stringify!($code)));
            }
        )*
    };
}

fn chain(versions: &[&str]) -> Vec<B> {
    let name = |version: &str| format!("a.v{version}");
    versions
        .iter()
        .enumerate()
        .map(|(i, version)| {
            let bundle = b(&name(version), version);
            if i == 0 { bundle } else { bundle.replaces(&name(versions[i - 1])) }
        })
        .collect()
}

/// Package a with 1.0.0 to 3.0.0 in channel stable and 4.0.0 in beta.
fn a() -> World {
    World::new().channel("cat", "a", "stable", &chain(&["1.0.0", "2.0.0", "3.0.0"])).channel(
        "cat",
        "a",
        "beta",
        &chain(&["4.0.0"]),
    )
}

fn one(bundle: B) -> World {
    World::new().channel("cat", "a", "stable", &[bundle])
}

fn a1() -> B {
    b("a.v1.0.0", "1.0.0")
}

fn requested(world: World, text: &str) -> World {
    let requested = VersionRequest::parse(text).unwrap();
    world.with(|r| r.version = Some(requested))
}

codes! {
    UnknownCatalog unknown_catalog => a().sub("a", "stable").with(|r| r.catalog = catalog_ref("kat"));
    CatalogUnavailable catalog_unavailable => {
        let mut world = a().sub("a", "stable");
        world.catalogs[0].1.packages.clear();
        world.catalogs[0].1.health = Health::Unavailable { reason: "timeout".into() };
        world
    };
    UnknownPackage unknown_package => a().sub("aa", "stable");
    UnknownChannel unknown_channel => a().sub("a", "stabel");
    UnknownVersion unknown_version => requested(a().sub("a", "stable"), "9.0.0");
    UnknownStartingCsv unknown_starting_csv => {
        a().sub("a", "stable").with(|r| r.starting_csv = Some("a.v9.0.0".into()))
    };
    BrokenChannel broken_channel => World::new()
        .channel("cat", "a", "stable", &[a1().replaces("a.v2"), b("a.v2", "2.0.0").replaces("a.v1.0.0")])
        .sub("a", "stable");
    NotInChannel not_in_channel => a().sub("a", "stable");
    NoUpgradeEdge no_upgrade_edge => a().sub("a", "stable").installed(&b("a.v0.9.0", "0.9.0"));
    LaterHop later_hop => a().sub("a", "stable").installed(&a1());
    Skipped skipped => World::new()
        .channel("cat", "a", "stable", &[
            a1(),
            b("a.v2.1.0", "2.1.0"),
            b("a.v2.0.0", "2.0.0").replaces("a.v1.0.0").skips(&["a.v2.1.0"]),
        ])
        .sub("a", "stable");
    SkipVersions skip_versions => a().sub("a", "stable").with(|r| r.skip_versions = vec!["3.0.0".into()]);
    Deprecated deprecated => one(a1().prohibited()).sub("a", "stable");
    KubernetesTooOld kubernetes_too_old => one(a1().kube("1.40.0")).kubernetes("1.36.0").sub("a", "stable");
    OpenShiftTooNew openshift_too_new => {
        let mut bundle = a1();
        bundle.bundle.max_openshift_version = "4.18.0".parse().ok();
        let mut world = one(bundle).sub("a", "stable");
        world.facts.openshift = "4.19.0".parse().ok();
        world
    };
    ForbiddenByPolicy forbidden_by_policy => {
        let mut world = one(a1()).sub("a", "stable");
        world.facts.policy.push(Constraint::package("b", Range::parse(">=0.0.0").unwrap()));
        world
    };
    DependencyUnsatisfied dependency_unsatisfied => one(a1().requires(&["moon"])).sub("a", "stable");
    ApiOwnedBy api_owned_by => one(a1().provides(&["thing"]))
        .existing("old", &b("old.v1", "1.0.0").provides(&["thing"]), Some("ns/old"))
        .sub("a", "stable");
    Pinned pinned => requested(a().sub("a", "stable"), "<3.0.0");
    RequiredByInstalled required_by_installed => a()
        .existing("b", &b("b.v1", "1.0.0").needs(&["a 1.0.0"]), Some("ns/b"))
        .sub("a", "stable")
        .installed(&a1());
    RequestsConflict requests_conflict => a()
        .sub("a", "stable")
        .sub("a", "beta")
        .with(|r| r.subscription = "ns/a-too".into());
    UnsupportedConstraint unsupported_constraint => {
        one(a1().unsupported("its olm.constraint cannot be read")).sub("a", "stable")
    };
    Older older => a().sub("a", "stable");
    GaveUp gave_up => world::hard::pigeons(12).sub("holes", "stable");
}

/// Unknown names are distinguished from unavailable ones: the command line has an exit code for them.
#[test]
fn what_does_not_exist_is_not_found() {
    assert!(Code::UnknownCatalog.is_not_found() && Code::UnknownStartingCsv.is_not_found());
    assert!(!Code::Deprecated.is_not_found() && !Code::CatalogUnavailable.is_not_found());
    let mut wrong = a().sub("aa", "stable");
    wrong.requests[0].dependencies = DependencyPolicy::RequirePresent;
    assert!(wrong.refused().code.is_not_found());
}
