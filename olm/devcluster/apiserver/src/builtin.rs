//! Properties of built-in kinds that the generic code path needs.

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::Value;

use super::names::NameRule;

/// A built-in kind.
pub(crate) struct Builtin {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// Has `/status`, and writes to the main resource do not change the status.
    pub status: bool,
    /// Has `/scale` at `spec.replicas` and `status.replicas`.
    pub scale: bool,
    /// `metadata.generation` counts changes of `spec`.
    pub generation: bool,
    /// A component of the dev cluster implements it, or it needs none.
    pub enforced: bool,
    /// Field paths besides metadata.name and metadata.namespace that field selectors support.
    pub fields: &'static [&'static str],
    /// Storage key, for a kind that shares its objects with another one.
    pub stored_as: Option<&'static str>,
    pub name_rule: NameRule,
    /// Sets Kubernetes' defaults.
    pub default: fn(&mut Value),
    /// Runs before an object is stored: new object, stored object.
    pub prepare: fn(&mut Value, Option<&Value>),
    pub validate: fn(&Value, Option<&Value>, &mut Vec<FieldError>),
}

/// A virtual resource that only supports POST and stores nothing.
pub(crate) struct Review {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
}

/// A subresource of a built-in kind other than `status` and `scale`.
pub(crate) struct Subresource {
    pub of: &'static str,
    pub name: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}
