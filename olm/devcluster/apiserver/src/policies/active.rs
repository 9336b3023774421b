//! The active policies.

use std::sync::{Arc, PoisonError, RwLock};

use super::policy::{Mutation, Policy, Validation};
use crate::{resource::Resource, store::Store, webhooks::active::GROUP};

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

    pub(crate) fn mutating(&self) -> Arc<[Policy<Mutation>]> {
        self.mutating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn validating(&self) -> Arc<[Policy<Validation>]> {
        self.validating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a write affects the active policies.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural.contains("admissionpolic")
}
