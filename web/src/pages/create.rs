//! Creates an object from a form or from YAML, two views of one document.

use axum::{
    extract::{Path, Query},
    response::{IntoResponse, Redirect, Response},
};
use http::StatusCode;
use kube::{
    Resource as _,
    api::{DynamicObject, PostParams},
    core::Request,
};
use maud::{Markup, html};
use olm_api::{
    csv::{ClusterServiceVersion, SpecDescriptor},
    names::{ANNOTATION_ALM_EXAMPLES, ANNOTATION_TARGET_NAMESPACES},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    caller::{Caller, Page},
    dynamic::{self, CustomKind},
    error::WebError,
    form::{self, Field, Problems, Secrets},
    links::{clean, encode},
    posted::{Fields, Posted},
    rights::{self, Right},
    view::{
        banner,
        field::{Field as FormField, described_by},
        layout::Section,
        parts::{self, Tone},
        tabs::{self, Tab, Target},
    },
};

#[derive(Deserialize, Default)]
pub(crate) struct CreateQuery {
    ns: Option<String>,
    view: Option<String>,
}

/// The data of the kind.
struct KindData {
    kind: CustomKind,
    title: String,
    about: String,
    descriptors: Vec<SpecDescriptor>,
    fields: Vec<Field>,
    example: Value,
    /// A namespace that the operator watches.
    home: Option<String>,
    namespaces: Vec<String>,
}

/// The state of the page.
#[derive(Default)]
struct State<'a> {
    as_yaml: bool,
    document: Value,
    /// The YAML as the user typed it.
    text: Option<&'a str>,
    /// The form as the user filled it in.
    typed: Option<&'a Fields>,
    problems: Problems,
    failed: Option<WebError>,
    checked: bool,
    /// Why the user cannot create the object in its namespace.
    why_not: Option<String>,
}

impl KindData {
    async fn read(caller: &Caller, crd: &str, ns: Option<&str>) -> Result<Self, WebError> {
        let (csvs, namespaces) =
            tokio::join!(dynamic::csvs(&caller.client, ns), dynamic::namespaces(&caller.client));
        let described = dynamic::described(&csvs.unwrap_or_default(), crd);
        let wanted = described.as_ref().map(|d| d.description.version.as_str());
        let kind = CustomKind::read(&caller.client, crd, wanted).await?;
        let example = described
            .as_ref()
            .and_then(|d| d.csv.metadata.annotations.as_ref()?.get(ANNOTATION_ALM_EXAMPLES))
            .and_then(|text| example(text, &kind))
            .unwrap_or_else(|| bare(&kind));
        let home = described.as_ref().and_then(|d| watched(&d.csv));
        let descriptors =
            described.as_ref().map(|d| d.description.spec_descriptors.clone()).unwrap_or_default();
        let fields = kind
            .schema
            .as_ref()
            .map(|schema| form::fields(schema, &descriptors, &example))
            .unwrap_or_default();
        let title = described.as_ref().and_then(|d| d.description.display_name.clone());
        let about = described.as_ref().and_then(|d| d.description.description.clone()).unwrap_or_default();
        Ok(Self {
            title: clean(&title.unwrap_or_else(|| kind.resource.kind.clone())),
            about: clean(&about),
            kind,
            descriptors,
            fields,
            example,
            home,
            namespaces,
        })
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::new(self.kind.schema.as_ref(), &self.descriptors)
    }

    /// The missing right to create a document.
    async fn missing(&self, caller: &Caller, document: &Value) -> Option<String> {
        let named = document.pointer("/metadata/namespace").and_then(Value::as_str);
        let namespace = self.kind.namespaced.then(|| named.unwrap_or("default"));
        let resource = &self.kind.resource;
        let create = Right { verb: "create", group: &resource.group, plural: &resource.plural, namespace };
        rights::all_missing(&caller.client, &[create]).await
    }

    fn start(&self, ns: Option<&str>) -> Value {
        let mut document = self.example.clone();
        if self.kind.namespaced {
            let namespace = ns.filter(|ns| !ns.is_empty()).or(self.home.as_deref()).unwrap_or("default");
            metadata(&mut document).insert("namespace".into(), namespace.into());
        }
        document
    }
}

/// A namespace that an operator watches; `None` for an operator that watches all of them.
fn watched(csv: &ClusterServiceVersion) -> Option<String> {
    let targets = csv.metadata.annotations.as_ref()?.get(ANNOTATION_TARGET_NAMESPACES)?;
    targets.split(',').find(|namespace| !namespace.is_empty()).map(str::to_owned)
}

/// The example for the kind and version, else for the kind.
fn example(text: &str, kind: &CustomKind) -> Option<Value> {
    let examples: Vec<Value> = serde_json::from_str(text).ok()?;
    let of_kind = |e: &&Value| e.get("kind").and_then(Value::as_str) == Some(&kind.resource.kind);
    let exact = |e: &&Value| e.get("apiVersion").and_then(Value::as_str) == Some(&kind.resource.api_version);
    let found = examples.iter().filter(of_kind).find(exact).or_else(|| examples.iter().find(of_kind))?;
    let mut document = found.clone();
    document.as_object_mut()?.shift_remove("status");
    document["apiVersion"] = kind.resource.api_version.clone().into();
    Some(document)
}

fn bare(kind: &CustomKind) -> Value {
    let name = format!("example-{}", kind.resource.kind.to_lowercase());
    json!({
        "apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": { "name": name }, "spec": {},
    })
}

fn metadata(document: &mut Value) -> &mut Map<String, Value> {
    if !document.is_object() {
        *document = json!({});
    }
    if !document["metadata"].is_object() {
        document["metadata"] = json!({});
    }
    document["metadata"].as_object_mut().expect("it was made an object above")
}

/// `GET /instances/new/{crd}`
pub(crate) async fn page(
    caller: Caller,
    Path(crd): Path<String>,
    Query(query): Query<CreateQuery>,
) -> Result<Response, WebError> {
    let known = KindData::read(&caller, &crd, query.ns.as_deref()).await?;
    let mut state = State {
        as_yaml: query.view.as_deref() == Some("yaml") || known.fields.is_empty(),
        document: known.start(query.ns.as_deref()),
        ..State::default()
    };
    state.why_not = known.missing(&caller, &state.document).await;
    Ok(answer(&caller, &known, &state))
}

/// `POST /instances/new/{crd}`: creates the object, validates it, or switches between form and YAML.
pub(crate) async fn submit(Path(crd): Path<String>, posted: Posted) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let ns = fields.text("/metadata/namespace").map(str::to_owned);
    let known = KindData::read(&caller, &crd, ns.as_deref()).await?;
    let action = fields.text("action").unwrap_or("create");
    let as_yaml = fields.text("view") == Some("yaml");
    let mut state = State { as_yaml, ..State::default() };
    if as_yaml {
        let text = fields.raw("document").unwrap_or_default();
        match parse(text) {
            Ok(document) => state.document = document,
            Err(why) => _ = state.problems.insert(String::new(), why),
        }
        state.text = Some(text);
    } else {
        // The document carries the fields that the form does not contain.
        let base =
            fields.raw("document").and_then(|text| form::parse_yaml(text).ok()).filter(Value::is_object);
        state.document = base.unwrap_or_else(|| known.start(ns.as_deref()));
        state.problems = form::read(&known.fields, &fields, &mut state.document);
        let metadata = metadata(&mut state.document);
        metadata.insert("name".into(), fields.text("/metadata/name").unwrap_or_default().into());
        if let Some(ns) = ns.filter(|_| known.kind.namespaced) {
            metadata.insert("namespace".into(), ns.into());
        }
        if metadata["name"] == "" {
            state.problems.insert("/metadata/name".into(), "name is required".into());
        }
        state.typed = Some(&fields);
    }
    match action {
        // An invalid document has to be corrected before the view changes.
        "to-yaml" | "to-form" if state.problems.is_empty() => {
            state.as_yaml = action == "to-yaml";
            state.text = None;
            state.typed = None;
            state.why_not = known.missing(&caller, &state.document).await;
            return Ok(answer(&caller, &known, &state));
        }
        _ => {}
    }
    if state.problems.is_empty() {
        let dry_run = action == "check";
        match create(&caller, &known.kind, &state.document, dry_run).await {
            Ok(created) if !dry_run => {
                let namespace = created.metadata.namespace.as_deref();
                let to = known.kind.href(namespace, created.metadata.name.as_deref().unwrap_or_default());
                if caller.wants_json {
                    let headers = [(http::header::LOCATION, to)];
                    return Ok((StatusCode::CREATED, headers, axum::Json(created)).into_response());
                }
                return Ok(Redirect::to(&to).into_response());
            }
            Ok(_) => state.checked = true,
            Err(Failure::Refused(mut error)) => {
                error.why = known.secrets().redact(&error.why, &state.document);
                if error.status == StatusCode::UNAUTHORIZED {
                    state.failed = Some(error.hint("sign in again in another tab, return here and press Create; the form keeps its content"));
                } else {
                    state.failed = Some(error);
                }
            }
            Err(Failure::Invalid(status)) => {
                state.problems = form::of_status(&status, &known.fields);
                // A message without causes applies to the whole object.
                if state.problems.is_empty() {
                    state.problems.insert(String::new(), status.message.clone());
                }
                let secrets = known.secrets();
                state.problems.values_mut().for_each(|text| *text = secrets.redact(text, &state.document));
            }
        }
    }
    state.why_not = known.missing(&caller, &state.document).await;
    Ok(answer(&caller, &known, &state))
}

enum Failure {
    Refused(WebError),
    Invalid(Box<kube::core::Status>),
}

async fn create(
    caller: &Caller,
    kind: &CustomKind,
    document: &Value,
    dry_run: bool,
) -> Result<DynamicObject, Failure> {
    let given = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    if given("kind") != kind.resource.kind || given("apiVersion") != kind.resource.api_version {
        let why = format!(
            "this page creates objects of {} {}, but the YAML contains {} {}",
            kind.resource.api_version,
            kind.resource.kind,
            clean(given("apiVersion")),
            clean(given("kind"))
        );
        return Err(Failure::Refused(WebError::bad_request(why)));
    }
    let object: DynamicObject = serde_json::from_value(document.clone())
        .map_err(|e| Failure::Refused(WebError::bad_request(format!("failed to parse metadata: {e}"))))?;
    let namespace =
        if kind.namespaced { object.metadata.namespace.as_deref().or(Some("default")) } else { None };
    let params = PostParams { dry_run, field_manager: Some(olm_api::names::FIELD_MANAGER_CONSOLE.into()) };
    let path = DynamicObject::url_path(&kind.resource, namespace);
    let body = serde_json::to_vec(&object).unwrap_or_default();
    let request = Request::new(path).create(&params, body).map_err(|e| e.to_string()).and_then(strict);
    let request = request.map_err(|why| Failure::Refused(WebError::bad_request(why)))?;
    caller.client.request::<DynamicObject>(request).await.map_err(|error| match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => Failure::Invalid(status),
        kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists" => {
            let why = format!("{} already exists", status.message.trim_end_matches(" already exists"));
            Failure::Refused(
                WebError { why, what: "Name already in use".into(), ..WebError::of_status(&status) }
                    .hint("choose another name"),
            )
        }
        error => Failure::Refused(error.into()),
    })
}

/// Misspelt fields are errors and not silently dropped.
pub(super) fn strict(mut request: http::Request<Vec<u8>>) -> Result<http::Request<Vec<u8>>, String> {
    let uri = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() = uri.parse().map_err(|e| format!("{e}"))?;
    Ok(request)
}

/// The document of a text in YAML, or what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    match form::parse_yaml(text) {
        Ok(document) if document.is_object() => Ok(document),
        Ok(_) => Err("expected a YAML mapping".into()),
        Err(error) => Err(format!("failed to parse YAML: {error}")),
    }
}

fn answer(caller: &Caller, known: &KindData, state: &State<'_>) -> Response {
    let status = match &state.failed {
        Some(failed) => failed.status,
        None if !state.problems.is_empty() => StatusCode::UNPROCESSABLE_ENTITY,
        None => StatusCode::OK,
    };
    let model = json!({
        "crd": known.kind.crd, "document": state.document, "valid": state.checked, "problems": state.problems,
        "error": state.failed.as_ref().map(|f| &f.why),
    });
    let title = format!("Create {}", clean(&known.kind.resource.kind));
    let body = view(&title, known, state, caller.csrf());
    caller.answer(Page::new(&title, Section::Instances, body).status(status), &model)
}

fn view(title: &str, known: &KindData, state: &State<'_>, csrf: &str) -> Markup {
    let action = format!("/instances/new/{}", encode(&known.kind.crd));
    let list = format!("/instances/{}", encode(&known.kind.crd));
    let has_form = !known.fields.is_empty();
    let yaml = yaml_input(&state.document, state.text, &state.problems);
    html! {
        (parts::crumbs(&[("/instances", "Instances"), (&list, &clean(&known.kind.resource.kind))], "Create"))
        div.head { div.head-text { h1 { (title) } @if !known.about.is_empty() { p.lead { (known.about) } } } }
        form.stack method="post" action=(action) novalidate[state.as_yaml] {
            (parts::csrf(csrf))
            input type="hidden" name="view" value=(if state.as_yaml { "yaml" } else { "form" });
            // Enter in a field presses the first button of the form.
            button.visually-hidden name="action" value="create" tabindex="-1" aria-hidden="true" disabled[state.why_not.is_some()] { "Create" }
            @if let Some(failed) = &state.failed { (parts::alert(&failed.what, &failed.why, failed.hint.as_deref())) }
            @if !state.problems.is_empty() { (summary("Not created", &known.fields, &state.problems, state.as_yaml)) }
            @if state.checked { div role="status" { (parts::note(Tone::Good, &html! { "Validated by the API server. The object is not created yet." })) } }
            div.panel.narrow[!state.as_yaml] {
                div.body {
                    (views(has_form, state.as_yaml))
                    @if state.as_yaml {
                        @if !has_form { p.muted { "No form available: the cluster publishes no schema for this kind." } }
                        (FormField::new("document", html! { (known.title) }).show(&yaml))
                    } @else {
                        input type="hidden" name="document" value=(state.document);
                        div.stack { (name_and_namespace(known, state)) (form::show(&known.fields, &state.document, state.typed, &state.problems)) }
                    }
                }
                footer.stack-s {
                    @if let Some(why) = &state.why_not {
                        (parts::note(Tone::Warn, &html! { (clean(why)) " To use another namespace, enter it and press Check." }))
                    }
                    div.actions {
                        button.button.primary #create name="action" value="create" disabled[state.why_not.is_some()] { "Create" }
                        button.button name="action" value="check" { "Check" }
                        a.button.quiet href=(list) { "Cancel" }
                    }
                }
            }
        }
    }
}

/// The tabs of the two views.
pub(super) fn views(has_form: bool, as_yaml: bool) -> Markup {
    let mut views = vec![
        Tab::new("Form", Target::Submit("action", "to-form"), !as_yaml),
        Tab::new("YAML", Target::Submit("action", "to-yaml"), as_yaml),
    ];
    views.retain(|tab| has_form || tab.current);
    tabs::show("View", &views)
}

/// The document as YAML, else the text of the user.
pub(super) fn yaml_input(document: &Value, text: Option<&str>, problems: &Problems) -> Markup {
    html! {
        textarea.yaml #document name="document" spellcheck="false" autocomplete="off"
            aria-invalid=[problems.contains_key("").then_some("true")] {
            "\n" (text.map_or_else(|| dynamic::yaml(document), str::to_owned))
        }
    }
}

/// All problems, each with a link to its field.
pub(super) fn summary(title: &str, fields: &[Field], problems: &Problems, as_yaml: bool) -> Markup {
    let label = |pointer: &str| {
        let leaf = fields.iter().flat_map(Field::leaves).find(|f| f.pointer == pointer);
        match (leaf, pointer) {
            (Some(field), _) => field.label.clone(),
            (None, "/metadata/name") => "Name".to_owned(),
            (None, "/metadata/namespace") => "Namespace".to_owned(),
            (None, other) => other.trim_start_matches('/').replace('/', "."),
        }
    };
    let item = |pointer: &str, text: &str| {
        html! {
            @if pointer.is_empty() { (clean(text)) }
            @else if as_yaml { strong { (label(pointer)) } ": " (clean(text)) }
            @else { a href={ "#" (form::id(pointer)) } { (label(pointer)) } ": " (clean(text)) }
        }
    };
    let items: Vec<Markup> = problems.iter().map(|(pointer, text)| item(pointer, text)).collect();
    banner::problems(&format!("{title}: {}", parts::plural(items.len(), "problem")), &items)
}

fn name_and_namespace(known: &KindData, state: &State<'_>) -> Markup {
    let value = |pointer: &str| match state.typed.and_then(|t| t.raw(pointer)) {
        Some(typed) => typed.to_owned(),
        None => state.document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let asked =
        [("/metadata/name", "Name", true), ("/metadata/namespace", "Namespace", known.kind.namespaced)];
    html! {
        div.grid2 {
            @for (pointer, label, shown) in asked {
                @if shown {
                    @let id = form::id(pointer);
                    @let problem = state.problems.get(pointer).map(String::as_str);
                    @let input = html! {
                        input type="text" id=(id) name=(pointer) value=(value(pointer)) autocomplete="off" spellcheck="false"
                            list=[(label == "Namespace").then_some("namespaces")]
                            aria-invalid=[problem.map(|_| "true")] aria-describedby=[described_by(&id, false, problem.is_some())];
                    };
                    (FormField::new(&id, html! { (label) }).required(true).problem(problem).show(&input))
                }
            }
        }
        datalist #namespaces { @for ns in &known.namespaces { option value=(ns) {} } }
    }
}
