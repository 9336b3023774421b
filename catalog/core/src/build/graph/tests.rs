use super::*;

fn node(version: &str, channels: &str) -> Node {
    Node {
        name: format!("p.v{version}"),
        version: Version::parse(version).unwrap(),
        replaces: None,
        skips: Vec::new(),
        skip_range: None,
        channels: channels.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        default_channel: None,
        deprecated: false,
    }
}

impl Node {
    fn replaces(mut self, version: &str) -> Self {
        self.replaces = Some(format!("p.v{version}"));
        self
    }

    fn skips(mut self, versions: &[&str]) -> Self {
        self.skips = versions.iter().map(|version| format!("p.v{version}")).collect();
        self
    }

    fn default(mut self, channel: &str) -> Self {
        self.default_channel = Some(channel.to_owned());
        self
    }
}

/// `1.0.0; 1.1.0 <- 1.0.0 skips 1.0.1`, by entry.
fn text(graph: &Graph, channel: &str) -> String {
    let short = |name: &str| name.trim_start_matches("p.v").to_owned();
    let entry = |entry: &Entry| {
        let mut text = short(&entry.name);
        if let Some(replaces) = &entry.replaces {
            text += &format!(" <- {}", short(replaces));
        }
        if !entry.skips.is_empty() {
            let skips: Vec<String> = entry.skips.iter().map(|name| short(name)).collect();
            text += &format!(" skips {}", skips.join(" "));
        }
        text
    };
    graph.channels[channel].iter().map(entry).collect::<Vec<_>>().join("; ")
}

fn codes(graph: &Graph) -> Vec<&str> {
    graph.notes.iter().map(|note| note.code).collect()
}

#[test]
fn replaces_mode_follows_the_chain_from_the_highest_version() {
    // given: beta stops at 1.1.0; 1.0.1 is skipped, and the manifests name no channel that still contains it
    let nodes = [
        node("1.2.0", "stable").replaces("1.1.0").skips(&["1.0.1"]),
        node("1.0.0", "stable,beta").default("stable"),
        node("1.1.0", "beta").replaces("1.0.0"),
        node("1.0.1", "stable").replaces("1.0.0"),
    ];
    // when
    let graph = graph(Mode::Replaces, &nodes, false);
    // then: reachable bundles are in, also where they name another channel; skipped ones have no edges
    assert_eq!(text(&graph, "stable"), "1.0.0; 1.0.1; 1.1.0 <- 1.0.0; 1.2.0 <- 1.1.0 skips 1.0.1");
    assert_eq!(text(&graph, "beta"), "1.0.0; 1.1.0 <- 1.0.0");
    assert_eq!((graph.default_channel.as_deref(), codes(&graph)), (Some("stable"), vec![]));
}

#[test]
fn a_gap_is_kept_or_bridged_and_reported() {
    let nodes = [node("1.0.0", "a"), node("1.2.0", "a").replaces("1.1.0"), node("0.1.0", "old")];
    let kept = graph(Mode::Replaces, &nodes, false);
    assert_eq!(text(&kept, "a"), "1.2.0 <- 1.1.0");
    assert_eq!(codes(&kept), ["replaces-missing", "bundle-stranded", "package-default-channel"]);
    assert_eq!(kept.notes[0].severity, Severity::Warning);

    let bridged = graph(Mode::Replaces, &nodes, true);
    assert_eq!(text(&bridged, "a"), "1.0.0; 1.2.0 <- 1.0.0");
    assert_eq!(codes(&bridged), ["replaces-missing", "package-default-channel"]);
    assert_eq!(bridged.notes[0].text, "p.v1.2.0 replaces missing p.v1.1.0; using p.v1.0.0 instead");
    // The end of a channel replaces a bundle that never existed, as in pruned catalogs.
    let tail = graph(Mode::Replaces, &[node("1.2.0", "a").replaces("1.1.0")], true);
    assert_eq!((text(&tail, "a").as_str(), codes(&tail)), ("1.2.0 <- 1.1.0", vec![]));
}

#[test]
fn semver_mode_counts_versions_and_nothing_else() {
    let nodes = [
        node("1.10.0", "a,b").replaces("0.0.1").skips(&["1.9.0"]),
        node("1.9.0", "a"),
        node("1.9.0-rc.1", "a,b"),
    ];
    let graph = graph(Mode::Semver, &nodes, false);
    assert_eq!(text(&graph, "a"), "1.9.0-rc.1; 1.9.0 <- 1.9.0-rc.1; 1.10.0 <- 1.9.0");
    assert_eq!(text(&graph, "b"), "1.9.0-rc.1; 1.10.0 <- 1.9.0-rc.1");
    assert_eq!(graph.default_channel.as_deref(), Some("a"), "the first channel of the first bundle");
    assert_eq!(codes(&graph), Vec::<&str>::new());
}

#[test]
fn skippatch_mode_goes_through_the_highest_patch_of_each_minor() {
    let versions = ["0.6.1", "0.9.0", "0.9.2", "0.9.3-rc.1", "0.9.3", "1.0.0"];
    let nodes = versions.map(|version| node(version, "alpha"));
    let graph = graph(Mode::SemverSkipPatch, &nodes, false);
    assert_eq!(
        text(&graph, "alpha"),
        "0.6.1; 0.9.0; 0.9.2; 0.9.3-rc.1; 0.9.3 <- 0.6.1 skips 0.9.0 0.9.2 0.9.3-rc.1; 1.0.0 <- 0.9.3"
    );
}

#[test]
fn the_last_default_channel_by_version_counts() {
    let nodes = [node("1.0.1", "old").default("old"), node("1.0.2", "dev,stable")];
    for mode in [Mode::Replaces, Mode::Semver] {
        assert_eq!(graph(mode, &nodes, false).default_channel.as_deref(), Some("old"));
    }
    let nodes = [node("1.0.0", "a,b").default("b"), node("1.1.0", "a").replaces("1.0.0").default("gone")];
    let graph = graph(Mode::Replaces, &nodes, false);
    assert_eq!(
        (graph.default_channel.as_deref(), codes(&graph)),
        (Some("b"), vec!["package-default-channel"])
    );
    assert_eq!(graph.notes[0].text, "default channel gone is not one of its channels (a, b); using b");
}

#[test]
fn what_upstream_refuses_is_left_out_and_the_rest_stays() {
    // two bundles of one version, two of one name
    let mut twin = node("1.0.0", "a");
    twin.name = "p.zwei".into();
    let both =
        graph(Mode::Replaces, &[node("1.0.0", "a"), twin, node("1.1.0", "a").replaces("1.0.0")], false);
    assert_eq!(text(&both, "a"), "1.0.0; 1.1.0 <- 1.0.0");
    assert_eq!(codes(&both), ["version-duplicate"]);
    assert_eq!(both.notes[0].text, "p.v1.0.0 and p.zwei both have version 1.0.0; p.zwei is omitted");
}

#[test]
fn build_metadata_has_an_order_for_heads_only() {
    let nodes = [node("1.0.0+2", "a"), node("1.0.0+10", "a"), node("1.0.0", "a")];
    let semver = graph(Mode::Semver, &nodes, false);
    assert_eq!(text(&semver, "a"), "1.0.0");
    assert_eq!(
        codes(&semver),
        ["version-unordered", "version-unordered", "bundle-stranded", "bundle-stranded"]
    );
    let replaces = graph(Mode::Replaces, &nodes, false);
    assert_eq!(text(&replaces, "a"), "1.0.0+10");
}

#[test]
fn a_cycle_loses_the_edge_that_closes_it() {
    let nodes = [node("1.0.0", "a").replaces("1.1.0"), node("1.1.0", "a").replaces("1.0.0")];
    let graph = graph(Mode::Replaces, &nodes, false);
    assert_eq!(text(&graph, "a"), "1.0.0; 1.1.0 <- 1.0.0");
    assert_eq!(codes(&graph), ["channel-cycle"]);
}

#[test]
fn deprecated_bundles_cut_the_channel_off() {
    let mut old = node("1.0.0", "a,old");
    old.deprecated = true;
    let graph = graph(Mode::Replaces, &[old, node("1.1.0", "a").replaces("1.0.0")], false);
    assert_eq!(text(&graph, "a"), "1.1.0 <- 1.0.0");
    assert_eq!((graph.channels.len(), codes(&graph)), (1, vec![]));
}

#[test]
fn modes_read_as_people_write_them() {
    for (text, mode) in [
        ("replaces-mode", Some(Mode::Replaces)),
        ("replaces", Some(Mode::Replaces)),
        ("semver-mode", Some(Mode::Semver)),
        ("semver-skippatch-mode", Some(Mode::SemverSkipPatch)),
        ("semver-skippatch", Some(Mode::SemverSkipPatch)),
        ("newest", None),
    ] {
        assert_eq!(Mode::parse(text), mode, "{text}");
    }
}

mod any_graph {
    use proptest::prelude::*;

    use super::*;

    /// Bundles with arbitrary `replaces` and `skips`, valid and invalid.
    fn nodes() -> impl Strategy<Value = Vec<Node>> {
        let name = || prop::option::of(0..8u8);
        let one =
            (0..4u8, 0..3u8, name(), prop::collection::vec(0..8u8, 0..3), 0..8u8, name(), any::<bool>());
        let one = one.prop_map(|(minor, patch, replaces, skips, channels, default, deprecated)| {
            let named = |number: u8| format!("p.v1.{}.{}", number / 3, number % 3);
            let channels: Vec<String> = ["a", "b", "c"]
                .iter()
                .enumerate()
                .filter(|(bit, _)| channels & (1 << bit) != 0)
                .map(|(_, name)| (*name).to_owned())
                .collect();
            Node {
                name: format!("p.v1.{minor}.{patch}"),
                version: Version::new(1, minor.into(), patch.into()),
                replaces: replaces.map(named),
                skips: skips.into_iter().map(named).collect(),
                skip_range: None,
                channels,
                default_channel: default.map(|number| ["a", "b", "d"][usize::from(number % 3)].to_owned()),
                deprecated: deprecated && minor == 0,
            }
        });
        prop::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn it_ends_and_every_entry_is_a_bundle(nodes in nodes(), bridge in any::<bool>()) {
            for mode in [Mode::Replaces, Mode::Semver, Mode::SemverSkipPatch] {
                let graph = graph(mode, &nodes, bridge);
                for entries in graph.channels.values() {
                    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
                    prop_assert!(names.iter().all(|name| nodes.iter().any(|node| node.name == *name)));
                    names.sort_unstable();
                    names.dedup();
                    prop_assert_eq!(names.len(), entries.len(), "each bundle once");
                    prop_assert!(!entries.is_empty());
                }
                match &graph.default_channel {
                    Some(name) => prop_assert!(graph.channels.contains_key(name)),
                    None => prop_assert!(graph.channels.is_empty()),
                }
                // Every bundle is in a channel, or a note has the reason.
                for node in nodes.iter().filter(|node| !node.deprecated) {
                    let listed = graph.channels.values().flatten().any(|entry| entry.name == node.name);
                    let reported = graph.notes.iter().any(|note| note.bundle.as_ref() == Some(&node.name));
                    prop_assert!(listed || reported, "{}", node.name);
                }
            }
        }
    }
}
