//! Types of the `operators.coreos.com` API.
//!
//! JSON names and defaults are upstream's, so that existing manifests work unchanged. Reading is tolerant
//! (unknown fields are ignored, and every field that upstream may omit is optional) because these objects are
//! untrusted. Fields that upstream does not have are optional, and their description marks them.

// every `printcolumn(...)` of kube's derive has a separate `type_`; the lint treats them as one list
#![allow(clippy::duplicated_attributes)]
#![deny(missing_docs)]

pub mod catalog_source;
pub mod condition;
pub mod crds;
pub mod csv;
pub mod install_plan;
pub mod install_policy;
pub mod names;
pub mod olm_config;
pub mod operator;
pub mod operator_condition;
pub mod operator_group;
pub mod subscription;

mod lenient;
mod shared;
mod unread;

pub use catalog_source::{CatalogSource, CatalogSourceSpec, CatalogSourceStatus};
pub use condition::Condition;
pub use crds::{crd_names, crds};
pub use csv::{ClusterServiceVersion, ClusterServiceVersionSpec, ClusterServiceVersionStatus};
pub use install_plan::{InstallPlan, InstallPlanSpec, InstallPlanStatus};
pub use install_policy::{InstallPolicy, InstallPolicySpec};
pub use olm_config::{OLMConfig, OLMConfigSpec, OLMConfigStatus};
pub use olm_signatures::SignatureRule;
pub use operator::{Operator, OperatorSpec, OperatorStatus};
pub use operator_condition::{OperatorCondition, OperatorConditionSpec, OperatorConditionStatus};
pub use operator_group::{OperatorGroup, OperatorGroupSpec, OperatorGroupStatus};
pub use shared::Shared;
pub use subscription::{Subscription, SubscriptionSpec, SubscriptionStatus};
pub use unread::Unread;
