//! Scales up or down, one member at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;

use super::compare::agreeing;
use super::{Action, Context, Decision, Progress, Removal, has_alarm, remaining};
use crate::observed::{Member, Memory, Serving, quorum};

/// etcd accepts a new member when all voters have been connected for this long.
const HEALTH_INTERVAL: SignedDuration = SignedDuration::from_secs(5);
/// Delay after a member that did not join: its missing prerequisite is seldom met a second later.
const LEARNER_RETRY: SignedDuration = SignedDuration::from_secs(120);

impl Context<'_> {
    pub(super) fn grow(&self) -> Option<Decision> {
        if self.voters() >= self.goal.size {
            return None;
        }
        let progress = Progress::ScalingUp;
        if !self.health.unhealthy.is_empty() {
            return Some(self.unhealthy(progress, "no member is added until all members are healthy"));
        }
        if has_alarm(self.observed, "NOSPACE") {
            let text = "the database is full (alarm NOSPACE): no member is added until the database is \
             compacted and defragmented and the alarm is disarmed";
            return Some(Decision::blocked(progress, "NoSpace", text));
        }
        let failed = self.memory.failure.as_ref().filter(|f| f.generation == self.goal.generation);
        if failed.and_then(|failure| remaining(failure.at + LEARNER_RETRY, self.observed.now)).is_some() {
            return None;
        }
        let Some(name) = &self.memory.pending else {
            let memory = Memory { pending: Some(self.observed.fresh_name.clone()), ..self.memory.clone() };
            let text = format!("adding member {}", self.observed.fresh_name);
            return Some(Decision::act(progress, Action::Remember(memory.into()), text));
        };
        if let Some(rest) = self.until_connected() {
            let text =
                format!("etcd accepts member {name} after all members have been connected for five seconds");
            return Some(Decision { again: Some(rest), ..Decision::wait(progress, text) });
        }
        let action = Action::AddLearner { name: name.clone(), via: self.health.via.clone() };
        Some(Decision::act(progress, action, format!("adding member {name}")))
    }

    /// How long etcd will still reject a new member. A single member is accepted at once.
    fn until_connected(&self) -> Option<Duration> {
        if self.voters() < 2 {
            return None;
        }
        let starts = self.health.voters.iter().filter_map(|m| self.pod_of(m).and_then(|pod| pod.started));
        remaining(starts.max()? + HEALTH_INTERVAL, self.observed.now)
    }

    pub(super) fn shrink(&self) -> Option<Decision> {
        if self.voters() <= self.goal.size {
            return None;
        }
        let progress = Progress::ScalingDown;
        // A voter without a published name is between two states: the number of voters is uncertain until it
        // has started.
        if let Some(member) = self.health.voters.iter().find(|m| !m.started) {
            let text = format!("no member is removed until {} has published its name", member.label());
            return Some(self.unhealthy(progress, &text));
        }
        let sound = self.sound();
        let doubtful = || self.health.voters.iter().filter(|m| !sound.contains(&m.id));
        let created = |m: &&&Member| (self.pod_of(m).and_then(|pod| pod.created), m.id);
        // The choice stays with a member that clients have left for it.
        let left = |m: &Member| self.pod_of(m).is_some_and(|pod| pod.serving == Serving::Out);
        // First an unreachable one, then one that lags, then one that could not be compared.
        let worst = |m: &&&Member| {
            let healthy = self.health.is_healthy(m.id);
            (!healthy && !self.health.is_catching_up(m.id), !healthy, left(m), created(m))
        };
        let newest = |m: &&&Member| (self.volume_deleting(m), left(m), created(m));
        let follower = || self.health.voters.iter().filter(|m| m.id != self.health.leader).max_by_key(newest);
        let victim = *doubtful().max_by_key(worst).or_else(follower)?;
        if self.voters() < 2 || self.healthy_without(&[victim.id]) < quorum(self.voters() - 1) {
            return Some(self.unhealthy(progress, "no member is removed until more members are healthy"));
        }
        if sound.is_empty() && (self.observed.compared_now || !self.observed.uncompared.is_empty()) {
            return Some(self.too_few_compared());
        }
        let text = format!("removing member {}", victim.label());
        let avoid: Vec<u64> = doubtful().map(|m| m.id).collect();
        Some(self.compared_first(self.remove(progress, victim, Removal::ScaleDown, text, &avoid)))
    }

    fn volume_deleting(&self, member: &Member) -> bool {
        member.pod.as_deref().is_some_and(|name| self.observed.volume_deleting(name))
    }

    /// Replaces a member whose claim is being deleted: its data is lost when its pod ends. Clusters of one or
    /// two have no member to spare. While the checks fail this decides nothing, so that upgrades in place and
    /// maintenance continue.
    pub(super) fn deleting_volume(&self) -> Option<Decision> {
        let voters = self.voters();
        if voters < 3 || voters != self.goal.size || has_alarm(self.observed, "NOSPACE") {
            return None;
        }
        let deleting = self.health.voters.iter().filter(|m| self.volume_deleting(m));
        // The leader last: it then transfers leadership to a member whose volume stays.
        let member = *deleting.min_by_key(|m| (m.id == self.health.leader, m.id))?;
        if self.blocks_restart(member).is_some() {
            return None;
        }
        let compared = self.observed.compared_now || !self.observed.uncompared.is_empty();
        let stay = self.sound().iter().filter(|id| **id != member.id).count();
        if compared && stay < quorum(voters - 1) {
            return None;
        }
        Some(self.replace(self.direction(), member, "its PersistentVolumeClaim is being deleted"))
    }

    /// Ids of the healthy voters that a comparison found to hold the same data, if they are a majority; otherwise none.
    fn sound(&self) -> Vec<u64> {
        let voters = &self.health.voters;
        let alike = agreeing(&BTreeSet::new(), voters, &self.observed.hashes);
        let holds = |m: &&&Member| m.pod.as_deref().is_some_and(|name| alike.contains(&name));
        let sound = voters.iter().filter(holds).map(|m| m.id).filter(|id| self.health.is_healthy(*id));
        Some(sound.collect::<Vec<_>>())
            .filter(|sound| sound.len() >= quorum(voters.len()))
            .unwrap_or_default()
    }

    /// Removing any member could remove the last one that holds the majority's data.
    fn too_few_compared(&self) -> Decision {
        let silent =
            |m: &&&Member| m.pod.as_ref().is_some_and(|name| !self.observed.hashes.contains_key(name));
        let names: Vec<String> = self.health.voters.iter().filter(silent).map(|m| m.label()).collect();
        let without = if names.is_empty() {
            String::new()
        } else {
            format!(" (no data hash from {})", names.join(", "))
        };
        let text = format!(
            "spec.size is {}, but no member is removed: fewer than {} of {} members could be \
             compared{without}. hint: `etcdctl endpoint hashkv --cluster` shows why; `etcdctl member \
             remove` removes a member without a comparison",
            self.goal.size,
            quorum(self.voters()),
            self.voters()
        );
        let compare = !self.observed.compared_now;
        Decision { compare, ..Decision::blocked(Progress::ScalingDown, "ComparisonIncomplete", text) }
    }
}
