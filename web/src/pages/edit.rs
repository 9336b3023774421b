//! Edits an object: the form and the YAML of its creation, filled from the live object, then a review of the
//! changes. The write applies only to the state that was read; another change is shown first.

mod view;

use axum::{
    extract::{Path, Query},
    response::Response,
};
use http::StatusCode;
use kube::{
    Resource as _,
    api::{DynamicObject, PostParams},
    core::Request,
};
use olm_api::csv::SpecDescriptor;
use serde::Deserialize;
use serde_json::{Value, json};

use super::create::{parse, strict};
use crate::{
    caller::{Caller, Page},
    dynamic::{self, CustomKind},
    error::WebError,
    form::{self, Base, Difference, Field, Problems, Secrets},
    links::clean,
    posted::{Fields, Posted},
    rights::{self, Right},
    view::layout::Section,
};

type Key = (String, String, String);

#[derive(Deserialize, Default)]
pub(crate) struct EditQuery {
    view: Option<String>,
}

/// The object and its kind.
struct Edited {
    kind: CustomKind,
    name: String,
    namespace: Option<String>,
    about: String,
    descriptors: Vec<SpecDescriptor>,
    fields: Vec<Field>,
    live: Value,
    /// Why the user cannot change it.
    why_not: Option<String>,
}

impl Edited {
    async fn read(caller: &Caller, (crd, namespace, name): &Key) -> Result<Self, WebError> {
        let namespace = (namespace != "-").then_some(namespace.as_str());
        let csvs = dynamic::csvs(&caller.client, namespace).await.unwrap_or_default();
        let described = dynamic::described(&csvs, crd).map(|d| d.description).unwrap_or_default();
        let kind = CustomKind::read(&caller.client, crd, Some(&described.version)).await?;
        let right = Right {
            verb: "update",
            group: &kind.resource.group,
            plural: &kind.resource.plural,
            namespace: namespace.filter(|_| kind.namespaced),
        };
        let rights = [right];
        let api = kind.api(&caller.client, namespace);
        let (object, why_not) = tokio::join!(api.get(name), rights::all_missing(&caller.client, &rights));
        let live = serde_json::to_value(object?).unwrap_or_default();
        let fields = kind
            .schema
            .as_ref()
            .map(|schema| form::fields(schema, &described.spec_descriptors, &live))
            .unwrap_or_default();
        Ok(Self {
            name: name.clone(),
            namespace: namespace.map(str::to_owned),
            about: clean(described.description.as_deref().unwrap_or_default()),
            descriptors: described.spec_descriptors,
            kind,
            fields,
            live,
            why_not,
        })
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets::new(self.kind.schema.as_ref(), &self.descriptors)
    }

    fn base(&self) -> Base {
        Base::of(&self.live, &self.secrets())
    }

    fn href(&self) -> String {
        self.kind.href(self.namespace.as_deref(), &self.name)
    }

    /// The differences between two documents, with hidden secrets.
    fn differences(&self, old: &Value, new: &Value, owned: Option<&Value>) -> Vec<Difference> {
        let secrets = self.secrets();
        form::differences((old, &secrets.mask(old)), (new, &secrets.mask(new)), owned)
    }

    /// Replaces the object, if it is still in the state that was read.
    async fn write(&self, caller: &Caller, object: &Value, dry_run: bool) -> Result<Value, Failure> {
        let params =
            PostParams { dry_run, field_manager: Some(olm_api::names::FIELD_MANAGER_CONSOLE.into()) };
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced);
        let path = DynamicObject::url_path(&self.kind.resource, namespace);
        let body = serde_json::to_vec(object).unwrap_or_default();
        let request = Request::new(path).replace(&self.name, &params, body);
        let request = request.map_err(|e| e.to_string()).and_then(strict);
        let request = request.map_err(|why| Failure::Refused(WebError::bad_request(why)))?;
        caller.client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status) if matches!(status.code, 400 | 422) => Failure::Invalid(status),
            kube::Error::Api(status) if status.code == 409 => Failure::Conflict,
            error => Failure::Refused(error.into()),
        })
    }
}

enum Failure {
    Refused(WebError),
    Invalid(Box<kube::core::Status>),
    Conflict,
}

/// The part of the page that is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Form,
    Review,
    /// The object changed since it was read.
    Conflict,
}

#[derive(Default)]
struct State<'a> {
    step: Step,
    as_yaml: bool,
    base: Base,
    document: Value,
    /// The YAML as the user typed it.
    text: Option<&'a str>,
    /// The form as the user filled it in.
    typed: Option<&'a Fields>,
    problems: Problems,
    failed: Option<WebError>,
    /// At a review the changes of the user, at a conflict those of others.
    changes: Vec<Difference>,
    /// After a merge, the fields that both changed: the value of the other, and the user's.
    both: Vec<Difference>,
    /// At a conflict: whether the object was deleted and created again.
    another: bool,
    merged: bool,
}

impl<'a> State<'a> {
    fn read(edited: &Edited, fields: &'a Fields, wants_json: bool) -> Result<Self, WebError> {
        let current = edited.base();
        let base = match fields.raw("base") {
            Some(text) => serde_json::from_str(text)
                .map_err(|e| WebError::bad_request(format!("`base`: failed to parse JSON: {e}")))?,
            None => {
                let version = fields.text("resourceVersion").ok_or_else(|| {
                    WebError::bad_request("`resourceVersion` is missing")
                        .hint("read the page as JSON first, and send its resourceVersion")
                })?;
                let is_current = current.resource_version.as_deref() == Some(version);
                match is_current {
                    true => current,
                    false => Base { resource_version: Some(version.to_owned()), ..Base::default() },
                }
            }
        };
        let shown = fields.text("view").unwrap_or(if wants_json { "yaml" } else { "form" });
        // The review contains the document as a whole; `back` is the view before it.
        let back = fields.text("back").unwrap_or(shown);
        let mut state = Self { as_yaml: back == "yaml" || edited.fields.is_empty(), base, ..Self::default() };
        let text = fields.raw("document").unwrap_or_default();
        match parse(text) {
            Ok(document) => state.document = document,
            Err(why) => _ = state.problems.insert(String::new(), why),
        }
        if shown == "yaml" && state.as_yaml {
            state.text = Some(text);
        }
        if shown == "form" && state.problems.is_empty() {
            state.problems = form::read(&edited.fields, fields, &mut state.document);
            state.typed = Some(fields);
        }
        Ok(state)
    }

    /// Shows the other view, or the same with the document as it was read.
    fn shown(self, as_yaml: bool) -> Self {
        Self { as_yaml, text: None, typed: None, ..self }
    }
}

/// `GET /instances/{crd}/{namespace}/{name}/edit`
pub(crate) async fn page(
    caller: Caller,
    Path(key): Path<Key>,
    Query(query): Query<EditQuery>,
) -> Result<Response, WebError> {
    let edited = Edited::read(&caller, &key).await?;
    let base = edited.base();
    let as_yaml = query.view.as_deref() == Some("yaml") || edited.fields.is_empty();
    let state = State { as_yaml, document: base.document.clone(), base, ..State::default() };
    Ok(answer(&caller, &edited, &state))
}

/// `POST /instances/{crd}/{namespace}/{name}/edit`: reviews or saves the changes, switches between form and
/// YAML, or continues after a conflict.
pub(crate) async fn submit(Path(key): Path<Key>, posted: Posted) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let edited = Edited::read(&caller, &key).await.map_err(|error| match error.status {
        StatusCode::NOT_FOUND => error.hint("the object was deleted; go back to copy your input"),
        _ => error,
    })?;
    let mut state = State::read(&edited, &fields, caller.wants_json)?;
    let valid = state.problems.is_empty();
    match fields.text("action").unwrap_or("review") {
        // An invalid document has to be corrected before the view changes.
        "to-yaml" if valid => state = state.shown(true),
        "to-form" if valid => state = state.shown(false),
        "edit" => {}
        "merge" if valid => {
            let as_yaml = state.as_yaml;
            state = merged(&edited, state.shown(as_yaml));
        }
        "save" if valid => {
            if let Some(saved) = save(&caller, &edited, &mut state, false).await {
                let base = Base::of(&saved, &edited.secrets());
                return Ok(caller.done(StatusCode::OK, &edited.href(), &base));
            }
        }
        "review" if valid => {
            if let Some(result) = save(&caller, &edited, &mut state, true).await {
                let (old, new) = (form::editable(&edited.live), form::editable(&result));
                state.changes = edited.differences(&old, &new, None);
                state.step = Step::Review;
            }
        }
        "to-yaml" | "to-form" | "merge" | "save" | "review" => {}
        _ => {
            return Err(WebError::bad_request(
                "`action`: invalid value, expected review, save, edit, merge, to-yaml or to-form",
            ));
        }
    }
    if state.step == Step::Conflict {
        // The state that the write was refused for.
        let edited = Edited::read(&caller, &key).await?;
        conflict(&edited, &mut state);
        return Ok(answer(&caller, &edited, &state));
    }
    Ok(answer(&caller, &edited, &state))
}

/// Writes the document, or records why it was not written.
async fn save(caller: &Caller, edited: &Edited, state: &mut State<'_>, dry_run: bool) -> Option<Value> {
    let secrets = edited.secrets();
    let (current, live) = (edited.base(), form::editable(&edited.live));
    if !state.base.applies_to(&current, secrets.any(&live)) {
        state.step = Step::Conflict;
        return None;
    }
    let mut document = state.document.clone();
    let problems = secrets.restore(&mut document, &live);
    state.problems = form::at_fields(problems, &edited.fields);
    // It carries the resource version that was read.
    let object = match form::written(&edited.live, &document) {
        Ok(object) if state.problems.is_empty() => object,
        Ok(_) => return None,
        Err(why) => {
            state.problems.insert(String::new(), why);
            return None;
        }
    };
    match edited.write(caller, &object, dry_run).await {
        Ok(result) => return Some(result),
        Err(Failure::Conflict) => state.step = Step::Conflict,
        Err(Failure::Invalid(status)) => {
            state.problems = form::of_status(&status, &edited.fields);
            // A message without causes applies to the whole object.
            if state.problems.is_empty() {
                state.problems.insert(String::new(), status.message.clone());
            }
            state.problems.values_mut().for_each(|text| *text = secrets.redact(text, &object));
        }
        Err(Failure::Refused(mut error)) => {
            error.why = secrets.redact(&error.why, &object);
            let hint = "sign in again in another tab, return here and press Review changes; the form keeps its content";
            let expired = error.status == StatusCode::UNAUTHORIZED;
            state.failed = Some(if expired { error.hint(hint) } else { error });
        }
    }
    None
}

/// Records what others changed since the object was read.
fn conflict(edited: &Edited, state: &mut State<'_>) {
    let current = edited.base();
    state.another = state.base.is_another(&current);
    if state.base.document.is_object() {
        let (before, now) = form::renumbered(&state.base.document, &current.document);
        state.changes = edited.differences(&before, &now, Some(&edited.live));
    }
}

/// The user's changes on top of the current state.
fn merged<'a>(edited: &Edited, state: State<'a>) -> State<'a> {
    let current = edited.base();
    let (document, both) = form::merge(&state.base.document, &state.document, &current.document);
    let secrets = edited.secrets();
    let (theirs, mine) = (secrets.mask(&current.document), secrets.mask(&document));
    let both = both.into_iter().map(|path| Difference {
        live: theirs.pointer(&path).cloned(),
        new: mine.pointer(&path).cloned(),
        by: olm_plan::field_managers(&edited.live, &path),
        path,
    });
    State { both: both.collect(), base: current, document, merged: true, ..state }
}

fn answer(caller: &Caller, edited: &Edited, state: &State<'_>) -> Response {
    let status = match &state.failed {
        Some(failed) => failed.status,
        None if !state.problems.is_empty() => StatusCode::UNPROCESSABLE_ENTITY,
        None if state.step == Step::Conflict => StatusCode::CONFLICT,
        None => StatusCode::OK,
    };
    let model = json!({
        "crd": edited.kind.crd, "namespace": edited.namespace, "name": edited.name,
        "resourceVersion": state.base.resource_version, "document": state.document, "base": state.base,
        "reviewed": state.step == Step::Review, "conflict": state.step == Step::Conflict,
        "changes": state.changes, "bothChanged": state.both, "problems": state.problems,
        "error": state.failed.as_ref().map(|f| &f.why), "whyNot": edited.why_not,
    });
    let title = format!("Edit {}", clean(&edited.name));
    let body = view::show(&title, edited, state, caller.csrf());
    caller.answer(Page::new(&title, Section::Instances, body).status(status), &model)
}
