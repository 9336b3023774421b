//! What a reader sees while choosing a package, a channel and a version.

use http::StatusCode;
use olm_catalog::Catalog;
use serde_json::{Value, json};

use super::{Browser, console, fake::Fake, loaded};

fn catalog(documents: &[Value]) -> Catalog {
    let lines: Vec<String> = documents.iter().map(ToString::to_string).collect();
    Catalog::from_bytes("test", lines.join("\n").as_bytes())
}

/// A package with one channel for each list of versions, oldest first.
fn package(name: &str, channels: &[(&str, &[&str])]) -> Vec<Value> {
    let csv = |version: &str| format!("{name}.v{version}");
    let mut documents = vec![json!({"schema": "olm.package", "name": name, "defaultChannel": channels[0].0})];
    let mut bundles = Vec::new();
    for (channel, versions) in channels {
        let entry = |(i, version): (usize, &&str)| match i.checked_sub(1) {
            Some(before) => json!({"name": csv(version), "replaces": csv(versions[before])}),
            None => json!({"name": csv(version)}),
        };
        let entries: Vec<Value> = versions.iter().enumerate().map(entry).collect();
        documents
            .push(json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries}));
        bundles.extend(versions.iter().copied());
    }
    bundles.sort_unstable();
    bundles.dedup();
    for version in bundles {
        let properties = json!([{"type": "olm.package", "value": {"packageName": name, "version": version}}]);
        documents.push(json!({"schema": "olm.bundle", "package": name, "name": csv(version),
            "image": "localhost/x:1", "properties": properties}));
    }
    documents
}

#[tokio::test]
async fn deprecations_are_shown_where_a_package_a_channel_or_a_version_is_chosen() {
    let mut documents = package("kiali", &[("stable", &["1.83.0"]), ("alpha", &["1.68.0", "1.83.0"])]);
    documents.push(json!({"schema": "olm.deprecations", "package": "kiali", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "use another package"},
        {"reference": {"schema": "olm.channel", "name": "alpha"}, "message": "use channel stable"},
        {"reference": {"schema": "olm.bundle", "name": "kiali.v1.68.0"}, "message": "use version 1.83.0"},
    ]}));
    documents.extend(package("other", &[("stable", &["1.0.0"])]));
    let browser =
        Browser::new(console(&Fake::default(), vec![loaded("community", catalog(&documents))])).await;
    let list = browser.get("/catalog").await.text;
    let tiles: Vec<&str> = list.split("<li data-words=").skip(1).collect();
    assert_eq!(tiles.len(), 2, "{list}");
    for tile in tiles {
        assert_eq!(tile.contains("Deprecated"), tile.contains("/kiali\""), "{tile}");
    }
    let home = "/catalog/olm.community/kiali";
    let all = ["use another package", "use channel stable", "use version 1.83.0"];
    for (query, count) in [("", 1), ("?channel=alpha", 2), ("?channel=alpha&version=1.68.0", 3)] {
        let page = browser.get(&format!("{home}{query}")).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        for (i, text) in all.into_iter().enumerate() {
            assert_eq!(page.text.contains(text), i < count, "{query}: {text}: {}", page.text);
        }
    }
    let versions = browser.get(&format!("{home}/versions")).await.text;
    let rows: Vec<&str> = versions.split("<tr").filter(|row| row.contains("scope=\"row\"")).collect();
    assert_eq!(rows.len(), 2, "{versions}");
    assert!(!rows[0].contains("Deprecated") && rows[1].contains("Deprecated"), "{versions}");
    let install = browser.get("/install/olm.community/kiali").await.text;
    assert!(install.contains("alpha (deprecated)") && !install.contains("stable (deprecated)"), "{install}");
}

#[tokio::test]
async fn catalogs_are_a_facet_and_a_search_is_cleared() {
    let of = |name: &str, documents: &[Value]| {
        let mut loaded = loaded(name, catalog(documents));
        loaded.display_name = name.to_owned();
        loaded
    };
    let mut community = package("argo", &[("stable", &["1.0.0"])]);
    community.extend(package("datadog", &[("stable", &["1.0.0"])]));
    let certified = package("zed", &[("stable", &["1.0.0"])]);
    let catalogs = vec![of("community", &community), of("certified", &certified)];
    let browser = Browser::new(console(&Fake::default(), catalogs)).await;
    let names = async |query: &str| -> Vec<String> {
        let model = browser.json(&format!("/catalog{query}")).await;
        let packages = model["packages"].as_array().unwrap().clone();
        packages.iter().map(|one| one["package"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("").await, ["argo", "datadog", "zed"]);
    assert_eq!(names("?source=olm.community").await, ["argo", "datadog"]);
    assert_eq!(names("?source=olm.certified").await, ["zed"]);
    assert_eq!(names("?q=datadog").await[0], "datadog");
    let page = browser.get("/catalog?source=olm.certified").await.text;
    assert!(page.contains("href=\"/catalog?source=olm.certified&amp;source=olm.community\""), "{page}");
    // nothing matches
    let none = browser.get("/catalog?q=qqqqqqqq").await.text;
    assert!(none.contains("No results") && !none.contains("data-words"), "{none}");
    let clear = none.split("<a ").find(|link| link.contains("Clear the search")).expect("a link");
    assert!(clear.contains("href=\"/catalog\""), "{clear}");
    // and its link shows all of them again, without a text
    let all = browser.get("/catalog").await.text;
    assert!(all.contains("name=\"q\" value=\"\"") && all.matches("data-words").count() == 3, "{all}");
}
