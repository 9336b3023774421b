//! A kit for operators whose decisions are pure functions.
//!
//! An operator is a list of kinds. For each kind it has a function that plans: it gets an object and what was
//! observed of the objects that the kind owns, and returns the objects that should exist and the status. The
//! kit does the rest: it watches, applies, deletes, writes the status, reports events, elects a leader, and
//! serves probes and metrics.
//!
//! ```no_run
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{CustomResource, ResourceExt as _};
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
//! use operator_kit::{Observed, Operator, Plan};
//!
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced, status = "GreetingStatus")]
//! struct GreetingSpec {
//!     text: String,
//! }
//!
//! #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
//! #[serde(rename_all = "camelCase")]
//! struct GreetingStatus {
//!     #[serde(default)]
//!     conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
//!     observed_generation: Option<i64>,
//! }
//!
//! fn plan(greeting: &Greeting, _observed: &Observed) -> Plan<GreetingStatus> {
//!     let mut config = ConfigMap::default();
//!     config.metadata.name = Some(greeting.name_any());
//!     config.data = Some([("text".to_owned(), greeting.spec.text.clone())].into());
//!     Plan::new().apply(config).status(GreetingStatus::default()).ready_when(true, "The greeting exists")
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let kind = operator_kit::kind::<Greeting>().owns::<ConfigMap>().plan(plan);
//!     operator_kit::main(Operator::new("greeting-operator", env!("CARGO_PKG_VERSION")).kind(kind))
//! }
//! ```
//!
//! The permissions of an operator follow from its registrations: see [`Operator::rights`]. A plan gets no
//! client, so it cannot need others.

#![deny(missing_docs)]

mod apply;
mod controller;
mod describe;
mod failure;
mod http;
mod kind;
mod metrics;
mod observed;
mod operator;
mod plan;
mod program;
mod rights;
mod status;
#[cfg(test)]
mod tests;
mod watches;

// Shared with the other programs of this workspace. A generated project has these files in its kit.
use olm_client::{lease, patient};

pub use kind::{Kind, KindBuilder, Object, kind};
pub use observed::Observed;
pub use operator::{Error, Operator, Options};
pub use plan::Plan;
pub use program::main;
pub use rights::Right;
