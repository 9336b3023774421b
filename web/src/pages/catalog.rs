//! The packages that can be installed.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Query, State},
    response::Response,
};
use maud::{Markup, html};
use olm_ops::Installed;
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::{Card, Snapshot, Source},
    links::{clean, encode},
    view::{
        layout::Section,
        parts::{self, Tone},
        time,
    },
};

#[derive(Deserialize, Default)]
pub(crate) struct CatalogQuery {
    #[serde(default)]
    q: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    query: String,
    sources: Vec<SourceModel>,
    packages: Vec<Tile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceModel {
    name: String,
    display_name: String,
    digest: String,
    packages: usize,
    problems: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tile {
    source: String,
    package: String,
    display_name: String,
    provider: String,
    summary: String,
    capability: String,
    channel: String,
    version: String,
    kinds: Vec<String>,
    deprecated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<String>,
    /// Why it matches the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    installed: Vec<Installed>,
    also_in: Vec<String>,
    #[serde(skip)]
    filter_text: String,
    #[serde(skip)]
    score: u32,
}

/// `GET /catalog`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<CatalogQuery>,
) -> Response {
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    // Users without the right to list installed operators can still browse.
    let model = model(&snapshot, query.q.trim(), installed.as_deref().unwrap_or_default());
    let body = view(&model, &snapshot);
    // Reload until the manager has read the catalogs.
    let refresh = (model.sources.is_empty()).then_some(3);
    caller.answer(Page::new("Catalog", Section::Catalog, body).refresh(refresh), &model)
}

fn model(snapshot: &Snapshot, query: &str, installed: &[Installed]) -> Model {
    let mut tiles: BTreeMap<String, Tile> = BTreeMap::new();
    for source in &snapshot.sources {
        let hits: Vec<(String, u32, Option<String>)> = if query.is_empty() {
            source.catalog.summaries().map(|summary| (summary.name.clone(), 0, None)).collect()
        } else {
            source
                .catalog
                .search(query)
                .into_iter()
                .map(|hit| (hit.package, hit.score, Some(hit.why)))
                .collect()
        };
        for (package, score, why) in hits {
            let Some(card) = source.card(&package) else { continue };
            // The first catalog provides the tile and lists the others on it.
            match tiles.get_mut(&package) {
                Some(tile) => tile.also_in.push(source.display_name.clone()),
                None => {
                    let here = installed.iter().filter(|i| i.package == package).cloned().collect();
                    tiles.insert(package.clone(), tile(source, card, package, score, why, here));
                }
            }
        }
    }
    let mut packages: Vec<Tile> = tiles.into_values().collect();
    packages.sort_by_cached_key(|t| {
        (std::cmp::Reverse(t.score), t.deprecated, t.display_name.to_lowercase(), t.package.clone())
    });
    let sources = snapshot.sources.iter().map(|s| SourceModel {
        name: s.reference(),
        display_name: s.display_name.clone(),
        digest: s.catalog.digest.clone(),
        packages: s.catalog.len(),
        problems: s.catalog.problems.len(),
    });
    Model {
        query: query.to_owned(),
        sources: sources.collect(),
        packages,
        unreachable: snapshot.unreachable.clone(),
    }
}

fn tile(
    source: &Source,
    card: &Card,
    package: String,
    score: u32,
    why: Option<String>,
    installed: Vec<Installed>,
) -> Tile {
    Tile {
        source: source.id.clone(),
        package,
        display_name: card.display_name.clone(),
        provider: card.provider.clone(),
        summary: card.summary.clone(),
        capability: card.capability.clone(),
        channel: card.channel.clone(),
        version: card.version.clone(),
        kinds: card.kinds.clone(),
        deprecated: card.deprecated,
        icon: card.icon.clone(),
        why: why.map(|w| clean(&w)),
        installed,
        also_in: Vec::new(),
        filter_text: card.filter_text.clone(),
        score,
    }
}

fn view(model: &Model, snapshot: &Snapshot) -> Markup {
    let n = model.packages.len();
    html! {
        div.head {
            div.head-text {
                h1 { "Catalog" }
                p.muted {
                    @if model.query.is_empty() {
                        (parts::plural(n, "operator")) " from " (parts::plural(model.sources.len(), "catalog"))
                    } @else {
                        (parts::plural(n, "operator")) " for “" (clean(&model.query)) "”"
                    }
                }
            }
            form.search role="search" action="/catalog" method="get" {
                label.visually-hidden for="q" { "Search by name, keyword or kind" }
                input #q type="search" name="q" value=(model.query) placeholder="Name, keyword or kind" autocomplete="off" data-filter="";
                button.button { "Search" }
            }
        }
        div.stack {
            @if let Some(why) = &model.unreachable {
                (parts::note(Tone::Warn, &html! {
                    strong { "Failed to read the catalogs. " }
                    @if let Some(at) = snapshot.read_at { "Showing the last copy, read " (time::ago(&at.to_string())) ". " }
                    span.small.muted { (clean(why)) }
                }))
            }
            @for source in model.sources.iter().filter(|s| s.problems > 0) {
                (parts::note(Tone::Info, &html! {
                    "Catalog " strong { (source.display_name) } " has " (parts::plural(source.problems, "problem"))
                    "; affected entries are omitted. " span.small.muted { "Details: " code { "kubectl describe catalogsource -n " (source.name.replacen('/', " ", 1)) } }
                }))
            }
            @if n == 0 { div data-reload=[model.sources.is_empty().then_some("3")] { (nothing(model)) } }
            @else {
                ul.cards { @for tile in &model.packages { li data-words=(tile.filter_text) { (card(tile)) } } }
                div #no-match hidden {
                    (parts::empty("No match on this page", "Press Enter to search all fields, or clear the search.", None))
                }
            }
        }
    }
}

fn nothing(model: &Model) -> Markup {
    if !model.query.is_empty() {
        let text = format!("No package, keyword or kind matches “{}”.", clean(&model.query));
        return parts::empty("No results", &text, Some(("/catalog", "Clear the search")));
    }
    if model.unreachable.is_some() {
        return parts::empty(
            "No catalog yet",
            "The manager is unreachable and no earlier copy exists. This page reloads every few seconds.",
            Some(("/catalog", "Reload")),
        );
    }
    if model.sources.is_empty() {
        return parts::empty(
            "No catalog yet",
            "The cluster has no serving CatalogSource, or its content is still loading. This page reloads every few seconds.",
            Some(("/catalog", "Reload")),
        );
    }
    parts::empty("The catalogs are empty", "All catalogs are loaded and contain no packages.", None)
}

fn card(tile: &Tile) -> Markup {
    html! {
        article.card {
            div.card-head {
                (parts::icon(tile.icon.as_deref(), &tile.display_name, ""))
                div.clip {
                    h2 { a href={ "/catalog/" (encode(&tile.source)) "/" (encode(&tile.package)) } { (tile.display_name) } }
                    @if !tile.provider.is_empty() { div.small.muted { (tile.provider) } }
                }
            }
            @if !tile.summary.is_empty() { p { (tile.summary) } }
            @if let Some(why) = &tile.why { div.small.muted { "Matched by " (why) } }
            div.card-foot.small.muted {
                @if !tile.version.is_empty() { span { (tile.version) " · " (tile.channel) } }
                @if !tile.capability.is_empty() { span { (parts::capability(&tile.capability)) } }
            }
            @if tile.deprecated || !tile.installed.is_empty() || !tile.also_in.is_empty() {
                div.row {
                    @if tile.deprecated { (parts::chip(Tone::Warn, Tone::Warn.glyph(), "Deprecated")) }
                    @if let Some(first) = tile.installed.first() {
                        @let version = first.version.as_deref().unwrap_or_default();
                        @let (tone, glyph) = parts::status_style(&first.status);
                        // The installed version; a plan that requires approval may be for another one.
                        @let text = match (first.status, version) {
                            (olm_ops::Status::Healthy, version) => format!("Installed {version}"),
                            (other, "") => other.word().to_owned(),
                            (other, version) => format!("Installed {version}: {}", other.word()),
                        };
                        (parts::chip(tone, glyph, text.trim()))
                    }
                    @if !tile.also_in.is_empty() { (parts::tag(&format!("also in {}", tile.also_in.join(", ")))) }
                }
            }
        }
    }
}
