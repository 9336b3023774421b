//! The candidates of one request, best first, and why the other bundles are excluded.

use std::collections::HashSet;

use olm_version::{shell_word, suggest};

use crate::bundle::{CatalogRef, Channel};
use crate::code::Code;
use crate::context::{Context, set_channel};
use crate::exclude::Excluded;
use crate::explain::Fix;
use crate::package::Package;
use crate::place::Place;
use crate::request::Request;
use crate::selection::{Candidate, NoCandidates, Selection, fix, is_skip_version, nearest_text};
use crate::universe::Health;

/// The candidates of one request.
#[derive(Debug)]
pub(crate) struct Candidates<'a> {
    pub(crate) catalog: &'a CatalogRef,
    pub(crate) package: &'a Package,
    /// The relevant channels, in order of preference.
    pub(crate) channels: Vec<&'a Channel>,
    /// Best first.
    pub(crate) allowed: Vec<Candidate<'a>>,
    /// Allowed by the request, excluded by facts; in the same order of preference.
    pub(crate) excluded: Vec<(Place<'a>, Excluded)>,
}

/// The candidates of a request, before dependencies are considered.
pub(crate) fn candidates<'a>(ctx: &Context<'a>, request: &Request) -> Result<Candidates<'a>, NoCandidates> {
    let (catalog, package) = find_package(ctx, request)?;
    let channels = find_channels(request, package)?;
    let listed = Selection { ctx, request, catalog, package, channels: &channels }.list()?;
    let mut allowed = Vec::new();
    let mut excluded: Vec<(Place<'a>, Excluded)> = Vec::new();
    let (mut seen, mut ruled_out) = (HashSet::new(), HashSet::new());
    for candidate in listed {
        let bundle = candidate.place.bundle;
        let same = request.installed.as_ref().is_some_and(|i| i.name == bundle.name);
        if same || is_skip_version(request, bundle) || seen.contains(bundle.name.as_str()) {
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
    Ok(Candidates { catalog, package, channels, allowed, excluded })
}

/// The package, with the universe's own copy of its catalog's name.
fn find_package<'a>(
    ctx: &Context<'a>,
    request: &Request,
) -> Result<(&'a CatalogRef, &'a Package), NoCandidates> {
    let id = &request.catalog;
    let Some((id, catalog)) = ctx.universe.catalogs().get_key_value(id) else {
        let known: Vec<String> = ctx.universe.catalogs().keys().map(ToString::to_string).collect();
        let nearest = nearest_or_all(&id.to_string(), &known);
        return Err(NoCandidates {
            code: Code::UnknownCatalog,
            text: format!("catalog {id} not found{}", nearest_text(&nearest)),
            nearest,
            fixes: vec![fix("list the catalogs", "olm catalog sources")],
        });
    };
    if let Some(package) = catalog.packages.get(&request.package) {
        return Ok((id, package));
    }
    if let Health::Unavailable { reason } = &catalog.health {
        return Err(NoCandidates {
            code: Code::CatalogUnavailable,
            text: format!("failed to read catalog {id}: {reason}"),
            nearest: Vec::new(),
            fixes: vec![fix(
                "show the state of the catalog",
                format!("olm catalog sources -n {}", id.namespace),
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
            format!("olm show {} --catalog {}", shell_word(&request.package), other.name),
        ));
    }
    match nearest.first() {
        Some(name) => {
            fixes.push(fix(format!("show package {name}"), format!("olm show {}", shell_word(name))))
        }
        None => {
            fixes.push(fix("search the catalogs", format!("olm search {}", shell_word(&request.package))))
        }
    }
    Err(NoCandidates {
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
fn find_channels<'a>(request: &Request, package: &'a Package) -> Result<Vec<&'a Channel>, NoCandidates> {
    let Some(name) = &request.channel else {
        let mut channels: Vec<&Channel> = package.channels().iter().collect();
        channels.sort_by_key(|c| (c.name != package.default_channel, &c.name));
        return Ok(channels);
    };
    package.channel(name).map(|channel| vec![channel]).ok_or_else(|| {
        let known: Vec<String> = package.channels().iter().map(|channel| channel.name.clone()).collect();
        let nearest = nearest_or_all(name, &known);
        let better = nearest.first().unwrap_or(&package.default_channel);
        NoCandidates {
            code: Code::UnknownChannel,
            text: format!("package {} has no channel {name}{}", package.name, nearest_text(&nearest)),
            fixes: vec![
                fix(format!("switch to channel {better}"), set_channel(request, better)),
                fix("list the channels", format!("olm show {}", shell_word(&package.name))),
            ],
            nearest,
        }
    })
}
