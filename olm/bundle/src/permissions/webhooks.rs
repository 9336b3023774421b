//! Requests of others that admission webhooks receive.

use std::collections::BTreeSet;

use serde_json::Value;

use super::grade::{Level, PermissionRule};

/// Resources whose mutation gives access to workloads or rights.
const SENSITIVE: &[(&str, &[&str])] = &[
    ("", &["pods", "namespaces", "secrets", "serviceaccounts", "nodes"]),
    ("rbac.authorization.k8s.io", &["roles", "rolebindings", "clusterroles", "clusterrolebindings"]),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
];
/// Those of them that are cluster-scoped, so that a namespace selector excludes none.
const OF_THE_CLUSTER: &[&str] =
    &["nodes", "clusterroles", "clusterrolebindings", "customresourcedefinitions"];

/// Requests that a webhook configuration receives besides the bundle's own kinds.
pub(super) fn seen_by(configuration: &Value, own_crds: &BTreeSet<&str>) -> Vec<PermissionRule> {
    let text = |pointer: &str| configuration.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let mutating = kind.starts_with("Mutating");
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut seen: BTreeSet<(Level, String)> = BTreeSet::new();
    for webhook in list(configuration, "webhooks") {
        let selects = |key: &str| {
            let selector = webhook.get(key).and_then(Value::as_object);
            selector.is_some_and(|selector| selector.values().any(|part| !is_empty(part)))
        };
        let (namespaces, objects) = (selects("namespaceSelector"), selects("objectSelector"));
        for rule in list(&webhook, "rules") {
            for group in list(&rule, "apiGroups").iter().filter_map(Value::as_str) {
                for resource in list(&rule, "resources").iter().filter_map(Value::as_str) {
                    let level = level(group, resource, namespaces, objects, own_crds);
                    seen.extend(level.map(|level| (level, named(group, resource))));
                }
            }
        }
    }
    let reason = if mutating {
        "sees and changes requests of others"
    } else {
        "sees and can refuse requests of others"
    };
    let rule = |(level, what): (Level, String)| PermissionRule {
        rule: format!("{kind} {name} on {what}"),
        level,
        reason: Some(reason.to_owned()),
        scope: "cluster".to_owned(),
    };
    seen.into_iter().map(rule).collect()
}

/// Reach of a webhook; `None` for the bundle's own kinds.
fn level(
    group: &str,
    resource: &str,
    namespaces: bool,
    objects: bool,
    own_crds: &BTreeSet<&str>,
) -> Option<Level> {
    let plain = resource.split('/').next().unwrap_or_default();
    if own_crds.contains(format!("{plain}.{group}").as_str()) {
        return None;
    }
    let everything = group == "*" || plain == "*";
    let sensitive = SENSITIVE.iter().any(|(of, resources)| group == *of && resources.contains(&plain));
    let limited = objects || namespaces && !OF_THE_CLUSTER.contains(&plain);
    Some(if (everything || sensitive) && !limited { Level::High } else { Level::Med })
}

fn named(group: &str, resource: &str) -> String {
    match (group, resource) {
        ("*", "*" | "*/*") => "everything".to_owned(),
        ("", resource) => resource.to_owned(),
        (group, resource) => format!("{resource}.{group}"),
    }
}

fn is_empty(part: &Value) -> bool {
    match part {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
