//! Handlers, requested as by a browser.

mod activity;
mod browsing;
mod cases;
mod catalogs;
mod delivery;
mod fake;
mod frame;
mod hostile;
mod install;
mod issuer;
mod lifecycle;
mod objects;
mod one_user;
mod openid;
mod renewal;
mod signals;
mod tabs;
mod trust;
mod uninstall;
mod updates;
mod versions;

use std::sync::Arc;

use axum::{Router, body::Body};
use fake::{Fake, TOKEN};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use olm_catalog::Catalog;
use olm_engine::catalogs::{CatalogRef, LoadedCatalog};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{app::App, catalogs::Catalogs, client::AllowedHosts, routes};

/// A client for an unreachable cluster.
pub(crate) fn unreachable_client() -> Client {
    let refuse = tower::service_fn(|_: Request<kube::client::Body>| async {
        Err::<Response<kube::client::Body>, std::io::Error>(std::io::ErrorKind::ConnectionRefused.into())
    });
    Client::new(refuse, "default")
}

fn loaded(name: &str, catalog: impl Into<Arc<Catalog>>) -> LoadedCatalog {
    let reference = CatalogRef { namespace: "olm".into(), name: name.into() };
    let mut loaded = LoadedCatalog::new(reference, catalog.into());
    loaded.display_name = "Community operators".into();
    loaded.publisher = "olm".into();
    loaded
}

fn etcd() -> Arc<olm_catalog::Package> {
    olm_catalog::shipped().package("etcd").unwrap().unwrap()
}

/// The CRDs of a bundle in the shipped catalog.
fn crds() -> Vec<Value> {
    let bundle = etcd().head().unwrap().bundle().unwrap();
    bundle.crds().cloned().collect()
}

/// A cluster with etcd installed and a newer version that requires approval.
pub(crate) fn cluster() -> Fake {
    let fake = Fake::default();
    for ns in ["default", "etcd", "olm", "kube-system"] {
        fake.insert(
            &format!("/api/v1/namespaces/{ns}"),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}}),
        );
    }
    let bundle = etcd().bundles["etcdoperator.v0.10.1"].bundle().unwrap();
    let mut csv = bundle.csv_raw.clone();
    csv["metadata"]["namespace"] = "etcd".into();
    csv["metadata"]["uid"] = "u2".into();
    csv["metadata"]["creationTimestamp"] = "2026-11-21T09:00:00Z".into();
    csv["metadata"]["annotations"]["olm.targetNamespaces"] = "".into();
    csv["status"] = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": "install strategy completed with no errors"});
    // It watches all namespaces, as its annotation states.
    fake.insert(
        "/apis/operators.coreos.com/v1/namespaces/etcd/operatorgroups/all",
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "all", "namespace": "etcd"}, "spec": {}, "status": {"namespaces": [""]}}),
    );
    let base = "/apis/operators.coreos.com/v1alpha1/namespaces/etcd";
    fake.insert(&format!("{base}/clusterserviceversions/etcdoperator.v0.10.1"), csv);
    fake.insert(&format!("{base}/subscriptions/etcd"), json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "etcd", "namespace": "etcd", "uid": "u1", "creationTimestamp": "2026-11-21T09:00:00Z"},
        "spec": {"name": "etcd", "source": "community", "sourceNamespace": "olm", "channel": etcd().default_channel, "installPlanApproval": "Manual"},
        "status": {"installedCSV": "etcdoperator.v0.10.1", "currentCSV": "etcdoperator.v0.11.0", "state": "UpgradePending",
            "installPlanRef": {"name": "install-abc", "namespace": "etcd", "kind": "InstallPlan"}, "installplan": {"name": "install-abc", "kind": "InstallPlan"}},
    }));
    fake.insert(&format!("{base}/installplans/install-abc"), json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-abc", "namespace": "etcd", "resourceVersion": "5", "creationTimestamp": "2026-11-21T09:30:00Z",
            "annotations": {"olm.planReview": ""},
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "etcd", "uid": "u1"}]},
        "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["etcdoperator.v0.11.0"],
            "planDigest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
        "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [
            {"resolving": "etcdoperator.v0.11.0", "status": "Unknown", "resource": {"group": "apps", "version": "v1", "kind": "Deployment", "name": "etcd-operator", "manifest": ""}}]},
    }));
    for crd in crds() {
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        fake.insert(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"), crd);
    }
    let etcd = "/apis/etcd.database.coreos.com/v1beta2/namespaces/default/etcdclusters";
    fake.insert(&format!("{etcd}/example-etcd-cluster"), json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "example-etcd-cluster", "namespace": "default", "creationTimestamp": "2026-11-21T09:40:00Z"},
        "spec": {"size": 3, "version": "3.4.23"},
        "status": {"phase": "Running", "size": 3, "serviceName": "example-etcd-cluster-client", "currentVersion": "3.4.23", "readyMembers": 2,
            "members": {"ready": ["example-etcd-cluster-4xk2l", "example-etcd-cluster-9dd2v"], "unready": ["example-etcd-cluster-zz8mp"]},
            "conditions": [{"type": "Available", "status": "True", "reason": "QuorumHealthy", "message": "2 of 3 members are healthy", "lastTransitionTime": "2026-11-21T09:41:00Z"},
                {"type": "Scaling", "status": "True", "reason": "AddingMember", "message": "from 2 to 3", "lastTransitionTime": "2026-11-21T09:42:00Z"}]},
    }));
    fake.insert("/api/v1/namespaces/default/events/e1", json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1", "namespace": "default"},
        "involvedObject": {"kind": "EtcdCluster", "name": "example-etcd-cluster"}, "type": "Normal", "reason": "NewMemberAdded",
        "message": "New member example-etcd-cluster-zz8mp added to cluster", "lastTimestamp": "2026-11-21T09:42:00Z", "count": 1}));
    fake.insert("/api/v1/namespaces/default/events/e2", json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e2", "namespace": "default"},
        "involvedObject": {"kind": "EtcdCluster", "name": "example-etcd-cluster", "uid": "of-one-that-is-gone"}, "type": "Normal", "reason": "DeletedSince",
        "message": "of another", "lastTimestamp": "2026-11-21T09:42:00Z", "count": 1}));
    fake
}

/// A signed-in browser.
pub(crate) struct Browser {
    pub(crate) router: Router,
    cookie: String,
    csrf: String,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn location(&self) -> &str {
        self.headers[header::LOCATION].to_str().unwrap()
    }
}

pub(crate) fn console(fake: &Fake, catalogs: Vec<LoadedCatalog>) -> Router {
    console_with(fake, catalogs, |_| {})
}

pub(crate) fn console_with(
    fake: &Fake,
    catalogs: Vec<LoadedCatalog>,
    change: impl FnOnce(&mut App),
) -> Router {
    let mut app = App::new(
        fake.api_server(),
        Catalogs::fixed(catalogs),
        AllowedHosts::new(vec![]),
        false,
        false,
        CancellationToken::new(),
    );
    change(&mut app);
    routes::router(Arc::new(app))
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }
}

pub(crate) fn get(path: &str) -> http::request::Builder {
    Request::get(path).header(header::HOST, "127.0.0.1:8080")
}

pub(crate) fn post(path: &str) -> http::request::Builder {
    Request::post(path)
        .header(header::HOST, "127.0.0.1:8080")
        .header("sec-fetch-site", "same-origin")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
}

pub(crate) async fn new_code(router: &Router) -> String {
    new_code_of(router, TOKEN).await
}

/// The value of a hidden field on a page.
pub(crate) fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let before = format!("name=\"{name}\" value=\"");
    let at = page.find(&before).unwrap_or_else(|| panic!("no field {name}: {page}")) + before.len();
    page[at..].split('"').next().unwrap()
}

/// `NAME=VALUE` of the cookies that a response sets.
pub(crate) fn cookies(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all(header::SET_COOKIE).iter();
    all.map(|value| value.to_str().unwrap().split(';').next().unwrap().to_owned()).collect()
}

/// Opens the sign-in page with a link and presses its button.
pub(crate) async fn follow_link(router: &Router, link: &str) -> Answer {
    let page = send(router, get(link).body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let form = &page.text[page.text.find("name=\"browser\"").expect("the form")..];
    let fields = ["browser", "code", "next"].map(|name| (name, hidden(form, name)));
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    send(router, post("/login").header(header::COOKIE, &cookies(&page)[0]).body(Body::from(body)).unwrap())
        .await
}

/// Submits a token on the sign-in page.
pub(crate) async fn paste_token(router: &Router, token: &str, next: &str) -> Answer {
    let page = send(router, get("/login").body(Body::empty()).unwrap()).await;
    let fields = [("browser", hidden(&page.text, "browser")), ("token", token), ("next", next)];
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    send(router, post("/login").header(header::COOKIE, &cookies(&page)[0]).body(Body::from(body)).unwrap())
        .await
}

pub(crate) async fn new_code_of(router: &Router, token: &str) -> String {
    let request = post("/api/v1/login-codes").header(header::AUTHORIZATION, format!("Bearer {token}"));
    let answer = send(router, request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    serde_json::from_str::<Value>(&answer.text).unwrap()["code"].as_str().unwrap().to_owned()
}

impl Browser {
    pub(crate) async fn new(router: Router) -> Self {
        Self::of(router, TOKEN).await
    }

    pub(crate) async fn of(router: Router, token: &str) -> Self {
        let code = new_code_of(&router, token).await;
        let answer = follow_link(&router, &format!("/login?code={code}")).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER);
        let cookie = cookies(&answer).remove(0);
        let mut browser = Self { router, cookie, csrf: String::new() };
        let page = browser.get("/catalog").await;
        let at = page.text.find("name=\"_csrf\" value=\"").expect("the page has a form") + 20;
        browser.csrf = page.text[at..at + 64].to_owned();
        browser
    }

    pub(crate) async fn etcd() -> (Self, Fake) {
        let fake = cluster();
        let router = console(&fake, vec![loaded("community", olm_catalog::shipped())]);
        (Self::new(router).await, fake)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(&self.router, get(path).header(header::COOKIE, &self.cookie).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let request =
            get(path).header(header::COOKIE, &self.cookie).header(header::ACCEPT, "application/json");
        let answer = send(&self.router, request.body(Body::empty()).unwrap()).await;
        serde_json::from_str(&answer.text).unwrap_or_else(|e| panic!("{path}: {e}: {}", answer.text))
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.append_pair("_csrf", &self.csrf).extend_pairs(fields);
        send(
            &self.router,
            post(path).header(header::COOKIE, &self.cookie).body(Body::from(body.finish())).unwrap(),
        )
        .await
    }
}

/// Not a test: serves the console over the fake cluster for manual inspection. `OLM_WEB_LOOK=127.0.0.1:9999`,
/// and `OLM_WEB_LOOK_SCENE=failing`, `along`, `upgraded` or `workload` for other states.
#[tokio::test]
async fn serve_for_a_look() {
    let Ok(address) = std::env::var("OLM_WEB_LOOK") else {
        println!("skipped: set OLM_WEB_LOOK=ADDRESS to look at the console in a browser");
        return;
    };
    let mut catalogs = vec![loaded("community", olm_catalog::shipped())];
    if let Ok(path) = std::env::var("OLM_WEB_LOOK_CATALOG") {
        catalogs.push(loaded("more", Catalog::from_bytes("more", &std::fs::read(path).unwrap())));
    }
    let fake = lifecycle::scene();
    match std::env::var("OLM_WEB_LOOK_SCENE").as_deref() {
        Ok("failing") => lifecycle::failing(&fake),
        Ok("along") => lifecycle::installed_along(&fake),
        Ok("upgraded") => lifecycle::upgraded(&fake),
        Ok("workload") => tabs::workload(&fake),
        _ => {}
    }
    let router = console(&fake, catalogs);
    for _ in 0..20 {
        println!("http://{address}/login?code={}", new_code(&router).await);
    }
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    axum::serve(listener, router).await.unwrap();
}
