//! The versions of a package: the upgrade graph, and a table of the same data.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use maud::{Markup, html};
use olm_api::{Subscription, SubscriptionSpec};
use olm_catalog::{
    BundleEntry, Package, PackageVersion,
    graph::{DRAWN_CHANNELS, Format, MOST_DRAWN_BUNDLES, MOST_DRAWN_CHANNELS, UpgradeGraph},
};
use olm_engine::offline::AssumedCluster;
use olm_ops::Installed;
use serde::Serialize;

use super::package::{self, Found, PackagePage, Selection, heading, unknown};
use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::{Snapshot, display_name},
    error::WebError,
    icons::IMAGE_CSP,
    links::{clean, encode},
    view::{
        drawing,
        layout::Section,
        parts::{self, Tone},
        table::{self, Column, Row, Style},
    },
};

/// Names and ranges of a cell that are not folded.
const SHOWN: usize = 4;

/// The query: `channel` may be repeated.
#[derive(Default)]
struct Query {
    channels: Vec<String>,
    format: Option<String>,
    /// Ends of an upgrade path, as of `olm graph`.
    from: Option<String>,
    to: Option<String>,
}

impl Query {
    fn parse(query: Option<&str>) -> Self {
        let mut out = Self::default();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match key.as_ref() {
                "channel" if !value.is_empty() && !out.channels.contains(&value.to_string()) => {
                    out.channels.push(value.into_owned());
                }
                "format" => out.format = Some(value.into_owned()),
                "from" if !value.is_empty() => out.from = Some(value.into_owned()),
                "to" if !value.is_empty() => out.to = Some(value.into_owned()),
                _ => {}
            }
        }
        out
    }

    /// Fails on a channel that the package does not have.
    fn check(&self, package: &Package) -> Result<(), WebError> {
        match self.channels.iter().find(|name| !package.channels.contains_key(*name)) {
            Some(name) => Err(unknown("channel", name, package.channels.keys().cloned().collect())),
            None => Ok(()),
        }
    }

    /// The bundles of the requested upgrade path, with its start; empty without one. It starts at the installed
    /// version when `from` is absent.
    async fn path(
        &self,
        snapshot: &Snapshot,
        source: &str,
        package: &Package,
        installed: &[Installed],
    ) -> Result<Vec<String>, WebError> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(Vec::new());
        }
        let to = self.to.as_deref().map(|version| bundle(package, version)).transpose()?;
        let from = match &self.from {
            Some(version) => Some(bundle(package, version)?),
            None => csvs(installed).into_iter().find_map(|csv| package.bundles.get(csv)),
        };
        let catalog = snapshot.source(source).and_then(|found| snapshot.loaded_of(found));
        let (Some(from), Some(catalog)) = (from, catalog) else { return Ok(Vec::new()) };
        let followed = installed.iter().find_map(|one| one.channel.as_deref());
        let spec = SubscriptionSpec {
            name: package.name.clone(),
            source: catalog.reference.name.clone(),
            source_namespace: catalog.reference.namespace.clone(),
            channel: match self.channels.as_slice() {
                [only] => Some(only.clone()),
                _ => package.channel_with(&from.name, followed),
            },
            version: to.and_then(|to| to.version.as_ref()).map(ToString::to_string),
            ..SubscriptionSpec::default()
        };
        let namespace = olm_ops::suggested_namespace(&snapshot.loaded, &package.name);
        let mut subscription = Subscription::new(&package.name, spec);
        subscription.metadata.namespace = Some(namespace.clone());
        let assumed =
            AssumedCluster { namespace, installed: vec![from.clone()], ..AssumedCluster::default() };
        let resolved =
            assumed.resolve(&snapshot.loaded, &subscription).await.map_err(olm_ops::Error::from)?;
        let hops = resolved.path.into_iter().map(|hop| hop.name);
        Ok(std::iter::once(from.name.clone()).chain(hops).collect())
    }

    /// The channels with one more, or one less.
    fn toggled(&self, channel: &str) -> String {
        let mut channels: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        match channels.iter().position(|name| *name == channel) {
            Some(at) => _ = channels.remove(at),
            None => channels.push(channel),
        }
        let fields: Vec<String> =
            channels.into_iter().map(|name| format!("channel={}", encode(name))).collect();
        format!("?{}", fields.join("&"))
    }
}

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    source: String,
    package: String,
    channels: Vec<ChannelModel>,
    /// Newest first.
    versions: Vec<PackageVersion>,
}

#[derive(Serialize)]
struct ChannelModel {
    name: String,
    default: bool,
    /// Whether the graph of the page has it.
    drawn: bool,
}

/// `GET /catalog/{source}/{package}/versions`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    mut caller: Caller,
    Path((source, package)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let query = Query::parse(query.as_deref());
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    let mut installed = installed.unwrap_or_default();
    caller.set_installed(&installed);
    if let Some(unchanged) = caller.confirm(&snapshot, Some(&installed)) {
        return Ok(unchanged);
    }
    let whole = package::read(&snapshot, &source, &package).await?;
    query.check(&whole)?;
    let found = Found::find(&snapshot, &source, &whole, &Selection::default())?;
    installed.retain(|one| one.package == whole.name);

    let mut graph = UpgradeGraph::new(&whole);
    let hidden = graph.keep_drawn(&query.channels);
    mark(&mut graph, &installed, &[]);
    let channel = |name: &String| ChannelModel {
        name: name.clone(),
        default: *name == whole.default_channel,
        drawn: !hidden.contains(name),
    };
    let model = Model {
        source: found.source.id.clone(),
        package: whole.name.clone(),
        channels: whole.channels.keys().map(channel).collect(),
        versions: whole.versions(None, &csvs(&installed)),
    };
    let metadata = found.bundle.csv_metadata().unwrap_or_default();
    let name = display_name(&metadata, &whole.name);
    let title = format!("Versions of {name}");
    let body = html! {
        (heading(&found, &name, &installed, PackagePage::Versions))
        div.stack {
            (drawn(&model, &found, &graph, &query))
            (listed(&model, &found))
        }
    };
    Ok(caller.answer(Page::new(&title, Section::Catalog, body).revalidated(), &model))
}

fn bundle<'a>(package: &'a Package, version: &str) -> Result<&'a BundleEntry, WebError> {
    package.find_version(version).map_err(|missing| {
        let near = if missing.nearest.is_empty() { missing.known } else { missing.nearest };
        unknown("version", version, near)
    })
}

fn csvs(installed: &[Installed]) -> Vec<&str> {
    installed.iter().filter_map(|one| one.csv.as_deref()).collect()
}

/// Marks the installed and the excluded versions, and an upgrade path.
fn mark(graph: &mut UpgradeGraph, installed: &[Installed], path: &[String]) {
    graph.mark(&csvs(installed), path);
    let excluded: Vec<String> = installed.iter().flat_map(|one| one.skip_versions.clone()).collect();
    graph.mark_excluded(&excluded);
}

/// The page of a version in a channel.
fn href(found: &Found<'_>, channel: &str, version: &str) -> String {
    let page = found.href("catalog");
    match channel == found.package.default_channel {
        true => format!("{page}?version={}", encode(version)),
        false => format!("{page}?channel={}&version={}", encode(channel), encode(version)),
    }
}

fn drawn(model: &Model, found: &Found<'_>, graph: &UpgradeGraph, query: &Query) -> Markup {
    let svg = graph.inline_svg(&|channel, bundle| {
        href(found, &channel.name, bundle.version.as_ref().unwrap_or(&bundle.name))
    });
    let file = |format: &str| {
        let channels = query.channels.iter().map(|name| format!("channel={}", encode(name)));
        let fields: Vec<String> = channels.chain([format!("format={format}")]).collect();
        format!("{}/graph?{}", found.href("catalog"), fields.join("&"))
    };
    let full = model.channels.iter().filter(|channel| channel.drawn).count() >= MOST_DRAWN_CHANNELS;
    html! {
        div.panel {
            header {
                h2 { "Upgrade graph" }
                span.small.muted {
                    @for (i, format) in ["svg", "mermaid", "dot", "json"].into_iter().enumerate() {
                        @if i > 0 { " · " }
                        a href=(file(format)) { (format) }
                    }
                }
            }
            div.body.stack-s {
                @if model.channels.len() > DRAWN_CHANNELS {
                    nav.picks aria-label="Drawn channels" {
                        @for channel in &model.channels {
                            @let name = clean(&channel.name);
                            @if channel.default || full && !channel.drawn { span.small.muted { (name) @if channel.default { " (default)" } } }
                            @else { a.small href=(query.toggled(&channel.name)) aria-current=[channel.drawn.then_some("true")] { (name) } }
                        }
                    }
                }
                @if graph.channels.is_empty() { p.muted { (too_large()) } }
                @else { (drawing::show("Upgrade graph", svg)) }
            }
        }
    }
}

fn too_large() -> String {
    format!("Channels of more than {MOST_DRAWN_BUNDLES} bundles are not drawn.")
}

fn listed(model: &Model, found: &Found<'_>) -> Markup {
    let row = |version: &PackageVersion| {
        let default = version.channels.iter().find(|name| **name == found.package.default_channel);
        let channel = default.or(version.channels.first()).map(String::as_str).unwrap_or_default();
        let label = if version.version.is_empty() { &version.name } else { &version.version };
        Row::new(vec![
            html! { a href=(href(found, channel, label)) { (clean(label)) } },
            html! {
                @if version.installed { (parts::state(Tone::Good, "Installed")) " " }
                @if version.deprecated.is_some() { (parts::state(Tone::Warn, "Deprecated")) " " }
                @if version.default { "Newest of the default channel" }
                @else if !version.heads.is_empty() { "Newest of " (some(&version.heads)) }
            },
            some(&version.channels),
            some(&version.upgrades_from),
        ])
    };
    let columns = [
        Column::new("Version").with_class(table::NUMBER),
        Column::new("Status").with_class("clip"),
        Column::new("Channels").with_class("clip"),
        Column::new("Upgrades from").with_class("clip"),
    ];
    let rows: Vec<Row> = model.versions.iter().map(row).collect();
    html! {
        div.panel {
            header { h2 { "All versions" } }
            (table::show(Style::Values, "All versions", &columns, &rows))
        }
    }
}

/// A list of names; long ones are folded.
fn some(names: &[String]) -> Markup {
    let all = names.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
    html! {
        @if names.len() > SHOWN { details { summary { (names.len()) } (all) } }
        @else { (all) }
    }
}

/// `GET /catalog/{source}/{package}/graph`
pub(crate) async fn graph(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((source, package)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let query = Query::parse(query.as_deref());
    let (format, mediatype) =
        match (query.format.as_deref().filter(|name| !name.is_empty()), caller.wants_json) {
            (Some("json"), _) | (None, true) => (Format::Json, "application/json"),
            (Some("svg"), _) | (None, false) => (Format::Svg, "image/svg+xml"),
            (Some("mermaid"), _) => (Format::Mermaid, "text/plain; charset=utf-8"),
            (Some("dot"), _) => (Format::Dot, "text/vnd.graphviz; charset=utf-8"),
            (Some(other), _) => {
                let why =
                    format!("format: unknown value `{}`, expected svg, json, mermaid or dot", clean(other));
                return Err(WebError::bad_request(why));
            }
        };
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    let package = package::read(&snapshot, &source, &package).await?;
    query.check(&package)?;
    let mut installed = installed.unwrap_or_default();
    installed.retain(|one| one.package == package.name);
    let mut graph = UpgradeGraph::new(&package);
    if !query.channels.is_empty() {
        graph.channels.retain(|channel| query.channels.contains(&channel.name));
    }
    let path = query.path(&snapshot, &source, &package, &installed).await?;
    mark(&mut graph, &installed, &path);
    let mut picked = query.channels;
    if !path.is_empty() {
        graph.narrow();
        // The channels of the path are drawn, whatever the default channel is.
        picked = graph.channels.iter().map(|channel| channel.name.clone()).collect();
    }
    if format == Format::Svg {
        graph.keep_drawn(&picked);
        if graph.channels.is_empty() {
            return Err(WebError::bad_request(too_large()));
        }
    }
    let headers = [
        (header::CONTENT_TYPE, mediatype),
        (header::CONTENT_SECURITY_POLICY, IMAGE_CSP),
        (header::CONTENT_DISPOSITION, "inline; filename=\"graph\""),
    ];
    Ok((StatusCode::OK, headers, graph.write(format)).into_response())
}
