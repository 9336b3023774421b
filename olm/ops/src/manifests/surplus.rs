//! Fields that others added to objects of an installation and that grant or remove rights. Server-side apply
//! restores missing and changed fields; it leaves fields alone that it never set.

use olm_api::names;
use serde_json::{Map, Value, json};

/// Kinds whose labels and rules decide on rights.
const RBAC: &[&str] = &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// The fields of a live object that an installation does not have and that affect its function, as dotted
/// paths; each is absent in `wanted`. Pure.
pub fn surplus(wanted: &Value, live: &Value) -> Vec<Vec<String>> {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let mut out = Vec::new();
    let there = |object: &Value, path: &[&str]| at(object, path).is_some_and(|value| !value.is_null());
    let absent = |path: &[&str]| !there(wanted, path) && there(live, path);
    let path = |path: &[&str]| path.iter().map(|key| (*key).to_owned()).collect();
    if RBAC.contains(&kind) || kind == "CustomResourceDefinition" {
        let labels = live["metadata"]["labels"].as_object();
        for key in labels.into_iter().flat_map(Map::keys) {
            if means_something(key) && absent(&["metadata", "labels", key]) {
                out.push(path(&["metadata", "labels", key]));
            }
        }
    }
    match kind {
        "ClusterRole" if absent(&["aggregationRule"]) => out.push(path(&["aggregationRule"])),
        "CustomResourceDefinition" => {
            let strategy = at(live, &["spec", "conversion", "strategy"]).and_then(Value::as_str);
            if strategy == Some("Webhook") && absent(&["spec", "conversion"]) {
                out.push(path(&["spec", "conversion"]));
            }
        }
        _ => {}
    }
    out
}

/// A merge patch that removes the fields; `None` when there are none. Pure.
pub(super) fn without(fields: &[Vec<String>]) -> Option<Value> {
    if fields.is_empty() {
        return None;
    }
    let mut patch = json!({});
    for field in fields {
        let mut place = &mut patch;
        for key in field {
            place = &mut place[key.as_str()];
        }
        // A conversion is required, and this is the API server's default.
        *place = match field.last().map(String::as_str) {
            Some("conversion") => json!({ "strategy": "None", "webhook": null }),
            _ => Value::Null,
        };
    }
    Some(patch)
}

/// Labels by which roles are aggregated, and those by which olm and OLM mark owners and components. Other
/// labels are the site's.
fn means_something(key: &str) -> bool {
    key.contains("/aggregate-to-") || names::is_own_label(key)
}

fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t07_labels_and_rules_of_others_are_found_and_taken_away() {
        let wanted = json!({ "kind": "ClusterRole", "metadata": { "name": "olm-manager",
            "labels": { "app.kubernetes.io/part-of": "olm" } }, "rules": [] });
        assert_eq!(without(&surplus(&wanted, &wanted)), None);
        let mut live = wanted.clone();
        live["metadata"]["labels"]["argocd.argoproj.io/instance"] = json!("site");
        assert_eq!(without(&surplus(&wanted, &live)), None);
        live["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] = json!("true");
        live["aggregationRule"] = json!({ "clusterRoleSelectors": [{}] });
        let patch = json!({ "metadata": { "labels": { "rbac.authorization.k8s.io/aggregate-to-view": null } }, "aggregationRule": null });
        assert_eq!(without(&surplus(&wanted, &live)), Some(patch));
    }

    #[test]
    fn t01_a_conversion_of_others_is_taken_off_a_definition() {
        let wanted =
            json!({ "kind": "CustomResourceDefinition", "metadata": {}, "spec": { "versions": [] } });
        let mut live = wanted.clone();
        live["spec"]["conversion"] = json!({ "strategy": "None" });
        assert_eq!(without(&surplus(&wanted, &live)), None);
        live["spec"]["conversion"] = json!({ "strategy": "Webhook", "webhook": { "clientConfig": {} } });
        let patch = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
        assert_eq!(without(&surplus(&wanted, &live)), Some(patch));
    }
}
