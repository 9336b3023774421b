//! Conflicts between managers, in Kubernetes' wording.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    managers::{Id, Manager, Managers},
    set::FieldSet,
};

/// A field that another manager owns with a different value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as in messages: `"kubectl" using apps/v1`.
    pub manager: String,
    /// Path of the field: `.spec.replicas`.
    pub field: String,
}

/// A refused apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields that the configuration would change.
    Conflicts(Vec<Conflict>),
    /// The configuration is not valid.
    Invalid(String),
}

impl std::error::Error for ApplyError {}

impl std::fmt::Display for ApplyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid(text) => f.write_str(text),
            Self::Conflicts(conflicts) => f.write_str(&message(conflicts)),
        }
    }
}

impl ApplyError {
    /// The response `Status`: 409 with the conflicts as causes, or 400.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.to_string(),
            "reason": "BadRequest",
            "code": 400,
        });
        if let Self::Conflicts(conflicts) = self {
            let causes: Vec<Value> = conflicts
                .iter()
                .map(|conflict| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", conflict.manager),
                        "field": conflict.field,
                    })
                })
                .collect();
            status["reason"] = "Conflict".into();
            status["details"] = json!({ "causes": causes });
            status["code"] = 409.into();
        }
        status
    }
}

fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.field);
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(&conflict.field);
    }
    let mut lines = Vec::new();
    for (manager, fields) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(fields.iter().map(|field| format!("- {field}")));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

fn show(manager: &Manager) -> String {
    let mut text = format!("{:?}", manager.id.manager);
    if !manager.id.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", manager.id.subresource));
    }
    if !manager.id.apply {
        text.push_str(&format!(" using {}", manager.api_version));
    }
    text
}

/// The fields of `taken` that managers other than `id` own.
pub(super) fn conflicts_with(managers: &Managers, id: &Id, taken: &FieldSet) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for manager in managers.others(id) {
        for field in manager.set.intersection(taken).paths() {
            conflicts.push(Conflict { manager: show(manager), field });
        }
    }
    conflicts
}
