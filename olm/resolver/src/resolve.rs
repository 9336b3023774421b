//! The resolution itself.

use std::collections::{BTreeMap, BTreeSet};

use olm_version::precedence;

use crate::candidates::{Candidate, Candidates, Nothing, candidates, channels_text};
use crate::code::Code;
use crate::exclude::Context;
use crate::explain::{Explanation, Fix, Node};
use crate::facts::Facts;
use crate::need::{Place, needs_of, needs_of_installed, ordered_places};
use crate::path;
use crate::rejected::rejected;
use crate::request::Request;
use crate::resolution::{Action, ChosenBundle, Dependency, HopVia, Resolution, Resolved, SatisfiedBy};
use crate::solve::{Choice, Unsolved, solve};
use crate::universe::{CatalogRef, Universe};
use crate::why::Why;

/// How many candidates of one request an explanation shows.
const SHOWN: usize = 8;

/// Chooses a bundle for every request, with everything they need, or says why that cannot be done.
///
/// The answer does not depend on the order of catalogs, packages, entries, facts or requests.
pub fn resolve(universe: &Universe, requests: &[Request], facts: &Facts) -> Result<Resolution, Explanation> {
    let mut sorted: Vec<&Request> = requests.iter().collect();
    sorted.sort_by(|a, b| (&a.subscription, &a.package).cmp(&(&b.subscription, &b.package)));
    let ctx = Context::new(universe, &sorted, facts);

    let mut found = Vec::new();
    let mut failed = Vec::new();
    for request in &sorted {
        match candidates(&ctx, request) {
            Ok(list) if list.allowed.is_empty() && request.installed.is_none() => {
                failed.push(all_ruled_out(request, &list));
            }
            Ok(list) => found.push(list),
            Err(nothing) => failed.push(no_choice(request, nothing)),
        }
    }
    if !failed.is_empty() {
        return Err(join(failed));
    }

    let wanted: Vec<(usize, &Candidates<'_>)> = found.iter().enumerate().collect();
    let choices = match solve(&ctx, &wanted, true) {
        // an installed operator that lacks something it needs must not stand in the way of the others
        Err(Unsolved::Conflict) if sorted.iter().any(|r| r.installed.is_some()) => {
            solve(&ctx, &wanted, false)
        }
        other => other,
    };
    let choices = choices.map_err(|unsolved| explain(&ctx, &found, &unsolved))?;

    let items: BTreeMap<(&str, &str), Resolved> = found
        .iter()
        .enumerate()
        .map(|(i, list)| {
            let key = (sorted[i].subscription.as_str(), sorted[i].package.as_str());
            (key, resolved(&ctx, i, list, &choices))
        })
        .collect();
    let in_order =
        requests.iter().filter_map(|r| items.get(&(r.subscription.as_str(), r.package.as_str())).cloned());
    Ok(Resolution { items: in_order.collect() })
}

/// What the solution means for one request.
fn resolved<'a>(ctx: &Context<'a>, index: usize, list: &Candidates<'a>, choices: &[Choice<'a>]) -> Resolved {
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
    let mut why_not = Why::new(ctx);
    Resolved {
        subscription: request.subscription.clone(),
        action,
        path: path::path(ctx, request, chosen),
        rejected: rejected(request, list, chosen, choices, &mut why_not),
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

/// What is installed, as far as the catalog knows it.
fn installed_bundle(request: &Request, list: &Candidates<'_>) -> ChosenBundle {
    let installed = request.installed.clone().unwrap_or_default();
    let channel = list.channels.iter().find(|c| c.entries.iter().any(|e| e.name == installed.name));
    ChosenBundle {
        catalog: request.catalog.clone(),
        package: request.package.clone(),
        channel: channel.map(|c| c.name.clone()).or_else(|| request.channel.clone()).unwrap_or_default(),
        version: installed
            .version
            .clone()
            .or_else(|| list.package.bundles.get(&installed.name)?.version.clone()),
        name: installed.name,
    }
}

fn why_text(request: &Request, list: &Candidates<'_>, chosen: &Candidate<'_>) -> String {
    let channel = chosen.place.channel;
    let from = request.installed.as_ref().map_or("", |i| i.name.as_str());
    if chosen.on_the_way {
        let wish = request.version.as_ref().map_or("", |w| w.source());
        return format!("first hop from {from} towards version {wish} in channel {channel}");
    }
    let base = match chosen.via {
        HopVia::Install if request.starting_csv.is_some() => {
            format!("startingCSV asks for it (channel {channel})")
        }
        HopVia::Install => match &request.version {
            Some(wish) => format!("first in channel {channel} that version {} allows", wish.source()),
            None => format!("first in the order of channel {channel}"),
        },
        HopVia::Replaces => format!("it replaces {from} in channel {channel}"),
        HopVia::Skips => format!("it skips {from} in channel {channel}"),
        HopVia::SkipRange => format!("its skipRange covers {from} in channel {channel}"),
        HopVia::SelfCertified => {
            format!("asked for against the catalog's edges (SelfCertified), channel {channel}")
        }
    };
    let better = list.allowed.iter().position(|c| c.place.key() == chosen.place.key()).unwrap_or(0);
    if better == 0 { base } else { format!("{base}; what comes before it cannot have what it needs") }
}

fn stays_text(request: &Request, list: &Candidates<'_>) -> String {
    let from = request.installed.as_ref().map_or("", |i| i.name.as_str());
    if list.allowed.is_empty() && list.excluded.is_empty() {
        format!(
            "{from} is installed and nothing newer can be reached in {}",
            channels_text(request, list.package)
        )
    } else {
        format!("{from} is installed and what is newer cannot be used now")
    }
}

fn deprecations(request: &Request, list: &Candidates<'_>, chosen: &ChosenBundle) -> Vec<String> {
    let mut texts = Vec::new();
    if let Some(text) = &list.package.deprecated {
        texts.push(format!("olm.package/{}: {text}", list.package.name));
    }
    let channel = request.channel.as_deref().and_then(|name| list.package.channels.get(name));
    if let Some((channel, text)) = channel.and_then(|c| Some((c, c.deprecated.as_ref()?))) {
        texts.push(format!("olm.channel/{}: {text}", channel.name));
    }
    if let Some(text) = list.package.bundles.get(&chosen.name).and_then(|b| b.deprecated.as_ref()) {
        texts.push(format!("olm.bundle/{}: {text}", chosen.name));
    }
    texts
}

/// What the chosen bundle needs, directly and indirectly, in the order in which it is met.
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
            queue.push((&place.bundle.name, place.catalog, needs_of(place.package, place.bundle)));
        }
        (None, Some(installed)) => {
            queue.push((&installed.name, &ctx.requests[index].catalog, needs_of_installed(installed)));
        }
        (None, None) => {}
    }
    while let Some((name, _, needs)) = queue.pop() {
        for need in needs {
            let by = ctx.present(need).or_else(|| {
                choices.iter().find_map(|choice| match choice {
                    Choice::Installed(request) => {
                        let installed = ctx.tied[*request]?;
                        let package = ctx.requests[*request].package.as_str();
                        need.met_by(Some(package), installed.version.as_ref(), &installed.provides).then(
                            || SatisfiedBy::Installed {
                                name: installed.name.clone(),
                                namespace: installed.namespace.clone(),
                            },
                        )
                    }
                    Choice::Bundle(place) => {
                        let bundle = place.bundle;
                        if !need.met_by(Some(place.package), bundle.version.as_ref(), &bundle.provides) {
                            return None;
                        }
                        if let Some(other) = ctx.requests.iter().find(|r| r.package == place.package) {
                            let name = bundle.name.clone();
                            return Some(SatisfiedBy::Request {
                                subscription: other.subscription.clone(),
                                name,
                            });
                        }
                        if seen.insert((place.catalog, place.package, bundle.name.as_str())) {
                            queue.push((&bundle.name, place.catalog, needs_of(place.package, bundle)));
                        }
                        Some(SatisfiedBy::Install(chosen_bundle(with_channel(ctx, *place))))
                    }
                })
            });
            if let Some(satisfied_by) = by {
                list.push(Dependency { need: need.to_need(), required_by: name.to_owned(), satisfied_by });
            }
        }
    }
    list.sort_by(|a, b| (&a.required_by, &a.need).cmp(&(&b.required_by, &b.need)));
    list
}

/// The first channel, the default one before the others, that has the bundle in its order.
fn with_channel<'a>(ctx: &Context<'a>, place: Place<'a>) -> Place<'a> {
    let Some(package) = ctx.universe.package(place.catalog, place.package) else { return place };
    let mut channels: Vec<&String> = package.channels.keys().collect();
    channels.sort_by_key(|name| (**name != package.default_channel, *name));
    channels
        .into_iter()
        .flat_map(|channel| ordered_places(place.catalog, package, channel))
        .find(|p| p.bundle.name == place.bundle.name)
        .unwrap_or(place)
}

// ---- explanations ----

fn subject(request: &Request) -> String {
    format!("Subscription {}", request.subscription)
}

fn no_choice(request: &Request, nothing: Nothing) -> Explanation {
    Explanation {
        code: nothing.code,
        summary: format!(
            "cannot resolve {} for Subscription {}: {}",
            request.package, request.subscription, nothing.text
        ),
        nodes: vec![Node::leaf(subject(request), nothing.code, nothing.text)],
        fixes: nothing.fixes,
        nearest: nothing.nearest,
    }
}

/// Every candidate is ruled out by facts.
fn all_ruled_out(request: &Request, list: &Candidates<'_>) -> Explanation {
    let mut children: Vec<Node> = list
        .excluded
        .iter()
        .map(|(place, why)| Node::leaf(&place.bundle.name, why.code, &why.text))
        .collect();
    let skipped = list.package.bundles.values().filter(|b| crate::candidates::is_skip_version(request, b));
    children.extend(skipped.map(|b| Node::leaf(&b.name, Code::SkipVersions, "skipVersions lists it")));
    let mut fixes: Vec<Fix> = Vec::new();
    for fix in list.excluded.iter().filter_map(|(_, why)| why.fix.clone()) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    if children.iter().any(|c| c.code == Code::SkipVersions) {
        fixes.push(Fix {
            text: "skip fewer versions".into(),
            command: crate::candidates::patch(request, "skipVersions", "[]"),
        });
    }
    let code = children.first().map_or(Code::UnknownVersion, |c| c.code);
    explanation(request, list, code, children, fixes)
}

fn explanation(
    request: &Request,
    list: &Candidates<'_>,
    code: Code,
    mut children: Vec<Node>,
    fixes: Vec<Fix>,
) -> Explanation {
    let total = children.len();
    children.truncate(SHOWN);
    let place = channels_text(request, list.package);
    let text = match total {
        0 => format!("{place} of catalog {} has no bundles", request.catalog),
        1 => format!("the only candidate in {place} of catalog {} cannot be used", request.catalog),
        n if n > SHOWN => {
            format!(
                "none of {n} candidates in {place} of catalog {} can be used, the first are",
                request.catalog
            )
        }
        n => format!("none of {n} candidates in {place} of catalog {} can be used", request.catalog),
    };
    Explanation {
        code,
        summary: format!(
            "cannot resolve {} for Subscription {}: {text}",
            request.package, request.subscription
        ),
        nodes: vec![Node { subject: subject(request), code, text, children }],
        fixes,
        nearest: Vec::new(),
    }
}

/// Why the solver found nothing: every request is asked for alone; those that fail alone are to blame, and where none
/// does, the requests are in each other's way.
fn explain<'a>(ctx: &Context<'a>, found: &[Candidates<'a>], unsolved: &Unsolved) -> Explanation {
    if matches!(unsolved, Unsolved::GaveUp) {
        let subjects: Vec<String> = ctx.requests.iter().map(|r| r.subscription.clone()).collect();
        return Explanation {
            code: Code::GaveUp,
            summary: format!("the search for {} gave up within its budget", subjects.join(", ")),
            nodes: ctx
                .requests
                .iter()
                .map(|r| {
                    Node::leaf(
                        subject(r),
                        Code::GaveUp,
                        "neither a choice nor a contradiction was found in time",
                    )
                })
                .collect(),
            fixes: vec![Fix {
                text: "narrow the request".into(),
                command: "olm install PACKAGE --channel CHANNEL --version VERSION".into(),
            }],
            nearest: Vec::new(),
        };
    }
    let alone: Vec<usize> =
        (0..found.len()).filter(|i| solve(ctx, &[(*i, &found[*i])], false).is_err()).collect();
    let mut parts = Vec::new();
    for i in &alone {
        let (request, list) = (ctx.requests[*i], &found[*i]);
        let mut why = Why::new(ctx);
        let mut children = Vec::new();
        let mut fixes: Vec<Fix> = Vec::new();
        for candidate in &list.allowed {
            children.push(match why.unmet(candidate.place) {
                Some(node) => {
                    for fix in why.fixes(&node, candidate.place) {
                        if !fixes.contains(&fix) {
                            fixes.push(fix);
                        }
                    }
                    Node {
                        subject: candidate.place.bundle.name.clone(),
                        code: Code::DependencyUnsatisfied,
                        text: format!("it needs {}", node.subject),
                        children: vec![node],
                    }
                }
                None => Node::leaf(
                    &candidate.place.bundle.name,
                    Code::RequestsConflict,
                    "what it needs cannot be had together: two bundles own the same API, or two versions of a package are needed",
                ),
            });
        }
        children.extend(list.excluded.iter().map(|(p, why)| Node::leaf(&p.bundle.name, why.code, &why.text)));
        let code = children.first().map_or(Code::DependencyUnsatisfied, |c| c.code);
        parts.push(explanation(request, list, code, children, fixes));
    }
    if !parts.is_empty() {
        return join(parts);
    }
    let names: Vec<String> = ctx.requests.iter().map(|r| r.subscription.clone()).collect();
    Explanation {
        code: Code::RequestsConflict,
        summary: format!("Subscriptions {} can each be met alone, but not together", names.join(", ")),
        nodes: conflict_nodes(ctx, found),
        fixes: ctx
            .requests
            .last()
            .map(|r| Fix {
                text: "give one of them up".into(),
                command: format!(
                    "olm uninstall {} -n {}",
                    crate::exclude::name_of(r),
                    crate::exclude::namespace_of(r)
                ),
            })
            .into_iter()
            .collect(),
        nearest: Vec::new(),
    }
}

/// What the first candidates of the requests have in common: a package or an API.
fn conflict_nodes(ctx: &Context<'_>, found: &[Candidates<'_>]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (i, list) in found.iter().enumerate() {
        let mut children = Vec::new();
        for (j, other) in found.iter().enumerate().filter(|(j, _)| *j != i) {
            let who = subject(ctx.requests[j]);
            if ctx.requests[i].package == ctx.requests[j].package {
                children.push(Node::leaf(
                    who,
                    Code::RequestsConflict,
                    "it wants another version of the same package",
                ));
                continue;
            }
            let mine = list.allowed.iter().flat_map(|c| &c.place.bundle.provides);
            let theirs = |gvk: &&crate::universe::Gvk| {
                other.allowed.iter().any(|c| c.place.bundle.provides.contains(gvk))
            };
            let shared = mine.filter(theirs).min();
            if let Some(gvk) = shared {
                children.push(Node::leaf(
                    who,
                    Code::ApiOwnedBy,
                    format!("it gets {gvk} from another package"),
                ));
            }
        }
        nodes.push(Node {
            subject: subject(ctx.requests[i]),
            code: Code::RequestsConflict,
            text: format!("it wants package {}", ctx.requests[i].package),
            children,
        });
    }
    nodes
}

fn join(mut parts: Vec<Explanation>) -> Explanation {
    let mut first = parts.remove(0);
    for part in parts {
        first.summary.push_str(&format!("; {}", part.summary));
        first.nodes.extend(part.nodes);
        first.nearest.extend(part.nearest);
        for fix in part.fixes {
            if !first.fixes.contains(&fix) {
                first.fixes.push(fix);
            }
        }
    }
    first
}

/// Whether the first bundle is newer than the second one.
pub(crate) fn newer(a: Option<&olm_version::Version>, b: Option<&olm_version::Version>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => precedence(a, b).is_gt(),
        (a, b) => a.is_some() && b.is_none(),
    }
}
