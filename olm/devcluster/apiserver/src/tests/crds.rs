use kube::api::{DeleteParams, ListParams};

use super::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CTS: &str = "/apis/stable.example.com/v1/namespaces/default/crontabs";

fn cron_tab(name: &str) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": {"cronSpec": "* *", "bad": 1}})
}

#[tokio::test]
async fn a_custom_resource_is_served_at_once() {
    let (server, client) = server();
    let (code, crd) = post(&server, CRDS, cron_tab_crd()).await;
    assert_eq!(code, 201, "{crd}");
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "CronTabList");
    assert_eq!(crd["status"]["conditions"][1]["type"], "Established");
    let (code, warnings, created) =
        send_full(&server, Identity::admin(), "POST", CTS, &[], cron_tab("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(warnings, ["299 - \"unknown field \\\"spec.bad\\\"\""]);
    assert_eq!((&created["spec"]["image"], &created["spec"]["bad"]), (&json!("img"), &Value::Null));
    assert_eq!(cron_tabs(&client).list(&ListParams::default()).await.expect("a list").items.len(), 1);
    let mut wrong = cron_tab("b");
    wrong["spec"] = json!({"cronSpec": "x", "replicas": 8});
    let (code, body) = post(&server, CTS, wrong).await;
    assert_eq!((code, &body["details"]["causes"][0]["field"]), (422, &json!("spec.replicas")));
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (_, table) = send(&server, Identity::admin(), "GET", CTS, &accept, Value::Null).await;
    assert_eq!(table["rows"][0]["cells"], json!(["a", "* *"]));
    let (_, list) = get(&server, "/apis/stable.example.com/v1").await;
    assert_eq!(list["resources"][0]["shortNames"], json!(["ct"]));
    let (code, _) = get(&server, "/openapi/v3/apis/stable.example.com/v1").await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn status_of_a_custom_resource_is_a_subresource() {
    let (server, client) = server();
    post(&server, CRDS, cron_tab_crd()).await;
    let mut object = cron_tab("a");
    object["status"] = json!({"replicas": 1});
    let (_, created) = post(&server, CTS, object).await;
    assert_eq!((&created["status"], &created["metadata"]["generation"]), (&Value::Null, &json!(1)));
    let (code, body) = patch(
        &server,
        "merge-patch+json",
        &format!("{CTS}/a/status"),
        json!({"status": {"replicas": 2}, "metadata": {"labels": {"x": "y"}}}),
    )
    .await;
    assert_eq!(
        (code, &body["status"]["replicas"], &body["metadata"]["labels"]),
        (200, &json!(2), &Value::Null)
    );
    let (_, scale) = get(&server, &format!("{CTS}/a/scale")).await;
    assert_eq!(scale["status"]["replicas"], 2);
    let (code, scale) =
        patch(&server, "merge-patch+json", &format!("{CTS}/a/scale"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(3)), "{scale}");
    let (code, body) = patch(&server, "strategic-merge-patch+json", &format!("{CTS}/a"), json!({})).await;
    assert_eq!((code, &body["code"]), (415, &json!(415)));
    let object = cron_tabs(&client).get("a").await.expect("stored");
    assert_eq!(object.metadata.generation, Some(2));
}

#[tokio::test]
async fn a_deleted_crd_deletes_its_objects() {
    let (server, client) = server();
    post(&server, CRDS, cron_tab_crd()).await;
    post(&server, CTS, cron_tab("a")).await;
    let mut held = cron_tab("held");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    post(&server, CTS, held).await;
    let one = format!("{CRDS}/crontabs.stable.example.com");
    let (code, body) = delete(&server, &one).await;
    assert_eq!(code, 200);
    assert!(body["metadata"]["deletionTimestamp"].is_string(), "{body}");
    assert_eq!(cron_tabs(&client).list(&ListParams::default()).await.expect("a list").items.len(), 1);
    patch(&server, "merge-patch+json", &format!("{CTS}/held"), json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(get(&server, &one).await.0, 404);
    assert_eq!(get(&server, CTS).await.0, 404);
    assert!(cron_tabs(&client).delete("a", &DeleteParams::default()).await.is_err());
}

#[tokio::test]
async fn a_bad_crd_is_refused_with_paths() {
    let (server, _client) = server();
    let mut crd = cron_tab_crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] = json!("objekt");
    let (code, body) = post(&server, CRDS, crd).await;
    assert_eq!((code, &body["reason"]), (422, &json!("Invalid")), "{body}");
    let mut crd = cron_tab_crd();
    crd["metadata"]["name"] = json!("x");
    assert_eq!(post(&server, CRDS, crd).await.0, 422);
}

#[tokio::test]
async fn discovery_lists_everything_at_once() {
    let (server, _client) = server();
    post(&server, CRDS, cron_tab_crd()).await;
    let accept = [(
        "accept",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
    )];
    let (code, list) = send(&server, Identity::admin(), "GET", "/apis", &accept, Value::Null).await;
    assert_eq!((code, &list["kind"]), (200, &json!("APIGroupDiscoveryList")));
    let groups: Vec<&str> = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|g| g["metadata"]["name"].as_str())
        .collect();
    assert!(
        groups.contains(&"apps")
            && groups.contains(&"stable.example.com")
            && groups.contains(&"authorization.k8s.io")
    );
    let (_, core) = send(&server, Identity::admin(), "GET", "/api", &accept, Value::Null).await;
    assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
    for path in [
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openapi/v3/apis/apps/v1",
    ] {
        assert_eq!(get(&server, path).await.0, 200, "{path}");
    }
}

fn condition(crd: &Value, type_: &str) -> (String, String) {
    let conditions = crd["status"]["conditions"].as_array().expect("conditions");
    let found = conditions.iter().find(|c| c["type"] == type_).expect("the condition");
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn named(plural: &str, kind: &str) -> Value {
    let mut crd = cron_tab_crd();
    crd["metadata"]["name"] = format!("{plural}.stable.example.com").into();
    crd["spec"]["names"] = json!({"plural": plural, "kind": kind});
    crd
}

/// Two CRDs wait for one kind; when it is released the first of them gets it, and the other still waits. No
/// client writes to either.
#[tokio::test]
async fn released_names_are_accepted_for_a_pending_crd() {
    let (server, _client) = server();
    let one = |plural: &str| format!("{CRDS}/{plural}.stable.example.com");
    for plural in ["as", "bs", "cs"] {
        assert_eq!(post(&server, CRDS, named(plural, "Thing")).await.0, 201);
    }
    let state = async |plural: &str| {
        let (_, crd) = get(&server, &one(plural)).await;
        (condition(&crd, "NamesAccepted"), condition(&crd, "Established").0)
    };
    let conflict = (("False".to_owned(), "SingularConflict".to_owned()), "False".to_owned());
    let accepted = (("True".to_owned(), "NoConflicts".to_owned()), "True".to_owned());
    assert_eq!((state("bs").await, state("cs").await), (conflict.clone(), conflict.clone()));
    assert_eq!(get(&server, "/apis/stable.example.com/v1/bs").await.0, 404);
    // when
    assert_eq!(delete(&server, &one("as")).await.0, 200);
    // then
    assert_eq!((state("bs").await, state("cs").await), (accepted.clone(), conflict));
    assert_eq!(get(&server, "/apis/stable.example.com/v1/bs").await.0, 200);
}

#[tokio::test]
async fn a_name_that_its_holder_drops_is_released() {
    let (server, _client) = server();
    for plural in ["as", "bs"] {
        let mut crd = named(plural, &plural.to_uppercase());
        crd["spec"]["names"]["shortNames"] = json!(["t"]);
        post(&server, CRDS, crd).await;
    }
    let waits = format!("{CRDS}/bs.stable.example.com");
    assert_eq!(condition(&get(&server, &waits).await.1, "NamesAccepted").1, "ShortNamesConflict");
    // when
    let without = json!({"spec": {"names": {"shortNames": null}}});
    let (code, body) =
        patch(&server, "merge-patch+json", &format!("{CRDS}/as.stable.example.com"), without).await;
    // then
    assert_eq!(code, 200, "{body}");
    assert_eq!(condition(&get(&server, &waits).await.1, "NamesAccepted").1, "NoConflicts");
}

/// Of two writers, the one that stored first can be the last to run its hook.
#[tokio::test]
async fn late_hooks_of_a_deleted_crd_do_not_serve_it() {
    let (server, _client) = server();
    post(&server, CRDS, cron_tab_crd()).await;
    let one = format!("{CRDS}/crontabs.stable.example.com");
    let key = crate::store::Key::new(crate::crds::STORED, "", "crontabs.stable.example.com");
    let old = server.server.store.get(&key).expect("stored");
    delete(&server, &one).await;
    // when
    crate::crds::after_write(&server.server, &old).await;
    // then
    assert_eq!(get(&server, CTS).await.0, 404);
    assert_eq!(
        get(&server, "/apis/apiregistration.k8s.io/v1/apiservices/v1.stable.example.com").await.0,
        404
    );
}

/// Concurrent creations and deletions of CRDs in one group leave its API served only while one exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_api_service_of_a_group_is_deleted_with_its_last_crd() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = Config { data: Some(directory.path().to_owned()), ..Config::default() };
    let server = ApiServer::open(config).expect("opened");
    let round_trip = async |index: usize| {
        let mut crd = cron_tab_crd();
        crd["metadata"]["name"] = format!("c{index}s.stable.example.com").into();
        crd["spec"]["names"] = json!({"plural": format!("c{index}s"), "kind": format!("C{index}")});
        assert_eq!(post(&server, CRDS, crd).await.0, 201);
        let one = format!("{CRDS}/c{index}s.stable.example.com");
        let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
        let touched = patch(&server, "merge-patch+json", &one, touch);
        let (_, (code, _)) = tokio::join!(touched, delete(&server, &one));
        assert_eq!(code, 200);
    };
    for _ in 0..20 {
        futures::future::join_all((0..8).map(round_trip)).await;
        let (_, left) = get(&server, CRDS).await;
        assert_eq!(left["items"], json!([]));
        assert_eq!(get(&server, "/apis/stable.example.com/v1").await.0, 404);
        assert_eq!(
            get(&server, "/apis/apiregistration.k8s.io/v1/apiservices/v1.stable.example.com").await.0,
            404
        );
    }
    server.shutdown();
}

/// Clients distinguish the two: the one is a `Status`, the other a line of text.
#[tokio::test]
async fn unserved_custom_paths_get_the_plain_404_page() {
    let (server, _client) = server();
    post(&server, CRDS, cron_tab_crd()).await;
    for path in [
        "/apis/none.example.com/v1/things",
        "/apis/stable.example.com/v9/crontabs",
        "/apis/stable.example.com/v1/others",
        "/apis/none.example.com/v1",
        "/apis/none.example.com",
        "/none",
    ] {
        assert_eq!(get(&server, path).await, (404, json!("404 page not found\n")), "{path}");
    }
    for path in ["/api/v1/things", "/apis/apps/v1/things", "/apis/apps/v9"] {
        let (code, body) = get(&server, path).await;
        assert_eq!(
            (code, &body["reason"], &body["message"]),
            (404, &json!("NotFound"), &json!("the server could not find the requested resource")),
            "{path}"
        );
    }
}
