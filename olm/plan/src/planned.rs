//! Operations of a plan on single objects.

use olm_bundle::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::ObjectRef;

/// The change of one object.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    /// `Kind.version.group`, or `Kind.version` for the core group.
    pub gvk: String,
    /// Namespace, absent for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ns: Option<String>,
    /// Name.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// The phase of the operation; absent for deletions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// Changed fields, of those that the plan sets.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub diff: Vec<FieldDiff>,
    /// Whether secret values are omitted from the diff.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub masked: bool,
    /// The object whose deletion deletes it, by garbage collection or by the manager, as `Kind
    /// namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub goes_with: Option<String>,
    /// A note, such as the owner of an adopted object.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// The reference.
    #[serde(skip)]
    pub reference: ObjectRef,
}

impl PlannedObject {
    /// An object without differences or findings.
    pub(crate) fn new(reference: &ObjectRef, op: Op, phase: Option<Phase>) -> Self {
        let gvk = match reference.group() {
            "" => format!("{}.{}", reference.kind, reference.version()),
            group => format!("{}.{}.{group}", reference.kind, reference.version()),
        };
        Self {
            gvk,
            ns: reference.namespace.clone(),
            name: reference.name.clone(),
            op,
            phase,
            diff: Vec::new(),
            masked: false,
            goes_with: None,
            note: None,
            reference: reference.clone(),
        }
    }
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// The object is created.
    Create,
    /// Fields of the object change.
    Update,
    /// The object exists without an owner and is adopted.
    Adopt,
    /// The object is deleted.
    Delete,
    /// The object is deliberately not changed.
    Noop,
    /// The object already has the desired state.
    Unchanged,
}

impl Op {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Adopt => "adopt",
            Self::Delete => "delete",
            Self::Noop => "noop",
            Self::Unchanged => "unchanged",
        }
    }
}

/// A changed field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// JSON pointer. Elements of lists that are merged by key are identified by it
    /// (`containers[name=manager]`).
    pub path: String,
    /// The current value; absent if the field is not set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub live: Option<Value>,
    /// The last applied value; absent if unknown or not set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<Value>,
    /// The new value; absent if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new: Option<Value>,
    /// The cause of the difference.
    #[serde(default)]
    pub cause: Cause,
    /// Field managers, other than the manager's, that set the current value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// Whether long values are truncated.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub cut: bool,
}

/// The cause of a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The new version: the current value is the last applied one.
    Change,
    /// Drift: the value was changed since it was applied last, and is reverted.
    Drift,
    /// Drift and the new version: a value changed since it was applied last is replaced by a new one.
    Both,
    /// The last applied value is unknown.
    #[default]
    Unknown,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Drift => "drift",
            Self::Both => "both",
            Self::Unknown => "unknown",
        }
    }
}
