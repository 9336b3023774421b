//! Immutable fields: the API server would reject the plan half-way.

use olm_version::shell_word;
use serde_json::Value;

use super::{Context, Report};
use crate::diff::diff;
use crate::finding::{Finding, FindingCode, MOST_NAMED};
use crate::json::{some_of, text};
use crate::object::ObjectRef;

/// Group, kind, and its immutable fields. A field below one of these counts, too.
const FIELDS: &[(&str, &str, &[&str])] = &[
    ("apps", "Deployment", &["/spec/selector"]),
    ("apps", "DaemonSet", &["/spec/selector"]),
    ("apps", "ReplicaSet", &["/spec/selector"]),
    (
        "apps",
        "StatefulSet",
        &["/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy", "/spec/volumeClaimTemplates"],
    ),
    ("batch", "Job", &["/spec/template", "/spec/selector", "/spec/completionMode"]),
    ("rbac.authorization.k8s.io", "RoleBinding", &["/roleRef"]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &["/roleRef"]),
    ("scheduling.k8s.io", "PriorityClass", &["/value", "/preemptionPolicy"]),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &["/spec/group", "/spec/names/kind", "/spec/names/plural"],
    ),
    ("", "Secret", &["/type"]),
    (
        "",
        "PersistentVolumeClaim",
        &[
            "/spec/accessModes",
            "/spec/dataSource",
            "/spec/dataSourceRef",
            "/spec/selector",
            "/spec/storageClassName",
            "/spec/volumeMode",
            "/spec/volumeName",
        ],
    ),
];

/// Immutable fields of an object with `immutable: true`.
const SEALED: &[&str] = &["/data", "/binaryData", "/immutable"];

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for (_, reference, new) in context.wanted {
        let Some(live) = context.live.get(reference) else { continue };
        let fields = changed(reference, live, new);
        if fields.is_empty() {
            continue;
        }
        let text = format!(
            "{} would change and is immutable; the object must be deleted first",
            some_of(&fields, MOST_NAMED)
        );
        report.push(Finding::new(FindingCode::ImmutableField, reference, text).fix(delete(reference)));
    }
}

fn delete(reference: &ObjectRef) -> String {
    let kind = match reference.group() {
        "" => reference.kind.to_lowercase(),
        group => format!("{}.{group}", reference.kind.to_lowercase()),
    };
    let namespace = reference.namespace.as_ref().map_or(String::new(), |n| format!(" -n {}", shell_word(n)));
    format!("kubectl delete {} {}{namespace}", shell_word(&kind), shell_word(&reference.name))
}

/// The immutable fields that `new` changes.
fn changed(reference: &ObjectRef, live: &Value, new: &Value) -> Vec<String> {
    let group = reference.group();
    let known = FIELDS.iter().find(|(g, kind, _)| *kind == reference.kind && *g == group);
    let mut watched: Vec<&str> = known.map_or(&[] as &[&str], |(.., fields)| fields).to_vec();
    let sealed = matches!(reference.kind.as_str(), "Secret" | "ConfigMap") && group.is_empty();
    if sealed && live["immutable"] == true {
        watched.extend(SEALED);
    }
    let mut out: Vec<String> = Vec::new();
    if !watched.is_empty() {
        // The whole object is compared only where one of these may have changed.
        let compared = if touched(&watched, live, new) { diff(live, None, new) } else { Vec::new() };
        for field in compared {
            let hit = watched.iter().find(|w| {
                field.path == **w
                    || field.path.strip_prefix(**w).is_some_and(|rest| rest.starts_with(['/', '[']))
            });
            // A default of the API server and an empty value in the manifest are not a change.
            out.extend(hit.map(|w| w.trim_start_matches('/').replace('/', ".")));
        }
        if sealed && live["immutable"] == true && missing_keys(live, new) {
            out.push("data".to_owned());
        }
        if known.is_some() && loses_selector_labels(live, new) {
            out.push("spec.selector".to_owned());
        }
    }
    if group.is_empty() && reference.kind == "Service" && moves_cluster_ip(live, new) {
        out.push("spec.clusterIP".to_owned());
    }
    out.sort();
    out.dedup();
    out
}

/// Whether any of the fields has another value. `stringData` of a Secret is `data` in another form.
fn touched(watched: &[&str], live: &Value, new: &Value) -> bool {
    new.get("stringData").is_some() || watched.iter().any(|field| live.pointer(field) != new.pointer(field))
}

/// Removed keys are a change as well.
fn missing_keys(live: &Value, new: &Value) -> bool {
    let keys = |value: &Value| {
        let maps =
            ["data", "binaryData", "stringData"].map(|m| value[m].as_object().cloned().unwrap_or_default());
        maps.into_iter()
            .flat_map(|m| m.into_iter().map(|(key, _)| key))
            .collect::<std::collections::BTreeSet<_>>()
    };
    !keys(live).is_subset(&keys(new))
}

/// A label removed from a selector: the difference of fields has only set ones.
fn loses_selector_labels(live: &Value, new: &Value) -> bool {
    let labels =
        |value: &Value| value.pointer("/spec/selector/matchLabels").and_then(Value::as_object).cloned();
    match (labels(live), labels(new)) {
        (Some(live), Some(new)) => live.keys().any(|key| !new.contains_key(key)),
        _ => false,
    }
}

/// A Service keeps its address unless it had none, or becomes an ExternalName.
fn moves_cluster_ip(live: &Value, new: &Value) -> bool {
    let (old, wanted) = (text(live, "/spec/clusterIP"), text(new, "/spec/clusterIP"));
    let name = |v: &Value| text(v, "/spec/type") == "ExternalName";
    !old.is_empty() && !wanted.is_empty() && old != wanted && !name(live) && !name(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(api_version: &str, kind: &str, live: Value, new: Value) -> Vec<String> {
        changed(&ObjectRef::new(api_version, kind, Some("ns"), "x"), &live, &new)
    }

    #[test]
    fn fields_that_never_change() {
        let selector =
            |labels: Value| json!({ "spec": { "selector": { "matchLabels": labels }, "replicas": 1 } });
        let of = |live: Value, new: Value| changes("apps/v1", "Deployment", selector(live), selector(new));
        assert_eq!(of(json!({ "a": "1" }), json!({ "a": "2" })), ["spec.selector"]);
        assert_eq!(of(json!({ "a": "1", "b": "1" }), json!({ "a": "1" })), ["spec.selector"]);
        assert_eq!(of(json!({ "a": "1" }), json!({ "a": "1" })), Vec::<String>::new());
        let role = |name: &str| json!({ "roleRef": { "kind": "Role", "name": name }, "subjects": [{ "name": name }] });
        let rbac = "rbac.authorization.k8s.io/v1";
        assert_eq!(changes(rbac, "RoleBinding", role("a"), role("b")), ["roleRef"]);
        let value = |v: u64| json!({ "value": v });
        assert_eq!(changes("scheduling.k8s.io/v1", "PriorityClass", value(1), value(2)), ["value"]);
        let image =
            |i: &str| json!({ "spec": { "template": { "spec": { "containers": [{ "image": i }] } } } });
        assert_eq!(changes("batch/v1", "Job", image("a"), image("b")), ["spec.template"]);
        // in a Deployment the same is an ordinary change
        assert_eq!(changes("apps/v1", "Deployment", image("a"), image("b")), Vec::<String>::new());
    }

    #[test]
    fn services_keep_their_address() {
        let service = |ip: &str, kind: &str| json!({ "spec": { "clusterIP": ip, "type": kind } });
        let of = |live: Value, new: Value| changes("v1", "Service", live, new);
        assert_eq!(of(service("10.0.0.1", "ClusterIP"), service("None", "ClusterIP")), ["spec.clusterIP"]);
        assert_eq!(of(service("10.0.0.1", "ClusterIP"), json!({ "spec": {} })), Vec::<String>::new());
        assert_eq!(of(service("10.0.0.1", "ClusterIP"), service("", "ExternalName")), Vec::<String>::new());
    }

    #[test]
    fn sealed_objects_keep_their_data() {
        let map =
            |sealed: bool, data: Value| json!({ "kind": "ConfigMap", "immutable": sealed, "data": data });
        let of = |live: Value, new: Value| changes("v1", "ConfigMap", live, new);
        assert_eq!(of(map(true, json!({ "a": "1" })), map(true, json!({ "a": "2" }))), ["data"]);
        assert_eq!(of(map(true, json!({ "a": "1" })), map(true, json!({}))), ["data"]);
        assert_eq!(of(map(true, json!({ "a": "1" })), map(false, json!({ "a": "1" }))), ["immutable"]);
        assert_eq!(of(map(false, json!({ "a": "1" })), map(true, json!({ "a": "2" }))), Vec::<String>::new());
        // the same value in the other form of a Secret
        let live = json!({ "kind": "Secret", "immutable": true, "data": { "a": "MQ==" } });
        let new = json!({ "kind": "Secret", "immutable": true, "stringData": { "a": "1" } });
        assert_eq!(changes("v1", "Secret", live, new), Vec::<String>::new());
    }
}
