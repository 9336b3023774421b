//! Subscription: the request for a package and its updates.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;
use crate::lenient::{empty_as_none, is_false, null_as_default, string_enum};

mod config;

pub use config::{Resources, SubscriptionConfig, VolumeMount};

string_enum! {
    /// Approval of InstallPlans. Unknown values are read as Manual, the safe value.
    Approval {
        /// Plans are applied immediately.
        Automatic = "Automatic",
        /// Plans wait for `spec.approved`.
        Manual = "Manual",
    }
    default Automatic, unknown Manual, schema closed
}

string_enum! {
    /// Which upgrades are allowed.
    UpgradeConstraintPolicy {
        /// Only along the edges of the catalog.
        CatalogProvided = "CatalogProvided",
        /// Any version that the range or pin selects, also an older one, at the user's risk.
        SelfCertified = "SelfCertified",
    }
    default CatalogProvided, unknown CatalogProvided, schema closed
}

string_enum! {
    /// Handling of missing required packages and APIs.
    DependencyPolicy {
        /// Install them.
        Install = "Install",
        /// Refuse the install and report what is missing.
        RequirePresent = "RequirePresent",
    }
    default Install, unknown RequirePresent, schema closed
}

string_enum! {
    /// Handling of custom resources of the operator when its Subscription is deleted.
    OperandPolicy {
        /// Retain the operator while they exist.
        Abort = "Abort",
        /// Retain them without an operator.
        Orphan = "Orphan",
        /// Delete them first.
        Delete = "Delete",
    }
    default Abort, unknown Abort, schema closed
}

string_enum! {
    /// Handling of CRDs of the operator when its Subscription is deleted.
    CrdPolicy {
        /// Retain them.
        Keep = "Keep",
        /// Delete them with all their objects.
        Delete = "Delete",
    }
    default Keep, unknown Keep, schema closed
}

string_enum! {
    /// Handling of operators that were installed only for this one when its Subscription is deleted.
    DependencyRemoval {
        /// Retain them.
        Keep = "Keep",
        /// Remove them when no other operator requires them.
        Delete = "Delete",
    }
    default Keep, unknown Keep, schema closed
}

string_enum! {
    /// State of a Subscription.
    SubscriptionState {
        /// Not observed yet.
        None = "",
        /// A newer version is reachable.
        UpgradeAvailable = "UpgradeAvailable",
        /// An InstallPlan exists.
        UpgradePending = "UpgradePending",
        /// The InstallPlan failed.
        UpgradeFailed = "UpgradeFailed",
        /// The newest reachable version is installed.
        AtLatestKnown = "AtLatestKnown",
    }
    default None, unknown None, schema open
}

/// Which package to have, and how to keep it up to date.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    plural = "subscriptions",
    shortname = "sub",
    shortname = "subs",
    category = "olm",
    namespaced,
    status = "SubscriptionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Requests a package from a catalog, and its updates.",
    printcolumn(name = "Package", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source"),
    printcolumn(name = "Channel", type_ = "string", json_path = ".spec.channel"),
    printcolumn(name = "Installed", type_ = "string", json_path = ".status.installedCSV"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state")
)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionSpec {
    /// Name of the package.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Name of the CatalogSource.
    #[serde(deserialize_with = "null_as_default")]
    pub source: String,
    /// Namespace of the CatalogSource.
    #[serde(deserialize_with = "null_as_default")]
    pub source_namespace: String,
    /// Channel to follow; the package's default channel when empty.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// First version to install, by name of its ClusterServiceVersion.
    #[serde(
        rename = "startingCSV",
        deserialize_with = "empty_as_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub starting_csv: Option<String>,
    /// Automatic or Manual.
    #[serde(deserialize_with = "null_as_default")]
    pub install_plan_approval: Approval,
    /// Settings for the operator's Deployments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SubscriptionConfig>")]
    pub config: Option<Value>,
    /// Version range or exact version to stay in (not upstream).
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Which upgrades are allowed (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_constraint_policy: Option<UpgradeConstraintPolicy>,
    /// Change nothing while true (not upstream).
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Versions never to install (not upstream).
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub skip_versions: Vec<String>,
    /// Offer no upgrade for a while (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snooze: Option<Snooze>,
    /// What to do about missing dependencies (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<DependencyPolicy>,
    /// What deleting the Subscription removes (not upstream).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// For how long no upgrade is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Snooze {
    /// As long as this is the newest bundle that can be reached, by name of its ClusterServiceVersion.
    #[serde(deserialize_with = "null_as_default")]
    pub newest: String,
}

/// What deleting a Subscription removes beside the operator itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionPolicy {
    /// Abort, Orphan or Delete.
    #[serde(deserialize_with = "null_as_default")]
    pub operands: OperandPolicy,
    /// Keep or Delete.
    #[serde(deserialize_with = "null_as_default")]
    pub crds: CrdPolicy,
    /// Keep or Delete.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "keeps")]
    pub dependencies: DependencyRemoval,
}

fn keeps(value: &DependencyRemoval) -> bool {
    *value == DependencyRemoval::Keep
}

/// Observed state of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionStatus {
    /// The observed generation (not upstream). Argo CD, Flux and `kubectl wait` read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// UpgradePending, AtLatestKnown, UpgradeAvailable or UpgradeFailed.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "has_no_state")]
    pub state: SubscriptionState,
    /// The version that is wanted now.
    #[serde(
        rename = "currentCSV",
        deserialize_with = "empty_as_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub current_csv: Option<String>,
    /// The version that is on the cluster.
    #[serde(
        rename = "installedCSV",
        deserialize_with = "empty_as_none",
        skip_serializing_if = "Option::is_none"
    )]
    pub installed_csv: Option<String>,
    /// The InstallPlan in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_plan_ref: Option<ObjectReference>,
    /// Upstream's older form of installPlanRef.
    #[serde(rename = "installplan", skip_serializing_if = "Option::is_none")]
    pub install_plan: Option<InstallPlanReference>,
    /// Generation of the InstallPlan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_plan_generation: Option<i64>,
    /// Machine-readable reason.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the status was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Health of the catalogs that were looked at.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub catalog_health: Vec<CatalogHealth>,
    /// Conditions of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

fn has_no_state(value: &SubscriptionState) -> bool {
    *value == SubscriptionState::None
}

/// Upstream's older form of a reference to an InstallPlan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanReference {
    /// API version of InstallPlan.
    #[serde(deserialize_with = "null_as_default")]
    pub api_version: String,
    /// InstallPlan.
    #[serde(deserialize_with = "null_as_default")]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Its UID.
    #[serde(deserialize_with = "null_as_default")]
    pub uuid: String,
}

/// Health of one catalog as a Subscription saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogHealth {
    /// The CatalogSource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_source_ref: Option<ObjectReference>,
    /// When it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// Whether it can be read.
    #[serde(deserialize_with = "null_as_default")]
    pub healthy: bool,
}
