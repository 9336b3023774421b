//! ClusterServiceVersion: one version of an operator, as described by its author.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    lenient::{empty_as_none, is_false, null_as_default, string_enum},
    shared::Shared,
};

mod apis;
mod install;
mod status;

pub use apis::{
    ActionDescriptor, ApiResourceReference, ApiServiceDefinitions, ApiServiceDescription, CrdDescription,
    CustomResourceDefinitions, GroupVersionKind, SpecDescriptor, StatusDescriptor, WebhookDescription,
};
pub use install::{InstallStrategy, StrategyDeployment, StrategyDetails, StrategyPermissions};
pub use status::{
    AppliedDeployment, ClusterServiceVersionStatus, CsvCondition, CsvPhase, DependentStatus,
    RequirementState, RequirementStatus,
};

string_enum! {
    /// Which namespaces an operator can watch.
    InstallModeType {
        /// The namespace of the operator.
        OwnNamespace = "OwnNamespace",
        /// One other namespace.
        SingleNamespace = "SingleNamespace",
        /// Several namespaces.
        MultiNamespace = "MultiNamespace",
        /// All namespaces.
        AllNamespaces = "AllNamespaces",
        /// A value that is none of these.
        Unknown = "Unknown",
    }
    default Unknown, unknown Unknown, schema open
}

/// Specification of a version of an operator.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "ClusterServiceVersion",
    plural = "clusterserviceversions",
    shortname = "csv",
    shortname = "csvs",
    category = "olm",
    namespaced,
    status = "ClusterServiceVersionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A version of an operator: its APIs, requirements and Deployments.",
    printcolumn(name = "Display", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.release"),
    printcolumn(name = "Replaces", type_ = "string", json_path = ".spec.replaces"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionSpec {
    /// Display name.
    #[serde(deserialize_with = "null_as_default")]
    pub display_name: String,
    /// Semantic version.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Revision of the packaging of the version.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Description, in Markdown.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Keywords for search.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Maintainers.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// Provider of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AppLink>,
    /// Links.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<AppLink>,
    /// Icons; only the first is used.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub icon: Vec<Icon>,
    /// Maturity, such as alpha, beta or stable.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub maturity: Option<String>,
    /// Labels of the operator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the operator.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// How to find related objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Minimum version of Kubernetes.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,
    /// Required built-in APIs.
    #[serde(
        rename = "nativeAPIs",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub native_apis: Vec<GroupVersionKind>,
    /// Supported install modes.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<InstallMode>,
    /// Name of the ClusterServiceVersion that this one replaces.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Names of ClusterServiceVersions that are skipped by upgrades to this one.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Images of the operator and its operands.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub related_images: Vec<RelatedImage>,
    /// Whether custom resources are deleted with the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupSpec>,
    /// How the operator is installed.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(with = "InstallStrategy")]
    pub install: Shared<InstallStrategy>,
    /// CRDs that the operator provides and requires.
    #[serde(rename = "customresourcedefinitions", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<CustomResourceDefinitions>")]
    pub custom_resource_definitions: Option<Shared<CustomResourceDefinitions>>,
    /// Aggregated APIs that the operator provides and requires.
    #[serde(rename = "apiservicedefinitions", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ApiServiceDefinitions>")]
    pub api_service_definitions: Option<Shared<ApiServiceDefinitions>>,
    /// Webhooks of the operator.
    #[serde(
        rename = "webhookdefinitions",
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub webhook_definitions: Vec<WebhookDescription>,
    /// Large annotations of the object: a cache moves them here, so that equal ones of several objects share
    /// one copy. Not serialized.
    #[serde(skip)]
    #[schemars(skip)]
    pub shared_annotations: Shared<BTreeMap<String, String>>,
}

impl ClusterServiceVersion {
    /// The phase in the status; [`CsvPhase::None`] without a status.
    #[must_use]
    pub fn phase(&self) -> CsvPhase {
        self.status.as_ref().map(|status| status.phase).unwrap_or_default()
    }
}

impl ClusterServiceVersionSpec {
    /// CRDs that the operator provides.
    pub fn owned_crds(&self) -> &[CrdDescription] {
        self.custom_resource_definitions.as_ref().map_or(&[], |d| &d.owned)
    }

    /// CRDs that the operator requires.
    pub fn required_crds(&self) -> &[CrdDescription] {
        self.custom_resource_definitions.as_ref().map_or(&[], |d| &d.required)
    }

    /// Whether the operator supports an install mode.
    pub fn supports(&self, mode: InstallModeType) -> bool {
        self.install_modes.iter().any(|m| m.type_ == mode && m.supported)
    }
}

/// A maintainer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Maintainer {
    /// Name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Email address.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

/// A name with a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppLink {
    /// Name.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// URL.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An icon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Icon {
    /// The image, base64-encoded.
    #[serde(default, deserialize_with = "null_as_default")]
    pub base64data: String,
    /// Media type, such as image/svg+xml.
    #[serde(default, deserialize_with = "null_as_default")]
    pub mediatype: String,
}

/// An install mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallMode {
    /// OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub type_: InstallModeType,
    /// Whether it is supported.
    #[serde(deserialize_with = "null_as_default")]
    pub supported: bool,
}

/// An image used by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RelatedImage {
    /// Name of its purpose.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Reference of the image.
    #[serde(deserialize_with = "null_as_default")]
    pub image: String,
}

/// Whether custom resources are deleted with the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanupSpec {
    /// Whether they are deleted.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_false")]
    pub enabled: bool,
}
