//! Pods that fail to start. Deployments do not report why, and pods are not watched: a cluster has many. So
//! those of a Deployment that is not available are listed, at growing intervals.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use olm_api::csv::CsvPhase;
use olm_ops::PodFailure;
use serde_json::Value;

use super::{
    facts::{Observed, name_of},
    health::{DeploymentProblem, problems},
};
use crate::context::SAFETY_NET;

/// Time between two looks at pods: at first, and later a fraction of the time since the phase began.
const FIRST: Duration = Duration::from_secs(2);
const FRACTION: i32 = 4;
/// Maximum number of pods of a Deployment that are read: replicas fail alike.
const MOST: u32 = 50;

/// The pods that fail to start, and why, by their Deployment. Nothing is read in the moment in which a version
/// begins to start: most run soon after.
pub(super) async fn failing(observed: &Observed<'_>, client: &Client) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let desired = observed.desired.as_ref().map(|d| d.deployments.as_slice()).unwrap_or_default();
    let namespace = observed.csv.namespace().unwrap_or_default();
    let api = Api::<Pod>::namespaced(client.clone(), &namespace);
    for problem in unavailable(observed, observed.csv.phase()) {
        let deployment = desired.iter().find(|d| name_of(d) == Some(problem.name.as_str()));
        let Some(selector) = deployment.and_then(selector) else { continue };
        match api.list(&ListParams::default().labels(&selector).limit(MOST)).await {
            Ok(pods) => out.extend(first_failure(pods.items).map(|why| (problem.name, why))),
            // The phase does not depend on it.
            Err(error) => {
                tracing::debug!(%error, namespace, deployment = problem.name, "failed to list pods")
            }
        }
    }
    out
}

/// The Deployments of a version in this phase that exist and are not available.
fn unavailable(observed: &Observed<'_>, phase: CsvPhase) -> Vec<DeploymentProblem> {
    if !matches!(phase, CsvPhase::Installing | CsvPhase::Failed) {
        return Vec::new();
    }
    let mut problems = problems(observed);
    problems.retain(|problem| observed.deployments.contains_key(&problem.name));
    problems
}

/// The failure of the newest pod that has one: older pods may be those of the previous version.
fn first_failure(mut pods: Vec<Pod>) -> Option<String> {
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)));
    PodFailure::first(&pods)
}

/// The label selector of a Deployment's pods; `None` where it has none by labels.
fn selector(deployment: &Value) -> Option<String> {
    let labels = deployment.pointer("/spec/selector/matchLabels")?.as_object()?;
    let pairs: Option<Vec<String>> =
        labels.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.filter(|pairs| !pairs.is_empty()).map(|pairs| pairs.join(","))
}

/// When to look at the pods of a version in this phase again; `None` where they are of no interest.
pub(super) fn interval(observed: &Observed<'_>, phase: CsvPhase) -> Option<Duration> {
    if unavailable(observed, phase).is_empty() {
        return None;
    }
    let since = observed.csv.status.as_ref().filter(|status| status.phase == phase);
    let since = since.and_then(|status| status.last_transition_time.as_ref());
    let elapsed = since.map_or(SignedDuration::ZERO, |since| observed.now.duration_since(since.0));
    let next = Duration::try_from(elapsed / FRACTION).unwrap_or_default();
    Some(next.clamp(FIRST, SAFETY_NET))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::{
        super::decide::tests::{csv, down, observed, running, up},
        *,
    };

    fn pod(name: &str, created: &str, reason: &str) -> Pod {
        let state = json!({ "waiting": { "reason": reason, "message": "denied" } });
        serde_json::from_value(json!({
            "metadata": { "name": name, "creationTimestamp": created },
            "status": { "containerStatuses": [{ "name": "main", "image": "reg/x:1", "imageID": "", "ready": false,
                "restartCount": 0, "state": state }] },
        }))
        .unwrap()
    }

    #[test]
    fn the_newest_pod_that_fails_is_named() {
        let pods = vec![
            pod("old", "2026-01-01T00:00:00Z", "CrashLoopBackOff"),
            pod("new", "2026-01-02T00:00:00Z", "ErrImagePull"),
            pod("newest", "2026-01-03T00:00:00Z", "ContainerCreating"),
        ];
        assert_eq!(
            first_failure(pods).as_deref(),
            Some("pod new: container main, image reg/x:1: ErrImagePull: denied")
        );
        assert_eq!(first_failure(vec![pod("new", "2026-01-02T00:00:00Z", "PodInitializing")]), None);
    }

    #[test]
    fn pods_are_selected_by_labels() {
        let of = |spec: Value| selector(&json!({ "spec": spec }));
        let labels = json!({ "selector": { "matchLabels": { "app": "a", "tier": "b" } } });
        assert_eq!(of(labels).as_deref(), Some("app=a,tier=b"));
        // an empty selector would match every pod of the namespace
        assert_eq!(of(json!({ "selector": { "matchLabels": {} } })), None);
        assert_eq!(of(json!({ "selector": {} })), None);
    }

    #[test]
    fn pods_are_looked_at_within_seconds_and_then_seldom() {
        let next = |ago: i64, status: Value| {
            let mut csv = csv("v1", CsvPhase::Installing, "InstallWaiting");
            let since = Timestamp::from_second(1_000_000 - ago).unwrap();
            csv.status.as_mut().unwrap().last_transition_time = Some(Time(since));
            let mut observed = observed(&csv);
            running(&mut observed, status);
            let seconds = |phase| interval(&observed, phase).map(|next| next.as_secs());
            (seconds(CsvPhase::Installing), seconds(CsvPhase::Failed))
        };
        assert_eq!(next(0, down()), (Some(2), Some(2)));
        // a phase that begins now is looked at soon
        assert_eq!(next(100, down()), (Some(25), Some(2)));
        assert_eq!(next(100_000, down()).0, Some(600));
        // a clock that was set back does not stop it
        assert_eq!(next(-100, down()).0, Some(2));
        assert_eq!(next(100, up()), (None, None));
        // nor is a version that waits for its requirements
        let csv = csv("v1", CsvPhase::Pending, "");
        let mut pending = observed(&csv);
        running(&mut pending, down());
        assert_eq!(interval(&pending, CsvPhase::Pending), None);
    }
}
