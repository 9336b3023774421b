//! What a bundle may do, and how much harm that can do.

use std::collections::{BTreeMap, BTreeSet};

use olm_bundle::Rendered;
use serde_json::Value;

use crate::plan::{Level, PermissionDelta, PermissionRule};

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    /// `cluster`, or the namespace.
    scope: String,
    group: String,
    resource: String,
    /// Name of the one object, where it is limited to one.
    name: Option<String>,
    verb: String,
}

const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection", "*"];
const READ: &[&str] = &["get", "list", "watch", "*"];
const WORKLOADS: &[&str] = &[
    "pods",
    "deployments",
    "daemonsets",
    "statefulsets",
    "replicasets",
    "jobs",
    "cronjobs",
    "replicationcontrollers",
];

/// How rights change from one version to the next; without a previous one all rights are new.
pub(crate) fn delta(previous: Option<&Rendered>, new: Option<&Rendered>) -> PermissionDelta {
    let before = previous.map(rights).unwrap_or_default();
    let after = new.map(rights).unwrap_or_default();
    let mut added = in_words(after.difference(&before));
    let mut removed = in_words(before.difference(&after));
    let hosts = |rendered: Option<&Rendered>| rendered.map(host_access).unwrap_or_default();
    let (host_before, host_after) = (hosts(previous), hosts(new));
    added.extend(host_after.difference(&host_before).cloned());
    removed.extend(host_before.difference(&host_after).cloned());
    let mut summary = BTreeMap::from([(Level::High, 0), (Level::Med, 0), (Level::Low, 0)]);
    for rule in in_words(after.iter()).iter().chain(&host_after) {
        *summary.entry(rule.level).or_insert(0) += 1;
    }
    let by_level = |a: &PermissionRule, b: &PermissionRule| {
        (a.level, &a.rule, &a.scope).cmp(&(b.level, &b.rule, &b.scope))
    };
    added.sort_by(by_level);
    removed.sort_by(by_level);
    PermissionDelta { added, removed, summary }
}

/// The rights that roles give to somebody. A role that nothing binds gives none: bundles bring such roles for people.
fn rights(rendered: &Rendered) -> BTreeSet<Right> {
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned()
    };
    let mut roles: BTreeMap<(String, String, String), &Value> = BTreeMap::new();
    for (_, object) in rendered.objects() {
        let kind = text(object, "/kind");
        if kind == "Role" || kind == "ClusterRole" {
            let namespace = if kind == "Role" { text(object, "/metadata/namespace") } else { String::new() };
            roles.insert((kind, namespace, text(object, "/metadata/name")), object);
        }
    }
    let mut list = BTreeSet::new();
    for (_, binding) in rendered.objects() {
        let scope = match text(binding, "/kind").as_str() {
            "ClusterRoleBinding" => "cluster".to_owned(),
            "RoleBinding" => text(binding, "/metadata/namespace"),
            _ => continue,
        };
        let kind = text(binding, "/roleRef/kind");
        let namespace = if kind == "Role" { scope.clone() } else { String::new() };
        let Some(role) = roles.get(&(kind, namespace, text(binding, "/roleRef/name"))) else { continue };
        for rule in role["rules"].as_array().into_iter().flatten() {
            list.extend(expand(&scope, rule));
        }
    }
    list
}

fn strings(rule: &Value, key: &str) -> Vec<String> {
    rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn expand(scope: &str, rule: &Value) -> Vec<Right> {
    let names = strings(rule, "resourceNames");
    let names: Vec<Option<String>> =
        if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    let mut list = Vec::new();
    for verb in strings(rule, "verbs") {
        for path in strings(rule, "nonResourceURLs") {
            let right = Right {
                scope: scope.to_owned(),
                group: String::new(),
                resource: path,
                name: None,
                verb: verb.clone(),
            };
            list.push(right);
        }
        for group in strings(rule, "apiGroups") {
            for resource in strings(rule, "resources") {
                list.extend(names.iter().map(|name| Right {
                    scope: scope.to_owned(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    list
}

/// Verbs on one resource that have the same level and reason become one line.
fn in_words<'a>(rights: impl Iterator<Item = &'a Right>) -> Vec<PermissionRule> {
    type Key<'a> = (Level, Option<&'static str>, &'a str, &'a str, &'a str, Option<&'a str>);
    let mut lines: BTreeMap<Key<'a>, Vec<&'a str>> = BTreeMap::new();
    for right in rights {
        let (level, reason) = grade(right);
        let key = (
            level,
            reason,
            right.scope.as_str(),
            right.group.as_str(),
            right.resource.as_str(),
            right.name.as_deref(),
        );
        lines.entry(key).or_default().push(&right.verb);
    }
    lines
        .into_iter()
        .map(|((level, reason, scope, group, resource, name), mut verbs)| {
            verbs.sort_by_key(|v| (ORDER.iter().position(|o| o == v).unwrap_or(ORDER.len()), *v));
            let what = match (group, resource) {
                ("*", "*") => "everything".to_owned(),
                ("", resource) => resource.to_owned(),
                (group, resource) => format!("{resource}.{group}"),
            };
            let what = name.map_or(what.clone(), |name| format!("{what} \"{name}\""));
            PermissionRule {
                rule: format!("{} {what}", verbs.join(",")),
                level,
                reason: reason.map(str::to_owned),
                scope: scope.to_owned(),
            }
        })
        .collect()
}

const ORDER: &[&str] =
    &["*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// How much harm a right can do, and why.
fn grade(right: &Right) -> (Level, Option<&'static str>) {
    let cluster = right.scope == "cluster";
    let verb = right.verb.as_str();
    let any_verb = verb == "*";
    let group = |name: &str| right.group == name || right.group == "*";
    let resource = |names: &[&str]| right.resource == "*" || names.contains(&right.resource.as_str());
    let write = WRITE.contains(&verb);
    let all = right.name.is_none();

    if right.group == "*" && right.resource == "*" && any_verb {
        return if cluster {
            (Level::High, Some("may do everything in the cluster"))
        } else {
            (Level::Med, Some("may do everything in the namespace"))
        };
    }
    if ["escalate", "bind", "impersonate"].contains(&verb) {
        return (Level::High, Some("can give itself further rights"));
    }
    let rbac = group("rbac.authorization.k8s.io");
    if write && rbac && resource(&["clusterroles", "clusterrolebindings"]) && cluster {
        return (Level::High, Some("can give itself further rights"));
    }
    if write && group("") && resource(&["nodes", "nodes/status", "nodes/proxy"]) && cluster {
        return (Level::High, Some("changes nodes"));
    }
    let webhooks = &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
    if write && group("admissionregistration.k8s.io") && resource(webhooks) && all && cluster {
        return (Level::High, Some("can see and change every request"));
    }
    if write && group("apiextensions.k8s.io") && resource(&["customresourcedefinitions"]) && all && cluster {
        return (Level::High, Some("changes CRDs of others"));
    }
    if (any_verb || verb == "create" || verb == "get")
        && group("")
        && resource(&["pods/exec", "pods/attach"])
        && all
    {
        return if cluster {
            (Level::High, Some("runs commands in pods of others"))
        } else {
            (Level::Med, Some("runs commands in pods of the namespace"))
        };
    }
    if (any_verb || verb == "create") && group("") && resource(&["serviceaccounts/token"]) && all {
        return if cluster {
            (Level::High, Some("can act as any account"))
        } else {
            (Level::Med, Some("can act as any account of the namespace"))
        };
    }
    if write && rbac && resource(&["roles", "rolebindings"]) {
        return (Level::Med, Some("hands out rights"));
    }
    if READ.contains(&verb) && group("") && resource(&["secrets"]) && all && cluster {
        return (Level::Med, Some("reads all Secrets"));
    }
    let workloads = group("") || group("apps") || group("batch");
    if (any_verb || verb == "create") && workloads && resource(WORKLOADS) && cluster {
        return (Level::Med, Some("creates workloads anywhere"));
    }
    if any_verb || right.resource == "*" {
        return (Level::Med, Some("covers more than it names"));
    }
    (Level::Low, None)
}

/// Pods that reach out of their sandbox amount to rights on the node.
fn host_access(rendered: &Rendered) -> BTreeSet<PermissionRule> {
    let mut list = BTreeSet::new();
    for (_, object) in rendered.objects().filter(|(_, o)| o["kind"] == "Deployment") {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let scope = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let Some(pod) = object.pointer("/spec/template/spec") else { continue };
        let mut add = |what: &str| {
            list.insert(PermissionRule {
                rule: format!("Deployment {name} {what}"),
                level: Level::High,
                reason: Some("reaches the node".to_owned()),
                scope: scope.to_owned(),
            });
        };
        for key in ["hostNetwork", "hostPID", "hostIPC"] {
            if pod[key] == true {
                add(&format!("uses {key}"));
            }
        }
        let containers =
            ["containers", "initContainers"].into_iter().filter_map(|key| pod[key].as_array()).flatten();
        if containers
            .into_iter()
            .any(|c| c.pointer("/securityContext/privileged") == Some(&Value::Bool(true)))
        {
            add("runs privileged");
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use olm_bundle::Phase;
    use serde_json::json;

    fn rendered(cluster: bool, rules: Value) -> Rendered {
        let (role, binding) =
            if cluster { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
        Rendered {
            phases: vec![(
                Phase::Rbac,
                vec![
                    json!({ "kind": role, "metadata": { "name": "r", "namespace": "ns" }, "rules": rules }),
                    json!({ "kind": binding, "metadata": { "name": "b", "namespace": "ns" },
                            "roleRef": { "kind": role, "name": "r" } }),
                    json!({ "kind": "ClusterRole", "metadata": { "name": "for-people" },
                            "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] }),
                ],
            )],
        }
    }

    fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
        json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
    }

    fn level(cluster: bool, group: &str, resource: &str, verbs: &[&str]) -> (String, Level) {
        let delta = delta(None, Some(&rendered(cluster, json!([rule(group, resource, verbs)]))));
        let first = delta.added.first().unwrap();
        (first.rule.clone(), first.level)
    }

    #[test]
    fn levels() {
        assert_eq!(level(true, "*", "*", &["*"]), ("* everything".into(), Level::High));
        assert_eq!(level(true, "", "nodes", &["patch"]), ("patch nodes".into(), Level::High));
        assert_eq!(level(true, "", "nodes", &["list", "get"]), ("get,list nodes".into(), Level::Low));
        assert_eq!(level(true, "", "pods/exec", &["create"]).1, Level::High);
        assert_eq!(level(false, "", "pods/exec", &["create"]).1, Level::Med);
        assert_eq!(level(true, "rbac.authorization.k8s.io", "clusterroles", &["create"]).1, Level::High);
        assert_eq!(level(true, "rbac.authorization.k8s.io", "clusterroles", &["bind"]).1, Level::High);
        assert_eq!(
            level(true, "apiextensions.k8s.io", "customresourcedefinitions", &["update"]).1,
            Level::High
        );
        assert_eq!(level(true, "", "secrets", &["get"]), ("get secrets".into(), Level::Med));
        assert_eq!(level(false, "", "secrets", &["get"]).1, Level::Low);
        assert_eq!(
            level(true, "apps", "deployments", &["create"]),
            ("create deployments.apps".into(), Level::Med)
        );
        assert_eq!(level(false, "apps", "deployments", &["create"]).1, Level::Low);
        assert_eq!(level(true, "example.com", "things", &["*"]).1, Level::Med);
    }

    #[test]
    fn upgrades_show_what_is_new() {
        // given a version that may read pods, and the next that may also patch nodes
        let old = rendered(true, json!([rule("", "pods", &["get", "list"])]));
        let new = rendered(true, json!([rule("", "pods", &["get"]), rule("", "nodes", &["patch"])]));
        let delta = delta(Some(&old), Some(&new));
        let rules =
            |list: &[PermissionRule]| list.iter().map(|r| (r.rule.clone(), r.level)).collect::<Vec<_>>();
        assert_eq!(rules(&delta.added), [("patch nodes".to_owned(), Level::High)]);
        assert_eq!(rules(&delta.removed), [("list pods".to_owned(), Level::Low)]);
        assert_eq!(delta.summary[&Level::High], 1);
        assert_eq!(delta.summary[&Level::Low], 1);
    }
}
