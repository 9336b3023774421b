//! The candidates of one request, best first, and why the other bundles are excluded.

use std::collections::HashSet;

use olm_version::{precedence, suggest};

use crate::code::Code;
use crate::context::{Context, patch};
use crate::exclude::Excluded;
use crate::explain::Fix;
use crate::graph::edge;
use crate::need::{Place, ordered_places};
use crate::package::Package;
use crate::path::walk;
use crate::request::{InstalledRef, Request, UpgradePolicy, VersionRequest};
use crate::resolution::HopVia;
use crate::universe::{Bundle, CatalogRef, Channel, Health};

/// A bundle that the request may get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) via: HopVia,
    /// The request's range is met only by a later hop of the path that begins here.
    pub(crate) on_the_way: bool,
}

/// The candidates of one request.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    pub(crate) package: &'a Package,
    /// The relevant channels, in order of preference.
    pub(crate) channels: Vec<&'a Channel>,
    /// Best first.
    pub(crate) allowed: Vec<Candidate<'a>>,
    /// Allowed by the request, excluded by facts; in the same order of preference.
    pub(crate) excluded: Vec<(Place<'a>, Excluded)>,
}

/// Why a request has no candidates.
#[derive(Debug)]
pub(crate) struct Nothing {
    pub(crate) code: Code,
    pub(crate) text: String,
    pub(crate) nearest: Vec<String>,
    pub(crate) fixes: Vec<Fix>,
}

fn fix(text: impl Into<String>, command: impl Into<String>) -> Fix {
    Fix { text: text.into(), command: command.into() }
}

fn nearest_text(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}

/// The candidates of a request, before dependencies are considered.
pub(crate) fn candidates<'a>(ctx: &Context<'a>, request: &Request) -> Result<Candidates<'a>, Nothing> {
    let package = find_package(ctx, request)?;
    let channels = find_channels(request, package)?;
    let skipped = |bundle: &Bundle| is_skip_version(request, bundle);
    let listed = match (&request.installed, &request.starting_csv) {
        (None, Some(name)) => starting(ctx, request, package, &channels, name)?,
        (None, None) => fresh(ctx, request, package, &channels)?,
        (Some(installed), _) if request.policy == UpgradePolicy::SelfCertified => {
            self_certified(ctx, request, package, &channels, installed)?
        }
        (Some(installed), _) => successors(ctx, request, package, &channels, installed)?,
    };
    let mut allowed = Vec::new();
    let mut excluded: Vec<(Place<'a>, Excluded)> = Vec::new();
    let (mut seen, mut ruled_out) = (HashSet::new(), HashSet::new());
    for candidate in listed {
        let bundle = candidate.place.bundle;
        let same = request.installed.as_ref().is_some_and(|i| i.name == bundle.name);
        if same || skipped(bundle) || seen.contains(bundle.name.as_str()) {
            continue;
        }
        match ctx.excluded(&candidate.place) {
            // a policy may allow it in another channel
            Some(reason) if ruled_out.insert(bundle.name.as_str()) => {
                excluded.push((candidate.place, reason))
            }
            Some(_) => {}
            None => {
                seen.insert(bundle.name.as_str());
                allowed.push(candidate);
            }
        }
    }
    excluded.retain(|(place, _)| !seen.contains(place.bundle.name.as_str()));
    // bundles deprecated by their catalog come last; the stable sort keeps the order otherwise
    allowed.sort_by_key(|candidate| candidate.place.bundle.deprecated.is_some());
    Ok(Candidates { package, channels, allowed, excluded })
}

pub(crate) fn is_skip_version(request: &Request, bundle: &Bundle) -> bool {
    request.skip_versions.iter().any(|skip| {
        *skip == bundle.name
            || match (olm_version::parse_lenient(skip), &bundle.version) {
                (Ok(skip), Some(version)) => precedence(&skip, version).is_eq(),
                _ => false,
            }
    })
}

fn matches_version(wanted: Option<&VersionRequest>, bundle: &Bundle) -> bool {
    wanted.is_none_or(|wanted| bundle.version.as_ref().is_some_and(|v| wanted.allows(v)))
}

fn find_package<'a>(ctx: &Context<'a>, request: &Request) -> Result<&'a Package, Nothing> {
    let id = &request.catalog;
    let Some(catalog) = ctx.universe.catalog(id) else {
        let known: Vec<String> = ctx.universe.catalogs().keys().map(ToString::to_string).collect();
        let nearest = nearest_or_all(&id.to_string(), &known);
        return Err(Nothing {
            code: Code::UnknownCatalog,
            text: format!("catalog {id} not found{}", nearest_text(&nearest)),
            nearest,
            fixes: vec![fix("list the catalogs", "kubectl get catalogsources -A")],
        });
    };
    if let Some(package) = catalog.packages.get(&request.package) {
        return Ok(package);
    }
    if let Health::Unavailable { reason } = &catalog.health {
        return Err(Nothing {
            code: Code::CatalogUnavailable,
            text: format!("failed to read catalog {id}: {reason}"),
            nearest: Vec::new(),
            fixes: vec![fix(
                "describe the catalog",
                format!("kubectl describe catalogsource {} -n {}", id.name, id.namespace),
            )],
        });
    }
    let nearest = suggest(&request.package, catalog.packages.keys().map(String::as_str), 3);
    let mut fixes: Vec<Fix> = Vec::new();
    let elsewhere = ctx
        .universe
        .catalogs()
        .iter()
        .find(|(other, c)| *other != id && c.packages.contains_key(&request.package));
    if let Some((other, _)) = elsewhere {
        fixes.push(fix(
            format!("show the package in catalog {other}"),
            format!("olm show {} --catalog {}", request.package, other.name),
        ));
    }
    match nearest.first() {
        Some(name) => fixes.push(fix(format!("show package {name}"), format!("olm show {name}"))),
        None => fixes.push(fix("search the catalogs", format!("olm search {}", request.package))),
    }
    Err(Nothing {
        code: Code::UnknownPackage,
        text: format!("catalog {id} has no package {}{}", request.package, nearest_text(&nearest)),
        nearest,
        fixes,
    })
}

/// Close names; without one, all of a short list.
fn nearest_or_all(name: &str, known: &[String]) -> Vec<String> {
    let close = suggest(name, known.iter().map(String::as_str), 3);
    if close.is_empty() && known.len() <= 5 { known.to_vec() } else { close }
}

/// The requested channel; without one all of them, the default channel first, as in OLM.
fn find_channels<'a>(request: &Request, package: &'a Package) -> Result<Vec<&'a Channel>, Nothing> {
    let Some(name) = &request.channel else {
        let mut channels: Vec<&Channel> = package.channels().iter().collect();
        channels.sort_by_key(|c| (c.name != package.default_channel, &c.name));
        return Ok(channels);
    };
    package.channel(name).map(|channel| vec![channel]).ok_or_else(|| {
        let known: Vec<String> = package.channels().iter().map(|channel| channel.name.clone()).collect();
        let nearest = nearest_or_all(name, &known);
        let better = nearest.first().unwrap_or(&package.default_channel);
        Nothing {
            code: Code::UnknownChannel,
            text: format!("package {} has no channel {name}{}", package.name, nearest_text(&nearest)),
            fixes: vec![
                fix(
                    format!("switch to channel {better}"),
                    patch(request, "channel", &format!("\"{better}\"")),
                ),
                fix("list the channels", format!("olm show {}", package.name)),
            ],
            nearest,
        }
    })
}

/// The catalog that a request names, with the universe's own copy of the name.
fn catalog_of<'a>(ctx: &Context<'a>, request: &Request) -> Option<&'a CatalogRef> {
    ctx.universe.catalogs().get_key_value(&request.catalog).map(|(id, _)| id)
}

/// The bundles of all channels in order of preference. An error when none of the channels has an order.
fn in_order<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
) -> Result<Vec<Place<'a>>, Nothing> {
    let Some(catalog) = catalog_of(ctx, request) else { return Ok(Vec::new()) };
    let mut places = Vec::new();
    let mut disorder = None;
    for channel in channels {
        match package.graph(channel).map(|graph| &graph.order) {
            Some(Err(error)) => disorder = Some(error.to_string()),
            _ => places.extend(ordered_places(catalog, package, channel)),
        }
    }
    match disorder {
        Some(text) if places.is_empty() => Err(Nothing {
            code: Code::BrokenChannel,
            text,
            nearest: Vec::new(),
            fixes: vec![fix("choose another channel", format!("olm show {}", package.name))],
        }),
        _ => Ok(places),
    }
}

/// Every bundle of the channels, those off the chain too, newest first.
fn all_entries<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
) -> Vec<Place<'a>> {
    let Some(catalog) = catalog_of(ctx, request) else { return Vec::new() };
    let places = package.newest().iter().flat_map(|&at| {
        let bundle = &package.bundles()[at as usize];
        let inside =
            move |channel: &&&'a Channel| package.channels_of(at).any(|own| std::ptr::eq(own, **channel));
        let inside = channels.iter().filter(inside);
        inside.map(move |channel| Place {
            catalog,
            package: &package.name,
            channel: &channel.name,
            bundle,
            at,
        })
    });
    places.collect()
}

/// Whether a channel of the package has an entry of that name.
pub(crate) fn contains(package: &Package, channel: &Channel, bundle: &str) -> bool {
    package.graph(channel).is_some_and(|graph| graph.entry(channel, bundle).is_some())
}

/// The bundles of a channel's entries.
fn bundles_of<'a>(package: &'a Package, channel: &'a Channel) -> impl Iterator<Item = &'a Bundle> {
    channel.entries.iter().filter_map(|entry| package.bundle(&entry.name))
}

fn install(place: Place<'_>) -> Candidate<'_> {
    Candidate { place, via: HopVia::Install, on_the_way: false }
}

/// Nothing is installed and `startingCSV` names the bundle; it may be one that others skip.
fn starting<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
    name: &str,
) -> Result<Vec<Candidate<'a>>, Nothing> {
    let places = all_entries(ctx, request, package, channels);
    let mut found: Vec<Place<'a>> = places.iter().filter(|p| p.bundle.name == name).copied().collect();
    // the channel of the highest preference comes first
    found.sort_by_key(|p| channels.iter().position(|c| c.name == p.channel));
    if found.is_empty() {
        let nearest = suggest(name, places.iter().map(|p| p.bundle.name.as_str()), 3);
        return Err(Nothing {
            code: Code::UnknownStartingCsv,
            text: format!(
                "{} has no bundle {name} (startingCSV){}",
                channels_text(request, package),
                nearest_text(&nearest)
            ),
            fixes: vec![fix("list the versions", format!("olm show {}", package.name))],
            nearest,
        });
    }
    Ok(found.into_iter().map(install).collect())
}

pub(crate) fn channels_text(request: &Request, package: &Package) -> String {
    match &request.channel {
        Some(channel) => format!("channel {channel} of package {}", package.name),
        None => format!("package {}", package.name),
    }
}

/// Nothing is installed.
fn fresh<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
) -> Result<Vec<Candidate<'a>>, Nothing> {
    let Some(wanted) = &request.version else {
        return Ok(in_order(ctx, request, package, channels)?.into_iter().map(install).collect());
    };
    // a pinned version may be off the chain; without a pin only the chain counts
    let places = match wanted.pin() {
        Some(_) => all_entries(ctx, request, package, channels),
        None => in_order(ctx, request, package, channels)?,
    };
    let found: Vec<Candidate<'a>> =
        places.iter().filter(|p| matches_version(Some(wanted), p.bundle)).copied().map(install).collect();
    if found.is_empty() { Err(no_such_version(request, package, channels, wanted)) } else { Ok(found) }
}

fn no_such_version(
    request: &Request,
    package: &Package,
    channels: &[&Channel],
    wanted: &VersionRequest,
) -> Nothing {
    let has_it = |channel: &&Channel| bundles_of(package, channel).any(|b| matches_version(Some(wanted), b));
    let elsewhere = package.channels().iter().find(has_it);
    let newest = package.newest().iter().map(|place| &package.bundles()[*place as usize]);
    let versions: Vec<String> = newest
        .filter(|bundle| channels.iter().any(|channel| contains(package, channel, &bundle.name)))
        .filter_map(|bundle| bundle.version.as_ref().map(ToString::to_string))
        .collect();
    let mut nearest = suggest(wanted.source(), versions.iter().map(String::as_str), 3);
    if nearest.is_empty() {
        nearest = versions.into_iter().take(3).collect();
    }
    let mut fixes = Vec::new();
    let code = match elsewhere {
        Some(channel) if request.channel.is_some() => {
            fixes.push(fix(
                format!("switch to channel {}, which has this version", channel.name),
                patch(request, "channel", &format!("\"{}\"", channel.name)),
            ));
            Code::NotInChannel
        }
        _ => Code::UnknownVersion,
    };
    fixes.push(fix("list the versions", format!("olm show {}", package.name)));
    Nothing {
        code,
        text: format!(
            "{} has no version {}{}",
            channels_text(request, package),
            wanted.source(),
            nearest_text(&nearest)
        ),
        nearest,
        fixes,
    }
}

/// Self-certified upgrades: any bundle that the range allows, in the order of preference, skipped ones last.
fn self_certified<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
    installed: &InstalledRef,
) -> Result<Vec<Candidate<'a>>, Nothing> {
    let mut places = in_order(ctx, request, package, channels).unwrap_or_default();
    if request.version.is_some() {
        places.extend(all_entries(ctx, request, package, channels));
    }
    let mut found = Vec::new();
    for place in places {
        if place.bundle.name == installed.name {
            // the installed bundle is preferred over everything after it
            break;
        }
        if matches_version(request.version.as_ref(), place.bundle) {
            let via = via(package, channels, installed, place.bundle).unwrap_or(HopVia::SelfCertified);
            found.push(Candidate { place, via, on_the_way: false });
        }
    }
    let fits =
        request.version.as_ref().is_none_or(|w| installed.version.as_ref().is_some_and(|v| w.allows(v)));
    if !fits && found.is_empty() {
        // the installed bundle came first in the order, but is not in the range
        let rest = all_entries(ctx, request, package, channels);
        found.extend(rest.into_iter().filter(|p| matches_version(request.version.as_ref(), p.bundle)).map(
            |place| {
                let via = via(package, channels, installed, place.bundle).unwrap_or(HopVia::SelfCertified);
                Candidate { place, via, on_the_way: false }
            },
        ));
    }
    match &request.version {
        Some(wanted) if !fits && found.is_empty() => Err(no_such_version(request, package, channels, wanted)),
        _ => Ok(found),
    }
}

/// The edge from the installed bundle to another one, in any of the channels.
fn via(
    package: &Package,
    channels: &[&Channel],
    installed: &InstalledRef,
    bundle: &Bundle,
) -> Option<HopVia> {
    channels.iter().find_map(|channel| {
        let (_, entry) = package.graph(channel)?.entry(channel, &bundle.name)?;
        edge(installed, entry)
    })
}

/// The target bundles of the channels' edges.
fn successors<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
    installed: &InstalledRef,
) -> Result<Vec<Candidate<'a>>, Nothing> {
    let broken = |channel: &&Channel| package.graph(channel).is_none_or(|graph| graph.order.is_err());
    if channels.iter().all(broken) {
        // reports their errors
        in_order(ctx, request, package, channels)?;
    }
    let next = direct(ctx, request, package, channels, installed);
    let Some(wanted) = &request.version else { return Ok(next) };
    let fitting: Vec<Candidate<'a>> =
        next.iter().filter(|c| matches_version(Some(wanted), c.place.bundle)).copied().collect();
    let fits = installed.version.as_ref().is_some_and(|v| wanted.allows(v));
    if !fitting.is_empty() || fits {
        return Ok(fitting);
    }
    match first_hop_towards(ctx, request, package, channels, installed, wanted) {
        Some(hop) => Ok(vec![hop]),
        None => Err(unreachable_version(request, package, channels, installed, wanted)),
    }
}

/// The target bundles of one edge.
pub(crate) fn direct<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
    installed: &InstalledRef,
) -> Vec<Candidate<'a>> {
    let Some(catalog) = catalog_of(ctx, request) else { return Vec::new() };
    let mut found = Vec::new();
    for channel in channels {
        let Some(graph) = package.graph(channel) else { continue };
        for (entry, via) in graph.successors(channel, installed) {
            if let Some(at) = graph.bundle(entry) {
                let bundle = &package.bundles()[at as usize];
                let place = Place { catalog, package: &package.name, channel: &channel.name, bundle, at };
                found.push(Candidate { place, via, on_the_way: false });
            }
        }
    }
    found
}

/// The first of the fewest hops that lead to a version in the range.
fn first_hop_towards<'a>(
    ctx: &Context<'a>,
    request: &Request,
    package: &'a Package,
    channels: &[&'a Channel],
    installed: &InstalledRef,
    wanted: &VersionRequest,
) -> Option<Candidate<'a>> {
    let usable =
        |c: &Candidate<'a>| !is_skip_version(request, c.place.bundle) && ctx.excluded(&c.place).is_none();
    let next = |at: &InstalledRef| {
        direct(ctx, request, package, channels, at).into_iter().filter(usable).collect::<Vec<_>>()
    };
    let first = walk(installed, next, |_, bundle| matches_version(Some(wanted), bundle))?;
    Some(Candidate { on_the_way: true, ..first })
}

pub(crate) fn reference(bundle: &Bundle) -> InstalledRef {
    InstalledRef { name: bundle.name.clone(), version: bundle.version.clone() }
}

fn unreachable_version(
    request: &Request,
    package: &Package,
    channels: &[&Channel],
    installed: &InstalledRef,
    wanted: &VersionRequest,
) -> Nothing {
    if !channels.iter().any(|channel| bundles_of(package, channel).any(|b| matches_version(Some(wanted), b)))
    {
        return no_such_version(request, package, channels, wanted);
    }
    let skipped = channels.iter().find_map(|channel| {
        let graph = package.graph(channel)?;
        let bundles = bundles_of(package, channel).filter(|b| matches_version(Some(wanted), b));
        bundles.filter_map(|bundle| Some((bundle, graph.skipped_by(channel, &bundle.name)?))).next()
    });
    let mut text = format!(
        "no upgrade path (replaces, skips, skipRange) in {} from the installed {} to version {}",
        channels_text(request, package),
        installed.name,
        wanted.source()
    );
    if let Some((bundle, by)) = skipped {
        text.push_str(&format!(" ({} is skipped by {})", bundle.name, by.name));
    }
    Nothing {
        code: Code::NoUpgradeEdge,
        text,
        nearest: Vec::new(),
        fixes: vec![fix(
            "allow upgrades outside the catalog's edges, at your own risk",
            patch(request, "upgradeConstraintPolicy", "\"SelfCertified\""),
        )],
    }
}
