use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};

use super::*;

const CMS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn an_object_is_created_read_replaced_and_deleted() {
    let (_server, client) = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut object: ConfigMap = serde_json::from_value(config_map("a")).expect("typed");
    let created = api.create(&params(), &object).await.expect("created");
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    let error = api.create(&params(), &object).await.unwrap_err();
    assert!(error.to_string().contains("configmaps \"a\" already exists"), "{error}");
    object = api.get("a").await.expect("stored");
    assert_eq!(object.uid(), created.uid());
    object.data.get_or_insert_default().insert("b".into(), "2".into());
    let replaced = api.replace("a", &params(), &object).await.expect("replaced");
    assert_ne!(replaced.resource_version(), object.resource_version());
    let stale = api.replace("a", &params(), &object).await;
    // The same content with an old resourceVersion is a conflict too.
    assert!(matches!(stale, Err(kube::Error::Api(status)) if status.is_conflict()));
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert!(api.get_opt("a").await.expect("an answer").is_none());
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let (server, _client) = server();
    let (_, created) = post(&server, CMS, config_map("a")).await;
    let (code, patched) =
        patch(&server, "merge-patch+json", &format!("{CMS}/a"), json!({"data": {"a": "1"}})).await;
    assert_eq!(code, 200);
    assert_eq!(patched["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn four_kinds_of_patches() {
    let (server, client) = server();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(post(&server, path, deployment("web")).await.0, 201);
    let one = format!("{path}/web");
    let (code, body) = patch(
        &server,
        "json-patch+json",
        &one,
        json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]),
    )
    .await;
    assert_eq!((code, &body["metadata"]["generation"]), (200, &json!(2)), "{body}");
    let containers = json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "y"}]}}}});
    let (code, body) = patch(&server, "strategic-merge-patch+json", &one, containers).await;
    assert_eq!(code, 200, "{body}");
    assert_eq!(body["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(2));
    let api: Api<Deployment> = Api::default_namespaced(client);
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
    let refused = api.patch("web", &PatchParams::apply("me"), &Patch::Apply(&applied)).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.is_conflict()));
    let forced =
        api.patch("web", &PatchParams::apply("me").force(), &Patch::Apply(&applied)).await.expect("forced");
    assert_eq!(forced.spec.replicas, Some(5));
    let new = deployment("new");
    let created =
        api.patch("new", &PatchParams::apply("me"), &Patch::Apply(&new)).await.expect("created by apply");
    let again =
        api.patch("new", &PatchParams::apply("me"), &Patch::Apply(&new)).await.expect("applied again");
    assert_eq!(created.resource_version(), again.resource_version());
    let (code, body) = patch(&server, "foo", &one, json!({})).await;
    assert_eq!((code, &body["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test]
async fn pages_follow_one_another() {
    let (server, client) = server();
    for index in 0..7 {
        post(&server, CMS, config_map(&format!("c{index}"))).await;
    }
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let first = api.list(&ListParams::default().limit(3)).await.expect("a page");
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (3, Some(4)));
    let token = first.metadata.continue_.expect("more to come");
    let second = api.list(&ListParams::default().limit(9).continue_token(&token)).await.expect("the rest");
    let names: Vec<_> = second.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["c3", "c4", "c5", "c6"]);
    let selected = api.list(&ListParams::default().labels("app in (c1,c2)")).await.expect("selected");
    assert_eq!(selected.items.len(), 2);
    let by_name = api.list(&ListParams::default().fields("metadata.name=c5")).await.expect("selected");
    assert_eq!(by_name.items.len(), 1);
    let bad = api.list(&ListParams::default().fields("data.a=1")).await.unwrap_err();
    assert!(bad.to_string().contains("field label not supported: data.a"), "{bad}");
}

#[tokio::test]
async fn names_are_checked_and_generated() {
    let (server, _client) = server();
    let (code, body) = post(&server, CMS, config_map("Not_Valid")).await;
    assert_eq!(code, 422);
    let message = body["message"].as_str().expect("text");
    assert!(message.starts_with("ConfigMap \"Not_Valid\" is invalid: metadata.name: Invalid value: \"Not_Valid\": a lowercase RFC 1123 subdomain"), "{message}");
    assert_eq!(body["details"]["causes"][0]["field"], "metadata.name");
    let (code, body) = post(&server, CMS, json!({"metadata": {"generateName": "x-"}})).await;
    assert_eq!(code, 201);
    assert_eq!(body["metadata"]["name"].as_str().map(str::len), Some(7));
    let (code, body) = post(&server, CMS, json!({"metadata": {}})).await;
    assert_eq!((code, &body["details"]["causes"][0]["reason"]), (422, &json!("FieldValueRequired")));
}

#[tokio::test]
async fn bad_requests_get_their_status() {
    let (server, _client) = server();
    let admin = Identity::admin;
    let cases = [
        ("GET", "/apis/apps/v2/deployments", 404),
        ("GET", "/apis/apps/v1/statefulsets", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/default/configmaps", 405),
        ("GET", "/api/v1/namespaces/default/configmaps/none", 404),
        ("GET", "/api/v1/namespaces/default/pods/none/log", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/configmaps?limit=x", 400),
        ("GET", "/api/v1/configmaps?continue=x", 400),
        ("GET", "/api/v1/configmaps?resourceVersion=999999", 504),
        ("DELETE", "/api/v1/namespaces/default", 403),
        ("GET", "/api/v1/watch/pods", 404),
    ];
    for (method, path, wanted) in cases {
        let (code, body) = send(&server, admin(), method, path, &[], Value::Null).await;
        assert_eq!((code, &body["kind"]), (wanted, &json!("Status")), "{method} {path}: {body}");
        assert_eq!(body["code"], wanted);
    }
    for (body, wanted) in [
        (json!([]), 400),
        (json!({"apiVersion": "v2", "metadata": {"name": "a"}}), 400),
        (json!({"kind": "Secret", "metadata": {"name": "a"}}), 400),
        (json!({"metadata": "x"}), 400),
        (json!({"metadata": {"name": "a", "labels": {"a": 1}}}), 400),
        (json!({"metadata": {"name": "a", "namespace": "other"}}), 400),
        (json!({"metadata": {"name": "a", "resourceVersion": "1"}}), 400),
        (json!({"metadata": {"name": "a"}, "data": {"a/b": "x"}}), 422),
        (json!({"metadata": {"name": "a"}, "data": 5}), 400),
    ] {
        let (code, answer) = post(&server, CMS, body.clone()).await;
        assert_eq!(code, wanted, "{body}: {answer}");
    }
    let (code, _) =
        send(&server, admin(), "POST", CMS, &[("content-type", "application/cbor")], json!({})).await;
    assert_eq!(code, 415);
}

#[tokio::test]
async fn unknown_fields_are_refused_warned_about_or_ignored() {
    let (server, _client) = server();
    let mut object = config_map("a");
    object["foo"] = json!(1);
    let (code, body) = post(&server, &format!("{CMS}?fieldValidation=Strict"), object.clone()).await;
    assert_eq!((code, &body["reason"]), (400, &json!("BadRequest")));
    assert!(body["message"].as_str().expect("text").contains("strict decoding error: unknown field \"foo\""));
    let (code, warnings, body) = send_full(&server, Identity::admin(), "POST", CMS, &[], object).await;
    assert_eq!((code, warnings), (201, vec!["299 - \"unknown field \\\"foo\\\"\"".to_owned()]));
    assert_eq!(body["foo"], Value::Null);
}

#[tokio::test]
async fn dry_run_changes_nothing() {
    let (server, _client) = server();
    let (code, body) = post(&server, &format!("{CMS}?dryRun=All"), config_map("a")).await;
    assert_eq!((code, &body["metadata"]["name"]), (201, &json!("a")));
    assert_eq!(get(&server, &format!("{CMS}/a")).await.0, 404);
}

#[tokio::test]
async fn a_namespace_must_exist_and_not_be_terminating() {
    let (server, _client) = server();
    let (code, body) = post(&server, "/api/v1/namespaces/none/configmaps", config_map("a")).await;
    assert_eq!((code, &body["message"]), (404, &json!("namespaces \"none\" not found")));
    let (code, body) = post(&server, "/api/v1/namespaces", json!({"metadata": {"name": "x"}})).await;
    assert_eq!((code, &body["status"]["phase"]), (201, &json!("Active")));
    assert_eq!(body["metadata"]["labels"]["kubernetes.io/metadata.name"], "x");
    let (code, body) = delete(&server, "/api/v1/namespaces/x").await;
    assert_eq!((code, &body["status"]["phase"]), (200, &json!("Terminating")));
    let (code, body) = post(&server, "/api/v1/namespaces/x/configmaps", config_map("a")).await;
    assert_eq!((code, &body["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    let mut object = get(&server, "/api/v1/namespaces/x").await.1;
    object["spec"]["finalizers"] = json!([]);
    let (code, _) =
        send(&server, Identity::admin(), "PUT", "/api/v1/namespaces/x/finalize", &[], object).await;
    assert_eq!(code, 200);
    assert_eq!(get(&server, "/api/v1/namespaces/x").await.0, 404);
}

#[tokio::test]
async fn finalizers_hold_an_object_back() {
    let (server, _client) = server();
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    post(&server, CMS, object).await;
    let one = format!("{CMS}/a");
    let (code, body) = delete(&server, &one).await;
    assert_eq!(code, 200);
    assert!(body["metadata"]["deletionTimestamp"].is_string());
    let (code, body) = patch(
        &server,
        "merge-patch+json",
        &one,
        json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}),
    )
    .await;
    assert_eq!(code, 422, "{body}");
    let (code, _) = patch(&server, "merge-patch+json", &one, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200);
    assert_eq!(get(&server, &one).await.0, 404);
}

#[tokio::test]
async fn a_pod_waits_for_its_node() {
    let (server, _client) = server();
    service_account(&server, "default", "default").await;
    let (code, created) = post(&server, PODS, pod("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["status"]["phase"], "Pending");
    let volume = &created["spec"]["volumes"][0];
    assert!(volume["name"].as_str().is_some_and(|n| n.starts_with("kube-api-access-")));
    assert_eq!(volume["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3607);
    assert_eq!(created["spec"]["containers"][0]["volumeMounts"][0]["name"], volume["name"]);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "olm-node"}});
    let (code, body) = post(&server, &format!("{PODS}/a/binding"), binding).await;
    assert_eq!(code, 201, "{body}");
    let (_, marked) = delete(&server, &format!("{PODS}/a")).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 200);
    assert_eq!(delete(&server, &format!("{PODS}/a?gracePeriodSeconds=0")).await.0, 200);
    assert_eq!(get(&server, &format!("{PODS}/a")).await.0, 404);
    post(&server, PODS, pod("b")).await;
    delete(&server, &format!("{PODS}/b")).await;
    assert_eq!(get(&server, &format!("{PODS}/b")).await.0, 404, "no node runs it");
}

#[tokio::test]
async fn a_pod_needs_its_service_account() {
    let (server, _client) = server();
    let (code, body) = post(&server, PODS, pod("a")).await;
    assert_eq!(code, 403);
    assert_eq!(
        body["message"],
        "pods \"a\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"
    );
}

#[tokio::test]
async fn status_and_scale_are_subresources() {
    let (server, _client) = server();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let mut object = deployment("web");
    object["status"] = json!({"replicas": 9});
    let (_, created) = post(&server, path, object).await;
    assert_eq!(created["status"]["replicas"], Value::Null);
    let one = format!("{path}/web");
    let (code, body) = patch(
        &server,
        "merge-patch+json",
        &format!("{one}/status"),
        json!({"status": {"replicas": 3}, "spec": {"replicas": 9}}),
    )
    .await;
    assert_eq!(
        (code, &body["status"]["replicas"], &body["spec"]["replicas"]),
        (200, &json!(3), &json!(1)),
        "{body}"
    );
    assert_eq!(body["metadata"]["generation"], 1);
    let (code, scale) = get(&server, &format!("{one}/scale")).await;
    assert_eq!(
        (code, &scale["spec"]["replicas"], &scale["status"]["selector"]),
        (200, &json!(1), &json!("app=web"))
    );
    let (code, scale) =
        patch(&server, "merge-patch+json", &format!("{one}/scale"), json!({"spec": {"replicas": 4}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(4)));
    assert_eq!(get(&server, &one).await.1["metadata"]["generation"], 2);
}

#[tokio::test]
async fn annotations_of_a_deployment_are_a_new_generation_unless_the_status_brings_them() {
    let (server, _client) = server();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(post(&server, path, deployment("web")).await.0, 201);
    let one = format!("{path}/web");
    let generation = async |path: &str, metadata: Value| {
        let (code, body) = patch(&server, "merge-patch+json", path, json!({ "metadata": metadata })).await;
        assert_eq!(code, 200, "{body}");
        body["metadata"]["generation"].clone()
    };
    let status = format!("{one}/status");
    assert_eq!(generation(&status, json!({ "annotations": { "revision": "1" } })).await, 1);
    assert_eq!(get(&server, &one).await.1["metadata"]["annotations"]["revision"], "1");
    assert_eq!(generation(&one, json!({ "labels": { "a": "b" } })).await, 1);
    assert_eq!(generation(&one, json!({ "annotations": { "a": "b" } })).await, 2);
    assert_eq!(generation(&one, json!({ "annotations": { "a": "b" } })).await, 2);
    // Those of other kinds are not.
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let mut set = deployment("web");
    set["kind"] = "ReplicaSet".into();
    assert_eq!(post(&server, sets, set).await.0, 201);
    assert_eq!(generation(&format!("{sets}/web"), json!({ "annotations": { "a": "b" } })).await, 1);
}

#[tokio::test]
async fn services_get_addresses() {
    let (server, _client) = server();
    let path = "/api/v1/namespaces/default/services";
    let service = |name: &str, ip: &str| json!({"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
    let (code, body) = post(&server, path, service("a", "")).await;
    assert_eq!(code, 201, "{body}");
    let ip = body["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    let (code, body) = post(&server, path, service("b", &ip)).await;
    assert_eq!(code, 422, "{body}");
    let mut changed = get(&server, &format!("{path}/a")).await.1;
    changed["spec"]["clusterIP"] = json!("10.96.7.7");
    changed["spec"]["clusterIPs"] = json!(["10.96.7.7"]);
    let (code, body) = send(&server, Identity::admin(), "PUT", &format!("{path}/a"), &[], changed).await;
    assert_eq!(code, 422, "{body}");
    let (code, kubernetes) = get(&server, &format!("{path}/kubernetes")).await;
    assert_eq!((code, &kubernetes["spec"]["clusterIP"]), (200, &json!("10.96.0.1")));
}

/// A client may change only the field ownership: this is how client-side apply is migrated to server-side
/// apply.
#[tokio::test]
async fn field_ownership_can_change_alone() {
    let (server, _client) = server();
    let path = format!("{CMS}/a?fieldManager=before");
    let (_, made) = post(&server, &format!("{CMS}?fieldManager=before"), config_map("a")).await;
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "before");
    // given the same owners, nothing is stored
    let same = json!({"metadata": {"managedFields": made["metadata"]["managedFields"]}});
    let (_, body) = patch(&server, "merge-patch+json", &path, same).await;
    assert_eq!(body["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    // when another manager is named, by patch
    let mut owners = made["metadata"]["managedFields"].clone();
    owners[0]["manager"] = json!("after");
    let change = json!({"metadata": {"managedFields": owners}});
    let (code, patched) = patch(&server, "merge-patch+json", &path, change).await;
    // then it owns them, and the writer owns nothing
    assert_eq!((code, &patched["metadata"]["managedFields"]), (200, &owners));
    assert_ne!(patched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    // and by update
    let mut updated = patched.clone();
    updated["metadata"]["managedFields"][0]["operation"] = json!("Apply");
    let (code, stored) = send(&server, Identity::admin(), "PUT", &path, &[], updated.clone()).await;
    assert_eq!((code, &stored["metadata"]["managedFields"]), (200, &updated["metadata"]["managedFields"]));
    // an empty entry resets all owners
    let none = json!({"metadata": {"managedFields": [{}]}});
    let (_, cleared) = patch(&server, "merge-patch+json", &path, none).await;
    assert_eq!(cleared["metadata"]["managedFields"], Value::Null);
}

/// A create drops undeclared fields; an apply of them is refused, because they could not be owned.
#[tokio::test]
async fn an_apply_of_unknown_fields_is_refused() {
    let (server, _client) = server();
    let apply = async |path: &str, object: Value| {
        let path = format!("{path}?fieldManager=me&fieldValidation=Ignore");
        patch(&server, "apply-patch+yaml", &path, object).await
    };
    let mut object = deployment("a");
    object["metadata"]["namespace"] = json!("default");
    object["spec"]["someday"] = json!(1);
    let path = "/apis/apps/v1/namespaces/default/deployments/a";
    let (code, status) = apply(path, object.clone()).await;
    assert_eq!((code, &status["reason"]), (500, &Value::Null));
    let text = "failed to create typed patch object (default/a; apps/v1, Kind=Deployment): .spec.someday: field not declared in schema";
    assert_eq!(status["message"], text);
    object["spec"]["template"]["spec"]["containers"][0]["port"] = json!(1);
    let (_, status) = apply(path, object).await;
    let lines: Vec<&str> = status["message"].as_str().expect("text").lines().collect();
    assert_eq!(
        lines[0],
        "failed to create typed patch object (default/a; apps/v1, Kind=Deployment): errors:"
    );
    let (mut found, mut wanted) = (
        lines[1..].to_vec(),
        [
            "  .spec.someday: field not declared in schema",
            "  .spec.template.spec.containers[name=\"c\"].port: field not declared in schema",
        ],
    );
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert_eq!(get(&server, path).await.0, 404);
}

#[tokio::test]
async fn events_are_seen_in_both_groups() {
    let (server, _client) = server();
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "note": "hello",
        "reason": "R", "type": "Normal", "action": "A", "reportingController": "c", "reportingInstance": "i", "eventTime": "2026-01-01T00:00:00.000000Z"});
    let (code, body) = post(&server, "/apis/events.k8s.io/v1/namespaces/default/events", event).await;
    assert_eq!((code, &body["note"]), (201, &json!("hello")), "{body}");
    let (code, list) =
        get(&server, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp").await;
    assert_eq!((code, &list["items"][0]["message"]), (200, &json!("hello")), "{list}");
}

#[tokio::test]
async fn unenforced_kinds_produce_a_warning() {
    let (server, _client) = server();
    let path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let (code, warnings, _) = send_full(
        &server,
        Identity::admin(),
        "POST",
        path,
        &[],
        json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}}}),
    )
    .await;
    assert_eq!(code, 201);
    assert!(warnings[0].contains("stored, but not enforced by the dev cluster"), "{warnings:?}");
}

#[tokio::test]
async fn tables() {
    let (server, _client) = server();
    post(&server, CMS, config_map("a")).await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let (code, table) = send(&server, Identity::admin(), "GET", CMS, &accept, Value::Null).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    assert_eq!(table["rows"][0]["cells"].as_array().expect("cells")[..2], [json!("a"), json!(1)]);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn a_big_list_is_quick() {
    let (server, client) = server();
    for index in 0..2000 {
        post(&server, CMS, config_map(&format!("c{index}"))).await;
    }
    let started = std::time::Instant::now();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let list = api.list(&ListParams::default()).await.expect("a list");
    println!("listed {} objects in {:?}", list.items.len(), started.elapsed());
    assert_eq!(list.items.len(), 2000);
}

#[tokio::test]
async fn requests_of_accounts_are_counted_for_administrators() {
    // given an account without permissions
    let (server, _client) = server();
    let account =
        || Identity { user: "system:serviceaccount:default:lost".to_owned(), ..Identity::default() };
    for _ in 0..2 {
        let (code, body) = send(&server, account(), "GET", CMS, &[], Value::Null).await;
        assert_eq!(code, 403, "{body}");
    }
    // then its requests are reported to administrators
    let (code, body) = get(&server, "/dev/rights/default/lost").await;
    let refused = json!({ "verb": "list", "group": "", "resource": "configmaps", "clusterWide": false,
                          "allowed": 0, "forbidden": 2 });
    assert_eq!((code, &body["items"]), (200, &json!([refused])));
    assert_eq!(get(&server, "/dev/rights/default/other").await.1["items"], json!([]));
    assert_eq!(get(&server, "/dev/rights/default").await.0, 400);
    let (code, _) = send(&server, account(), "GET", "/dev/rights/default/lost", &[], Value::Null).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn faults_need_a_node_and_an_administrator() {
    let (server, _client) = server();
    let (code, body) = get(&server, "/dev/faults").await;
    assert_eq!(code, 501, "{body}");
    let unprivileged = Identity { user: "visitor".to_owned(), ..Identity::default() };
    let (code, body) = send(&server, unprivileged, "GET", "/dev/faults", &[], Value::Null).await;
    assert_eq!((code, &body["reason"]), (403, &json!("Forbidden")), "{body}");
}
