//! When the data of members is compared, and what the sums over it say together with what is known already.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Action, Goal, assess, has_alarm, plan, proved};
use crate::observed::{Corruption, Hash, Member, Memory, Observed, quorum};

/// The data of members is compared this often: each of them reads all of it for that, and takes no writes meanwhile.
const EVERY: SignedDuration = SignedDuration::from_secs(1800);
/// The first time within so long of the operator's start, so that not all clusters are compared at once.
const FIRST: SignedDuration = SignedDuration::from_secs(240);
/// When it was left open whether all hold the same it is compared again this soon, and each further time after twice as long.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// While members differ, or one says that it is corrupt, it is doubled no more often than this, to about a minute: a person may take hours
/// to come, and what was done is to be seen soon. Else until it is [`EVERY`].
const DOUBLED: u32 = 5;
/// What is compared again outside its turn waits so many times as long as the last time took.
const SHARE: i32 = 20;
/// Before a member is removed they are compared in the same look, but after one that was not of all only when this many times as long as that
/// took has passed.
const REST: i32 = 4;
/// Before a member is added, which gets all that the others hold, they were compared no longer ago than this.
const FRESH: SignedDuration = SignedDuration::from_secs(300);
/// So many comparisons in a row that were not of all are told of.
const SEVERAL: u32 = 3;

/// When the data of a cluster's members was compared, and what came of it. It is kept from one look to the next, and lost with the
/// operator: that members differ is written down, in [`Memory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Id of the etcd cluster.
    cluster_id: Option<String>,
    /// When the last comparison ended.
    at: Timestamp,
    /// How long it took.
    took: SignedDuration,
    /// How many in a row left it open whether all hold the same.
    open: u32,
    /// Ids of those who had a vote; none before the first comparison.
    voters: BTreeSet<u64>,
    /// Those of them who were asked for a sum.
    asked: BTreeSet<u64>,
    /// Names of those who could not be compared with the others.
    missing: Vec<String>,
    /// The sums, by name of the pod.
    sums: BTreeMap<String, Hash>,
}

impl Compared {
    /// What was kept, if it is of this etcd cluster. `part`, from 0 to 1: of the time in which all clusters have their first turn, how much
    /// passes before that of this one.
    pub(crate) fn of(kept: Option<Self>, memory: &Memory, now: Timestamp, part: f64) -> Self {
        kept.filter(|kept| kept.cluster_id == memory.cluster_id).unwrap_or_else(|| Self {
            cluster_id: memory.cluster_id.clone(),
            at: now - (EVERY - FIRST.mul_f64(part)),
            took: SignedDuration::ZERO,
            open: 0,
            voters: BTreeSet::new(),
            asked: BTreeSet::new(),
            missing: Vec::new(),
            sums: BTreeMap::new(),
        })
    }

    /// Puts the result of an earlier comparison into a look. Sums are void when others have a vote by now.
    pub(crate) fn show(&self, seen: &mut Observed) {
        let holds = assess(seen).is_some_and(|health| ids(&health.voters) == self.voters);
        seen.hashes = if holds { self.sums.clone() } else { BTreeMap::new() };
        seen.uncompared = if holds { self.unheard().to_vec() } else { Vec::new() };
        seen.compared_now = false;
    }

    /// Puts the result of the comparison that was just made for this look into it.
    pub(crate) fn show_new(&self, seen: &mut Observed) {
        self.show(seen);
        seen.compared_now = assess(seen).is_some_and(|health| ids(&health.voters) == self.voters);
    }

    /// Those who could not be compared with the others, when that was tried several times.
    pub(crate) fn unheard(&self) -> &[String] {
        if self.open < SEVERAL { &[] } else { &self.missing }
    }

    /// Whether it is time for the next one. A clock that was set back does not say how long ago the last one was.
    pub(crate) fn due(&self, goal: &Goal, memory: &Memory, seen: &Observed) -> bool {
        // Where nothing follows from it, it would be for nothing.
        let Ok(health) = proved(goal, memory, seen) else { return false };
        if health.voters.len() < 2 {
            return false;
        }
        let known = memory.corruption.is_some();
        let since = seen.now.duration_since(self.at);
        let passed = |wait: SignedDuration| since.is_negative() || since >= wait;
        if passed(self.wait(known || has_alarm(seen, "CORRUPT"))) {
            return true;
        }
        let before = !self.voters.is_empty();
        let answers = |m: &Member| {
            m.pod.as_ref().and_then(|name| seen.endpoints.get(name)).is_some_and(|e| e.has_sum())
        };
        // Who has a vote since is compared at once, and who is back in a moment. A cluster that is being created is not held up.
        let mut unasked = health.voters.iter().filter(|m| answers(m) && !self.asked.contains(&m.id));
        let new = |m: &Member| !self.voters.contains(&m.id);
        let paced = passed(self.took.saturating_mul(SHARE).clamp(AGAIN, EVERY));
        if before && unasked.any(|m| new(m) || paced) {
            return true;
        }
        // Whoever differed may be gone: nothing else is begun before it is known that all who remain agree.
        if before && known && !self.voters.is_subset(&ids(&health.voters)) {
            return true;
        }
        let next = plan(goal, memory, seen);
        if next.compare {
            // The members read all their data again for each removal; a member that gives no sum makes that slow.
            let rest = if self.open == 0 { self.took } else { (self.took * REST).max(AGAIN) };
            return ids(&health.voters) != self.voters || passed(rest.min(EVERY));
        }
        passed(FRESH) && matches!(next.action, Some(Action::AddLearner { .. }))
    }

    fn wait(&self, urgent: bool) -> SignedDuration {
        let doubled = match (self.open, urgent) {
            (0, false) => return EVERY,
            (open, true) => open.saturating_sub(1).min(DOUBLED),
            (open, false) => (open - 1).min(10),
        };
        (AGAIN * (1_i32 << doubled)).max(self.took.saturating_mul(SHARE)).min(EVERY)
    }

    /// The same after a comparison in this look, which took so long, ended `now`, and came to these sums.
    pub(crate) fn after(
        &self,
        (took, now): (SignedDuration, Timestamp),
        seen: &Observed,
        sums: BTreeMap<String, Hash>,
    ) -> Self {
        let Some(health) = assess(seen) else { return Self { at: now, took, ..self.clone() } };
        let voters = &health.voters;
        let settled = holds_same(voters, &sums) && !has_alarm(seen, "CORRUPT");
        let asked = |m: &&&Member| {
            m.pod.as_ref().and_then(|name| seen.endpoints.get(name)).is_some_and(|e| e.has_sum())
        };
        Self {
            cluster_id: self.cluster_id.clone(),
            at: now,
            took,
            open: if settled { 0 } else { self.open.saturating_add(1) },
            voters: ids(voters),
            asked: voters.iter().filter(asked).map(|m| m.id).collect(),
            missing: missing(voters, &sums),
            sums,
        }
    }
}

fn ids(members: &[&Member]) -> BTreeSet<u64> {
    members.iter().map(|m| m.id).collect()
}

/// Names of pods with sums that can be compared with each other.
type Group<'a> = Vec<(&'a str, u32)>;

/// Only sums of the same revision and the same compaction say something about each other.
fn groups<'a>(voters: &[&'a Member], sums: &BTreeMap<String, Hash>) -> Vec<Group<'a>> {
    let mut groups: BTreeMap<(i64, i64), Group<'a>> = BTreeMap::new();
    for name in voters.iter().filter_map(|m| m.pod.as_deref()) {
        if let Some(hash) = sums.get(name) {
            groups.entry((hash.revision, hash.compacted)).or_default().push((name, hash.hash));
        }
    }
    groups.into_values().collect()
}

fn differs(group: &Group<'_>) -> bool {
    group.iter().any(|(_, sum)| *sum != group[0].1)
}

/// Those of ours who were not compared with most of the others.
fn missing(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> Vec<String> {
    let most = groups(voters, sums).into_iter().max_by_key(Vec::len).unwrap_or_default();
    let ours = voters.iter().filter_map(|m| m.pod.as_deref());
    ours.filter(|name| most.iter().all(|(other, _)| other != name)).map(str::to_owned).collect()
}

/// Whether all who are ours were compared with each other and hold the same. Of one that is so by itself.
pub(super) fn holds_same(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> bool {
    match groups(voters, sums).as_slice() {
        [group] => !differs(group) && missing(voters, sums).is_empty(),
        _ => voters.len() < 2,
    }
}

/// What is known of members that differ, with what these sums say; nothing when all hold the same.
pub(super) fn known(
    memory: &Memory,
    voters: &[&Member],
    sums: &BTreeMap<String, Hash>,
) -> Option<Corruption> {
    let cluster_id = memory.cluster_id.clone()?;
    // What is known of another etcd cluster says nothing about the one that a restore made.
    let before = memory.corruption.clone().filter(|known| known.cluster_id == cluster_id);
    let groups = groups(voters, sums);
    if voters.len() < 2 || holds_same(voters, sums) || (before.is_none() && !groups.iter().any(differs)) {
        return None;
    }
    let mut known = before.unwrap_or_else(|| Corruption { cluster_id, wrong: BTreeSet::new() });
    if !groups.is_empty() {
        known.wrong.retain(|name| voters.iter().any(|m| m.pod.as_ref() == Some(name)));
    }
    for group in &groups {
        let before = &known.wrong;
        let holds = |sum: u32, wrong: bool| {
            group.iter().filter(move |(name, other)| *other == sum && before.contains(*name) == wrong)
        };
        // One that is known to be wrong is not asked who is right.
        let majority = |(_, sum): &&(&str, u32)| holds(*sum, false).count() >= quorum(voters.len());
        let wrong: Vec<&str> = match group.iter().find(majority) {
            Some((_, right)) => group.iter().filter(|(_, sum)| sum != right).map(|(name, _)| *name).collect(),
            // Who holds what it holds is wrong too: it may have got all of it from there.
            None => {
                let like_it = group.iter().filter(|(_, sum)| holds(*sum, true).next().is_some());
                like_it.map(|(name, _)| *name).collect()
            }
        };
        known.wrong.retain(|name| group.iter().all(|(other, _)| other != name));
        known.wrong.extend(wrong.into_iter().map(str::to_owned));
    }
    Some(known)
}

/// Names of a majority that holds the same, if there is one among those of whom it is not known that they are wrong.
pub(super) fn agreeing<'a>(
    wrong: &BTreeSet<String>,
    voters: &[&'a Member],
    sums: &BTreeMap<String, Hash>,
) -> Vec<&'a str> {
    let alike = groups(voters, sums).into_iter().flat_map(|group| {
        let mut by_sum: BTreeMap<u32, Vec<&'a str>> = BTreeMap::new();
        for (name, sum) in group.into_iter().filter(|(name, _)| !wrong.contains(*name)) {
            by_sum.entry(sum).or_default().push(name);
        }
        by_sum.into_values()
    });
    alike.max_by_key(Vec::len).filter(|names| names.len() >= quorum(voters.len())).unwrap_or_default()
}

/// Whether some of whom it is not known that they are wrong do not hold the same.
pub(super) fn disputed(wrong: &BTreeSet<String>, voters: &[&Member], sums: &BTreeMap<String, Hash>) -> bool {
    groups(voters, sums).into_iter().any(|mut group| {
        group.retain(|(name, _)| !wrong.contains(*name));
        differs(&group)
    })
}
