//! Users' roles for an operator's kinds.
//!
//! They belong to their CustomResourceDefinition, which all versions in all namespaces share. So they are
//! checked occasionally for all versions, not at each reconciliation.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use kube::ResourceExt;
use olm_bundle::crd_of_role;
use serde_json::{Value, json};

use super::DesiredObject;
use crate::controllers::csv::facts::Needs;

/// How long a role is assumed to exist after a check.
const TTL: Duration = Duration::from_secs(600);

/// Roles that were up to date at their last check: UID of their definition, name, and time.
#[derive(Debug, Default)]
pub(in crate::controllers::csv) struct Known(Mutex<HashMap<(String, String), Instant>>);

impl Known {
    fn key(manifest: &Value) -> Option<(String, String)> {
        let text = |pointer: &str| Some(manifest.pointer(pointer)?.as_str()?.to_owned());
        Some((text("/metadata/ownerReferences/0/uid")?, text("/metadata/name")?))
    }

    pub(super) fn holds(&self, manifest: &Value) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::key(manifest).and_then(|key| known.get(&key)).is_some_and(|seen| seen.elapsed() < TTL)
    }

    pub(super) fn note(&self, desired: &DesiredObject) {
        let Some(key) = Self::key(&desired.manifest).filter(|_| desired.is_there()) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, seen| seen.elapsed() < TTL);
        known.insert(key, Instant::now());
    }
}

/// Sets the CustomResourceDefinition as owner of a role; `None` when that does not exist.
pub(super) fn own(mut role: Value, needs: &Needs) -> Option<Value> {
    let name = crd_of_role(&role)?;
    let uid = needs.crds.get(&name)?.as_ref()?.uid()?;
    role["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "name": name,
        "uid": uid,
        "controller": false,
        "blockOwnerDeletion": false,
    }]);
    Some(role)
}
