//! Pods of operators, and of `olm` itself, that fail to start.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentCondition},
    core::v1::Pod,
};
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use olm_api::names;

use super::{
    facts::{cause, place},
    installation::named,
    problem::{Code, Problem},
};
use crate::{manifests::PART_OF, pod_failure::PodFailure};

/// Maximum number of Deployments whose pods are read; more unavailable ones have a common cause.
const DEPLOYMENTS: usize = 200;
const AT_ONCE: usize = 8;

/// A Deployment that lacks available pods, with the pods that its selector matches.
#[derive(Debug, Clone)]
pub(super) struct Unavailable {
    pub(super) deployment: Deployment,
    pub(super) pods: Vec<Pod>,
}

/// Reads unavailable Deployments of operators and of the installation in `home`. The second part lists what
/// was unreadable.
pub(super) async fn read(
    client: &Client,
    namespace: Option<&str>,
    home: Option<&str>,
) -> (Vec<Unavailable>, Vec<String>) {
    let mut unread = Vec::new();
    let mut deployments = Vec::new();
    let own = format!("{}={}", PART_OF.0, PART_OF.1);
    for (namespace, selector) in
        [Some((namespace, names::LABEL_OWNER)), home.map(|home| (Some(home), own.as_str()))]
            .into_iter()
            .flatten()
    {
        let api = match namespace {
            Some(namespace) => Api::<Deployment>::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        match api.list(&ListParams::default().labels(selector)).await {
            Ok(list) => deployments.extend(list.items.into_iter().filter(is_unavailable)),
            Err(error) => unread.push(format!("Deployments {}: {}", place(namespace), cause(&error))),
        }
    }
    if deployments.len() > DEPLOYMENTS {
        unread.push(format!(
            "pods of {} more Deployments that are not available: only {DEPLOYMENTS} are checked",
            deployments.len() - DEPLOYMENTS
        ));
        deployments.truncate(DEPLOYMENTS);
    }
    // Collected first: a lazy closure over references would make the caller's future not Send.
    let reads: Vec<_> = deployments.into_iter().map(|deployment| pods_of(client, deployment)).collect();
    let mut out = Vec::new();
    for result in stream::iter(reads).buffered(AT_ONCE).collect::<Vec<_>>().await {
        match result {
            Ok(unavailable) => out.push(unavailable),
            Err(why) => unread.push(why),
        }
    }
    (out, unread)
}

async fn pods_of(client: &Client, deployment: Deployment) -> Result<Unavailable, String> {
    let namespace = deployment.namespace().unwrap_or_default();
    let labels = deployment.spec.selector.match_labels.clone().unwrap_or_default();
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(","));
    match Api::<Pod>::namespaced(client.clone(), &namespace).list(&params).await {
        Ok(list) => Ok(Unavailable { deployment, pods: list.items }),
        Err(error) => Err(format!("Pods {}: {}", place(Some(&namespace)), cause(&error))),
    }
}

/// Whether pods of the current template are missing: an old pod that still serves does not count.
fn is_unavailable(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let Some(status) = &deployment.status else { return wanted > 0 };
    let available = status.available_replicas.unwrap_or(0);
    let updated = status.updated_replicas.unwrap_or(0);
    deployment.metadata.deletion_timestamp.is_none()
        && (available.min(updated) < wanted || status.unavailable_replicas.unwrap_or(0) > 0)
}

pub(super) fn check(unavailable: &[Unavailable]) -> Vec<Problem> {
    unavailable.iter().flat_map(one).collect()
}

fn one(unavailable: &Unavailable) -> Vec<Problem> {
    let deployment = &unavailable.deployment;
    let owner = match deployment.labels().get(names::LABEL_OWNER) {
        Some(csv) => format!("of {csv}"),
        None => format!("of Deployment {}", deployment.name_any()),
    };
    let mut out = Vec::new();
    // Replicas fail alike: one line per cause.
    let mut causes: BTreeMap<(String, String), (PodFailure, &Pod, usize)> = BTreeMap::new();
    for pod in &unavailable.pods {
        if let Some(failure) = PodFailure::of(pod) {
            let key = (failure.container.clone().unwrap_or_default(), failure.reason.clone());
            causes.entry(key).or_insert((failure, pod, 0)).2 += 1;
        }
    }
    for (failure, pod, count) in causes.into_values() {
        let more = if count > 1 { format!(" (and {} more pods)", count - 1) } else { String::new() };
        let why = format!("{owner}: {}{more}", failure.text());
        out.push(Problem::new(Code::PodNotStarting, named("Pod", pod), why).fix(failure.fix(pod)));
    }
    let conditions = deployment.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    if let Some(refused) = conditions.iter().find(is_refused) {
        let why = format!(
            "{owner}: {}: {}",
            refused.reason.as_deref().unwrap_or("ReplicaFailure"),
            refused.message.as_deref().unwrap_or_default()
        );
        let fix = format!(
            "kubectl describe deployment -n {} {}",
            deployment.namespace().unwrap_or_default(),
            deployment.name_any()
        );
        out.push(Problem::new(Code::PodNotStarting, named("Deployment", deployment), why).fix(fix));
    }
    out
}

fn is_refused(condition: &&DeploymentCondition) -> bool {
    condition.type_.as_deref() == Some("ReplicaFailure") && condition.status.as_deref() == Some("True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, status: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "ns" }, "status": status }))
            .unwrap()
    }

    fn waiting(reason: &str) -> Value {
        json!({ "containerStatuses": [{ "name": "main", "image": "reg/x:1", "imageID": "", "ready": false,
            "restartCount": 0, "state": { "waiting": { "reason": reason, "message": "because" } } }] })
    }

    fn deployment(status: Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": "thing", "namespace": "ns", "labels": { "olm.owner": "thing.v1" } },
            "spec": { "replicas": 1, "selector": { "matchLabels": { "a": "b" } }, "template": {} },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn replicas_with_one_cause_are_one_line_with_the_next_step() {
        let found = Unavailable {
            deployment: deployment(json!({})),
            pods: vec![pod("p1", waiting("ErrImagePull")), pod("p2", waiting("ErrImagePull"))],
        };
        let problems = check(&[found]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].object.as_deref(), Some("Pod ns/p1"));
        assert_eq!(problems[0].why, "of thing.v1: container main: ErrImagePull: because (and 1 more pods)");
        let fix = "check image reg/x:1 and the pull secrets of the pod: kubectl describe pod -n ns p1";
        assert_eq!(problems[0].fix.as_deref(), Some(fix));
        let mut crash = waiting("CrashLoopBackOff");
        crash["containerStatuses"][0]["lastState"] = json!({ "terminated": { "exitCode": 3 } });
        let found = Unavailable { deployment: deployment(json!({})), pods: vec![pod("p", crash)] };
        let problems = check(&[found]);
        assert_eq!(problems[0].why, "of thing.v1: container main: CrashLoopBackOff: exit code 3; because");
        assert_eq!(problems[0].fix.as_deref(), Some("kubectl logs -n ns p -c main --previous"));
    }

    #[test]
    fn pods_that_the_cluster_refuses_are_reported_of_their_deployment() {
        let status = json!({ "conditions": [{ "type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": "pods are forbidden: exceeded quota" }] });
        let found = Unavailable { deployment: deployment(status), pods: Vec::new() };
        let problems = check(&[found]);
        assert_eq!(problems[0].object.as_deref(), Some("Deployment ns/thing"));
        assert_eq!(problems[0].why, "of thing.v1: FailedCreate: pods are forbidden: exceeded quota");
    }

    #[test]
    fn an_old_pod_that_serves_does_not_hide_a_new_one_that_cannot_start() {
        let rolling =
            json!({ "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 1 });
        assert!(is_unavailable(&deployment(rolling)));
        assert!(!is_unavailable(&deployment(json!({ "updatedReplicas": 1, "availableReplicas": 1 }))));
    }
}
