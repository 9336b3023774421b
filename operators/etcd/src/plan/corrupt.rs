//! Members whose data is not that of the others: when it is compared, what is remembered of that, and what follows from it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Decision, Health, Progress, Removal, Step, assess, has_alarm};
use crate::observed::{Hash, Member, Observed, quorum};

/// The data of members is compared this often: each of them reads all of it for that.
const EVERY: SignedDuration = SignedDuration::from_secs(1800);
/// The first time within so long of the operator's start, so that not all clusters are compared at once.
const FIRST: SignedDuration = SignedDuration::from_secs(240);
/// While members differ, or one says that it is corrupt, it is compared again this soon, and each further time after twice as long: a
/// person may take hours to come, and a member that is asked for a sum over much data does little else meanwhile.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);
/// It is doubled no more often than this: to about a minute.
const DOUBLED: u32 = 5;

const BLOCKED: &str = "Corrupt";

/// What comparisons of the data of a cluster's members have come to. It is kept from one look to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// When the last one was.
    at: Timestamp,
    /// How many in a row left it open whether all hold the same.
    open: u32,
    /// What the last one found that found a difference, until one of all members finds none.
    sums: BTreeMap<String, Hash>,
    /// An operator before this one has told of members that differ, and what this one has compared does not say otherwise yet.
    told: bool,
}

impl Compared {
    /// Before the first comparison. `told`: an operator before this one has told of members that differ. `part`, from 0 to 1: of the
    /// time in which all clusters have their first turn, how much passes before that of this one.
    pub(crate) fn begin(now: Timestamp, told: bool, part: f64) -> Self {
        let ago = if told { AGAIN } else { EVERY - FIRST.mul_f64(part) };
        Self { at: now - ago, open: u32::from(told), sums: BTreeMap::new(), told }
    }

    /// Whether it is time for the next one. A clock that was set back does not say how long ago the last one was.
    pub(crate) fn due(&self, seen: &Observed) -> bool {
        let Some(health) = assess(seen).filter(|health| health.voters.len() > 1) else { return false };
        // Whoever differed is gone: nothing else is begun before it is known that all who remain agree.
        if !self.sums.is_empty() && !differ(&health.voters, &self.sums) {
            return true;
        }
        let wait = match self.open {
            0 if has_alarm(seen, "CORRUPT") => AGAIN,
            0 => EVERY,
            open => AGAIN * (1_i32 << (open - 1).min(DOUBLED)),
        };
        let since = seen.now.duration_since(self.at);
        since.is_negative() || since >= wait
    }

    /// The same after a comparison in this look, which ended `now`.
    pub(crate) fn after(&self, now: Timestamp, seen: &Observed) -> Self {
        let Some(Health { voters, .. }) = assess(seen) else { return Self { at: now, ..self.clone() } };
        let (whole, differs) = (all(&voters, &seen.hashes), differ(&voters, &seen.hashes));
        let before = compare(&voters, &self.sums);
        let differed = !matches!(before, Comparison::Same);
        // A majority that agrees knows better than a comparison that found none. Who did not answer now is compared when it does.
        let majority = agreeing(&voters, &seen.hashes) >= quorum(voters.len());
        let settled = majority && matches!(before, Comparison::NoMajority);
        let sums = match () {
            () if differs && (whole || settled || !differed) => seen.hashes.clone(),
            // Somebody did not answer, and it may be the one of whom it is known.
            () if differed && !whole && !settled => self.sums.clone(),
            () => BTreeMap::new(),
        };
        let same = whole && !differs;
        let open = differs || has_alarm(seen, "CORRUPT") || (self.open > 0 && !same);
        let told = self.told && !(whole || majority || differs);
        Self { at: now, open: if open { self.open.saturating_add(1) } else { 0 }, sums, told }
    }

    /// Whether members may differ of which it is not known how.
    pub(crate) const fn told(&self) -> bool {
        self.told
    }

    /// What is known of members that differ: sums over their data, by name of the pod.
    pub(crate) const fn sums(&self) -> &BTreeMap<String, Hash> {
        &self.sums
    }
}

/// What a comparison of sums says.
enum Comparison<'a> {
    /// Nothing to compare, or all the same.
    Same,
    /// A majority agrees, these do not.
    Differ(Vec<(&'a Member, Hash)>),
    /// There is no majority to believe.
    NoMajority,
}

fn compare<'a>(voters: &[&'a Member], sums: &BTreeMap<String, Hash>) -> Comparison<'a> {
    // Only sums of the same revision and the same compaction can be compared.
    let mut groups: BTreeMap<(i64, i64), Vec<(&'a Member, Hash)>> = BTreeMap::new();
    for member in voters {
        if let Some(hash) = member.pod.as_ref().and_then(|name| sums.get(name)) {
            groups.entry((hash.revision, hash.compacted)).or_default().push((*member, *hash));
        }
    }
    let differing = groups.into_values().filter(|group| group.iter().any(|(_, hash)| *hash != group[0].1));
    let Some(group) = differing.max_by_key(Vec::len) else { return Comparison::Same };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, hash) in &group {
        *counts.entry(hash.hash).or_default() += 1;
    }
    match counts.into_iter().find(|(_, count)| *count >= quorum(voters.len())) {
        Some((right, _)) => {
            Comparison::Differ(group.into_iter().filter(|(_, hash)| hash.hash != right).collect())
        }
        None => Comparison::NoMajority,
    }
}

fn differ(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> bool {
    !matches!(compare(voters, sums), Comparison::Same)
}

/// How many of them hold the same, of those who can be compared.
fn agreeing(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> usize {
    let mut counts: BTreeMap<(i64, i64, u32), usize> = BTreeMap::new();
    for hash in voters.iter().filter_map(|member| sums.get(member.pod.as_ref()?)) {
        *counts.entry((hash.revision, hash.compacted, hash.hash)).or_default() += 1;
    }
    counts.into_values().max().unwrap_or_default()
}

/// Whether each of them that is ours was compared with each other.
fn all(voters: &[&Member], sums: &BTreeMap<String, Hash>) -> bool {
    let ours = voters.iter().filter_map(|member| member.pod.as_ref());
    let mut kinds = ours.map(|name| sums.get(name).map(|hash| (hash.revision, hash.compacted)));
    let first = kinds.next().flatten();
    first.is_some() && kinds.all(|kind| kind == first)
}

impl Step<'_> {
    /// While members differ nothing is done but what mends that. One that differs from a majority that agrees is replaced.
    /// Without such a majority nobody knows who is right: who has a pod to run again gets it, and a person decides.
    pub(super) fn corrupt(&self) -> Option<Decision> {
        let (text, mending) = match compare(&self.health.voters, &self.seen.hashes) {
            Comparison::Same if has_alarm(self.seen, "CORRUPT") => {
                let text = "a member reports corrupt data (alarm CORRUPT), and the sums over the data of the members do not tell \
                            which; compare them with `etcdctl endpoint hashkv`, and disarm the alarm with `etcdctl alarm disarm` \
                            when the member that differs is gone";
                (text.to_owned(), self.bring_back())
            }
            Comparison::Same if self.seen.told_corrupt => {
                let text = "the members did not hold the same data before the operator was started, and could not be compared since";
                (text.to_owned(), self.bring_back())
            }
            Comparison::Same => return None,
            Comparison::NoMajority => {
                let text = "the members do not hold the same data, and no majority of them agrees: nothing is changed. Look with \
                            `etcdctl endpoint hashkv`, and restore a backup (EtcdRestore)";
                (text.to_owned(), self.bring_back())
            }
            Comparison::Differ(corrupt) => {
                let names: Vec<String> = corrupt.iter().map(|(member, _)| member.label()).collect();
                let text = format!(
                    "the data of {} is not that of the majority, which agrees: it is replaced when the others are healthy",
                    names.join(" and of ")
                );
                (text, self.mend(&corrupt))
            }
        };
        Some(match mending {
            Some(decision) => {
                let message = format!("{text}; {}", decision.message);
                Decision { blocked: Some(BLOCKED), message, ..decision }
            }
            None => Decision::blocked(Progress::Stuck, BLOCKED, text),
        })
    }

    /// Those who differ go, one by one; and what keeps them from going is seen to.
    fn mend(&self, corrupt: &[(&Member, Hash)]) -> Option<Decision> {
        let ids: Vec<u64> = corrupt.iter().map(|(member, _)| member.id).collect();
        self.replace_corrupt(corrupt, &ids)
            .or_else(|| self.leftover_pod())
            .or_else(|| self.leftover_claim())
            .or_else(|| self.bring_back())
            .or_else(|| self.upgrade_unhealthy())
            .or_else(|| self.dead_voter(&ids))
            .or_else(|| self.stalled())
    }

    /// Members that have their data run again, and lose it to nobody.
    fn bring_back(&self) -> Option<Decision> {
        self.seal().or_else(|| self.terminating()).or_else(|| self.missing_pod())
    }

    fn replace_corrupt(&self, corrupt: &[(&Member, Hash)], ids: &[u64]) -> Option<Decision> {
        // One that is away is the first, or it would be in the way of the others.
        let (member, hash) = corrupt.iter().min_by_key(|(member, _)| self.health.is_healthy(member.id))?;
        // Those who remain must be able to decide, and be healthy, but for others that are corrupt too.
        let others_missing = self.health.unhealthy.iter().any(|m| m.id != member.id);
        if others_missing || self.left_without(member) < quorum(self.voters() - 1) {
            return None;
        }
        let why = format!(
            "its data has the sum {:08x} at revision {}, that of the majority another",
            hash.hash, hash.revision
        );
        let text = format!("member {} is replaced", member.label());
        Some(self.remove(Progress::Healing, member, Removal::Corrupt(why), text, ids))
    }
}
