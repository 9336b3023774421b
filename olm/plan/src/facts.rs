//! Facts about a cluster besides the objects of a plan.

use std::collections::{BTreeMap, BTreeSet};

use olm_resolver::{Gvk, Version};
use serde_json::Value;

use crate::object::ObjectRef;
use crate::permissions::CatalogRisk;
use crate::policy::Policies;
use crate::preflight::Access;
use crate::signatures::ImageSignature;

/// A fact that may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// Not queried: irrelevant for the plan.
    #[default]
    NotRead,
    Known(T),
    /// Relevant, but could not be determined; with the cause.
    Unknown(String),
}

impl<T> Fact<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotRead | Self::Unknown(_) => None,
        }
    }

    /// The cause, if the fact is unknown although relevant.
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(why) => Some(why),
            Self::NotRead | Self::Known(_) => None,
        }
    }
}

/// Facts about the cluster besides its objects. An unknown fact only gives the finding
/// [`NotChecked`](crate::FindingCode::NotChecked).
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    pub kubernetes: Option<Version>,
    /// Served custom APIs.
    pub apis: Vec<Gvk>,
    /// The previous channel, if it changed.
    pub from_channel: Option<String>,
    /// Risk scores of the other operators of the catalog.
    pub catalog_risk: Option<CatalogRisk>,
    /// The account that applies the plan, and its rights.
    pub installer: Fact<Principal>,
    /// The caller that requests the plan, and its rights.
    pub user: Fact<Principal>,
    /// CRDs owned by other operators of the namespace: all installed ones except the replaced version.
    pub owned_crds: Fact<BTreeSet<String>>,
    /// Custom resources, by the name of their CRD.
    pub custom_objects: BTreeMap<String, Fact<CustomObjects>>,
    /// The RoleBindings of the operator's namespace.
    pub role_bindings: Fact<Vec<Value>>,
    /// The roles that they reference.
    pub roles: BTreeMap<RoleName, Fact<Value>>,
    /// The ResourceQuotas of the operator's namespace.
    pub quotas: Fact<Vec<Value>>,
    /// ValidatingWebhookConfigurations and MutatingWebhookConfigurations.
    pub webhooks: Fact<Vec<Value>>,
    /// Whether Services (namespace, name) have ready endpoints.
    pub ready_services: BTreeMap<(String, String), Fact<bool>>,
    /// Whether PriorityClasses exist.
    pub priority_classes: BTreeMap<String, Fact<bool>>,
    /// Whether a node reports images that no registry may serve, by their names in pods.
    pub images_on_nodes: BTreeMap<String, Fact<bool>>,
    /// The InstallPolicies of the operator's namespace.
    pub policies: Fact<Policies>,
    /// Results for the signatures that these policies require.
    pub signatures: Vec<ImageSignature>,
    /// Objects of the plan that may exist, and that the caller may not read.
    pub unreadable: BTreeSet<ObjectRef>,
}

impl ClusterFacts {
    /// The facts without a cluster: all unknown.
    pub fn offline() -> Self {
        const WHY: &str = "no cluster connection";
        Self {
            installer: Fact::Unknown(WHY.to_owned()),
            user: Fact::Unknown(WHY.to_owned()),
            role_bindings: Fact::Unknown(WHY.to_owned()),
            quotas: Fact::Unknown(WHY.to_owned()),
            webhooks: Fact::Unknown(WHY.to_owned()),
            ..Self::default()
        }
    }
}

/// A user or account, and its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub who: Identity,
    pub access: Access,
    /// Whether the rights come from the API server's own answer. Rights derived from a role omit those of
    /// other bindings, so missing ones are reported without blocking.
    pub exact: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The caller.
    Caller,
    /// A user, by the name in the API server.
    User(String),
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

impl Identity {
    /// By the name in the API server: those of ServiceAccounts begin with `system:serviceaccount:`.
    pub fn named(user: &str) -> Self {
        match user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
            Some((namespace, name)) => {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Self::User(user.to_owned()),
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Caller => f.write_str("you"),
            Self::User(name) => write!(f, "user {name}"),
            Self::ServiceAccount { namespace, name } => write!(f, "ServiceAccount {namespace}/{name}"),
        }
    }
}

/// Custom resources of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomObjects {
    pub items: Vec<Value>,
    /// Whether there are more than these.
    pub more: bool,
}

/// A role referenced by a RoleBinding of the operator's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleName {
    /// Whether it is a ClusterRole; otherwise a Role of the namespace.
    pub cluster: bool,
    pub name: String,
}
