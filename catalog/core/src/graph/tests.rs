use super::*;
use crate::catalog::Catalog;

const CATALOG: &str = r##"
{"schema":"olm.package","name":"p","defaultChannel":"stable"}
{"schema":"olm.channel","package":"p","name":"stable","entries":[{"name":"p.v1.0.0"},{"name":"p.v1.1.0","replaces":"p.v1.0.0"},{"name":"p.v1.1.1"},{"name":"p.v1.2.0","replaces":"p.v1.1.0","skips":["p.v1.1.1","p.v1.1.2"],"skipRange":">=1.0.0 <1.2.0"}]}
{"schema":"olm.channel","package":"p","name":"tail","entries":[{"name":"p.v1.0.0","replaces":"p.v0.9.0"}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.0.0","image":"r.example/p:1.0.0","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.1.0","image":"r.example/p:1.1.0","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.1.0"}}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.1.1","image":"r.example/p:1.1.1","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.1.1"}}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.2.0","image":"r.example/p:1.2.0","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.2.0"}}]}
{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.bundle","name":"p.v1.0.0"},"message":"old"}]}
"##;

fn package() -> std::sync::Arc<Package> {
    Catalog::from_bytes("test", CATALOG.as_bytes()).package("p").unwrap().unwrap()
}

/// A package with malicious names.
fn hostile() -> Package {
    let entry = |name: &str, replaces: Option<&str>| ChannelEntry {
        name: name.to_owned(),
        replaces: replaces.map(str::to_owned),
        ..ChannelEntry::default()
    };
    let name = "x\"]; click n0 \"javascript:alert(1)\" <b>\\N\u{1b}[2J end";
    let channel =
        Channel { name: "a\"}\nend".into(), entries: vec![entry(name, Some("-->"))], deprecated: None };
    Package {
        name: "p\" {".into(),
        default_channel: "none".into(),
        channels: [(channel.name.clone(), channel)].into(),
        ..Package::default()
    }
}

#[test]
fn mermaid() {
    assert_eq!(
        graph(&package(), None, Format::Mermaid).unwrap(),
        r##"graph LR
  classDef head stroke-width:3px
  classDef skipped stroke-dasharray:4
  classDef missing stroke-dasharray:2,fill:none
  classDef deprecated fill:#E8960F
  subgraph c0["p / stable (default)"]
    n0["p.v1.2.0"]:::head
    n1["p.v1.1.0"]
    n2["p.v1.0.0"]:::deprecated
    n3["p.v1.1.1"]:::skipped
    n4["p.v1.1.2"]:::missing
    n1 -- replaces --> n0
    n3 -- skips --> n0
    n4 -- skips --> n0
    n5(["#62;#61;1.0.0 #60;1.2.0"]) -. skipRange .-> n0
    n2 -- replaces --> n1
  end
  subgraph c1["p / tail"]
    n6["p.v1.0.0"]:::deprecated
    n7["p.v0.9.0"]:::missing
    n7 -- replaces --> n6
  end
"##
    );
    let text = graph(&hostile(), None, Format::Mermaid).unwrap();
    assert_eq!(
        text.lines().skip(5).collect::<Vec<_>>().join("\n"),
        r##"  subgraph c0["p#34; #123; / a#34;#125;#10;end"]
    n0["x#34;#93;#59; click n0 #34;javascript:alert(1)#34; #60;b#62;#92;N#27;#91;2J end"]:::head
    n1["--#62;"]:::missing
    n1 -- replaces --> n0
  end"##
    );
}

#[test]
fn dot() {
    assert_eq!(
        graph(&package(), Some("stable"), Format::Dot).unwrap(),
        r##"digraph "p" {
  rankdir=LR;
  node [shape=box];
  subgraph cluster_0 {
    label="stable (default)";
    n0 [label="p.v1.2.0", penwidth=3];
    n1 [label="p.v1.1.0"];
    n2 [label="p.v1.0.0", color=orange];
    n3 [label="p.v1.1.1", style=dashed];
    n4 [label="p.v1.1.2", style=dotted];
    n1 -> n0 [label=replaces];
    n3 -> n0 [label=skips];
    n4 -> n0 [label=skips];
    n5 [label=">=1.0.0 <1.2.0", shape=plaintext];
    n5 -> n0 [label=skipRange, style=dashed];
    n2 -> n1 [label=replaces];
  }
}
"##
    );
    assert_eq!(
        graph(&hostile(), None, Format::Dot).unwrap(),
        r##"digraph "p\" {" {
  rankdir=LR;
  node [shape=box];
  subgraph cluster_0 {
    label="a\"}\\u{a}end";
    n0 [label="x\"]; click n0 \"javascript:alert(1)\" <b>\\N\\u{1b}[2J end", penwidth=3];
    n1 [label="-->", style=dotted];
    n1 -> n0 [label=replaces];
  }
}
"##
    );
}

#[test]
fn text() {
    assert_eq!(
        graph(&package(), None, Format::Text).unwrap(),
        "package p

channel stable (default)
  * p.v1.2.0  head
      replaces p.v1.1.0
      skips p.v1.1.1, p.v1.1.2
      skips versions >=1.0.0 <1.2.0
  * p.v1.1.0
      replaces p.v1.0.0
  * p.v1.0.0
      deprecated: old
  - p.v1.1.1  skipped
  not in the channel: p.v1.1.2

channel tail
  * p.v1.0.0  head
      replaces p.v0.9.0
      deprecated: old
  not in the channel: p.v0.9.0
"
    );
    assert!(graph(&hostile(), None, Format::Text).unwrap().chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn text_keeps_to_eighty_columns() {
    let mut package = Package::clone(&package());
    let channel = package.channels.get_mut("stable").unwrap();
    channel.entries[3].skips = (0..40).map(|patch| format!("some-operator.v1.0.{patch}")).collect();
    let text = graph(&package, Some("stable"), Format::Text).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains(",\n            some-operator"), "{text}");
}

#[test]
fn json_has_channels_bundles_and_edges() {
    let text = graph(&package(), Some("tail"), Format::Json).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value,
        serde_json::json!({"package": "p", "channels": [{"name": "tail", "default": false,
            "bundles": [
                {"name": "p.v1.0.0", "version": "1.0.0", "role": "head", "deprecated": "old"},
                {"name": "p.v0.9.0", "role": "missing"},
            ],
            "edges": [{"from": "p.v0.9.0", "to": "p.v1.0.0", "kind": "replaces"}]}]})
    );
    assert_eq!(graph(&package(), Some("none"), Format::Json), None);
}

fn marked() -> UpgradeGraph {
    let mut graph = UpgradeGraph::of(&package(), Some("stable")).unwrap();
    graph.mark(&["p.v1.0.0"], &["p.v1.0.0".into(), "p.v1.1.0".into(), "p.v1.2.0".into()]);
    graph
}

#[test]
fn what_is_installed_and_the_way_from_there_are_marked() {
    let text = marked().write(Format::Text);
    assert!(text.contains("path: p.v1.0.0 -> p.v1.1.0 -> p.v1.2.0\n"), "{text}");
    assert!(text.contains("* p.v1.2.0  head, hop 2\n"), "{text}");
    assert!(text.contains("* p.v1.1.0  hop 1\n"), "{text}");
    assert!(text.contains("* p.v1.0.0  installed\n"), "{text}");
    let hops: Vec<_> = marked().channels[0].edges.iter().filter_map(|e| Some((e.hop?, e.kind))).collect();
    assert_eq!(hops, [(2, EdgeKind::Replaces), (1, EdgeKind::Replaces)]);
    let dot = marked().write(Format::Dot);
    assert_eq!(dot.matches("color=blue").count(), 2, "{dot}");
    assert_eq!(dot.matches("fillcolor").count(), 1, "{dot}");
    // links count from 0 in the order of output
    let mermaid = marked().write(Format::Mermaid);
    assert!(
        mermaid.contains("  linkStyle 0 stroke") && mermaid.contains("  linkStyle 4 stroke"),
        "{mermaid}"
    );
}

#[test]
fn a_range_is_the_way_where_no_edge_names_the_bundle() {
    let mut graph = UpgradeGraph::of(&package(), Some("stable")).unwrap();
    graph.mark(&[], &["p.v1.0.0".into(), "p.v1.2.0".into()]);
    let hops: Vec<_> = graph.channels[0].edges.iter().filter_map(|e| Some((e.hop?, e.kind))).collect();
    assert_eq!(hops, [(1, EdgeKind::SkipRange)]);
}

#[test]
fn what_is_not_between_the_ends_of_the_way_is_left_out() {
    let mut graph = UpgradeGraph::of(&package(), None).unwrap();
    graph.mark(&[], &["p.v1.0.0".into(), "p.v1.1.0".into()]);
    graph.narrow();
    let names = |channel: &ChannelGraph| channel.bundles.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&graph.channels[0]), ["p.v1.1.0", "p.v1.0.0"]);
    assert_eq!(graph.channels[0].edges.len(), 1);
    assert_eq!(graph.channels.len(), 1);
    // without a path nothing is dropped
    let mut all = UpgradeGraph::of(&package(), None).unwrap();
    all.narrow();
    assert_eq!(all, UpgradeGraph::of(&package(), None).unwrap());
}
