//! Replaces the agent where namespaces cannot be created: pods stay Pending and report the reason.
//!
//! The scheduler reports the message of the Node object to new pods. This covers the pods that an earlier run
//! has placed on the node.

use std::{collections::HashSet, time::Duration};

use futures::TryStreamExt as _;
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};

use super::{
    NODE_NAME,
    events::{Events, Severity},
    pod::status::waiting,
    registration,
};

/// Keeps every pod Pending with an event and a condition that contain the advice. Runs until it is dropped.
pub async fn unavailable(client: Client, advice: String) {
    let message = format!("pods are disabled on this dev cluster: {advice}");
    while let Err(error) = registration::write(&client, &[], Err(&message)).await {
        tracing::warn!(%error, "failed to register the node, will retry");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let events = Events::start(client.clone(), NODE_NAME.to_owned());
    let pods: Api<Pod> = Api::all(client.clone());
    let mut stream = Box::pin(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
    let mut reported: HashSet<String> = HashSet::new();
    loop {
        let pod = match stream.try_next().await {
            Ok(Some(pod)) => pod,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "failed to watch pods");
                continue;
            }
        };
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        if pod.metadata.deletion_timestamp.is_some() {
            // No process runs, so no grace period is needed.
            let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
            continue;
        }
        let status = pod.status.clone().unwrap_or_default();
        let is_placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(NODE_NAME));
        let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if !is_placed || is_over || !reported.insert(pod.uid().unwrap_or_default()) {
            continue;
        }
        events.pod(&pod, None, Severity::Warning, "NodeUnavailable", message.clone());
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": not_running(status, &message)});
        if let Err(error) = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            tracing::debug!(%error, namespace, name, "failed to update the status of a pod");
        }
    }
}

/// Status patch for a pod whose containers were running when its node stopped.
fn not_running(status: PodStatus, message: &str) -> Value {
    const REASON: &str = "NodeUnavailable";
    let mut conditions = status.conditions.unwrap_or_default();
    for condition in conditions.iter_mut().filter(|condition| condition.type_.ends_with("Ready")) {
        condition.status = "False".to_owned();
        condition.reason = Some(REASON.to_owned());
        condition.message = Some(message.to_owned());
        condition.last_transition_time = Some(Time(jiff::Timestamp::now()));
    }
    let not_running = |mut containers: Vec<ContainerStatus>| {
        let has_ended = |container: &ContainerStatus| {
            container.state.as_ref().is_some_and(|state| state.terminated.is_some())
        };
        for container in containers.iter_mut().filter(|container| !has_ended(container)) {
            container.ready = false;
            container.started = Some(false);
            container.state = Some(waiting(REASON, Some(message.to_owned())));
        }
        containers
    };
    json!({
        "phase": "Pending", "conditions": conditions,
        "containerStatuses": status.container_statuses.map(not_running),
        "initContainerStatuses": status.init_container_statuses.map(not_running),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_pods_become_pending_and_finished_ones_stay_finished() {
        // given the status of an earlier run
        let left: PodStatus = serde_json::from_value(json!({
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 3,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }],
            "initContainerStatuses": [{
                "name": "first", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0}},
            }],
        }))
        .unwrap();
        // when the node cannot run pods any more
        let status = not_running(left, "run it as root");
        // then the pod is Pending and reports the reason
        assert_eq!(status["phase"], "Pending");
        assert_eq!(status["conditions"][0]["status"], "True");
        assert_eq!(status["conditions"][1]["status"], "False");
        assert_eq!(status["conditions"][1]["message"], "run it as root");
        let main = &status["containerStatuses"][0];
        assert_eq!((&main["ready"], &main["restartCount"]), (&json!(false), &json!(3)));
        assert_eq!(main["state"]["waiting"]["message"], "run it as root");
        assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    }
}
