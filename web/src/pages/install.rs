//! Installation: a short form with defaults, and a preview of the plan.

mod config;
mod fields;
mod watch;

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use kube::api::ObjectMeta;
use maud::{Markup, html};
use olm_api::{Subscription, subscription::Approval};
use olm_engine::catalogs::CatalogRef;
use olm_kube_schema::names::is_dns_label;
use olm_ops::InstallRequest;
use olm_plan::{Plan, PlanAction, without_secrets};
use serde::Serialize;
use serde_json::json;

use self::{
    config::ConfigForm,
    watch::{WatchForm, WatchView},
};
use super::package::{self, Found, Selection, version_of};
use crate::{
    app::App,
    caller::{Caller, Page},
    catalogs::Snapshot,
    dynamic,
    error::WebError,
    links::{clean, encode, word},
    posted::{Fields, Posted},
    rights::{self, Right},
    view::{
        field,
        layout::Section,
        parts::{self, Tone},
        plan,
    },
};

/// Which versions the Subscription may select.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Those of the channel.
    Follow,
    /// Those of the channel in a range.
    Range,
    /// The selected version only.
    Pin,
}

/// Submitted fields.
struct Form {
    selection: Selection,
    namespace: String,
    /// Whether plans wait for approval, where the user chose.
    manual: Option<bool>,
    policy: Policy,
    range: String,
    watch: WatchForm,
    config: ConfigForm,
}

impl Form {
    fn read(fields: &Fields) -> Self {
        let text = |name: &str| fields.text(name).map(str::to_owned);
        Self {
            selection: Selection { channel: text("channel"), version: text("version") },
            namespace: text("namespace").unwrap_or_default(),
            manual: fields.text("updates").map(|updates| updates == "manual"),
            policy: match fields.text("policy") {
                Some("range") => Policy::Range,
                Some("pin") => Policy::Pin,
                _ => Policy::Follow,
            },
            range: text("range").unwrap_or_default(),
            watch: WatchForm::read(fields),
            config: ConfigForm::read(fields),
        }
    }

    /// The version or range of the Subscription.
    fn version(&self, found: &Found<'_>) -> Option<String> {
        match self.policy {
            Policy::Follow => None,
            Policy::Range => Some(self.range.clone()),
            Policy::Pin => Some(version_of(found.bundle)),
        }
    }
}

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    request: InstallRequest,
    command: String,
    /// The Subscription that results.
    subscription: serde_json::Value,
    /// Settings of an existing Subscription that the request does not change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retained: Vec<String>,
    /// Whether plans of the resulting Subscription wait for approval.
    #[serde(skip)]
    manual: bool,
    /// The OperatorGroup that is created before the Subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_group: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Why the package cannot be installed like this.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    /// Deprecation messages of the package, the channel and the version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deprecated: Vec<String>,
}

/// `GET /install/{source}/{package}`: the form and the plan. The query fills in the form, except the configuration:
/// URLs are logged, and values of environment variables may be secret.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((source, package)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    let form = Form { config: ConfigForm::default(), ..Form::read(&fields) };
    show(&app, &caller, &source, &package, &form, None).await
}

/// `POST /install/{source}/{package}/preview`: the form and the plan of the submitted fields.
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    Path((source, package)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    show(&app, &caller, &source, &package, &Form::read(&fields), None).await
}

/// `POST /install/{source}/{package}`: installs the package.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Path((source, package)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let form = Form::read(&fields);
    let snapshot = app.catalogs.read(&caller.identity).await;
    let whole = package::read(&snapshot, &source, &package).await?;
    let found = Found::find(&snapshot, &source, &whole, &form.selection)?;
    let request = request(&found, &form, &caller).await;
    let done = match check(&request, &form) {
        Err(error) => Err(error),
        Ok(()) => olm_ops::install(&caller.client, &snapshot.loaded, &request).await.map_err(WebError::from),
    };
    match done {
        Ok(result) => {
            let to = format!("/installed/{}/{}", encode(&result.namespace), encode(&result.subscription));
            if caller.wants_json {
                let headers = [(http::header::LOCATION, to)];
                return Ok((StatusCode::CREATED, headers, axum::Json(json!(result))).into_response());
            }
            Ok(Redirect::to(&to).into_response())
        }
        Err(error) if caller.wants_json || error.status == StatusCode::UNAUTHORIZED => Err(error),
        // Render the form again with the submitted values.
        Err(error) => show(&app, &caller, &source, &package, &form, Some(error)).await,
    }
}

async fn request(found: &Found<'_>, form: &Form, caller: &Caller) -> InstallRequest {
    let namespace =
        if form.namespace.is_empty() { found.default_namespace() } else { form.namespace.clone() };
    let (namespace_of, name_of) = found.source.id.split_once('.').unwrap_or(("", &found.source.id));
    let exists = !is_dns_label(&namespace) || dynamic::namespace_exists(&caller.client, &namespace).await;
    // An older version is a starting point; automatic approval would upgrade it within a minute.
    let starts = form.policy == Policy::Follow && !found.newest;
    InstallRequest {
        package: found.package.name.clone(),
        catalog: Some(CatalogRef { namespace: namespace_of.to_owned(), name: name_of.to_owned() }),
        channel: Some(found.channel.name.clone()),
        starting_csv: starts.then(|| found.bundle.name.clone()),
        version: form.version(found),
        manual: if starts { Some(true) } else { form.manual },
        create_namespace: !exists,
        // An invalid one is refused by `check`.
        watch: form.watch.scope(&namespace).ok().flatten(),
        namespace,
        config: form.config.value(),
        ..InstallRequest::default()
    }
}

fn check(request: &InstallRequest, form: &Form) -> Result<(), WebError> {
    if let Some(why) = namespace_problem(request) {
        return Err(invalid("invalid-namespace", "Invalid namespace", why)
            .hint("use lower-case letters, digits and hyphens, at most 63 of them"));
    }
    if let Some(why) = range_problem(request) {
        return Err(invalid("invalid-version", "Invalid version range", why)
            .hint("enter a range such as `>=0.10.0 <0.12.0`"));
    }
    if let Err(why) = form.watch.scope(&request.namespace) {
        return Err(invalid("invalid-watch", "Invalid namespaces to watch", clean(&why))
            .hint("enter the names of namespaces, separated by commas"));
    }
    if let Some(why) = form.config.problems().into_values().next() {
        return Err(invalid("invalid-config", "Invalid setting", why));
    }
    Ok(())
}

fn invalid(code: &'static str, what: &str, why: String) -> WebError {
    WebError::new(StatusCode::UNPROCESSABLE_ENTITY, code, what, why)
}

fn namespace_problem(request: &InstallRequest) -> Option<String> {
    let name = &request.namespace;
    (!is_dns_label(name)).then(|| format!("`{}` is not a valid namespace name", clean(name)))
}

fn range_problem(request: &InstallRequest) -> Option<String> {
    match request.version.as_deref()? {
        "" => Some("the range is missing".to_owned()),
        version => olm_ops::check_version(version).err().map(|why| clean(&why)),
    }
}

async fn show(
    app: &App,
    caller: &Caller,
    source: &str,
    package: &str,
    form: &Form,
    failed: Option<WebError>,
) -> Result<Response, WebError> {
    let snapshot: Arc<Snapshot> = app.catalogs.read(&caller.identity).await;
    // The newly selected channel may lack the version: fall back to the newest of that channel.
    let whole = package::read(&snapshot, source, package).await?;
    let found = match Found::find(&snapshot, source, &whole, &form.selection) {
        Err(_) if form.selection.version.is_some() => {
            let selection = Selection { channel: form.selection.channel.clone(), version: None };
            Found::find(&snapshot, source, &whole, &selection)?
        }
        found => found?,
    };
    let request = request(&found, form, caller).await;
    let preview = async {
        check(&request, form)?;
        let requested = olm_ops::requested_subscription(&caller.client, &snapshot.loaded, &request).await?;
        let scope = request.watch.as_ref();
        let plan = olm_ops::preview_scoped(&caller.client, &snapshot.loaded, &requested, scope).await;
        Ok::<_, WebError>((requested, plan.map_err(WebError::from)))
    };
    let rights = needed_rights(&request);
    let (preview, namespaces, groups, missing) = tokio::join!(
        preview,
        dynamic::namespaces(&caller.client),
        watch::groups(&caller.client, &request.namespace),
        rights::all_missing(&caller.client, &rights)
    );
    let (requested, preview) = match preview {
        Ok((requested, plan)) => (Some(requested), plan),
        Err(error) => (None, Err(error)),
    };
    if let Err(error) = &preview
        && error.status == StatusCode::UNAUTHORIZED
    {
        return Err(error.clone());
    }
    let catalog = request
        .catalog
        .clone()
        .unwrap_or_else(|| CatalogRef { namespace: String::new(), name: String::new() });
    let watch = WatchView::new(&form.watch, &request, &found, groups, &namespaces);
    let (plan, problem) = match preview {
        Ok(plan) => (Some(plan), None),
        Err(error) => (None, Some(error)),
    };
    let why_not = missing.or_else(|| match &plan {
        Some(plan) if plan.is_blocked() => Some("A finding of the plan blocks the installation.".to_owned()),
        Some(_) => None,
        None => Some("There is no plan for this installation.".to_owned()),
    });
    let result = requested.unwrap_or_else(|| request.subscription(&catalog));
    let model = Model {
        command: command(&request, &result, form, &found, &snapshot),
        deprecated: found.deprecated(),
        retained: retained(&request, &result),
        subscription: shown(&result),
        manual: result.spec.install_plan_approval == Approval::Manual,
        operator_group: watch.new_group.as_ref().map(|group| json!(group)),
        plan,
        problem: problem.as_ref().map(|p| p.why.clone()),
        hint: problem.as_ref().and_then(|p| p.hint.clone()),
        why_not,
        request,
    };
    let body = view(&model, &found, form, &watch, &namespaces, caller, failed.as_ref());
    let title = format!("Install {}", found.card.display_name);
    let status = failed.as_ref().map_or(StatusCode::OK, |f| f.status);
    Ok(caller.answer(Page::new(&title, Section::Catalog, body).status(status), &model))
}

/// Whether a Subscription exists already, and the installation changes it.
fn exists(result: &Subscription) -> bool {
    result.metadata.uid.is_some()
}

/// The resulting Subscription as a manifest. The settings of an existing one may contain credentials.
fn shown(result: &Subscription) -> serde_json::Value {
    let metadata = ObjectMeta {
        name: result.metadata.name.clone(),
        namespace: result.metadata.namespace.clone(),
        labels: result.metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    let manifest = json!(Subscription { metadata, spec: result.spec.clone(), status: None });
    if exists(result) { without_secrets(&manifest) } else { manifest }
}

/// Settings of an existing Subscription that the request does not name.
fn retained(request: &InstallRequest, result: &Subscription) -> Vec<String> {
    let spec = &result.spec;
    let version = spec.version.as_ref().filter(|_| request.version.is_none());
    let starting = spec.starting_csv.as_ref().filter(|_| request.starting_csv.is_none());
    let config = spec.config.as_ref().filter(|_| request.config.is_none());
    let skipped = (!spec.skip_versions.is_empty()).then(|| spec.skip_versions.join(", "));
    let settings = [
        version.map(|version| format!("spec.version {}", clean(version))),
        starting.map(|name| format!("spec.startingCSV {}", clean(name))),
        config.map(|_| "spec.config".to_owned()),
        skipped.map(|versions| format!("spec.skipVersions {}", clean(&versions))),
        spec.paused.then(|| "spec.paused".to_owned()),
    ];
    if exists(result) { settings.into_iter().flatten().collect() } else { Vec::new() }
}

/// The rights that the installation takes, apart from those of the plan.
fn needed_rights(request: &InstallRequest) -> Vec<Right<'_>> {
    if !is_dns_label(&request.namespace) {
        return Vec::new();
    }
    let of_olm = ["list", "create"].map(|verb| Right::of_olm(verb, "subscriptions", &request.namespace));
    let namespace = Right { verb: "create", group: "", plural: "namespaces", namespace: None };
    of_olm.into_iter().chain(request.create_namespace.then_some(namespace)).collect()
}

/// The equivalent command line.
fn command(
    request: &InstallRequest,
    result: &Subscription,
    form: &Form,
    found: &Found<'_>,
    snapshot: &Snapshot,
) -> String {
    let mut out = format!("olm install {} -n {}", word(&request.package), word(&request.namespace));
    let name = &request.package;
    let several = snapshot.sources.iter().filter(|source| source.card(name).is_some()).count() > 1;
    if let Some(catalog) = request.catalog.as_ref().filter(|_| several) {
        let catalog = format!("{}/{}", catalog.namespace, catalog.name);
        out.push_str(&format!(" --catalog {}", word(&catalog)));
    }
    if found.channel.name != found.package.default_channel {
        out.push_str(&format!(" --channel {}", word(&found.channel.name)));
    }
    let older = || (!found.newest).then(|| version_of(found.bundle));
    if let Some(version) = request.version.clone().or_else(older) {
        out.push_str(&format!(" --version {}", word(&version)));
    }
    match request.manual {
        Some(true) => out.push_str(" --approval manual"),
        // A new Subscription has this default, an existing one may have the other.
        Some(false) if exists(result) => out.push_str(" --approval automatic"),
        _ => {}
    }
    if !request.create_namespace {
        out.push_str(" --no-create-namespace");
    }
    if let Some(scope) = &request.watch {
        out.push_str(&watch::flags(scope));
    }
    for (_, setting) in form.config.assignments() {
        out.push_str(&format!(" --set-config {}", word(&setting)));
    }
    out
}

/// The objects that the installation creates.
fn yaml(model: &Model) -> String {
    let objects = model.operator_group.iter().chain([&model.subscription]);
    objects.map(dynamic::yaml).collect::<Vec<_>>().join("---\n")
}

fn view(
    model: &Model,
    found: &Found<'_>,
    form: &Form,
    watch: &WatchView,
    namespaces: &[String],
    caller: &Caller,
    failed: Option<&WebError>,
) -> Markup {
    let name = &found.card.display_name;
    let blocked = model.plan.as_ref().is_none_or(Plan::is_blocked);
    let is_there = model.plan.as_ref().is_some_and(|plan| plan.action == PlanAction::None);
    html! {
        (parts::crumbs(&[("/catalog", "Catalog"), (&found.href("catalog"), name)], "Install"))
        div.head {
            (parts::icon(found.card.icon.as_deref(), name, ""))
            div.head-text {
                h1 { "Install " (name) }
                p.muted { "Review the plan, then press Install. The defaults suit most installations." }
            }
        }
        @if let Some(failed) = failed {
            (parts::alert(&failed.what, &failed.why, failed.hint.as_deref()))
            br;
        }
        form.split-form.install method="post" action=(found.href("install")) data-preview="plan" {
            div.panel { div.body.stack {
                (parts::csrf(caller.csrf()))
                (fields::deprecation("package-note", found.package.deprecated.as_deref()))
                (fields::channel_and_version(found, form))
                (fields::version_policy(form, range_problem(&model.request).as_deref()))
                (fields::namespace(&model.request, namespaces))
                (watch.fieldset(&form.watch, &model.request.namespace))
                fieldset.field #updates {
                    legend { "Updates" }
                    (field::radio("updates", "automatic", !model.manual, &html! { "Automatic" },
                        &html! { "New versions in the channel are installed automatically." }))
                    (field::radio("updates", "manual", model.manual, &html! { "Manual" },
                        &html! { "Every plan requires approval, including the first." }))
                }
                (fields::config(&form.config))
                // The script replaces these two with those of the next preview.
                div #install-why { @if let Some(why) = &model.why_not { (parts::note(Tone::Warn, &html! { (clean(why)) })) } }
                div.actions {
                    span #install-action { button.button.primary #install disabled[model.why_not.is_some()] { "Install" } }
                    button.button #update-plan formaction={ (found.href("install")) "/preview" } data-no-script="" { "Update plan" }
                    a.button.quiet href=(found.href("catalog")) { "Cancel" }
                }
            } }
            div.stack {
                section.panel #plan aria-labelledby="plan-h" aria-live="polite" {
                    header {
                        h2 #plan-h { "Plan" }
                        @if is_there { (parts::chip(Tone::Good, Tone::Good.glyph(), "Already installed")) }
                        @if blocked { (parts::chip(Tone::Bad, Tone::Bad.glyph(), "Blocked")) }
                    }
                    div.body {
                        @if !model.retained.is_empty() {
                            (parts::note(Tone::Info, &html! {
                                "The package has a Subscription in this namespace. It keeps settings that the form does not change: "
                                (model.retained.join("; ")) "."
                            }))
                        }
                        @match (&model.plan, &model.problem) {
                            (Some(plan), _) => (plan::show(plan)),
                            (None, problem) => {
                                (parts::note(Tone::Bad, &html! {
                                    @let why = problem.as_deref().map(clean).unwrap_or_default();
                                    strong { "No plan. " }
                                    (parts::explained(&why))
                                    @if let Some(hint) = &model.hint { p.small { "Hint: " (parts::prose(&clean(hint))) } }
                                }))
                            }
                        }
                    }
                }
                details.fold #cli {
                    summary { "Command and YAML" }
                    div.body {
                        (parts::copyable("copy-command", "Command", &model.command))
                        (parts::copyable("copy-yaml", "YAML", &yaml(model)))
                    }
                }
            }
        }
    }
}
