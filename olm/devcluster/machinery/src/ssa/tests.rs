use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::Schema;

const T1: &str = "2026-01-01T00:00:00Z";
const T2: &str = "2026-01-02T00:00:00Z";

fn deployment() -> Layout<'static> {
    Layout::builtin("apps", "Deployment")
}

fn request<'a>(
    live: Option<&'a Value>,
    config: &'a Value,
    manager: &'a str,
    layout: Layout<'a>,
) -> ApplyRequest<'a> {
    ApplyRequest { live, config, manager, force: false, subresource: None, layout, now: T1 }
}

fn applied(live: Option<&Value>, config: &Value, manager: &str) -> Value {
    apply(&request(live, config, manager, deployment())).unwrap().object
}

fn config(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let list = object["metadata"]["managedFields"].as_array().unwrap();
    list.iter().find(|e| e["manager"] == manager).map_or(&Value::Null, |e| &e["fieldsV1"])
}

#[test]
fn first_apply_owns_the_applied_fields() {
    let object = applied(
        None,
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"app": "x"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": ["a"]},
            ]}}},
        }),
        "kubectl",
    );
    assert_eq!(
        fields(&object, "kubectl"),
        &json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {},
                "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:args": {}, "f:image": {}, "f:name": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                }}}},
            },
        })
    );
    let entry = &object["metadata"]["managedFields"][0];
    assert_eq!(entry["operation"], "Apply");
    assert_eq!(entry["apiVersion"], "apps/v1");
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(entry["time"], T1);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let wanted =
        config(json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}));
    let object = applied(None, &wanted, "m");
    let again = ApplyRequest { now: T2, ..request(Some(&object), &wanted, "m", deployment()) };
    assert_eq!(apply(&again), Ok(Applied { object: object.clone(), changed: false }));
}

#[test]
fn conflicts_read_as_in_kubernetes() {
    let mut live = config(json!({"replicas": 3, "paused": true}));
    track_update(None, &mut live, "kubectl", None, deployment(), T1);
    let wanted = config(json!({"replicas": 5}));
    let error = apply(&request(Some(&live), &wanted, "me", deployment())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas"
    );
    let status = error.status();
    assert_eq!(status["code"], 409);
    assert_eq!(status["reason"], "Conflict");
    assert_eq!(
        status["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" using apps/v1", "field": ".spec.replicas"}])
    );
    let wanted = config(json!({"replicas": 5, "paused": false}));
    let error = apply(&request(Some(&live), &wanted, "me", deployment())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"kubectl\" using apps/v1:\n- .spec.paused\n- .spec.replicas"
    );
    let other = applied(None, &config(json!({"replicas": 3})), "other");
    let error =
        apply(&request(Some(&other), &config(json!({"replicas": 4})), "me", deployment())).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"other\": .spec.replicas");
}

#[test]
fn kubectl_takes_over_fields_of_client_side_apply() {
    let mut live = config(json!({"replicas": 3, "paused": true}));
    let last = live.to_string();
    live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    track_update(None, &mut live, "kubectl-client-side-apply", None, deployment(), T1);
    let wanted = config(json!({"replicas": 5}));
    assert!(apply(&request(Some(&live), &wanted, "another", deployment())).is_err());
    let object = applied(Some(&live), &wanted, "kubectl");
    assert_eq!(object["spec"]["replicas"], 5);
    let annotation =
        object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].as_str();
    assert!(annotation.unwrap().contains("\"replicas\":5"));
    let again =
        apply(&ApplyRequest { now: T2, ..request(Some(&object), &wanted, "kubectl", deployment()) }).unwrap();
    assert!(!again.changed);
    // A field that another manager changed since is still a conflict.
    let before = live.clone();
    live["spec"]["replicas"] = json!(4);
    track_update(Some(&before), &mut live, "scaler", None, deployment(), T2);
    let error = apply(&request(Some(&live), &wanted, "kubectl", deployment())).unwrap_err();
    assert!(error.to_string().contains("conflict with \"scaler\""));
}

#[test]
fn force_takes_the_field_over() {
    let object = applied(None, &config(json!({"replicas": 3, "paused": true})), "other");
    let wanted = config(json!({"replicas": 5}));
    let forced = ApplyRequest { force: true, ..request(Some(&object), &wanted, "me", deployment()) };
    let object = apply(&forced).unwrap().object;
    assert_eq!(object["spec"], json!({"replicas": 5, "paused": true}));
    assert_eq!(fields(&object, "other"), &json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(fields(&object, "me"), &json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn the_same_value_is_shared_and_survives_one_owner() {
    let object = applied(None, &config(json!({"replicas": 3, "paused": true})), "a");
    let object = applied(Some(&object), &config(json!({"replicas": 3})), "b");
    // a stops applying both: only the field that b does not own is removed.
    let object = applied(Some(&object), &config(json!({"minReadySeconds": 1})), "a");
    assert_eq!(object["spec"], json!({"replicas": 3, "minReadySeconds": 1}));
    assert_eq!(fields(&object, "b"), &json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn list_items_that_are_no_longer_applied_are_removed() {
    let containers = |list: Value| config(json!({"template": {"spec": {"containers": list}}}));
    let object = applied(
        None,
        &containers(
            json!([{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}]),
        ),
        "m",
    );
    // A default without an owner was added in between.
    let mut object = object;
    object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    let object = applied(Some(&object), &containers(json!([{"name": "b", "image": "2"}])), "m");
    assert_eq!(object["spec"]["template"]["spec"]["containers"], json!([{"name": "b", "image": "2"}]));
}

#[test]
fn unowned_values_next_to_a_removed_field_stay() {
    let mut object = applied(None, &config(json!({"replicas": 1, "paused": true})), "m");
    object["spec"]["progressDeadlineSeconds"] = json!(600);
    let object = applied(Some(&object), &config(json!({"replicas": 1})), "m");
    assert_eq!(object["spec"], json!({"replicas": 1, "progressDeadlineSeconds": 600}));
}

#[test]
fn labels_of_other_managers_stay() {
    let labels = |labels: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": labels}});
    let object = applied(None, &labels(json!({"a": "1", "b": "1"})), "m");
    let object = applied(Some(&object), &labels(json!({"c": "1"})), "n");
    let object = applied(Some(&object), &labels(json!({"b": "1"})), "m");
    assert_eq!(object["metadata"]["labels"], json!({"b": "1", "c": "1"}));
}

#[test]
fn metadata_of_the_server_survives() {
    let mut object = applied(None, &config(json!({"replicas": 1})), "m");
    object["metadata"]["uid"] = json!("u");
    object["metadata"]["resourceVersion"] = json!("5");
    let mut wanted = config(json!({"replicas": 2}));
    wanted["metadata"]["creationTimestamp"] = json!(null);
    let object = applied(Some(&object), &wanted, "m");
    assert_eq!(object["metadata"]["uid"], "u");
    assert_eq!(object["metadata"]["resourceVersion"], "5");
    assert_eq!(object["metadata"].get("creationTimestamp"), None);
}

#[test]
fn objects_that_were_never_tracked_belong_to_before_first_apply() {
    let live = config(json!({"replicas": 3, "paused": true}));
    let object = applied(Some(&live), &config(json!({"replicas": 3})), "me");
    assert_eq!(fields(&object, "before-first-apply"), &json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
    let error =
        apply(&request(Some(&live), &config(json!({"replicas": 4})), "me", deployment())).unwrap_err();
    assert!(error.to_string().contains("conflict with \"before-first-apply\" using apps/v1: .spec.replicas"));
}

#[test]
fn the_status_subresource_applies_status_only() {
    let object = applied(None, &config(json!({"replicas": 1})), "m");
    let wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"x": "y"}},
        "spec": {"replicas": 9}, "status": {"conditions": [{"type": "Available", "status": "True"}]}});
    let status =
        ApplyRequest { subresource: Some("status"), ..request(Some(&object), &wanted, "m", deployment()) };
    let object = apply(&status).unwrap().object;
    assert_eq!(object["spec"], json!({"replicas": 1}));
    assert_eq!(object["status"]["conditions"][0]["status"], "True");
    assert_eq!(object["metadata"].get("labels"), None);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "the same manager has one entry for each subresource");
    assert!(entries.iter().any(|e| e["subresource"] == "status"));
}

#[test]
fn malformed_configurations_are_refused() {
    let bad = config(json!({"template": {"spec": {"containers": [{"image": "x"}]}}}));
    let error = apply(&request(None, &bad, "m", deployment())).unwrap_err();
    assert_eq!(
        error.to_string(),
        ".spec.template.spec.containers: element 0: associative list with keys has an element that omits key field \
         \"name\" (and doesn't have default value)"
    );
    assert_eq!(error.status()["code"], 400);
    let twice = config(json!({"template": {"spec": {"containers": [{"name": "x"}, {"name": "x"}]}}}));
    assert!(apply(&request(None, &twice, "m", deployment())).is_err());
    let mut managed = config(json!({}));
    managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    assert!(apply(&request(None, &managed, "m", deployment())).is_err());
    assert!(apply(&request(None, &json!([]), "m", deployment())).is_err());
    assert!(apply(&request(None, &config(json!({})), "", deployment())).is_err());
}

#[test]
fn updates_own_the_changed_fields() {
    let mut object = config(json!({"replicas": 1, "paused": true}));
    object["metadata"]["labels"] = json!({"a": "1"});
    track_update(None, &mut object, "create", None, deployment(), T1);
    assert_eq!(
        fields(&object, "create"),
        &json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:paused": {}, "f:replicas": {}}})
    );
    let live = object.clone();
    object["spec"]["replicas"] = json!(2);
    track_update(Some(&live), &mut object, "scale", None, deployment(), T2);
    assert_eq!(fields(&object, "scale"), &json!({"f:spec": {"f:replicas": {}}}));
    assert_eq!(fields(&object, "create")["f:spec"], json!({"f:paused": {}}));
    let live = object.clone();
    object["spec"] = json!({"replicas": 2});
    track_update(Some(&live), &mut object, "other", None, deployment(), T2);
    assert_eq!(fields(&object, "create").get("f:spec"), None, "removed fields have no owner");
    assert_eq!(fields(&object, "other"), &Value::Null, "who only removes owns nothing");
}

#[test]
fn an_update_without_a_change_leaves_the_entry_alone() {
    let mut object = config(json!({"replicas": 1}));
    track_update(None, &mut object, "m", None, deployment(), T1);
    let live = object.clone();
    track_update(Some(&live), &mut object, "m", None, deployment(), T2);
    assert_eq!(object, live);
}

#[test]
fn clients_may_reset_managed_fields() {
    let mut object = config(json!({"replicas": 1}));
    object["metadata"]["managedFields"] = json!([{}]);
    track_update(None, &mut object, "m", None, deployment(), T1);
    assert_eq!(object["metadata"].get("managedFields"), None);
}

#[test]
fn update_entries_are_bounded() {
    let mut object = config(json!({}));
    for index in 0..30 {
        let live = object.clone();
        object["metadata"]["annotations"][format!("a{index}")] = json!("x");
        let now = format!("2026-01-01T00:00:{index:02}Z");
        track_update(Some(&live), &mut object, &format!("m{index}"), None, deployment(), &now);
    }
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert!(entries.iter().any(|e| e["manager"] == "ancient-changes"));
}

#[test]
fn custom_types_merge_by_their_schema() {
    let schema = Schema::compile(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "plain": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}},
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}}),
        "s",
    )
    .unwrap();
    let layout = Layout::custom(&schema);
    let object =
        |spec: Value| json!({"apiVersion": "a.b/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec});
    let a = object(
        json!({"plain": ["a"], "set": ["a"], "map": [{"name": "a", "v": 1}], "free": {"x": {"y": 1}}}),
    );
    let live = apply(&request(None, &a, "a", layout)).unwrap().object;
    assert_eq!(
        fields(&live, "a"),
        &json!({"f:spec": {
            "f:free": {"f:x": {".": {}, "f:y": {}}}, "f:map": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:v": {}}},
            "f:plain": {}, "f:set": {"v:\"a\"": {}},
        }})
    );
    let b =
        object(json!({"set": ["b"], "map": [{"name": "b", "v": 2}], "free": {"z": 1}, "atomic": {"k": "v"}}));
    let live = apply(&request(Some(&live), &b, "b", layout)).unwrap().object;
    assert_eq!(
        live["spec"],
        json!({"plain": ["a"], "set": ["a", "b"], "map": [{"name": "a", "v": 1}, {"name": "b", "v": 2}],
               "free": {"x": {"y": 1}, "z": 1}, "atomic": {"k": "v"}})
    );
    let c = object(json!({"plain": ["b"]}));
    let error = apply(&request(Some(&live), &c, "c", layout)).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.plain");
    let gone = object(json!({}));
    let live = apply(&request(Some(&live), &gone, "a", layout)).unwrap().object;
    assert_eq!(
        live["spec"],
        json!({"set": ["b"], "map": [{"name": "b", "v": 2}], "free": {"z": 1}, "atomic": {"k": "v"}})
    );
}

#[test]
fn managers_come_from_user_agents() {
    assert_eq!(manager_from_user_agent("kubectl/v1.32.4 (linux/amd64) kubernetes/59526cd"), "kubectl");
    assert_eq!(manager_from_user_agent(""), "unknown");
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::subsequence(vec![0_u8, 1, 2, 3, 4], 0..=5).prop_shuffle()
}

fn random_config() -> impl Strategy<Value = Value> {
    let container = (any::<bool>(), 0..3_i32, prop::option::of(names()));
    (prop::collection::vec(container, 5), names(), prop::option::of(0..3_i32), names(), names()).prop_map(
        |(containers, order, replicas, labels, finalizers)| {
            let list: Vec<Value> = order
                .iter()
                .map(|name| {
                    let (with_image, image, env) = &containers[usize::from(*name)];
                    let mut item = json!({"name": format!("c{name}")});
                    if *with_image {
                        item["image"] = json!(format!("i{image}"));
                    }
                    if let Some(env) = env {
                        item["env"] =
                            env.iter().map(|n| json!({"name": format!("E{n}"), "value": "v"})).collect();
                    }
                    item
                })
                .collect();
            let mut object = config(json!({"template": {"spec": {"containers": list}}}));
            if let Some(replicas) = replicas {
                object["spec"]["replicas"] = json!(replicas);
            }
            object["metadata"]["labels"] = labels
                .iter()
                .map(|n| (format!("l{n}"), json!("x")))
                .collect::<serde_json::Map<_, _>>()
                .into();
            object["metadata"]["finalizers"] = finalizers.iter().map(|n| json!(format!("f{n}"))).collect();
            object
        },
    )
}

proptest! {
    #[test]
    fn apply_is_idempotent_and_leaves_nothing_behind(a in random_config(), b in random_config(), c in random_config()) {
        let force = |live: Option<&Value>, config: &Value, manager: &str| {
            apply(&ApplyRequest { force: true, ..request(live, config, manager, deployment()) }).unwrap()
        };
        let first = force(None, &a, "m").object;
        let both = force(Some(&first), &b, "n").object;
        let third = force(Some(&both), &c, "m").object;
        let again = force(Some(&third), &c, "m");
        prop_assert_eq!(&again.object, &third);
        prop_assert!(!again.changed);
        // All applied values are present.
        let merged = merge::merge(deployment(), Some(&bare(&third)), &c);
        prop_assert_eq!(merged, bare(&third));
    }

    #[test]
    fn a_single_manager_owns_exactly_the_applied_fields(a in random_config(), b in random_config()) {
        let first = applied(None, &a, "m");
        let second = applied(Some(&first), &b, "m");
        let fresh = applied(None, &b, "m");
        let sorted = |object: &Value| fields_of(deployment(), &bare(object));
        // Emptied structs may leave empty lists or maps; every applied field is the same.
        prop_assert_eq!(sorted(&second).intersection(&sorted(&fresh)), sorted(&fresh));
        prop_assert_eq!(&second["spec"]["replicas"], &fresh["spec"]["replicas"]);
        prop_assert_eq!(fields(&second, "m"), fields(&fresh, "m"));
    }
}
