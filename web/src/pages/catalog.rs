//! The packages that can be installed.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use maud::{Markup, html};
use olm_ops::{Installed, Status};
use serde::Serialize;

use crate::{
    app::App,
    browse::{self, Facet, Item, Outcome, Selection, Sort},
    caller::{Caller, Page},
    catalogs::{Card, Snapshot, Source},
    links::{clean, encode},
    pages::catalogs,
    view::{
        facet::{self, Applied},
        layout::{Search, Section},
        parts::{self, Tone},
        tile, time,
    },
};

/// Maximum number of packages in a featured catalog: three rows of tiles.
const FEATURED: usize = 12;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    query: String,
    sources: Vec<SourceModel>,
    /// Those of the page.
    packages: Vec<Tile>,
    /// Number of packages that match.
    total: usize,
    page: usize,
    pages: usize,
    facets: BTreeMap<&'static str, BTreeMap<String, usize>>,
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
    categories: Vec<String>,
    deprecated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<String>,
    /// Why it matches the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    installed: Vec<Installed>,
    also_in: Vec<String>,
    /// Whether it is installed or featured.
    #[serde(skip)]
    first: bool,
    #[serde(skip)]
    filter_text: String,
}

/// A package that matches the search text, in the catalogs that have it.
struct Entry<'a> {
    package: &'a str,
    sources: Vec<(&'a Source, &'a Card)>,
    score: u32,
    why: Option<String>,
    installed: Vec<Installed>,
}

/// `GET /catalog`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    mut caller: Caller,
    RawQuery(query): RawQuery,
) -> Response {
    let selection = Selection::parse(query.unwrap_or_default().as_bytes());
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    // Users without the right to list installed operators can still browse.
    if let Ok(installed) = &installed {
        caller.set_installed(installed);
    }
    if let Some(unchanged) = caller.confirm(&snapshot, installed.as_deref().ok()) {
        return unchanged;
    }
    let entries = entries(&snapshot, &selection.text, installed.as_deref().unwrap_or_default());
    let items: Vec<Item> = entries.iter().map(|entry| item(entry, &snapshot)).collect();
    let outcome = browse::select(&items, &selection);
    let model = model(&snapshot, &selection, &entries, &items, &outcome);
    let body = view(&model, &snapshot, &selection, &outcome);
    // Reload until the manager has read the catalogs.
    let refresh = (model.sources.is_empty()).then_some(3);
    let search = Search { text: selection.text.clone(), kept: selection.kept(), filters_page: true };
    caller.answer(
        Page::new("Catalog", Section::Catalog, body).search(search).refresh(refresh).revalidated(),
        &model,
    )
}

fn entries<'a>(snapshot: &'a Snapshot, text: &str, installed: &[Installed]) -> Vec<Entry<'a>> {
    let mut entries: BTreeMap<&str, Entry<'a>> = BTreeMap::new();
    for source in &snapshot.sources {
        let hits: Vec<(String, u32, Option<String>)> = if text.is_empty() {
            source.catalog.summaries().map(|summary| (summary.name.clone(), 0, None)).collect()
        } else {
            source
                .catalog
                .search(text)
                .into_iter()
                .map(|hit| (hit.package, hit.score, Some(hit.why)))
                .collect()
        };
        for (package, score, why) in hits {
            let Some((package, card)) = source.named_card(&package) else { continue };
            let entry = entries.entry(package).or_insert_with(|| Entry {
                package,
                sources: Vec::new(),
                score,
                why,
                installed: installed.iter().filter(|one| one.package == package).cloned().collect(),
            });
            entry.sources.push((source.as_ref(), card));
        }
    }
    entries.into_values().collect()
}

fn item(entry: &Entry<'_>, snapshot: &Snapshot) -> Item {
    let (source, card) = entry.sources[0];
    let rank = match (entry.installed.is_empty(), is_featured(source, snapshot)) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => 2,
    };
    let one = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
    let has_update = |one: &Installed| {
        matches!(one.status, Status::NeedsApproval | Status::UpdateAvailable | Status::Updating)
    };
    let mut state = vec![if entry.installed.is_empty() { "available" } else { "installed" }.to_owned()];
    if entry.installed.iter().any(has_update) {
        state.push("update".to_owned());
    }
    let values = [
        (Facet::Category, card.categories.clone()),
        (Facet::State, state),
        (Facet::Source, entry.sources.iter().map(|(source, _)| source.id.clone()).collect()),
        (Facet::Capability, one(&card.capability)),
        (Facet::Provider, one(&card.provider)),
    ];
    Item {
        name: card.display_name.clone(),
        values: values.into(),
        score: entry.score,
        rank,
        level: parts::level(&card.capability),
        created: card.created.clone(),
        deprecated: card.deprecated,
    }
}

/// Whether a catalog is preferred over another one, and small enough for its packages to be shown first.
fn is_featured(source: &Source, snapshot: &Snapshot) -> bool {
    let lowest = snapshot.loaded.iter().map(|loaded| loaded.priority).min();
    let own = snapshot.loaded_of(source).map(|loaded| loaded.priority);
    own > lowest && source.catalog.len() <= FEATURED
}

fn model(
    snapshot: &Snapshot,
    selection: &Selection,
    entries: &[Entry<'_>],
    items: &[Item],
    outcome: &Outcome,
) -> Model {
    let sources = snapshot.sources.iter().map(|s| SourceModel {
        name: s.reference(),
        display_name: s.display_name.clone(),
        digest: s.catalog.digest.clone(),
        packages: s.catalog.len(),
        problems: s.catalog.problems.len(),
    });
    let facets = outcome.counts.iter().map(|(facet, counts)| {
        (facet.key(), counts.iter().map(|one| (one.value.clone(), one.count)).collect())
    });
    Model {
        query: selection.text.clone(),
        sources: sources.collect(),
        packages: outcome.shown.iter().map(|i| tile(&entries[*i], items[*i].rank < 2, selection)).collect(),
        total: outcome.total,
        page: outcome.page,
        pages: outcome.pages,
        facets: facets.collect(),
        unreachable: snapshot.unreachable.clone(),
    }
}

/// The first catalog, or the first selected one, provides the tile and lists the others on it.
fn tile(entry: &Entry<'_>, first: bool, selection: &Selection) -> Tile {
    let selected = |(source, _): &&(&Source, &Card)| selection.has(Facet::Source, &source.id);
    let (source, card) = *entry.sources.iter().find(selected).unwrap_or(&entry.sources[0]);
    let others = entry.sources.iter().filter(|(other, _)| other.id != source.id);
    Tile {
        source: source.id.clone(),
        package: entry.package.to_owned(),
        display_name: card.display_name.clone(),
        provider: card.provider.clone(),
        summary: card.summary.clone(),
        capability: card.capability.clone(),
        channel: card.channel.clone(),
        version: card.version.clone(),
        kinds: card.kinds.clone(),
        categories: card.categories.clone(),
        deprecated: card.deprecated,
        icon: card.icon.clone(),
        why: entry.why.as_deref().map(clean),
        installed: entry.installed.clone(),
        also_in: others.map(|(other, _)| other.display_name.clone()).collect(),
        first,
        filter_text: card.filter_text.clone(),
    }
}

fn view(model: &Model, snapshot: &Snapshot, selection: &Selection, outcome: &Outcome) -> Markup {
    let facets = facets(model, selection, outcome);
    // Results of a search have one order; otherwise installed and featured packages are first.
    let is_grouped = |tile: &&Tile| model.query.is_empty() && tile.first;
    let (first, rest): (Vec<&Tile>, Vec<&Tile>) = model.packages.iter().partition(is_grouped);
    html! {
        div.head {
            div.head-text {
                h1 { "Catalog" }
                p.muted { (summary(model, selection)) }
            }
            @if model.total > 1 { (sorts(selection)) }
        }
        div.stack-s.notes { (problems(model, snapshot)) }
        @if model.sources.is_empty() || model.sources.iter().all(|source| source.packages == 0) {
            div data-reload=[model.sources.is_empty().then_some("3")] { (no_catalog(model)) }
        } @else {
            div.browse {
                (facet::show(&facets))
                div.stack {
                    (facet::applied(&applied(model, selection), "/catalog"))
                    @if model.packages.is_empty() { (nothing(model)) }
                    (group(&first, "Installed and featured"))
                    (group(&rest, if first.is_empty() { "" } else { "All operators" }))
                    div #no-match hidden {
                        (parts::empty("No match on this page", "Press Enter to search all fields, or clear the search.", None))
                    }
                    (pager(selection, outcome))
                }
            }
        }
    }
}

fn summary(model: &Model, selection: &Selection) -> Markup {
    html! {
        (parts::plural(model.total, "operator"))
        @if !model.query.is_empty() { " for “" (clean(&model.query)) "”" }
        @if !selection.is_restricted() { " from " (parts::plural(model.sources.len(), "catalog")) }
    }
}

/// Links that sort the list; the first is the default.
fn sorts(selection: &Selection) -> Markup {
    let mut sorts = vec![
        (Some(Sort::Name), "Name"),
        (Some(Sort::Newest), "Newest"),
        (Some(Sort::Capability), "Capability"),
    ];
    match selection.text.is_empty() {
        true => sorts[0].0 = None,
        false => sorts.insert(0, (None, "Relevance")),
    }
    let current = if selection.text.is_empty() {
        selection.sort.filter(|sort| *sort != Sort::Name)
    } else {
        selection.sort
    };
    html! {
        nav.segmented aria-label="Sort" {
            @for (sort, label) in sorts {
                a href=(selection.sorted(sort).href()) aria-current=[(sort == current).then_some("true")] { (label) }
            }
        }
    }
}

fn problems(model: &Model, snapshot: &Snapshot) -> Markup {
    html! {
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
                "; affected entries are omitted. "
                @let (namespace, name) = source.name.split_once('/').unwrap_or(("", &source.name));
                a href={ (catalogs::href(namespace, name)) "#problems" } { "Show the problems" }
            }))
        }
    }
}

/// The word for a value of a facet.
fn label(model: &Model, facet: Facet, value: &str) -> String {
    match (facet, value) {
        (Facet::State, "installed") => "Installed".into(),
        (Facet::State, "update") => "Update available".into(),
        (Facet::State, "available") => "Not installed".into(),
        (Facet::Source, id) => {
            let source = model.sources.iter().find(|source| source.name.replacen('/', ".", 1) == id);
            source.map_or_else(|| clean(id), |source| source.display_name.clone())
        }
        (_, value) => clean(value),
    }
}

fn title(facet: Facet) -> &'static str {
    match facet {
        Facet::Category => "Category",
        Facet::State => "State",
        Facet::Source => "Source",
        Facet::Capability => "Capability level",
        Facet::Provider => "Provider",
    }
}

/// The facets of the page; one whose only value all packages have is omitted.
fn facets(model: &Model, selection: &Selection, outcome: &Outcome) -> Vec<facet::Facet> {
    let one = |(facet, counts): &(Facet, Vec<browse::Count>)| {
        let mut values: Vec<facet::Value> = counts
            .iter()
            .map(|one| facet::Value {
                label: label(model, *facet, &one.value),
                count: one.count,
                selected: selection.has(*facet, &one.value),
                href: selection.toggled(*facet, &one.value).href(),
            })
            .collect();
        if *facet == Facet::Capability {
            values.sort_by_key(|value| std::cmp::Reverse(parts::level(&value.label)));
        }
        let chooses =
            values.len() > 1 || values.iter().any(|value| value.selected || value.count < model.total);
        chooses.then(|| facet::Facet { id: facet.key(), title: title(*facet), values })
    };
    outcome.counts.iter().filter_map(one).collect()
}

fn applied(model: &Model, selection: &Selection) -> Vec<Applied> {
    let text = (!selection.text.is_empty()).then(|| Applied {
        label: format!("Search: {}", clean(&selection.text)),
        href: selection.without_text().href(),
    });
    let values = selection.values().map(|(facet, value)| Applied {
        label: format!("{}: {}", title(facet), label(model, facet, value)),
        href: selection.toggled(facet, value).href(),
    });
    text.into_iter().chain(values).collect()
}

fn nothing(model: &Model) -> Markup {
    let text = match model.query.is_empty() {
        true => "No operator matches these filters.".to_owned(),
        false => format!("No package, keyword or kind matches “{}” with these filters.", clean(&model.query)),
    };
    parts::empty("No results", &text, Some(("/catalog", "Clear the search")))
}

fn no_catalog(model: &Model) -> Markup {
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
            Some(("/catalogs", "Show catalogs")),
        );
    }
    parts::empty("The catalogs are empty", "All catalogs are loaded and contain no packages.", None)
}

fn group(tiles: &[&Tile], title: &str) -> Markup {
    html! {
        @if !tiles.is_empty() {
            h2.group-title.visually-hidden[title.is_empty()] { (if title.is_empty() { "Operators" } else { title }) }
            ul.tiles { @for tile in tiles { li data-words=(tile.filter_text) { (card(tile)) } } }
        }
    }
}

fn card(tile: &Tile) -> Markup {
    let href = format!("/catalog/{}/{}", encode(&tile.source), encode(&tile.package));
    let shown = tile::Tile {
        href: &href,
        icon: tile.icon.as_deref(),
        name: &tile.display_name,
        provider: &tile.provider,
        summary: &tile.summary,
        capability: &tile.capability,
    };
    tile::show(&shown, &foot(tile))
}

/// The state of an installed package, else why it matches the search, else its version.
fn foot(tile: &Tile) -> Markup {
    html! {
        @if let Some(first) = tile.installed.first() {
            @match (first.status, first.version.as_deref()) {
                // The installed version; a plan that requires approval may be for another one.
                (Status::Healthy, Some(version)) => (parts::state(Tone::Good, &format!("Installed {version}"))),
                (status, _) => (parts::status_in_list(status)),
            }
        } @else if tile.deprecated {
            (parts::state(Tone::Warn, "Deprecated"))
        } @else if let Some(why) = &tile.why {
            span title={ "Matched by " (why) } { "Matched by " (why) }
        } @else {
            (tile.version) @if !tile.channel.is_empty() { " · " (tile.channel) }
            @if !tile.also_in.is_empty() { span title={ "Also in " (tile.also_in.join(", ")) } { " · +" (tile.also_in.len()) } }
        }
    }
}

fn pager(selection: &Selection, outcome: &Outcome) -> Markup {
    let first = (outcome.page - 1) * browse::PAGE;
    html! {
        @if outcome.pages > 1 {
            nav.pager aria-label="Pages" {
                span.muted { (first + 1) " to " (first + outcome.shown.len()) " of " (outcome.total) }
                @if outcome.page > 1 { a href=(selection.on_page(outcome.page - 1).href()) rel="prev" { "Previous" } }
                @for page in 1..=outcome.pages {
                    a href=(selection.on_page(page).href()) aria-current=[(page == outcome.page).then_some("page")] { (page) }
                }
                @if outcome.page < outcome.pages { a href=(selection.on_page(outcome.page + 1).href()) rel="next" { "Next" } }
            }
        }
    }
}
