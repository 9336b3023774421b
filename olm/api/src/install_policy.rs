//! InstallPolicy (not upstream): limits what may be installed in the selected namespaces, and with whose
//! rights.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    CustomResource,
    core::{Selector, SelectorExt},
};
use olm_signatures::SignatureRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::string_enum;

string_enum! {
    /// Whose rights a plan is checked against.
    PlanAuthority {
        /// Those of the user who requested or approved it.
        Requester = "Requester",
        /// Those of the author of the policy, where the requester's do not suffice.
        Policy = "Policy",
    }
    default Requester, unknown Requester, schema closed
}

string_enum! {
    /// Where a denied right counts.
    RightScope {
        /// Everywhere.
        Any = "Any",
        /// In ClusterRoles only.
        Cluster = "Cluster",
    }
    default Any, unknown Any, schema closed
}

/// Rules for installs in the selected namespaces. A namespace is held to every policy that selects it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "InstallPolicy",
    plural = "installpolicies",
    category = "olm",
    derive = "Default",
    derive = "PartialEq",
    doc = "A policy for installs in the selected namespaces.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPolicySpec {
    /// Selector of the namespaces of operators to which the policy applies; absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Bundles allowed for installs, upgrades and dependencies: those that match an entry. Absent means everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<AllowedPackages>>,
    /// Content that is denied in bundles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Denied>,
    /// Signatures required of images that a plan reads or runs. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signatures: Option<Vec<SignatureRule>>,
    /// Number of required approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<Approvals>,
}

impl InstallPolicy {
    /// Whether the policy applies to a namespace with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let Some(selector) = self.spec.namespace_selector.clone() else { return true };
        // The API server refuses invalid selectors.
        Selector::try_from(selector).map_or(true, |selector| selector.matches(labels))
    }
}

/// Allowed packages. A field that is absent matches everything; in names, `*` stands for any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedPackages {
    /// Allowed catalogs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalogs: Option<Vec<AllowedCatalog>>,
    /// Names of packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
    /// Names of channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<String>>,
    /// Whose permissions a plan is checked against: Requester (default), or Policy, the author of the policy. Only in plans whose operators
    /// watch their own namespace alone; needs catalogs and packages.
    #[serde(skip_serializing_if = "is_requester")]
    pub authority: PlanAuthority,
}

fn is_requester(authority: &PlanAuthority) -> bool {
    *authority == PlanAuthority::Requester
}

/// A CatalogSource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedCatalog {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Content that is denied in bundles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Denied {
    /// Permissions that no role of a bundle may grant, not even in part.
    pub rights: Vec<DeniedRight>,
}

/// A rule, as in roles. What it leaves out of resourceNames means all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeniedRight {
    /// Verbs; `*` means all.
    pub verbs: Vec<String>,
    /// API groups; `*` means all, an empty string the core group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources, with subresource if any; `*` means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names of objects; absent means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Non-resource URLs.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// Any (default), or Cluster: only in ClusterRoles, so that the permission remains allowed in the
    /// namespaces of the operator.
    #[serde(skip_serializing_if = "is_any")]
    pub scope: RightScope,
}

fn is_any(scope: &RightScope) -> bool {
    *scope == RightScope::Any
}

/// Number of required approvals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Approvals {
    /// Number of different users who must approve a plan that grants new HIGH permissions: 1 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<i32>,
}
