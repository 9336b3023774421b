//! The rejected candidates, each with its reason.

use std::cell::LazyCell;
use std::collections::HashMap;

use olm_constraint::Constraint;
use olm_version::{Version, precedence};

use crate::bundle::{Bundle, Channel};
use crate::candidates::Candidates;
use crate::code::Code;
use crate::context::{clear_skip_versions, name_of, namespace_of, set_channel};
use crate::explain::Fix;
use crate::need::to_need;
use crate::request::{InstalledRef, Request};
use crate::resolution::Rejected;
use crate::selection::{Candidate, direct, is_skip_version, walk};
use crate::solve::Choice;
use crate::why::Why;

/// Maximum number of listed bundles after the chosen one; a package has hundreds.
const OLDER: usize = 10;

/// All bundles of the package that are newer than the choice, all that the request would prefer, and the
/// first of those after it; newest first.
pub(crate) fn rejected<'a>(
    request: &Request,
    list: &Candidates<'a>,
    chosen: Option<&Candidate<'a>>,
    choices: &[Choice<'a>],
    why: &mut Why<'a, '_>,
) -> Vec<Rejected> {
    let package = list.package;
    let chosen_name = chosen.map(|c| c.place.bundle.name.as_str());
    let installed = request.installed.as_ref().map(|i| i.name.as_str());
    let version = match chosen {
        Some(candidate) => candidate.place.bundle.version.as_ref(),
        None => request.installed.as_ref().and_then(|i| i.version.as_ref()),
    };
    let rank = chosen.and_then(|c| list.allowed.iter().position(|o| o.place.key() == c.place.key()));
    let last = rank.map_or(list.allowed.len(), |rank| rank + 1 + OLDER).min(list.allowed.len());
    let mut reasons: Vec<Option<Reason>> = vec![None; package.bundles().len()];
    let mut known = vec![false; package.bundles().len()];
    for (at, candidate) in list.allowed.iter().enumerate() {
        known[candidate.place.at as usize] = true;
        if at < last && Some(at) != rank {
            reasons[candidate.place.at as usize] = Some(match rank {
                Some(rank) if at > rank => {
                    let better = chosen_name.unwrap_or_default();
                    (Code::Older, format!("{better} is higher in the channel order"), None)
                }
                _ => lost(candidate, choices, why),
            });
        }
    }
    for (place, reason) in &list.excluded {
        known[place.at as usize] = true;
        reasons[place.at as usize] = Some((reason.code, reason.text.clone(), reason.fix.clone()));
    }
    let later = LazyCell::new(|| later_hops(request, list, chosen));
    let mut rejected = Vec::new();
    for &at in package.newest() {
        let bundle = &package.bundles()[at as usize];
        let here = Some(bundle.name.as_str());
        if here == chosen_name || here == installed {
            continue;
        }
        let mut reason = reasons[at as usize].take();
        if !known[at as usize] && newer(bundle.version.as_ref(), version) {
            reason = Some(unwanted(request, list, bundle, at, |name| later.get(name).copied()));
        }
        let Some((code, text, fix)) = reason else { continue };
        rejected.push(Rejected {
            name: bundle.name.clone(),
            version: bundle.version.clone(),
            channels: package.channels_of(at).map(|channel| channel.name.clone()).collect(),
            code,
            text,
            fix,
        });
    }
    rejected
}

type Reason = (Code, String, Option<Fix>);

/// Allowed by the request, but a requirement is unavailable.
fn lost<'a>(candidate: &Candidate<'a>, choices: &[Choice<'a>], why: &mut Why<'a, '_>) -> Reason {
    if let Some(unmet) = why.unmet(candidate.place) {
        let fix = why.fixes(&unmet).into_iter().next();
        return (Code::DependencyUnsatisfied, unmet.line(), fix);
    }
    let other = choices.iter().find_map(|choice| match choice {
        Choice::Bundle(place) if place.package != candidate.place.package => {
            let shared =
                candidate.place.bundle.provides.iter().filter(|g| place.bundle.provides.contains(g)).min()?;
            Some((shared, place.bundle.name.as_str()))
        }
        _ => None,
    });
    if let Some((gvk, owner)) = other {
        return (Code::ApiOwnedBy, format!("it provides {gvk}, which {owner} will own"), None);
    }
    let text = match wants_another(candidate, choices) {
        Some((who, need)) => format!("{who}, also requested, requires {}", to_need(need)),
        None => "it conflicts with other requested or installed operators".into(),
    };
    (Code::RequestsConflict, text, None)
}

/// A chosen bundle, and a requirement of it that the chosen version of the candidate's package meets and the
/// candidate does not.
fn wants_another<'a>(candidate: &Candidate<'a>, choices: &[Choice<'a>]) -> Option<(&'a str, &'a Constraint)> {
    let package = candidate.place.package;
    let bundles = choices.iter().filter_map(|choice| match choice {
        Choice::Bundle(place) => Some(*place),
        Choice::Installed(_) => None,
    });
    let chosen = bundles.clone().find(|place| place.package == package)?.bundle.subject(package);
    let subject = candidate.place.bundle.subject(package);
    bundles.filter(|place| place.package != package).find_map(|place| {
        let needs = place.needs().into_iter();
        let mut needs = needs.filter(|need| need.met_by(&chosen) && !need.met_by(&subject));
        Some((place.bundle.name.as_str(), needs.next()?))
    })
}

/// Not allowed by the request.
fn unwanted<'a>(
    request: &Request,
    list: &Candidates<'_>,
    bundle: &Bundle,
    at: u32,
    first_hop_to: impl Fn(&str) -> Option<&'a str>,
) -> Reason {
    let own = |channel: &&&Channel| list.package.channels_of(at).any(|own| std::ptr::eq(own, **channel));
    let Some(channel) = list.channels.iter().find(own) else {
        let others: Vec<&str> = list.package.channels_of(at).map(|channel| channel.name.as_str()).collect();
        let Some(other) = others.first() else {
            return (Code::NotInChannel, "it is in no channel".into(), None);
        };
        let plural = if others.len() == 1 { "channel" } else { "channels" };
        let fix = Fix { text: format!("switch to channel {other}"), command: set_channel(request, other) };
        return (Code::NotInChannel, format!("it is only in {plural} {}", others.join(", ")), Some(fix));
    };
    if is_skip_version(request, bundle) {
        return (Code::SkipVersions, "excluded by skipVersions".into(), Some(clear_skip_versions(request)));
    }
    if let Some(wanted) = &request.version
        && !bundle.version.as_ref().is_some_and(|v| wanted.allows(v))
    {
        let what = if wanted.pin().is_some() { "the pin" } else { "the range" };
        let command = format!("olm unpin {} -n {}", name_of(request), namespace_of(request));
        let fix = Fix { text: "unset spec.version".into(), command };
        return (Code::Pinned, format!("excluded by {what} {}", wanted.source()), Some(fix));
    }
    if let (Some(starting), None) = (&request.starting_csv, &request.installed) {
        return (Code::Pinned, format!("startingCSV requests {starting}"), None);
    }
    let skipped = list.package.graph(channel).and_then(|graph| graph.skipped_by(channel, &bundle.name));
    if let Some(by) = skipped {
        return (Code::Skipped, format!("{} skips it in channel {}", by.name, channel.name), None);
    }
    match &request.installed {
        Some(installed) => match first_hop_to(&bundle.name) {
            Some(first) => (Code::LaterHop, format!("reachable in a later upgrade, after {first}"), None),
            None => (
                Code::NoUpgradeEdge,
                format!(
                    "no upgrade path (replaces, skips, skipRange) in channel {} leads to it from {}",
                    channel.name, installed.name
                ),
                None,
            ),
        },
        None => (Code::Skipped, format!("it is not on the upgrade chain of channel {}", channel.name), None),
    }
}

/// The bundles that the edges lead to in any number of hops, each with the first hop of its path: the chosen
/// bundle where that leads to it.
fn later_hops<'a>(
    request: &Request,
    list: &Candidates<'a>,
    chosen: Option<&Candidate<'a>>,
) -> HashMap<&'a str, &'a str> {
    let mut found = HashMap::new();
    let Some(installed) = &request.installed else { return found };
    let next = |at: &InstalledRef| {
        let mut next = direct(list.catalog, list.package, &list.channels, at);
        next.sort_by_key(|hop| chosen.is_none_or(|chosen| chosen.place.key() != hop.place.key()));
        next
    };
    walk(installed, next, |first, bundle| {
        found.insert(bundle.name.as_str(), first.place.bundle.name.as_str());
        false
    });
    found
}

/// Whether the first version is newer than the second one.
fn newer(a: Option<&Version>, b: Option<&Version>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => precedence(a, b).is_gt(),
        (a, b) => a.is_some() && b.is_none(),
    }
}
