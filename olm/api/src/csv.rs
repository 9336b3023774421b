//! ClusterServiceVersion: one version of an operator, as described by its author.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    lenient::{is_false, nul, opt, string_enum},
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
        /// Its own.
        OwnNamespace = "OwnNamespace",
        /// One other.
        SingleNamespace = "SingleNamespace",
        /// Several.
        MultiNamespace = "MultiNamespace",
        /// All.
        AllNamespaces = "AllNamespaces",
        /// A word that is none of these.
        Unknown = "Unknown",
    }
    default Unknown, unknown Unknown, schema open
}

/// One version of an operator.
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
    doc = "One version of an operator: what it provides, what it needs and how it runs.",
    printcolumn(name = "Display", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Release", type_ = "string", json_path = ".spec.release"),
    printcolumn(name = "Replaces", type_ = "string", json_path = ".spec.replaces"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionSpec {
    /// Name for humans.
    #[serde(deserialize_with = "nul")]
    pub display_name: String,
    /// Semantic version.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Packaging revision of the version.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// What it is, in Markdown.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words to find it by.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// People who maintain it.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// Who publishes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AppLink>,
    /// Pages about it.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<AppLink>,
    /// Its icon; the first one counts.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub icon: Vec<Icon>,
    /// alpha, beta, stable or the like.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub maturity: Option<String>,
    /// Labels of the operator.
    #[serde(deserialize_with = "nul", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the operator.
    #[serde(deserialize_with = "nul", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// How to find related objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Oldest Kubernetes it runs on.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub min_kube_version: Option<String>,
    /// Built-in APIs it needs.
    #[serde(rename = "nativeAPIs", deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub native_apis: Vec<GroupVersionKind>,
    /// Which namespaces it can watch.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<InstallMode>,
    /// Name of the version that this one replaces.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Names of versions that this one may also replace.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Images it uses.
    #[serde(deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub related_images: Vec<RelatedImage>,
    /// Whether custom resources go with the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupSpec>,
    /// How it runs.
    #[serde(deserialize_with = "nul")]
    #[schemars(with = "InstallStrategy")]
    pub install: Shared<InstallStrategy>,
    /// CRDs it provides and needs.
    #[serde(rename = "customresourcedefinitions", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<CustomResourceDefinitions>")]
    pub custom_resource_definitions: Option<Shared<CustomResourceDefinitions>>,
    /// Aggregated APIs it provides and needs.
    #[serde(rename = "apiservicedefinitions", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ApiServiceDefinitions>")]
    pub api_service_definitions: Option<Shared<ApiServiceDefinitions>>,
    /// Its webhooks.
    #[serde(rename = "webhookdefinitions", deserialize_with = "nul", skip_serializing_if = "Vec::is_empty")]
    pub webhook_definitions: Vec<WebhookDescription>,
    /// Large annotations of the object, where somebody keeps many objects in memory and put them here to keep equal ones
    /// once. Never on the wire.
    #[serde(skip)]
    #[schemars(skip)]
    pub aside: Shared<BTreeMap<String, String>>,
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

/// A person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Maintainer {
    /// Name.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Mail address.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

/// A name with a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppLink {
    /// Name.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Address.
    #[serde(deserialize_with = "opt", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Icon {
    /// The picture in base64.
    #[serde(default, deserialize_with = "nul")]
    pub base64data: String,
    /// Its media type, such as image/svg+xml.
    #[serde(default, deserialize_with = "nul")]
    pub mediatype: String,
}

/// Whether an operator can watch namespaces in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallMode {
    /// OwnNamespace, SingleNamespace, MultiNamespace or AllNamespaces.
    #[serde(rename = "type", deserialize_with = "nul")]
    pub type_: InstallModeType,
    /// Whether it can.
    #[serde(deserialize_with = "nul")]
    pub supported: bool,
}

/// An image that the operator uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RelatedImage {
    /// What it is for.
    #[serde(deserialize_with = "nul")]
    pub name: String,
    /// Reference of the image.
    #[serde(deserialize_with = "nul")]
    pub image: String,
}

/// Whether custom resources go with the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanupSpec {
    /// Whether they go.
    #[serde(deserialize_with = "nul", skip_serializing_if = "is_false")]
    pub enabled: bool,
}
