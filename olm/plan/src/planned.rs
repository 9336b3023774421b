//! Operations of a plan on single objects.

use olm_bundle::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::ObjectRef;

/// What happens to one object.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedObject {
    /// `Kind.version.group`, or `Kind.version` for the core group.
    pub gvk: String,
    /// Namespace, where it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ns: Option<String>,
    /// Name.
    pub name: String,
    /// What happens.
    pub op: Op,
    /// The phase it happens in; deletions have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// Fields that change, of those that we set: what is there, what was applied last, what will be there.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub diff: Vec<FieldDiff>,
    /// Whether values were left out of the diff because they are secret.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub masked: bool,
    /// The object with which it is deleted, as `Kind namespace/name`: by garbage collection, or by the manager.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub goes_with: Option<String>,
    /// A remark, such as who owns an object that is adopted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// The reference.
    #[serde(skip)]
    pub reference: ObjectRef,
}

impl PlannedObject {
    /// An object without differences or remarks.
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

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// It is made.
    Create,
    /// Fields of it change.
    Update,
    /// It is there without an owner, and becomes ours.
    Adopt,
    /// It is deleted.
    Delete,
    /// It is left alone on purpose.
    Noop,
    /// It is already as it should be.
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

/// One field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldDiff {
    /// JSON pointer; an element of a list that is merged by key is named by it (`containers[name=manager]`).
    pub path: String,
    /// The value that is there; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub live: Option<Value>,
    /// The value that was applied last, as far as that is known; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<Value>,
    /// The value that will be there; absent when there will be none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new: Option<Value>,
    /// Who made the difference.
    #[serde(default)]
    pub cause: Cause,
    /// The field managers that set what is there, where that is not us.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// Whether a value is only the beginning of a long one.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub cut: bool,
}

/// Who made a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The new version: what is there is what was applied last.
    Change,
    /// Somebody else, since it was applied last: it is put back.
    Drift,
    /// Both: what somebody else put there is replaced by something new.
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
