//! What is known of a cluster beside the objects of a plan.

use std::collections::{BTreeMap, BTreeSet};

use olm_resolver::{Gvk, Version};
use serde_json::Value;

use crate::object::ObjectRef;
use crate::permissions::CatalogRisk;
use crate::policy::Policies;
use crate::preflight::Access;
use crate::signatures::ImageSignature;

/// Something that may not be known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// Not queried: it does not matter for the plan.
    #[default]
    NotAsked,
    Known(T),
    /// It matters, and could not be found out; the text says why.
    Unknown(String),
}

impl<T> Fact<T> {
    /// The value, where it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotAsked | Self::Unknown(_) => None,
        }
    }

    /// Why it is not known, where it should be.
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(why) => Some(why),
            Self::NotAsked | Self::Known(_) => None,
        }
    }
}

/// What is known of the cluster beside its objects. What is not known gives no finding but
/// [`NotChecked`](crate::FindingCode::NotChecked).
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    pub kubernetes: Option<Version>,
    /// Custom APIs that are served.
    pub apis: Vec<Gvk>,
    /// The channel that was followed before, where it was another.
    pub from_channel: Option<String>,
    /// What the other operators of the catalog may do.
    pub catalog_risk: Option<CatalogRisk>,
    /// Whoever carries the plan out, and their rights.
    pub installer: Fact<Principal>,
    /// Whoever asks for the plan, and their rights.
    pub user: Fact<Principal>,
    /// CRDs that other operators of the namespace own: all that are installed there but the version that is replaced.
    pub owned_crds: Fact<BTreeSet<String>>,
    /// Custom resources, by the name of their CRD.
    pub custom_objects: BTreeMap<String, Fact<CustomObjects>>,
    /// The RoleBindings of the operator's namespace.
    pub role_bindings: Fact<Vec<Value>>,
    /// The roles that they name.
    pub roles: BTreeMap<RoleName, Fact<Value>>,
    /// The ResourceQuotas of the operator's namespace.
    pub quotas: Fact<Vec<Value>>,
    /// ValidatingWebhookConfigurations and MutatingWebhookConfigurations.
    pub webhooks: Fact<Vec<Value>>,
    /// Whether Services (namespace, name) have endpoints that are ready.
    pub ready_services: BTreeMap<(String, String), Fact<bool>>,
    /// Whether PriorityClasses exist.
    pub priority_classes: BTreeMap<String, Fact<bool>>,
    /// The InstallPolicies that hold in the operator's namespace.
    pub policies: Fact<Policies>,
    /// Results for the signatures that these policies require.
    pub signatures: Vec<ImageSignature>,
    /// Objects of the plan that may be there, and that whoever asks may not read.
    pub unreadable: BTreeSet<ObjectRef>,
}

impl ClusterFacts {
    /// What is known without a cluster: that nothing is.
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

/// Somebody, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub who: Who,
    /// What they may do.
    pub access: Access,
    /// Whether the rights come from the API server's own answer. Rights that were read off a role leave out what other
    /// bindings add, so what they lack is told and does not stand in the way.
    pub exact: bool,
}

/// Somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever asks.
    You,
    /// A user, by the name that the API server knows.
    User(String),
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

impl Who {
    /// By the name that the API server knows: those of ServiceAccounts begin with `system:serviceaccount:`.
    pub fn named(user: &str) -> Self {
        match user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
            Some((namespace, name)) => {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Self::User(user.to_owned()),
        }
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::You => f.write_str("you"),
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

/// A role that a RoleBinding of the operator's namespace names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleName {
    /// Whether it is a ClusterRole; otherwise a Role of the namespace.
    pub cluster: bool,
    pub name: String,
}
