//! A scheduler for one node: binds pods to it while it is ready, and otherwise reports the reason in the
//! pods.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{Binding, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    cache::{Cache, Key},
    error::{During, Error, unless_gone},
    events::Recorder,
    pods, volumes,
};

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) pods: Arc<Cache<Pod>>,
    pub(crate) nodes: Arc<Cache<Node>>,
    pub(crate) claims: Arc<Cache<PersistentVolumeClaim>>,
    pub(crate) volumes: Arc<Cache<PersistentVolume>>,
    pub(crate) classes: Arc<Cache<StorageClass>>,
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

/// The reason why a pod cannot run on the node, if any.
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

/// State of a claim for scheduling.
#[derive(Debug, PartialEq, Eq)]
enum Storage {
    Ready,
    /// Waits for the selected node of its first pod.
    Select,
    /// The node is selected, and the volume is being provisioned.
    Making,
    Obstacle(String),
}

/// State of a claim that a pod mounts.
fn storage(
    name: &str,
    claim: Option<&PersistentVolumeClaim>,
    class: Option<&StorageClass>,
    has_volume: impl Fn(&str) -> bool,
) -> Storage {
    let unavailable = |why: String| Storage::Obstacle(format!("0/1 nodes are available: {why}."));
    let Some(claim) = claim else {
        return unavailable(format!("persistentvolumeclaim \"{name}\" not found"));
    };
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if claim.metadata.deletion_timestamp.is_some() {
        return unavailable(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if phase == Some("Lost") || (volumes::is_bound(claim) && !has_volume(volume)) {
        let why =
            format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\"");
        return unavailable(why);
    }
    if volumes::is_bound(claim) {
        return Storage::Ready;
    }
    let late =
        class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
    match (late && volume.is_empty(), claim.annotations().contains_key(volumes::SELECTED_NODE)) {
        (true, false) => Storage::Select,
        (true, true) => Storage::Making,
        (false, _) => unavailable("pod has unbound immediate PersistentVolumeClaims".to_owned()),
    }
}

impl Controller {
    pub(crate) async fn reconcile(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(pod) = self.pods.get(&key).filter(|pod| is_waiting(pod)) else { return Ok(None) };
        let node = self.nodes.get(&Key::new("", &self.node_name));
        if let Some(message) = obstacle(&pod, node.as_deref(), &self.node_name) {
            self.refuse(&pod, &key, &message).await?;
            return Ok(None);
        }
        let (mut ready, mut to_select) = (true, Vec::new());
        for name in volumes::claims_of(&pod) {
            let claim_key = Key::new(&key.namespace, name);
            let claim = self.claims.get(&claim_key);
            let class = claim.as_deref().and_then(volumes::class_of);
            let class = class.and_then(|class| self.classes.get(&Key::new("", class)));
            let has_volume = |volume: &str| self.volumes.get(&Key::new("", volume)).is_some();
            match storage(name, claim.as_deref(), class.as_deref(), has_volume) {
                Storage::Ready => continue,
                Storage::Select => to_select.push(claim_key),
                Storage::Making => {}
                Storage::Obstacle(message) => {
                    self.refuse(&pod, &key, &message).await?;
                    return Ok(None);
                }
            }
            ready = false;
        }
        if ready {
            self.bind(&pod, &key).await?;
        }
        // The change of the claim triggers the pod again.
        for claim in to_select {
            self.select_node(&claim).await?;
        }
        Ok(None)
    }

    async fn select_node(&self, claim: &Key) -> Result<(), Error> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &claim.namespace);
        let patch = json!({ "metadata": { "annotations": { volumes::SELECTED_NODE: self.node_name } } });
        let result = api.patch(&claim.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if let Some(patched) = unless_gone(result.during(|| format!("select a node for claim {claim}")))? {
            self.claims.assume(patched);
        }
        Ok(())
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
    fn obstacles_are_reported() {
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

    #[test]
    fn a_pod_waits_for_its_claims() {
        let claim = |annotations: Value, volume: &str| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {"name": "c", "annotations": annotations},
                "spec": {"volumeName": volume}}))
            .unwrap()
        };
        let class = |mode: &str| -> StorageClass {
            serde_json::from_value(json!({"metadata": {}, "provisioner": "x", "volumeBindingMode": mode}))
                .unwrap()
        };
        let (late, immediate) = (class("WaitForFirstConsumer"), class("Immediate"));
        let bound = claim(json!({"pv.kubernetes.io/bind-completed": "yes"}), "v");
        let ask = |claim: Option<&PersistentVolumeClaim>, class: &StorageClass, there: bool| {
            storage("c", claim, Some(class), |_| there)
        };
        let why = |asked: Storage| match asked {
            Storage::Obstacle(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(ask(Some(&bound), &late, true), Storage::Ready);
        assert_eq!(ask(Some(&claim(json!({}), "")), &late, true), Storage::Select);
        let selected = claim(json!({volumes::SELECTED_NODE: "n"}), "");
        assert_eq!(ask(Some(&selected), &late, true), Storage::Making);
        assert!(why(ask(Some(&claim(json!({}), "")), &immediate, true)).contains("unbound immediate"));
        assert!(why(ask(Some(&bound), &late, false)).contains("non-existent persistentvolume"));
        assert!(why(ask(None, &late, true)).contains("persistentvolumeclaim \"c\" not found"));
    }
}
