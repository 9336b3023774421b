use super::*;
use crate::model::Package;
use crate::{
    Catalog,
    graph::{MOST_DRAWN_BUNDLES, UpgradeGraph},
};

/// A package with channels of entries such as `{"name":"p.v1.0.1","replaces":"p.v1.0.0"}`.
pub(in crate::graph) fn package(
    channels: &[(&str, Vec<String>)],
    versions: &[String],
) -> std::sync::Arc<Package> {
    let mut text =
        format!("{{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"{}\"}}\n", channels[0].0);
    for (name, entries) in channels {
        text += &format!(
            "{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"{name}\",\"entries\":[{}]}}\n",
            entries.join(",")
        );
    }
    for version in versions {
        text += &format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v{version}\",\"image\":\"r.example/p:1\",\
             \"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"{version}\"}}}}]}}\n"
        );
    }
    let catalog = Catalog::from_bytes("test", text.as_bytes());
    catalog.package("p").unwrap().unwrap_or_else(|| panic!("{:?}", catalog.problems))
}

/// 1.0.0, 1.1.0, ..., each of which replaces the one before it.
pub(in crate::graph) fn chain(count: usize) -> (Vec<String>, Vec<String>) {
    let version = |minor: usize| format!("1.{minor}.0");
    let entry = |minor: usize| match minor {
        0 => format!("{{\"name\":\"p.v{}\"}}", version(0)),
        _ => format!("{{\"name\":\"p.v{}\",\"replaces\":\"p.v{}\"}}", version(minor), version(minor - 1)),
    };
    ((0..count).map(entry).collect(), (0..count).map(version).collect())
}

/// The nodes of a lane: names without `p.v`, or numbers of folded bundles.
fn names(layout: &Layout<'_>, lane: usize) -> Vec<String> {
    let name = |node: &PlacedNode<'_>| match node.bundles.as_slice() {
        [bundle] => bundle.name.trim_start_matches("p.v").to_owned(),
        run => format!("{} versions", run.len()),
    };
    layout.nodes.iter().filter(|node| node.lane == lane).map(name).collect()
}

#[test]
fn versions_are_ordered_by_semver_and_lanes_share_their_columns() {
    let entries = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let versions = ["1.10.0", "1.9.0", "1.2.0", "1.2.0-rc.1"].map(str::to_owned);
    let package = package(
        &[
            (
                "stable",
                entries(&[
                    r#"{"name":"p.v1.10.0","replaces":"p.v1.9.0","skipRange":">=1.2.0-rc.1 <1.10.0"}"#,
                    r#"{"name":"p.v1.9.0","replaces":"p.v1.2.0"}"#,
                    r#"{"name":"p.v1.2.0"}"#,
                ]),
            ),
            (
                "beta",
                entries(&[
                    r#"{"name":"p.v1.10.0","replaces":"p.v1.2.0-rc.1","skips":["p.v1.9.0"]}"#,
                    r#"{"name":"p.v1.9.0"}"#,
                    r#"{"name":"p.v1.2.0-rc.1"}"#,
                ]),
            ),
        ],
        &versions,
    );
    let graph = UpgradeGraph::of(&package, None).unwrap();
    let layout = graph.layout();
    assert_eq!(layout.lanes.iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>(), ["stable", "beta"]);
    assert_eq!(names(&layout, 0), ["1.2.0", "1.9.0", "1.10.0"]);
    assert_eq!(names(&layout, 1), ["1.2.0-rc.1", "1.9.0", "1.10.0"]);
    let columns: Vec<usize> = layout.nodes.iter().map(|node| node.column).collect();
    assert_eq!((columns, layout.columns), (vec![1, 2, 3, 0, 2, 3], 4));
    let edges: Vec<_> = layout.edges.iter().map(|edge| (edge.from, edge.to, edge.kind)).collect();
    assert_eq!(
        edges,
        [
            (1, 2, EdgeKind::Replaces),
            (0, 1, EdgeKind::Replaces),
            // the range starts at the oldest bundle of the lane in it
            (0, 2, EdgeKind::SkipRange),
            (3, 5, EdgeKind::Replaces),
            (4, 5, EdgeKind::Skips),
        ]
    );
}

#[test]
fn only_long_runs_without_marks_are_folded() {
    let (entries, versions) = chain(LONGEST_RUN + 3);
    let whole = package(&[("c", entries)], &versions);
    let graph = UpgradeGraph::of(&whole, None).unwrap();
    let layout = graph.layout();
    assert_eq!(names(&layout, 0), ["1.0.0", "41 versions", "1.42.0"]);
    assert_eq!((layout.columns, layout.edges.len()), (3, 2));

    // a mark inside shortens the run
    let mut installed = graph.clone();
    installed.mark(&["p.v1.20.0"], &[]);
    assert_eq!(names(&installed.layout(), 0).len(), LONGEST_RUN + 3);
    let mut excluded = graph.clone();
    excluded.mark_excluded(&["v1.20".to_owned()]);
    assert_eq!(names(&excluded.layout(), 0).len(), LONGEST_RUN + 3);
    let mut path = graph.clone();
    path.mark(&[], &["p.v1.20.0".into(), "p.v1.21.0".into()]);
    assert_eq!(path.layout().edges.iter().filter(|edge| edge.hop.is_some()).count(), 1);

    let (entries, versions) = chain(LONGEST_RUN + 2);
    let short = package(&[("c", entries)], &versions);
    let graph = UpgradeGraph::of(&short, None).unwrap();
    assert_eq!(graph.layout().nodes.len(), LONGEST_RUN + 2);
}

#[test]
fn ranges_into_a_run_are_folded_with_it() {
    let (entries, versions) = chain(60);
    let ranged = entries
        .iter()
        .enumerate()
        .map(|(minor, entry)| entry.replace('}', &format!(",\"skipRange\":\">=1.0.0 <1.{minor}.0\"}}")));
    let package = package(&[("c", ranged.collect())], &versions);
    let graph = UpgradeGraph::of(&package, None).unwrap();
    let layout = graph.layout();
    assert_eq!(names(&layout, 0), ["1.0.0", "58 versions", "1.59.0"]);
    assert_eq!(
        layout.edges.last().map(|edge| (edge.from, edge.to, edge.kind)),
        Some((0, 2, EdgeKind::SkipRange))
    );
    assert_eq!(layout.edges.len(), 3);
}

#[test]
fn an_installed_bundle_that_left_the_channel_is_left_of_its_upgrade() {
    let entries = vec![
        r#"{"name":"p.v1.1.0","replaces":"p.v1.0.0"}"#.to_owned(),
        r#"{"name":"p.v1.2.0","replaces":"p.v1.1.0"}"#.to_owned(),
    ];
    let package = package(&[("c", entries)], &["1.1.0".to_owned(), "1.2.0".to_owned()]);
    let mut graph = UpgradeGraph::of(&package, None).unwrap();
    assert_eq!(names(&graph.layout(), 0), ["1.1.0", "1.2.0"]);
    graph.mark(&["p.v1.0.0"], &[]);
    assert_eq!(names(&graph.layout(), 0), ["1.0.0", "1.1.0", "1.2.0"]);
}

#[test]
fn a_drawing_of_many_channels_has_the_default_and_the_picked_ones() {
    let channel = |name: &'static str| (name, vec![r#"{"name":"p.v1.0.0"}"#.to_owned()]);
    let few = package(&["a", "b", "c", "d", "e"].map(channel), &["1.0.0".to_owned()]);
    let mut graph = UpgradeGraph::of(&few, None).unwrap();
    assert!(graph.keep_drawn(&[]).is_empty());
    let many =
        package(&["f", "a", "b", "c", "d", "e", "g", "h", "i", "j"].map(channel), &["1.0.0".to_owned()]);
    let drawn = |picked: &[&str]| {
        let mut graph = UpgradeGraph::of(&many, None).unwrap();
        let dropped = graph.keep_drawn(&picked.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(graph.channels.len() + dropped.len(), 10);
        graph.channels.into_iter().map(|channel| channel.name).collect::<String>()
    };
    assert_eq!(drawn(&[]), "f");
    assert_eq!(drawn(&["b", "unknown", "f"]), "bf");
    assert_eq!(drawn(&["a", "b", "c", "d", "e", "g", "h", "i"]), "abcdefgh");

    // a channel of more bundles than any real one is not drawn, even if it is the only one
    let (entries, versions) = chain(MOST_DRAWN_BUNDLES + 1);
    let large = package(&[("a", entries)], &versions);
    let mut graph = UpgradeGraph::of(&large, None).unwrap();
    assert_eq!(graph.keep_drawn(&[]), ["a"]);
}
