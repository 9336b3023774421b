//! OperatorCondition: status that an operator reports to the manager, above all `Upgradeable`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, find};
use crate::lenient::null_as_default;
use crate::names::CONDITION_UPGRADEABLE;

/// Conditions reported by the operator, and overrides of the administrator.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    plural = "operatorconditions",
    shortname = "condition",
    category = "olm",
    namespaced,
    status = "OperatorConditionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Communication from an operator to the manager."
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorConditionSpec {
    /// ServiceAccounts of the operator, which may write this object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// Deployments of the operator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<String>,
    /// Overrides of the administrator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Condition>,
    /// Conditions reported by the operator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The conditions in effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorConditionStatus {
    /// The observed generation (not upstream). Argo CD, Flux and `kubectl wait` read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl OperatorCondition {
    /// Whether the operator may be upgraded, else why not. An administrator's override takes precedence; a
    /// condition for an older generation does not count as a yes.
    pub fn upgradeable(&self) -> Result<(), String> {
        let why = |c: &Condition| {
            let reason = c.reason.as_deref().unwrap_or("no reason given");
            match &c.message {
                Some(message) => format!("{reason}: {message}"),
                None => reason.to_owned(),
            }
        };
        if let Some(over) = find(&self.spec.overrides, CONDITION_UPGRADEABLE) {
            return if over.is_true() { Ok(()) } else { Err(why(over)) };
        }
        let Some(found) = find(&self.spec.conditions, CONDITION_UPGRADEABLE) else { return Ok(()) };
        if let (Some(observed), Some(generation)) = (found.observed_generation, self.metadata.generation)
            && observed != generation
        {
            return Err(format!(
                "the condition Upgradeable is outdated (written for generation {observed}, now {generation})"
            ));
        }
        if found.status == crate::condition::ConditionStatus::False { Err(why(found)) } else { Ok(()) }
    }
}
