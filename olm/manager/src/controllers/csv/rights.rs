//! Whether the ServiceAccounts of a version have the rights that its permissions require.
//!
//! The objects of an installation are read first, by name. Only where rights are missing are all bindings
//! read: they may come from an administrator, or from another manager under other names.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api,
    api::ListParams,
    core::{DynamicObject, GroupVersionKind},
};
use olm_api::{ClusterServiceVersion, csv::StrategyPermissions};
use olm_engine::resources::{Id, ResourceError};
use olm_plan::{Access, Rule};
use serde_json::Value;

use super::{
    facts::{Account, RequiredRule},
    parts::{Parts, Rules, rules_of},
};
use crate::context::{Ctx, Error};

/// Concurrent single reads.
const READS: usize = 8;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rules of an account, in the cluster (`None`) or a namespace.
pub(super) type Granted = BTreeMap<Option<String>, Vec<Rule>>;

/// The rules that accounts have by the live roles and bindings of an installation.
pub(super) async fn granted(
    made: &[Value],
    parts: &Parts,
    ctx: &Ctx,
) -> Result<BTreeMap<String, Granted>, Error> {
    // Collected first: a lazy closure over references would make the controller's future not Send.
    let reads: Vec<_> = made
        .iter()
        .filter(|object| is_binding(object))
        .map(|binding| rules_by(binding, made, parts, ctx))
        .collect();
    let found: Vec<_> = stream::iter(reads).buffered(READS).try_collect().await?;
    let mut granted: BTreeMap<String, Granted> = BTreeMap::new();
    for (account, scope, rules) in found.into_iter().flatten() {
        granted.entry(account).or_default().entry(scope).or_default().extend(rules.iter().cloned());
    }
    Ok(granted)
}

/// The account that a binding names, its scope, and the rules that it grants; `None` when it or its role does
/// not exist.
async fn rules_by(
    binding: &Value,
    made: &[Value],
    parts: &Parts,
    ctx: &Ctx,
) -> Result<Option<(String, Option<String>, Rules)>, Error> {
    let (Some(account), Some(rules)) = (subject(binding), bound(binding, made, parts, ctx).await?) else {
        return Ok(None);
    };
    let scope = text(binding, ["metadata", "namespace"]).map(str::to_owned);
    Ok(Some((account.to_owned(), scope, rules)))
}

/// Fills in the rules that the accounts lack. `granted` is the result of [`granted`]; `targets` are the
/// namespaces that the version watches. While an InstallPlan makes the rights (`coming`), other bindings are
/// not searched: that reads every binding of the cluster, and the end of the plan triggers another check.
pub(super) async fn check(
    csv: &ClusterServiceVersion,
    granted: &BTreeMap<String, Granted>,
    targets: &[String],
    coming: bool,
    accounts: &mut BTreeMap<String, Account>,
    ctx: &Ctx,
) -> Result<(), Error> {
    for account in accounts.values_mut() {
        account.rules.clear();
    }
    let namespace = csv.metadata.namespace.clone().unwrap_or_default();
    let strategy = &csv.spec.install.spec;
    let everywhere = targets.is_empty() || targets.iter().any(String::is_empty);
    let wanted = [(true, &strategy.cluster_permissions), (false, &strategy.permissions)];
    let scopes = |cluster: bool| -> Vec<Option<String>> {
        if cluster || everywhere { vec![None] } else { targets.iter().cloned().map(Some).collect() }
    };
    let mut all_wanted = Vec::new();
    for (cluster, list) in wanted {
        all_wanted.extend(list.iter().map(|permission| (cluster, permission)));
    }
    let mut others: BTreeMap<&str, Granted> = BTreeMap::new();
    for (cluster, permission) in all_wanted {
        let name = account_name(permission);
        let Some(account) = accounts.get_mut(name).filter(|account| account.uid.is_some()) else { continue };
        let mut rules = required_rules(permission, cluster, &scopes(cluster), granted.get(name));
        if !coming && rules.iter().any(|rule| !rule.missing.is_empty()) {
            if !others.contains_key(name) {
                others.insert(name, all_rules(&namespace, name, &scopes(false), ctx).await?);
            }
            rules = required_rules(permission, cluster, &scopes(cluster), others.get(name));
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

fn required_rules(
    permission: &StrategyPermissions,
    cluster: bool,
    scopes: &[Option<String>],
    granted: Option<&Granted>,
) -> Vec<RequiredRule> {
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
            RequiredRule { cluster, rule, missing }
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

/// A text in an object. Every reconciliation reads several of each object, so no JSON pointer is parsed.
fn text<'a, const N: usize>(object: &'a Value, path: [&str; N]) -> Option<&'a str> {
    path.iter().try_fold(object, |value, key| value.get(*key))?.as_str()
}

fn subject(binding: &Value) -> Option<&str> {
    binding.get("subjects")?.get(0)?.get("name")?.as_str()
}

/// The rules that a binding of an installation grants now; `None` when it or its role does not exist.
async fn bound(
    binding: &Value,
    made: &[Value],
    parts: &Parts,
    ctx: &Ctx,
) -> Result<Option<Rules>, ResourceError> {
    let home = text(binding, ["metadata", "namespace"]);
    let known = text(binding, ["metadata", "name"]).is_some_and(|name| parts.has_binding(home, name));
    let there =
        async { Ok::<_, ResourceError>(known || ctx.resources.get(&Id::of(binding)?).await?.is_some()) };
    let (kind, name) = (text(binding, ["roleRef", "kind"]), text(binding, ["roleRef", "name"]));
    let same = |object: &&Value| {
        text(object, ["kind"]) == kind
            && text(object, ["metadata", "name"]) == name
            && text(object, ["metadata", "namespace"]) == home
    };
    let Some(role) = made.iter().find(same) else { return Ok(None) };
    let rules = async {
        match name.and_then(|name| parts.rules(home, name)) {
            Some(rules) => Ok(Some(rules)),
            None => Ok::<_, ResourceError>(ctx.resources.get(&Id::of(role)?).await?.as_ref().map(rules_of)),
        }
    };
    let (there, rules) = tokio::try_join!(there, rules)?;
    Ok(rules.filter(|_| there))
}

/// All rights of an account in some scopes, from any binding.
async fn all_rules(
    namespace: &str,
    account: &str,
    scopes: &[Option<String>],
    ctx: &Ctx,
) -> Result<Granted, Error> {
    let mut places: Vec<Option<&String>> = vec![None];
    places.extend(scopes.iter().flatten().map(Some));
    let lists: Vec<_> = places.iter().map(|place| bindings(*place, ctx)).collect();
    let lists: Vec<_> = stream::iter(lists).buffered(READS).try_collect().await?;
    // The roles and their scopes; several bindings grant the same one.
    let mut bound: Vec<(Option<String>, Id)> = Vec::new();
    for (place, list) in places.into_iter().zip(lists) {
        for binding in list {
            let subjects = binding.data["subjects"].as_array().cloned().unwrap_or_default();
            if !subjects.iter().any(|subject| means(subject, namespace, account, place)) {
                continue;
            }
            let kind = binding.data["roleRef"]["kind"].as_str().unwrap_or_default();
            let name = binding.data["roleRef"]["name"].as_str().unwrap_or_default();
            let home = place.filter(|_| kind == "Role").map(String::as_str);
            bound.push((place.cloned(), Id::new("rbac.authorization.k8s.io/v1", kind, home, name)));
        }
    }
    let ids: HashSet<Id> = bound.iter().map(|(_, id)| id.clone()).collect();
    let reads: Vec<_> = ids.into_iter().map(|id| role(id, ctx)).collect();
    let roles: HashMap<Id, Rules> = stream::iter(reads).buffer_unordered(READS).try_collect().await?;
    let mut out = Granted::new();
    for (place, id) in bound {
        out.entry(place).or_default().extend(roles.get(&id).into_iter().flat_map(|r| r.iter()).cloned());
    }
    Ok(out)
}

/// All bindings of a namespace, or those in the whole cluster.
async fn bindings(place: Option<&String>, ctx: &Ctx) -> Result<Vec<DynamicObject>, Error> {
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
    Ok(list.items)
}

async fn role(id: Id, ctx: &Ctx) -> Result<(Id, Rules), ResourceError> {
    let role = ctx.resources.get(&id).await?;
    Ok((id, role.as_ref().map(rules_of).unwrap_or_default()))
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
        let rules = required_rules(&permission(&["get", "list"]), false, &scopes, Some(&granted));
        assert!(rules[0].missing.is_empty(), "{rules:?}");
    }

    #[test]
    fn what_is_missing_is_named_with_its_namespace() {
        let some = Rule::of(&json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }));
        let granted = Granted::from([(Some("db".to_owned()), vec![some])]);
        let scopes = [Some("db".to_owned()), Some("web".to_owned())];
        let rules = required_rules(&permission(&["get", "list"]), false, &scopes, Some(&granted));
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
