//! Comparison of the members' data: when it is due, and what its hashes mean together with what is already
//! recorded.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Action, Goal, assess, has_alarm, plan, proved};
use crate::observed::{Corruption, Hash, Member, Memory, Observed, quorum};

/// Interval of comparisons: each member reads all its data for it and takes no writes meanwhile.
const EVERY: SignedDuration = SignedDuration::from_secs(1800);
/// The first one falls into this time after the operator's start, spread over the clusters.
const FIRST: SignedDuration = SignedDuration::from_secs(240);
/// An incomplete comparison is repeated after this delay, which doubles each time.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// While members differ, or report corruption, the delay doubles at most this often, to about a minute: a
/// user may need hours to react, and the result of the repair should show soon. Otherwise up to [`EVERY`].
const DOUBLED: u32 = 5;
/// Minimum delay of an extra comparison, as a multiple of the duration of the last one.
const SHARE: i32 = 20;
/// Before a member is removed, they are compared in the same observation, but after an incomplete comparison
/// only once this multiple of its duration has passed.
const REST: i32 = 4;
/// Maximum age of the comparison before a member is added, which receives all data of the others.
const FRESH: SignedDuration = SignedDuration::from_secs(300);
/// Consecutive incomplete comparisons until they are reported.
const SEVERAL: u32 = 3;

/// Time and result of the last comparison. Kept in memory between reconciliations and lost with the operator;
/// a difference is recorded in [`Memory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Id of the etcd cluster.
    cluster_id: Option<String>,
    /// End of the last comparison.
    at: Timestamp,
    /// Its duration.
    took: SignedDuration,
    /// Consecutive incomplete comparisons.
    open: u32,
    /// Ids of the voters; none before the first comparison.
    voters: BTreeSet<u64>,
    /// The voters whose hash was requested.
    asked: BTreeSet<u64>,
    /// Names of those that could not be compared with the others.
    missing: Vec<String>,
    /// The hashes, by name of the pod.
    sums: BTreeMap<String, Hash>,
}

impl Compared {
    /// The cached result, if it belongs to this etcd cluster. `part`, from 0 to 1: position of the first
    /// comparison within [`FIRST`].
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

    /// Adds the result of an earlier comparison to an observation. Hashes are void after a change of voters.
    pub(crate) fn show(&self, observed: &mut Observed) {
        let holds = assess(observed).is_some_and(|health| ids(&health.voters) == self.voters);
        observed.hashes = if holds { self.sums.clone() } else { BTreeMap::new() };
        observed.uncompared = if holds { self.uncompared().to_vec() } else { Vec::new() };
        observed.compared_now = false;
    }

    /// Adds the result of a comparison made for this observation.
    pub(crate) fn show_new(&self, observed: &mut Observed) {
        self.show(observed);
        observed.compared_now = assess(observed).is_some_and(|health| ids(&health.voters) == self.voters);
    }

    /// Members that could not be compared in several consecutive comparisons.
    pub(crate) fn uncompared(&self) -> &[String] {
        if self.open < SEVERAL { &[] } else { &self.missing }
    }

    /// Whether the next comparison is due. A clock that was set back makes it due.
    pub(crate) fn due(&self, goal: &Goal, memory: &Memory, observed: &Observed) -> bool {
        // Without a proved quorum, a comparison has no consequence.
        let Ok(health) = proved(goal, memory, observed) else { return false };
        if health.voters.len() < 2 {
            return false;
        }
        let known = memory.corruption.is_some();
        let since = observed.now.duration_since(self.at);
        let passed = |wait: SignedDuration| since.is_negative() || since >= wait;
        if passed(self.wait(known || has_alarm(observed, "CORRUPT"))) {
            return true;
        }
        let before = !self.voters.is_empty();
        let answers = |m: &Member| {
            m.pod.as_ref().and_then(|name| observed.endpoints.get(name)).is_some_and(|e| e.has_sum())
        };
        // A new voter is compared at once, and a returning one shortly after. The creation of a cluster is
        // not delayed.
        let mut unasked = health.voters.iter().filter(|m| answers(m) && !self.asked.contains(&m.id));
        let new = |m: &Member| !self.voters.contains(&m.id);
        let paced = passed(self.took.saturating_mul(SHARE).clamp(AGAIN, EVERY));
        if before && unasked.any(|m| new(m) || paced) {
            return true;
        }
        // The member that differed may be gone: no other action before all remaining members are known to
        // agree.
        if before && known && !self.voters.is_subset(&ids(&health.voters)) {
            return true;
        }
        let next = plan(goal, memory, observed);
        if next.compare {
            // Each removal makes the members read all their data again; a member without a hash makes that
            // slow.
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

    /// The state after a comparison in this observation with this duration, end `now` and result.
    pub(crate) fn after(
        &self,
        (took, now): (SignedDuration, Timestamp),
        observed: &Observed,
        sums: BTreeMap<String, Hash>,
    ) -> Self {
        let Some(health) = assess(observed) else { return Self { at: now, took, ..self.clone() } };
        let voters = &health.voters;
        let settled = holds_same(voters, &sums) && !has_alarm(observed, "CORRUPT");
        let asked = |m: &&&Member| {
            m.pod.as_ref().and_then(|name| observed.endpoints.get(name)).is_some_and(|e| e.has_sum())
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

/// Names of pods with comparable hashes.
type Group<'a> = Vec<(&'a str, u32)>;

/// Only hashes of the same revision and the same compaction are comparable.
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

/// Our members that were not compared with most of the others.
fn missing(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> Vec<String> {
    let most = groups(voters, sums).into_iter().max_by_key(Vec::len).unwrap_or_default();
    let ours = voters.iter().filter_map(|m| m.pod.as_deref());
    ours.filter(|name| most.iter().all(|(other, _)| other != name)).map(str::to_owned).collect()
}

/// Whether all our members were compared and hold the same data; true for a single one.
pub(super) fn holds_same(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> bool {
    match groups(voters, sums).as_slice() {
        [group] => !differs(group) && missing(voters, sums).is_empty(),
        _ => voters.len() < 2,
    }
}

/// The recorded difference updated by these hashes; none when all hold the same data.
pub(super) fn known(
    memory: &Memory,
    voters: &[&Member],
    sums: &BTreeMap<String, Hash>,
) -> Option<Corruption> {
    let cluster_id = memory.cluster_id.clone()?;
    // A difference of another etcd cluster does not concern the one that a restore created.
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
        // A member known to be wrong does not count for the majority.
        let majority = |(_, sum): &&(&str, u32)| holds(*sum, false).count() >= quorum(voters.len());
        let wrong: Vec<&str> = match group.iter().find(majority) {
            Some((_, right)) => group.iter().filter(|(_, sum)| sum != right).map(|(name, _)| *name).collect(),
            // A member that agrees with a wrong one is wrong too: it may have received its data from there.
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

/// Names of an agreeing majority among the members not known to be wrong, if any.
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

/// Whether members not known to be wrong differ from each other.
pub(super) fn disputed(wrong: &BTreeSet<String>, voters: &[&Member], sums: &BTreeMap<String, Hash>) -> bool {
    groups(voters, sums).into_iter().any(|mut group| {
        group.retain(|(name, _)| !wrong.contains(*name));
        differs(&group)
    })
}
