//! Properties of pods that controllers use.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Ran to completion.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Counts as one of the replicas.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

pub(crate) fn condition<'a>(pod: &'a Pod, ty: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == ty)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// Start of its readiness.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready").filter(|c| c.status == "True")?.last_transition_time.as_ref().map(|time| time.0)
}

/// Whether it has been ready for `min_ready_seconds`; otherwise, for a ready pod, the remaining time.
pub(crate) fn availability(
    pod: &Pod,
    min_ready_seconds: i32,
    now: Timestamp,
) -> (bool, Option<SignedDuration>) {
    if !is_ready(pod) {
        return (false, None);
    }
    if min_ready_seconds <= 0 {
        return (true, None);
    }
    let Some(since) = ready_since(pod) else { return (false, None) };
    let needed = SignedDuration::from_secs(i64::from(min_ready_seconds));
    let waited = now.duration_since(since);
    if waited >= needed { (true, None) } else { (false, Some(needed - waited)) }
}
