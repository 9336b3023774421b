//! The next action: a pure function of spec, memory and observation, with at most one action as its result.
//!
//! In any state, the result never risks acknowledged writes: membership changes only with a quorum proved in
//! this observation, one at a time, and never so that the healthy voters that remain are fewer than a quorum
//! of what remains; new members join as learners; a member is started as a new cluster only before the
//! cluster id was ever recorded; the leader is removed only after another member leads; a volume is released
//! only when etcd confirmed that its member is gone; one member at a time is restarted for another version,
//! and the next only when that one is healthy; a ready member is removed, or restarted while others serve, only
//! when its pod has left the client Service.

mod action;
mod bootstrap;
mod compare;
mod context;
mod corrupt;
mod heal;
mod health;
mod learner;
mod lost;
mod resize;
mod service;
#[cfg(test)]
mod tests;
mod unsupported;
mod upgrade;
mod version;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use action::{Action, Removal};
pub(crate) use compare::Compared;
pub(crate) use context::Context;
pub use health::{Health, assess, has_alarm, prove};
pub(crate) use service::{labelled, labels_propagated};
pub use upgrade::{Upgrade, upgrade};

use crate::observed::{End, Memory, Observed, PodView};

/// This many restarts are a crash loop, unless the member became healthy in between.
const CRASH_LOOP: i32 = 5;
/// Time that a member with that many restarts gets to become healthy between two restarts.
const CRASH_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// An unscheduled pod is reported after this: volumes are usually bound and nodes found in a moment.
const SCHEDULING_PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// A started member is expected to serve after this.
const START_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
/// Interval of observations while work is in progress.
const SOON: Duration = Duration::from_millis(250);

/// The desired state of the members.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    pub size: usize,
    pub paused: bool,
    /// Uid of the EtcdRestore that works on the members.
    pub restoring: Option<String>,
    pub version: String,
    /// A known bad version that may be upgraded to nevertheless.
    pub allowed_version: Option<String>,
    /// Authentication is configured, so it may be on.
    pub auth: bool,
    /// Generation of the spec: a failure of an older one is retried at once.
    pub generation: Option<i64>,
    pub maintenance: crate::maintenance::Settings,
    /// Members started before this must be restarted, because of their certificates.
    pub restart_before: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Suspended by the user.
    Paused,
    /// A backup is being restored, and the restore owns the members.
    Restoring,
    /// The first member is not up yet.
    Creating,
    /// The desired state is reached.
    Steady,
    /// Members are being added to reach the specified size.
    ScalingUp,
    /// Members are being removed to reach the specified size.
    ScalingDown,
    /// A lost member is being replaced, or recreated with its volume.
    Healing,
    /// Members are being changed to another version.
    Upgrading,
    /// No quorum; enough members still have their data, so it returns when they run.
    QuorumLost,
    /// No quorum, and too few members have their data.
    DataLost,
    /// A user must decide.
    Stuck,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub progress: Progress,
    pub action: Option<Action>,
    /// What is pending or wrong; for users.
    pub message: String,
    /// Machine-readable reason that work is blocked.
    pub blocked: Option<&'static str>,
    /// Delay of the next observation without an event; none means the steady interval.
    pub again: Option<Duration>,
    /// The next action needs a comparison of the members' data in the same observation.
    pub compare: bool,
    /// The pod that left the client Service for the next action, or is about to.
    pub leaving: Option<String>,
}

impl Decision {
    pub(crate) fn act(progress: Progress, action: Action, message: impl Into<String>) -> Self {
        Self { action: Some(action), ..Self::wait(progress, message) }
    }

    pub(crate) fn wait(progress: Progress, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            progress,
            action: None,
            message,
            blocked: None,
            again: Some(SOON),
            compare: false,
            leaving: None,
        }
    }

    pub(crate) fn blocked(progress: Progress, reason: &'static str, message: impl Into<String>) -> Self {
        Self { blocked: Some(reason), again: Some(4 * SOON), ..Self::wait(progress, message) }
    }
}

/// The proof that allows membership changes, or the decision without it.
fn proved<'a>(goal: &Goal, memory: &Memory, observed: &'a Observed) -> Result<Health<'a>, Box<Decision>> {
    if goal.paused {
        let decision = Decision::wait(Progress::Paused, "spec.paused is true");
        return Err(Decision { again: None, ..decision }.into());
    }
    if goal.restoring.is_some() {
        let text = "a backup is being restored; see the EtcdRestore";
        let decision = lost::silent(observed).unwrap_or_else(|| Decision::wait(Progress::Restoring, text));
        return Err(Decision { progress: Progress::Restoring, ..decision }.into());
    }
    if let Some(decision) = unsupported::blocked_by_version(memory, observed) {
        return Err(decision.into());
    }
    let Some(cluster_id) = &memory.cluster_id else {
        return Err(bootstrap::bootstrap(goal, memory, observed).into());
    };
    let Some(health) = prove(observed) else {
        return Err(lost::without_quorum(goal, memory, observed).into());
    };
    if format!("{:x}", health.cluster_id) != *cluster_id {
        let text = format!(
            "the members belong to etcd cluster {:x}, but this object's cluster is {cluster_id}; the \
             operator makes no changes",
            health.cluster_id
        );
        return Err(Decision::blocked(Progress::Stuck, "ClusterIDMismatch", text).into());
    }
    Ok(health)
}

/// The next action. The first match wins.
#[must_use]
pub fn plan(goal: &Goal, memory: &Memory, observed: &Observed) -> Decision {
    let health = match proved(goal, memory, observed) {
        Ok(health) => health,
        Err(instead) => return *instead,
    };
    let context = Context { goal, memory, observed, health: &health };
    let decision = context
        .corrupt()
        .or_else(|| context.disagreeing())
        .or_else(|| context.leftover_pod())
        .or_else(|| context.leftover_claim())
        .or_else(|| context.seal())
        .or_else(|| context.terminating())
        .or_else(|| context.missing_pod())
        .or_else(|| context.upgrade_unhealthy())
        .or_else(|| context.dead_voter(&[]))
        .or_else(|| context.foreign())
        .or_else(|| context.stalled())
        .or_else(|| context.unnamed())
        .or_else(|| context.learner())
        .or_else(|| context.forget_pending())
        .or_else(|| crate::maintenance::full(&context))
        .or_else(|| context.grow())
        .or_else(|| context.shrink())
        .or_else(|| context.deleting_volume())
        .or_else(|| context.upgrade())
        .or_else(|| crate::maintenance::next(&context))
        .unwrap_or_else(|| context.steady());
    context.with_clients_away(decision)
}

fn remaining(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|rest| !rest.is_zero())
}

/// Restarted repeatedly without becoming healthy in between. A member that runs out of memory would do so
/// under another name too.
fn crash_loops(pod: &PodView, now: Timestamp) -> bool {
    let backed_off = pod.waiting.as_ref().is_some_and(|reason| reason.starts_with("CrashLoopBackOff"));
    let patience = pod.ready_since.is_none_or(|since| now.duration_since(since) > CRASH_PATIENCE);
    pod.restarts >= CRASH_LOOP
        && pod.last_end != Some(End::OutOfMemory)
        && !pod.ready
        && (backed_off || patience)
}

/// How long a pod is not ready: since its creation, or since it was last ready.
fn unready(pod: &PodView, now: Timestamp) -> SignedDuration {
    let since = pod.created.max(pod.ready_since.filter(|_| !pod.ready));
    since.map(|since| now.duration_since(since)).unwrap_or_default()
}

/// Whether Kubernetes reports why a pod does not start, beyond normal scheduling.
fn is_held_up(pod: &PodView, now: Timestamp) -> bool {
    let normal = ["ContainerCreating", "PodInitializing"];
    let held = pod.waiting.as_ref().is_some_and(|reason| !normal.iter().any(|word| reason.starts_with(word)));
    held && unready(pod, now) > SCHEDULING_PATIENCE
}

fn pod_state(observed: &Observed, pod: &PodView) -> String {
    let name = &pod.name;
    if pod.deleting {
        return format!("pod {name} is terminating");
    }
    let mut text = match (&pod.waiting, pod.started) {
        (Some(reason), _) => format!("pod {name} waits: {reason}"),
        (None, Some(_)) => format!("pod {name} is running, its etcd does not serve yet"),
        (None, None) => format!("pod {name} is starting"),
    };
    match pod.last_end {
        Some(End::DiskFull) => {
            text.push_str("; its etcd last exited because its disk is full (no space left on device)")
        }
        Some(End::OutOfMemory) => {
            text.push_str("; its etcd last exited because it ran out of memory (OOMKilled)")
        }
        Some(End::NoData) if pod.has_lost_data() => {
            text.push_str("; its etcd found no data in its data directory")
        }
        Some(End::NoData) | None => {}
    }
    match observed.claim(name).and_then(|claim| claim.pending_class.as_deref()) {
        Some("") => text.push_str(
            "; its claim waits for a volume and names no StorageClass. hint: make a StorageClass the default \
             (annotation storageclass.kubernetes.io/is-default-class), or create the EtcdCluster with \
             spec.storage.storageClassName",
        ),
        Some(class) => {
            let missing = observed.storage_classes.as_ref().is_some_and(|classes| !classes.contains(class));
            let which = if missing { ", which does not exist" } else { "" };
            text.push_str(&format!("; its claim waits for a volume of StorageClass {class}{which}"));
        }
        None => {}
    }
    text
}
