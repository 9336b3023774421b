//! Shared manifests.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde_json::Value;

/// A manifest shared by its clones until one of them is changed: a definition of a large operator has a
/// hundred kilobytes, and copies would dominate the cost of an installation.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest(Arc<Value>);

impl Manifest {
    /// The manifest, without a copy if it is not shared.
    #[must_use]
    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.0)
    }
}

impl From<Value> for Manifest {
    fn from(value: Value) -> Self {
        Self(Arc::new(value))
    }
}

impl Deref for Manifest {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// Changing a shared one copies it.
impl DerefMut for Manifest {
    fn deref_mut(&mut self) -> &mut Value {
        Arc::make_mut(&mut self.0)
    }
}
