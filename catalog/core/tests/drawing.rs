//! Upgrade graphs of real packages as SVG.

#![allow(clippy::unwrap_used, clippy::panic)] // a helper of a test may fail it

mod common;

use olm_catalog::{
    Catalog,
    graph::{Format, UpgradeGraph},
};

/// The budget of a drawing.
const MOST: usize = 60_000;

/// Checks that every element is closed in order, and that no text has markup.
fn check_elements(svg: &str, package: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').unwrap_or_else(|| panic!("{package}: {tag}"));
        assert!(!text.contains('>') || open.last() == Some(&"style"), "{package}: {text}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{package}"),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
    }
    assert!(open.is_empty(), "{package}: {open:?}");
}

#[test]
fn real_packages_are_drawn_within_the_budget() {
    let Some(path) = common::data("catalogs/community-dev.json") else { return };
    let catalog = Catalog::load_file(&path);
    let mut most_channels = 0;
    for summary in catalog.summaries() {
        let package = catalog.package(&summary.name).unwrap().unwrap();
        most_channels = most_channels.max(package.channels.len());
        let mut graph = UpgradeGraph::new(&package);
        // As many channels as a reader can pick.
        let picked: Vec<String> = package.channels.keys().rev().cloned().collect();
        graph.keep_drawn(&picked);
        let svg = graph.write(Format::Svg);
        check_elements(&svg, &package.name);
        assert!(svg.len() <= MOST, "{}: {} bytes", package.name, svg.len());
        for channel in &graph.channels {
            let head = package.channels[&channel.name].head().unwrap();
            assert!(svg.contains(&format!("<title>{}", head.name)), "{}: {}", package.name, head.name);
        }
    }
    assert!(most_channels > 30, "the data has a package with {most_channels} channels at most");
}
