//! The context of decisions with a proved quorum, and helpers that all of them share.

use super::{Action, Decision, Goal, Health, Progress, Removal, SOON, pod_state};
use crate::observed::{Member, Memory, Observed, PodView, quorum};

/// One observation with a proved quorum.
pub(crate) struct Context<'a> {
    pub(crate) goal: &'a Goal,
    pub(crate) memory: &'a Memory,
    pub(crate) observed: &'a Observed,
    pub(crate) health: &'a Health<'a>,
}

impl<'a> Context<'a> {
    pub(crate) fn voters(&self) -> usize {
        self.health.voters.len()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &'a Member> + use<'_, 'a> {
        self.health.voters.iter().chain(&self.health.learners).copied()
    }

    pub(crate) fn pod_of(&self, member: &Member) -> Option<&'a PodView> {
        member.pod.as_deref().and_then(|name| self.observed.pod(name))
    }

    /// The lowest version of the members: a new member must run it to be compatible with all.
    pub(crate) fn running_version(&self) -> String {
        let voters = self.health.voters.iter().filter_map(|m| m.pod.as_ref());
        let versions = voters.filter_map(|name| self.observed.endpoints.get(name)).map(|e| e.version.clone());
        versions
            .min_by_key(|text| semver::Version::parse(text).ok())
            .or_else(|| Some(self.memory.version.clone()).filter(|version| !version.is_empty()))
            .unwrap_or_else(|| self.goal.version.clone())
    }

    /// Removes a member. The leader transfers leadership first, never to one of those to avoid.
    pub(super) fn remove(
        &self,
        progress: Progress,
        member: &Member,
        why: Removal,
        message: String,
        avoid: &[u64],
    ) -> Decision {
        if member.id == self.health.leader {
            return self.move_leader(progress, member, &message, |other| !avoid.contains(&other.id));
        }
        let action =
            Action::RemoveMember { id: member.id, name: member.label(), via: self.health.via.clone(), why };
        Decision::act(progress, action, message)
    }

    /// A removed voter may be the last that holds the majority's data: the members are compared in the
    /// observation that decides the removal. Members known to differ have rules of their own, in `corrupt`.
    pub(super) fn compared_first(&self, removal: Decision) -> Decision {
        if self.observed.compared_now || self.memory.corruption.is_some() || self.voters() < 2 {
            return removal;
        }
        // Each comparison makes the members read all their data: none while clients leave.
        let departure = self.departure(&removal);
        if let Some(wait) = departure.filter(|departure| departure.action.is_none()) {
            return wait;
        }
        let message = format!("comparing the data of all members first: {}", removal.message);
        Decision { compare: true, ..Decision::wait(removal.progress, message) }
    }

    /// Transfers leadership to the healthy voter with the longest log among the allowed ones.
    pub(crate) fn move_leader(
        &self,
        progress: Progress,
        leader: &Member,
        message: &str,
        may: impl Fn(&Member) -> bool,
    ) -> Decision {
        let applied =
            |m: &&&Member| m.pod.as_ref().and_then(|n| self.observed.endpoints.get(n)).map(|e| e.applied);
        let others =
            self.health.voters.iter().filter(|m| m.id != leader.id && self.health.is_healthy(m.id) && may(m));
        let via = leader.pod.clone().filter(|name| self.observed.endpoints.contains_key(name));
        let (Some(via), Some(next)) = (via, others.max_by_key(applied)) else {
            let text = format!(
                "{message}; it is the leader, is unreachable for a leadership transfer and is not stopped \
                 while it leads"
            );
            return Decision::blocked(progress, "LeaderUnreachable", text);
        };
        let action = Action::MoveLeader { id: next.id, name: next.label(), via };
        Decision::act(
            progress,
            action,
            format!("{message}; it is the leader, so leadership moves to {} first", next.label()),
        )
    }

    /// The pod of a member whose data outlives it: on a volume that stays.
    pub(crate) fn pod_to_remake(&self, member: &Member) -> Option<&'a PodView> {
        let pod = self.pod_of(member).filter(|pod| pod.volume)?;
        self.observed.claim(&pod.name).is_some_and(|claim| !claim.deleting).then_some(pod)
    }

    /// Restarts a member when that costs no more than an election; otherwise reports the pending condition.
    /// One whose data would be lost with its pod is replaced instead.
    pub(crate) fn renew(&self, progress: Progress, member: &Member, why: &str) -> Decision {
        let Some(pod) = self.pod_to_remake(member) else { return self.replace(progress, member, why) };
        let name = member.label();
        let message = format!("restarting member {name}: {why}");
        if let Some(reason) = self.blocks_restart(member) {
            return self.unhealthy(progress, &format!("member {name} is not restarted until {reason}"));
        }
        if member.id == self.health.leader && self.voters() > 1 {
            return self.move_leader(progress, member, &message, |_| true);
        }
        let action = Action::Restart { name, uid: pod.uid.clone(), why: why.to_owned() };
        Decision::act(progress, action, message)
    }

    /// Replaces a healthy member whose data is in its pod. Fewer than three members have none to spare.
    pub(super) fn replace(&self, progress: Progress, member: &Member, why: &str) -> Decision {
        let name = member.label();
        if self.voters() < 3 {
            let text =
                format!("member {name} should be restarted ({why}), but its data would be lost with its pod");
            return Decision::blocked(progress, "DataInPod", text);
        }
        if let Some(reason) = self.blocks_restart(member) {
            return self.unhealthy(progress, &format!("member {name} is not replaced until {reason}"));
        }
        let text = format!("replacing member {name}: {why}");
        self.compared_first(self.remove(progress, member, Removal::Renewed(why.to_owned()), text, &[]))
    }

    /// The condition that a restart of a member waits for. Clusters of one or two members are unavailable during it.
    pub(crate) fn blocks_restart(&self, member: &Member) -> Option<&'static str> {
        if !self.health.learners.is_empty() || self.memory.pending.is_some() {
            return Some("the pending member has joined");
        }
        if self.health.unhealthy.iter().any(|other| other.id != member.id) {
            return Some("the other members are healthy");
        }
        if self.health.voters.iter().any(|other| !other.started) {
            return Some("every member has published its name");
        }
        if self.observed.pods.iter().any(|pod| pod.deleting) {
            return Some("no pod is terminating");
        }
        let left = self.healthy_without(&[member.id]);
        (self.voters() > 2 && left < quorum(self.voters())).then_some("more members are healthy")
    }

    /// Number of healthy voters without these.
    pub(super) fn healthy_without(&self, gone: &[u64]) -> usize {
        let stays = |m: &&&Member| self.health.is_healthy(m.id) && !gone.contains(&m.id);
        self.health.voters.iter().filter(stays).count()
    }

    /// Waits for members that have not applied the last membership change.
    pub(super) fn disagreeing(&self) -> Option<Decision> {
        let text = "the members are applying the last membership change";
        (!self.health.agreed).then(|| Decision::wait(self.direction(), text))
    }

    pub(super) fn steady(&self) -> Decision {
        if !self.health.unhealthy.is_empty() {
            return Decision {
                again: Some(4 * SOON),
                ..self.unhealthy(Progress::Steady, "waiting for recovery")
            };
        }
        if let Some(failure) = self.memory.failure.as_ref().filter(|_| self.voters() < self.goal.size) {
            let text =
                format!("the last added member did not join: {}; the operator retries", failure.reason);
            return Decision::blocked(Progress::ScalingUp, "LearnerFailed", text);
        }
        // This is reported without blocking.
        let text = match self.observed.uncompared.as_slice() {
            [] => "all members are healthy".to_owned(),
            names => format!(
                "all members are healthy; the data of {} is unverified, several consecutive comparisons \
                 were incomplete",
                names.join(" and ")
            ),
        };
        Decision { again: None, ..Decision::wait(Progress::Steady, text) }
    }

    pub(crate) fn unhealthy(&self, progress: Progress, consequence: &str) -> Decision {
        let states: Vec<String> = self
            .health
            .unhealthy
            .iter()
            .map(|m| match self.pod_of(m) {
                _ if self.health.is_catching_up(m.id) => format!("{} is catching up", m.label()),
                None => format!("{} has no pod", m.label()),
                Some(pod) => pod_state(self.observed, pod),
            })
            .collect();
        let text = if states.is_empty() {
            consequence.to_owned()
        } else {
            format!("not healthy: {}; {consequence}", states.join("; "))
        };
        Decision { again: Some(2 * SOON), ..Decision::blocked(progress, "MembersUnhealthy", text) }
    }

    /// Progress by size.
    pub(super) fn direction(&self) -> Progress {
        match self.voters().cmp(&self.goal.size) {
            std::cmp::Ordering::Less => Progress::ScalingUp,
            std::cmp::Ordering::Equal => Progress::Steady,
            std::cmp::Ordering::Greater => Progress::ScalingDown,
        }
    }
}
