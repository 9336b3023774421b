//! The objects of a plan: those of the bundle, and the surrounding ones.

use std::borrow::Cow;

use olm_api::names;
use olm_bundle::{Bundle, Manifest, Phase, Rendered, crd_of_role};
use olm_resolver::Resolved;
use serde_json::{Map, Value, json};

use crate::input::{Live, PlanInput};
use crate::object::ObjectRef;

/// Name of the OperatorGroup that is created where none exists.
pub const OPERATOR_GROUP_NAME: &str = "olm-operators";

/// The effective OperatorGroup of a namespace: its name, and the namespaces that its operators watch (empty
/// means all). Without one, the group that a plan will create for `wanted`.
pub fn operator_group_of(groups: &[Value], wanted: &[String]) -> (String, Vec<String>) {
    let Some(group) = groups.first() else {
        return (OPERATOR_GROUP_NAME.to_owned(), targets(wanted));
    };
    let strings = |pointer: &str| -> Option<Vec<String>> {
        let list = group.pointer(pointer)?.as_array()?;
        Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let name = group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let namespaces =
        strings("/spec/targetNamespaces").filter(|l| !l.is_empty()).or_else(|| strings("/status/namespaces"));
    (name, targets(&namespaces.unwrap_or_default()))
}

/// Target namespaces in words.
pub fn watched_namespaces(targets: &[String]) -> String {
    if targets.is_empty() || targets.iter().any(String::is_empty) {
        "all namespaces".to_owned()
    } else {
        targets.join(", ")
    }
}

/// Sorted, without repetition; all namespaces is the empty list.
fn targets(namespaces: &[String]) -> Vec<String> {
    if namespaces.iter().any(String::is_empty) {
        return Vec::new();
    }
    let mut list = namespaces.to_vec();
    list.sort();
    list.dedup();
    list
}

pub(crate) fn namespace_ref(namespace: &str) -> ObjectRef {
    ObjectRef::new("v1", "Namespace", None, namespace)
}

pub(crate) fn csv_ref(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new("operators.coreos.com/v1alpha1", "ClusterServiceVersion", Some(namespace), name)
}

/// All objects to apply, phase by phase.
pub(crate) fn desired(input: &PlanInput<'_>, rendered: &Rendered, live: &Live) -> Vec<(Phase, Manifest)> {
    let mut list: Vec<(Phase, Manifest)> = Vec::new();
    if !live.contains_key(&namespace_ref(input.namespace)) {
        let manifest =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": input.namespace } });
        list.push((Phase::Prerequisites, manifest.into()));
    }
    let (group, targets) = operator_group_of(input.operator_groups, input.target_namespaces);
    if input.operator_groups.is_empty() {
        list.push((Phase::Prerequisites, operator_group(input.namespace, &group, &targets).into()));
    }
    list.push((Phase::Prerequisites, csv(input.bundle, input.namespace, &group, &targets).into()));
    list.extend(rendered.manifests().map(|(phase, manifest)| (phase, manifest.clone())));
    let label = names::component_label(&input.resolved.chosen.package, input.namespace);
    for (_, object) in &mut list {
        let foreign = matches!(object["kind"].as_str(), Some("Namespace" | "OperatorGroup"))
            || crd_of_role(object).is_some();
        if !foreign && label_of(object, &label) != Some(&json!("")) {
            set_label(object, &label, "");
        }
    }
    // phases are applied in order; within one the order is the bundle's
    list.sort_by_key(|(phase, _)| *phase);
    list
}

/// Labels rendered objects as components of the package. [`make_plan`](crate::make_plan) does it for
/// unlabeled objects, which needs a copy of each.
pub fn claim(rendered: &mut Rendered, resolved: &Resolved, namespace: &str) {
    let label = names::component_label(&resolved.chosen.package, namespace);
    let objects = rendered.phases.iter_mut().flat_map(|(_, objects)| objects);
    // All users of a CRD share the roles over its kinds.
    for object in objects.filter(|object| crd_of_role(object).is_none()) {
        set_label(object, &label, "");
    }
}

/// The last applied object as it was rendered: [`claim`] is the plan's part. Where the object still has the
/// label, that makes no difference.
pub(crate) fn unclaimed<'a>(input: &PlanInput<'_>, rendered: &'a Value, live: &Value) -> Cow<'a, Value> {
    let label = names::component_label(&input.resolved.chosen.package, input.namespace);
    let claimed = label_of(rendered, &label);
    if claimed.is_none() || claimed == label_of(live, &label) {
        return Cow::Borrowed(rendered);
    }
    let mut rendered = rendered.clone();
    if let Some(labels) = rendered.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.shift_remove(&label);
    }
    Cow::Owned(rendered)
}

/// A cluster-scoped object that the same package uses in other namespaces keeps their labels: applying
/// without them would remove them, and with them the record of its other users.
pub(crate) fn keep_shared_labels(manifest: &mut Manifest, live: Option<&Value>, package: &str) {
    let Some(labels) = live.and_then(|l| l.pointer("/metadata/labels")?.as_object()) else { return };
    let prefix = format!("{}{package}.", names::LABEL_COMPONENT_PREFIX);
    for (key, value) in labels.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        if label_of(manifest, key).is_none() {
            set_label(manifest, key, value.as_str().unwrap_or_default());
        }
    }
}

fn operator_group(namespace: &str, name: &str, targets: &[String]) -> Value {
    let mut spec = Map::new();
    if !targets.is_empty() {
        spec.insert("targetNamespaces".into(), json!(targets));
    }
    json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    })
}

/// The ClusterServiceVersion to apply: with its namespace and the annotations that its pods inherit, without
/// server-managed fields.
fn csv(bundle: &Bundle, namespace: &str, group: &str, targets: &[String]) -> Value {
    let mut csv = bundle.csv_raw.clone();
    csv["apiVersion"] = json!("operators.coreos.com/v1alpha1");
    csv["kind"] = json!("ClusterServiceVersion");
    if let Some(object) = csv.as_object_mut() {
        object.remove("status");
    }
    if !csv["metadata"].is_object() {
        csv["metadata"] = json!({});
    }
    let metadata = &mut csv["metadata"];
    metadata["namespace"] = json!(namespace);
    if let Some(object) = metadata.as_object_mut() {
        for key in
            ["creationTimestamp", "resourceVersion", "uid", "generation", "managedFields", "ownerReferences"]
        {
            object.remove(key);
        }
    }
    let annotations = [
        (names::ANNOTATION_OPERATOR_GROUP, group.to_owned()),
        (names::ANNOTATION_OPERATOR_NAMESPACE, namespace.to_owned()),
        (names::ANNOTATION_TARGET_NAMESPACES, targets.join(",")),
    ];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    for (key, value) in annotations {
        metadata["annotations"][key] = json!(value);
    }
    csv
}

fn label_of<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get("metadata")?.get("labels")?.get(key)
}

fn set_label(object: &mut Value, key: &str, value: &str) {
    let Some(metadata) = object.get_mut("metadata").filter(|m| m.is_object()) else { return };
    if !metadata["labels"].is_object() {
        metadata["labels"] = json!({});
    }
    metadata["labels"][key] = json!(value);
}
