//! Admission policies: CEL rules, stored as objects, that change or refuse requests.
//!
//! * [`policy`]: compiled policies and their bindings; [`params`]: the parameter objects of bindings
//! * [`mutate`](mod@mutate) and [`validate`](mod@validate): their evaluation, before the webhooks of the same
//!   round
//! * [`rules`]: validation of policies and bindings
//!
//! As in Kubernetes, except for the `authorizer` variable, which expressions do not have, and audit
//! annotations, which are validated and not written: there is no audit log.

mod mutate;
mod params;
mod policy;
mod rules;
mod validate;

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use self::policy::{Mutation, Policy, Validation};
pub(crate) use self::{
    mutate::{Rounds, mutate},
    rules::{
        defaults, defaults_binding, mutating_binding_rules, mutating_rules, validating_binding_rules,
        validating_rules,
    },
    validate::validate,
};
use super::{
    registry::Resource,
    store::{Key, Store},
    webhooks::{AdmissionRequest, Equivalents, GROUP, by_rules},
};

/// The active policies, compiled; requests share them and a changed object replaces them.
#[derive(Default)]
pub(crate) struct Policies {
    mutating: RwLock<Arc<[Policy<Mutation>]>>,
    validating: RwLock<Arc<[Policy<Validation>]>>,
}

impl Policies {
    /// Reloads the policies from the store.
    pub(crate) fn reload(&self, store: &Store) {
        // The locks are held during the read: of two concurrent reloads, the last to read is the last to
        // write.
        let mut mutating = self.mutating.write().unwrap_or_else(PoisonError::into_inner);
        *mutating = Policy::all(store);
        drop(mutating);
        let mut validating = self.validating.write().unwrap_or_else(PoisonError::into_inner);
        *validating = Policy::all(store);
    }

    fn mutating(&self) -> Arc<[Policy<Mutation>]> {
        self.mutating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn validating(&self) -> Arc<[Policy<Validation>]> {
        self.validating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether any policy has a rule for a request. Cheap, because most requests match none.
    pub(crate) fn concern(&self, admission: &AdmissionRequest<'_>) -> bool {
        any(&self.mutating(), admission) || self.concern_validating(admission)
    }

    /// Whether any validating policy has a rule for it.
    pub(crate) fn concern_validating(&self, admission: &AdmissionRequest<'_>) -> bool {
        any(&self.validating(), admission)
    }
}

fn any<S>(policies: &[Policy<S>], admission: &AdmissionRequest<'_>) -> bool {
    let others = Equivalents::default();
    policies.iter().any(|policy| by_rules(&policy.matching, admission, &others).is_some())
}

/// Whether a write affects the active policies.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural.contains("admissionpolic")
}

/// The namespace of a request for expressions; null for a cluster-scoped one.
fn namespace_object(admission: &AdmissionRequest<'_>) -> Arc<Value> {
    if admission.namespace.is_empty() || admission.resource.is("", "namespaces") {
        return Arc::default();
    }
    admission.server.store.get(&Key::new("/namespaces", "", admission.namespace)).unwrap_or_default()
}
