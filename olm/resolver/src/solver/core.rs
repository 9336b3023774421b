//! Minimizes contradictions.

use std::collections::BTreeSet;

use super::Tag;
use super::engine::{Outcome, World, search};

/// Budget of one attempt to leave a rule out. A rule whose removal is not decided within it stays.
const ATTEMPT: u64 = 1_000_000;

/// The largest contradiction that is minimized; a larger one is reported as found.
const LARGEST: usize = 400;

/// Leaves out rule after rule, as long as the rest still contradict each other.
pub(crate) fn minimal(world: &mut impl World, tags: Vec<Tag>, budget: &mut u64) -> Vec<Tag> {
    let mut kept: BTreeSet<Tag> = tags.into_iter().collect();
    if kept.len() > LARGEST {
        return kept.into_iter().collect();
    }
    let mut needed: BTreeSet<Tag> = BTreeSet::new();
    while let Some(tag) = kept.difference(&needed).next().copied() {
        let without = |other: Tag| other != tag && kept.contains(&other);
        match attempt(world, budget, &without) {
            // usually far more rules are dropped than the one that was tried
            Outcome::Contradiction(rest) => kept = rest.into_iter().collect(),
            Outcome::Selected(_) | Outcome::GaveUp { .. } => drop(needed.insert(tag)),
        }
    }
    kept.into_iter().collect()
}

/// A contradiction between a minimal subset of some rules, with all others in force: each of them is left out
/// as long as the rest still contradict.
pub(crate) fn fewest(
    world: &mut impl World,
    tags: Vec<Tag>,
    some: &BTreeSet<Tag>,
    budget: &mut u64,
) -> Vec<Tag> {
    let mut found = tags;
    let mut needed: BTreeSet<Tag> = BTreeSet::new();
    loop {
        let kept: BTreeSet<Tag> = found.iter().copied().filter(|tag| some.contains(tag)).collect();
        let Some(tag) = kept.difference(&needed).next().copied() else { return found };
        let without = |other: Tag| !some.contains(&other) || other != tag && kept.contains(&other);
        match attempt(world, budget, &without) {
            Outcome::Contradiction(rest) => found = rest,
            Outcome::Selected(_) | Outcome::GaveUp { .. } => drop(needed.insert(tag)),
        }
    }
}

fn attempt(world: &mut impl World, budget: &mut u64, keep: &dyn Fn(Tag) -> bool) -> Outcome {
    let mut most = ATTEMPT.min(*budget);
    let before = most;
    let outcome = search(world, &mut most, keep);
    *budget -= before - most;
    outcome
}
