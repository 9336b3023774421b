//! Roles that grant users access to the APIs of operators.
//!
//! Each kind of a bundle has a ClusterRole for administrators, editors and viewers. The roles `admin`, `edit`
//! and `view` of Kubernetes aggregate them by their labels; so do the roles of an OperatorGroup, which cover
//! what its members provide. Names, verbs and labels are upstream's.

use std::collections::BTreeSet;

use olm_constraint::Gvk;
use serde_json::{Map, Value, json};

use super::Target;
use super::names::short_hash;
use crate::model::{kind, name};

/// Role suffix and verbs.
const ROLES: [(&str, &[&str]); 3] = [
    ("admin", &["*"]),
    ("edit", &["create", "update", "patch", "delete"]),
    ("view", &["get", "list", "watch"]),
];
/// Label for aggregation into a role of an OperatorGroup; hash of the kind and the role's suffix follow.
const TO_GROUP: &str = "olm.opgroup.permissions/aggregate-to-";
/// Label for aggregation into a role of Kubernetes; its name follows.
const TO_KUBERNETES: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Maximum length of an object name.
const LONGEST_NAME: usize = 253;

/// Upstream's hash of a kind: 64 bits of FNV-1a over `Kind.version.group`, in hex.
#[must_use]
pub fn gvk_hash(gvk: &Gvk) -> String {
    let text = format!("{}.{}.{}", gvk.kind, gvk.version, gvk.group);
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The roles of every kind that the bundle provides. They have no owner label where a
/// CustomResourceDefinition provides the kind: they stay with it. Upstream's names for aggregated APIs lack
/// the group, so that two groups share a role.
pub(super) fn api_roles(target: &Target<'_>) -> Vec<Value> {
    let mut list = Vec::new();
    let mut seen = BTreeSet::new();
    for crd in target.bundle.owned_crds() {
        let Some((plural, group)) = crd.name.split_once('.') else { continue };
        if !seen.insert((crd.name.clone(), crd.version.clone())) {
            continue;
        }
        let hash = gvk_hash(&Gvk::new(&crd.group, &crd.version, &crd.kind));
        let prefix = format!("{}-{}", crd.name, crd.version);
        for (suffix, verbs) in ROLES {
            let rule = json!({"verbs": verbs, "apiGroups": [group], "resources": [plural]});
            list.push(role(&format!("{prefix}-{suffix}"), labels(&hash, suffix), rule));
        }
        let rule = json!({
            "verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": [crd.name],
        });
        list.push(role(&format!("{prefix}-crdview"), labels(&hash, "view"), rule));
    }
    for api in &target.bundle.csv.spec.api_service_definitions.clone().unwrap_or_default().owned {
        let hash = gvk_hash(&Gvk::new(&api.group, &api.version, &api.kind));
        for (suffix, verbs) in ROLES {
            let mut labels = labels(&hash, suffix);
            labels.extend(target.owner_labels());
            let rule = json!({"verbs": verbs, "apiGroups": [api.group], "resources": [api.name]});
            list.push(role(&format!("{}.{}-{}-{suffix}", api.name, api.group, api.version), labels, rule));
        }
    }
    list
}

fn labels(hash: &str, suffix: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    labels.insert("olm.managed".into(), "true".into());
    labels.insert(format!("{TO_GROUP}{hash}-{suffix}"), "true".into());
    labels.insert(format!("{TO_KUBERNETES}{suffix}"), "true".into());
    if suffix == "view" {
        // The manager counts instances before it removes an operator.
        labels.insert(olm_api::names::LABEL_AGGREGATE_TO_MANAGER.into(), "true".into());
    }
    labels
}

fn role(name: &str, labels: Map<String, Value>, rule: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": [rule],
    })
}

/// The CustomResourceDefinition of a role from [`api_roles`]: all users of the definition share the role, and
/// it is deleted with the definition. A role that grants anything else is not one of them.
#[must_use]
pub fn crd_of_role(object: &Value) -> Option<String> {
    if kind(object) != "ClusterRole" {
        return None;
    }
    let labels = object.get("metadata")?.get("labels")?.as_object()?;
    if !labels.keys().any(|key| key.starts_with(TO_GROUP)) || labels.contains_key("olm.owner") {
        return None;
    }
    let [rule] = object.get("rules")?.as_array()?.as_slice() else { return None };
    let only = |field: &str| match rule.get(field)?.as_array()?.as_slice() {
        [one] => one.as_str(),
        _ => None,
    };
    let (group, resource) = (only("apiGroups")?, only("resources")?);
    let crd = match rule.get("resourceNames") {
        Some(_) if (group, resource) == ("apiextensions.k8s.io", "customresourcedefinitions") => {
            only("resourceNames")?.to_owned()
        }
        Some(_) => return None,
        None => format!("{resource}.{group}"),
    };
    name(object).starts_with(&format!("{crd}-")).then_some(crd)
}

/// The roles of an OperatorGroup over the kinds that its members provide: `olm.og.<group>.<role>-<hash>`.
/// Upstream's five last characters are random, here they are a hash of the group's namespace and name.
#[must_use]
pub fn group_roles(group: &str, namespace: &str, provided: &[Gvk]) -> [Value; 3] {
    let hash = short_hash(&format!("{namespace}/{group}"));
    let mut hashes: Vec<String> = provided.iter().map(gvk_hash).collect();
    hashes.sort();
    hashes.dedup();
    ROLES.map(|(suffix, _)| {
        let selectors: Vec<Value> = hashes
            .iter()
            .map(|hash| {
                json!({"matchLabels": Map::from_iter([(format!("{TO_GROUP}{hash}-{suffix}"), json!("true"))])})
            })
            .collect();
        let end = format!(".{suffix}-{hash}");
        let start: String = group.chars().take(LONGEST_NAME - "olm.og.".len() - end.len()).collect();
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": format!("olm.og.{start}{end}"),
                "labels": {
                    "olm.managed": "true",
                    "olm.owner": group,
                    "olm.owner.kind": "OperatorGroup",
                    "olm.owner.namespace": namespace,
                },
            },
        });
        // The API server rejects a rule that selects nothing. Without one the rules are the role's own, and
        // aggregated ones must be cleared.
        match selectors.is_empty() {
            true => role["rules"] = json!([]),
            false => role["aggregationRule"] = json!({"clusterRoleSelectors": selectors}),
        }
        role
    })
}

#[cfg(test)]
mod tests;
