//! Decides the actions for a Job. Pure: job, pods and time in; status and actions out.
//!
//! A finished pod is counted in two steps, so that none is lost or counted twice, whichever client deletes
//! it: first its UID is stored in `status.uncountedTerminatedPods`, then its finalizer is removed, and only
//! then does a counter increase.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;

use crate::{claim::controller_reference, pods};

/// Finalizer of a pod that is not counted yet.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Delay in seconds before a failed pod is replaced, doubled with every failure.
const FIRST_DELAY: i64 = 10;
const LAST_DELAY: i64 = 600;

/// Actions, in this order: write the status, release pods, delete, create.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) status: JobStatus,
    /// Pods that have been counted, by name.
    pub(crate) release: Vec<String>,
    pub(crate) delete: Vec<String>,
    pub(crate) create: usize,
    /// The Job is finished and its TTL has expired.
    pub(crate) remove: bool,
    /// Delay of the next reconciliation.
    pub(crate) again: Option<SignedDuration>,
}

/// A pod from the template.
pub(crate) fn pod(job: &Job) -> Pod {
    let template = job.spec.clone().unwrap_or_default().template;
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = None;
    metadata.namespace = job.namespace();
    metadata.generate_name = Some(format!("{}-", job.name_any()));
    metadata.owner_references = Some(vec![controller_reference(job)]);
    metadata.finalizers = Some(vec![TRACKING.to_owned()]);
    Pod { metadata, spec: template.spec, status: None }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn has(status: &JobStatus, ty: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == ty && condition.status == "True")
}

fn set(status: &mut JobStatus, ty: &str, value: &str, reason: &str, message: &str, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|condition| condition.type_ == ty && condition.status == value) {
        return;
    }
    conditions.retain(|condition| condition.type_ != ty);
    let time = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    conditions.push(JobCondition {
        type_: ty.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: time.clone(),
        last_transition_time: time,
    });
}

/// Whether a finished pod succeeded; one that is deleted before it has succeeded counts as failed.
fn ended(pod: &Pod) -> Option<bool> {
    match pods::phase(pod) {
        "Succeeded" => Some(true),
        "Failed" => Some(false),
        _ if pods::is_terminating(pod) => Some(false),
        _ => None,
    }
}

fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// Restarts of containers: with OnFailure they are the retries.
fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let all = status.into_iter().flat_map(|status| {
        status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten())
    });
    all.map(|container| container.restart_count).sum()
}

/// End time of a pod, if reported.
fn end_of(pod: &Pod) -> Option<Timestamp> {
    let containers = pod.status.as_ref()?.container_statuses.iter().flatten();
    let ends =
        containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at.clone());
    ends.map(|time| time.0).max().or_else(|| Some(pod.metadata.deletion_timestamp.as_ref()?.0))
}

/// Backoff of the next pod, from the failures since the last success.
fn delay(pods: &[&Pod], now: Timestamp) -> Option<SignedDuration> {
    let success = pods.iter().filter(|pod| ended(pod) == Some(true)).filter_map(|pod| end_of(pod)).max();
    let failures: Vec<Timestamp> = pods
        .iter()
        .filter(|pod| ended(pod) == Some(false))
        .filter_map(|pod| end_of(pod))
        .filter(|end| success.is_none_or(|success| *end > success))
        .collect();
    let last = failures.iter().max()?;
    let doubled = FIRST_DELAY.saturating_mul(1 << (failures.len() - 1).min(16));
    let rest = SignedDuration::from_secs(doubled.min(LAST_DELAY)) - now.duration_since(*last);
    (rest > SignedDuration::ZERO).then_some(rest)
}

pub(crate) fn plan(job: &Job, pods: &[&Pod], now: Timestamp) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    let mut plan = Plan { status: job.status.clone().unwrap_or_default(), ..Plan::default() };
    if has(&plan.status, "Complete") || has(&plan.status, "Failed") {
        plan.release = tracked(pods);
        over(&spec, &mut plan, now);
        return plan;
    }
    let (succeeded, failed) = count(&mut plan, pods);
    let active: Vec<&&Pod> = pods.iter().filter(|pod| ended(pod).is_none()).collect();
    let leaving = pods.iter().filter(|pod| pods::is_terminating(pod) && !pods::is_finished(pod)).count();
    plan.status.active = counter(number(active.len()));
    plan.status.ready = Some(number(active.iter().filter(|pod| pods::is_ready(pod)).count()));
    plan.status.terminating = Some(number(leaving));
    if spec.suspend == Some(true) {
        suspend(&mut plan, &active, now);
    } else {
        start(&mut plan, now);
        set_outcome(&spec, &mut plan, &active, succeeded, failed, now);
    }
    let doomed = has(&plan.status, "FailureTarget");
    let reached = has(&plan.status, "SuccessCriteriaMet");
    if doomed || reached {
        plan.delete = active.iter().map(|pod| pod.name_any()).collect();
        let all_counted = plan.release.is_empty() && uncounted(&plan.status) == 0;
        if active.is_empty() && leaving == 0 && all_counted {
            finish(&mut plan, reached, now);
        }
    } else if spec.suspend != Some(true) {
        replicate(&spec, &mut plan, pods, &active, succeeded, now);
    }
    plan
}

fn tracked(pods: &[&Pod]) -> Vec<String> {
    pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.name_any()).collect()
}

fn uncounted(status: &JobStatus) -> usize {
    let pods = status.uncounted_terminated_pods.as_ref();
    pods.map_or(0, |pods| {
        pods.succeeded.as_ref().map_or(0, Vec::len) + pods.failed.as_ref().map_or(0, Vec::len)
    })
}

/// Zero is stored as unset, as in Kubernetes.
fn counter(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// Counts finished pods; returns the total of succeeded and failed ones.
fn count(plan: &mut Plan, pods: &[&Pod]) -> (i32, i32) {
    let tracked_uid =
        |uid: &String| pods.iter().any(|pod| is_tracked(pod) && pod.metadata.uid.as_ref() == Some(uid));
    let mut lists = plan.status.uncounted_terminated_pods.take().unwrap_or_default();
    let mut total = [0, 0];
    for (index, (list, so_far)) in
        [(&mut lists.succeeded, &mut plan.status.succeeded), (&mut lists.failed, &mut plan.status.failed)]
            .into_iter()
            .enumerate()
    {
        let mut uids = list.take().unwrap_or_default();
        let before = uids.len();
        uids.retain(tracked_uid);
        let counted = so_far.unwrap_or(0).saturating_add(number(before - uids.len()));
        // Pods whose UID is stored are released now; the others once the status is written.
        for pod in pods.iter().filter(|pod| is_tracked(pod) && ended(pod) == Some(index == 0)) {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            if !uids.contains(&uid) {
                uids.push(uid);
            }
            plan.release.push(pod.name_any());
        }
        *so_far = counter(counted);
        total[index] = counted.saturating_add(number(uids.len()));
        *list = (!uids.is_empty()).then_some(uids);
    }
    plan.status.uncounted_terminated_pods =
        Some(UncountedTerminatedPods { succeeded: lists.succeeded, failed: lists.failed });
    let [succeeded, failed] = total;
    (succeeded, failed)
}

fn suspend(plan: &mut Plan, active: &[&&Pod], now: Timestamp) {
    set(&mut plan.status, "Suspended", "True", "JobSuspended", "Job suspended", now);
    plan.status.start_time = None;
    plan.delete = active.iter().map(|pod| pod.name_any()).collect();
}

fn start(plan: &mut Plan, now: Timestamp) {
    if has(&plan.status, "Suspended") {
        set(&mut plan.status, "Suspended", "False", "JobResumed", "Job resumed", now);
    }
    if plan.status.start_time.is_none() {
        plan.status.start_time = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    }
}

/// Whether the Job is complete or has failed.
fn set_outcome(
    spec: &JobSpec,
    plan: &mut Plan,
    active: &[&&Pod],
    succeeded: i32,
    failed: i32,
    now: Timestamp,
) {
    if has(&plan.status, "FailureTarget") || has(&plan.status, "SuccessCriteriaMet") {
        return;
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    let on_failure =
        spec.template.spec.as_ref().is_some_and(|pod| pod.restart_policy.as_deref() == Some("OnFailure"));
    let retries: i32 = active.iter().map(|pod| restarts(pod)).sum();
    let retried_out = on_failure && retries > 0 && retries >= limit;
    if failed > limit || retried_out {
        let message = "Job has reached the specified backoff limit";
        return set(&mut plan.status, "FailureTarget", "True", "BackoffLimitExceeded", message, now);
    }
    if let (Some(seconds), Some(begin)) = (spec.active_deadline_seconds, &plan.status.start_time) {
        let rest = SignedDuration::from_secs(seconds) - now.duration_since(begin.0);
        if rest <= SignedDuration::ZERO {
            let message = "Job was active longer than specified deadline";
            return set(&mut plan.status, "FailureTarget", "True", "DeadlineExceeded", message, now);
        }
        plan.again = Some(rest);
    }
    let reached = match spec.completions {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && active.is_empty(),
    };
    if reached {
        let message = "Reached expected number of succeeded pods";
        set(&mut plan.status, "SuccessCriteriaMet", "True", "CompletionsReached", message, now);
    }
}

/// Completes or fails a Job without running pods.
fn finish(plan: &mut Plan, success: bool, now: Timestamp) {
    let (from, to) = if success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
    let known = plan.status.conditions.iter().flatten().find(|condition| condition.type_ == from).cloned();
    let (reason, message) = known.map(|known| (known.reason, known.message)).unwrap_or_default();
    set(&mut plan.status, to, "True", &reason.unwrap_or_default(), &message.unwrap_or_default(), now);
    if success {
        plan.status.completion_time = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    }
}

/// Creates or deletes pods up to the required number and the parallelism.
fn replicate(
    spec: &JobSpec,
    plan: &mut Plan,
    pods: &[&Pod],
    active: &[&&Pod],
    succeeded: i32,
    now: Timestamp,
) {
    let parallelism = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or(0);
    let wanted = match spec.completions {
        // In a work queue Job, the first success means that no more pods are needed.
        None if succeeded > 0 => active.len().min(parallelism),
        None => parallelism,
        Some(completions) => usize::try_from(completions - succeeded).unwrap_or(0).min(parallelism),
    };
    if active.len() > wanted {
        let mut names: Vec<_> = active.iter().map(|pod| (pods::is_ready(pod), pod.name_any())).collect();
        names.sort();
        plan.delete = names.into_iter().take(active.len() - wanted).map(|(_, name)| name).collect();
        return;
    }
    let missing = wanted - active.len();
    match delay(pods, now) {
        Some(rest) if missing > 0 => {
            plan.again = Some(plan.again.map_or(rest, |earlier| earlier.min(rest)));
        }
        _ => plan.create = missing,
    }
}

/// Removes a finished Job after its TTL, if set.
fn over(spec: &JobSpec, plan: &mut Plan, now: Timestamp) {
    let Some(seconds) = spec.ttl_seconds_after_finished else { return };
    let end = plan.status.conditions.iter().flatten().find(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    });
    let Some(end) = end.and_then(|condition| condition.last_transition_time.as_ref()) else { return };
    let rest = SignedDuration::from_secs(i64::from(seconds)) - now.duration_since(end.0);
    if rest <= SignedDuration::ZERO {
        plan.remove = true;
    } else {
        plan.again = Some(rest);
    }
}

#[cfg(test)]
mod tests;
