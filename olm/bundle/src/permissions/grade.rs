//! Risk level of a right.
//!
//! The levels follow a count over the heads of a community catalog of 333 packages, in rights over the whole
//! cluster: everything (7), escalate, bind or impersonate (17), writing nodes (30), pods/exec (32), CRDs of
//! others (34), webhooks (36), cluster roles (85) and reading all Secrets (234) are HIGH; creating workloads
//! anywhere (177) and wildcards are MED. A right over one namespace is limited to that namespace, so what is
//! HIGH over the cluster is MED there; `escalate`, `bind` and `impersonate` have no such limit.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::right::Right;

/// A permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRule {
    /// The permission, such as `patch nodes`.
    pub rule: String,
    /// Risk level.
    pub level: Level,
    /// Reason for the level.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// `cluster`, or a namespace.
    pub scope: String,
}

/// Risk level of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// Equivalent, or close, to control of the cluster.
    High,
    /// Affects other workloads.
    Med,
    /// Other permissions.
    Low,
}

impl Level {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "HIGH",
            Self::Med => "MED",
            Self::Low => "LOW",
        }
    }
}

const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection", "*"];
const WORKLOADS: &[(&str, &[&str])] = &[
    ("", &["pods", "replicationcontrollers"]),
    ("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"]),
    ("batch", &["jobs", "cronjobs"]),
];
/// Verbs whose response contains the object.
const REVEAL: &[&str] = &["get", "list", "watch", "patch", "*"];
/// Resources of `impersonate`.
const IDENTITIES: &[&str] = &["users", "groups", "serviceaccounts"];
/// Access to a running pod.
const INTO_PODS: &[&str] = &["pods/exec", "pods/attach", "pods/portforward"];

/// Risk level of a verb on all objects of a resource; without a namespace, in the whole cluster.
#[must_use]
pub fn level(verb: &str, group: &str, resource: &str, namespace: Option<&str>) -> Level {
    let right = Right { namespace, group, resource, name: None, verb, url: false };
    grade(&right, &BTreeSet::new()).0
}

/// Risk level of a right, with the reason.
pub(super) fn grade(right: &Right<'_>, own_crds: &BTreeSet<&str>) -> (Level, Option<&'static str>) {
    let verb = right.verb;
    let any_verb = verb == "*";
    if right.url {
        return if any_verb { (Level::Med, Some("covers more than it names")) } else { (Level::Low, None) };
    }
    let cluster = right.namespace.is_none();
    let group = |name: &str| right.group == name || right.group == "*";
    let resource = |names: &[&str]| right.resource == "*" || names.contains(&right.resource);
    let write = WRITE.contains(&verb);
    let create = any_verb || verb == "create";
    // HIGH over the cluster, lower over a namespace
    let by_reach = |over_cluster, over_namespace| {
        if cluster { (Level::High, Some(over_cluster)) } else { (Level::Med, Some(over_namespace)) }
    };

    if right.group == "*" && right.resource == "*" && any_verb {
        return by_reach("may do everything in the cluster", "may do everything in the namespace");
    }
    if ["escalate", "bind", "impersonate"].contains(&verb) {
        return (Level::High, Some("can give itself further rights"));
    }
    let rbac = group("rbac.authorization.k8s.io");
    let all = right.name.is_none();
    // A wildcard includes `escalate`, `bind` and `impersonate`.
    if cluster && any_verb && all {
        if rbac && resource(&["roles", "clusterroles"]) {
            return (Level::High, Some("can give itself further rights"));
        }
        if group("") && resource(IDENTITIES) {
            return (Level::High, Some("can act as any account"));
        }
    }
    if cluster {
        if write && rbac && resource(&["clusterroles", "clusterrolebindings"]) {
            return (Level::High, Some("changes rights in the whole cluster"));
        }
        if group("") && (write && resource(&["nodes", "nodes/status"]) || right.resource == "nodes/proxy") {
            return (Level::High, Some("changes nodes"));
        }
        let webhooks = &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
        // a name is no limit: that one webhook can be changed to receive every request
        if write && group("admissionregistration.k8s.io") && resource(webhooks) {
            return (Level::High, Some("can see and change every request"));
        }
        let crds = resource(&["customresourcedefinitions"]);
        if write && group("apiextensions.k8s.io") && crds {
            return match right.name {
                Some(name) if own_crds.contains(name) => (Level::Low, Some("changes its own CRDs")),
                _ => (Level::High, Some("changes CRDs of others")),
            };
        }
    }
    if (create || verb == "get") && group("") && resource(INTO_PODS) && all {
        return by_reach("reaches into pods of others", "reaches into pods of the namespace");
    }
    if create && group("") && resource(&["serviceaccounts/token"]) && all {
        return by_reach("can act as any account", "can act as any account of the namespace");
    }
    if write && rbac && resource(&["roles", "rolebindings"]) {
        return (Level::Med, Some("hands out rights"));
    }
    if REVEAL.contains(&verb) && group("") && resource(&["secrets"]) && all && cluster {
        return (Level::High, Some("reads all Secrets"));
    }
    if create && cluster && WORKLOADS.iter().any(|(name, kinds)| group(name) && resource(kinds)) {
        return (Level::Med, Some("creates workloads anywhere"));
    }
    if any_verb || right.resource == "*" {
        return (Level::Med, Some("covers more than it names"));
    }
    (Level::Low, None)
}
