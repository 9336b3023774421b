//! The upgrade path from the installed version to the newest reachable one, hop by hop.

use std::collections::BTreeSet;

use crate::candidates::candidates;
use crate::context::Context;
use crate::request::{Request, UpgradePolicy};
use crate::resolution::Hop;
use crate::selection::{Candidate, reference};

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
    at.policy = UpgradePolicy::CatalogProvided;
    while hops.len() < LONGEST {
        let Ok(next) = candidates(ctx, &at) else { break };
        let Some(next) = next.allowed.first().filter(|c| seen.insert(&c.place.bundle.name)) else { break };
        hops.push(hop(next));
        at.installed = Some(reference(next.place.bundle));
    }
    hops
}

fn hop(candidate: &Candidate<'_>) -> Hop {
    Hop {
        name: candidate.place.bundle.name.clone(),
        version: candidate.place.bundle.version.clone(),
        channel: candidate.place.channel.to_owned(),
        via: candidate.via,
    }
}
