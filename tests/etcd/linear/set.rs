//! A set that only grows: elements are added one by one, and all of it is read.
//!
//! For such a set no search is needed. Adds are known from their return or from the first read with them; a
//! read must have everything known before it, nothing that was not started, and of two reads one contains the
//! other.

use std::collections::{BTreeMap, BTreeSet};

use super::{Timed, Verdict};

/// Elements that were added: each once.
pub type Add = Timed<u64>;
/// What reads returned.
pub type Read = Timed<BTreeSet<u64>>;

/// Checks adds and reads of one set that begins empty.
pub fn check(adds: &[Add], reads: &[Read]) -> Verdict {
    let added: BTreeMap<u64, &Add> = adds.iter().map(|add| (add.what, add)).collect();
    let reads: Vec<(&Read, u64)> = reads.iter().filter_map(|read| Some((read, read.returned?))).collect();
    let mut known: BTreeMap<u64, u64> =
        adds.iter().filter_map(|add| Some((add.what, add.returned?))).collect();
    for (read, returned) in &reads {
        for element in &read.what {
            let Some(add) = added.get(element) else {
                return Verdict::Wrong(format!("{element} was read and never added"));
            };
            if add.called > *returned {
                return Verdict::Wrong(format!("{element} was read before it was added"));
            }
            let since = known.entry(*element).or_insert(*returned);
            *since = (*since).min(*returned);
        }
    }
    for (read, returned) in &reads {
        let missing =
            known.iter().find(|(element, since)| **since < read.called && !read.what.contains(element));
        if let Some((element, since)) = missing {
            return Verdict::Wrong(format!(
                "{element} is known since {since} and is missing in a read from {} to {returned}",
                read.called
            ));
        }
    }
    let mut by_size: Vec<&BTreeSet<u64>> = reads.iter().map(|(read, _)| &read.what).collect();
    by_size.sort_by_key(|set| set.len());
    for pair in by_size.windows(2) {
        if let Some(element) = pair[0].difference(pair[1]).next() {
            return Verdict::Wrong(format!(
                "of two reads one has {element}, the other has others: they are not in one order"
            ));
        }
    }
    Verdict::Explained
}
