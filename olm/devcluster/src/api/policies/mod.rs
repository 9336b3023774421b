//! Admission policies: rules in CEL, kept as objects, that change requests or refuse them.
//!
//! * [`policy`]: compiled policies and their bindings; [`params`]: the objects that bindings hand to them
//! * [`mutate`](mod@mutate) and [`validate`](mod@validate): what they do to a request, before the webhooks of the same round
//! * [`rules`]: what policies and bindings must look like
//!
//! As Kubernetes, but for the `authorizer` variable, which expressions do not have, and audit annotations, which are checked
//! and not written: there is no audit log.

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
    webhooks::{Asked, Equivalents, GROUP, by_rules},
};

/// The policies that are in force, compiled; requests share them and a changed object replaces them.
#[derive(Default)]
pub(crate) struct Policies {
    mutating: RwLock<Arc<[Policy<Mutation>]>>,
    validating: RwLock<Arc<[Policy<Validation>]>>,
}

impl Policies {
    /// Takes up what the store says now.
    pub(crate) fn reload(&self, store: &Store) {
        // The locks are held over the reading: of two reloads at once, the last to read is the last to write.
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

    /// Whether any of them has a rule for a request. Cheap: most requests concern nobody.
    pub(crate) fn concern(&self, asked: &Asked<'_>) -> bool {
        any(&self.mutating(), asked) || self.concern_validating(asked)
    }

    /// Whether any of those that refuse has a rule for it.
    pub(crate) fn concern_validating(&self, asked: &Asked<'_>) -> bool {
        any(&self.validating(), asked)
    }
}

fn any<S>(policies: &[Policy<S>], asked: &Asked<'_>) -> bool {
    let others = Equivalents::default();
    policies.iter().any(|policy| by_rules(&policy.matching, asked, &others).is_some())
}

/// Whether a write is one that changes which policies are in force.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural.contains("admissionpolic")
}

/// The namespace of a request as expressions see it; null for what is in none.
fn namespace_object(asked: &Asked<'_>) -> Arc<Value> {
    if asked.namespace.is_empty() || asked.resource.is("", "namespaces") {
        return Arc::default();
    }
    asked.server.store.get(&Key::new("/namespaces", "", asked.namespace)).unwrap_or_default()
}
