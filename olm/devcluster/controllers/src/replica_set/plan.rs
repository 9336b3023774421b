//! Pure decisions about the pods of a ReplicaSet.

use std::{cmp::Reverse, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use crate::{
    claim::controller_reference,
    pods::{availability, is_ready, phase, ready_since},
};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod from the template.
pub(super) fn pod(set: &ReplicaSet) -> Pod {
    let template = set.spec.template.clone().unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = None;
    metadata.namespace = set.namespace();
    metadata.generate_name = Some(format!("{}-", set.name_any()));
    metadata.owner_references = Some(vec![controller_reference(set)]);
    Pod { metadata, spec: template.spec, status: None }
}

/// Pods to delete, in Kubernetes' order of preference: the least loss first.
pub(super) fn to_delete(pods: &[Arc<Pod>], count: usize) -> Vec<Arc<Pod>> {
    let mut ranked: Vec<&Arc<Pod>> = pods.iter().collect();
    ranked.sort_by_key(|pod| {
        let assigned =
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|n| !n.is_empty());
        let phase = match phase(pod) {
            "Pending" | "" => 0,
            "Running" => 2,
            _ => 1,
        };
        let cost: i32 = pod.annotations().get(DELETION_COST).and_then(|text| text.parse().ok()).unwrap_or(0);
        let restarts = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
            .map(|container| container.restart_count)
            .max()
            .unwrap_or(0);
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (
            assigned,
            phase,
            is_ready(pod),
            cost,
            Reverse(ready_since(pod)),
            Reverse(restarts),
            Reverse(created),
            pod.name_any(),
        )
    });
    ranked.into_iter().take(count).cloned().collect()
}

/// The status for these pods, and the time of its next change without an event.
pub(super) fn status(
    set: &ReplicaSet,
    pods: &[&Pod],
    failure: Option<String>,
    now: Timestamp,
) -> (ReplicaSetStatus, Option<SignedDuration>) {
    let template =
        set.spec.template.as_ref().and_then(|t| t.metadata.as_ref()?.labels.clone()).unwrap_or_default();
    let template: Selector = template.into_iter().collect();
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    let (mut labeled, mut ready, mut available) = (0, 0, 0);
    let mut check_after: Option<SignedDuration> = None;
    for pod in pods {
        labeled += i32::from(template.matches(pod.labels()));
        ready += i32::from(is_ready(pod));
        let (is_available, wait) = availability(pod, min_ready, now);
        available += i32::from(is_available);
        check_after = match (check_after, wait) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    let old = set.status.clone().unwrap_or_default();
    let some = |count: i32| (count != 0).then_some(count);
    let status = ReplicaSetStatus {
        replicas: i32::try_from(pods.len()).unwrap_or(i32::MAX),
        fully_labeled_replicas: some(labeled),
        ready_replicas: some(ready),
        available_replicas: some(available),
        observed_generation: set.metadata.generation,
        conditions: conditions(&old, failure, now),
        terminating_replicas: old.terminating_replicas,
    };
    (status, check_after)
}

fn conditions(
    old: &ReplicaSetStatus,
    failure: Option<String>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let is_failure = |c: &&ReplicaSetCondition| c.type_.as_deref() == Some("ReplicaFailure");
    let known = old.conditions.iter().flatten().find(is_failure);
    let mut conditions: Vec<_> =
        old.conditions.iter().flatten().filter(|c| !is_failure(c)).cloned().collect();
    if let Some(message) = failure {
        let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
        conditions.push(ReplicaSetCondition {
            type_: Some("ReplicaFailure".to_owned()),
            status: Some("True".to_owned()),
            reason: Some("FailedCreate".to_owned()),
            message: Some(message),
            last_transition_time: known.and_then(|c| c.last_transition_time.clone()).or(Some(now)),
        });
    }
    (!conditions.is_empty()).then_some(conditions)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod_with(name: &str, node: Option<&str>, phase: &str, ready: Option<&str>, created: i64) -> Arc<Pod> {
        let created = Timestamp::from_second(created).unwrap();
        let conditions: Vec<Value> = ready
            .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}))
            .into_iter()
            .collect();
        let pod = json!({
            "metadata": {"name": name, "labels": {"a": "b"}, "creationTimestamp": created.to_string()},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "conditions": conditions},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_least_useful_pods_go_first() {
        let pods = [
            pod_with("old-ready", Some("n"), "Running", Some("2026-01-01T00:00:00Z"), 100),
            pod_with("new-ready", Some("n"), "Running", Some("2026-01-01T01:00:00Z"), 200),
            pod_with("not-ready", Some("n"), "Running", None, 100),
            pod_with("unassigned", None, "Pending", None, 100),
            pod_with("pending", Some("n"), "Pending", None, 100),
        ];
        let names: Vec<String> = to_delete(&pods, 5).iter().map(|pod| pod.name_any()).collect();
        assert_eq!(names, ["unassigned", "pending", "not-ready", "new-ready", "old-ready"]);
        assert_eq!(to_delete(&pods, 2).len(), 2);
    }

    #[test]
    fn status_counts_pods_and_requests_a_recheck() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": "r", "generation": 3},
            "spec": {"replicas": 2, "minReadySeconds": 10, "selector": {"matchLabels": {"a": "b"}},
                     "template": {"metadata": {"labels": {"a": "b"}}}},
        }))
        .unwrap();
        let now: Timestamp = "2026-01-01T00:00:15Z".parse().unwrap();
        let pods = [
            pod_with("a", Some("n"), "Running", Some("2026-01-01T00:00:00Z"), 0),
            pod_with("b", Some("n"), "Running", Some("2026-01-01T00:00:08Z"), 0),
            pod_with("c", Some("n"), "Running", None, 0),
        ];
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let (status, wait) = status(&set, &pods, None, now);
        assert_eq!(
            (status.replicas, status.ready_replicas, status.available_replicas),
            (3, Some(2), Some(1))
        );
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!(wait, Some(SignedDuration::from_secs(3)));
    }

    #[test]
    fn pods_carry_their_owner() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"name": "web-abc", "namespace": "n", "uid": "u"},
            "spec": {"selector": {}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}},
        }))
        .unwrap();
        let pod = pod(&set);
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-abc-"));
        let owner = &pod.metadata.owner_references.unwrap()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.controller, owner.uid.as_str()),
            ("ReplicaSet", Some(true), "u")
        );
    }
}
