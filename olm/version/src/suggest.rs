//! The nearest names for an unknown one.

/// Up to `max` of `candidates` that `name` was probably meant to be, nearest first.
///
/// A candidate qualifies when at most a third of the letters differ, or when one name contains the other.
/// Case is ignored. Equal candidates are named once.
///
/// ```
/// let names = ["etcd", "etcd-backup", "redis"];
/// assert_eq!(olm_version::suggest("ectd", names, 3), ["etcd"]);
/// assert_eq!(olm_version::suggest("backup", names, 3), ["etcd-backup"]);
/// ```
pub fn suggest<I, S>(name: &str, candidates: I, max: usize) -> Vec<String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<str>,
{
    let wanted = name.trim().to_lowercase();
    if wanted.is_empty() || max == 0 {
        return Vec::new();
    }
    let mut ranked: Vec<(usize, String)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            rank(&wanted, candidate.as_ref()).map(|rank| (rank, candidate.as_ref().to_owned()))
        })
        .collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().take(max).map(|(_, name)| name).collect()
}

/// Lower is nearer; `None` when the names are unrelated.
fn rank(wanted: &str, candidate: &str) -> Option<usize> {
    let candidate = candidate.to_lowercase();
    if candidate.is_empty() {
        return None;
    }
    let longest = wanted.chars().count().max(candidate.chars().count());
    let allowed = (longest / 3).max(1);
    let edits = distance(wanted, &candidate);
    if edits <= allowed {
        return Some(edits);
    }
    // Containment ranks behind every typing error of the whole name. Two letters match too much.
    let contained = wanted.chars().count() >= 3 && candidate.contains(wanted)
        || candidate.chars().count() >= 3 && wanted.contains(&candidate);
    contained.then_some(100 + edits)
}

/// Number of inserted, deleted, replaced or swapped neighbouring letters between two names.
#[must_use]
pub fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = Vec::with_capacity(right.len() + 1);
        row.push(i + 1);
        for (j, b) in right.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nearest_first_and_nothing_far() {
        let names = ["stable", "alpha", "beta", "stable-v1", "singlenamespace-alpha"];
        assert_eq!(suggest("stabel", names, 2), ["stable"]);
        assert_eq!(suggest("alpa", names, 3), ["alpha"]);
        assert_eq!(suggest("alpha", names, 3), ["alpha", "singlenamespace-alpha"]);
        assert_eq!(suggest("zzzz", names, 3), Vec::<String>::new());
        assert_eq!(suggest("", names, 3), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn distance_is_a_metric_in_the_small(a in "[a-d]{0,6}", b in "[a-d]{0,6}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
            prop_assert!(distance(&a, &b) <= a.len().max(b.len()));
        }
    }
}
