//! Cases 38 to 41: the edges of channels.

use olm_resolver::{Code, HopVia};

use crate::world::{self, World, b};

/// The newest version of a package gave up the required API; an older one is installed.
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

/// A bundle with `olm.deprecated` is never installed, but stays part of the paths of others.
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

/// A skipped version can be the first one when `startingCSV` names it, and is never a dependency.
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
    // a skipped provider is unavailable
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

/// skipRange leads over many versions, if the installed one is in it; a named skip does too.
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
    // and the path continues from there
    assert_eq!(item.path.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["a.v3", "a.v4"]);
    let item =
        upgrade(&[b("a.v2", "0.5.0").skips(&["a.v1"]), b("a.v3", "1.0.0").replaces("a.v2").skips(&["a.v1"])]);
    assert_eq!((item.chosen.name.as_str(), item.path[0].via), ("a.v3", HopVia::Skips));
}
