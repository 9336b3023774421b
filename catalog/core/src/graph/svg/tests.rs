use super::super::layout::tests::{chain, package};
use super::*;
use crate::graph::Format;

/// The budget of a drawing.
const MOST: usize = 60_000;

#[test]
fn a_file_has_its_style_and_a_page_links_each_bundle() {
    let (entries, versions) = chain(3);
    let package = package(&[("c", entries)], &versions);
    let mut graph = UpgradeGraph::of(&package, None).unwrap();
    graph.mark(&["p.v1.1.0"], &["p.v1.1.0".into(), "p.v1.2.0".into()]);
    let file = graph.write(Format::Svg);
    assert!(
        file.starts_with("<svg class=\"upgrades\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\""),
        "{file}"
    );
    for part in [
        "<title id=\"upgrades-title\">Upgrade graph of p</title>",
        "<desc id=\"upgrades-desc\">Versions from left to right in channel c. Upgrade path: p.v1.1.0, p.v1.2.0.</desc>",
        "<style>:root { color-scheme",
        "<text class=\"lane\" x=\"17\" y=\"34\">c (default)</text>",
        "<path class=\"edge path\" d=\"M85 52H136\"><title>hop 1</title></path>",
        "<g class=\"node installed\" transform=\"translate(85 52)\"><title>p.v1.1.0: installed</title>",
        "<g class=\"node head hop\" transform=\"translate(136 52)\"><title>p.v1.2.0: head, hop 1</title>",
        "★ newest · ● installed · solid line: replaces · bold line: upgrade path</text>",
    ] {
        assert!(file.contains(part), "{part}\n{file}");
    }
    assert!(!file.contains("style=") && !file.contains("<script") && !file.contains("<a "), "{file}");

    let page = graph.inline_svg(&|channel, bundle| format!("?c={}&v={}", channel.name, bundle.name));
    assert!(page.contains("<a href=\"?c=c&amp;v=p.v1.0.0\" tabindex=\"-1\" class=\"node\""), "{page}");
    assert!(!page.contains("<style") && page.contains("role=\"group\""), "{page}");
}

#[test]
fn names_are_text_and_labels_are_short() {
    let name = "x\"><script>alert('1')</script>\u{1b}[2J\u{202e}&".to_owned() + &"long".repeat(500);
    let bundle = GraphNode {
        name: name.clone(),
        version: None,
        role: Role::Head,
        deprecated: Some(name.clone()),
        installed: true,
        excluded: true,
        hop: None,
    };
    let channel = ChannelGraph {
        name: name.clone(),
        default: true,
        deprecated: Some(name.clone()),
        bundles: vec![bundle],
        edges: Vec::new(),
    };
    let graph = UpgradeGraph { package: name, deprecated: None, path: Vec::new(), channels: vec![channel] };
    for text in [
        graph.write(Format::Svg),
        graph.inline_svg(&|channel, bundle| format!("{}{}", channel.name, bundle.name)),
    ] {
        assert!(!text.contains("<script") && !text.contains("\"><s"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text}");
    }
    assert!(graph.write(Format::Svg).len() < 5_000);
}

#[test]
fn two_hundred_versions_in_many_channels_stay_within_the_budget() {
    let (entries, versions) = chain(222);
    // Skipped versions are not folded.
    let skipping = |from: usize| {
        let mut entries = entries[from..].to_vec();
        let last = entries.len() - 1;
        let skips: Vec<String> =
            versions[from + 1..221].iter().step_by(2).map(|version| format!("\"p.v{version}\"")).collect();
        entries[last] = entries[last].replace('}', &format!(",\"skips\":[{}]}}", skips.join(",")));
        entries
    };
    let names: Vec<String> = (0..38).map(|number| format!("channel-{number:02}")).collect();
    let channels: Vec<(&str, Vec<String>)> = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            (name.as_str(), if number == 0 { skipping(0) } else { entries[..222 - number].to_vec() })
        })
        .collect();
    let package = package(&channels, &versions);
    let mut graph = UpgradeGraph::of(&package, None).unwrap();
    assert_eq!(graph.keep_drawn(&names[1..]).len(), 30);
    let file = graph.write(Format::Svg);
    assert!(file.len() <= MOST, "{} bytes", file.len());
    let page = graph.inline_svg(&|channel, bundle| {
        let channel = if channel.default { String::new() } else { format!("channel={}&", channel.name) };
        format!("/catalog/olm.community/p?{channel}version={}", bundle.version.as_deref().unwrap_or_default())
    });
    assert!(page.len() <= MOST, "{} bytes", page.len());
}
