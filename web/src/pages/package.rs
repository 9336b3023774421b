//! A package: description, versions, provided APIs and permissions.

mod heading;

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use maud::{Markup, PreEscaped, html};
use olm_api::csv::CrdDescription;
use olm_catalog::{BundleEntry, Channel, CsvMetadata, Package};
use olm_engine::catalogs::{CatalogImage, LoadedCatalog};
use olm_kube_schema::names::is_dns_label;
use olm_ops::Installed;
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::{Card, Snapshot, Source, display_name},
    error::WebError,
    links::{self, clean, encode},
    markdown,
    view::{
        glyph::Glyph,
        layout::Section,
        parts::{self, Tone},
        table::{self, Column, Row, Style},
    },
};

pub(super) use heading::{PackagePage, heading};

#[derive(Deserialize, Default)]
pub(crate) struct Selection {
    pub(crate) channel: Option<String>,
    pub(crate) version: Option<String>,
}

/// A package in a catalog, with the selected channel and bundle.
pub(crate) struct Found<'a> {
    pub(crate) source: &'a Source,
    loaded: &'a LoadedCatalog,
    pub(crate) package: &'a Package,
    pub(crate) card: &'a Card,
    pub(crate) channel: &'a Channel,
    pub(crate) bundle: &'a BundleEntry,
    /// The bundle that an installation without a version selects.
    head: Option<&'a BundleEntry>,
    /// Whether the bundle is the newest of the channel.
    pub(crate) newest: bool,
}

pub(crate) async fn read(snapshot: &Snapshot, source: &str, package: &str) -> Result<Arc<Package>, WebError> {
    let found = snapshot.source(source).ok_or_else(|| unknown_catalog(snapshot, source))?;
    let loaded = snapshot.loaded_of(found).ok_or_else(|| unknown_catalog(snapshot, source))?;
    loaded.package(package).await?.ok_or_else(|| {
        let near = found.catalog.search(package).into_iter().take(3).map(|hit| hit.package).collect();
        unknown("package", package, near)
    })
}

pub(super) fn unknown(what: &str, name: &str, known: Vec<String>) -> WebError {
    let error = WebError::not_found(format!("{what} `{}` does not exist", clean(name)));
    if known.is_empty() { error } else { error.hint(format!("available: {}", known.join(", "))) }
}

fn unknown_catalog(snapshot: &Snapshot, source: &str) -> WebError {
    unknown("catalog", source, snapshot.sources.iter().map(|s| s.id.clone()).collect())
}

impl<'a> Found<'a> {
    pub(crate) fn find(
        snapshot: &'a Snapshot,
        source: &str,
        package: &'a Package,
        selection: &Selection,
    ) -> Result<Self, WebError> {
        let found = snapshot.source(source).ok_or_else(|| unknown_catalog(snapshot, source))?;
        let card = found.card(&package.name).ok_or_else(|| unknown("package", &package.name, Vec::new()))?;
        let wanted =
            selection.channel.as_deref().filter(|c| !c.is_empty()).unwrap_or(&package.default_channel);
        let channel = package
            .channels
            .get(wanted)
            .ok_or_else(|| unknown("channel", wanted, package.channels.keys().cloned().collect()))?;
        let bundles = Self::bundles_of(package, channel);
        let head = channel
            .head()
            .and_then(|head| package.bundles.get(&head.name))
            .or_else(|| bundles.first().copied());
        let bundle = match selection.version.as_deref().filter(|v| !v.is_empty()) {
            None => head,
            Some(version) => bundles.iter().find(|b| version_of(b) == version || b.name == version).copied(),
        };
        let bundle = bundle.ok_or_else(|| {
            let known = bundles.iter().map(|b| version_of(b)).collect();
            unknown("version", selection.version.as_deref().unwrap_or("newest"), known)
        })?;
        let newest = head.is_some_and(|head| head.name == bundle.name);
        let loaded = snapshot.loaded_of(found).ok_or_else(|| unknown_catalog(snapshot, source))?;
        Ok(Self { source: found, loaded, package, card, channel, bundle, head, newest })
    }

    /// Whether the bundle is the head of the channel, which may have a lower version than others.
    pub(crate) fn is_head(&self, bundle: &BundleEntry) -> bool {
        self.head.is_some_and(|head| head.name == bundle.name)
    }

    /// The bundles of a channel, newest first.
    pub(crate) fn bundles(&self) -> Vec<&'a BundleEntry> {
        Self::bundles_of(self.package, self.channel)
    }

    fn bundles_of(package: &'a Package, channel: &'a Channel) -> Vec<&'a BundleEntry> {
        let mut bundles: Vec<&BundleEntry> =
            channel.entries.iter().filter_map(|entry| package.bundles.get(&entry.name)).collect();
        bundles.sort_by(|a, b| b.version.cmp(&a.version).then_with(|| b.name.cmp(&a.name)));
        bundles
    }

    /// The default namespace, the same as on the command line.
    pub(crate) fn default_namespace(&self) -> String {
        let name = olm_ops::suggested_namespace(std::slice::from_ref(self.loaded), &self.package.name);
        // A package name may be invalid as a namespace name.
        if is_dns_label(&name) { name } else { "operators".into() }
    }

    /// Deprecation messages of the package, the channel and the bundle.
    pub(crate) fn deprecated(&self) -> Vec<String> {
        let of = [&self.package.deprecated, &self.channel.deprecated, &self.bundle.deprecated];
        of.into_iter().flatten().map(|text| clean(text)).collect()
    }

    pub(crate) fn href(&self, page: &str) -> String {
        format!("/{page}/{}/{}", encode(&self.source.id), encode(&self.package.name))
    }
}

pub(crate) fn version_of(bundle: &BundleEntry) -> String {
    bundle.version.as_ref().map_or_else(|| bundle.name.clone(), ToString::to_string)
}

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    source: String,
    package: String,
    display_name: String,
    provider: String,
    default_channel: String,
    channel: String,
    version: String,
    bundle: String,
    capability: String,
    channels: Vec<ChannelModel>,
    /// Markdown.
    description: String,
    install_modes: Vec<String>,
    min_kube_version: Option<String>,
    suggested_namespace: String,
    apis: Vec<Api>,
    required: Vec<String>,
    /// Absent when the catalog does not contain the bundle's manifests.
    permissions: Option<Vec<PermissionRow>>,
    images: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_image: Option<CatalogImage>,
    links: Vec<(String, String)>,
    maintainers: Vec<String>,
    deprecated: Vec<String>,
    installed: Vec<Installed>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChannelModel {
    name: String,
    head: Option<String>,
    versions: Vec<String>,
    deprecated: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Api {
    name: String,
    kind: String,
    version: String,
    display_name: String,
    description: String,
}

#[derive(Serialize)]
struct PermissionRow {
    scope: &'static str,
    verbs: String,
    on: String,
}

/// `GET /catalog/{source}/{package}`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    mut caller: Caller,
    Path((source, package)): Path<(String, String)>,
    Query(selection): Query<Selection>,
) -> Result<Response, WebError> {
    let (snapshot, installed) =
        tokio::join!(app.catalogs.read(&caller.identity), olm_ops::list_installed(&caller.client, None));
    let mut installed = installed.unwrap_or_default();
    caller.set_installed(&installed);
    if let Some(unchanged) = caller.confirm(&snapshot, Some(&installed)) {
        return Ok(unchanged);
    }
    let whole = read(&snapshot, &source, &package).await?;
    let found = Found::find(&snapshot, &source, &whole, &selection)?;
    let metadata = found.bundle.csv_metadata().unwrap_or_default();
    installed.retain(|i| i.package == found.package.name);
    let image = snapshot.loaded_of(found.source).and_then(|loaded| loaded.image.clone());
    let model = model(&found, &metadata, installed, image);
    let body = view(&model, &found);
    Ok(caller.answer(Page::new(&model.display_name, Section::Catalog, body).revalidated(), &model))
}

fn model(
    found: &Found<'_>,
    metadata: &CsvMetadata,
    installed: Vec<Installed>,
    catalog_image: Option<CatalogImage>,
) -> Model {
    let Found { package, channel, bundle, .. } = found;
    let inline = bundle.is_inline().then(|| bundle.bundle().ok()).flatten();
    let crds = |key: &str| -> Vec<CrdDescription> {
        let list = metadata.crd_descriptions.get(key).cloned().unwrap_or_default();
        serde_json::from_value(list).unwrap_or_default()
    };
    let mut apis: Vec<Api> = crds("owned")
        .into_iter()
        .map(|d| Api {
            display_name: clean(d.display_name.as_deref().unwrap_or(&d.kind)),
            description: clean(d.description.as_deref().unwrap_or_default()),
            name: d.name,
            kind: clean(&d.kind),
            version: d.version,
        })
        .collect();
    apis.sort_by(|a, b| a.kind.cmp(&b.kind));
    let modes = metadata.install_modes.as_array().into_iter().flatten().filter(|m| m["supported"] == true);
    let channels = package.channels.values().map(|c| ChannelModel {
        name: c.name.clone(),
        head: c.head().and_then(|head| package.bundles.get(&head.name)).map(version_of),
        versions: Found::bundles_of(package, c).into_iter().map(version_of).collect(),
        deprecated: c.deprecated.clone(),
    });
    let mut images: Vec<String> = bundle.related_images.iter().map(|i| clean(&i.image)).collect();
    images.sort();
    images.dedup();
    Model {
        source: found.source.id.clone(),
        package: package.name.clone(),
        display_name: display_name(metadata, &package.name),
        provider: clean(&metadata.provider.name),
        default_channel: package.default_channel.clone(),
        channel: channel.name.clone(),
        version: version_of(bundle),
        bundle: bundle.name.clone(),
        capability: metadata.annotations.get("capabilities").map(|w| clean(w)).unwrap_or_default(),
        channels: channels.collect(),
        description: if metadata.description.is_empty() {
            package.description.clone()
        } else {
            metadata.description.clone()
        },
        install_modes: modes.filter_map(|m| m["type"].as_str().map(clean)).collect(),
        min_kube_version: metadata.min_kube_version.as_deref().map(clean),
        suggested_namespace: found.default_namespace(),
        apis,
        required: crds("required").into_iter().map(|d| clean(&d.kind)).collect(),
        permissions: inline.map(|bundle| rights(&bundle)),
        images,
        catalog_image,
        links: metadata.links.iter().map(|l| (clean(&l.name), clean(&l.url))).collect(),
        maintainers: metadata.maintainers.iter().map(|p| clean(&p.name)).filter(|n| !n.is_empty()).collect(),
        deprecated: found.deprecated(),
        installed,
    }
}

fn rights(bundle: &olm_bundle::Bundle) -> Vec<PermissionRow> {
    let spec = &bundle.csv.spec.install.spec;
    let all = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(", ");
    let mut out = Vec::new();
    for (scope, permissions) in [("cluster", &spec.cluster_permissions), ("namespace", &spec.permissions)] {
        for rule in permissions.iter().flat_map(|p| &p.rules) {
            let mut on = match (&rule.resources, &rule.non_resource_urls) {
                (Some(resources), _) if !resources.is_empty() => resources.join(", "),
                _ => all(&rule.non_resource_urls),
            };
            if let Some(groups) = &rule.api_groups
                && groups.iter().any(|g| !g.is_empty())
            {
                on = format!(
                    "{on} ({})",
                    groups
                        .iter()
                        .map(|g| if g.is_empty() { "core" } else { g })
                        .collect::<Vec<_>>()
                        .join(", ")
                );
            }
            if let Some(names) = rule.resource_names.as_ref().filter(|n| !n.is_empty()) {
                on = format!("{on} named {}", names.join(", "));
            }
            out.push(PermissionRow { scope, verbs: clean(&rule.verbs.join(", ")), on: clean(&on) });
        }
    }
    out
}

fn view(model: &Model, found: &Found<'_>) -> Markup {
    html! {
        (heading(found, &model.display_name, &model.installed, PackagePage::Overview))
        div.split {
            div.stack {
                section.panel aria-labelledby="about" {
                    header { h2 #about { "About" } }
                    div.body {
                        @if model.description.trim().is_empty() { p.muted { "No description." } }
                        @else { div.prose { (PreEscaped(markdown::to_html(&model.description))) } }
                    }
                }
                (versions(model, found))
                (apis(model))
                (permissions(model))
            }
            (facts(model, found))
        }
    }
}

fn versions(model: &Model, found: &Found<'_>) -> Markup {
    let chain = found.channel.chain();
    let installed = |name: &str| model.installed.iter().any(|i| i.csv.as_deref() == Some(name));
    let shown = 12;
    html! {
        section.panel aria-labelledby="versions-h" {
            header {
                h2 #versions-h { "Versions" }
                @if model.channels.len() > 1 { span.small.muted { "in channel " strong { (clean(&model.channel)) } } }
            }
            div.body.stack-s {
                @if chain.is_empty() {
                    p.muted { "This channel has no single head; its versions are not installable." }
                } @else {
                    p.small.muted { "Upgrade path, oldest version first." }
                    ol.chain tabindex="0" aria-label="Upgrade path" {
                        @for (i, entry) in chain.iter().take(shown).enumerate().collect::<Vec<_>>().into_iter().rev() {
                            @let bundle = found.package.bundles.get(&entry.name);
                            @let version = bundle.map_or_else(|| entry.name.clone(), version_of);
                            li.{ @if i == 0 { "head-v" } @if installed(&entry.name) { " is-installed" } } {
                                span.dot aria-hidden="true" {
                                    @if installed(&entry.name) { (Glyph::Check.draw()) } @else if i == 0 { (Glyph::Star.draw()) } @else { (Glyph::Dot.draw()) }
                                }
                                a href={ (found.href("catalog")) "?channel=" (encode(&model.channel)) "&version=" (encode(&version)) }
                                    aria-current=[(entry.name == model.bundle).then_some("true")] { (clean(&version)) }
                                span.small.muted {
                                    @if i == 0 { "newest" }
                                    @if installed(&entry.name) { @if i == 0 { ", " } "installed" }
                                    @if bundle.is_some_and(|b| b.deprecated.is_some()) { "deprecated" }
                                }
                            }
                        }
                    }
                    p.small.muted {
                        @if chain.len() > shown { "and " (chain.len() - shown) " older. " }
                        a href={ (found.href("catalog")) "/versions" } { "Upgrade graph and all versions" }
                    }
                }
            }
            (channels(model, found))
        }
    }
}

fn channels(model: &Model, found: &Found<'_>) -> Markup {
    let row = |channel: &ChannelModel| {
        let name = clean(&channel.name);
        Row::new(vec![
            html! {
                @if channel.name == model.channel { (name) }
                @else { a href={ (found.href("catalog")) "?channel=" (encode(&channel.name)) } { (name) } }
                @if channel.name == model.default_channel { span.sub { " default" } }
                @if channel.deprecated.is_some() { " " (parts::state(Tone::Warn, "Deprecated")) }
            },
            html! { (channel.head.as_deref().unwrap_or("none")) },
            html! { (channel.versions.len()) },
        ])
    };
    let columns = [
        Column::new("Channel").with_class("clip"),
        Column::new("Newest").with_class(table::NUMBER),
        Column::new("Versions").with_class(table::NUMBER),
    ];
    let rows: Vec<Row> = model.channels.iter().map(row).collect();
    table::show(Style::Values, "Channels", &columns, &rows)
}

fn apis(model: &Model) -> Markup {
    html! {
        section.panel aria-labelledby="apis" {
            header { h2 #apis { "Provided kinds" } }
            @if model.apis.is_empty() {
                div.body { p.muted { "No custom resources." } }
            } @else {
                ul.rows {
                    @for api in &model.apis {
                        li { div.grow {
                            strong { (api.display_name) }
                            @if !api.description.is_empty() { p.muted.small { (api.description) } }
                            code.muted { (api.kind) " · " (clean(&api.name)) "/" (clean(&api.version)) }
                        } }
                    }
                }
            }
        }
    }
}

fn permissions(model: &Model) -> Markup {
    html! {
        section.panel aria-labelledby="rights" {
            header { h2 #rights { "Permissions" } }
            @match &model.permissions {
                None => div.body { p.muted { "The catalog contains only the bundle image of this version; the install page shows its permissions." } },
                Some(rights) if rights.is_empty() => div.body { p.muted { "No permissions requested." } },
                Some(rights) => (rules(rights)),
            }
        }
    }
}

fn rules(rights: &[PermissionRow]) -> Markup {
    let row = |right: &PermissionRow| {
        let scope = if right.scope == "cluster" { "watched namespaces or cluster" } else { "its namespace" };
        Row::new(vec![html! { (right.on) }, html! { (right.verbs) }, html! { (scope) }])
    };
    let columns = [
        Column::new("Resources").with_class("clip"),
        Column::new("Verbs"),
        Column::new("Scope").with_class("nowrap"),
    ];
    let rows: Vec<Row> = rights.iter().map(row).collect();
    table::show(Style::Values, "Permissions requested by the operator", &columns, &rows)
}

fn facts(model: &Model, found: &Found<'_>) -> Markup {
    html! {
        aside.panel aria-label="Facts" {
            div.body {
                dl.facts {
                    @if !model.capability.is_empty() { div { dt { "Capability level" } dd { (parts::capability(&model.capability)) } } }
                    div { dt { "Version" } dd { (model.version) } }
                    div { dt { "Catalog" } dd { (found.source.display_name) } }
                    @if let Some(image) = &model.catalog_image {
                        div { dt { "Catalog image" } dd { code { (clean(&image.reference)) } } }
                        @if let Some(signer) = &image.signer { div { dt { "Signed by" } dd { (clean(signer)) } } }
                    }
                    div { dt { "Package" } dd { code { (model.package) } } }
                    @if !model.install_modes.is_empty() {
                        div { dt { "Install modes" } dd { (model.install_modes.iter().map(|m| mode(m)).collect::<Vec<_>>().join(", ")) } }
                    }
                    @if let Some(version) = &model.min_kube_version { div { dt { "Kubernetes version" } dd { (version) " or newer" } } }
                    @if !model.required.is_empty() { div { dt { "Required kinds" } dd { (model.required.join(", ")) } } }
                    @if !model.maintainers.is_empty() { div { dt { "Maintainers" } dd { (model.maintainers.join(", ")) } } }
                    @if !model.links.is_empty() {
                        div { dt { "Links" } dd {
                            ul.plain {
                                @for (name, url) in &model.links {
                                    li {
                                        @match links::safe(url) {
                                            Some(safe) => {
                                                a href=(safe) rel="noopener noreferrer" { (if name.is_empty() { url } else { name }) }
                                                " " span.external { (Glyph::External.draw()) }
                                                @if let Some(host) = links::host(&safe) { " " span.small.muted { (host) } }
                                            }
                                            None => (name),
                                        }
                                    }
                                }
                            }
                        } }
                    }
                    @if !model.images.is_empty() {
                        div { dt { "Images" } dd { ul.plain { @for image in &model.images { li { code { (image) } } } } } }
                    }
                }
            }
        }
    }
}

fn mode(mode: &str) -> &str {
    match mode {
        "AllNamespaces" => "all namespaces",
        "OwnNamespace" => "its own namespace",
        "SingleNamespace" => "one other namespace",
        "MultiNamespace" => "several namespaces",
        other => other,
    }
}
