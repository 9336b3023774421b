//! The form that adds a catalog. The console does not read the source: the manager does, after the CatalogSource
//! exists.

use std::collections::BTreeMap;

use axum::{
    extract::RawQuery,
    response::{IntoResponse as _, Redirect, Response},
};
use http::StatusCode;
use maud::{Markup, html};
use olm_api::{CatalogSource, CatalogSourceSpec};
use olm_engine::site::manager_namespace;
use olm_kube_schema::names::{is_dns_label, is_dns_subdomain};
use olm_ops::{
    Error,
    catalogs::{
        self, CATALOG_EXISTS, ClusterCatalog, KNOWN, RequestedCatalog, SourceRefusal, has_credentials,
    },
};
use serde_json::json;

use crate::{
    caller::{Caller, Page},
    dynamic,
    error::WebError,
    links::{clean, encode, word},
    posted::{Fields, Posted},
    rights,
    view::{
        banner,
        field::{Field, described_by},
        layout::Section,
        parts::{self, Tone, sentence},
    },
};

/// URL of the form.
pub(crate) fn href(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("/catalogs/new?namespace={}", encode(namespace)),
        None => "/catalogs/new".to_owned(),
    }
}

/// The fields as the user typed them.
#[derive(Default)]
struct Form {
    source: String,
    name: String,
    namespace: String,
    priority: String,
    secrets: String,
}

/// By the name of the field.
type Problems = BTreeMap<&'static str, String>;

/// The CatalogSource of a valid form, and the equivalent command line.
struct Request {
    object: CatalogSource,
    command: String,
}

/// The state of the page.
#[derive(Default)]
struct State {
    form: Form,
    request: Option<Request>,
    problems: Problems,
    /// What to do about a refused source.
    hints: Vec<String>,
    failed: Option<WebError>,
    /// The result of a validation by the API server.
    checked: Option<&'static str>,
    /// Why the user cannot add a catalog to the namespace.
    why_not: Option<String>,
    namespaces: Vec<String>,
}

impl Form {
    fn read(fields: &Fields) -> Self {
        let text = |name: &str| fields.text(name).unwrap_or_default().to_owned();
        let mut form = Self {
            source: text("source"),
            name: text("name"),
            namespace: text("namespace"),
            priority: text("priority"),
            secrets: text("secrets"),
        };
        if form.namespace.is_empty() {
            form.namespace = manager_namespace().to_owned();
        }
        form
    }

    /// The object, or the problems of the fields with hints for a refused source.
    fn request(&self) -> Result<Request, (Problems, Vec<String>)> {
        let mut problems = Problems::new();
        let mut hints = Vec::new();
        let requested = RequestedCatalog::parse(&self.source).unwrap_or_else(|refusal| {
            problems.insert("source", why(&refusal));
            hints = refusal.hints();
            RequestedCatalog { name: None, spec: CatalogSourceSpec::default() }
        });
        let name = if self.name.is_empty() { requested.name.clone() } else { Some(self.name.clone()) };
        match &name {
            Some(name) if !is_dns_label(name) => {
                let text =
                    format!("`{name}` is not a valid name, expected lower-case letters, digits and `-`");
                problems.insert("name", text);
            }
            None if !problems.contains_key("source") => {
                problems.insert("name", "required: the source suggests no valid name".to_owned());
            }
            _ => {}
        }
        if !is_dns_label(&self.namespace) {
            problems.insert("namespace", format!("`{}` is not a valid namespace name", self.namespace));
        }
        let priority = match self.priority.as_str() {
            "" => 0,
            text => text.parse().unwrap_or_else(|_| {
                problems
                    .insert("priority", format!("`{text}` is not a number, expected one such as 10 or -5"));
                0
            }),
        };
        let secrets: Vec<String> =
            self.secrets.split([',', ' ']).filter(|secret| !secret.is_empty()).map(str::to_owned).collect();
        if let Some(secret) = secrets.iter().find(|secret| !is_dns_subdomain(secret)) {
            problems.insert("secrets", format!("`{secret}` is not a valid name of a Secret"));
        }
        let (Some(name), true) = (name, problems.is_empty()) else { return Err((problems, hints)) };
        let command = self.command(&name, requested.name.as_deref(), priority, &secrets);
        let spec = CatalogSourceSpec { priority, secrets, ..requested.spec };
        let mut object = CatalogSource::new(&name, spec);
        object.metadata.namespace = Some(self.namespace.clone());
        Ok(Request { object, command })
    }

    fn command(&self, name: &str, suggested: Option<&str>, priority: i32, secrets: &[String]) -> String {
        let mut command = format!("olm catalog add {}", word(&self.source));
        if suggested != Some(name) {
            command.push_str(&format!(" --name {name}"));
        }
        if self.namespace != manager_namespace() {
            command.push_str(&format!(" -n {}", self.namespace));
        }
        if priority != 0 {
            command.push_str(&format!(" --priority {priority}"));
        }
        for secret in secrets {
            command.push_str(&format!(" --pull-secret {}", word(secret)));
        }
        command
    }
}

/// The reason of a refusal, for users of a browser.
fn why(refusal: &SourceRefusal) -> String {
    match refusal {
        SourceRefusal::Empty => "required".to_owned(),
        SourceRefusal::Local(text) => {
            format!("{text} is a path: the manager in the cluster does not read files of your machine")
        }
        refusal => refusal.to_string(),
    }
}

/// The text without a user and a password before the host, and without a query, which a page must not repeat.
fn without_credentials(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let rest = rest.split('?').next().unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let start = host.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}{}", &rest[start..])
}

/// `GET /catalogs/new`; the query can fill in the fields.
pub(crate) async fn page(mut caller: Caller, RawQuery(query): RawQuery) -> Result<Response, WebError> {
    let form = Form::read(&Fields::parse(query.unwrap_or_default().as_bytes()));
    if has_credentials(&form.source) {
        // The frame of the page contains its path.
        caller.path = href(None);
    }
    let mut state = State { form, ..State::default() };
    // An empty form has no problems yet.
    if !state.form.source.is_empty() {
        state.examine();
    }
    Ok(answer(&caller, state).await)
}

/// `POST /catalogs/new`: adds the catalog, or validates it only.
pub(crate) async fn submit(posted: Posted) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let dry_run = fields.text("action") == Some("check");
    let mut state = State { form: Form::read(&fields), ..State::default() };
    state.examine();
    if let Some(request) = &state.request {
        match catalogs::add(&caller.client, &request.object, dry_run).await {
            Ok(added) if dry_run => {
                state.checked = Some(match added.is_new {
                    true => "Validated by the API server. The catalog is not added yet.",
                    false => "The catalog already exists with this source.",
                });
            }
            Ok(added) => {
                let catalog = ClusterCatalog::of(&added.source);
                let to = super::href(&catalog.namespace, &catalog.name);
                if caller.wants_json {
                    let status = if added.is_new { StatusCode::CREATED } else { StatusCode::OK };
                    return Ok((status, [(http::header::LOCATION, to)], axum::Json(catalog)).into_response());
                }
                return Ok(Redirect::to(&to).into_response());
            }
            Err(error) => state.refused(error),
        }
    }
    if let Some(failed) = &state.failed
        && failed.status == StatusCode::UNAUTHORIZED
    {
        return Err(failed.clone());
    }
    Ok(answer(&caller, state).await)
}

impl State {
    fn examine(&mut self) {
        match self.form.request() {
            Ok(request) => self.request = Some(request),
            Err((problems, hints)) => (self.problems, self.hints) = (problems, hints),
        }
        if has_credentials(&self.form.source) {
            self.form.source = without_credentials(&self.form.source);
        }
    }

    /// Places the refusal of the API server beside its field, as far as it names one.
    fn refused(&mut self, error: Error) {
        if let Error::Kube { source, .. } = &error
            && let kube::Error::Api(status) = source.as_ref()
        {
            let of_namespace = status.details.as_ref().is_some_and(|details| details.kind == "namespaces");
            if status.code == 404 && of_namespace {
                let text = format!("namespace `{}` not found", self.form.namespace);
                self.problems.insert("namespace", text);
                return;
            }
            for cause in status.details.iter().flat_map(|details| &details.causes) {
                if let Some(field) = field_of(&cause.field) {
                    self.problems.insert(field, cause.message.clone());
                }
            }
            if matches!(status.code, 400 | 422) && !self.problems.is_empty() {
                return;
            }
        }
        if let Error::Refused { code, text, .. } = &error
            && code == CATALOG_EXISTS
        {
            self.problems.insert("name", text.clone());
        }
        self.failed = Some(error.into());
    }

    fn status(&self) -> StatusCode {
        match &self.failed {
            Some(failed) => failed.status,
            None if self.problems.is_empty() => StatusCode::OK,
            None => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

/// The field of the form for a field of the object.
fn field_of(path: &str) -> Option<&'static str> {
    match path {
        "metadata.name" => Some("name"),
        "metadata.namespace" => Some("namespace"),
        "spec.priority" => Some("priority"),
        "spec.sourceType" | "spec.image" | "spec.url" | "spec.address" => Some("source"),
        path if path.starts_with("spec.secrets") => Some("secrets"),
        _ => None,
    }
}

async fn answer(caller: &Caller, mut state: State) -> Response {
    let (namespaces, why_not) = tokio::join!(dynamic::namespaces(&caller.client), async {
        match is_dns_label(&state.form.namespace) {
            true => rights::missing(&caller.client, "create", "catalogsources", &state.form.namespace).await,
            false => None,
        }
    });
    state.namespaces = namespaces;
    state.why_not = why_not;
    let request = state.request.as_ref();
    let model = json!({
        "object": request.map(|request| &request.object),
        "command": request.map(|request| &request.command),
        "valid": state.checked.is_some(),
        "problems": state.problems,
        "hints": state.hints,
        "error": state.failed.as_ref().map(|failed| &failed.why),
        "whyNot": state.why_not,
    });
    let body = view(&state, caller.csrf());
    caller.answer(Page::new("Add a catalog", Section::Catalogs, body).status(state.status()), &model)
}

fn view(state: &State, csrf: &str) -> Markup {
    let blocked = state.why_not.is_some();
    html! {
        (parts::crumbs(&[("/catalogs", "Catalogs")], "Add"))
        div.head { div.head-text {
            h1 { "Add a catalog" }
            p.muted { "The manager reads the source after the catalog is added. The console does not." }
        } }
        form.split-form method="post" action="/catalogs/new" {
            div.panel { div.body.stack {
                (parts::csrf(csrf))
                // Enter in a field presses the first button of the form.
                button.visually-hidden name="action" value="add" tabindex="-1" aria-hidden="true" disabled[blocked] { "Add" }
                (problems(state))
                @if let Some(text) = state.checked { div role="status" { (parts::note(Tone::Good, &html! { (text) })) } }
                (fields(state))
                @if let Some(why) = &state.why_not {
                    (parts::note(Tone::Warn, &html! { (clean(why)) " To use another namespace, enter it and press Check." }))
                }
                div.actions {
                    button.button.primary #add name="action" value="add" disabled[blocked] { "Add" }
                    button.button name="action" value="check" { "Check" }
                    a.button.quiet href="/catalogs" { "Cancel" }
                }
            } }
            div.stack {
                @if let Some(request) = &state.request {
                    section.panel #preview aria-labelledby="preview-h" {
                        header { h2 #preview-h { "Command and YAML" } }
                        div.body.stack {
                            (parts::copyable("copy-command", "Command", &request.command))
                            (parts::copyable("copy-yaml", "YAML", &dynamic::yaml(&json!(request.object))))
                        }
                    }
                }
                (shortcuts(&state.form.namespace))
            }
        }
    }
}

/// The refusal of the API server, and the problems with links to their fields.
fn problems(state: &State) -> Markup {
    let labels = [
        ("source", "Source"),
        ("name", "Name"),
        ("namespace", "Namespace"),
        ("priority", "Priority"),
        ("secrets", "Pull secrets"),
    ];
    let item = |(field, label): (&'static str, &'static str)| {
        let text = state.problems.get(field)?;
        Some(html! { a href={ "#" (field) } { (label) } ": " (clean(text)) })
    };
    let items: Vec<Markup> = labels.into_iter().filter_map(item).collect();
    html! {
        @if let Some(failed) = &state.failed {
            (parts::alert(&failed.what, &sentence(&clean(&failed.why)), failed.hint.as_deref()))
        } @else if !items.is_empty() {
            (banner::problems(&format!("Not added: {}", parts::plural(items.len(), "problem")), &items))
        }
    }
}

fn fields(state: &State) -> Markup {
    let form = &state.form;
    let input = |id: &'static str, value: &str, list: Option<&str>| {
        let wrong = state.problems.get(id).map(|_| "true");
        html! {
            input type="text" id=(id) name=(id) value=(value) list=[list] autocomplete="off" spellcheck="false"
                aria-invalid=[wrong] aria-describedby=[described_by(id, true, wrong.is_some())];
        }
    };
    let field = |id: &'static str, label: &str, help: Markup, input: &Markup| {
        let problem = state.problems.get(id).map(String::as_str);
        Field::new(id, html! { (label) })
            .required(id == "source")
            .problem(problem)
            .help(Some(help))
            .show(input)
    };
    let source = html! {
        @if state.hints.is_empty() { "A known name, HOST/PATH:TAG of an image, https:// of catalog content, or grpc://HOST:PORT of a catalog server. No credentials." }
        @else { @for hint in &state.hints { (parts::prose(&clean(hint))) br; } }
    };
    let visible = html! { "In " (manager_namespace()) " visible from every namespace, elsewhere only from that namespace." };
    html! {
        (field("source", "Source", source, &input("source", &form.source, Some("known"))))
        datalist #known { @for known in KNOWN { option value=(known.name) { (known.display_name) } } }
        (field("name", "Name", html! { "Derived from the source when empty." }, &input("name", &form.name, None)))
        (field("namespace", "Namespace", visible, &input("namespace", &form.namespace, Some("namespaces"))))
        datalist #namespaces { @for namespace in &state.namespaces { option value=(namespace) {} } }
        (field("priority", "Priority", html! { "Among catalogs with the same package the highest is preferred. 0 when empty." }, &input("priority", &form.priority, None)))
        (field("secrets", "Pull secrets", html! { "Names of Secrets in the namespace, separated by commas." }, &input("secrets", &form.secrets, None)))
    }
}

/// Public catalogs with a short name.
fn shortcuts(namespace: &str) -> Markup {
    html! {
        section.panel #shortcuts aria-labelledby="shortcuts-h" {
            header { h2 #shortcuts-h { "Known catalogs" } }
            ul.rows {
                @for known in KNOWN {
                    li {
                        div.grow {
                            strong { (known.display_name) }
                            @if known.requires_pull_secret() { " " (parts::tag("pull secret required")) }
                            span.sub.line title=(known.image) { (known.image) }
                        }
                        a.button.slim href={ "/catalogs/new?source=" (encode(known.name)) "&namespace=" (encode(namespace)) } {
                            "Select" span.visually-hidden { " " (known.display_name) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_repeated() {
        for (typed, shown) in [
            ("https://me:hunter2@a.example/all?x=a@b", "https://a.example/all"),
            ("https://a.example/all?v=1&token=hunter2", "https://a.example/all"),
            ("me:hunter2@quay.io/a/b", "quay.io/a/b"),
            ("grpc://hunter2@x@a:1", "grpc://a:1"),
        ] {
            assert_eq!(without_credentials(typed), shown);
        }
    }
}
