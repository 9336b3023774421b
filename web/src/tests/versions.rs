//! The versions of a package and its upgrade graph.

use http::StatusCode;
use olm_catalog::Catalog;
use serde_json::json;

use super::{Browser, cluster, console, fake::Fake, loaded};

const PAGE: &str = "/catalog/olm.community/etcd/versions";
const GRAPH: &str = "/catalog/olm.community/etcd/graph";

/// A package with a number of channels of two versions.
fn with_channels(count: usize) -> Catalog {
    let mut documents = vec![json!({"schema": "olm.package", "name": "many", "defaultChannel": "c00"})];
    for number in 0..count {
        documents.push(json!({"schema": "olm.channel", "package": "many", "name": format!("c{number:02}"),
            "entries": [{"name": "many.v1.0.0"}, {"name": "many.v1.1.0", "replaces": "many.v1.0.0"}]}));
    }
    for version in ["1.0.0", "1.1.0"] {
        documents.push(json!({"schema": "olm.bundle", "package": "many", "name": format!("many.v{version}"),
            "image": "localhost/many:1",
            "properties": [{"type": "olm.package", "value": {"packageName": "many", "version": version}}]}));
    }
    let lines: Vec<String> = documents.iter().map(ToString::to_string).collect();
    Catalog::from_bytes("many", lines.join("\n").as_bytes())
}

async fn many(count: usize) -> Browser {
    Browser::new(console(&Fake::default(), vec![loaded("community", with_channels(count))])).await
}

#[tokio::test]
async fn the_graph_marks_installed_and_excluded_versions_beside_a_table_of_all() {
    // given
    let fake = cluster();
    let path = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd/subscriptions/etcd";
    let mut subscription = fake.get(path).unwrap();
    subscription["spec"]["skipVersions"] = json!(["0.11.0"]);
    fake.insert(path, subscription);
    let catalogs = vec![loaded("community", olm_catalog::shipped())];
    let browser = Browser::new(console(&fake, catalogs)).await;
    // when
    let page = browser.get(PAGE).await;
    // then
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let text = &page.text;
    assert!(text.contains("<svg class=\"upgrades\" role=\"group\"") && !text.contains("<style"), "{text}");
    assert!(text.contains("<title>etcdoperator.v0.10.1: installed</title>"), "{text}");
    assert!(text.contains("<title>etcdoperator.v0.11.0: head, excluded</title>"), "{text}");
    let version = "href=\"/catalog/olm.community/etcd?version=0.10.1\"";
    assert_eq!(text.matches(version).count(), 2, "the drawing and the table link the version: {text}");
    assert!(text.contains("aria-current=\"page\">Versions"), "{text}");
    let model = browser.json(PAGE).await;
    let versions: Vec<&str> =
        model["versions"].as_array().unwrap().iter().map(|one| one["version"].as_str().unwrap()).collect();
    assert_eq!(versions.first(), Some(&"0.11.0"));
    for version in versions {
        assert!(text.contains(&format!(">{version}</a></th>")), "{version}: {text}");
    }
    // and the page of the package leads there
    assert!(browser.get("/catalog/olm.community/etcd").await.text.contains(&format!("href=\"{PAGE}\"")));
}

#[tokio::test]
async fn the_graph_has_four_formats_and_a_policy_of_its_own() {
    let (browser, _) = Browser::etcd().await;
    let svg = browser.get(GRAPH).await;
    assert_eq!(
        (svg.status, svg.headers["content-type"].to_str().unwrap()),
        (StatusCode::OK, "image/svg+xml")
    );
    assert!(svg.headers["content-security-policy"].to_str().unwrap().ends_with("sandbox"));
    assert!(
        svg.text.contains("<style>") && svg.text.contains("etcdoperator.v0.10.1: installed"),
        "{}",
        svg.text
    );
    for (format, start) in [("mermaid", "graph LR"), ("dot", "digraph \"etcd\""), ("json", "{")] {
        let file = browser.get(&format!("{GRAPH}?format={format}&channel=singlenamespace-alpha")).await;
        assert!(file.text.starts_with(start), "{format}: {}", file.text);
    }
    assert_eq!(browser.json(GRAPH).await["channels"][0]["bundles"][0]["role"], "head");
    for (query, status) in [
        ("format=png", StatusCode::BAD_REQUEST),
        ("channel=none", StatusCode::NOT_FOUND),
        ("format=json&channel=none", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(browser.get(&format!("{GRAPH}?{query}")).await.status, status, "{query}");
    }
    assert_eq!(browser.get(&format!("{PAGE}?channel=none")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get("/catalog/olm.community/none/graph").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_graph_shows_the_upgrade_path_between_two_versions() {
    // given a cluster with etcd 0.10.1
    let (browser, _) = Browser::etcd().await;
    let bundles = |graph: &serde_json::Value| -> Vec<String> {
        let channels = graph["channels"].as_array().unwrap();
        let all = channels.iter().flat_map(|channel| channel["bundles"].as_array().unwrap());
        all.map(|bundle| bundle["name"].as_str().unwrap().to_owned()).collect()
    };
    // when a path is requested, then older and newer versions are omitted
    let graph = browser.json(&format!("{GRAPH}?from=0.10.0&to=0.10.1")).await;
    assert_eq!(graph["way"], json!(["etcdoperator.v0.10.0", "etcdoperator.v0.10.1"]));
    assert!(bundles(&graph).iter().all(|name| name.starts_with("etcdoperator.v0.10.")), "{graph}");
    let svg = browser.get(&format!("{GRAPH}?from=0.10.0&to=etcdoperator.v0.10.1")).await;
    assert!(
        svg.text.contains("class=\"edge path\"") && !svg.text.contains("<title>etcdoperator.v0.11.0"),
        "{}",
        svg.text
    );
    // without a start it is that of the installed version, and without a target it leads to the newest version
    let installed = browser.json(&format!("{GRAPH}?to=0.11.0")).await;
    assert_eq!(installed["way"], json!(["etcdoperator.v0.10.1", "etcdoperator.v0.11.0"]));
    let newest = browser.json(&format!("{GRAPH}?from=0.10.1&to=")).await;
    assert_eq!(newest["way"], installed["way"]);
    assert!(browser.json(GRAPH).await["way"].is_null());
    // an unknown version names the others, and a path that does not exist the reason
    let unknown = browser.get(&format!("{GRAPH}?from=0.10.7")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(unknown.text.contains("0.10.1"), "{}", unknown.text);
    let back = browser.get(&format!("{GRAPH}?from=0.11.0&to=0.10.0")).await;
    assert_eq!(back.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", back.text);
}

#[tokio::test]
async fn readers_pick_channels_by_links_where_there_are_many() {
    let lanes = |page: &str| page.matches("class=\"lane\"").count();
    let page = "/catalog/olm.community/many/versions";
    let few = many(5).await.get(page).await.text;
    assert_eq!(lanes(&few), 5);
    assert!(!few.contains("Drawn channels"), "{few}");

    let browser = many(38).await;
    let default = browser.get(page).await.text;
    assert_eq!(lanes(&default), 1);
    assert!(default.contains("<a class=\"small\" href=\"?channel=c07\">c07</a>"), "{default}");
    let picked = browser.get(&format!("{page}?channel=c07&channel=c09")).await.text;
    assert_eq!(lanes(&picked), 3);
    assert!(
        picked.contains("<a class=\"small\" href=\"?channel=c09\" aria-current=\"true\">c07</a>"),
        "{picked}"
    );
    assert!(picked.contains("/graph?channel=c07&amp;channel=c09&amp;format=svg"), "{picked}");
    // the drawing has a limit
    let all: String = (0..38).map(|number| format!("&channel=c{number:02}")).collect();
    assert_eq!(lanes(&browser.get(&format!("{page}?{all}")).await.text), 8);
    let file = browser.get("/catalog/olm.community/many/graph?format=svg&channel=c01&channel=c02").await;
    assert_eq!(lanes(&file.text), 2);
}

#[tokio::test]
async fn two_hundred_versions_in_many_channels_are_a_small_drawing() {
    let version = |minor: usize| format!("1.{minor}.0");
    let mut documents = vec![json!({"schema": "olm.package", "name": "large", "defaultChannel": "c00"})];
    for number in 0..38 {
        let entry = |minor: usize| match minor {
            0 => json!({"name": "large.v1.0.0"}),
            _ => {
                json!({"name": format!("large.v{}", version(minor)), "replaces": format!("large.v{}", version(minor - 1))})
            }
        };
        let entries: Vec<_> = (0..222 - number).map(entry).collect();
        documents.push(json!({"schema": "olm.channel", "package": "large", "name": format!("c{number:02}"), "entries": entries}));
    }
    for minor in 0..222 {
        documents.push(json!({"schema": "olm.bundle", "package": "large", "name": format!("large.v{}", version(minor)),
            "image": "localhost/large:1",
            "properties": [{"type": "olm.package", "value": {"packageName": "large", "version": version(minor)}}]}));
    }
    let lines: Vec<String> = documents.iter().map(ToString::to_string).collect();
    let catalog = Catalog::from_bytes("large", lines.join("\n").as_bytes());
    let browser = Browser::new(console(&Fake::default(), vec![loaded("community", catalog)])).await;
    let all: String = (0..38).map(|number| format!("&channel=c{number:02}")).collect();
    let drawing = browser.get(&format!("/catalog/olm.community/large/graph?{all}")).await;
    assert!(drawing.text.len() <= 60_000, "{} bytes", drawing.text.len());
    let page = browser.get("/catalog/olm.community/large/versions").await;
    assert_eq!(page.text.matches("scope=\"row\"").count(), 222);
}
