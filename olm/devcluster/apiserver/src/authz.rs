//! Role-based access control.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use olm_kube_schema::rbac::{covers_resource, covers_url};
use serde_json::{Value, json};

use super::{
    authn::Identity,
    meta,
    request::Info,
    selector::Selector,
    status::{ApiError, ApiResult},
    store::{Key, Store},
};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
pub(crate) const MASTERS: &str = "system:masters";

/// The action to authorize.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    pub verb: String,
    pub group: String,
    /// With subresource: `pods/log`. Empty for a non-resource request.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
}

impl Attributes {
    pub(crate) fn of(info: &Info) -> Self {
        if !info.is_resource {
            return Self { verb: info.verb.clone(), path: info.path.clone(), ..Self::default() };
        }
        Self {
            verb: info.verb.clone(),
            group: info.group.clone(),
            resource: info.full_resource(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            path: String::new(),
        }
    }
}

fn key(plural: &str, namespace: &str, name: &str) -> Key {
    Key::new(&format!("{GROUP}/{plural}"), namespace, name)
}

/// The roles bound to a user: cluster-wide and in one namespace.
fn roles_of(store: &Store, caller: &Identity, namespace: &str) -> Vec<Arc<Value>> {
    let mut roles = Vec::new();
    for binding in store.list(&format!("{GROUP}/clusterrolebindings"), "").items {
        if subjects(&binding).iter().any(|s| subject_is(s, caller, "")) {
            roles.extend(store.get(&key("clusterroles", "", meta::text(&binding, "/roleRef/name"))));
        }
    }
    if !namespace.is_empty() {
        for binding in store.list(&format!("{GROUP}/rolebindings"), namespace).items {
            if subjects(&binding).iter().any(|s| subject_is(s, caller, namespace)) {
                roles.extend(referenced_role(store, &binding, namespace));
            }
        }
    }
    roles
}

fn subjects(binding: &Value) -> &[Value] {
    meta::list(binding, "/subjects")
}

/// The role that a binding references.
fn referenced_role(store: &Store, binding: &Value, namespace: &str) -> Option<Arc<Value>> {
    let name = meta::text(binding, "/roleRef/name");
    match meta::text(binding, "/roleRef/kind") {
        "Role" => store.get(&key("roles", namespace, name)),
        _ => store.get(&key("clusterroles", "", name)),
    }
}

fn subject_is(subject: &Value, caller: &Identity, namespace: &str) -> bool {
    let name = meta::text(subject, "/name");
    match meta::text(subject, "/kind") {
        "User" => caller.user == name,
        "Group" => caller.groups.iter().any(|g| g == name),
        "ServiceAccount" => {
            let own = meta::text(subject, "/namespace");
            let own = if own.is_empty() { namespace } else { own };
            caller
                .user
                .strip_prefix("system:serviceaccount:")
                .and_then(|rest| rest.split_once(':'))
                .is_some_and(|(ns, n)| ns == own && n == name)
        }
        _ => false,
    }
}

fn rules(role: &Value) -> &[Value] {
    meta::list(role, "/rules")
}

fn has(rule: &Value, key: &str, wanted: &str) -> bool {
    rule.get(key).and_then(Value::as_array).is_some_and(|l| l.iter().any(|v| v == wanted || v == "*"))
}

fn is_empty(rule: &Value, key: &str) -> bool {
    rule.get(key).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn allows(rule: &Value, wanted: &Attributes) -> bool {
    if !has(rule, "verbs", &wanted.verb) {
        return false;
    }
    if wanted.resource.is_empty() {
        return url_matches(rule, &wanted.path);
    }
    has(rule, "apiGroups", &wanted.group)
        && resource_matches(rule, &wanted.resource)
        && (is_empty(rule, "resourceNames")
            || meta::list(rule, "/resourceNames").iter().any(|n| n == wanted.name.as_str()))
}

fn resource_matches(rule: &Value, wanted: &str) -> bool {
    let mut resources = meta::list(rule, "/resources").iter().filter_map(Value::as_str);
    resources.any(|resource| covers_resource(resource, wanted))
}

fn url_matches(rule: &Value, wanted: &str) -> bool {
    let mut urls = meta::list(rule, "/nonResourceURLs").iter().filter_map(Value::as_str);
    urls.any(|url| covers_url(url, wanted))
}

/// Whether a user is authorized for an action.
pub(crate) fn allowed(store: &Store, caller: &Identity, wanted: &Attributes) -> bool {
    caller.groups.iter().any(|g| g == MASTERS)
        || roles_of(store, caller, &wanted.namespace)
            .iter()
            .any(|role| rules(role).iter().any(|r| allows(r, wanted)))
}

/// As `allowed`, with the refusal in Kubernetes' wording.
pub(crate) fn check(store: &Store, caller: &Identity, wanted: &Attributes) -> ApiResult<()> {
    if allowed(store, caller, wanted) {
        return Ok(());
    }
    if wanted.resource.is_empty() {
        let message =
            format!("forbidden: User \"{}\" cannot {} path \"{}\"", caller.user, wanted.verb, wanted.path);
        return Err(ApiError::new(403, "Forbidden", message).details(json!({})));
    }
    let scope = if wanted.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", wanted.namespace)
    };
    let why = format!(
        "User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {scope}",
        caller.user, wanted.verb, wanted.resource, wanted.group
    );
    let plural = wanted.resource.split('/').next().unwrap_or_default();
    Err(ApiError::forbidden(plural, &wanted.group, &wanted.name, &why))
}

/// All rules of a user in a namespace.
pub(crate) fn rules_for(store: &Store, caller: &Identity, namespace: &str) -> Vec<Value> {
    let mut all = Vec::new();
    if caller.groups.iter().any(|g| g == MASTERS) {
        all.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        all.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    all.extend(roles_of(store, caller, namespace).iter().flat_map(|role| rules(role).iter().cloned()));
    all
}

/// Prevents privilege escalation by a role or binding: users cannot grant permissions that they do not have.
///
/// `kind` is that of the object; `live` the stored object of an update.
pub(crate) fn check_escalation(
    store: &Store,
    caller: &Identity,
    kind: &str,
    object: &Value,
    live: Option<&Value>,
) -> ApiResult<()> {
    let (plural, namespace, name) = (plural_of(kind), meta::namespace(object), meta::name(object));
    if caller.groups.iter().any(|g| g == MASTERS) {
        return Ok(());
    }
    let attributes = |verb: &str, resource: &str, namespace: &str, name: &str| Attributes {
        verb: verb.to_owned(),
        group: GROUP.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: String::new(),
    };
    // Without the permission to grant, changes of garbage collector fields remain allowed.
    if live.is_some_and(|live| differs_for_garbage_only(live, object)) {
        return Ok(());
    }
    let granted: Vec<Value> = if kind.ends_with("Binding") {
        let (role_kind, role) = (meta::text(object, "/roleRef/kind"), meta::text(object, "/roleRef/name"));
        let resource = plural_of(role_kind);
        if allowed(store, caller, &attributes("bind", resource, namespace, role)) {
            return Ok(());
        }
        let Some(role_object) = referenced_role(store, object, namespace) else {
            return Err(ApiError::not_found(resource, GROUP, role));
        };
        rules(&role_object).to_vec()
    } else if allowed(store, caller, &attributes("escalate", plural, namespace, name)) {
        return Ok(());
    } else {
        rules(object).to_vec()
    };
    let held = rules_for(store, caller, namespace);
    let missing = uncovered(&held, &granted);
    if !missing.is_empty() {
        let groups: Vec<String> = caller.groups.iter().map(|g| format!("\"{g}\"")).collect();
        let mut list: Vec<String> = missing.iter().map(rule_text).collect();
        list.sort();
        let why = format!(
            "user \"{}\" (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            caller.user,
            groups.join(" "),
            list.join("\n")
        );
        return Err(ApiError::forbidden(plural, GROUP, name, &why));
    }
    // The resulting rules of an aggregation are open-ended: setting or removing one requires all permissions.
    let aggregates = |role: &Value| role.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    let everything = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    if (aggregates(object) || live.is_some_and(aggregates)) && !uncovered(&held, &everything).is_empty() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(ApiError::forbidden(plural, GROUP, name, why));
    }
    Ok(())
}

/// Whether only finalizers, owner references and server-managed fields differ.
fn differs_for_garbage_only(live: &Value, object: &Value) -> bool {
    let strip = |role: &Value| {
        let mut role = role.clone();
        let metadata = meta::metadata(&mut role);
        for field in ["finalizers", "ownerReferences", "managedFields", "resourceVersion", "generation"] {
            metadata.shift_remove(field);
        }
        role
    };
    strip(live) == strip(object)
}

fn plural_of(kind: &str) -> &'static str {
    match kind {
        "Role" => "roles",
        "RoleBinding" => "rolebindings",
        "ClusterRoleBinding" => "clusterrolebindings",
        _ => "clusterroles",
    }
}

/// The single permissions of `wanted` that no rule of `held` grants, merged where only the verb differs.
fn uncovered(held: &[Value], wanted: &[Value]) -> Vec<Value> {
    let mut missing: Vec<Value> = Vec::new();
    for simple in wanted.iter().flat_map(simple_rules) {
        if held.iter().any(|rule| covers(rule, &simple)) {
            continue;
        }
        let same = |m: &&mut Value| {
            ["apiGroups", "resources", "resourceNames", "nonResourceURLs"]
                .iter()
                .all(|k| m.get(k) == simple.get(k))
        };
        match missing.iter_mut().find(same) {
            Some(other) => {
                let verbs = simple["verbs"].as_array().cloned().unwrap_or_default();
                if let Some(list) = other.get_mut("verbs").and_then(Value::as_array_mut) {
                    for verb in verbs {
                        if !list.contains(&verb) {
                            list.push(verb);
                        }
                    }
                }
            }
            None => missing.push(simple),
        }
    }
    missing
}

/// Splits a rule into rules of one group, one resource, one name and one verb each.
fn simple_rules(rule: &Value) -> Vec<Value> {
    let list = |key: &str| rule.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut simple = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            for verb in list("verbs") {
                let one = json!({"verbs": [verb], "apiGroups": [group], "resources": [resource]});
                let names = list("resourceNames");
                if names.is_empty() {
                    simple.push(one);
                    continue;
                }
                for name in names {
                    let mut one = one.clone();
                    one["resourceNames"] = json!([name]);
                    simple.push(one);
                }
            }
        }
    }
    for url in list("nonResourceURLs") {
        for verb in list("verbs") {
            simple.push(json!({"verbs": [verb], "nonResourceURLs": [url]}));
        }
    }
    simple
}

/// Whether a rule grants everything that a simple rule grants.
fn covers(rule: &Value, simple: &Value) -> bool {
    let first = |key: &str| simple.get(key).and_then(|l| l.get(0)).and_then(Value::as_str);
    let verb = first("verbs").unwrap_or_default();
    if !has(rule, "verbs", verb) {
        return false;
    }
    if let Some(url) = first("nonResourceURLs") {
        return url_matches(rule, url);
    }
    let names_fit = match first("resourceNames") {
        _ if is_empty(rule, "resourceNames") => true,
        Some(name) => meta::list(rule, "/resourceNames").iter().any(|n| n == name),
        None => false,
    };
    names_fit
        && has(rule, "apiGroups", first("apiGroups").unwrap_or_default())
        && resource_matches(rule, first("resources").unwrap_or_default())
}

/// A rule as Kubernetes prints it: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
fn rule_text(rule: &Value) -> String {
    let fields = [
        ("apiGroups", "APIGroups"),
        ("resources", "Resources"),
        ("resourceNames", "ResourceNames"),
        ("nonResourceURLs", "NonResourceURLs"),
        ("verbs", "Verbs"),
    ];
    let parts: Vec<String> = fields
        .iter()
        .filter(|(key, _)| !is_empty(rule, key))
        .map(|(key, shown)| {
            let items: Vec<String> =
                rule[*key].as_array().into_iter().flatten().map(std::string::ToString::to_string).collect();
            format!("{shown}:[{}]", items.join(" "))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
}

/// ClusterRoles with an index by label, so that thousands of aggregation rules do not scan all of them.
pub(crate) struct Roles<'a> {
    all: &'a [Arc<Value>],
    labelled: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Roles<'a> {
    pub(crate) fn of(all: &'a [Arc<Value>]) -> Self {
        let mut labelled: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, role) in all.iter().enumerate() {
            for key in role.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten() {
                labelled.entry(key.0.as_str()).or_default().push(at);
            }
        }
        Self { all, labelled }
    }

    /// Indices of the roles that a selector matches.
    fn matching(&self, selector: &Selector) -> Vec<usize> {
        let matches = |at: &usize| selector.matches_labels(self.all[*at].pointer("/metadata/labels"));
        match selector.required_label() {
            Some(key) => self.labelled.get(key).into_iter().flatten().copied().filter(matches).collect(),
            None => (0..self.all.len()).filter(matches).collect(),
        }
    }
}

/// The rules of a ClusterRole with an aggregationRule: those of all others that its selectors match.
pub(crate) fn aggregate(role: &Value, roles: &Roles<'_>) -> Option<Vec<Value>> {
    let selectors: Vec<_> =
        meta::list(role, "/aggregationRule/clusterRoleSelectors").iter().map(Selector::from_object).collect();
    if selectors.is_empty() {
        return None;
    }
    let mut rules: Vec<Value> = Vec::new();
    let matching: BTreeSet<usize> = selectors.iter().flat_map(|selector| roles.matching(selector)).collect();
    let others = matching.into_iter().map(|at| &roles.all[at]);
    for other in others.filter(|other| meta::name(other) != meta::name(role)) {
        for rule in meta::list(other, "/rules") {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_subresources_and_names() {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/log"], "resourceNames": ["a"]});
        let wanted = |resource: &str, name: &str| Attributes {
            verb: "get".into(),
            resource: resource.into(),
            name: name.into(),
            ..Attributes::default()
        };
        assert!(allows(&rule, &wanted("pods", "a")));
        assert!(!allows(&rule, &wanted("pods", "b")));
        assert!(allows(&rule, &wanted("pods/log", "a")));
        assert!(!allows(&rule, &wanted("pods/exec", "a")));
    }

    #[test]
    fn missing_permissions_are_named() {
        let held = [json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]})];
        let wanted =
            [json!({"verbs": ["get", "create", "delete"], "apiGroups": [""], "resources": ["pods"]})];
        let missing = uncovered(&held, &wanted);
        assert_eq!(
            rule_text(&missing[0]),
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["create" "delete"]}"#
        );
        assert!(
            uncovered(&[json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})], &wanted).is_empty()
        );
    }

    #[test]
    fn urls() {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]});
        assert!(
            url_matches(&rule, "/api/v1")
                && url_matches(&rule, "/healthz")
                && !url_matches(&rule, "/healthz/x")
        );
    }
}
