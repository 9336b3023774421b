//! A scheduler for one node: pods go to it while it is ready, and are told why not while it is not.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    cache::{Cache, Key},
    error::{During, Error, unless_gone},
    events::Recorder,
    pods,
};

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) nodes: Arc<Cache<Node>>,
    pub(crate) node_name: String,
    pub(crate) events: Recorder,
}

/// Whether this scheduler has to place a pod.
pub(crate) fn is_waiting(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let placed = spec.and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or("default-scheduler");
    let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
    !placed
        && !gated
        && scheduler == "default-scheduler"
        && !pods::is_terminating(pod)
        && !pods::is_finished(pod)
}

/// Why a pod cannot run on the node; nothing when it can.
pub(crate) fn obstacle(pod: &Pod, node: Option<&Node>, node_name: &str) -> Option<String> {
    let Some(node) = node else {
        return Some(format!(
            "0/0 nodes are available: node `{node_name}` has not registered, so no pod can run here."
        ));
    };
    let ready = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .find(|condition| condition.type_ == "Ready");
    if ready.is_none_or(|condition| condition.status != "True") {
        let why = ready.and_then(|condition| condition.message.clone()).filter(|text| !text.is_empty());
        let why = why.unwrap_or_else(|| format!("node `{node_name}` is not ready"));
        return Some(format!(
            "0/1 nodes are available: 1 node(s) were not ready: {}.",
            why.trim_end_matches('.')
        ));
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        return Some("0/1 nodes are available: 1 node(s) were unschedulable.".to_owned());
    }
    let none = BTreeMap::new();
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()).unwrap_or(&none);
    if wanted.iter().any(|(key, value)| node.labels().get(key) != Some(value)) {
        return Some(
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.".to_owned(),
        );
    }
    None
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.get(&key).filter(|pod| is_waiting(pod)) else { return Ok(None) };
        let node = self.nodes.get(&Key::new("", &self.node_name));
        match obstacle(&pod, node.as_deref(), &self.node_name) {
            None => self.bind(&pod, &key).await?,
            Some(message) => self.refuse(&pod, &key, &message).await?,
        }
        Ok(None)
    }

    async fn bind(&self, pod: &Pod, key: &Key) -> Result<(), Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut binding = Binding {
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(self.node_name.clone()),
                ..ObjectReference::default()
            },
            ..Binding::default()
        };
        binding.metadata.name = Some(key.name.clone());
        binding.metadata.namespace = Some(key.namespace.clone());
        binding.metadata.uid = pod.uid();
        let result: Result<serde_json::Value, _> =
            api.create_subresource("binding", &key.name, &PostParams::default(), &binding).await;
        if unless_gone(result.during(|| format!("bind pod {key} to node {}", self.node_name)))?.is_some() {
            let text = format!("Successfully assigned {key} to {}", self.node_name);
            self.events.normal(pod, "Scheduled", text);
        }
        Ok(())
    }

    async fn refuse(&self, pod: &Pod, key: &Key, message: &str) -> Result<(), Error> {
        let known = pods::condition(pod, "PodScheduled");
        if known.is_some_and(|c| c.status == "False" && c.message.as_deref() == Some(message)) {
            return Ok(());
        }
        let now = jiff::Timestamp::now();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
        let mut conditions: Vec<_> =
            pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).cloned().collect();
        conditions.retain(|condition| condition.type_ != "PodScheduled");
        let mut conditions: Vec<serde_json::Value> =
            conditions.iter().filter_map(|condition| serde_json::to_value(condition).ok()).collect();
        conditions.push(json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": now.to_string(),
        }));
        let patch = json!({
            "metadata": { "uid": pod.uid(), "resourceVersion": pod.resource_version() },
            "status": { "conditions": conditions },
        });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Some(patched) = unless_gone(result.during(|| format!("update status of pod {key}")))? {
            self.pods.assume(patched);
            self.events.warning(pod, "FailedScheduling", message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn node(ready: &str, extra: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "olm-node", "labels": {"disk": "ssd"}}, "spec": extra,
            "status": {"conditions": [{"type": "Ready", "status": ready, "message": "no root: run it as root"}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_unplaced_pods_wait() {
        assert!(is_waiting(&pod(json!({"containers": []}))));
        assert!(!is_waiting(&pod(json!({"containers": [], "nodeName": "x"}))));
        assert!(!is_waiting(&pod(json!({"containers": [], "schedulerName": "other"}))));
        assert!(!is_waiting(&pod(json!({"containers": [], "schedulingGates": [{"name": "x"}]}))));
    }

    #[test]
    fn obstacles_say_what_to_do() {
        let plain = pod(json!({"containers": []}));
        assert_eq!(obstacle(&plain, Some(&node("True", json!({}))), "olm-node"), None);
        assert_eq!(
            obstacle(&plain, Some(&node("False", json!({}))), "olm-node").as_deref(),
            Some("0/1 nodes are available: 1 node(s) were not ready: no root: run it as root.")
        );
        assert!(obstacle(&plain, None, "olm-node").unwrap().contains("`olm-node` has not registered"));
        assert!(obstacle(&plain, Some(&node("True", json!({"unschedulable": true}))), "olm-node").is_some());
        let picky = pod(json!({"containers": [], "nodeSelector": {"disk": "hdd"}}));
        assert!(obstacle(&picky, Some(&node("True", json!({}))), "olm-node").unwrap().contains("selector"));
    }
}
