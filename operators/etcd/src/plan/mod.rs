//! What to do next: a pure function of what is wanted, remembered and seen, with at most one action as its answer.
//!
//! Whatever state a cluster is found in, the answer never puts acknowledged writes at risk:
//! membership changes only when a quorum was proved in this very look, one at a time, and never so that the healthy
//! voters that remain are fewer than a quorum of what remains; new members join without a vote; a member is started as
//! a new cluster only before the id of the cluster was ever written down; the leader is taken out only after
//! another member leads.

mod action;
mod health;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use action::{Action, Removal};
pub use health::{Health, assess, has_alarm, prove};

use crate::observed::{Member, Memory, Observed, PodView, quorum};

/// etcd accepts a new member when all voters were connected for this long.
const HEALTH_INTERVAL: SignedDuration = SignedDuration::from_secs(5);
/// A member that is not healthy for this long will not come back.
const UNREACHABLE_GRACE: SignedDuration = SignedDuration::from_secs(300);
/// A learner must be in sync by then.
const LEARNER_DEADLINE: SignedDuration = SignedDuration::from_secs(600);
/// A pod that is to end and does not is on a node that is lost.
const TERMINATION_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// So many restarts without becoming healthy are a crash loop.
const CRASH_LOOP: i32 = 5;
/// While something goes on, the next look is this soon.
const SOON: Duration = Duration::from_millis(250);

/// What is wanted, as far as members are concerned.
#[derive(Clone, Debug)]
pub struct Goal {
    /// Number of members.
    pub size: usize,
    /// Leave it alone.
    pub paused: bool,
    /// etcd version.
    pub version: String,
}

/// Where a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Held back by the user.
    Paused,
    /// The first member is not up yet.
    Creating,
    /// As wanted.
    Steady,
    /// Members are being added to reach the wanted size.
    ScalingUp,
    /// Members are being removed to reach the wanted size.
    ScalingDown,
    /// A lost member is being replaced.
    Healing,
    /// No quorum; enough members still have their data, so it comes back when they run.
    QuorumLost,
    /// No quorum, and too few members have their data.
    DataLost,
    /// Something that only a person can decide.
    Stuck,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where the cluster stands.
    pub progress: Progress,
    /// What to do now.
    pub action: Option<Action>,
    /// What is waited for, or what is wrong; for people.
    pub message: String,
    /// A reason in one word when something holds the work up.
    pub blocked: Option<&'static str>,
    /// When to look again although nothing was heard; none means the steady pace.
    pub again: Option<Duration>,
}

impl Decision {
    fn act(progress: Progress, action: Action, message: impl Into<String>) -> Self {
        Self { progress, action: Some(action), message: message.into(), blocked: None, again: Some(SOON) }
    }

    fn wait(progress: Progress, message: impl Into<String>) -> Self {
        Self { progress, action: None, message: message.into(), blocked: None, again: Some(SOON) }
    }

    fn blocked(progress: Progress, reason: &'static str, message: impl Into<String>) -> Self {
        Self { progress, action: None, message: message.into(), blocked: Some(reason), again: Some(4 * SOON) }
    }
}

/// The next step. First match wins.
#[must_use]
pub fn plan(goal: &Goal, memory: &Memory, seen: &Observed) -> Decision {
    if goal.paused {
        return Decision { again: None, ..Decision::wait(Progress::Paused, "spec.paused is true") };
    }
    let Some(cluster_id) = &memory.cluster_id else { return bootstrap(goal, seen) };
    let Some(health) = prove(seen) else { return without_quorum(memory, seen) };
    if format!("{:x}", health.cluster_id) != *cluster_id {
        let text = format!(
            "the members belong to etcd cluster {:x}, but this object's cluster is {cluster_id}; nothing is changed",
            health.cluster_id
        );
        return Decision::blocked(Progress::Stuck, "ClusterIDMismatch", text);
    }
    if has_alarm(seen, "CORRUPT") {
        let text = "a member reports corrupt data (alarm CORRUPT); compare the members with `etcdctl endpoint hashkv` \
                    and delete the pod of the one that differs";
        return Decision::blocked(Progress::Stuck, "Corrupt", text);
    }
    if !health.agreed {
        return Decision::wait(
            direction(goal, &health),
            "the members are taking over the last change of membership",
        );
    }
    let step = Step { goal, memory, seen, health: &health };
    step.leftover_pod()
        .or_else(|| step.terminating())
        .or_else(|| step.dead_voter())
        .or_else(|| step.foreign())
        .or_else(|| step.learner())
        .or_else(|| step.forget_pending())
        .or_else(|| step.grow())
        .or_else(|| step.shrink())
        .unwrap_or_else(|| step.steady())
}

/// Before the id of the cluster is known: exactly one member may start it.
fn bootstrap(goal: &Goal, seen: &Observed) -> Decision {
    let creating = |message: String| Decision::wait(Progress::Creating, message);
    let mut ids: Vec<u64> = seen.endpoints.values().map(|e| e.cluster_id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > 1 {
        let text = format!(
            "pods of this object form {} different etcd clusters; delete those that hold no data",
            ids.len()
        );
        return Decision::blocked(Progress::Stuck, "SplitBootstrap", text);
    }
    if let Some(health) = prove(seen) {
        let version = seen.endpoints.values().map(|e| e.version.clone()).next().unwrap_or_default();
        let memory = Memory {
            cluster_id: Some(format!("{:x}", health.cluster_id)),
            pending: None,
            version,
            voters: health.voters.len(),
        };
        return Decision::act(Progress::Creating, Action::Remember(memory), "the first member is up");
    }
    if let Some(pod) = seen.pods.iter().find(|pod| pod.deleting) {
        return creating(format!("pod {} is ending", pod.name));
    }
    let Some(pod) = seen.pods.first() else {
        let action = Action::CreateSeed { name: seen.fresh_name.clone() };
        return Decision::act(Progress::Creating, action, "starting the first member");
    };
    // A pod that never ran holds nothing: with the right version it gets another chance.
    let wrong_version = !pod.ever_started && pod.version != goal.version;
    if seen.pods.len() == 1 && (pod.ended || wrong_version) {
        let action = Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
        return Decision::act(
            Progress::Creating,
            action,
            format!("pod {} cannot become the first member", pod.name),
        );
    }
    creating(format!("waiting for the first member: {}", pod_state(pod)))
}

/// No quorum was proved. Nothing may be changed; what can be done is told.
fn without_quorum(memory: &Memory, seen: &Observed) -> Decision {
    if assess(seen).is_some() {
        let text = "etcd serves, but fewer than a majority of its members can be reached from the operator";
        return Decision::blocked(Progress::Stuck, "MembersUnreachable", text);
    }
    let list = seen.endpoints.values().map(|e| &e.members).max_by_key(|list| list.len());
    let voters = list.map_or(memory.voters.max(1), |list| list.iter().filter(|m| !m.is_learner).count());
    let with_data = seen.pods.iter().filter(|pod| !pod.deleting && !pod.ended && pod.ever_started).count();
    let answering = seen.endpoints.len();
    if with_data >= quorum(voters) {
        let states: Vec<String> =
            seen.pods.iter().filter(|pod| !seen.endpoints.contains_key(&pod.name)).map(pod_state).collect();
        let mut text = format!(
            "{answering} of {voters} members answer, {} are needed; {with_data} pods still hold their data, so the cluster resumes when they run",
            quorum(voters)
        );
        if !states.is_empty() {
            text = format!("{text}: {}", states.join("; "));
        }
        return Decision::blocked(Progress::QuorumLost, "QuorumLost", text);
    }
    let text =
        format!("{with_data} of {voters} members still have a pod with data, {} are needed", quorum(voters));
    Decision { again: Some(16 * SOON), ..Decision::blocked(Progress::DataLost, "DataLost", text) }
}

/// What stands between the proof and the answer.
struct Step<'a> {
    goal: &'a Goal,
    memory: &'a Memory,
    seen: &'a Observed,
    health: &'a Health<'a>,
}

impl Step<'_> {
    fn voters(&self) -> usize {
        self.health.voters.len()
    }

    fn pod_of(&self, member: &Member) -> Option<&PodView> {
        member.pod.as_deref().and_then(|name| self.seen.pod(name))
    }

    /// Takes a member out. The leader hands over first.
    fn remove(&self, progress: Progress, member: &Member, why: Removal, message: String) -> Decision {
        if member.id == self.health.leader {
            return self.move_leader(progress, member, &message);
        }
        let action =
            Action::RemoveMember { id: member.id, name: member.label(), via: self.health.via.clone(), why };
        Decision::act(progress, action, message)
    }

    fn move_leader(&self, progress: Progress, leader: &Member, message: &str) -> Decision {
        let applied =
            |m: &&&Member| m.pod.as_ref().and_then(|n| self.seen.endpoints.get(n)).map(|e| e.applied);
        let others = self.health.voters.iter().filter(|m| m.id != leader.id && self.health.is_healthy(m.id));
        let via = leader.pod.clone().filter(|name| self.seen.endpoints.contains_key(name));
        let (Some(via), Some(next)) = (via, others.max_by_key(applied)) else {
            let text = format!(
                "{message}; it leads, cannot be reached to hand over, and is not removed while it leads"
            );
            return Decision::blocked(progress, "LeaderUnreachable", text);
        };
        let action = Action::MoveLeader { id: next.id, name: next.label(), via };
        Decision::act(progress, action, format!("{message}; it leads, so {} takes over first", next.label()))
    }

    /// A pod whose member is not in etcd any more.
    fn leftover_pod(&self) -> Option<Decision> {
        let member = |name: &str| {
            self.health.voters.iter().chain(&self.health.learners).any(|m| m.pod.as_deref() == Some(name))
        };
        let pod = self.seen.pods.iter().find(|pod| !pod.deleting && !member(&pod.name))?;
        let action = Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
        Some(Decision::act(
            self.direction(),
            action,
            format!("pod {} is no member of etcd any more", pod.name),
        ))
    }

    /// Ends must have come before anything begins: a pod that ends may be a member that goes.
    fn terminating(&self) -> Option<Decision> {
        let pod = self.seen.pods.iter().find(|pod| pod.deleting && !self.overdue(pod))?;
        let progress = if self.health.unhealthy.is_empty() { self.direction() } else { Progress::Healing };
        Some(Decision::wait(progress, format!("waiting for pod {} to end", pod.name)))
    }

    /// A voter that will not come back is taken out; the gap is filled later.
    fn dead_voter(&self) -> Option<Decision> {
        let (member, why) = self
            .health
            .unhealthy
            .iter()
            .find_map(|m| m.pod.as_ref().and_then(|_| self.dead(m)).map(|why| (*m, why)))?;
        let name = member.label();
        // Never the last, and never so that those who remain could not decide.
        if self.voters() < 2 || self.health.healthy() < quorum(self.voters() - 1) {
            let text = format!(
                "member {name} is lost ({why}), but only {} of {} members are healthy: removing it could cost the quorum",
                self.health.healthy(),
                self.voters()
            );
            return Some(Decision::blocked(Progress::Stuck, "TooFewHealthyMembers", text));
        }
        let text = format!("member {name} is lost: {why}");
        Some(self.remove(Progress::Healing, member, Removal::Dead(why), text))
    }

    fn dead(&self, member: &Member) -> Option<String> {
        let Some(pod) = self.pod_of(member) else {
            return Some("its pod is gone, and its data with it".into());
        };
        if self.overdue(pod) {
            return Some("its pod does not end, so its node is lost".into());
        }
        if pod.ended {
            return Some("its pod has ended".into());
        }
        if pod.restarts >= CRASH_LOOP && !pod.out_of_memory {
            return Some(format!("it was restarted {} times and never became healthy", pod.restarts));
        }
        let away = pod.ready_since.filter(|_| !pod.ready).map(|since| self.seen.now.duration_since(since));
        (away? > UNREACHABLE_GRACE).then(|| "it is unreachable for more than five minutes".into())
    }

    /// Its end is long due: nobody is there to end it.
    fn overdue(&self, pod: &PodView) -> bool {
        pod.deleting && pod.ends_by.is_some_and(|by| self.seen.now.duration_since(by) > TERMINATION_GRACE)
    }

    /// A member that somebody else added. It is theirs.
    fn foreign(&self) -> Option<Decision> {
        let member = self.health.voters.iter().chain(&self.health.learners).find(|m| m.pod.is_none())?;
        let text = format!(
            "member {} was not added by this operator; it is left alone, and the size is not changed. Remove it with `etcdctl member remove {:x}`",
            member.label(),
            member.id
        );
        Some(Decision::blocked(Progress::Stuck, "ForeignMember", text))
    }

    /// A learner is brought to its vote, or goes again. It has none, so it endangers nothing.
    fn learner(&self) -> Option<Decision> {
        let learner = *self.health.learners.first()?;
        let name = learner.label();
        let progress = Progress::ScalingUp;
        let go = |why: String| {
            let text = format!("learner {name} is taken out: {why}");
            Some(self.remove(self.direction(), learner, Removal::Learner(why), text))
        };
        if self.voters() >= self.goal.size {
            return go("the wanted size is reached without it".into());
        }
        let Some(pod) = self.pod_of(learner) else {
            // Its pod was never made: the operator stopped between the two halves of adding it.
            if self.memory.pending.as_deref() == Some(&name) && !learner.started {
                let action =
                    Action::CreateMember { name: name.clone(), initial_cluster: self.initial_cluster() };
                return Some(Decision::act(progress, action, format!("starting member {name}")));
            }
            return go("its pod is gone, and its data with it".into());
        };
        if pod.ended {
            return go("its pod has ended".into());
        }
        if pod.restarts >= CRASH_LOOP && !pod.out_of_memory {
            return go(format!("it was restarted {} times", pod.restarts));
        }
        if let Some(endpoint) = self.seen.endpoints.get(&name) {
            let index = self.health.leader_index;
            let in_sync = endpoint.is_learner
                && endpoint.member_id == learner.id
                && endpoint.cluster_id == self.health.cluster_id
                && endpoint.applied >= (index / 10 * 9).max(index.saturating_sub(1000))
                && endpoint.applied > 0;
            let safe =
                self.health.unhealthy.is_empty() && self.health.healthy() + 1 >= quorum(self.voters() + 1);
            if in_sync && learner.started && safe {
                let action =
                    Action::Promote { id: learner.id, name: name.clone(), via: self.health.via.clone() };
                return Some(Decision::act(progress, action, format!("member {name} has caught up")));
            }
            if in_sync && learner.started {
                return Some(
                    self.unhealthy(progress, &format!("member {name} gets its vote when all are healthy")),
                );
            }
        }
        if pod.created.is_some_and(|created| self.seen.now.duration_since(created) > LEARNER_DEADLINE) {
            return go(format!("it did not catch up in ten minutes ({})", pod_state(pod)));
        }
        Some(Decision::wait(progress, format!("waiting for member {name} to catch up: {}", pod_state(pod))))
    }

    fn initial_cluster(&self) -> Vec<(String, String)> {
        let all = self.health.voters.iter().chain(&self.health.learners);
        all.filter_map(|m| m.pod.clone().map(|name| (name, m.peer_url.clone()))).collect()
    }

    /// The note of a member that is being added has done its work, or is not needed any more.
    fn forget_pending(&self) -> Option<Decision> {
        let pending = self.memory.pending.as_deref()?;
        let joined = self.health.voters.iter().any(|m| m.pod.as_deref() == Some(pending));
        (joined || self.voters() >= self.goal.size).then(|| {
            let action = Action::Remember(Memory { pending: None, ..self.memory.clone() });
            Decision::act(self.direction(), action, format!("member {pending} is no longer being added"))
        })
    }

    fn grow(&self) -> Option<Decision> {
        if self.voters() >= self.goal.size {
            return None;
        }
        let progress = Progress::ScalingUp;
        if !self.health.unhealthy.is_empty() {
            return Some(self.unhealthy(progress, "no member is added before all are healthy"));
        }
        if has_alarm(self.seen, "NOSPACE") {
            let text = "the database is full (alarm NOSPACE): compact, defragment and disarm it with etcdctl before members are added";
            return Some(Decision::blocked(progress, "NoSpace", text));
        }
        let Some(name) = &self.memory.pending else {
            let memory = Memory { pending: Some(self.seen.fresh_name.clone()), ..self.memory.clone() };
            let text = format!("adding member {}", self.seen.fresh_name);
            return Some(Decision::act(progress, Action::Remember(memory), text));
        };
        if let Some(rest) = self.until_connected() {
            let text = format!("etcd accepts member {name} when all members were connected for five seconds");
            return Some(Decision { again: Some(rest), ..Decision::wait(progress, text) });
        }
        let action = Action::AddLearner { name: name.clone(), via: self.health.via.clone() };
        Some(Decision::act(progress, action, format!("adding member {name}")))
    }

    /// How long etcd will still refuse a new member. A single member waits for nobody.
    fn until_connected(&self) -> Option<Duration> {
        if self.voters() < 2 {
            return None;
        }
        let starts = self.health.voters.iter().filter_map(|m| self.pod_of(m).and_then(|pod| pod.started));
        remaining(starts.max()? + HEALTH_INTERVAL, self.seen.now)
    }

    fn shrink(&self) -> Option<Decision> {
        if self.voters() <= self.goal.size {
            return None;
        }
        let progress = Progress::ScalingDown;
        let created = |m: &&&Member| (self.pod_of(m).and_then(|pod| pod.created), m.id);
        let victim = match self.health.unhealthy.iter().max_by_key(created) {
            Some(member) => *member,
            None => *self.health.voters.iter().filter(|m| m.id != self.health.leader).max_by_key(created)?,
        };
        if self.voters() < 2 || self.left_without(victim) < quorum(self.voters() - 1) {
            return Some(self.unhealthy(progress, "no member is removed before more are healthy"));
        }
        let text = format!("removing member {}", victim.label());
        Some(self.remove(progress, victim, Removal::ScaleDown, text))
    }

    /// Healthy voters when this one is gone.
    fn left_without(&self, member: &Member) -> usize {
        self.health.healthy() - usize::from(self.health.is_healthy(member.id))
    }

    fn steady(&self) -> Decision {
        if !self.health.unhealthy.is_empty() {
            return Decision {
                again: Some(4 * SOON),
                ..self.unhealthy(Progress::Steady, "it is given time to return")
            };
        }
        Decision { again: None, ..Decision::wait(Progress::Steady, "all members are healthy") }
    }

    fn unhealthy(&self, progress: Progress, consequence: &str) -> Decision {
        let states: Vec<String> = self
            .health
            .unhealthy
            .iter()
            .map(|m| self.pod_of(m).map_or_else(|| format!("{} has no pod", m.label()), pod_state))
            .collect();
        let text = format!("not healthy: {}; {consequence}", states.join("; "));
        Decision { again: Some(2 * SOON), ..Decision::blocked(progress, "MembersUnhealthy", text) }
    }

    fn direction(&self) -> Progress {
        direction(self.goal, self.health)
    }
}

fn direction(goal: &Goal, health: &Health<'_>) -> Progress {
    match health.voters.len().cmp(&goal.size) {
        std::cmp::Ordering::Less => Progress::ScalingUp,
        std::cmp::Ordering::Equal => Progress::Steady,
        std::cmp::Ordering::Greater => Progress::ScalingDown,
    }
}

fn remaining(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|rest| !rest.is_zero())
}

fn pod_state(pod: &PodView) -> String {
    let name = &pod.name;
    if pod.deleting {
        return format!("pod {name} is ending");
    }
    match (&pod.waiting, pod.started) {
        (Some(reason), _) => format!("pod {name} waits: {reason}"),
        (None, Some(_)) => format!("pod {name} runs, its etcd does not serve yet"),
        (None, None) => format!("pod {name} is being started"),
    }
}
