use serde_json::{Value, json};

use super::*;

fn patched(target: Value, patch: Value) -> Value {
    strategic_patch(&target, &patch, Layout::builtin("apps", "Deployment")).unwrap()
}

fn deployment(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

/// The example of "Update API Objects in Place Using kubectl patch".
#[test]
fn containers_merge_and_tolerations_are_replaced() {
    let target = deployment(json!({
        "containers": [{"name": "patch-demo-ctr", "image": "nginx"}],
        "tolerations": [{"effect": "NoSchedule", "key": "dedicated", "value": "test-team"}],
    }));
    let patch = deployment(json!({
        "containers": [{"name": "patch-demo-ctr-2", "image": "redis"}],
        "tolerations": [{"effect": "NoSchedule", "key": "disktype", "value": "ssd"}],
    }));
    assert_eq!(
        patched(target, patch),
        deployment(json!({
            "containers": [{"name": "patch-demo-ctr", "image": "nginx"}, {"name": "patch-demo-ctr-2", "image": "redis"}],
            "tolerations": [{"effect": "NoSchedule", "key": "disktype", "value": "ssd"}],
        }))
    );
}

/// The example of `$retainKeys` from the same page.
#[test]
fn retain_keys_clears_the_others() {
    let target =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%"}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(patched(target.clone(), patch), json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let bad = json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
    let error = strategic_patch(&target, &bad, Layout::builtin("apps", "Deployment")).unwrap_err();
    assert_eq!(error.code(), 400);
}

/// Examples of the strategic-merge-patch design document.
#[test]
fn directives() {
    let containers = |list: Value| deployment(json!({"containers": list}));
    let target =
        containers(json!([{"name": "nginx", "image": "nginx-1.0"}, {"name": "log", "image": "log-1.0"}]));
    assert_eq!(
        patched(target.clone(), containers(json!([{"$patch": "delete", "name": "log"}]))),
        containers(json!([{"name": "nginx", "image": "nginx-1.0"}]))
    );
    assert_eq!(
        patched(target.clone(), containers(json!([{"name": "new", "image": "x"}, {"$patch": "replace"}]))),
        containers(json!([{"name": "new", "image": "x"}]))
    );
    assert_eq!(
        patched(target.clone(), containers(json!([{"name": "log", "image": "log-2.0", "tty": null}]))),
        containers(json!([{"name": "nginx", "image": "nginx-1.0"}, {"name": "log", "image": "log-2.0"}]))
    );
    assert_eq!(
        patched(
            json!({"spec": {"strategy": {"type": "x", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}})
        ),
        json!({"spec": {"strategy": {"type": "Recreate"}}})
    );
    assert_eq!(
        patched(
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}})
        ),
        json!({"metadata": {"labels": {}}})
    );
}

#[test]
fn primitive_lists() {
    let target = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    assert_eq!(
        patched(
            target.clone(),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d", "a"]}})
        ),
        json!({"metadata": {"finalizers": ["a", "c", "d"]}})
    );
    // args are not a set: they are replaced.
    let args = |args: Value| deployment(json!({"containers": [{"name": "c", "args": args}]}));
    assert_eq!(patched(args(json!(["x"])), args(json!(["y"]))), args(json!(["y"])));
}

#[test]
fn element_order() {
    let env = |list: Value| deployment(json!({"containers": [{"name": "c", "env": list}]}));
    let target =
        env(json!([{"name": "A", "value": "1"}, {"name": "S", "value": "s"}, {"name": "B", "value": "2"}]));
    let patch = deployment(json!({
        "$setElementOrder/containers": [{"name": "c"}],
        "containers": [{"name": "c",
            "$setElementOrder/env": [{"name": "B"}, {"name": "N"}, {"name": "A"}],
            "env": [{"name": "N", "value": "3"}]}],
    }));
    assert_eq!(
        patched(target, patch),
        env(json!([
            {"name": "S", "value": "s"}, {"name": "B", "value": "2"}, {"name": "N", "value": "3"},
            {"name": "A", "value": "1"},
        ]))
    );
}

#[test]
fn invalid_patches_are_refused() {
    let deployment = Layout::builtin("apps", "Deployment");
    let target = json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    let no_key = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
    let error = strategic_patch(&target, &no_key, deployment).unwrap_err();
    assert_eq!(error.to_string(), "map: {\"image\":\"x\"} does not contain declared merge key: name");
    let bad = json!({"spec": {"$patch": "explode"}});
    assert_eq!(strategic_patch(&target, &bad, deployment).unwrap_err().code(), 400);
    let schema = crate::schema::Schema::compile(&json!({"type": "object"}), "s").unwrap();
    assert_eq!(strategic_patch(&target, &json!({}), Layout::custom(&schema)).unwrap_err().code(), 415);
    assert_eq!(strategic_patch(&target, &json!([]), deployment).unwrap_err().code(), 400);
}

#[test]
fn service_ports_merge_by_port_and_nulls_delete() {
    let service = Layout::builtin("", "Service");
    let target = json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}], "selector": {"x": "1"}}});
    let patch = json!({"spec": {"ports": [{"port": 80, "name": "c"}], "selector": {"y": "2"}, "type": null}});
    assert_eq!(
        strategic_patch(&target, &patch, service).unwrap(),
        json!({"spec": {"ports": [{"port": 80, "name": "c"}, {"port": 81, "name": "b"}], "selector": {"x": "1", "y": "2"}}})
    );
}
