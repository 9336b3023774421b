//! Allowed disruptions of a PodDisruptionBudget. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};

use crate::pods;

/// After this time an evicted pod that still exists is assumed to stay.
const DELETION: SignedDuration = SignedDuration::from_secs(120);

/// Whether the number of pods comes from their controllers: for a percentage, or for `maxUnavailable`.
pub(crate) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// A number, or a percentage of a whole, rounded up.
fn scaled(value: &IntOrString, whole: i32) -> Result<i32, String> {
    match value {
        IntOrString::Int(number) => Ok(*number),
        IntOrString::String(text) => {
            let percent: Option<i64> = text.strip_suffix('%').and_then(|number| number.parse().ok());
            let percent =
                percent.filter(|percent| (0..=i64::from(i32::MAX)).contains(percent)).ok_or_else(|| {
                    format!(
                        "invalid value for IntOrString: invalid type: string is not a percentage: {text:?}"
                    )
                })?;
            let share = (i64::from(whole) * percent + 99) / 100;
            i32::try_from(share).map_err(|_| format!("{text} of {whole} pods is too many"))
        }
    }
}

/// Expected and required pods of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) expected: i32,
    pub(crate) desired: i32,
}

/// Number of expected pods, and of pods that must be healthy. `scale`: replicas of their controllers.
pub(crate) fn count(budget: &PodDisruptionBudget, pods: usize, scale: i32) -> Result<Counted, String> {
    let pods = i32::try_from(pods).unwrap_or(i32::MAX);
    let spec = budget.spec.clone().unwrap_or_default();
    match (spec.max_unavailable, spec.min_available) {
        (Some(most), _) => {
            Ok(Counted { expected: scale, desired: scale.saturating_sub(scaled(&most, scale)?).max(0) })
        }
        (None, Some(IntOrString::Int(least))) => Ok(Counted { expected: pods, desired: least }),
        (None, Some(least)) => Ok(Counted { expected: scale, desired: scaled(&least, scale)? }),
        (None, None) => Ok(Counted { expected: 0, desired: 0 }),
    }
}

/// Evicted pods that still exist and count as gone; and the time at which the first of them expires.
fn disrupted(
    budget: &PodDisruptionBudget,
    all: &[&Pod],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<SignedDuration>) {
    let known = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let mut left = BTreeMap::new();
    let mut again: Option<SignedDuration> = None;
    for pod in all.iter().filter(|pod| !pods::is_terminating(pod)) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let Some(time) = known.get(&name) else { continue };
        let rest = DELETION - now.duration_since(time.0);
        if rest > SignedDuration::ZERO {
            again = Some(again.map_or(rest, |earlier| earlier.min(rest)));
            left.insert(name, time.clone());
        }
    }
    (left, again)
}

/// The status of a budget, and the time of the next computation without an event.
pub(crate) fn status(
    budget: &PodDisruptionBudget,
    all: &[&Pod],
    counted: Counted,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<SignedDuration>) {
    let (disrupted, again) = disrupted(budget, all, now);
    let healthy = all.iter().filter(|pod| {
        !pods::is_terminating(pod)
            && pods::is_ready(pod)
            && !pod.metadata.name.as_ref().is_some_and(|name| disrupted.contains_key(name))
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let allowed = if counted.expected <= 0 { 0 } else { healthy.saturating_sub(counted.desired).max(0) };
    let (state, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let status = PodDisruptionBudgetStatus {
        conditions: Some(vec![condition(budget, state, reason, String::new(), now)]),
        current_healthy: Some(healthy),
        desired_healthy: Some(counted.desired),
        disrupted_pods: Some(disrupted),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(counted.expected),
        observed_generation: budget.metadata.generation,
    };
    (status, again)
}

/// Status when the pods cannot be counted: no eviction is allowed.
pub(crate) fn failed(budget: &PodDisruptionBudget, why: String, now: Timestamp) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    status.conditions = Some(vec![condition(budget, "False", "SyncFailed", why, now)]);
    status
}

fn condition(
    budget: &PodDisruptionBudget,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Condition {
    let known = budget.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let known = known.into_iter().find(|known| known.type_ == "DisruptionAllowed" && known.status == status);
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: known.map_or(Time(whole), |known| known.last_transition_time.clone()),
        observed_generation: budget.metadata.generation,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn budget(spec: Value) -> PodDisruptionBudget {
        from_value(json!({"metadata": {"name": "b", "generation": 3}, "spec": spec})).unwrap()
    }

    fn pod(name: &str, ready: &str) -> Pod {
        from_value(json!({"metadata": {"name": name}, "spec": {"containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    #[test]
    fn required_healthy_pods() {
        let counted = |spec: Value| count(&budget(spec), 3, 5).map(|c| (c.expected, c.desired));
        assert_eq!(counted(json!({"minAvailable": 2})), Ok((3, 2)));
        assert_eq!(counted(json!({"minAvailable": "50%"})), Ok((5, 3)));
        assert_eq!(counted(json!({"maxUnavailable": 1})), Ok((5, 4)));
        assert_eq!(counted(json!({"maxUnavailable": "50%"})), Ok((5, 2)));
        assert_eq!(counted(json!({"maxUnavailable": 9})), Ok((5, 0)));
        assert!(counted(json!({"minAvailable": "half"})).is_err());
        assert!(!needs_scale(&budget(json!({"minAvailable": 2}))));
        assert!(needs_scale(&budget(json!({"maxUnavailable": 1}))));
    }

    #[test]
    fn evicted_pods_count_as_gone_for_a_limited_time() {
        // given three healthy pods, one that is not, and one that was evicted a minute ago
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "True"), pod("d", "False")];
        let all: Vec<&Pod> = pods.iter().collect();
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut budget = budget(json!({"minAvailable": 1}));
        let earlier = json!({"currentHealthy": 3, "desiredHealthy": 1, "disruptionsAllowed": 1, "expectedPods": 4,
            "disruptedPods": {"c": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"}});
        budget.status = Some(from_value(earlier).unwrap());
        // when it is counted
        let counted = Counted { expected: 4, desired: 1 };
        let (made, again) = status(&budget, &all, counted, now);
        // then the evicted one does not count as healthy any more
        assert_eq!(
            (made.current_healthy, made.disruptions_allowed, made.observed_generation),
            (Some(2), Some(1), Some(3))
        );
        assert_eq!(made.disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["c"]);
        assert_eq!(again, Some(SignedDuration::from_secs(60)));
        // and counts again when it was not deleted in time
        let (made, again) = status(&budget, &all, counted, now + SignedDuration::from_secs(61));
        assert_eq!((made.current_healthy, made.disruptions_allowed, again), (Some(3), Some(2), None));
        // and without expected pods no disruption is allowed
        assert_eq!(
            status(&budget, &[], Counted { expected: 0, desired: 0 }, now).0.disruptions_allowed,
            Some(0)
        );
    }
}
