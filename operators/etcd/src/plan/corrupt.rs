//! Members whose data differs from the others: repair and what it blocks.

use std::collections::BTreeSet;

use super::compare::{agreeing, disputed, holds_same, known};
use super::health::alarms;
use super::{Action, Context, Decision, Progress, Removal};
use crate::maintenance;
use crate::observed::{Corruption, Member, Memory, quorum};

const BLOCKED: &str = "Corrupt";

/// A state that blocks everything except its repair.
enum CorruptionState<'a> {
    /// Their data differs from an agreeing majority.
    Wrong(Vec<&'a Member>),
    /// Members differ, without an agreeing majority.
    Unknown,
    /// The difference is gone, but this learner may have its data from a wrong member.
    Learner(&'a Member),
    /// etcd reports an alarm CORRUPT for these members, and no comparison confirms it.
    Alarm(BTreeSet<u64>),
}

impl<'a> Context<'a> {
    /// A difference is recorded before anything follows from it, and so is its end. Meanwhile only the repair
    /// continues: a member that differs from an agreeing majority is replaced. Without such a majority the
    /// correct data is unknown: missing pods are recreated, and a user decides.
    pub(super) fn corrupt(&self) -> Option<Decision> {
        let known = known(self.memory, &self.health.voters, &self.observed.hashes);
        let state = self.state(known.as_ref());
        let kept = matches!(state, Some(CorruptionState::Learner(_)));
        if known != self.memory.corruption && !kept {
            let text = state.as_ref().map_or("the members hold the same data".into(), |it| self.describe(it));
            let memory = Memory { corruption: known, ..self.memory.clone() };
            let progress = match state {
                None => self.direction(),
                Some(CorruptionState::Wrong(_)) => Progress::Healing,
                Some(_) => Progress::Stuck,
            };
            let decision = Decision::act(progress, Action::Remember(memory.into()), text);
            return Some(Decision { blocked: state.map(|_| BLOCKED), ..decision });
        }
        let state = state?;
        let text = self.describe(&state);
        // While members apply a membership change nothing is done, but the state is reported.
        Some(match self.repair(&state).filter(|_| self.health.agreed) {
            Some(decision) => {
                let message = format!("{text}; {}", decision.message);
                Decision { blocked: Some(BLOCKED), message, ..decision }
            }
            None => Decision::blocked(Progress::Stuck, BLOCKED, text),
        })
    }

    fn state(&self, known: Option<&Corruption>) -> Option<CorruptionState<'a>> {
        let alarms = alarms(self.observed, "CORRUPT");
        let before = self.memory.corruption.as_ref();
        let before = before.filter(|before| self.memory.cluster_id.as_ref() == Some(&before.cluster_id));
        let Some(Corruption { wrong, .. }) = known else {
            let learner = before.and_then(|_| self.own_learner());
            return learner
                .map(CorruptionState::Learner)
                .or((!alarms.is_empty()).then_some(CorruptionState::Alarm(alarms)));
        };
        let voters = &self.health.voters;
        let is_wrong = |m: &&&Member| m.pod.as_ref().is_some_and(|name| wrong.contains(name));
        let members: Vec<&Member> = voters.iter().filter(is_wrong).copied().collect();
        let unknown = members.is_empty() || disputed(wrong, voters, &self.observed.hashes);
        Some(if unknown { CorruptionState::Unknown } else { CorruptionState::Wrong(members) })
    }

    fn own_learner(&self) -> Option<&'a Member> {
        self.health.learners.iter().find(|m| m.pod.is_some()).copied()
    }

    fn describe(&self, state: &CorruptionState<'_>) -> String {
        let mut text = match state {
            CorruptionState::Wrong(members) => {
                let names: Vec<String> = members.iter().map(|m| m.label()).collect();
                format!(
                    "the data of {} differs from the majority: the operator replaces corrupt members when the \
                     other members are healthy and form a quorum",
                    names.join(" and ")
                )
            }
            CorruptionState::Unknown => {
                "the members hold different data and no majority agrees: the operator makes no changes. \
                 Compare with `etcdctl endpoint hashkv --cluster`, then remove the corrupt members with \
                 `etcdctl member remove`, or restore a backup (EtcdRestore)"
                    .to_owned()
            }
            CorruptionState::Learner(member) => format!(
                "the members hold the same data again, but {} may have copied its data from a corrupt member",
                member.label()
            ),
            CorruptionState::Alarm(of) => self.describe_alarm(of),
        };
        if !self.observed.uncompared.is_empty() {
            text = format!("{text}; no data hash from {}", self.observed.uncompared.join(" and "));
        }
        text
    }

    fn describe_alarm(&self, of: &BTreeSet<u64>) -> String {
        let who: Vec<String> = of
            .iter()
            .map(|id| match self.members().find(|m| m.id == *id) {
                Some(member) => format!("of {} ({id:x})", member.label()),
                None if *id == 0 => "without a member".to_owned(),
                None => format!("of {id:x}, which is not a member"),
            })
            .collect();
        let compared = if holds_same(&self.health.voters, &self.observed.hashes) {
            "the data hashes of all members are equal"
        } else {
            "the data hashes of the members do not identify the corrupt member"
        };
        format!(
            "etcd rejects writes because data is corrupt (alarm CORRUPT {}); {compared}. Compare with \
             `etcdctl endpoint hashkv --cluster`, remove a differing member with `etcdctl member remove`, \
             and when all remaining members hold the same data, run `etcdctl alarm disarm`",
            who.join(" and ")
        )
    }

    fn repair(&self, state: &CorruptionState<'_>) -> Option<Decision> {
        match state {
            CorruptionState::Wrong(members) => self.replace_wrong(members),
            CorruptionState::Unknown => self
                .clean_up()
                .or_else(|| self.restart_members())
                .or_else(|| self.upgrade_unhealthy())
                .or_else(|| self.remove_lost())
                .or_else(|| self.stalled()),
            CorruptionState::Learner(learner) => Some(self.remove_learner(learner)),
            CorruptionState::Alarm(of) => {
                self.disarm(of).or_else(|| self.clean_up()).or_else(|| self.restart_members())
            }
        }
    }

    /// Cleans up after removed members.
    fn clean_up(&self) -> Option<Decision> {
        self.leftover_pod().or_else(|| self.leftover_claim())
    }

    /// Restarts members that have their data; no data is lost.
    fn restart_members(&self) -> Option<Decision> {
        self.seal().or_else(|| self.terminating()).or_else(|| self.missing_pod())
    }

    /// Removes a lost member, which cannot be compared any more. The remaining members must have the quorum
    /// and hold the data of a majority.
    fn remove_lost(&self) -> Option<Decision> {
        let wrong = self.memory.corruption.as_ref().map(|known| &known.wrong)?;
        let right = agreeing(wrong, &self.health.voters, &self.observed.hashes);
        let unsure = |m: &&&Member| m.pod.as_deref().is_none_or(|name| !right.contains(&name));
        let unsure: Vec<u64> = self.health.voters.iter().filter(unsure).map(|m| m.id).collect();
        self.dead_voter(&unsure).filter(|decision| decision.action.is_some())
    }

    /// A learner receives all data of the leader. As a voter it would count for that data.
    fn remove_learner(&self, learner: &Member) -> Decision {
        let name = learner.label();
        let why = "members held different data while the learner copied from one of them".to_owned();
        let text = format!("removing learner {name}");
        self.remove(self.direction(), learner, Removal::Learner(why), text, &[])
    }

    /// Removes the differing members one by one, and clears what blocks their removal.
    fn replace_wrong(&self, wrong: &[&Member]) -> Option<Decision> {
        let ids: Vec<u64> = wrong.iter().map(|m| m.id).collect();
        self.own_learner()
            .map(|learner| self.remove_learner(learner))
            .or_else(|| self.replace_corrupt(wrong, &ids))
            .or_else(|| self.clean_up())
            .or_else(|| self.restart_members())
            .or_else(|| self.upgrade_unhealthy())
            .or_else(|| self.dead_voter(&ids))
            .or_else(|| self.stalled())
    }

    fn replace_corrupt(&self, wrong: &[&Member], ids: &[u64]) -> Option<Decision> {
        // An unreachable one is the first, or it would block the others; then one that lags.
        let state = |m: &&&Member| (self.health.is_healthy(m.id), self.health.is_catching_up(m.id));
        let member = wrong.iter().min_by_key(state)?;
        // The remaining members must have the quorum and be healthy, except for other wrong ones: these do
        // not count.
        let sound_missing = self.health.unhealthy.iter().any(|m| !ids.contains(&m.id));
        if sound_missing || self.healthy_without(ids) < quorum(self.voters() - 1) {
            return None;
        }
        let name = member.label();
        let sum = member.pod.as_ref().and_then(|name| self.observed.hashes.get(name));
        let why = sum.map_or("its data differs from the majority".to_owned(), |hash| {
            format!("its data hash {:08x} at revision {} differs from the majority", hash.hash, hash.revision)
        });
        let text = format!("replacing member {name}");
        Some(self.remove(Progress::Healing, member, Removal::Corrupt(why), text, ids))
    }

    /// etcd keeps the alarm of a removed member and rejects writes for it. When all remaining members are
    /// compared and equal, that single alarm is disarmed.
    fn disarm(&self, of: &BTreeSet<u64>) -> Option<Decision> {
        let gone = |id: &&u64| **id != 0 && self.members().all(|m| m.id != **id);
        let member =
            *of.iter().find(gone).filter(|_| holds_same(&self.health.voters, &self.observed.hashes))?;
        let step = maintenance::Step::DisarmCorrupt { member, via: self.health.via.clone() };
        let text = format!("disarming the alarm of {member:x}");
        Some(Decision::act(self.direction(), Action::Maintain(step), text))
    }
}
