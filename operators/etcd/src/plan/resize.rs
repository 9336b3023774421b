//! More members, or fewer: one at a time.

use std::time::Duration;

use jiff::SignedDuration;

use super::{Action, Decision, Progress, Removal, Step, has_alarm, remaining};
use crate::observed::{Member, Memory, quorum};

/// etcd accepts a new member when all voters were connected for this long.
const HEALTH_INTERVAL: SignedDuration = SignedDuration::from_secs(5);
/// After a member that was added in vain, the next try waits this long: what it lacked is seldom there a second later.
const LEARNER_RETRY: SignedDuration = SignedDuration::from_secs(120);

impl Step<'_> {
    pub(super) fn grow(&self) -> Option<Decision> {
        if self.voters() >= self.goal.size {
            return None;
        }
        let progress = Progress::ScalingUp;
        if !self.health.unhealthy.is_empty() {
            return Some(self.unhealthy(progress, "no member is added before all are healthy"));
        }
        if has_alarm(self.seen, "NOSPACE") {
            let text = "the database is full (alarm NOSPACE): no member is added before it was compacted, defragmented and the alarm disarmed";
            return Some(Decision::blocked(progress, "NoSpace", text));
        }
        let failed = self.memory.failure.as_ref().filter(|f| f.generation == self.goal.generation);
        if failed.and_then(|failure| remaining(failure.at + LEARNER_RETRY, self.seen.now)).is_some() {
            return None;
        }
        let Some(name) = &self.memory.pending else {
            let memory = Memory { pending: Some(self.seen.fresh_name.clone()), ..self.memory.clone() };
            let text = format!("adding member {}", self.seen.fresh_name);
            return Some(Decision::act(progress, Action::Remember(memory.into()), text));
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

    pub(super) fn shrink(&self) -> Option<Decision> {
        if self.voters() <= self.goal.size {
            return None;
        }
        let progress = Progress::ScalingDown;
        // One that etcd does not know by its name is between two states: how many count is not certain before it is through.
        if let Some(member) = self.health.voters.iter().find(|m| !m.started) {
            let text = format!("no member is removed before {} has told its name", member.label());
            return Some(self.unhealthy(progress, &text));
        }
        let created = |m: &&&Member| (self.pod_of(m).and_then(|pod| pod.created), m.id);
        // One that is away goes before one that is only behind.
        let worst = |m: &&&Member| (!self.health.is_catching_up(m.id), created(m));
        let victim = match self.health.unhealthy.iter().max_by_key(worst) {
            Some(member) => *member,
            None => *self.health.voters.iter().filter(|m| m.id != self.health.leader).max_by_key(created)?,
        };
        if self.voters() < 2 || self.healthy_without(&[victim.id]) < quorum(self.voters() - 1) {
            return Some(self.unhealthy(progress, "no member is removed before more are healthy"));
        }
        let text = format!("removing member {}", victim.label());
        Some(self.remove(progress, victim, Removal::ScaleDown, text, &[]))
    }
}
