//! The candidates that were not chosen, each with its reason.

use std::collections::HashMap;

use olm_constraint::Constraint;
use olm_version::{Version, precedence};

use crate::candidates::{Candidate, Candidates, contains, is_skip_version};
use crate::code::Code;
use crate::context::patch;
use crate::exclude::Excluded;
use crate::explain::Fix;
use crate::need::{needs_of, to_need};
use crate::request::Request;
use crate::resolution::Rejected;
use crate::solve::Choice;
use crate::universe::Bundle;
use crate::why::Why;

/// Everything of the package that is newer than what was chosen, and everything that the request allowed; newest first.
pub(crate) fn rejected<'a>(
    request: &Request,
    list: &Candidates<'a>,
    chosen: Option<&Candidate<'a>>,
    choices: &[Choice<'a>],
    why: &mut Why<'a, '_>,
) -> Vec<Rejected> {
    let chosen_name = chosen.map(|c| c.place.bundle.name.as_str());
    let installed = request.installed.as_ref().map(|i| i.name.as_str());
    let version = match chosen {
        Some(candidate) => candidate.place.bundle.version.clone(),
        None => request.installed.as_ref().and_then(|i| i.version.clone()),
    };
    let rank = chosen.and_then(|c| list.allowed.iter().position(|o| o.place.key() == c.place.key()));
    let places: HashMap<&str, usize> =
        list.allowed.iter().enumerate().map(|(at, c)| (c.place.bundle.name.as_str(), at)).collect();
    let excluded: HashMap<&str, &Excluded> =
        list.excluded.iter().map(|(place, reason)| (place.bundle.name.as_str(), reason)).collect();
    list.package
        .newest()
        .iter()
        .map(|place| &list.package.bundles()[*place as usize])
        .filter(|b| Some(b.name.as_str()) != chosen_name && Some(b.name.as_str()) != installed)
        .filter_map(|bundle| {
            let allowed = places.get(bundle.name.as_str()).copied();
            let excluded = excluded.get(bundle.name.as_str());
            let (code, text, fix) = match (allowed, excluded) {
                (Some(at), _) if rank.is_some_and(|rank| at > rank) => {
                    let better = chosen_name.unwrap_or_default();
                    (Code::Older, format!("{better} comes before it in the order of the channel"), None)
                }
                (Some(at), _) => lost(&list.allowed[at], choices, why),
                (None, Some(reason)) => (reason.code, reason.text.clone(), reason.fix.clone()),
                (None, None) if newer(bundle.version.as_ref(), version.as_ref()) => {
                    unwanted(request, list, bundle)
                }
                (None, None) => return None,
            };
            let channels = list.package.channels().iter();
            let channels = channels.filter(|channel| contains(list.package, channel, &bundle.name));
            Some(Rejected {
                name: bundle.name.clone(),
                version: bundle.version.clone(),
                channels: channels.map(|c| c.name.clone()).collect(),
                code,
                text,
                fix,
            })
        })
        .collect()
}

type Reason = (Code, String, Option<Fix>);

/// The request allowed it, but what it needs could not be had.
fn lost<'a>(candidate: &Candidate<'a>, choices: &[Choice<'a>], why: &mut Why<'a, '_>) -> Reason {
    if let Some(unmet) = why.unmet(candidate.place) {
        let fix = why.fixes(&unmet).into_iter().next();
        return (Code::DependencyUnsatisfied, format!("{}: {}", unmet.text, unmet.node.text), fix);
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
        return (Code::ApiOwnedBy, format!("it provides {gvk}, which {owner} gets to own"), None);
    }
    let text = match wants_another(candidate, choices) {
        Some((who, need)) => format!("{who}, which is wanted too, needs {}", to_need(need)),
        None => "it cannot be had together with what else is wanted or installed".into(),
    };
    (Code::RequestsConflict, text, None)
}

/// A bundle that was chosen, and a need of it that the chosen version of the candidate's package meets and the candidate
/// does not.
fn wants_another<'a>(candidate: &Candidate<'a>, choices: &[Choice<'a>]) -> Option<(&'a str, &'a Constraint)> {
    let package = candidate.place.package;
    let bundles = choices.iter().filter_map(|choice| match choice {
        Choice::Bundle(place) => Some(*place),
        Choice::Installed(_) => None,
    });
    let chosen = bundles.clone().find(|place| place.package == package)?.bundle.subject(package);
    let subject = candidate.place.bundle.subject(package);
    bundles.filter(|place| place.package != package).find_map(|place| {
        let needs = needs_of(place.package, place.bundle).into_iter();
        let mut needs = needs.filter(|need| need.met_by(&chosen) && !need.met_by(&subject));
        Some((place.bundle.name.as_str(), needs.next()?))
    })
}

/// The request did not allow it.
fn unwanted(request: &Request, list: &Candidates<'_>, bundle: &Bundle) -> Reason {
    let inside = list.channels.iter().find(|channel| contains(list.package, channel, &bundle.name));
    let Some(channel) = inside else {
        let others: Vec<&str> = list
            .package
            .channels()
            .iter()
            .filter(|channel| contains(list.package, channel, &bundle.name))
            .map(|channel| channel.name.as_str())
            .collect();
        let Some(other) = others.first() else {
            return (Code::NotInChannel, "it is in no channel".into(), None);
        };
        let plural = if others.len() == 1 { "channel" } else { "channels" };
        let fix = Fix {
            text: format!("follow channel {other}"),
            command: patch(request, "channel", &format!("\"{other}\"")),
        };
        return (Code::NotInChannel, format!("it is only in {plural} {}", others.join(", ")), Some(fix));
    };
    if is_skip_version(request, bundle) {
        let fix = Fix { text: "skip no versions".into(), command: patch(request, "skipVersions", "[]") };
        return (Code::SkipVersions, "skipVersions lists it".into(), Some(fix));
    }
    if let Some(wish) = &request.version
        && !bundle.version.as_ref().is_some_and(|v| wish.allows(v))
    {
        let what = if wish.pin().is_some() { "the pin" } else { "the range" };
        let fix = Fix { text: "ask for no version".into(), command: patch(request, "version", "null") };
        return (Code::Pinned, format!("{what} {} does not allow it", wish.source()), Some(fix));
    }
    if let (Some(starting), None) = (&request.starting_csv, &request.installed) {
        return (Code::Pinned, format!("startingCSV asks for {starting}"), None);
    }
    let skipped = list.package.graph(channel).and_then(|graph| graph.skipped_by(channel, &bundle.name));
    if let Some(by) = skipped {
        return (Code::Skipped, format!("{} skips it in channel {}", by.name, channel.name), None);
    }
    match &request.installed {
        Some(installed) => (
            Code::NoUpgradeEdge,
            format!(
                "no replaces, skips or skipRange in channel {} leads to it from {}",
                channel.name, installed.name
            ),
            None,
        ),
        None => (Code::Skipped, format!("it is not on the chain of channel {}", channel.name), None),
    }
}

/// Whether the first version is newer than the second one.
fn newer(a: Option<&Version>, b: Option<&Version>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => precedence(a, b).is_gt(),
        (a, b) => a.is_some() && b.is_none(),
    }
}
