//! The outcome for one request, with reasons and dependencies.

use std::collections::BTreeSet;

use olm_constraint::Constraint;

use crate::bundle::CatalogRef;
use crate::candidates::Candidates;
use crate::context::Context;
use crate::need::to_need;
use crate::path;
use crate::place::{Place, ordered_places};
use crate::rejected::rejected;
use crate::request::Request;
use crate::resolution::{Action, ChosenBundle, Dependency, HopVia, Resolved, SatisfiedBy};
use crate::selection::{Candidate, channels_text, contains};
use crate::solve::Choice;
use crate::why::Why;

/// The outcome of the solution for one request.
pub(crate) fn resolved<'a>(
    ctx: &Context<'a>,
    index: usize,
    list: &Candidates<'a>,
    choices: &[Choice<'a>],
) -> Resolved {
    let request = ctx.requests[index];
    let chosen = choices.iter().find_map(|choice| match choice {
        Choice::Bundle(place) if place.package == request.package => {
            list.allowed.iter().find(|c| c.place.key() == place.key())
        }
        _ => None,
    });
    let (action, bundle, why) = match chosen {
        Some(candidate) => {
            let action = if request.installed.is_some() { Action::Upgrade } else { Action::Install };
            (action, chosen_bundle(candidate.place), why_text(request, list, candidate))
        }
        None => (Action::None, installed_bundle(request, list), stays_text(request, list)),
    };
    Resolved {
        subscription: request.subscription.clone(),
        action,
        path: path::path(ctx, request, chosen),
        rejected: rejected(request, list, chosen, choices, &mut Why::new(ctx)),
        dependencies: dependencies(ctx, index, chosen, choices),
        deprecations: deprecations(request, list, &bundle),
        from: request.installed.clone(),
        chosen: bundle,
        why,
    }
}

fn chosen_bundle(place: Place<'_>) -> ChosenBundle {
    ChosenBundle {
        catalog: place.catalog.clone(),
        package: place.package.to_owned(),
        channel: place.channel.to_owned(),
        name: place.bundle.name.clone(),
        version: place.bundle.version.clone(),
    }
}

/// The installed bundle, as far as the catalog has it.
fn installed_bundle(request: &Request, list: &Candidates<'_>) -> ChosenBundle {
    let installed = request.installed.clone().unwrap_or_default();
    let channel = list.channels.iter().find(|channel| contains(list.package, channel, &installed.name));
    ChosenBundle {
        catalog: request.catalog.clone(),
        package: request.package.clone(),
        channel: channel.map(|c| c.name.clone()).or_else(|| request.channel.clone()).unwrap_or_default(),
        version: installed.version.clone().or_else(|| list.package.bundle(&installed.name)?.version.clone()),
        name: installed.name,
    }
}

fn why_text(request: &Request, list: &Candidates<'_>, chosen: &Candidate<'_>) -> String {
    let channel = chosen.place.channel;
    let from = request.installed.as_ref().map_or("", |i| i.name.as_str());
    if chosen.on_the_way {
        let wanted = request.version.as_ref().map_or("", |w| w.source());
        return format!("first hop from {from} towards version {wanted} in channel {channel}");
    }
    let base = match chosen.via {
        HopVia::Install if request.starting_csv.is_some() => {
            format!("requested by startingCSV (channel {channel})")
        }
        HopVia::Install => match &request.version {
            Some(wanted) => format!("highest in channel {channel} that matches version {}", wanted.source()),
            None => format!("highest installable version in channel {channel}"),
        },
        HopVia::Replaces => format!("it replaces {from} in channel {channel}"),
        HopVia::Skips => format!("it skips {from} in channel {channel}"),
        HopVia::SkipRange => format!("its skipRange covers {from} in channel {channel}"),
        HopVia::SelfCertified => {
            format!("requested outside the catalog's edges (SelfCertified), channel {channel}")
        }
    };
    let better = list.allowed.iter().position(|c| c.place.key() == chosen.place.key()).unwrap_or(0);
    if better == 0 { base } else { format!("{base}; higher versions have unsatisfied dependencies") }
}

fn stays_text(request: &Request, list: &Candidates<'_>) -> String {
    let from = request.installed.as_ref().map_or("", |i| i.name.as_str());
    if list.allowed.is_empty() && list.excluded.is_empty() {
        let place = channels_text(request, list.package);
        if list.package.bundle(from).is_none() {
            return format!(
                "{from} is installed and not in catalog {}, and no upgrade from it exists in {place}",
                request.catalog
            );
        }
        format!("{from} is installed and no allowed upgrade exists in {place}")
    } else {
        format!("{from} is installed and newer versions are not installable")
    }
}

fn deprecations(request: &Request, list: &Candidates<'_>, chosen: &ChosenBundle) -> Vec<String> {
    let mut texts = Vec::new();
    if let Some(text) = &list.package.deprecated {
        texts.push(format!("olm.package/{}: {text}", list.package.name));
    }
    let channel = request.channel.as_deref().and_then(|name| list.package.channel(name));
    if let Some((channel, text)) = channel.and_then(|c| Some((c, c.deprecated.as_ref()?))) {
        texts.push(format!("olm.channel/{}: {text}", channel.name));
    }
    if let Some(text) = list.package.bundle(&chosen.name).and_then(|b| b.deprecated.as_ref()) {
        texts.push(format!("olm.bundle/{}: {text}", chosen.name));
    }
    texts
}

/// Direct and indirect dependencies of the chosen bundle, in the order of discovery.
fn dependencies<'a>(
    ctx: &Context<'a>,
    index: usize,
    chosen: Option<&Candidate<'a>>,
    choices: &[Choice<'a>],
) -> Vec<Dependency> {
    let mut list = Vec::new();
    let mut seen: BTreeSet<(&CatalogRef, &str, &str)> = BTreeSet::new();
    let mut queue: Vec<(&str, &CatalogRef, Vec<_>)> = Vec::new();
    match (chosen, ctx.tied[index]) {
        (Some(candidate), _) => {
            let place = candidate.place;
            queue.push((&place.bundle.name, place.catalog, place.needs()));
        }
        (None, Some(installed)) => {
            queue.push((&installed.name, &ctx.requests[index].catalog, installed.needs()));
        }
        (None, None) => {}
    }
    while let Some((name, catalog, needs)) = queue.pop() {
        for need in needs {
            let by = ctx.present(need).or_else(|| match met_by(ctx, need, catalog, choices)? {
                Choice::Installed(request) => {
                    let installed = ctx.tied[request]?;
                    let (name, namespace) = (installed.name.clone(), installed.namespace.clone());
                    Some(SatisfiedBy::Installed { name, namespace })
                }
                Choice::Bundle(place) => {
                    let bundle = place.bundle;
                    if let Some(request) = ctx.met_request(place.package) {
                        let subscription = request.subscription.clone();
                        return Some(SatisfiedBy::Request { subscription, name: bundle.name.clone() });
                    }
                    if seen.insert(place.key()) {
                        queue.push((&bundle.name, place.catalog, place.needs()));
                    }
                    Some(SatisfiedBy::Install(chosen_bundle(with_channel(ctx, place))))
                }
            });
            if let Some(satisfied_by) = by {
                list.push(Dependency { need: to_need(need), required_by: name.to_owned(), satisfied_by });
            }
        }
    }
    list.sort_by(|a, b| (&a.required_by, &a.need).cmp(&(&b.required_by, &b.need)));
    list
}

/// The choice that meets a requirement: the best of the search's alternatives for it.
fn met_by<'a>(
    ctx: &Context<'a>,
    need: &Constraint,
    parent: &CatalogRef,
    choices: &[Choice<'a>],
) -> Option<Choice<'a>> {
    let meets = |choice: &Choice<'a>| match choice {
        Choice::Installed(at) => ctx.tied_meets(*at, need),
        Choice::Bundle(place) => need.met_by(&place.bundle.subject(place.package)),
    };
    let meeting: Vec<Choice<'a>> = choices.iter().copied().filter(meets).collect();
    let place_of = |choice: &Choice<'a>| match choice {
        Choice::Installed(_) => None,
        Choice::Bundle(place) => Some(place.key()),
    };
    match meeting.as_slice() {
        [] | [_] => meeting.first().copied(),
        several => {
            let operator = several.iter().find(|choice| place_of(choice).is_none());
            let best = || {
                let providers = ctx.providers(need, parent);
                let mut keys = providers.iter().map(|(place, _)| place.key());
                keys.find_map(|key| several.iter().find(|choice| place_of(choice) == Some(key)))
            };
            operator.or_else(best).or(several.first()).copied()
        }
    }
}

/// The first channel, the default one before the others, that has the bundle in its order.
fn with_channel<'a>(ctx: &Context<'a>, place: Place<'a>) -> Place<'a> {
    let Some(package) = ctx.universe.package(place.catalog, place.package) else { return place };
    let mut channels: Vec<_> = package.channels().iter().collect();
    channels.sort_by_key(|channel| (channel.name != package.default_channel, &channel.name));
    channels
        .into_iter()
        .flat_map(|channel| ordered_places(place.catalog, package, channel))
        .find(|p| p.bundle.name == place.bundle.name)
        .unwrap_or(place)
}
