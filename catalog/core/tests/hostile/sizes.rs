//! Large inputs.

use olm_catalog::{Catalog, Filter, Severity};
use serde_json::json;

use crate::text::{bundle, channel, entry, package, sound};
use crate::{assert_good, errors, problem, reported};

#[test]
fn a_channel_of_222_versions() {
    // given the longest real package
    let name = |n: usize| format!("p.v1.{n}.0");
    let entries: Vec<String> = (0..222)
        .map(|n| entry(&name(n), &if n > 0 { format!("replaces: {}", name(n - 1)) } else { String::new() }))
        .collect();
    let bundles: String = (0..222).map(|n| bundle("p", &name(n), &format!("1.{n}.0"))).collect();
    let text = package("p", "c") + &channel("p", "c", &entries) + &bundles;
    // when it is read
    let catalog = Catalog::from_bytes("c.yaml", text.as_bytes());
    // then the chain is complete, newest first
    assert_eq!(catalog.problems, []);
    let read = catalog.package("p").unwrap().unwrap();
    let chain: Vec<&str> = read.channels["c"].chain().iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!((chain.len(), chain[0], chain[221]), (222, "p.v1.221.0", "p.v1.0.0"));
    assert_eq!(catalog.summary("p").unwrap().versions, 222);
}

#[test]
fn a_package_of_38_channels_where_one_is_wrong() {
    // given 38 channels of the same bundle, and an entry without a bundle in one that is not the last
    let wrong = 17;
    let mut text = package("p", "c00");
    for n in 0..38 {
        let mut entries = vec![entry("p.v1", "")];
        if n == wrong {
            entries.push(entry("p.v2", "replaces: p.v1"));
        }
        text += &channel("p", &format!("c{n:02}"), &entries);
    }
    text += &bundle("p", "p.v1", "1.0.0");
    // when it is read
    let catalog = Catalog::from_bytes("c.yaml", (text + &sound("good")).as_bytes());
    // then that channel is named, at its line, and no other
    let found = problem(&catalog, "channel-entry-no-bundle");
    assert_eq!((found.place.line, found.channel.as_deref()), (2 * (wrong + 2), Some("c17")), "{found}");
    assert_eq!(errors(&catalog).len(), 1, "{}", reported(&catalog.problems));
    assert_eq!(catalog.package("p").unwrap().unwrap().channels.len(), 38);
    assert_good(&catalog, "38 channels");
}

#[test]
fn metadata_of_740_kilobytes() {
    // given a bundle whose description is as large as a whole real ClusterServiceVersion
    let description = "describe ".repeat(740_000 / 9);
    let document = json!({
        "schema": "olm.bundle", "package": "p", "name": "p.v1", "image": "reg.test/p:1",
        "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
            {"type": "olm.csv.metadata", "value": {"displayName": "P", "description": description}},
        ],
    });
    let text = package("p", "c") + &channel("p", "c", &[entry("p.v1", "")]) + &format!("---\n{document}\n");
    // when it is read
    let catalog = Catalog::from_bytes("c.yaml", (text + &sound("good")).as_bytes());
    // then all of it is there, and the fields for lists are short
    assert_eq!(catalog.problems, []);
    let read = catalog.package("p").unwrap().unwrap();
    assert_eq!(read.bundles["p.v1"].csv_metadata().unwrap().description, description);
    let summary = catalog.summary("p").unwrap();
    assert!(summary.description.len() < 1_000, "{}", summary.description.len());
    assert_good(&catalog, "740 KB");
}

#[test]
fn a_hundred_thousand_documents() {
    // given documents of an unknown schema, followed by a package
    let many: String = (0..100_000).map(|n| format!("{{\"schema\":\"x\",\"name\":\"n{n}\"}}\n")).collect();
    let good = "{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}\n";
    // when they are read
    let catalog = Catalog::from_bytes("c.json", (many + good).as_bytes());
    // then every one of them is kept, and the package is checked
    let filter = Filter { schema: Some("x".into()), ..Filter::default() };
    assert_eq!(catalog.documents(&filter).count(), 100_000);
    assert_eq!(problem(&catalog, "package-no-channels").place.line, 100_001);
}

#[test]
fn the_first_of_a_hundred_thousand_broken_documents_is_reported_with_its_line() {
    // given as many mistakes as lines
    let many = "{\"schema\":\"olm.channel\",\"package\":\"nowhere\",\"name\":\"c\"}\n".repeat(100_000);
    // when they are read
    let catalog = Catalog::from_bytes("c.json", many.as_bytes());
    // then the first of them is reported with its place
    let found = problem(&catalog, "channel-package-unknown");
    assert_eq!((found.place.line, found.severity), (1, Severity::Error));
}

#[test]
fn a_wide_graph_and_a_long_cycle_end() {
    // given 20,000 entries: all skipped by the head; in a cycle; all heads
    let name = |n: usize| format!("p.v{n}");
    let all: Vec<String> = (1..20_000).map(name).collect();
    let wide: Vec<String> = std::iter::once(entry("p.v0", &format!("skips: [{}]", all.join(", "))))
        .chain(all.iter().map(|name| entry(name, "")))
        .collect();
    let circle: Vec<String> =
        (0..20_000).map(|n| entry(&name(n), &format!("replaces: {}", name((n + 1) % 20_000)))).collect();
    let heads: Vec<String> = (0..20_000).map(|n| entry(&name(n), "")).collect();
    for (entries, code) in
        [(wide, None), (circle, Some("channel-no-head")), (heads, Some("channel-several-heads"))]
    {
        let text = package("p", "c") + &channel("p", "c", &entries) + &sound("good");
        // when they are read
        let catalog = Catalog::from_bytes("c.yaml", text.as_bytes());
        // then the defect is reported; none has bundles
        if let Some(code) = code {
            assert_eq!(problem(&catalog, code).place.line, 4);
        }
        assert_eq!(problem(&catalog, "channel-entry-no-bundle").place.line, 4);
        assert_good(&catalog, "wide graphs");
    }
}
