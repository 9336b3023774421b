//! Roles whose rights do not come from a binding of the bundle: those aggregated into other roles, those that
//! aggregate other roles, and unbound ones.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::describe::describe;
use super::grade::{Level, PermissionRule};
use super::right::{Right, rights_of};
use crate::render::crd_of_role;

/// The bundle's own APIs.
pub(super) struct Own<'a> {
    pub(super) crds: &'a BTreeSet<&'a str>,
    /// Groups of aggregated APIs.
    pub(super) groups: &'a BTreeSet<&'a str>,
}

impl Own<'_> {
    fn covers(&self, right: &Right<'_>) -> bool {
        let resource = right.resource.split('/').next().unwrap_or_default();
        !right.url
            && (self.groups.contains(right.group)
                || self.crds.contains(format!("{resource}.{}", right.group).as_str()))
    }
}

/// Rights of a role besides its bindings.
pub(super) fn loose(role: &Value, bound: bool, own: &Own<'_>, left: &mut usize) -> Vec<PermissionRule> {
    let text = |pointer: &str| role.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    // Roles over the kinds of the bundle are for its users.
    if crd_of_role(role).is_some_and(|crd| own.crds.contains(crd.as_str())) {
        return Vec::new();
    }
    let namespace = (kind == "Role").then(|| text("/metadata/namespace"));
    let adds_to = adds_to(role);
    let mut list = Vec::new();
    if role.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        list.push(PermissionRule {
            rule: format!("all that other roles add to ClusterRole {name}"),
            level: Level::High,
            reason: Some("others can add rights to it".to_owned()),
            scope: "cluster".to_owned(),
        });
    }
    if adds_to.is_empty() && bound {
        return list;
    }
    let rights = rights_of(role, namespace, left);
    // Without a binding, rights of level LOW are left out.
    let most = if adds_to.is_empty() { Level::Med } else { Level::Low };
    let foreign = rights.iter().filter(|right| !own.covers(right));
    let rules = describe(foreign, own.crds).into_iter().filter(|rule| rule.level <= most);
    list.extend(rules.map(|rule| match adds_to.as_slice() {
        [] => {
            PermissionRule { rule: format!("{}, by {kind} {name}, which has no binding", rule.rule), ..rule }
        }
        roles => PermissionRule {
            rule: format!("{}, for all subjects of ClusterRole {}", rule.rule, roles.join(", ")),
            level: Level::High,
            reason: Some("adds to the rights of others".to_owned()),
            ..rule
        },
    }));
    list
}

/// The roles that a ClusterRole is aggregated into, by its labels.
fn adds_to(role: &Value) -> Vec<&str> {
    let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
    let on = labels.into_iter().flat_map(Map::iter).filter(|(_, value)| *value == "true");
    on.filter_map(|(key, _)| Some(key.split_once("/aggregate-to-")?.1)).collect()
}
