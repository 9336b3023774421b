//! Whether the ServiceAccounts of a version have the rights that its permissions ask for.
//!
//! What an installation makes is looked at first, by name. Only where something is missing are all bindings read: rights may have
//! come from an administrator, or from another manager under other names.

use std::collections::{BTreeMap, HashMap};

use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, GroupVersionKind},
};
use olm_api::{ClusterServiceVersion, csv::StrategyPermissions};
use olm_plan::{Access, Rule};
use serde_json::Value;

use super::{
    facts::{Account, WantedRule},
    parts::{Parts, Rules, rules_of},
};
use crate::{
    context::{Ctx, Error},
    resources::{Id, ResourceError},
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rules of an account, in the cluster (`None`) or a namespace.
type Granted = BTreeMap<Option<String>, Vec<Rule>>;

/// Fills in what of their rules the accounts lack. `made` are the roles and bindings that an installation makes;
/// `targets` the namespaces that the version watches.
pub(super) async fn check(
    csv: &ClusterServiceVersion,
    made: &[Value],
    targets: &[String],
    accounts: &mut BTreeMap<String, Account>,
    parts: &Parts,
    ctx: &Ctx,
) -> Result<(), Error> {
    for account in accounts.values_mut() {
        account.rules.clear();
    }
    let namespace = csv.metadata.namespace.clone().unwrap_or_default();
    let strategy = &csv.spec.install.spec;
    let everywhere = targets.is_empty() || targets.iter().any(String::is_empty);
    let mut granted: BTreeMap<String, Granted> = BTreeMap::new();
    for binding in made {
        if !is_binding(binding) {
            continue;
        }
        let (Some(account), Some(rules)) = (subject(binding), bound(binding, made, parts, ctx).await?) else {
            continue;
        };
        let scope = text(binding, ["metadata", "namespace"]).map(str::to_owned);
        granted
            .entry(account.to_owned())
            .or_default()
            .entry(scope)
            .or_default()
            .extend(rules.iter().cloned());
    }
    let wanted = [(true, &strategy.cluster_permissions), (false, &strategy.permissions)];
    let scopes = |cluster: bool| -> Vec<Option<String>> {
        if cluster || everywhere { vec![None] } else { targets.iter().cloned().map(Some).collect() }
    };
    let mut all_wanted = Vec::new();
    for (cluster, list) in wanted {
        all_wanted.extend(list.iter().map(|permission| (cluster, permission)));
    }
    for (cluster, permission) in all_wanted {
        let name = account_name(permission);
        let Some(account) = accounts.get_mut(name).filter(|account| account.uid.is_some()) else { continue };
        let mut rules = wanted_rules(permission, cluster, &scopes(cluster), granted.get(name));
        if rules.iter().any(|rule| !rule.missing.is_empty()) {
            let all = all_rules(&namespace, name, &scopes(cluster), ctx).await?;
            rules = wanted_rules(permission, cluster, &scopes(cluster), Some(&all));
        }
        account.rules.extend(rules);
    }
    Ok(())
}

pub(super) fn account_name(permission: &StrategyPermissions) -> &str {
    match permission.service_account_name.as_str() {
        "" => "default",
        name => name,
    }
}

fn wanted_rules(
    permission: &StrategyPermissions,
    cluster: bool,
    scopes: &[Option<String>],
    granted: Option<&Granted>,
) -> Vec<WantedRule> {
    let access = access(granted, scopes);
    let rules = permission.rules.iter().map(|rule| serde_json::to_value(rule).unwrap_or_default());
    rules
        .map(|rule| {
            let asked = [Rule::of(&rule)];
            let lacks = |scope: &Option<String>| {
                let missing = access.lacks(&asked, scope.as_deref()).unwrap_or_default();
                missing.into_iter().map(|rule| (scope.clone(), rule)).collect::<Vec<_>>()
            };
            let missing = scopes.iter().flat_map(lacks).collect();
            WantedRule { cluster, rule, missing }
        })
        .collect()
}

fn access(granted: Option<&Granted>, scopes: &[Option<String>]) -> Access {
    let rules = |scope: &Option<String>| granted.and_then(|g| g.get(scope)).cloned().unwrap_or_default();
    let access = Access::unknown().with_cluster(rules(&None));
    scopes
        .iter()
        .flatten()
        .fold(access, |access, namespace| access.with_namespace(namespace, rules(&Some(namespace.clone()))))
}

fn is_binding(object: &Value) -> bool {
    matches!(text(object, ["kind"]), Some("RoleBinding" | "ClusterRoleBinding"))
}

/// A text in an object. Every look at a version asks for some of each of its objects: no pointer is taken apart for that.
fn text<'a, const N: usize>(object: &'a Value, path: [&str; N]) -> Option<&'a str> {
    path.iter().try_fold(object, |value, key| value.get(*key))?.as_str()
}

fn subject(binding: &Value) -> Option<&str> {
    binding.get("subjects")?.get(0)?.get("name")?.as_str()
}

/// The rules that a binding of an installation gives now; `None` when it or its role is not there.
async fn bound(
    binding: &Value,
    made: &[Value],
    parts: &Parts,
    ctx: &Ctx,
) -> Result<Option<Rules>, ResourceError> {
    let home = text(binding, ["metadata", "namespace"]);
    let known = text(binding, ["metadata", "name"]).is_some_and(|name| parts.has_binding(home, name));
    if !known && ctx.resources.get(&Id::of(binding)?).await?.is_none() {
        return Ok(None);
    }
    let (kind, name) = (text(binding, ["roleRef", "kind"]), text(binding, ["roleRef", "name"]));
    let same = |object: &&Value| {
        text(object, ["kind"]) == kind
            && text(object, ["metadata", "name"]) == name
            && text(object, ["metadata", "namespace"]) == home
    };
    let Some(role) = made.iter().find(same) else { return Ok(None) };
    if let Some(rules) = name.and_then(|name| parts.rules(home, name)) {
        return Ok(Some(rules));
    }
    Ok(ctx.resources.get(&Id::of(role)?).await?.as_ref().map(rules_of))
}

/// Everything that an account may do in some scopes, whoever gave it.
async fn all_rules(
    namespace: &str,
    account: &str,
    scopes: &[Option<String>],
    ctx: &Ctx,
) -> Result<Granted, Error> {
    let mut out = Granted::new();
    let mut roles: HashMap<Id, Rules> = HashMap::new();
    let mut places: Vec<Option<&String>> = vec![None];
    places.extend(scopes.iter().flatten().map(Some));
    for place in places {
        let (kind, plural) = match place {
            None => ("ClusterRoleBinding", "clusterrolebindings"),
            Some(_) => ("RoleBinding", "rolebindings"),
        };
        let resource =
            kube::core::ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(RBAC, "v1", kind), plural);
        let api = match place {
            None => Api::<DynamicObject>::all_with(ctx.client.clone(), &resource),
            Some(namespace) => Api::namespaced_with(ctx.client.clone(), namespace, &resource),
        };
        let list = api.list(&ListParams::default()).await.map_err(Error::kube(format!("list {plural}")))?;
        for binding in list {
            let subjects = binding.data["subjects"].as_array().cloned().unwrap_or_default();
            if !subjects.iter().any(|subject| means(subject, namespace, account, place)) {
                continue;
            }
            let kind = binding.data["roleRef"]["kind"].as_str().unwrap_or_default();
            let name = binding.data["roleRef"]["name"].as_str().unwrap_or_default();
            let home = place.filter(|_| kind == "Role").map(String::as_str);
            let id = Id::new("rbac.authorization.k8s.io/v1", kind, home, name);
            if !roles.contains_key(&id) {
                let role = ctx.resources.get(&id).await?;
                roles.insert(id.clone(), role.as_ref().map(rules_of).unwrap_or_default());
            }
            out.entry(place.cloned())
                .or_default()
                .extend(roles.get(&id).into_iter().flat_map(|r| r.iter()).cloned());
        }
    }
    Ok(out)
}

/// Whether a subject of a binding is the account, by name or as a member of a group.
fn means(subject: &Value, namespace: &str, account: &str, place: Option<&String>) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("ServiceAccount") => {
            let home = subject["namespace"].as_str().or(place.map(String::as_str)).unwrap_or_default();
            name == account && home == namespace
        }
        Some("User") => name == format!("system:serviceaccount:{namespace}:{account}"),
        Some("Group") => {
            let groups = ["system:serviceaccounts", "system:authenticated"];
            groups.contains(&name) || name == format!("system:serviceaccounts:{namespace}")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde_json::json;

    use super::*;

    fn permission(verbs: &[&str]) -> StrategyPermissions {
        let rule = PolicyRule {
            verbs: verbs.iter().map(|v| (*v).to_owned()).collect(),
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["pods".into()]),
            ..PolicyRule::default()
        };
        StrategyPermissions { service_account_name: "robot".into(), rules: vec![rule] }
    }

    #[test]
    fn a_wider_right_from_elsewhere_will_do() {
        let all = Rule::of(&json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
        let granted = Granted::from([(None, vec![all])]);
        let scopes = [Some("db".to_owned())];
        let rules = wanted_rules(&permission(&["get", "list"]), false, &scopes, Some(&granted));
        assert!(rules[0].missing.is_empty(), "{rules:?}");
    }

    #[test]
    fn what_is_missing_is_named_with_its_namespace() {
        let some = Rule::of(&json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }));
        let granted = Granted::from([(Some("db".to_owned()), vec![some])]);
        let scopes = [Some("db".to_owned()), Some("web".to_owned())];
        let rules = wanted_rules(&permission(&["get", "list"]), false, &scopes, Some(&granted));
        let missing: Vec<String> = rules[0]
            .missing
            .iter()
            .map(|(ns, rule)| format!("{rule} in {}", ns.clone().unwrap_or_default()))
            .collect();
        assert_eq!(missing, ["list pods in db", "get,list pods in web"]);
    }

    #[test]
    fn bindings_name_an_account_in_several_ways() {
        let is = |subject: Value| means(&subject, "db", "robot", Some(&"db".to_owned()));
        assert!(is(json!({ "kind": "ServiceAccount", "name": "robot" })));
        assert!(!is(json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "web" })));
        assert!(is(json!({ "kind": "User", "name": "system:serviceaccount:db:robot" })));
        assert!(is(json!({ "kind": "Group", "name": "system:serviceaccounts:db" })));
        assert!(!is(json!({ "kind": "Group", "name": "system:masters" })));
    }
}
