//! The Deployments of an installed operator, and their pods.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod},
};
use kube::{Client, ResourceExt as _};
use olm_api::ClusterServiceVersion;
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::Error,
    list::World,
    operator_pods::{deployments_of, pods_of},
    pod_failure::PodFailure,
    timeline::{pod_problem, replicas},
};

/// A Deployment of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentState {
    pub name: String,
    /// Ready pods of the newest template.
    pub ready: i32,
    /// Desired pods.
    pub replicas: i32,
    pub images: Vec<String>,
    /// Why it is not available; absent when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Creation time, in RFC 3339; absent when it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// By name.
    pub pods: Vec<PodState>,
}

/// A pod of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    pub name: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Terminating`; empty before the first report.
    pub phase: String,
    /// Whether its condition `Ready` is true.
    pub is_ready: bool,
    pub ready_containers: usize,
    pub containers: usize,
    /// Restarts of all its containers.
    pub restarts: i32,
    pub images: Vec<String>,
    /// Why it is not ready; absent when it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Creation time, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

/// The Deployments of the newest version of an operator by name, including missing ones; none before the version
/// is on the cluster.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn workloads(
    client: &Client,
    namespace: &str,
    target: &str,
) -> Result<Vec<DeploymentState>, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    let Some(csv) = &view.csv else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    for deployment in deployments_of(client, namespace, csv).await? {
        let pods = pods_of(client, namespace, &deployment).await?;
        out.push(deployment_state(&deployment, &pods));
    }
    out.extend(missing(csv, &out));
    out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(out)
}

/// The Deployments of a version that do not exist.
fn missing(csv: &ClusterServiceVersion, found: &[DeploymentState]) -> Vec<DeploymentState> {
    let declared = csv.spec.install.spec.deployments.iter();
    let absent = declared.filter(|wanted| found.iter().all(|known| known.name != wanted.name));
    let state = |name: &str, replicas: i32| DeploymentState {
        name: name.to_owned(),
        ready: 0,
        replicas,
        images: Vec::new(),
        reason: Some("the Deployment does not exist".to_owned()),
        created: None,
        pods: Vec::new(),
    };
    let replicas = |spec: &Value| spec.get("replicas").and_then(Value::as_i64).unwrap_or(1);
    absent
        .map(|wanted| state(&wanted.name, i32::try_from(replicas(&wanted.spec)).unwrap_or(i32::MAX)))
        .collect()
}

fn deployment_state(deployment: &Deployment, pods: &[Pod]) -> DeploymentState {
    let (ready, wanted) = replicas(deployment);
    let template = deployment.spec.template.spec.as_ref();
    let images = template.into_iter().flat_map(|pod| &pod.containers).filter_map(|c| c.image.clone());
    let mut pods: Vec<PodState> = pods.iter().map(pod_state).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    DeploymentState {
        name: deployment.name_any(),
        ready,
        replicas: wanted,
        images: images.collect(),
        reason: (ready < wanted).then(|| unavailable(deployment)).flatten(),
        created: deployment.creation_timestamp().map(|time| time.0.to_string()),
        pods,
    }
}

/// The first condition that explains why a Deployment is not available.
fn unavailable(deployment: &Deployment) -> Option<String> {
    let conditions = deployment.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let bad = [("ReplicaFailure", "True"), ("Progressing", "False"), ("Available", "False")];
    let found = bad.iter().find_map(|(type_, status)| {
        let is = |value: &Option<String>, wanted: &str| value.as_deref() == Some(wanted);
        conditions.iter().find(|condition| is(&condition.type_, type_) && is(&condition.status, status))
    })?;
    let reason = found.reason.clone().or_else(|| found.type_.clone()).unwrap_or_default();
    Some(match found.message.as_deref().unwrap_or_default() {
        "" => reason,
        message => format!("{reason}: {message}"),
    })
}

fn pod_state(pod: &Pod) -> PodState {
    let status = pod.status.as_ref();
    let containers: &[ContainerStatus] =
        status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let init = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let spec = pod.spec.as_ref();
    let leaving = pod.metadata.deletion_timestamp.is_some();
    let reason = PodFailure::of(pod).map(|failure| failure.detail()).or_else(|| pod_problem(pod));
    let reason = reason.filter(|_| !leaving);
    PodState {
        name: pod.name_any(),
        phase: match leaving {
            true => "Terminating".to_owned(),
            false => status.and_then(|status| status.phase.clone()).unwrap_or_default(),
        },
        is_ready: status.is_some() && reason.is_none() && !leaving,
        ready_containers: containers.iter().filter(|container| container.ready).count(),
        containers: spec.map_or(containers.len(), |spec| spec.containers.len()),
        restarts: init.iter().chain(containers).map(|container| container.restart_count).sum(),
        images: spec
            .into_iter()
            .flat_map(|spec| &spec.containers)
            .filter_map(|container| container.image.clone())
            .collect(),
        reason,
        node: spec.and_then(|spec| spec.node_name.clone()),
        created: pod.creation_timestamp().map(|time| time.0.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(status: Value) -> Deployment {
        let template = json!({ "spec": { "containers": [{ "name": "main", "image": "reg/x:1" }] } });
        serde_json::from_value(json!({
            "metadata": { "name": "op", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "replicas": 2, "selector": {}, "template": template }, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_deployment_reports_why_it_is_not_available_and_its_pods_their_restarts() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "op-1" },
            "spec": { "nodeName": "n", "containers": [{ "name": "main", "image": "reg/x:1" }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "False" }],
                "containerStatuses": [{ "name": "main", "image": "reg/x:1", "imageID": "", "ready": false,
                    "restartCount": 4, "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] },
        }))
        .unwrap();
        let conditions = json!([
            { "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated" },
            { "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "none" }]);
        let state = deployment_state(&deployment(json!({ "conditions": conditions })), &[pod]);
        assert_eq!(
            (state.ready, state.replicas, state.images.as_slice()),
            (0, 2, &["reg/x:1".to_owned()][..])
        );
        assert_eq!(state.reason.as_deref(), Some("MinimumReplicasUnavailable: none"));
        let pod = &state.pods[0];
        assert_eq!((pod.restarts, pod.ready_containers, pod.containers, pod.is_ready), (4, 0, 1, false));
        assert_eq!(pod.reason.as_deref(), Some("container main: CrashLoopBackOff"));
        // conditions of an available Deployment are not reasons
        let available = deployment(json!({ "readyReplicas": 2, "updatedReplicas": 2,
            "conditions": [{ "type": "Progressing", "status": "False", "reason": "Old" }] }));
        assert_eq!(deployment_state(&available, &[]).reason, None);
    }

    #[test]
    fn deployments_that_do_not_exist_are_listed() {
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "metadata": { "name": "op.v1" },
            "spec": { "install": { "strategy": "deployment", "spec": { "deployments": [
                { "name": "op", "spec": { "replicas": 2, "selector": {}, "template": {} } },
                { "name": "webhook", "spec": { "selector": {}, "template": {} } }] } } },
        }))
        .unwrap();
        let found = [deployment_state(&deployment(json!({})), &[])];
        let missing = missing(&csv, &found);
        assert_eq!(missing.len(), 1);
        assert_eq!((missing[0].name.as_str(), missing[0].replicas), ("webhook", 1));
    }
}
