//! What stands in for the agent where namespaces cannot be made: pods stay Pending and say why.

use std::collections::HashSet;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;

use super::events::{Events, Severity};

/// Keeps every pod Pending with an event and a condition that tell what to do. Runs until it is dropped.
pub async fn unavailable(client: Client, advice: String) {
    let events = Events::start(client.clone(), super::NODE_NAME.to_owned());
    let pods: Api<Pod> = Api::all(client.clone());
    let mut stream = Box::pin(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
    let mut told: HashSet<String> = HashSet::new();
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
            // Nothing runs, so nothing has to be stopped.
            let _ = api.delete(&name, &kube::api::DeleteParams::default().grace_period(0)).await;
            continue;
        }
        if !told.insert(pod.uid().unwrap_or_default()) {
            continue;
        }
        let message = format!("this dev cluster cannot run pods: {advice}");
        events.pod(&pod, None, Severity::Warning, "NodeUnavailable", message.clone());
        let mut conditions =
            pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.retain(|condition| condition.type_ != "PodScheduled");
        let mut conditions = serde_json::to_value(conditions).unwrap_or_default();
        if let Some(list) = conditions.as_array_mut() {
            list.push(json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                "lastTransitionTime": jiff::Timestamp::now().to_string(),
            }));
        }
        let patch = json!({"status": {"phase": "Pending", "conditions": conditions}});
        if let Err(error) = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            tracing::debug!(%error, namespace, name, "failed to tell a pod that it cannot run");
        }
    }
}
