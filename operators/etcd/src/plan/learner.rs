//! Learners: promoted once in sync, or removed. A learner does not endanger the quorum.

use jiff::SignedDuration;

use super::{Action, Context, Decision, Progress, Removal, crash_loops, is_held_up, pod_state};
use crate::observed::{Member, Memory, Start, quorum};

/// Maximum lag of a learner behind the leader for its promotion.
const LAG_MAX: u64 = 1000;
/// A learner must be in sync by then.
const LEARNER_DEADLINE: SignedDuration = SignedDuration::from_secs(600);

/// etcd's own rule, that a learner has nine tenths of the leader's entries, and an upper bound. etcd applies
/// it to the leader's current state, which can differ from the observation: it may still reject, and the
/// promotion is retried.
fn catches_up(applied: u64, leader: u64) -> bool {
    applied > 0
        && applied.saturating_mul(10) >= leader.saturating_mul(9)
        && applied.saturating_add(LAG_MAX) >= leader
}

impl Context<'_> {
    /// A serving voter publishes its name quickly, and until then etcd does not count it as started.
    pub(super) fn unnamed(&self) -> Option<Decision> {
        let member = self.health.voters.iter().find(|m| !m.started && self.health.is_healthy(m.id))?;
        let text = format!("waiting for member {} to publish its name", member.label());
        Some(Decision::wait(self.direction(), text))
    }

    pub(super) fn learner(&self) -> Option<Decision> {
        let learner = *self.health.learners.first()?;
        let name = learner.label();
        let progress = Progress::ScalingUp;
        let go = |why: String, removal: fn(String) -> Removal| {
            let text = format!("removing learner {name}: {why}");
            Some(self.remove(self.direction(), learner, removal(why), text, &[]))
        };
        if self.voters() >= self.goal.size {
            return go("the desired size is reached without it".into(), Removal::Learner);
        }
        let Some(pod) = self.pod_of(learner) else {
            // Its pod was never created: the operator stopped between the two halves of adding it.
            let claim = self.observed.claim(&name);
            let half =
                self.memory.pending.as_deref() == Some(&name) || claim.is_some_and(|claim| !claim.deleting);
            if half && !learner.started {
                let action = Action::CreateMember {
                    id: Some(learner.id),
                    version: self.running_version(),
                    volume: self.observed.volumes || claim.is_some(),
                    start: Start::Empty,
                    initial_cluster: self.initial_cluster(),
                    name: name.clone(),
                };
                return Some(Decision::act(progress, action, format!("starting member {name}")));
            }
            return go("its pod and its data are gone".into(), Removal::Learner);
        };
        if pod.ended || pod.deleting {
            return go("its pod terminated or its node is lost".into(), Removal::Learner);
        }
        if crash_loops(pod, self.observed.now) {
            return go(format!("restarted {} times", pod.restarts), Removal::LateLearner);
        }
        if let Some(decision) = self.promote(learner, &name) {
            return Some(decision);
        }
        if pod.created.is_some_and(|created| self.observed.now.duration_since(created) > LEARNER_DEADLINE) {
            let why = format!("not in sync within ten minutes ({})", pod_state(self.observed, pod));
            return go(why, Removal::LateLearner);
        }
        let state = pod_state(self.observed, pod);
        if is_held_up(pod, self.observed.now) {
            let text = format!("member {name} does not start: {state}");
            return Some(Decision::blocked(progress, "MemberNotStarting", text));
        }
        Some(Decision::wait(progress, format!("waiting for member {name} to be in sync: {state}")))
    }

    /// Promotes a learner that is in sync when no member is missing: from then on it counts.
    fn promote(&self, learner: &Member, name: &str) -> Option<Decision> {
        let endpoint = self.observed.endpoints.get(name)?;
        let index = self.health.leader_index;
        let in_sync = endpoint.is_learner
            && endpoint.member_id == learner.id
            && endpoint.cluster_id == self.health.cluster_id
            && catches_up(endpoint.applied, index);
        if !in_sync || !learner.started {
            return None;
        }
        let progress = Progress::ScalingUp;
        if !self.health.unhealthy.is_empty() || self.health.healthy() + 1 < quorum(self.voters() + 1) {
            return Some(
                self.unhealthy(progress, &format!("member {name} is promoted when all members are healthy")),
            );
        }
        let action = Action::Promote { id: learner.id, name: name.to_owned(), via: self.health.via.clone() };
        Some(Decision::act(progress, action, format!("member {name} is in sync")))
    }

    fn initial_cluster(&self) -> Vec<(String, String)> {
        self.members().filter_map(|m| m.pod.clone().map(|name| (name, m.peer_url.clone()))).collect()
    }

    /// Clears the record of the member being added once its pod exists, or when it is not needed any more.
    pub(super) fn forget_pending(&self) -> Option<Decision> {
        let pending = self.memory.pending.as_deref()?;
        let joined = self.health.voters.iter().any(|m| m.pod.as_deref() == Some(pending));
        (joined || self.voters() >= self.goal.size).then(|| {
            let memory = Memory { pending: None, ..self.memory.clone() };
            let action = Action::Remember(memory.into());
            Decision::act(self.direction(), action, format!("member {pending} is no longer being added"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learner_has_nine_tenths_of_a_short_log_too() {
        // In a young cluster the leader has few entries: with 8 of 10 etcd rejects, and so it does with 8 of
        // 9.
        for (applied, leader, expected) in [
            (0, 0, false),
            (1, 1, true),
            (7, 8, false),
            (8, 9, false),
            (8, 10, false),
            (9, 10, true),
            (17, 19, false),
            (18, 20, true),
            (12, 10, true),
            (99_000, 100_000, true),
            (98_999, 100_000, false),
            (u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(catches_up(applied, leader), expected, "{applied} of {leader}");
        }
    }
}
