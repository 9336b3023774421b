//! Members whose data is not that of the others.

use std::collections::BTreeMap;

use super::{Decision, Progress, Removal, Step, has_alarm};
use crate::observed::{Hash, Member, quorum};

/// What a comparison of sums says.
enum Comparison<'a> {
    /// Nothing to compare, or all the same.
    Same,
    /// A majority agrees, these do not.
    Differ(Vec<(&'a Member, Hash)>),
    /// There is no majority to believe.
    NoMajority,
}

impl Step<'_> {
    /// A member that differs from a majority that agrees is replaced. Without such a majority nobody knows who is right.
    pub(super) fn corrupt(&self) -> Option<Decision> {
        match self.compare() {
            Comparison::Same if has_alarm(self.seen, "CORRUPT") => {
                let text = "a member reports corrupt data (alarm CORRUPT), and the sums over the data of the members do not tell \
                            which; compare them with `etcdctl endpoint hashkv`, and disarm the alarm with `etcdctl alarm disarm` \
                            when the member that differs is gone";
                Some(Decision::blocked(Progress::Stuck, "Corrupt", text))
            }
            Comparison::Same => None,
            Comparison::NoMajority => {
                let text = "the members do not hold the same data, and no majority of them agrees: nothing is changed. Look with \
                            `etcdctl endpoint hashkv`, and restore a backup (EtcdRestore)";
                Some(Decision::blocked(Progress::Stuck, "Corrupt", text))
            }
            Comparison::Differ(members) => self.replace_corrupt(&members),
        }
    }

    fn replace_corrupt(&self, corrupt: &[(&Member, Hash)]) -> Option<Decision> {
        let (member, hash) = corrupt.first()?;
        let name = member.label();
        let why = format!(
            "its data has the sum {:08x} at revision {}, that of the majority another",
            hash.hash, hash.revision
        );
        // Those who remain must be able to decide, and be healthy, but for others that are corrupt too.
        let others_missing = self.health.unhealthy.iter().any(|m| m.id != member.id);
        if others_missing || self.voters() < 3 || self.left_without(member) < quorum(self.voters() - 1) {
            let text =
                format!("member {name} is corrupt ({why}); it is replaced when the others are healthy");
            return Some(Decision::blocked(Progress::Stuck, "Corrupt", text));
        }
        let avoid: Vec<u64> = corrupt.iter().map(|(m, _)| m.id).collect();
        let text = format!("member {name} is corrupt: {why}");
        Some(self.remove(Progress::Healing, member, Removal::Corrupt(why), text, &avoid))
    }

    fn compare(&self) -> Comparison<'_> {
        // Only sums of the same revision and the same compaction can be compared.
        let mut groups: BTreeMap<(i64, i64), Vec<(&Member, Hash)>> = BTreeMap::new();
        for member in &self.health.voters {
            if let Some(hash) = member.pod.as_ref().and_then(|name| self.seen.hashes.get(name)) {
                groups.entry((hash.revision, hash.compacted)).or_default().push((member, *hash));
            }
        }
        let Some(group) = groups.into_values().max_by_key(Vec::len) else { return Comparison::Same };
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, hash) in &group {
            *counts.entry(hash.hash).or_default() += 1;
        }
        if counts.len() < 2 {
            return Comparison::Same;
        }
        match counts.into_iter().find(|(_, count)| *count >= quorum(self.voters())) {
            Some((right, _)) => {
                Comparison::Differ(group.into_iter().filter(|(_, hash)| hash.hash != right).collect())
            }
            None => Comparison::NoMajority,
        }
    }
}
