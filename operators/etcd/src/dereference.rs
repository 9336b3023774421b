//! Looking: the pods of a cluster and what their etcds say. The only part that reads from the world.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::addressing::Addressing;
use crate::etcd::Etcd;
use crate::names;
use crate::observed::{Observed, PodView};
use crate::validate::Validated;

/// Why nothing was seen.
#[derive(Debug, thiserror::Error)]
#[error("failed to list the pods of {namespace}/{name}: {}", crate::apply::why(source))]
pub struct LookError {
    namespace: String,
    name: String,
    source: kube::Error,
}

/// One look. Pods are listed anew and not taken from a cache: a decision about a member must not rest on a pod that
/// was there a while ago.
pub(crate) async fn observe(
    client: &Client,
    etcd: &Etcd,
    addressing: &dyn Addressing,
    cluster: &Validated,
) -> Result<Observed, LookError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &cluster.namespace);
    let params = ListParams::default().labels(&names::cluster_selector(&cluster.name));
    let list = api.list(&params).await.map_err(|source| LookError {
        namespace: cluster.namespace.clone(),
        name: cluster.name.clone(),
        source,
    })?;
    let mut pods: Vec<PodView> = list
        .items
        .iter()
        // A pod of an earlier object of the same name, or of somebody who likes our labels, is not ours.
        .filter(|pod| {
            pod.owner_references().iter().any(|o| o.uid == cluster.uid && o.controller == Some(true))
        })
        .map(view)
        .collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    let endpoints = etcd.look(cluster, &pods, addressing).await;
    Ok(Observed { now: Timestamp::now(), pods, endpoints, fresh_name: names::fresh_member(&cluster.name) })
}

/// What matters of a pod.
pub(crate) fn view(pod: &Pod) -> PodView {
    let status = pod.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready");
    let container = status.container_statuses.iter().flatten().find(|c| c.name == "etcd");
    let state = container.and_then(|c| c.state.clone()).unwrap_or_default();
    let phase = status.phase.clone().unwrap_or_default();
    let waiting = state
        .waiting
        .map(|w| [w.reason, w.message].into_iter().flatten().collect::<Vec<_>>().join(": "))
        .or_else(|| {
            let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled")?;
            (scheduled.status == "False").then(|| scheduled.message.clone().unwrap_or_default())
        })
        .filter(|text| !text.is_empty());
    PodView {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        ip: status.pod_ip.clone().filter(|ip| !ip.is_empty()),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        ends_by: pod.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        ended: matches!(phase.as_str(), "Failed" | "Succeeded"),
        ready: ready.is_some_and(|c| c.status == "True"),
        ready_since: ready.and_then(|c| c.last_transition_time.as_ref()).map(|t| t.0),
        created: pod.creation_timestamp().map(|t| t.0),
        started: state.running.and_then(|r| r.started_at).map(|t| t.0),
        ever_started: container.is_some_and(ever_started),
        restarts: container.map_or(0, |c| c.restart_count),
        out_of_memory: container.is_some_and(out_of_memory),
        waiting,
        version: pod.annotations().get(names::ANNOTATION_VERSION).cloned().unwrap_or_default(),
    }
}

fn ever_started(container: &ContainerStatus) -> bool {
    let ran = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().is_some_and(|s| s.running.is_some() || s.terminated.is_some())
    };
    container.restart_count > 0 || ran(&container.state) || ran(&container.last_state)
}

fn out_of_memory(container: &ContainerStatus) -> bool {
    let last = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let now = container.state.as_ref().and_then(|s| s.terminated.as_ref());
    now.or(last).and_then(|t| t.reason.as_deref()) == Some("OOMKilled")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: serde_json::Value) -> PodView {
        view(
            &serde_json::from_value(serde_json::json!({ "metadata": { "name": "p" }, "status": status }))
                .unwrap(),
        )
    }

    #[test]
    fn a_pod_whose_image_is_not_there_says_so_and_never_held_data() {
        let pod = seen(serde_json::json!({ "phase": "Pending", "containerStatuses": [{
            "name": "etcd", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
            "state": { "waiting": { "reason": "ErrImagePull", "message": "no etcd 3.9.9" } } }] }));
        assert_eq!(pod.waiting.as_deref(), Some("ErrImagePull: no etcd 3.9.9"));
        assert!(!pod.ever_started && !pod.ended);
    }

    #[test]
    fn a_restarted_pod_holds_data_and_tells_why_it_ended() {
        let pod = seen(serde_json::json!({ "phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [{
            "name": "etcd", "ready": true, "restartCount": 5, "image": "i", "imageID": "",
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] }));
        assert!(pod.ever_started && pod.out_of_memory && pod.restarts == 5 && pod.started.is_some());
        assert_eq!(pod.ip.as_deref(), Some("10.0.0.9"));
    }

    #[test]
    fn an_evicted_pod_has_ended() {
        assert!(seen(serde_json::json!({ "phase": "Failed" })).ended);
    }
}
