//! The fields of a Deployment that are read.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use kube::ResourceExt;
use olm_api::names;

/// Why a rollout takes too long.
const TOO_LATE: &str = "ProgressDeadlineExceeded";

/// A Deployment, as far as the phase of a version depends on it: a few hundred bytes, because every
/// Deployment of every operator is kept in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(super) uid: Box<str>,
    pub(super) generation: Option<i64>,
    /// Namespace and name of the version in its labels.
    pub(super) labelled: Option<(Box<str>, Box<str>)>,
    /// The hash in its label.
    pub(super) hash: Option<Box<str>>,
    /// UIDs of its owners.
    pub(super) owners: Box<[Box<str>]>,
    pub(super) wanted: i32,
    pub(super) observed_generation: i64,
    pub(super) updated: i32,
    pub(super) replicas: i32,
    pub(super) available_replicas: i32,
    /// Condition `Available`: whether it is true, and its message.
    pub(super) available: Option<(bool, Box<str>)>,
    /// The message of condition `Progressing`, where the rollout takes too long.
    pub(super) late: Option<Box<str>>,
}

impl Workload {
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let label = |key: &str| deployment.labels().get(key).map(|value| Box::from(value.as_str()));
        let status = deployment.status.as_ref();
        let condition = |type_: &str| {
            let mut conditions = status?.conditions.iter().flatten();
            conditions.find(|c| c.type_.as_deref() == Some(type_))
        };
        let message = |c: &DeploymentCondition| c.message.as_deref().unwrap_or_default().into();
        let available = condition("Available").map(|c| (c.status.as_deref() == Some("True"), message(c)));
        let late = condition("Progressing").filter(|c| c.reason.as_deref() == Some(TOO_LATE)).map(message);
        let count = |count: Option<i32>| count.unwrap_or_default();
        Self {
            uid: deployment.metadata.uid.as_deref().unwrap_or_default().into(),
            generation: deployment.metadata.generation,
            labelled: label(names::LABEL_OWNER_NAMESPACE).zip(label(names::LABEL_OWNER)),
            hash: label(names::LABEL_DEPLOYMENT_SPEC_HASH),
            owners: deployment.owner_references().iter().map(|owner| owner.uid.as_str().into()).collect(),
            wanted: deployment.spec.replicas.unwrap_or(1),
            observed_generation: status.and_then(|s| s.observed_generation).unwrap_or_default(),
            updated: count(status.and_then(|s| s.updated_replicas)),
            replicas: count(status.and_then(|s| s.replicas)),
            available_replicas: count(status.and_then(|s| s.available_replicas)),
            available,
            late,
        }
    }

    /// Whether its labels are those of a version.
    pub(super) fn is_labelled(&self, namespace: &str, name: &str) -> bool {
        self.labelled.as_ref().is_some_and(|(ns, n)| &**ns == namespace && &**n == name)
    }

    pub(super) fn is_owned_by(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.owners.iter().any(|owner| &**owner == uid))
    }
}
