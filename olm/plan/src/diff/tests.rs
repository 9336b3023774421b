//! Differences: tables of significant and insignificant ones, and properties for any three objects.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::applied::Last;
use super::lists::{keyed, unescaped};
use super::*;
use crate::plan::Cause;

fn paths(live: &Value, last: Option<&Value>, new: &Value) -> Vec<String> {
    diff(live, last, new).into_iter().map(|f| f.path).collect()
}

fn deployment(pod: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
            "spec": { "template": { "spec": pod } } })
}

#[test]
fn what_servers_fill_in_or_write_otherwise_is_no_difference() {
    // given a live object with defaults of the server
    let live = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "a", "uid": "1", "resourceVersion": "7", "generation": 3, "managedFields": [{}],
                      "annotations": { "deployment.kubernetes.io/revision": "1" } },
        "spec": { "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
            "template": { "spec": { "restartPolicy": "Always", "containers": [
            { "name": "c", "image": "i:1", "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
              "ports": [{ "containerPort": 80, "protocol": "TCP" }], "env": [{ "name": "EMPTY" }],
              "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } } ] } } },
        "status": { "replicas": 1 }
    });
    let new = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "a", "creationTimestamp": null },
        "spec": { "replicas": 1, "selector": {}, "template": { "spec": { "hostNetwork": false, "containers": [
            { "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }], "env": [{ "name": "EMPTY", "value": "" }],
              "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } } } ] } } },
        "status": {}
    });
    assert_eq!(paths(&live, None, &new), Vec::<String>::new());
    // nor is a field that the old version set explicitly to its default
    let mut last = new.clone();
    last["spec"]["revisionHistoryLimit"] = json!(10);
    last["spec"]["strategy"] = json!({ "type": "RollingUpdate" });
    last["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
    assert_eq!(paths(&live, Some(&last), &new), Vec::<String>::new());
    // a changed image is the only difference, in a container selected by name
    let mut changed = new;
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
    let list = diff(&live, None, &changed);
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].path, "/spec/template/spec/containers[name=c]/image");
    assert_eq!((list[0].live.clone(), list[0].new.clone()), (Some(json!("i:1")), Some(json!("i:2"))));
}

#[test]
fn small_values_that_count() {
    // live, new, path that differs
    let table = [
        // an empty label is significant
        (json!({ "metadata": {} }), json!({ "metadata": { "labels": { "a": "" } } }), "/metadata/labels"),
        (
            json!({ "metadata": { "labels": { "b": "" } } }),
            json!({ "metadata": { "labels": { "a": "" } } }),
            "/metadata/labels/a",
        ),
        // text that resembles a quantity is text
        (
            json!({ "metadata": { "annotations": { "v": "1.0" } } }),
            json!({ "metadata": { "annotations": { "v": "1" } } }),
            "/metadata/annotations/v",
        ),
        // in a map with free keys every value counts
        (json!({ "data": {} }), json!({ "data": { "a": "" } }), "/data/a"),
        (json!({ "spec": { "replicas": 0 } }), json!({ "spec": { "replicas": 1 } }), "/spec/replicas"),
    ];
    for (mut live, mut new, path) in table {
        for object in [&mut live, &mut new] {
            object["apiVersion"] = json!("v1");
            object["kind"] = json!("ConfigMap");
        }
        assert_eq!(paths(&live, None, &new), [path], "{live} {new}");
    }
}

#[test]
fn an_empty_schema_and_a_property_that_goes_are_differences() {
    let crd = |properties: Value| {
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": { "versions": [
            { "name": "v1", "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } } } ] } })
    };
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties";
    let two = crd(json!({ "a": { "type": "string" }, "b": {} }));
    let one = crd(json!({ "a": { "type": "string" } }));
    assert_eq!(paths(&one, None, &two), [format!("{at}/b")]);
    // versions are replaced as a whole: missing ones are removed, regardless of their owner
    assert_eq!(paths(&two, None, &one), [format!("{at}/b")]);
    let default = |value| crd(json!({ "a": { "type": "boolean", "default": value } }));
    assert_eq!(
        paths(&crd(json!({ "a": { "type": "boolean" } })), None, &default(json!(false))),
        [format!("{at}/a/default")]
    );
    // fields that the API server omits are not
    let spelled = crd(json!({ "a": { "type": "string", "nullable": false, "required": [] } }));
    assert_eq!(paths(&one, None, &spelled), Vec::<String>::new());
}

#[test]
fn lists_with_keys_are_merged_and_others_replaced() {
    let env = |names: &[&str]| {
        let env: Vec<Value> = names.iter().map(|n| json!({ "name": n, "value": n })).collect();
        deployment(json!({ "containers": [{ "name": "c", "image": "i", "env": env }] }))
    };
    let at = "/spec/template/spec/containers[name=c]/env";
    // the order does not count, and values of others stay
    assert_eq!(paths(&env(&["A", "SIDECAR"]), None, &env(&["A"])), Vec::<String>::new());
    assert_eq!(paths(&env(&["A", "B"]), None, &env(&["B", "A"])), Vec::<String>::new());
    assert_eq!(paths(&env(&["A"]), None, &env(&["A", "B"])), [format!("{at}[name=B]")]);
    // our own are removed
    assert_eq!(
        paths(&env(&["A", "B", "SIDECAR"]), Some(&env(&["A", "B"])), &env(&["A"])),
        [format!("{at}[name=B]")]
    );
    // rules have no keys
    let role = |verbs: Value| {
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                                      "rules": [{ "verbs": verbs, "resources": ["pods"] }] })
    };
    assert_eq!(paths(&role(json!(["get", "list"])), None, &role(json!(["get"]))), ["/rules/0/verbs"]);
    // and values of others in an element of such a list are removed with it
    let mut by_hand = role(json!(["get"]));
    by_hand["rules"][0]["resourceNames"] = json!(["one"]);
    assert_eq!(paths(&by_hand, None, &role(json!(["get"]))), ["/rules/0/resourceNames"]);
}

#[test]
fn who_changed_what() {
    let object = |replicas: Option<u32>| match replicas {
        Some(n) => {
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "replicas": n, "paused": true } })
        }
        None => json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "paused": true } }),
    };
    // live, last, new, cause
    let table = [
        (Some(2), Some(2), Some(3), Some(Cause::Change)),
        (Some(5), Some(2), Some(2), Some(Cause::Drift)),
        (Some(5), Some(2), Some(3), Some(Cause::Both)),
        (Some(3), Some(2), Some(3), None),
        (Some(2), Some(2), None, Some(Cause::Change)),
        (Some(5), Some(2), None, Some(Cause::Both)),
        (Some(5), None, Some(3), Some(Cause::Both)),
        (None, Some(2), Some(2), Some(Cause::Drift)),
        // set by another owner, never by us: unchanged
        (Some(5), None, None, None),
    ];
    for (live, last, new, cause) in table {
        let found = diff(&object(live), Some(&object(last)), &object(new));
        let case = format!("{live:?} {last:?} {new:?}: {found:?}");
        assert_eq!(found.first().map(|f| f.cause), cause, "{case}");
        if let Some(field) = found.first() {
            assert_eq!(field.last, last.map(Value::from), "{case}");
        }
    }
    // without the last applied object the cause is unknown
    assert_eq!(diff(&object(Some(5)), None, &object(Some(3)))[0].cause, Cause::Unknown);
}

#[test]
fn managed_fields_identify_our_fields_and_other_owners() {
    let live = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "managedFields": [
            { "manager": "olm.manager", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": {
                "f:paused": {},
                "f:template": { "f:spec": { "f:containers": { "k:{\"name\":\"c\"}": { ".": {}, "f:name": {}, "f:image": {} } } } } } } },
            { "manager": "kubectl-edit", "operation": "Update", "fieldsV1": { "f:spec": { "f:replicas": {} } } },
            { "manager": "hpa", "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": {} } } ] },
        "spec": { "replicas": 7, "paused": true, "template": { "spec": { "containers": [{ "name": "c", "image": "i:1" }] } } }
    });
    // when the new version has one replica, another image, and no pause
    let new = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "replicas": 1, "template": { "spec": {
        "containers": [{ "name": "c", "image": "i:2" }] } } } });
    let list = diff(&live, None, &new);
    let seen: Vec<(&str, Cause, Option<&str>)> =
        list.iter().map(|f| (f.path.as_str(), f.cause, f.by.as_deref())).collect();
    assert_eq!(
        seen,
        [
            ("/spec/paused", Cause::Change, None),
            ("/spec/replicas", Cause::Unknown, Some("kubectl-edit")),
            ("/spec/template/spec/containers[name=c]/image", Cause::Change, None),
        ]
    );
    assert_eq!(list[0].new, None);
}

#[test]
fn fields_applied_by_kubectl_are_reported_and_not_removed() {
    let applied = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1", "theirs": "x" } });
    let live = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "2", "theirs": "x" },
        "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": applied.to_string() } } });
    let new = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "3" } });
    let list = diff(&live, None, &new);
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!(
        (list[0].path.as_str(), list[0].cause, list[0].last.clone()),
        ("/data/a", Cause::Both, Some(json!("1")))
    );
}

#[test]
fn secrets_are_masked_and_string_data_is_data() {
    let live = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "password": "b2xk" } });
    let last = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "password": "bGFzdA==" } });
    let new = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "password": "fresh" } });
    let found = difference(&live, Some(&last), &new);
    assert_eq!(found.fields.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["/data/password"]);
    assert_eq!((found.masked, found.fields[0].cause), (true, Cause::Both));
    let text = serde_json::to_string(&found.fields).unwrap();
    for secret in ["b2xk", "ZnJlc2g", "bGFzdA", "fresh"] {
        assert!(!text.contains(secret), "{text}");
    }
    // and the same value in its other form is not a difference
    let same = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "password": "old" } });
    assert_eq!(diff(&live, None, &same), vec![]);
    // a Secret without data
    let empty = json!({ "apiVersion": "v1", "kind": "Secret" });
    let text = serde_json::to_string(&diff(&empty, None, &new)).unwrap();
    assert!(text.contains("password") && !text.contains("ZnJlc2g"), "{text}");
}

#[test]
fn credentials_in_the_environment_are_masked_and_pointers_to_them_are_not() {
    let pod = |value: &str| {
        let names = [
            "DB_PASSWORD",
            "API_KEY",
            "TOKEN",
            "TOKEN_FILE",
            "SECRET_NAME",
            "KEY",
            "PASSENGERS",
            "WATCH_SECRET",
        ];
        let env: Vec<Value> =
            names.iter().map(|n| json!({ "name": n, "value": format!("{value}-{n}") })).collect();
        deployment(json!({ "containers": [{ "name": "c", "image": "i", "env": env }] }))
    };
    let found = difference(&pod("old"), None, &pod("new"));
    let shown: Vec<&str> =
        found.fields.iter().filter_map(|f| f.new.as_ref()?.as_str()).filter(|t| *t != "***").collect();
    assert_eq!(shown, ["new-KEY", "new-PASSENGERS", "new-SECRET_NAME", "new-TOKEN_FILE"]);
    assert!(found.masked);
    // nor is one leaked by a container that is new as a whole, or by a ClusterServiceVersion
    let none = deployment(json!({ "containers": [] }));
    let text = serde_json::to_string(&diff(&none, None, &pod("new"))).unwrap();
    assert!(!text.contains("new-DB_PASSWORD") && text.contains("new-TOKEN_FILE"), "{text}");
    let csv = |pod: Value| {
        json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                                   "spec": { "install": { "spec": { "deployments": [{ "name": "d", "spec": pod["spec"] }] } } } })
    };
    let text = serde_json::to_string(&diff(&csv(pod("old")), None, &csv(pod("new")))).unwrap();
    assert!(!text.contains("new-DB_PASSWORD") && !text.contains("old-API_KEY"), "{text}");
    // a switch is not a credential
    let switch = |value: &str| {
        deployment(
            json!({ "containers": [{ "name": "c", "env": [{ "name": "WATCH_SECRET", "value": value }] }] }),
        )
    };
    assert!(!difference(&switch("true"), None, &switch("false")).masked);
}

#[test]
fn long_values_are_cut() {
    let map = |text: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": text } });
    let found = diff(&map(&"é".repeat(10_000)), None, &map("short"));
    let live = found[0].live.as_ref().unwrap().as_str().unwrap();
    assert!(found[0].cut && live.len() < 600 && live.contains("… (20002 bytes)"), "{live}");
    assert_eq!(found[0].new, Some(json!("short")));
}

// ---- properties ----

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![(1..4_i64).prop_map(Value::from), "[xy]{1,2}".prop_map(Value::from), Just(json!(true))]
}

fn tree() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 4, |inner| {
        let named = (prop::sample::select(vec!["p", "q", "r/s"]), inner.clone())
            .prop_map(|(name, value)| json!({ "name": name, "of": value }));
        let keyed = prop::collection::vec(named, 1..4).prop_map(|mut list| {
            list.sort_by_key(|v| v["name"].to_string());
            list.dedup_by_key(|v| v["name"].to_string());
            Value::from(list)
        });
        let map = prop::collection::vec(
            (prop::sample::select(vec!["a", "b", "c/d", "labels"]), inner.clone()),
            1..4,
        )
        .prop_map(|list| list.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>());
        prop_oneof![
            map.clone().prop_map(Value::from),
            (map, prop::sample::select(vec!["env", "containers"]), keyed).prop_map(|(mut map, key, list)| {
                map.insert(key.to_owned(), list);
                map.into()
            }),
            prop::collection::vec(inner, 1..3).prop_map(Value::from),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    (tree(), any::<bool>()).prop_map(|(spec, builtin)| {
        let version = if builtin { "apps/v1" } else { "example.com/v1" };
        json!({ "apiVersion": version, "kind": "Thing", "spec": spec })
    })
}

/// Sets or removes the value at a path.
fn set_or_remove(at: &mut Value, path: &[&str], new: Option<&Value>) {
    let Some((segment, rest)) = path.split_first() else { panic!("a path without segments") };
    let (key, selector) = match segment.strip_suffix(']').and_then(|s| s.split_once('[')) {
        Some((key, selector)) => (unescaped(key), Some(unescaped(selector))),
        None => (unescaped(segment), None),
    };
    if let Some(selector) = selector {
        let list = at[&key].as_array_mut().unwrap();
        let found = keyed(&key, list).unwrap().iter().position(|(name, _)| *name == selector);
        match (found, new, rest.is_empty()) {
            (Some(i), _, false) => set_or_remove(&mut list[i], rest, new),
            (Some(i), Some(new), true) => list[i] = new.clone(),
            (Some(i), None, true) => drop(list.remove(i)),
            (None, Some(new), true) => list.push(new.clone()),
            (None, ..) => panic!("{selector} is not there"),
        }
        return;
    }
    match at {
        Value::Object(map) if rest.is_empty() => match new {
            Some(new) => drop(map.insert(key, new.clone())),
            None => drop(map.shift_remove(&key)),
        },
        Value::Array(list) if rest.is_empty() => list[key.parse::<usize>().unwrap()] = new.unwrap().clone(),
        Value::Object(map) => set_or_remove(map.get_mut(&key).unwrap(), rest, new),
        Value::Array(list) => set_or_remove(&mut list[key.parse::<usize>().unwrap()], rest, new),
        other => panic!("{key} below {other}"),
    }
}

/// Whether `live` contains everything in `new`.
fn contains_all(live: &Value, new: &Value, field: &str) -> bool {
    match (live, new) {
        (Value::Object(live), Value::Object(new)) => {
            new.iter().all(|(key, new)| live.get(key).is_some_and(|live| contains_all(live, new, key)))
        }
        (Value::Array(there), Value::Array(wanted)) => match (keyed(field, there), keyed(field, wanted)) {
            (Some(there), Some(wanted)) => wanted.iter().all(|(name, new)| {
                there.iter().any(|(other, live)| name == other && contains_all(live, new, ""))
            }),
            _ => {
                there.len() == wanted.len()
                    && there.iter().zip(wanted).all(|(live, new)| contains_all(live, new, ""))
            }
        },
        _ => live == new,
    }
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(x in object()) {
        prop_assert_eq!(diff(&x, None, &x), vec![]);
        prop_assert_eq!(diff(&x, Some(&x), &x), vec![]);
    }

    #[test]
    fn applying_the_difference_gives_the_new_object(live in object(), last in object(), new in object(), known: bool) {
        let mut new = new;
        new["apiVersion"] = live["apiVersion"].clone();
        let before = if known { Last::rendered(&last) } else { Last::read(&live) };
        let mut applied = live.clone();
        for change in changes(&live, &before, &new).0 {
            let segments: Vec<&str> = change.path.split('/').skip(1).collect();
            set_or_remove(&mut applied, &segments, change.new);
        }
        // then it contains the new one, and no difference is left
        prop_assert!(contains_all(&applied, &new, ""), "{} does not contain {}", applied, new);
        let left: Vec<String> = changes(&applied, &before, &new).0.into_iter().map(|c| c.path).collect();
        prop_assert_eq!(left, Vec::<String>::new());
    }

    #[test]
    fn every_difference_names_its_owner(live in object(), last in object(), new in object()) {
        for field in diff(&live, Some(&last), &new) {
            let expected = match (field.live == field.last, field.new == field.last) {
                (true, false) => Cause::Change,
                (false, true) => Cause::Drift,
                (false, false) => Cause::Both,
                (true, true) => return Err(TestCaseError::fail(format!("{field:?} is not a difference"))),
            };
            // lists have their own equality
            let lists = [&field.live, &field.last, &field.new].into_iter().flatten().any(|v| v.to_string().contains('['));
            if !lists {
                prop_assert_eq!(field.cause, expected, "{:?}", field);
            }
        }
    }
}
