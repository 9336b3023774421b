//! The bundles that a request may get by its channels, versions and installed bundle.

use std::collections::{BTreeSet, VecDeque};

use olm_version::{precedence, shell_word, suggest};

use crate::bundle::{Bundle, CatalogRef, Channel};
use crate::code::Code;
use crate::context::{Context, patch, set_channel};
use crate::explain::Fix;
use crate::graph::edge;
use crate::package::Package;
use crate::place::{Place, ordered_places};
use crate::request::{InstalledRef, Request, UpgradePolicy, VersionRequest};
use crate::resolution::HopVia;

/// A bundle that the request may get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) via: HopVia,
    /// The request's range is met only by a later hop of the path that begins here.
    pub(crate) on_the_way: bool,
}

/// Why a request has no candidates.
#[derive(Debug)]
pub(crate) struct NoCandidates {
    pub(crate) code: Code,
    pub(crate) text: String,
    pub(crate) nearest: Vec<String>,
    pub(crate) fixes: Vec<Fix>,
}

pub(crate) fn fix(text: impl Into<String>, command: impl Into<String>) -> Fix {
    Fix { text: text.into(), command: command.into() }
}

pub(crate) fn nearest_text(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
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

pub(crate) fn channels_text(request: &Request, package: &Package) -> String {
    match &request.channel {
        Some(channel) => format!("channel {channel} of package {}", package.name),
        None => format!("package {}", package.name),
    }
}

/// Whether a channel of the package has an entry of that name.
pub(crate) fn contains(package: &Package, channel: &Channel, bundle: &str) -> bool {
    package.graph(channel).is_some_and(|graph| graph.entry(channel, bundle).is_some())
}

/// The bundles of a channel's entries.
fn bundles_of<'a>(package: &'a Package, channel: &'a Channel) -> impl Iterator<Item = &'a Bundle> {
    channel.entries.iter().filter_map(|entry| package.bundle(&entry.name))
}

pub(crate) fn reference(bundle: &Bundle) -> InstalledRef {
    InstalledRef { name: bundle.name.clone(), version: bundle.version.clone() }
}

fn install(place: Place<'_>) -> Candidate<'_> {
    Candidate { place, via: HopVia::Install, on_the_way: false }
}

/// A request with its package and channels.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'c, 'a> {
    pub(crate) ctx: &'c Context<'a>,
    pub(crate) request: &'c Request,
    pub(crate) catalog: &'a CatalogRef,
    pub(crate) package: &'a Package,
    pub(crate) channels: &'c [&'a Channel],
}

impl<'a> Selection<'_, 'a> {
    /// The bundles in order of preference; a bundle may be listed once for each channel.
    pub(crate) fn list(&self) -> Result<Vec<Candidate<'a>>, NoCandidates> {
        match (&self.request.installed, &self.request.starting_csv) {
            (None, Some(name)) => self.starting(name),
            (None, None) => self.fresh(),
            (Some(installed), _) if self.request.policy == UpgradePolicy::SelfCertified => {
                self.self_certified(installed)
            }
            (Some(installed), _) => self.successors(installed),
        }
    }

    /// The bundles of all channels in order of preference. An error when none of the channels has an order.
    fn in_order(&self) -> Result<Vec<Place<'a>>, NoCandidates> {
        let Self { catalog, package, channels, .. } = *self;
        let mut places = Vec::new();
        let mut disorder = None;
        for channel in channels {
            match package.graph(channel).map(|graph| &graph.order) {
                Some(Err(error)) => disorder = Some(error.to_string()),
                _ => places.extend(ordered_places(catalog, package, channel)),
            }
        }
        match disorder {
            Some(text) if places.is_empty() => Err(NoCandidates {
                code: Code::BrokenChannel,
                text,
                nearest: Vec::new(),
                fixes: vec![fix("choose another channel", format!("olm show {}", shell_word(&package.name)))],
            }),
            _ => Ok(places),
        }
    }

    /// Every bundle of the channels, those off the chain too, newest first.
    fn all_entries(&self) -> Vec<Place<'a>> {
        let Self { catalog, package, channels, .. } = *self;
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

    /// Nothing is installed and `startingCSV` names the bundle; it may be one that others skip.
    fn starting(&self, name: &str) -> Result<Vec<Candidate<'a>>, NoCandidates> {
        let Self { request, package, channels, .. } = *self;
        let places = self.all_entries();
        let mut found: Vec<Place<'a>> = places.iter().filter(|p| p.bundle.name == name).copied().collect();
        // the channel of the highest preference comes first
        found.sort_by_key(|p| channels.iter().position(|c| c.name == p.channel));
        if found.is_empty() {
            let nearest = suggest(name, places.iter().map(|p| p.bundle.name.as_str()), 3);
            return Err(NoCandidates {
                code: Code::UnknownStartingCsv,
                text: format!(
                    "{} has no bundle {name} (startingCSV){}",
                    channels_text(request, package),
                    nearest_text(&nearest)
                ),
                fixes: vec![fix("list the versions", format!("olm show {}", shell_word(&package.name)))],
                nearest,
            });
        }
        Ok(found.into_iter().map(install).collect())
    }

    /// Nothing is installed.
    fn fresh(&self) -> Result<Vec<Candidate<'a>>, NoCandidates> {
        let Self { request, .. } = *self;
        let Some(wanted) = &request.version else {
            return Ok(self.in_order()?.into_iter().map(install).collect());
        };
        // a pinned version may be off the chain; without a pin only the chain counts
        let places = match wanted.pin() {
            Some(_) => self.all_entries(),
            None => self.in_order()?,
        };
        let found: Vec<Candidate<'a>> =
            places.iter().filter(|p| matches_version(Some(wanted), p.bundle)).copied().map(install).collect();
        if found.is_empty() { Err(self.no_such_version(wanted)) } else { Ok(found) }
    }

    fn no_such_version(&self, wanted: &VersionRequest) -> NoCandidates {
        let Self { request, package, channels, .. } = *self;
        let has_it =
            |channel: &&Channel| bundles_of(package, channel).any(|b| matches_version(Some(wanted), b));
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
                    set_channel(request, &channel.name),
                ));
                Code::NotInChannel
            }
            _ => Code::UnknownVersion,
        };
        fixes.push(fix("list the versions", format!("olm show {}", shell_word(&package.name))));
        NoCandidates {
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
    fn self_certified(&self, installed: &InstalledRef) -> Result<Vec<Candidate<'a>>, NoCandidates> {
        let Self { request, .. } = *self;
        let mut places = self.in_order().unwrap_or_default();
        if request.version.is_some() {
            places.extend(self.all_entries());
        }
        let mut found = Vec::new();
        for place in places {
            if place.bundle.name == installed.name {
                // the installed bundle is preferred over everything after it
                break;
            }
            if matches_version(request.version.as_ref(), place.bundle) {
                let via = self.via(installed, place.bundle).unwrap_or(HopVia::SelfCertified);
                found.push(Candidate { place, via, on_the_way: false });
            }
        }
        let fits =
            request.version.as_ref().is_none_or(|w| installed.version.as_ref().is_some_and(|v| w.allows(v)));
        if !fits && found.is_empty() {
            // the installed bundle came first in the order, but is not in the range
            let rest = self.all_entries();
            found.extend(
                rest.into_iter().filter(|p| matches_version(request.version.as_ref(), p.bundle)).map(
                    |place| {
                        let via = self.via(installed, place.bundle).unwrap_or(HopVia::SelfCertified);
                        Candidate { place, via, on_the_way: false }
                    },
                ),
            );
        }
        match &request.version {
            Some(wanted) if !fits && found.is_empty() => Err(self.no_such_version(wanted)),
            _ => Ok(found),
        }
    }

    /// The target bundles of the channels' edges.
    fn successors(&self, installed: &InstalledRef) -> Result<Vec<Candidate<'a>>, NoCandidates> {
        let Self { request, catalog, package, channels, .. } = *self;
        let broken = |channel: &&Channel| package.graph(channel).is_none_or(|graph| graph.order.is_err());
        if channels.iter().all(broken) {
            // reports their errors
            self.in_order()?;
        }
        let next = direct(catalog, package, channels, installed);
        let Some(wanted) = &request.version else { return Ok(next) };
        let fitting: Vec<Candidate<'a>> =
            next.iter().filter(|c| matches_version(Some(wanted), c.place.bundle)).copied().collect();
        let fits = installed.version.as_ref().is_some_and(|v| wanted.allows(v));
        if !fitting.is_empty() || fits {
            return Ok(fitting);
        }
        match self.first_hop_towards(installed, wanted) {
            Some(hop) => Ok(vec![hop]),
            None => Err(self.unreachable_version(installed, wanted)),
        }
    }

    /// The first of the fewest hops that lead to a version in the range.
    fn first_hop_towards(&self, installed: &InstalledRef, wanted: &VersionRequest) -> Option<Candidate<'a>> {
        let Self { ctx, request, catalog, package, channels } = *self;
        let usable =
            |c: &Candidate<'a>| !is_skip_version(request, c.place.bundle) && ctx.excluded(&c.place).is_none();
        let next = |at: &InstalledRef| {
            direct(catalog, package, channels, at).into_iter().filter(usable).collect::<Vec<_>>()
        };
        let first = walk(installed, next, |_, bundle| matches_version(Some(wanted), bundle))?;
        Some(Candidate { on_the_way: true, ..first })
    }

    fn unreachable_version(&self, installed: &InstalledRef, wanted: &VersionRequest) -> NoCandidates {
        let Self { request, package, channels, .. } = *self;
        if !channels
            .iter()
            .any(|channel| bundles_of(package, channel).any(|b| matches_version(Some(wanted), b)))
        {
            return self.no_such_version(wanted);
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
        NoCandidates {
            code: Code::NoUpgradeEdge,
            text,
            nearest: Vec::new(),
            fixes: vec![fix(
                "allow upgrades outside the catalog's edges, at your own risk",
                patch(request, "upgradeConstraintPolicy", "\"SelfCertified\""),
            )],
        }
    }

    /// The edge from the installed bundle to another one, in any of the channels.
    fn via(&self, installed: &InstalledRef, bundle: &Bundle) -> Option<HopVia> {
        let Self { package, channels, .. } = *self;
        channels.iter().find_map(|channel| {
            let (_, entry) = package.graph(channel)?.entry(channel, &bundle.name)?;
            edge(installed, entry)
        })
    }
}

/// The target bundles of one edge.
pub(crate) fn direct<'a>(
    catalog: &'a CatalogRef,
    package: &'a Package,
    channels: &[&'a Channel],
    installed: &InstalledRef,
) -> Vec<Candidate<'a>> {
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
