//! The catalogs of the cluster: the list, a catalog, and its changes.

use http::{StatusCode, header};
use olm_catalog::Catalog;
use serde_json::{Value, json};

use super::{Browser, console, fake::Fake, loaded, send};

const BASE: &str = "/apis/operators.coreos.com/v1alpha1/namespaces";
const COMMUNITY: &str = "/catalogs/olm/community";

fn path(namespace: &str, name: &str) -> String {
    format!("{BASE}/{namespace}/catalogsources/{name}")
}

/// A CatalogSource that is served.
pub(super) fn insert(fake: &Fake, namespace: &str, name: &str) {
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "generation": 1},
        "spec": {"sourceType": "grpc", "image": "quay.io/acme/catalog:v1", "displayName": "Community <b>", "publisher": "olm",
            "updateStrategy": {"registryPoll": {"interval": "60m"}}, "priority": 5},
        "status": {"observedGeneration": 1, "packages": 1, "digest": "sha256:0123456789abcdef",
            "resolvedSource": "quay.io/acme/catalog@sha256:aa", "lastSuccess": "2026-11-21T09:00:00Z",
            "latestImageRegistryPoll": "2026-11-21T09:30:00Z",
            "connectionState": {"lastObservedState": "READY"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}]},
    });
    fake.insert(&path(namespace, name), object);
}

fn community(fake: &Fake) {
    insert(fake, "olm", "community");
}

impl Fake {
    fn source(&self, namespace: &str, name: &str) -> Option<Value> {
        self.get(&path(namespace, name))
    }
}

#[tokio::test]
async fn catalogs_are_listed_with_their_state() {
    let (browser, fake) = Browser::at(|fake| {
        community(fake);
        insert(fake, "etcd", "broken");
        fake.change(&path("etcd", "broken"), |source| {
            source["spec"] =
                json!({"sourceType": "http", "url": "https://me:hunter2@catalogs.example/all?token=secret"});
            source["status"] = json!({"observedGeneration": 1, "reason": "RegistryServerError", "message": "401 <i>",
                "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}});
        });
    })
    .await;
    let page = browser.get("/catalogs").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "2 catalogs",
        "href=\"/catalogs/olm/community\"",
        "Community &lt;b&gt; · olm",
        "quay.io/acme/catalog:v1",
        "sha256:0123456789abcdef",
        "href=\"/catalog?source=olm.community\"",
        "is-good\">Ready",
        "every 60m",
        "datetime=\"2026-11-21T09:00:00Z\"",
        "datetime=\"2026-11-21T09:30:00Z\"",
        "is-bad\">Failed",
        "RegistryServerError: 401 &lt;i&gt;",
        "https://catalogs.example/all",
        "href=\"/catalogs\" aria-current=\"page\"",
        "href=\"/catalogs/new\"",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(!page.text.contains("hunter2") && !page.text.contains("token=secret"), "{}", page.text);
    // nothing is pending
    assert!(!page.text.contains("data-reload"), "{}", page.text);
    let model = browser.json("/catalogs").await;
    let of = |name: &str| {
        let list = model["catalogs"].as_array().unwrap();
        list.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!((&of("community")["status"], &of("community")["packages"]), (&"Ready".into(), &1.into()));
    assert_eq!(
        (&of("broken")["status"], &of("broken")["state"]),
        (&"Failed".into(), &"TRANSIENT_FAILURE".into())
    );
    // the filter is a query
    let one = browser.json("/catalogs?namespace=etcd").await;
    assert_eq!(one["catalogs"].as_array().unwrap().len(), 1, "{one}");
    // without catalogs the page says so
    fake.remove(&path("etcd", "broken"));
    let page = browser.get("/catalogs?namespace=etcd").await;
    assert!(
        page.text.contains("No catalogs") && page.text.contains("/catalogs/new?namespace=etcd"),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn a_user_who_may_not_list_all_catalogs_selects_a_namespace() {
    let (browser, _) = Browser::at(|fake| {
        insert(fake, "etcd", "team");
        fake.refuse("/apis/operators.coreos.com/v1alpha1/catalogsources");
    })
    .await;
    let page = browser.get("/catalogs").await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.text);
    assert!(
        page.text.contains("cannot do this &lt;b&gt;") && page.text.contains("name=\"namespace\""),
        "{}",
        page.text
    );
    assert_eq!(browser.json("/catalogs").await["code"], "forbidden");
    let page = browser.get("/catalogs?namespace=etcd").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("href=\"/catalogs/etcd/team\""), "{}", page.text);
}

#[tokio::test]
async fn a_catalog_shows_facts_problems_by_package_users_and_events() {
    let fake = super::lifecycle::scene();
    community(&fake);
    fake.change(&path("olm", "community"), |source| {
        source["spec"]["secrets"] = json!(["pull"]);
        source["status"]["conditions"].as_array_mut().unwrap().push(
            json!({"type": "Signed", "status": "True", "reason": "Verified", "message": "signed by key sha256:1"}),
        );
    });
    fake.insert(
        "/api/v1/namespaces/olm/events/e",
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "olm"},
            "involvedObject": {"kind": "CatalogSource", "name": "community", "uid": "uid-community"}, "type": "Warning",
            "reason": "RegistryServerError", "message": "no route <b>", "lastTimestamp": "2026-11-21T09:42:00Z"}),
    );
    let content = "schema: olm.package\nname: broken\ndefaultChannel: none\n---\nschema: olm.channel\npackage: broken\nname: a\nentries: [{name: broken.v1}]\n";
    let catalog = Catalog::from_bytes("catalog.yaml", content.as_bytes());
    assert!(!catalog.problems.is_empty());
    let browser = Browser::new(console(&fake, vec![loaded("community", catalog)])).await;
    let page = browser.get(COMMUNITY).await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "quay.io/acme/catalog@sha256:aa",
        "sha256:0123456789abcdef",
        "signed by key sha256:1",
        "<dt>Pull secrets</dt><dd>pull</dd>",
        "<dt>Priority</dt><dd>5</dd>",
        "visible from every namespace",
        "<th scope=\"row\">broken</th>",
        "href=\"/installed/etcd/etcd\"",
        "no route &lt;b&gt;",
        "href=\"/catalog?source=olm.community\"",
        "olm catalog refresh olm/community",
        "href=\"/catalogs/olm/community/remove\"",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let model = browser.json(COMMUNITY).await;
    assert_eq!(model["problems"][0]["package"], "broken", "{model}");
    assert_eq!(model["subscriptions"], json!(["etcd/etcd"]));
    assert_eq!(model["catalog"]["pollInterval"], "60m");
    // the catalog page leads here
    assert!(browser.get("/catalog").await.text.contains("href=\"/catalogs/olm/community#problems\""));
    // content that the user may not read: the first problems of the status
    fake.change(&path("olm", "community"), |source| {
        source["status"]["problems"] = json!(["catalog.yaml:1:1: <u>wrong"]);
    });
    let browser = Browser::new(console(&fake, vec![])).await;
    assert!(browser.get(COMMUNITY).await.text.contains("catalog.yaml:1:1: &lt;u&gt;wrong"));
    let missing = browser.get("/catalogs/olm/comunity").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.text.contains("community"), "{}", missing.text);
}

#[tokio::test]
async fn a_refresh_is_requested_and_shown_until_it_has_ended() {
    let (browser, fake) = Browser::at(community).await;
    let done = browser.post(&format!("{COMMUNITY}/refresh"), &[]).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, COMMUNITY), "{}", done.text);
    let source = fake.source("olm", "community").unwrap();
    let requested = source["metadata"]["annotations"]["olm.refreshRequested"].as_str().unwrap().to_owned();
    assert_eq!(fake.writer(&path("olm", "community")).as_deref(), Some("olm.console"));
    // the page reloads until the manager has read the source
    let page = browser.get(COMMUNITY).await;
    assert!(
        page.text.contains("A refresh is requested") && page.text.contains("data-reload=\"3\""),
        "{}",
        page.text
    );
    fake.change(&path("olm", "community"), |source| {
        source["status"]["lastHandledRefresh"] = requested.into()
    });
    let page = browser.get(COMMUNITY).await;
    assert!(!page.text.contains("data-reload"), "{}", page.text);
    // a refusal is on the page
    fake.refuse(&path("olm", "community"));
    let refused = browser.post(&format!("{COMMUNITY}/refresh"), &[]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_poll_interval_is_changed_and_a_wrong_one_stays_in_its_field() {
    let (browser, fake) = Browser::at(community).await;
    let to = format!("{COMMUNITY}/interval");
    let interval = || fake.source("olm", "community").unwrap()["spec"]["updateStrategy"].clone();
    let wrong = browser.post(&to, &[("interval", "soon\"")]).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        wrong.text.contains("id=\"interval-problem\"") && wrong.text.contains("value=\"soon&quot;\""),
        "{}",
        wrong.text
    );
    assert_eq!(interval()["registryPoll"]["interval"], "60m");
    let done = browser.post(&to, &[("interval", " 30m ")]).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, COMMUNITY), "{}", done.text);
    assert_eq!(interval()["registryPoll"]["interval"], "30m");
    assert!(browser.get(COMMUNITY).await.text.contains("name=\"interval\" value=\"30m\""));
    // a request without the field changes nothing, an empty one unsets it
    assert_eq!(browser.post(&to, &[]).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(interval()["registryPoll"]["interval"], "30m");
    assert_eq!(browser.post(&to, &[("interval", "")]).await.status, StatusCode::SEE_OTHER);
    assert!(interval().is_null());
}

#[tokio::test]
async fn a_catalog_is_added_from_the_form() {
    let (browser, fake) = Browser::at(|_| {}).await;
    let page = browser.get("/catalogs/new?source=operatorhub").await;
    for text in [
        "value=\"operatorhub\"",
        "quay.io/operatorhubio/catalog:latest",
        "olm catalog add operatorhub",
        "value=\"olm\"",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    // an empty form has no problems
    assert!(!browser.get("/catalogs/new").await.text.contains("class=\"problem\""));
    let fields = [
        ("source", "quay.io/acme/catalog:v1"),
        ("name", "acme"),
        ("namespace", "etcd"),
        ("priority", "-5"),
        ("secrets", "a, b"),
    ];
    // a check creates nothing
    let mut check = fields.to_vec();
    check.push(("action", "check"));
    let checked = browser.post("/catalogs/new", &check).await;
    assert!(checked.text.contains("Validated by the API server"), "{}", checked.text);
    assert!(fake.source("etcd", "acme").is_none());
    let done = browser.post("/catalogs/new", &fields).await;
    assert_eq!(
        (done.status, done.location()),
        (StatusCode::SEE_OTHER, "/catalogs/etcd/acme"),
        "{}",
        done.text
    );
    let made = fake.source("etcd", "acme").unwrap();
    assert_eq!(made["spec"]["image"], "quay.io/acme/catalog:v1");
    assert_eq!((&made["spec"]["priority"], &made["spec"]["secrets"]), (&(-5).into(), &json!(["a", "b"])));
    assert_eq!(made["spec"]["updateStrategy"]["registryPoll"]["interval"], "60m");
    assert_eq!(fake.writer(&format!("{BASE}/etcd/catalogsources")).as_deref(), Some("olm.console"));
    // the same catalog again is no error, another source of that name is
    assert_eq!(browser.post("/catalogs/new", &fields).await.location(), "/catalogs/etcd/acme");
    let other = browser
        .post("/catalogs/new", &[("source", "operatorhub"), ("name", "acme"), ("namespace", "etcd")])
        .await;
    assert_eq!(other.status, StatusCode::CONFLICT, "{}", other.text);
    assert!(
        other.text.contains("id=\"name-problem\"") && other.text.contains("exists with other settings"),
        "{}",
        other.text
    );
    // JSON clients get the object
    let request = super::post("/catalogs/new")
        .header(header::AUTHORIZATION, format!("Bearer {}", super::TOKEN))
        .header(header::ACCEPT, "application/json")
        .body("source=operatorhub".into())
        .unwrap();
    let made = send(&browser.router, request).await;
    assert_eq!(
        (made.status, made.location()),
        (StatusCode::CREATED, "/catalogs/olm/operatorhub"),
        "{}",
        made.text
    );
}

#[tokio::test]
async fn what_is_wrong_with_the_form_is_beside_its_field_with_the_input_kept() {
    let (browser, fake) = Browser::at(|_| {}).await;
    let before = fake.paths();
    for (field, value, text) in [
        ("source", "", "required"),
        ("source", "./catalog", "the manager in the cluster does not read files of your machine"),
        ("source", "/etc", "the manager in the cluster does not read files of your machine"),
        ("source", "oci:/etc", "the manager in the cluster does not read files of your machine"),
        ("source", "operatorhb", "did you mean operatorhub?"),
        ("source", "file:///etc/passwd", "file:// is not a supported source"),
        ("source", "quay.io/acme/refused:v1", "is not allowed here"),
        ("name", "Not A Name", "is not a valid name"),
        ("namespace", "Not A Name", "is not a valid namespace name"),
        ("namespace", "nowhere", "namespace `nowhere` not found"),
        ("priority", "high", "is not a number"),
        ("secrets", "a,B!", "`B!` is not a valid name of a Secret"),
    ] {
        let mut fields = vec![("source", "quay.io/acme/catalog:v1"), ("priority", "7")];
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        let page = browser.post("/catalogs/new", &fields).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{field}={value}: {}", page.text);
        for shown in [
            format!("id=\"{field}-problem\""),
            format!("name=\"{field}\" value=\"{value}\""),
            text.to_owned(),
        ] {
            assert!(page.text.contains(&shown), "{field}={value}: {shown}: {}", page.text);
        }
    }
    // a path of the caller's machine: the page says how to serve it
    let page = browser.post("/catalogs/new", &[("source", "./catalog")]).await;
    assert!(page.text.contains("<code>olm catalog serve</code>"), "{}", page.text);
    // credentials are neither stored nor repeated, in the page or in JSON
    for source in
        ["https://me:hunter2@catalogs.example/all", "https://catalogs.example/all?access_token=hunter2"]
    {
        let page = browser.post("/catalogs/new", &[("source", source)]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(page.text.contains("id=\"source-problem\""), "{}", page.text);
        assert!(
            page.text.contains("contains credentials") && page.text.contains("pull secret"),
            "{}",
            page.text
        );
        assert!(!page.text.contains("hunter2"), "{}", page.text);
        assert!(page.text.contains("value=\"https://catalogs.example/all\""), "{}", page.text);
    }
    let page = browser.get("/catalogs/new?source=me:hunter2@quay.io/a/b").await;
    assert!(page.text.contains("contains credentials") && !page.text.contains("hunter2"), "{}", page.text);
    assert!(
        !browser.json("/catalogs/new?source=me:hunter2@quay.io/a/b").await.to_string().contains("hunter2")
    );
    assert_eq!(fake.paths(), before);
    // a refusal of the API server keeps the form
    fake.refuse(&format!("{BASE}/olm/catalogsources"));
    let page = browser.post("/catalogs/new", &[("source", "operatorhub")]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.text);
    assert!(
        page.text.contains("cannot do this &lt;b&gt;") && page.text.contains("value=\"operatorhub\""),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn a_removal_names_the_operators_that_use_the_catalog() {
    let (browser, fake) = Browser::at(community).await;
    let to = format!("{COMMUNITY}/remove");
    let page = browser.get(&to).await;
    assert!(page.text.contains("1 installed operator from this catalog"), "{}", page.text);
    assert!(
        page.text.contains("href=\"/installed/etcd/etcd\"")
            && !page.text.contains("part of the installation"),
        "{}",
        page.text
    );
    let (uid, users) = (super::hidden(&page.text, "uid"), super::hidden(&page.text, "subscriptions"));
    assert_eq!((uid, users), ("uid-community", "etcd/etcd"));
    // when another one was created since, or the list differs, then nothing is removed
    for fields in [[("uid", "other"), ("subscriptions", users)], [("uid", uid), ("subscriptions", "")]] {
        let refused = browser.post(&to, &fields).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
        assert!(
            refused.text.contains("Not removed") && refused.text.contains("etcd/etcd"),
            "{}",
            refused.text
        );
        assert!(fake.source("olm", "community").is_some());
    }
    let done = browser.post(&to, &[("uid", uid), ("subscriptions", users)]).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, "/catalogs"), "{}", done.text);
    assert!(fake.source("olm", "community").is_none());
    // and the operator is retained
    assert!(fake.get(&format!("{BASE}/etcd/subscriptions/etcd")).is_some());
    // the shipped catalog returns
    community(&fake);
    fake.change(&path("olm", "community"), |source| {
        source["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "olm"});
    });
    assert!(browser.get(&to).await.text.contains("part of the installation"));
}

#[tokio::test]
async fn buttons_are_disabled_with_the_missing_verb() {
    let (browser, fake) = Browser::at(community).await;
    for page in [COMMUNITY.to_owned(), format!("{COMMUNITY}/remove"), "/catalogs/new".to_owned()] {
        let text = browser.get(&page).await.text;
        assert!(!text.contains(" disabled"), "{page}: {text}");
    }
    fake.deny("catalogsources");
    for (page, verb, button) in [
        (COMMUNITY.to_owned(), "patch", "id=\"refresh\" disabled"),
        (format!("{COMMUNITY}/remove"), "delete", "id=\"remove\" disabled"),
        ("/catalogs/new".to_owned(), "create", "id=\"add\" name=\"action\" value=\"add\" disabled"),
    ] {
        let text = browser.get(&page).await.text;
        let why = format!("Missing permission: {verb} catalogsources in namespace olm.");
        assert!(text.contains(&why) && text.contains(button), "{page}: {text}");
    }
    // the right in another namespace
    assert!(
        browser.get("/catalogs/new?namespace=etcd").await.text.contains("catalogsources in namespace etcd.")
    );
    // without the right to list Subscriptions, the page says so
    fake.refuse("/apis/operators.coreos.com/v1alpha1/subscriptions");
    for page in [COMMUNITY.to_owned(), format!("{COMMUNITY}/remove")] {
        let text = browser.get(&page).await.text;
        assert!(text.contains("Missing permission: list subscriptions."), "{page}: {text}");
    }
}
