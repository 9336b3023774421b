//! The API as its callers use it, without TLS: the certificate is passed as the handshake would.

use std::sync::Arc;

use axum::{Extension, Router, body::Body};
use http::Request;
use olm_catalog::Catalog;
use olm_engine::catalogs::{CatalogRef, CatalogState, LoadedCatalog};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{FrontProxy, answers};
use crate::{context::Ctx, secure::Caller};

const ALL: &str = "/apis/packages.operators.coreos.com/v1/packagemanifests";

/// Two channels with three versions, one of which was withdrawn; the displayed metadata is in the catalog.
fn catalog() -> Arc<Catalog> {
    let bundle = |version: &str, more: Vec<Value>| {
        let mut properties = vec![
            json!({ "type": "olm.package", "value": { "packageName": "etcd", "version": version } }),
            json!({ "type": "olm.csv.metadata", "value": {
                "displayName": format!("etcd {version}"), "description": "# Keys", "maturity": "alpha",
                "annotations": { "capabilities": "Basic Install" }, "keywords": ["db"],
                "labels": { "operatorframework.io/arch.arm64": "supported" },
                "links": [{ "name": "Home", "url": "https://etcd.io" }],
                "maintainers": [{ "name": "ann", "email": "ann@example.com" }],
                "provider": { "name": "CNCF", "url": "https://cncf.io" }, "minKubeVersion": "1.20.0",
                "installModes": [{ "type": "AllNamespaces", "supported": true }],
                "crdDescriptions": { "owned": [{ "name": "etcds.example.com", "kind": "Etcd", "version": "v1" }] },
                "apiServiceDefinitions": {},
            } }),
        ];
        properties.extend(more);
        json!({ "schema": "olm.bundle", "package": "etcd", "name": format!("etcd.v{version}"), "image": "example.invalid/etcd:1",
            "properties": properties, "relatedImages": [{ "name": "", "image": "example.invalid/etcd:1" }] })
    };
    let icon = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=";
    let documents = [
        json!({ "schema": "olm.package", "name": "etcd", "defaultChannel": "stable",
            "icon": { "base64data": icon, "mediatype": "image/svg+xml" } }),
        json!({ "schema": "olm.channel", "package": "etcd", "name": "stable",
            "entries": [{ "name": "etcd.v1.0.0" }, { "name": "etcd.v1.10.0", "replaces": "etcd.v1.9.0" },
                { "name": "etcd.v1.9.0", "replaces": "etcd.v1.0.0" }] }),
        json!({ "schema": "olm.channel", "package": "etcd", "name": "alpha", "entries": [{ "name": "etcd.v1.0.0" }] }),
        bundle("1.0.0", Vec::new()),
        bundle("1.9.0", vec![json!({ "type": "olm.deprecated", "value": {} })]),
        bundle("1.10.0", Vec::new()),
        json!({ "schema": "olm.deprecations", "package": "etcd", "entries": [
            { "reference": { "schema": "olm.channel", "name": "alpha" }, "message": "use stable" }] }),
    ];
    let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
    Arc::new(Catalog::from_bytes("test", text.as_bytes()))
}

fn certificate(name: &str) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

fn front() -> FrontProxy {
    let pem = {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&key).unwrap().pem()
    };
    let words = |words: &[&str]| json!(words).to_string();
    let data = [
        ("requestheader-client-ca-file", pem),
        ("requestheader-allowed-names", words(&["front"])),
        ("requestheader-username-headers", words(&["X-Remote-User"])),
        ("requestheader-group-headers", words(&["X-Remote-Group"])),
        ("requestheader-extra-headers-prefix", words(&["X-Remote-Extra-"])),
    ];
    FrontProxy::read(&data.map(|(key, value)| (key.to_owned(), value)).into()).unwrap()
}

/// A manager with a global catalog and one of a namespace. The API server allows `ann` everything, and `bob`
/// all but the catalogs of namespace team.
fn world() -> Router {
    let server = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect_bytes().await?;
        let answer = if path.ends_with("/subjectaccessreviews") {
            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
            let (user, act) = (&review["spec"]["user"], &review["spec"]["resourceAttributes"]);
            let private = act["resource"] == "catalogsources" && act["namespace"] == "team";
            let allowed = user == "ann" || user == "bob" && !private;
            json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                "spec": review["spec"], "status": { "allowed": allowed } })
        } else {
            let items: &[Value] = if path.contains("/namespaces/") && !path.contains("/namespaces/olm/") {
                &[]
            } else {
                &[
                    json!({ "metadata": { "name": "community", "namespace": "olm", "labels": { "tier": "gold" },
                    "creationTimestamp": "2026-01-01T00:00:00Z" } }),
                ]
            };
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": items })
        };
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        Ok::<_, tower::BoxError>(http::Response::new(body))
    });
    let client = kube::Client::new(server, "default");
    let ctx = Arc::new(Ctx::new(client, &crate::Options::new("test")).unwrap());
    for (namespace, name, priority) in [("olm", "community", 10), ("team", "own", 0)] {
        let reference = CatalogRef::new(namespace, name);
        let loaded = LoadedCatalog {
            display_name: format!("{name} operators"),
            publisher: "us".into(),
            priority,
            ..LoadedCatalog::new(reference, catalog())
        };
        ctx.catalogs.insert(
            namespace,
            name,
            CatalogState { loaded: Some(loaded), ..CatalogState::default() },
        );
    }
    answers::router(ctx)
}

async fn ask(caller: Caller, path: &str, headers: &[(&str, &str)]) -> (u16, http::HeaderMap, Vec<u8>) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let router = world().layer(Extension(caller));
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (code, headers) = (response.status().as_u16(), response.headers().clone());
    (code, headers, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec())
}

/// As the API server requests for `ann`.
async fn get(path: &str, accept: &str) -> (u16, Value) {
    get_as("ann", path, accept).await
}

async fn get_as(user: &str, path: &str, accept: &str) -> (u16, Value) {
    let caller = Caller::new(front(), Some(certificate("front")));
    let (code, _, body) = ask(caller, path, &[("x-remote-user", user), ("accept", accept)]).await;
    (
        code,
        serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into()),
    )
}

#[tokio::test]
async fn a_package_is_shown_as_upstream_shows_it() {
    // when
    let (code, found) = get(
        &ALL.replace("v1/packagemanifests", "v1/namespaces/team/packagemanifests/etcd"),
        "application/json",
    )
    .await;
    // then it is that of the namespace's own catalog
    assert_eq!(code, 200, "{found}");
    assert_eq!(found["metadata"]["namespace"], "team");
    assert_eq!(
        found["metadata"]["labels"],
        json!({
            "catalog": "own", "catalog-namespace": "team", "provider": "CNCF", "provider-url": "https://cncf.io",
            "operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported",
        })
    );
    let status = &found["status"];
    assert_eq!(
        (
            &status["packageName"],
            &status["defaultChannel"],
            &status["catalogSource"],
            &status["catalogSourceNamespace"]
        ),
        (&json!("etcd"), &json!("stable"), &json!("own"), &json!("team"))
    );
    assert_eq!(
        (&status["catalogSourceDisplayName"], &status["catalogSourcePublisher"], &status["provider"]["name"]),
        (&json!("own operators"), &json!("us"), &json!("CNCF"))
    );
    let channels = status["channels"].as_array().unwrap();
    assert_eq!(
        (&channels[0]["name"], &channels[0]["deprecation"]["message"]),
        (&json!("alpha"), &json!("use stable"))
    );
    assert_eq!(
        (&channels[1]["name"], &channels[1]["currentCSV"]),
        (&json!("stable"), &json!("etcd.v1.10.0"))
    );
    assert_eq!(
        channels[1]["entries"],
        json!([{ "name": "etcd.v1.10.0", "version": "1.10.0" }, { "name": "etcd.v1.0.0", "version": "1.0.0" }])
    );
    assert_eq!(
        channels[1]["currentCSVDesc"],
        json!({
            "displayName": "etcd 1.10.0", "version": "1.10.0", "description": "# Keys", "maturity": "alpha",
            "annotations": { "capabilities": "Basic Install" }, "keywords": ["db"], "minKubeVersion": "1.20.0",
            "links": [{ "name": "Home", "url": "https://etcd.io" }],
            "maintainers": [{ "name": "ann", "email": "ann@example.com" }],
            "provider": { "name": "CNCF", "url": "https://cncf.io" },
            "installModes": [{ "type": "AllNamespaces", "supported": true }],
            "customresourcedefinitions": { "owned": [{ "name": "etcds.example.com", "kind": "Etcd", "version": "v1" }] },
            "relatedImages": ["example.invalid/etcd:1"],
        })
    );
}

#[tokio::test]
async fn a_namespace_sees_its_own_catalogs_and_the_global_ones() {
    let of = async |path: &str| {
        let (code, list) = get(path, "application/json").await;
        assert_eq!((code, &list["kind"]), (200, &json!("PackageManifestList")), "{path}: {list}");
        let items = list["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|item| {
                let text = |at: &str| item.pointer(at).unwrap().as_str().unwrap().to_owned();
                (text("/metadata/namespace"), text("/status/catalogSource"))
            })
            .collect::<Vec<_>>()
    };
    let pair = |namespace: &str, catalog: &str| (namespace.to_owned(), catalog.to_owned());
    let scoped = |namespace: &str| ALL.replace("v1/", &format!("v1/namespaces/{namespace}/"));
    assert_eq!(of(&scoped("team")).await, [pair("team", "own"), pair("team", "community")]);
    assert_eq!(of(&scoped("other")).await, [pair("other", "community")]);
    assert_eq!(of(ALL).await, [pair("olm", "community"), pair("team", "own")]);
    // and its selectors
    let selected = |query: &str| format!("{ALL}?{query}");
    assert_eq!(of(&selected("labelSelector=catalog%3Down")).await, [pair("team", "own")]);
    assert_eq!(of(&selected("labelSelector=tier%20in%20(gold,x),catalog")).await, [pair("olm", "community")]);
    assert!(of(&selected("fieldSelector=metadata.name%3Dnone")).await.is_empty());
    assert_eq!(get(&selected("fieldSelector=spec.x%3D1"), "*/*").await.0, 400);
    assert_eq!(get(&selected("labelSelector=a%20b"), "*/*").await.0, 400);
}

#[tokio::test]
async fn t11_packages_of_catalogs_that_the_user_may_not_read_are_left_out() {
    let scoped = ALL.replace("v1/", "v1/namespaces/team/");
    let catalogs = async |user: &str, path: &str| {
        let (code, list) = get_as(user, path, "application/json").await;
        assert_eq!(code, 200, "{list}");
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["status"]["catalogSource"].clone()).collect::<Vec<_>>()
    };
    for path in [ALL, &scoped] {
        assert_eq!(catalogs("bob", path).await, [json!("community")], "{path}");
        assert_eq!(catalogs("ann", path).await.len(), 2, "{path}");
    }
    // The package of the same name comes from the catalog that he may read.
    let (code, one) = get_as("bob", &format!("{scoped}/etcd"), "application/json").await;
    assert_eq!((code, &one["status"]["catalogSource"]), (200, &json!("community")));
}

#[tokio::test]
async fn kubectl_gets_a_table() {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (code, table) = get(ALL, accept).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    let columns: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Catalog", "Age"]);
    let cells = |row: usize| table["rows"][row]["cells"].as_array().unwrap().clone();
    assert_eq!(cells(0)[..2], [json!("etcd"), json!("community operators")]);
    assert!(cells(0)[2].as_str().is_some_and(|age| age.ends_with('d') || age.contains('y')), "{table}");
    assert_eq!(cells(1)[2], "<unknown>");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn the_icon_is_an_image() {
    let path = ALL.replace("v1/packagemanifests", "v1/namespaces/olm/packagemanifests/etcd/icon");
    let caller = || Caller::new(front(), Some(certificate("front")));
    let (code, headers, body) = ask(caller(), &path, &[("x-remote-user", "ann")]).await;
    assert_eq!((code, headers["content-type"].to_str().unwrap()), (200, "image/svg+xml"));
    assert!(String::from_utf8_lossy(&body).starts_with("<svg"));
    assert_eq!(headers["etag"], "\"etcd.stable.etcd.v1.10.0\"");
    let again = format!("{path}?resourceVersion=etcd.stable.etcd.v1.10.0");
    let (code, ..) = ask(caller(), &again, &[("x-remote-user", "ann"), ("if-none-match", "x")]).await;
    assert_eq!(code, 304);
}

#[tokio::test]
async fn only_the_api_server_may_name_the_caller_and_only_permitted_callers_are_served() {
    let user = [("x-remote-user", "ann"), ("x-remote-group", "system:masters")];
    // Without its certificate, or with one of another name, the request is anonymous.
    for certificate in [None, Some(certificate("another"))] {
        let (code, _, body) = ask(Caller::new(front(), certificate), ALL, &user).await;
        assert_eq!(code, 401, "{}", String::from_utf8_lossy(&body));
    }
    let front_proxy = || Caller::new(front(), Some(certificate("front")));
    assert_eq!(ask(front_proxy(), ALL, &[]).await.0, 401);
    let (code, _, body) = ask(front_proxy(), ALL, &[("x-remote-user", "eve")]).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    let message = "packagemanifests.packages.operators.coreos.com is forbidden: User \"eve\" cannot list resource \"packagemanifests\" \
                   in API group \"packages.operators.coreos.com\" at the cluster scope";
    assert_eq!(status["message"], message);
    let masters = [("x-remote-user", "eve"), ("x-remote-group", "system:masters")];
    assert_eq!(ask(front_proxy(), ALL, &masters).await.0, 200);
    // Probes are anonymous and allowed.
    assert_eq!(ask(Caller::new(front(), None), "/healthz", &[]).await.0, 200);
}

#[tokio::test]
async fn missing_objects_are_reported_as_by_kubernetes() {
    let one = |name: &str| {
        ALL.replace("v1/packagemanifests", &format!("v1/namespaces/olm/packagemanifests/{name}"))
    };
    let (code, status) = get(&one("none"), "*/*").await;
    assert_eq!(
        (code, &status["reason"], &status["message"]),
        (
            404,
            &json!("NotFound"),
            &json!("packagemanifests.packages.operators.coreos.com \"none\" not found")
        )
    );
    assert_eq!(get(&format!("{ALL}?watch=true"), "*/*").await.0, 405);
    assert_eq!(get(ALL, "application/vnd.kubernetes.protobuf").await.0, 406);
    assert_eq!(
        get("/apis/packages.operators.coreos.com/v2", "*/*").await,
        (404, json!("404 page not found\n"))
    );
    let (code, list) = get("/apis/packages.operators.coreos.com/v1", "*/*").await;
    assert_eq!((code, &list["resources"][0]["name"]), (200, &json!("packagemanifests")));
    assert_eq!(get("/apis/packages.operators.coreos.com", "*/*").await.1["kind"], "APIGroup");
}
