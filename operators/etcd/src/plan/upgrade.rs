//! Upgrades of the etcd version: one member at a time, the leader last, each only when the previous one is
//! healthy.

use jiff::SignedDuration;
use semver::Version;

use super::version::{Running, refusal};
use super::{
    Action, Context, Decision, Goal, Health, Progress, START_PATIENCE, has_alarm, is_held_up, pod_state,
    remaining, unready,
};
use crate::observed::{Member, Memory, Observed, PodView};

/// A member that runs the new version is observed for this long before the next one follows.
const STABLE_PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// A member that still reports the old version this long after the change has an image of another version.
const IMAGE_PATIENCE: SignedDuration = SignedDuration::from_secs(120);

/// Progress between two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// They run the desired version, or their version is unknown.
    AsDesired,
    /// They keep another version.
    Refused {
        /// Machine-readable reason.
        reason: &'static str,
        text: String,
    },
    Going {
        /// Lowest version that a member runs.
        from: String,
        /// Members that run the desired version.
        done: usize,
        /// Number of voters.
        of: usize,
    },
}

#[must_use]
pub fn upgrade(goal: &Goal, memory: &Memory, observed: &Observed, health: Option<&Health<'_>>) -> Upgrade {
    let Some(health) = health else {
        // No member answers: only the recorded version is available.
        return match super::version::refusal_from(&memory.version, goal) {
            Some((reason, text)) if memory.version != goal.version => Upgrade::Refused { reason, text },
            _ => Upgrade::AsDesired,
        };
    };
    let goes = |text: &str| Version::parse(text).ok();
    // The version of a member, and the newest that it may have run.
    let versions: Vec<(Version, Version, bool)> = health
        .voters
        .iter()
        .filter_map(|m| {
            let name = m.pod.as_deref()?;
            let assigned = observed.pod(name).and_then(|pod| goes(&pod.version));
            let runs = observed.endpoints.get(name).and_then(|e| goes(&e.version));
            let before = goes(&memory.version);
            let now = runs.clone().or(assigned.clone()).or(before)?;
            let newest = assigned.iter().chain(&runs).max().cloned().unwrap_or_else(|| now.clone());
            let done = runs.is_some_and(|v| v.to_string() == goal.version)
                && assigned.is_none_or(|v| v.to_string() == goal.version);
            Some((now, newest, done))
        })
        .collect();
    let lowest = versions.iter().map(|(now, ..)| now).min().cloned();
    let floor = versions.iter().map(|(_, newest, _)| newest).min().cloned();
    let (Some(lowest), Some(floor)) = (lowest, floor) else { return Upgrade::AsDesired };
    let done = versions.iter().filter(|(.., done)| *done).count();
    // An unreachable member is not an upgrade unless a version was set.
    let assigned_all = health.voters.iter().all(|m| {
        m.pod.as_deref().and_then(|name| observed.pod(name)).is_none_or(|pod| pod.version == goal.version)
    });
    let runs_all = health
        .voters
        .iter()
        .filter_map(|m| observed.endpoints.get(m.pod.as_deref()?))
        .all(|e| e.version == goal.version);
    if assigned_all && runs_all && (memory.version == goal.version || done == health.voters.len()) {
        return Upgrade::AsDesired;
    }
    let auth = goal.auth || observed.endpoints.values().any(|e| e.auth);
    let running = Running { lowest: lowest.clone(), floor, before: goes(&memory.version), auth };
    match refusal(&running, goal) {
        Some((reason, text)) => Upgrade::Refused { reason, text },
        None => Upgrade::Going { from: lowest.to_string(), done, of: health.voters.len() },
    }
}

impl Context<'_> {
    fn going(&self) -> bool {
        matches!(upgrade(self.goal, self.memory, self.observed, Some(self.health)), Upgrade::Going { .. })
    }

    /// The desired version is set, and no member proves yet that this version works.
    pub(super) fn tries_new_version(&self, pod: &PodView) -> bool {
        let works = || {
            let healthy = self.health.voters.iter().filter(|m| self.health.is_healthy(m.id));
            let mut runs = healthy.filter_map(|m| self.observed.endpoints.get(m.pod.as_deref()?));
            runs.any(|e| e.version == self.goal.version)
        };
        pod.version == self.goal.version
            && self.memory.version != self.goal.version
            && self.going()
            && !works()
    }

    /// The only unhealthy member has a version that is neither the desired one nor the last common one: the
    /// version may be the cause, so it is changed before anything else.
    pub(super) fn upgrade_unhealthy(&self) -> Option<Decision> {
        let [member] = self.health.unhealthy.as_slice() else { return None };
        // A member that follows far behind runs: its turn comes as with healthy ones.
        if self.health.is_catching_up(member.id) {
            return None;
        }
        let pod = self.pod_of(member).filter(|_| member.id != self.health.leader)?;
        let astray = ![&self.goal.version, &self.memory.version].contains(&&pod.version);
        // Back at the last common version, it is neither astray nor upgrading.
        let back = pod.version != self.goal.version && self.goal.version == self.memory.version;
        if !(astray || back) || pod.version.is_empty() || pod.deleting || pod.ended || !self.going() {
            return None;
        }
        if self.blocks_restart(member).is_some() {
            return None;
        }
        Some(self.set_version(pod))
    }

    /// The first member with the desired version does not come up: everything else waits for a user.
    pub(super) fn stalled(&self) -> Option<Decision> {
        let pod = |m: &&Member| self.pod_of(m).filter(|pod| self.tries_new_version(pod));
        let pod = self.health.unhealthy.iter().find_map(pod)?;
        let now = self.observed.now;
        if !is_held_up(pod, now) && unready(pod, now) <= START_PATIENCE {
            let text = format!("starting member {} with etcd {}", pod.name, self.goal.version);
            return Some(Decision::wait(Progress::Upgrading, text));
        }
        let text = format!(
            "member {} was updated to etcd {} and is not healthy: {}. The other members are not \
             changed; set spec.version to {} to revert the upgrade",
            pod.name,
            self.goal.version,
            pod_state(self.observed, pod),
            self.running_version()
        );
        Some(Decision::blocked(Progress::Upgrading, "UpgradeStalled", text))
    }

    pub(super) fn upgrade(&self) -> Option<Decision> {
        let progress = Progress::Upgrading;
        if !self.going() {
            return None;
        }
        if has_alarm(self.observed, "NOSPACE") {
            let text = "the database is full (alarm NOSPACE): no member is upgraded until the database is \
             compacted and defragmented and the alarm is disarmed";
            return Some(Decision::blocked(progress, "NoSpace", text));
        }
        if let Some(decision) = self.last_one_is_up() {
            return Some(decision);
        }
        let created = |m: &&&Member| (self.pod_of(m).and_then(|pod| pod.created), m.id);
        let outdated = |m: &&&Member| self.pod_of(m).is_some_and(|pod| pod.version != self.goal.version);
        let follower = self
            .health
            .voters
            .iter()
            .filter(outdated)
            .filter(|m| m.id != self.health.leader)
            .max_by_key(created);
        let leader = self.health.voters.iter().filter(outdated).find(|m| m.id == self.health.leader);
        let member = *follower.or(leader)?;
        let pod = self.pod_of(member)?;
        if let Some(reason) = self.blocks_restart(member) {
            let text = format!("member {} is not upgraded until {reason}", member.label());
            return Some(self.unhealthy(progress, &text));
        }
        if member.id == self.health.leader && self.voters() > 1 {
            let text = format!("upgrading member {} to etcd {}", member.label(), self.goal.version);
            return Some(self.move_leader(progress, member, &text, |_| true));
        }
        Some(self.set_version(pod))
    }

    /// None when all members with the desired version run it, and have done so long enough.
    fn last_one_is_up(&self) -> Option<Decision> {
        let progress = Progress::Upgrading;
        let assigned_pod = |m: &&Member| self.pod_of(m).filter(|pod| pod.version == self.goal.version);
        let mut newest = None;
        for (member, pod) in self.health.voters.iter().filter_map(|m| assigned_pod(m).map(|pod| (*m, pod))) {
            let name = member.label();
            if !self.health.is_healthy(member.id) {
                return Some(
                    self.unhealthy(progress, "no further member is upgraded until all members are healthy"),
                );
            }
            let runs = self.observed.endpoints.get(&name).map(|e| e.version.clone()).unwrap_or_default();
            if runs != self.goal.version {
                let text =
                    format!("waiting for member {name} to run etcd {}, currently {runs}", self.goal.version);
                let late =
                    pod.started.is_some_and(|at| self.observed.now.duration_since(at) > IMAGE_PATIENCE)
                        && pod
                            .ready_since
                            .is_some_and(|at| self.observed.now.duration_since(at) > IMAGE_PATIENCE);
                return Some(if late {
                    let text = format!("{text}; does its image contain that version?");
                    Decision::blocked(progress, "UpgradeStalled", text)
                } else {
                    Decision::wait(progress, text)
                });
            }
            newest = newest.max(pod.started);
        }
        let rest = remaining(newest? + STABLE_PERIOD, self.observed.now)?;
        let text =
            format!("observing the member with etcd {} before upgrading the next one", self.goal.version);
        Some(Decision { again: Some(rest), ..Decision::wait(progress, text) })
    }

    fn set_version(&self, pod: &PodView) -> Decision {
        let (name, to) = (pod.name.clone(), self.goal.version.clone());
        let text = format!("upgrading member {name} from etcd {} to {to}", pod.version);
        let action = Action::SetVersion {
            volume: self.observed.claim(&name).is_some(),
            name,
            uid: pod.uid.clone(),
            from: pod.version.clone(),
            to,
        };
        Decision::act(Progress::Upgrading, action, text)
    }
}
