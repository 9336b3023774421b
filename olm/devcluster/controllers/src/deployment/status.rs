//! The status of a Deployment and its conditions.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;

use super::plan::{Change, Input, Limits, Plan, Sets, is_paused};

const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

pub(super) struct Builder<'a> {
    deployment: &'a Deployment,
    old: DeploymentStatus,
    new: DeploymentStatus,
    /// Name of the rollout in messages.
    subject: String,
    now: Timestamp,
}

impl<'a> Builder<'a> {
    pub(super) fn new(input: &Input<'a>, sets: &Sets<'_>) -> Self {
        let deployment = input.deployment;
        let old = deployment.status.clone().unwrap_or_default();
        let count = |field: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> Option<i32>| -> i32 {
            sets.all().filter_map(|set| set.status.as_ref().and_then(field)).sum()
        };
        let total_available = count(|s| s.available_replicas);
        let mut new = DeploymentStatus {
            observed_generation: deployment.metadata.generation,
            replicas: some(count(|s| Some(s.replicas))),
            updated_replicas: some(sets.new.and_then(|set| Some(set.status.as_ref()?.replicas)).unwrap_or(0)),
            ready_replicas: some(count(|s| s.ready_replicas)),
            available_replicas: some(total_available),
            unavailable_replicas: some((sets.total() - total_available).max(0)),
            collision_count: old.collision_count,
            conditions: old.conditions.clone(),
            terminating_replicas: old.terminating_replicas,
        };
        let failure = sets.all().find_map(|set| {
            let conditions = set.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|c| c.type_.as_deref() == Some("ReplicaFailure")).cloned()
        });
        let conditions = new.conditions.get_or_insert_default();
        match failure {
            Some(failure) => set(
                conditions,
                input.now,
                "ReplicaFailure",
                failure.status.as_deref().unwrap_or("True"),
                failure.reason.as_deref().unwrap_or_default(),
                failure.message.as_deref().unwrap_or_default(),
            ),
            None => conditions.retain(|c| c.type_.as_deref() != Some("ReplicaFailure")),
        }
        let enough = total_available >= Limits::of(deployment).min_available();
        let (status, reason, message) = if enough {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        set(conditions, input.now, "Available", status, reason, message);
        let subject = match sets.new {
            Some(set) => format!("ReplicaSet {:?}", set.name_any()),
            None => format!("Deployment {:?}", deployment.name_any()),
        };
        Self { deployment, old, new, subject, now: input.now }
    }

    /// A ReplicaSet for a new template is being created.
    pub(super) fn created(&mut self, name: &str) {
        self.subject = format!("ReplicaSet {name:?}");
        let message = format!("Created new replica set {name:?}");
        self.progressing("True", "NewReplicaSetCreated", &message);
    }

    fn progressing(&mut self, status: &str, reason: &str, message: &str) {
        let now = self.now;
        set(self.new.conditions.get_or_insert_default(), now, "Progressing", status, reason, message);
    }

    fn progress(&self) -> Option<&DeploymentCondition> {
        let list = self.new.conditions.as_ref()?;
        list.iter().find(|condition| condition.type_.as_deref() == Some("Progressing"))
    }

    /// Adds the status to the plan if it differs; returns whether the rollout is complete.
    pub(super) fn finish(mut self, plan: &mut Plan) -> bool {
        let creating = plan.changes.iter().any(|c| matches!(c, Change::Create(_)));
        let complete = self.is_complete() && !creating;
        if !creating {
            self.judge_progress(complete);
        }
        if let (Some(condition), Some(deadline)) = (self.progress(), self.deadline())
            && condition.status.as_deref() == Some("True")
            && condition.reason.as_deref() != Some(NEW_AVAILABLE)
            && let Some(since) = &condition.last_update_time
        {
            // One second more, so that the deadline has passed by then.
            let left =
                since.0.checked_add(deadline).map(|due| due.duration_since(self.now)).unwrap_or_default();
            plan.check_after = Some(left.max(SignedDuration::ZERO) + SignedDuration::from_secs(1));
        }
        if self.new.conditions.as_ref().is_some_and(Vec::is_empty) {
            self.new.conditions = None;
        }
        if normal(&self.new) != normal(&self.old) {
            plan.status = Some(self.new);
        }
        complete
    }

    fn deadline(&self) -> Option<SignedDuration> {
        let seconds = self.deployment.spec.progress_deadline_seconds.unwrap_or(600);
        (seconds != i32::MAX).then(|| SignedDuration::from_secs(i64::from(seconds)))
    }

    fn is_complete(&self) -> bool {
        let replicas = Limits::of(self.deployment).replicas;
        self.new.updated_replicas.unwrap_or(0) == replicas
            && self.new.replicas.unwrap_or(0) == replicas
            && self.new.available_replicas.unwrap_or(0) == replicas
    }

    fn has_progressed(&self) -> bool {
        let number = |value: Option<i32>| value.unwrap_or(0);
        let (old, new) = (&self.old, &self.new);
        let outdated = |s: &DeploymentStatus| number(s.replicas) - number(s.updated_replicas);
        number(new.updated_replicas) > number(old.updated_replicas)
            || outdated(new) < outdated(old)
            || number(new.ready_replicas) > number(old.ready_replicas)
            || number(new.available_replicas) > number(old.available_replicas)
    }

    fn judge_progress(&mut self, complete: bool) {
        if self.deadline().is_none() {
            self.new.conditions.get_or_insert_default().retain(|c| c.type_.as_deref() != Some("Progressing"));
            return;
        }
        let reason = self.progress().and_then(|c| c.reason.clone()).unwrap_or_default();
        if is_paused(self.deployment) {
            if reason != PAUSED && reason != TIMED_OUT {
                self.progressing("Unknown", PAUSED, "Deployment is paused");
            }
            return;
        }
        let subject = self.subject.clone();
        if reason == PAUSED {
            self.progressing("Unknown", "DeploymentResumed", "Deployment is resumed");
        } else if complete {
            if reason != NEW_AVAILABLE {
                self.progressing("True", NEW_AVAILABLE, &format!("{subject} has successfully progressed."));
            }
        } else if reason == NEW_AVAILABLE && self.new.replicas == self.new.updated_replicas {
            // Scaling or the loss of a pod after a completed rollout does not restart the rollout.
        } else if self.has_progressed() || self.progress().is_none() {
            self.progressing("True", "ReplicaSetUpdated", &format!("{subject} is progressing."));
            self.touch();
        } else if self.has_timed_out() && reason != TIMED_OUT {
            self.progressing("False", TIMED_OUT, &format!("{subject} has timed out progressing."));
        }
    }

    /// Progress restarts the deadline.
    fn touch(&mut self) {
        let now = whole_seconds(self.now);
        for condition in self.new.conditions.iter_mut().flatten() {
            if condition.type_.as_deref() == Some("Progressing") {
                condition.last_update_time = Some(now.clone());
            }
        }
    }

    fn has_timed_out(&self) -> bool {
        let (Some(condition), Some(deadline)) = (self.progress(), self.deadline()) else { return false };
        let Some(since) = &condition.last_update_time else { return false };
        condition.reason.as_deref() != Some(NEW_AVAILABLE) && self.now.duration_since(since.0) > deadline
    }
}

/// Stored times have whole seconds.
fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Zero is stored as unset, as in Kubernetes.
fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn normal(status: &DeploymentStatus) -> DeploymentStatus {
    let zero = |value: Option<i32>| value.filter(|n| *n != 0);
    DeploymentStatus {
        replicas: zero(status.replicas),
        updated_replicas: zero(status.updated_replicas),
        ready_replicas: zero(status.ready_replicas),
        available_replicas: zero(status.available_replicas),
        unavailable_replicas: zero(status.unavailable_replicas),
        ..status.clone()
    }
}

/// Sets a condition. Its transition time changes with its status, its update time with any field.
fn set(
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
    ty: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let now = whole_seconds(now);
    let old = conditions.iter().position(|condition| condition.type_.as_deref() == Some(ty));
    let mut new = DeploymentCondition {
        type_: Some(ty.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(now.clone()),
        last_update_time: Some(now),
    };
    match old {
        None => conditions.push(new),
        Some(at) => {
            let old = &mut conditions[at];
            if old.status == new.status {
                if old.reason == new.reason && old.message == new.message {
                    return;
                }
                new.last_transition_time = old.last_transition_time.take().or(new.last_transition_time);
            }
            *old = new;
        }
    }
}
