//! Install strategy of an operator: Deployments and permissions.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::{any_object, null_as_default};

/// How an operator runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallStrategy {
    /// Always "deployment".
    #[serde(deserialize_with = "null_as_default")]
    pub strategy: String,
    /// Deployments and permissions.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: StrategyDetails,
}

/// Deployments and permissions of an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDetails {
    /// Deployments of the operator.
    #[serde(deserialize_with = "null_as_default")]
    pub deployments: Vec<StrategyDeployment>,
    /// Permissions in the target namespaces.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<StrategyPermissions>,
    /// Permissions in all namespaces and on cluster-scoped resources.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub cluster_permissions: Vec<StrategyPermissions>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDeployment {
    /// Name of the Deployment.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Labels of the Deployment.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub label: BTreeMap<String, String>,
    /// A DeploymentSpec, passed on unchanged.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "any_object")]
    pub spec: Value,
}

/// Permissions of a ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyPermissions {
    /// Name of the ServiceAccount.
    #[serde(deserialize_with = "null_as_default")]
    pub service_account_name: String,
    /// The rules.
    #[serde(deserialize_with = "null_as_default")]
    pub rules: Vec<PolicyRule>,
}
