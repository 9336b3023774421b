//! Extension API servers.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::{
    outside::{Outside, Seen},
    *,
};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const METRICS: &str = "/apis/metrics.example.com/v1beta1";

fn api_service(outside: &Outside, service: &str) -> Value {
    json!({"metadata": {"name": "v1beta1.metrics.example.com"}, "spec": {
        "group": "metrics.example.com", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"name": service, "namespace": "default"}, "caBundle": outside.ca_bundle,
    }})
}

/// A server with one resource, `samples`.
fn extension(seen: &Seen) -> Option<(u16, Value)> {
    let path = seen.path.split('?').next().unwrap_or_default();
    Some(match path {
        METRICS => (
            200,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.example.com/v1beta1", "resources": [
                {"name": "samples", "singularName": "sample", "namespaced": true, "kind": "Sample", "verbs": ["get", "list"], "shortNames": ["sa"]},
                {"name": "samples/status", "singularName": "", "namespaced": true, "kind": "Sample", "verbs": ["get"]},
            ]}),
        ),
        "/openapi/v3" => (
            200,
            json!({"paths": {"apis/metrics.example.com/v1beta1": {"serverRelativeURL": "/openapi/v3/apis/metrics.example.com/v1beta1?hash=AB12"}}}),
        ),
        "/openapi/v3/apis/metrics.example.com/v1beta1" => (200, json!({"openapi": "3.0.0", "paths": {}})),
        _ if path.starts_with(METRICS) => {
            (201, json!({"kind": "Sample", "path": seen.path, "sent": seen.body}))
        }
        _ => (404, json!("no such path")),
    })
}

/// Watches until the condition of the APIService has the reason and a message with these words.
async fn until(server: &ApiServer, reason: &str, words: &str) -> Value {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let request = http::Request::builder()
        .uri(format!("{SERVICES}?watch=true&fieldSelector=metadata.name%3Dv1beta1.metrics.example.com"))
        .extension(Identity::admin())
        .body(axum::body::Body::empty())
        .expect("a valid request");
    let mut body = server.router().oneshot(request).await.expect("the router cannot fail").into_body();
    let mut text = String::new();
    let found = async {
        loop {
            let frame = body.frame().await.expect("an open watch").expect("a frame");
            text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text"));
            while let Some((line, rest)) = text.split_once('\n') {
                let event: Value = serde_json::from_str(line).expect("JSON");
                text = rest.to_owned();
                let condition = &event["object"]["status"]["conditions"][0];
                let message = condition["message"].as_str().unwrap_or_default();
                if condition["reason"] == reason && message.contains(words) {
                    return condition.clone();
                }
            }
        }
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, found).await.unwrap_or_else(|_| panic!("the condition never was {reason}"))
}

async fn front_proxy_ca(server: &ApiServer) -> (String, Value) {
    let (code, map) =
        get(server, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await;
    assert_eq!(code, 200, "{map}");
    (map["data"]["requestheader-client-ca-file"].as_str().expect("PEM").to_owned(), map["data"].clone())
}

#[tokio::test]
async fn requests_are_forwarded_in_the_callers_name() {
    let (server, _client) = server();
    let (ca, data) = front_proxy_ca(&server).await;
    assert_eq!(data["client-ca-file"], server.ca_pem());
    assert_eq!(
        (&data["requestheader-allowed-names"], &data["requestheader-username-headers"]),
        (&json!("[\"front-proxy-client\"]"), &json!("[\"X-Remote-User\"]"))
    );
    let outside = Outside::start_with_clients("metrics", Some(&ca), extension).await;
    outside.behind(&server, "metrics").await;
    let (code, body) = post(&server, SERVICES, api_service(&outside, "metrics")).await;
    assert_eq!((code, &body["spec"]["service"]["port"]), (201, &json!(443)), "{body}");
    assert_eq!(until(&server, "Passed", "").await["message"], "all checks passed");
    let asked = outside.take();
    // availability is checked as an administrator, the other documents are requested by a user without groups
    let mut askers: Vec<_> = asked
        .iter()
        .map(|s| (s.path.as_str(), &s.headers["x-remote-user"], s.headers.get("x-remote-group"), s.certified))
        .collect();
    askers.dedup();
    let masters = http::HeaderValue::from_static("system:masters");
    let (checks, reads) = ("system:kube-aggregator", "system:aggregator");
    for asker in [(METRICS, checks, Some(&masters)), (METRICS, checks, None), ("/openapi/v3", reads, None)] {
        let (path, user, group) = asker;
        assert!(
            askers.iter().any(|a| (a.0, a.2, a.3) == (path, group, true) && a.1 == user),
            "{asker:?} {askers:?}"
        );
    }

    let mut caller = Identity::user("ann", ["system:masters", "team"]);
    caller.uid = "u-1".to_owned();
    caller.extra.insert("example.com/scope".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    // identity headers of the caller are not forwarded
    let forged = [("x-remote-user", "root"), ("x-remote-group", "root"), ("x-custom", "kept")];
    let path = format!("{METRICS}/namespaces/default/samples?fieldManager=me");
    let (code, body) = send(&server, caller, "POST", &path, &forged, json!({"a": 1})).await;
    assert_eq!((code, &body["path"], &body["sent"]), (201, &json!(path), &json!({"a": 1})), "{body}");
    let seen = outside.take();
    let all = |name: &str| -> Vec<String> {
        seen[0].headers.get_all(name).iter().map(|v| v.to_str().expect("text").to_owned()).collect()
    };
    assert_eq!((seen[0].method.as_str(), seen[0].certified), ("POST", true));
    assert_eq!((all("x-remote-user"), all("x-remote-uid")), (vec!["ann".to_owned()], vec!["u-1".to_owned()]));
    assert_eq!(all("x-remote-group"), ["system:masters", "team", "system:authenticated"]);
    assert_eq!(
        (all("x-remote-extra-example.com%2fscope"), all("x-custom")),
        (vec!["a".to_owned(), "b".to_owned()], vec!["kept".to_owned()])
    );
    // a forbidden request does not reach the extension
    let (code, _) = send(&server, Identity::user("eve", []), "GET", &path, &[], Value::Null).await;
    assert_eq!((code, outside.take().len()), (403, 0));
}

#[tokio::test]
async fn discovery_includes_extension_api_servers() {
    let (server, _client) = server();
    let outside = Outside::start("metrics", extension).await;
    outside.behind(&server, "metrics").await;
    post(&server, SERVICES, api_service(&outside, "metrics")).await;
    until(&server, "Passed", "").await;
    let (_, groups) = get(&server, "/apis").await;
    let names: Vec<_> =
        groups["groups"].as_array().expect("groups").iter().map(|g| g["name"].clone()).collect();
    assert_eq!(names.last(), Some(&json!("metrics.example.com")));
    let (code, group) = get(&server, "/apis/metrics.example.com").await;
    assert_eq!((code, &group["preferredVersion"]["version"]), (200, &json!("v1beta1")));
    let (code, list) = get(&server, METRICS).await;
    assert_eq!((code, &list["resources"][0]["name"]), (200, &json!("samples")));
    let accept = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let aggregated = async || {
        let (_, list) = send(&server, Identity::admin(), "GET", "/apis", &accept, Value::Null).await;
        let items = list["items"].as_array().expect("items").clone();
        items.into_iter().find(|i| i["metadata"]["name"] == "metrics.example.com").expect("the group")["versions"][0].clone()
    };
    let version = aggregated().await;
    assert_eq!(
        (&version["freshness"], &version["resources"][0]["resource"]),
        (&json!("Current"), &json!("samples"))
    );
    assert_eq!(version["resources"][0]["subresources"][0]["subresource"], "status");
    assert_eq!(
        version["resources"][0]["responseKind"],
        json!({"group": "metrics.example.com", "version": "v1beta1", "kind": "Sample"})
    );
    let (_, index) = get(&server, "/openapi/v3").await;
    assert_eq!(
        index["paths"]["apis/metrics.example.com/v1beta1"]["serverRelativeURL"],
        "/openapi/v3/apis/metrics.example.com/v1beta1?hash=AB12"
    );
    assert_eq!(get(&server, "/openapi/v3/apis/metrics.example.com/v1beta1").await.1["openapi"], "3.0.0");
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let one = format!("{SERVICES}/v1beta1.metrics.example.com");
    let (_, table) = send(&server, Identity::admin(), "GET", &one, &accept, Value::Null).await;
    assert_eq!(
        (&table["rows"][0]["cells"][1], &table["rows"][0]["cells"][2]),
        (&json!("default/metrics"), &json!("True"))
    );

    // without pods its discovery is stale for every client
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/metrics";
    patch(
        &server,
        "json-patch+json",
        slice,
        json!([{"op": "replace", "path": "/endpoints/0/conditions/ready", "value": false}]),
    )
    .await;
    assert_eq!(
        until(&server, "MissingEndpoints", "").await["message"],
        "endpointslices for service/metrics in \"default\" have no addresses with port name \"\""
    );
    assert_eq!(aggregated().await["freshness"], "Stale");
    let (code, body) = get(&server, METRICS).await;
    assert_eq!((code, body), (503, json!("service unavailable\n")));
    // the group disappears with the APIService
    assert_eq!(delete(&server, &one).await.0, 200);
    assert_eq!(get(&server, METRICS).await.0, 404);
    assert_eq!(get(&server, "/apis/metrics.example.com").await.0, 404);
}

#[tokio::test]
async fn conditions_report_the_missing_object() {
    let (server, _client) = server();
    let outside = Outside::start("metrics", |seen| match seen.path.as_str() {
        METRICS => Some((403, json!("not you"))),
        _ => extension(seen),
    })
    .await;
    let (code, body) = post(&server, SERVICES, api_service(&outside, "metrics")).await;
    assert_eq!(code, 201, "{body}");
    assert_eq!(
        until(&server, "ServiceNotFound", "").await["message"],
        "service/metrics in \"default\" is not present"
    );
    let ports = json!({"metadata": {"name": "metrics"}, "spec": {"ports": [{"port": 8443}]}});
    post(&server, "/api/v1/namespaces/default/services", ports).await;
    assert_eq!(
        until(&server, "ServicePortError", "").await["message"],
        "service/metrics in \"default\" is not listening on port 443"
    );
    let port = json!([{"op": "replace", "path": "/spec/ports/0/port", "value": 443}]);
    patch(&server, "json-patch+json", "/api/v1/namespaces/default/services/metrics", port).await;
    assert_eq!(
        until(&server, "EndpointsNotFound", "").await["message"],
        "cannot find endpointslices for service/metrics in \"default\""
    );
    delete(&server, "/api/v1/namespaces/default/services/metrics").await;
    outside.behind(&server, "metrics").await;
    let condition = until(&server, "FailedDiscoveryCheck", "").await;
    let message = condition["message"].as_str().expect("text");
    assert!(
        message.starts_with("failing or missing response from https://10.96.")
            && message.ends_with("/apis/metrics.example.com/v1beta1: 403"),
        "{message}"
    );
    // a certificate outside of the bundle, until verification is disabled
    let other = Outside::start("metrics", extension).await.ca_bundle;
    let one = format!("{SERVICES}/v1beta1.metrics.example.com");
    patch(&server, "merge-patch+json", &one, json!({"spec": {"caBundle": other}})).await;
    until(&server, "FailedDiscoveryCheck", "x509: certificate signed by unknown authority").await;
    let anybody = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    patch(&server, "merge-patch+json", &one, anybody).await;
    until(&server, "FailedDiscoveryCheck", ": 403").await;
}

#[tokio::test]
async fn every_group_of_this_server_has_a_local_api_service() {
    let (server, _client) = server();
    let (code, apps) = get(&server, &format!("{SERVICES}/v1.apps")).await;
    assert_eq!(
        (code, &apps["spec"]["groupPriorityMinimum"], &apps["status"]["conditions"][0]["reason"]),
        (200, &json!(17_800), &json!("Local"))
    );
    assert_eq!(get(&server, &format!("{SERVICES}/v1.")).await.0, 200);
    assert_eq!(get(&server, &format!("{SERVICES}/v1.apiregistration.k8s.io")).await.0, 404);
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&server, crds, cron_tab_crd()).await.0, 201);
    let (code, own) = get(&server, &format!("{SERVICES}/v1.stable.example.com")).await;
    assert_eq!(
        (code, &own["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"]),
        (200, &json!("true"))
    );
    assert_eq!(
        (&own["spec"]["groupPriorityMinimum"], &own["spec"]["versionPriority"]),
        (&json!(1000), &json!(100))
    );
    delete(&server, &format!("{crds}/crontabs.stable.example.com")).await;
    assert_eq!(get(&server, &format!("{SERVICES}/v1.stable.example.com")).await.0, 404);
}

#[tokio::test]
async fn bad_api_services_are_refused() {
    let (server, _client) = server();
    let bundle = STANDARD.encode("x");
    let good = json!({"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "service": {"namespace": "a", "name": "b"}});
    let cases = [
        (
            json!({"version": "v2"}),
            "metadata.name: Invalid value: \"v1.a.example.com\": must be `spec.version+\".\"+spec.group`: \"v2.a.example.com\"",
        ),
        (
            json!({"groupPriorityMinimum": 0}),
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
        ),
        (
            json!({"versionPriority": 1001}),
            "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
        ),
        (json!({"service": null, "caBundle": bundle}), "local APIServices may not have a caBundle"),
        (json!({"service": {"namespace": "a"}}), "spec.service.name: Required value"),
        (
            json!({"caBundle": bundle, "insecureSkipTLSVerify": true}),
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ),
    ];
    for (more, expected) in cases {
        let mut spec = good.clone();
        for (key, value) in more.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        let (code, body) =
            post(&server, SERVICES, json!({"metadata": {"name": "v1.a.example.com"}, "spec": spec})).await;
        assert_eq!(code, 422, "{expected}: {body}");
        assert!(body["message"].as_str().is_some_and(|m| m.contains(expected)), "{expected}: {body}");
    }
}
