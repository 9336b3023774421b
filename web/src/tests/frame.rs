//! The frame of the pages, and lists that a query narrows.

use axum::body::Body;
use http::StatusCode;

use super::{Browser, console_with, fake::Fake, get, send};

#[tokio::test]
async fn the_frame_leads_to_every_section_and_counts_installed_operators() {
    let (browser, _) = Browser::etcd().await;
    let page = browser.get("/catalog?q=etcd&category=Database").await;
    for link in ["/catalog", "/installed", "/updates", "/instances", "/catalogs", "/activity", "/doctor"] {
        assert!(page.text.contains(&format!("href=\"{link}\"")), "{link}: {}", page.text);
    }
    assert!(
        page.text.contains("<a href=\"/catalog\" aria-current=\"page\" data-key=\"c\">"),
        "{}",
        page.text
    );
    assert!(page.text.contains("id=\"nav-installed\">1</span>"), "{}", page.text);
    assert!(page.text.contains("id=\"nav-updates\">1</span>"), "{}", page.text);
    // below 720 px the rail has four pages, and "More" the others
    assert_eq!(page.text.matches("<li class=\"not-in-bar\">").count(), 3, "{}", page.text);
    assert_eq!(page.text.matches("href=\"/doctor\"").count(), 2, "{}", page.text);
    // the name of the menu is not hidden from screen readers
    assert!(page.text.contains("<span class=\"more\">"), "{}", page.text);
    // the search field shows the text, and a new search keeps the facets
    assert!(page.text.contains("name=\"q\" value=\"etcd\""), "{}", page.text);
    assert!(page.text.contains("type=\"hidden\" name=\"category\" value=\"Database\""), "{}", page.text);
    // without a session there is no navigation
    let login = send(&browser.router, get("/login").body(Body::empty()).unwrap()).await;
    assert!(!login.text.contains("aria-label=\"Main\"") && !login.text.contains("role=\"search\""));
}

#[tokio::test]
async fn facets_of_the_catalog_are_a_query() {
    let (browser, _) = Browser::etcd().await;
    let all = browser.json("/catalog").await;
    assert_eq!(
        (&all["total"], &all["pages"], &all["facets"]["state"]["update"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!(browser.json("/catalog?state=installed").await["packages"][0]["package"], "etcd");
    let none = browser.get("/catalog?state=available&q=etcd").await;
    assert!(none.text.contains("No results") && none.text.contains("href=\"/catalog\""), "{}", none.text);
    // each restriction has a link that removes it
    assert!(
        none.text.contains("href=\"/catalog?q=etcd\"")
            && none.text.contains("href=\"/catalog?state=available\"")
    );
}

#[tokio::test]
async fn installed_operators_are_filtered_in_the_page_and_its_live_part() {
    let (browser, _) = Browser::etcd().await;
    let page = browser.get("/installed?namespace=etcd&status=needs-approval").await;
    assert!(page.text.contains("id=\"row-etcd/etcd\""), "{}", page.text);
    let live = "data-live=\"/api/v1/events?installed&amp;namespace=etcd&amp;status=needs-approval\"";
    assert!(page.text.contains(live), "{}", page.text);
    let none = browser.get("/installed?namespace=other").await;
    assert!(none.text.contains("No match") && none.text.contains("0 of 1 operator"), "{}", none.text);
    assert_eq!(browser.json("/installed?q=nothing").await["installed"].as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn the_components_are_shown_only_where_that_is_enabled() {
    let (browser, _) = Browser::etcd().await;
    assert_eq!(browser.get("/dev/components").await.status, StatusCode::NOT_FOUND);
    let router = console_with(&Fake::default(), vec![], |app| app.components_page = true);
    let page = Browser::new(router).await.get("/dev/components").await;
    assert_eq!(page.status, StatusCode::OK);
    for component in ["Banner", "Tabs", "Table", "Tile", "Facet", "Form field", "Diff"] {
        assert!(page.text.contains(&format!("<h2>{component}</h2>")), "{component}: {}", page.text);
    }
}
