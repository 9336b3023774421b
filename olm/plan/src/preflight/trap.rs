//! The namespace trap: users who can start pods in an operator's namespace, or access its pods, have all of
//! its rights.

use std::collections::{BTreeMap, BTreeSet};

use olm_version::shell_word;
use serde_json::Value;

use super::access::Rule;
use super::{Context, Report};
use crate::facts::RoleName;
use crate::finding::{Finding, FindingCode, MOST_NAMED};
use crate::json::{list, some_of, text};
use crate::plan::Level;

/// Group, resource, verbs, and the way to the operator's rights.
const WAYS: &[(&str, &str, &[&str], &str)] = &[
    ("", "pods", &["create"], "create pods"),
    ("", "replicationcontrollers", &["create", "update", "patch"], "create pods"),
    ("apps", "deployments", &["create", "update", "patch"], "create pods"),
    ("apps", "daemonsets", &["create", "update", "patch"], "create pods"),
    ("apps", "statefulsets", &["create", "update", "patch"], "create pods"),
    ("apps", "replicasets", &["create", "update", "patch"], "create pods"),
    ("batch", "jobs", &["create"], "create pods"),
    ("batch", "cronjobs", &["create", "update", "patch"], "create pods"),
    // An upgrade request is a `get` for clients that use WebSockets.
    ("", "pods/exec", &["create", "get"], "run commands in pods"),
    ("", "pods/attach", &["create", "get"], "run commands in pods"),
    ("", "pods/ephemeralcontainers", &["update", "patch"], "run commands in pods"),
    ("", "serviceaccounts/token", &["create"], "create tokens"),
    ("", "secrets", &["get", "list", "watch"], "read Secrets"),
    ("", "serviceaccounts", &["impersonate"], "impersonate accounts"),
    ("rbac.authorization.k8s.io", "roles", &["escalate"], "grant permissions"),
    ("rbac.authorization.k8s.io", "roles", &["bind"], "grant permissions"),
    ("rbac.authorization.k8s.io", "clusterroles", &["bind"], "grant permissions"),
];

/// Whether the operator's rights are dangerous enough to report this.
pub(super) fn matters(context: &Context<'_>) -> bool {
    context.permissions.summary.get(&Level::High).is_some_and(|count| *count > 0)
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    if !matters(context) || context.namespace().is_none() {
        return;
    }
    let facts = &context.input.facts;
    let namespace = context.input.namespace;
    let what = format!("subjects that can act as the operator in namespace {namespace}");
    let Some(bindings) = report.known_or_record(&facts.role_bindings, &what) else { return };
    let own = accounts(context);
    let mut found: BTreeMap<String, (BTreeSet<&'static str>, String)> = BTreeMap::new();
    for binding in bindings {
        let Some(fact) = role_of(binding).and_then(|name| facts.roles.get(&name)) else { continue };
        let role =
            format!("the rules of {} {}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let Some(role) = report.known_or_record(fact, &role) else { continue };
        let ways = ways(&Rule::of_role(role));
        if ways.is_empty() {
            continue;
        }
        for subject in list(binding, "/subjects").iter().filter(|s| !is_trusted(s, namespace, &own)) {
            let name = subject_name(subject, namespace);
            let entry = found
                .entry(name)
                .or_insert_with(|| (BTreeSet::new(), text(binding, "/metadata/name").to_owned()));
            entry.0.extend(&ways);
        }
    }
    if found.is_empty() {
        return;
    }
    let who: Vec<String> = found
        .iter()
        .map(|(subject, (ways, binding))| {
            let ways: Vec<&str> = ways.iter().copied().collect();
            format!("{subject} can {} (RoleBinding {binding})", ways.join(", "))
        })
        .collect();
    let text = format!(
        "in the operator's namespace, these subjects can act as the operator, {}: {}",
        worst(context),
        some_of(&who, MOST_NAMED)
    );
    let package = &context.input.resolved.chosen.package;
    let (name, place) = (shell_word(package), shell_word(&format!("{package}-system")));
    report.push(
        Finding::new(FindingCode::NamespaceTrap, format!("Namespace {namespace}"), text)
            .fix(format!("olm install {name} -n {place}  # a separate namespace")),
    );
}

/// The most dangerous right, where the plan names it.
fn worst(context: &Context<'_>) -> String {
    let high = context.permissions.added.iter().find(|rule| rule.level == Level::High);
    high.map_or_else(
        || "which has permissions of level HIGH".to_owned(),
        |rule| format!("which may {}", rule.rule),
    )
}

pub(super) fn role_of(binding: &Value) -> Option<RoleName> {
    let name = Some(text(binding, "/roleRef/name")).filter(|n| !n.is_empty())?.to_owned();
    Some(RoleName { cluster: text(binding, "/roleRef/kind") == "ClusterRole", name })
}

fn ways(rules: &[Rule]) -> BTreeSet<&'static str> {
    // Rules limited to named objects count: the objects are not inspected, and `create` cannot be limited at
    // all.
    let any = |rule: &Rule, group: &str, resource: &str, verb: &str| {
        let name = rule.names.first().map(String::as_str);
        rule.allows(verb, group, resource, name)
    };
    WAYS.iter()
        .filter(|(group, resource, verbs, _)| {
            verbs.iter().any(|verb| rules.iter().any(|rule| any(rule, group, resource, verb)))
        })
        .map(|(.., way)| *way)
        .collect()
}

/// The accounts that the plan grants rights to.
fn accounts(context: &Context<'_>) -> BTreeSet<(String, String)> {
    let bindings = ["RoleBinding", "ClusterRoleBinding"]
        .into_iter()
        .flat_map(|kind| context.of_kind("rbac.authorization.k8s.io", kind));
    bindings
        .flat_map(|(_, binding)| list(binding, "/subjects"))
        .filter(|s| text(s, "/kind") == "ServiceAccount")
        .map(|s| (text(s, "/namespace").to_owned(), text(s, "/name").to_owned()))
        .collect()
}

/// The operator itself, and components of Kubernetes.
fn is_trusted(subject: &Value, namespace: &str, own: &BTreeSet<(String, String)>) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => {
            let there = Some(text(subject, "/namespace")).filter(|n| !n.is_empty()).unwrap_or(namespace);
            own.contains(&(there.to_owned(), name.to_owned()))
        }
        "Group" => matches!(name, "system:masters" | "system:nodes"),
        "User" => {
            name.starts_with("system:")
                && !name.starts_with("system:serviceaccount:")
                && name != "system:anonymous"
        }
        _ => true,
    }
}

fn subject_name(subject: &Value, namespace: &str) -> String {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => {
            let there = Some(text(subject, "/namespace")).filter(|n| !n.is_empty()).unwrap_or(namespace);
            format!("ServiceAccount {there}/{name}")
        }
        kind => format!("{kind} {name}"),
    }
}
