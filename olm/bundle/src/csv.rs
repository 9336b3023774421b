//! Views on the parts of a ClusterServiceVersion that validation and rendering use.
//!
//! They read the raw manifest: malformed content gives an empty view, never a panic.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::model::Bundle;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum InstallMode {
    OwnNamespace,
    SingleNamespace,
    MultiNamespace,
    AllNamespaces,
}

impl InstallMode {
    /// In the order of growing reach.
    pub const ALL: [Self; 4] =
        [Self::OwnNamespace, Self::SingleNamespace, Self::MultiNamespace, Self::AllNamespaces];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OwnNamespace => "OwnNamespace",
            Self::SingleNamespace => "SingleNamespace",
            Self::MultiNamespace => "MultiNamespace",
            Self::AllNamespaces => "AllNamespaces",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallModes(BTreeSet<InstallMode>);

impl InstallModes {
    /// The supported modes of `spec.installModes` of a ClusterServiceVersion.
    #[must_use]
    pub fn of(list: &[Value]) -> Self {
        let modes = list.iter().filter(|mode| mode.get("supported") == Some(&Value::Bool(true)));
        let known = modes
            .filter_map(|mode| mode.get("type")?.as_str())
            .filter_map(|name| InstallMode::ALL.into_iter().find(|mode| mode.as_str() == name));
        Self(known.collect())
    }

    #[must_use]
    pub fn supports(&self, mode: InstallMode) -> bool {
        self.0.contains(&mode)
    }

    /// The supported modes, in the order of growing reach.
    pub fn iter(&self) -> impl Iterator<Item = InstallMode> + '_ {
        self.0.iter().copied()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mode for these target namespaces.
    /// No targets, or the one target `""`, mean all namespaces.
    /// # Errors
    /// The description of the unsupported mode.
    pub fn check(&self, install_namespace: &str, targets: &[String]) -> Result<InstallMode, &'static str> {
        let targets: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
        let own = targets.contains(install_namespace);
        if targets.is_empty() || targets.contains("") {
            if targets.len() > 1 {
                return Err("all namespaces and single ones at once");
            }
            return self.need(InstallMode::AllNamespaces, "all namespaces");
        }
        if targets.len() == 1 {
            return match own {
                true => self.need(InstallMode::OwnNamespace, "its own namespace"),
                false => self.need(InstallMode::SingleNamespace, "one other namespace"),
            };
        }
        if own {
            self.need(InstallMode::OwnNamespace, "its own namespace among several")?;
        }
        self.need(InstallMode::MultiNamespace, "several namespaces")
    }

    fn need(&self, mode: InstallMode, wanted: &'static str) -> Result<InstallMode, &'static str> {
        if self.supports(mode) { Ok(mode) } else { Err(wanted) }
    }
}

impl fmt::Display for InstallModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no install mode");
        }
        let names: Vec<&str> = self.iter().map(InstallMode::as_str).collect();
        f.write_str(&names.join(", "))
    }
}

/// A reference to a CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrdRef {
    /// `plural.group`
    pub name: String,
    /// The API group, the part of the name after the first dot.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub display_name: String,
    pub description: String,
}

impl Bundle {
    /// The CustomResourceDefinitions that the operator provides.
    #[must_use]
    pub fn owned_crds(&self) -> Vec<CrdRef> {
        self.crd_refs("/spec/customresourcedefinitions/owned")
    }

    /// The CustomResourceDefinitions that another operator must provide.
    #[must_use]
    pub fn required_crds(&self) -> Vec<CrdRef> {
        self.crd_refs("/spec/customresourcedefinitions/required")
    }

    #[must_use]
    pub fn install_modes(&self) -> InstallModes {
        InstallModes::of(self.list("/spec/installModes"))
    }

    fn crd_refs(&self, pointer: &str) -> Vec<CrdRef> {
        self.list(pointer)
            .iter()
            .map(|description| {
                let text = |field: &str| {
                    description.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                let name = text("name");
                let group = name.split_once('.').map(|(_, group)| group.to_owned()).unwrap_or_default();
                CrdRef {
                    group,
                    version: text("version"),
                    kind: text("kind"),
                    display_name: text("displayName"),
                    description: text("description"),
                    name,
                }
            })
            .collect()
    }

    /// `spec.install.spec.deployments`
    #[must_use]
    pub fn deployments(&self) -> &[Value] {
        self.list("/spec/install/spec/deployments")
    }

    /// `spec.install.spec.permissions`
    pub(crate) fn permissions(&self) -> &[Value] {
        self.list("/spec/install/spec/permissions")
    }

    /// `spec.install.spec.clusterPermissions`
    pub(crate) fn cluster_permissions(&self) -> &[Value] {
        self.list("/spec/install/spec/clusterPermissions")
    }

    /// `spec.webhookdefinitions`
    pub(crate) fn webhooks(&self) -> &[Value] {
        self.list("/spec/webhookdefinitions")
    }

    /// `spec.apiservicedefinitions.owned`
    pub(crate) fn owned_api_services(&self) -> &[Value] {
        self.list("/spec/apiservicedefinitions/owned")
    }

    /// A list in the ClusterServiceVersion; empty where it is missing or not a list.
    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        self.csv_raw.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}
