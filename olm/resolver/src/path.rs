//! The upgrade path from the installed version to the newest reachable one, hop by hop.

use std::collections::{BTreeSet, VecDeque};

use crate::candidates::{Candidate, candidates, reference};
use crate::context::Context;
use crate::request::{InstalledRef, Request};
use crate::resolution::Hop;
use crate::universe::Bundle;

/// Longer than any real chain; bounds a cycle of skipRanges.
const LONGEST: usize = 300;

/// The consecutive hops, the chosen one first. Dependencies of later hops are ignored: they are resolved when
/// their turn comes.
pub(crate) fn path<'a>(ctx: &Context<'a>, request: &Request, chosen: Option<&Candidate<'a>>) -> Vec<Hop> {
    let Some(first) = chosen else { return Vec::new() };
    let mut hops = vec![hop(first)];
    let mut seen: BTreeSet<&str> = request.installed.iter().map(|i| i.name.as_str()).collect();
    seen.insert(&first.place.bundle.name);
    let mut at = request.clone();
    at.installed = Some(reference(first.place.bundle));
    at.policy = crate::request::UpgradePolicy::CatalogProvided;
    while hops.len() < LONGEST {
        let Ok(next) = candidates(ctx, &at) else { break };
        let Some(next) = next.allowed.first().filter(|c| seen.insert(&c.place.bundle.name)) else { break };
        hops.push(hop(next));
        at.installed = Some(reference(next.place.bundle));
    }
    hops
}

/// Walks the edges from the installed bundle, the fewest hops first, until `ends` accepts a bundle, which it
/// gets with the first hop of its path. `next` lists the hops from a bundle, best first.
pub(crate) fn walk<'a>(
    installed: &InstalledRef,
    next: impl Fn(&InstalledRef) -> Vec<Candidate<'a>>,
    mut ends: impl FnMut(&Candidate<'a>, &'a Bundle) -> bool,
) -> Option<Candidate<'a>> {
    let mut seen = BTreeSet::from([installed.name.clone()]);
    let mut queue: VecDeque<(Candidate<'a>, &'a Bundle)> =
        next(installed).into_iter().map(|first| (first, first.place.bundle)).collect();
    while let Some((first, bundle)) = queue.pop_front() {
        if !seen.insert(bundle.name.clone()) {
            continue;
        }
        if ends(&first, bundle) {
            return Some(first);
        }
        queue.extend(next(&reference(bundle)).into_iter().map(|next| (first, next.place.bundle)));
    }
    None
}

fn hop(candidate: &Candidate<'_>) -> Hop {
    Hop {
        name: candidate.place.bundle.name.clone(),
        version: candidate.place.bundle.version.clone(),
        channel: candidate.place.channel.to_owned(),
        via: candidate.via,
    }
}
