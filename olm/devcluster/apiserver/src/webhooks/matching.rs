//! Matches requests with webhooks and policies.

use std::{cell::OnceCell, sync::Arc};

use serde_json::Value;

use super::{
    hook::{Hook, Matching, Rule, Scope},
    request::{AdmissionRequest, Operation},
};
use crate::{
    meta,
    policies::policy::Policy,
    resource::{Body, Resource},
    status::{ApiError, ApiResult},
    store::Key,
};

/// The same resource in its other versions and groups, computed on first use.
#[derive(Default)]
pub(crate) struct Equivalents(OnceCell<Vec<Arc<Resource>>>);

impl Equivalents {
    fn of(&self, admission: &AdmissionRequest<'_>) -> &[Arc<Resource>] {
        self.0.get_or_init(|| {
            let me = admission.resource;
            // Most resources have no equivalent, so the lookup stops here.
            let alone = match &me.body {
                Body::Builtin(builtin) => builtin.stored_as.is_none() && me.stored != "/events",
                Body::Custom { crd, .. } => crd.versions.len() == 1,
            };
            if alone {
                return Vec::new();
            }
            let served = admission.server.registry.served();
            let same = |r: &&Arc<Resource>| {
                r.stored == me.stored && (&r.group, &r.version) != (&me.group, &me.version)
            };
            served.resources.iter().filter(same).cloned().collect()
        })
    }
}

/// The version of the resource that matches the rules and no exclusion.
pub(crate) fn by_rules(
    matching: &Matching,
    admission: &AdmissionRequest<'_>,
    others: &Equivalents,
) -> Option<Arc<Resource>> {
    let any = |rules: &[Rule]| -> Option<Arc<Resource>> {
        if rules.iter().any(|rule| rule.matches(admission, admission.resource)) {
            return Some(admission.resource.clone());
        }
        if matching.exact {
            return None;
        }
        rules.iter().find_map(|rule| {
            others.of(admission).iter().find(|other| rule.matches(admission, other)).cloned()
        })
    };
    if !matching.excluded.is_empty() && any(&matching.excluded).is_some() {
        return None;
    }
    // For a policy's binding, empty rules match all requests of the policy.
    if matching.rules.is_empty() && matching.all {
        return Some(admission.resource.clone());
    }
    any(&matching.rules)
}

impl Rule {
    fn matches(&self, admission: &AdmissionRequest<'_>, resource: &Resource) -> bool {
        let has = |items: &[String], wanted: &str| items.iter().any(|i| i == "*" || i == wanted);
        has(&self.operations, admission.operation.as_str())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(name, sub)| {
                (name == "*" || *name == resource.plural) && (sub == "*" || sub == admission.subresource)
            })
            && match self.scope {
                Scope::All => true,
                // Namespaces are cluster-scoped, although their requests have a namespace.
                Scope::Namespaced => resource.namespaced,
                Scope::Cluster => !resource.namespaced,
            }
            && (self.names.is_empty() || self.names.iter().any(|name| name == admission.name))
    }
}

impl AdmissionRequest<'_> {
    /// Whether any policy or webhook has a rule for it. Cheap, because most requests match none.
    pub(crate) fn matches_any(&self) -> bool {
        self.concerns(&self.server.webhooks.mutating())
            || (!self.is_exempt() && self.has_policy(&self.server.policies.mutating()))
            || self.concerns_validating()
    }

    /// Whether any validating policy or webhook has a rule for it.
    pub(crate) fn concerns_validating(&self) -> bool {
        self.concerns(&self.server.webhooks.validating())
            || (!self.is_exempt() && self.has_policy(&self.server.policies.validating()))
    }

    pub(super) fn concerns(&self, hooks: &[Hook]) -> bool {
        if hooks.is_empty() || self.is_exempt() {
            return false;
        }
        let others = Equivalents::default();
        hooks.iter().any(|hook| by_rules(&hook.matching, self, &others).is_some())
    }

    fn has_policy<S>(&self, policies: &[Policy<S>]) -> bool {
        let others = Equivalents::default();
        policies.iter().any(|policy| by_rules(&policy.matching, self, &others).is_some())
    }
}

/// Whether the selectors match the namespace and the object of a request.
pub(crate) fn by_selectors(
    matching: &Matching,
    admission: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> ApiResult<bool> {
    let labels = |object: Option<&Value>| {
        object.is_some_and(|o| matching.objects.matches_labels(o.pointer("/metadata/labels")))
    };
    let objects =
        matching.objects.is_everything() || labels(object) || labels(admission.old.map(|old| old.as_ref()));
    Ok(objects && by_namespace(matching, admission, object)?)
}

fn by_namespace(
    matching: &Matching,
    admission: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> ApiResult<bool> {
    let is_namespace = admission.resource.is("", "namespaces");
    if matching.namespaces.is_everything() || (admission.namespace.is_empty() && !is_namespace) {
        return Ok(true);
    }
    let matches =
        |namespace: &Value| matching.namespaces.matches_labels(namespace.pointer("/metadata/labels"));
    let written = matches!(admission.operation, Operation::Create | Operation::Update);
    if is_namespace && admission.subresource.is_empty() && written {
        return Ok(object.is_some_and(matches));
    }
    let name = if is_namespace { admission.name } else { admission.namespace };
    match admission.server.store.get(&Key::new("/namespaces", "", name)) {
        Some(namespace) => Ok(matches(&namespace)),
        None => Err(ApiError::not_found("namespaces", "", name)),
    }
}

/// Kind of an object in reviews.
pub(crate) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Kind {
    /// From the sent object; a delete has only the old one.
    pub(crate) fn of(object: Option<&Value>, admission: &AdmissionRequest<'_>) -> Self {
        let seen = object.or(admission.old.map(|old| old.as_ref()));
        let kind = seen.map(|o| meta::text(o, "/kind")).filter(|k| !k.is_empty());
        match (seen, kind) {
            (Some(seen), Some(kind)) => {
                let api = meta::text(seen, "/apiVersion");
                let (group, version) = api.split_once('/').unwrap_or(("", api));
                Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
            }
            _ => Self::of_resource(admission.resource),
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
