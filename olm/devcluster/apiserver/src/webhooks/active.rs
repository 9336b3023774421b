//! The active webhooks.

use std::sync::{Arc, PoisonError, RwLock};

use super::hook::Hook;
use crate::{resource::Resource, store::Store};

/// Group of webhook configurations, which are exempt from webhooks so that a faulty one can be removed.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// The active webhooks, compiled; requests share them and a changed configuration replaces them.
#[derive(Default)]
pub(crate) struct Webhooks {
    mutating: RwLock<Arc<[Hook]>>,
    validating: RwLock<Arc<[Hook]>>,
}

impl Webhooks {
    /// Reloads the webhooks from the store.
    pub(crate) fn reload(&self, store: &Store) {
        for (hooks, plural) in [(&self.mutating, MUTATING), (&self.validating, VALIDATING)] {
            // The lock is held during the read: of two concurrent reloads, the last to read is the last to
            // write.
            let mut hooks = hooks.write().unwrap_or_else(PoisonError::into_inner);
            *hooks = compile(store, plural);
        }
    }

    pub(super) fn mutating(&self) -> Arc<[Hook]> {
        self.mutating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn validating(&self) -> Arc<[Hook]> {
        self.validating.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The webhooks of all configurations: by name of the configuration, then as written.
fn compile(store: &Store, plural: &str) -> Arc<[Hook]> {
    let configurations = store.list(&format!("{GROUP}/{plural}"), "").items;
    configurations.iter().flat_map(|configuration| Hook::all_of(configuration)).collect()
}

/// Whether a write affects the active webhooks.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.group == GROUP && matches!(resource.plural.as_str(), MUTATING | VALIDATING)
}
