//! The rights of a bundle.

use std::collections::{BTreeMap, BTreeSet};

use olm_kube_schema::rbac::covering_resources;
use serde_json::Value;

use super::describe::describe;
use super::grade::{Level, PermissionRule};
use super::loose::{Own, loose};
use super::pods::node_access;
use super::right::{MOST, Right, rights_of};
use super::webhooks::seen_by;

/// The rights of a bundle's objects.
#[derive(Clone, Debug, Default)]
pub struct Rights<'a> {
    rights: BTreeSet<Right<'a>>,
    /// Findings that are not rules of a role: pods with node access, roles that the bundle does not contain.
    others: BTreeSet<PermissionRule>,
    own_crds: BTreeSet<&'a str>,
    /// Groups of the aggregated APIs that it serves.
    own_groups: BTreeSet<&'a str>,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> Rights<'a> {
    /// The rights granted by roles, requests visible to webhooks, and node access of pods. An aggregated role
    /// grants its rules to all subjects of the aggregating role; a role without bindings grants its rules to
    /// later subjects.
    pub fn of(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut this = Self::default();
        let mut roles: BTreeMap<(&str, &str, &str), &Value> = BTreeMap::new();
        let (mut bindings, mut webhooks, mut bound) = (Vec::new(), Vec::new(), BTreeSet::new());
        for object in objects {
            let name = text(object, "/metadata/name");
            match text(object, "/kind") {
                "Role" => drop(roles.insert(("Role", text(object, "/metadata/namespace"), name), object)),
                "ClusterRole" => drop(roles.insert(("ClusterRole", "", name), object)),
                "ClusterRoleBinding" => bindings.push((None, object)),
                "RoleBinding" => bindings.push((Some(text(object, "/metadata/namespace")), object)),
                "CustomResourceDefinition" => drop(this.own_crds.insert(name)),
                "APIService" => drop(this.own_groups.insert(text(object, "/spec/group"))),
                "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => webhooks.push(object),
                _ => this.others.extend(node_access(object)),
            }
        }
        let mut left = MOST;
        for (namespace, binding) in bindings {
            let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
            let home = if kind == "Role" { namespace.unwrap_or_default() } else { "" };
            let Some(role) = roles.get(&(kind, home, name)) else {
                this.others.insert(foreign_role(namespace, kind, name));
                continue;
            };
            bound.insert((kind, home, name));
            this.rights.extend(rights_of(role, namespace, &mut left));
        }
        for (key, role) in &roles {
            let own = Own { crds: &this.own_crds, groups: &this.own_groups };
            this.others.extend(loose(role, bound.contains(key), &own, &mut left));
        }
        for configuration in webhooks {
            this.others.extend(seen_by(configuration, &this.own_crds));
        }
        if left == 0 {
            this.others.insert(PermissionRule {
                rule: format!("more than {MOST} rights"),
                level: Level::High,
                reason: Some("too many to assess".to_owned()),
                scope: "cluster".to_owned(),
            });
        }
        this
    }

    /// All rights as text: the most dangerous first.
    #[must_use]
    pub fn rules(&self) -> Vec<PermissionRule> {
        let mut list = describe(&self.rights, &self.own_crds);
        list.extend(self.others.iter().cloned());
        sorted(list)
    }

    /// The rights that `other` lacks, the most dangerous first. A right covered by a wildcard of the other is
    /// not new.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Vec<PermissionRule> {
        let rights = self.rights.iter().filter(|right| !other.covers(right));
        let mut list = describe(rights, &self.all_crds(other));
        list.extend(self.others.difference(&other.others).cloned());
        sorted(list)
    }

    /// The common rights, the most dangerous first.
    #[must_use]
    pub fn shared(&self, other: &Self) -> Vec<PermissionRule> {
        let rights = self.rights.iter().filter(|right| other.covers(right));
        let mut list = describe(rights, &self.all_crds(other));
        list.extend(self.others.intersection(&other.others).cloned());
        sorted(list)
    }

    /// A CRD of either version is its own.
    fn all_crds(&self, other: &Self) -> BTreeSet<&'a str> {
        self.own_crds.union(&other.own_crds).copied().collect()
    }

    fn covers(&self, right: &Right<'_>) -> bool {
        let rights: &BTreeSet<Right<'_>> = &self.rights;
        if rights.contains(right) {
            return true;
        }
        let resources = covering_resources(right.resource);
        for namespace in one_or_none(right.namespace) {
            for name in one_or_none(right.name) {
                for verb in [right.verb, "*"] {
                    for group in [right.group, "*"] {
                        for resource in &resources {
                            if rights.contains(&Right {
                                namespace,
                                group,
                                resource,
                                name,
                                verb,
                                url: right.url,
                            }) {
                                return true;
                            }
                        }
                    }
                }
            }
        }
        false
    }
}

fn one_or_none(limit: Option<&str>) -> impl Iterator<Item = Option<&str>> + Clone {
    limit.map(Some).into_iter().chain([None])
}

fn sorted(mut list: Vec<PermissionRule>) -> Vec<PermissionRule> {
    list.sort_by(|a, b| (a.level, &a.rule, &a.scope).cmp(&(b.level, &b.rule, &b.scope)));
    list
}

/// The rights of a role outside of the bundle: those of Kubernetes' default roles are known.
fn foreign_role(namespace: Option<&str>, kind: &str, name: &str) -> PermissionRule {
    let cluster = namespace.is_none();
    let (level, reason) = match (kind, name) {
        ("ClusterRole", "cluster-admin") if cluster => {
            (Level::High, Some("may do everything in the cluster"))
        }
        ("ClusterRole", "cluster-admin" | "admin" | "edit") if !cluster => {
            (Level::Med, Some("may do nearly everything in the namespace"))
        }
        ("ClusterRole", "admin" | "edit") => (Level::High, Some("reaches into pods of others")),
        ("ClusterRole", "view" | "system:auth-delegator") => (Level::Low, None),
        ("Role", "extension-apiserver-authentication-reader") => (Level::Low, None),
        _ => (Level::Med, Some("what it may do is not in the bundle")),
    };
    PermissionRule {
        rule: format!("all that {kind} {name} may"),
        level,
        reason: reason.map(str::to_owned),
        scope: namespace.unwrap_or("cluster").to_owned(),
    }
}
