//! Which requests a webhook is asked about.

use std::{cell::OnceCell, sync::Arc};

use serde_json::Value;

use super::{
    Asked, Operation,
    hook::{Matching, Rule, Scope},
};
use crate::api::{
    meta,
    registry::{Body, Resource},
    status::{ApiError, ApiResult},
    store::Key,
};

/// The same resource in its other versions and groups, looked up when somebody needs it.
#[derive(Default)]
pub(crate) struct Equivalents(OnceCell<Vec<Arc<Resource>>>);

impl Equivalents {
    fn of(&self, asked: &Asked<'_>) -> &[Arc<Resource>] {
        self.0.get_or_init(|| {
            let me = asked.resource;
            // Most resources have no other form: requests about them look no further.
            let alone = match &me.body {
                Body::Builtin(builtin) => builtin.stored_as.is_none() && me.stored != "/events",
                Body::Custom { crd, .. } => crd.versions.len() == 1,
            };
            if alone {
                return Vec::new();
            }
            let served = asked.server.registry.served();
            let same = |r: &&Arc<Resource>| {
                r.stored == me.stored && (&r.group, &r.version) != (&me.group, &me.version)
            };
            served.resources.iter().filter(same).cloned().collect()
        })
    }
}

/// The version of the resource that a rule names, if one does and none leaves it out.
pub(crate) fn by_rules(
    matching: &Matching,
    asked: &Asked<'_>,
    others: &Equivalents,
) -> Option<Arc<Resource>> {
    let any = |rules: &[Rule]| -> Option<Arc<Resource>> {
        if rules.iter().any(|rule| rule.matches(asked, asked.resource)) {
            return Some(asked.resource.clone());
        }
        if matching.exact {
            return None;
        }
        rules
            .iter()
            .find_map(|rule| others.of(asked).iter().find(|other| rule.matches(asked, other)).cloned())
    };
    if !matching.excluded.is_empty() && any(&matching.excluded).is_some() {
        return None;
    }
    // Of a policy's binding: no rules are all that the policy has.
    if matching.rules.is_empty() && matching.all {
        return Some(asked.resource.clone());
    }
    any(&matching.rules)
}

impl Rule {
    fn matches(&self, asked: &Asked<'_>, resource: &Resource) -> bool {
        let has = |items: &[String], wanted: &str| items.iter().any(|i| i == "*" || i == wanted);
        has(&self.operations, asked.operation.word())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(name, sub)| {
                (name == "*" || *name == resource.plural) && (sub == "*" || sub == asked.subresource)
            })
            && match self.scope {
                Scope::All => true,
                // Namespaces are cluster-scoped, whatever namespace their own requests have.
                Scope::Namespaced => resource.namespaced,
                Scope::Cluster => !resource.namespaced,
            }
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
    }
}

/// Whether the namespace and the object of a request are among those that are selected.
pub(crate) fn by_selectors(
    matching: &Matching,
    asked: &Asked<'_>,
    object: Option<&Value>,
) -> ApiResult<bool> {
    let labels = |object: Option<&Value>| {
        object.is_some_and(|o| matching.objects.matches_labels(o.pointer("/metadata/labels")))
    };
    let objects =
        matching.objects.is_everything() || labels(object) || labels(asked.old.map(|old| old.as_ref()));
    Ok(objects && by_namespace(matching, asked, object)?)
}

fn by_namespace(matching: &Matching, asked: &Asked<'_>, object: Option<&Value>) -> ApiResult<bool> {
    let is_namespace = asked.resource.is("", "namespaces");
    if matching.namespaces.is_everything() || (asked.namespace.is_empty() && !is_namespace) {
        return Ok(true);
    }
    let matches =
        |namespace: &Value| matching.namespaces.matches_labels(namespace.pointer("/metadata/labels"));
    let written = matches!(asked.operation, Operation::Create | Operation::Update);
    if is_namespace && asked.subresource.is_empty() && written {
        return Ok(object.is_some_and(matches));
    }
    let name = if is_namespace { asked.name } else { asked.namespace };
    match asked.server.store.get(&Key::new("/namespaces", "", name)) {
        Some(namespace) => Ok(matches(&namespace)),
        None => Err(ApiError::not_found("namespaces", "", name)),
    }
}

/// Kind of an object as reviews name it.
pub(crate) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Kind {
    /// Of what was sent; a delete has only the object before.
    pub(crate) fn of(object: Option<&Value>, asked: &Asked<'_>) -> Self {
        let seen = object.or(asked.old.map(|old| old.as_ref()));
        let kind = seen.map(|o| meta::text(o, "/kind")).filter(|k| !k.is_empty());
        match (seen, kind) {
            (Some(seen), Some(kind)) => {
                let api = meta::text(seen, "/apiVersion");
                let (group, version) = api.split_once('/').unwrap_or(("", api));
                Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
            }
            _ => Self::of_resource(asked.resource),
        }
    }

    pub(crate) fn of_resource(resource: &Resource) -> Self {
        Self { group: resource.group.clone(), version: resource.version.clone(), kind: resource.kind.clone() }
    }

    /// Whether it is the kind of the resource itself, not of a subresource such as `Scale`.
    pub(crate) fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group && self.kind == resource.kind
    }
}
