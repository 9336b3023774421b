//! Deletes an object, with a list of what is deleted with it.

mod dependents;

use axum::{extract::Path, response::Response};
use futures::future::join_all;
use http::StatusCode;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject, Preconditions, PropagationPolicy},
};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::json;

use self::dependents::{Dependent, Dependents};
use crate::{
    caller::{Caller, Page},
    dynamic::{self, CustomKind},
    error::WebError,
    links::{clean, encode},
    posted::Posted,
    rights::{self, Right},
    view::{
        field::{Field, described_by},
        layout::Section,
        parts::{self, Tone},
    },
};

type Key = (String, String, String);

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    crd: String,
    kind: String,
    namespace: Option<String>,
    name: String,
    /// Only this object is deleted, not a later one with the same name.
    uid: String,
    deleting: bool,
    finalizers: Vec<String>,
    #[serde(flatten)]
    dependents: Dependents,
    /// Whether the name has to be entered.
    confirm: bool,
    /// Why the user cannot delete it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    #[serde(skip)]
    href: String,
}

impl Model {
    async fn read(caller: &Caller, (crd, namespace, name): &Key) -> Result<(Self, CustomKind), WebError> {
        let client = &caller.client;
        let namespace = (namespace != "-").then_some(namespace.as_str());
        let csvs = dynamic::csvs(client, namespace).await.unwrap_or_default();
        let described = dynamic::described(&csvs, crd);
        let version = described.as_ref().map(|d| d.description.version.as_str());
        let kind = CustomKind::read(client, crd, version).await?;
        let namespace = namespace.filter(|_| kind.namespaced);
        let rights =
            [Right { verb: "delete", group: &kind.resource.group, plural: &kind.resource.plural, namespace }];
        // An operator may create objects of its other kinds.
        let provided = described.iter().flat_map(|d| d.csv.spec.owned_crds());
        let others = join_all(provided.map(|d| CustomKind::read(client, &d.name, Some(&d.version))));
        let api = kind.api(client, namespace);
        let (object, others, why_not) =
            tokio::join!(api.get(name), others, rights::all_missing(client, &rights));
        let object = object?;
        let others: Vec<CustomKind> = others.into_iter().filter_map(Result::ok).collect();
        let uid = object.uid().unwrap_or_default();
        let dependents = Dependents::read(client, &uid, namespace, &others).await?;
        let finalizers: Vec<String> = object.finalizers().iter().map(|name| clean(name)).collect();
        let model = Self {
            crd: crd.clone(),
            kind: clean(&kind.resource.kind),
            namespace: namespace.map(str::to_owned),
            name: name.clone(),
            uid,
            deleting: object.metadata.deletion_timestamp.is_some(),
            // A finalizer may delete data outside of the cluster.
            confirm: dependents.may_lose_data() || !finalizers.is_empty(),
            finalizers,
            dependents,
            why_not,
            href: kind.href(namespace, name),
        };
        Ok((model, kind))
    }

    /// The list of objects, which shows the progress of the deletion.
    fn list(&self) -> String {
        let namespace = self.namespace.as_deref().map(|ns| format!("/{}", encode(ns))).unwrap_or_default();
        format!("/instances/{}{namespace}?deleted={}", encode(&self.crd), encode(&self.name))
    }
}

/// `GET /instances/{crd}/{namespace}/{name}/delete`
pub(crate) async fn page(caller: Caller, Path(key): Path<Key>) -> Result<Response, WebError> {
    let (model, _) = Model::read(&caller, &key).await?;
    Ok(answer(&caller, &model, "", None))
}

/// `POST /instances/{crd}/{namespace}/{name}/delete`
pub(crate) async fn submit(Path(key): Path<Key>, posted: Posted) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let (mut model, kind) = Model::read(&caller, &key).await?;
    let typed = fields.text("confirm").unwrap_or_default();
    let error = match fields.text("uid") {
        None => return Err(WebError::bad_request("`uid` is missing")),
        Some(uid) if uid != model.uid => changed(),
        Some(_) if model.confirm && typed != model.name => WebError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "not-confirmed",
            "The name does not match",
            "No changes were made.",
        )
        .hint("enter the name of the object to confirm its deletion"),
        Some(_) => match delete(&caller, &kind, &model).await {
            Ok(result) => return Ok(caller.done(StatusCode::OK, &model.list(), &result)),
            Err(error) => {
                if error.status == StatusCode::CONFLICT {
                    (model, _) = Model::read(&caller, &key).await?;
                }
                error
            }
        },
    };
    if caller.wants_json || error.status == StatusCode::UNAUTHORIZED {
        return Err(error);
    }
    Ok(answer(&caller, &model, typed, Some(&error)))
}

fn changed() -> WebError {
    WebError::new(
        StatusCode::CONFLICT,
        "conflict",
        "The object was deleted and created again",
        "No changes were made. The page shows the new object.",
    )
    .hint("check that this object is to be deleted")
}

async fn delete(caller: &Caller, kind: &CustomKind, model: &Model) -> Result<serde_json::Value, WebError> {
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(model.uid.clone()), resource_version: None }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    let api = kind.api(&caller.client, model.namespace.as_deref());
    let answer = api.delete(&model.name, &params).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 409 => changed(),
        error => error.into(),
    })?;
    let finalizers =
        answer.left().map(|object: DynamicObject| object.finalizers().to_vec()).unwrap_or_default();
    Ok(json!({ "deleted": finalizers.is_empty(), "finalizers": finalizers }))
}

fn answer(caller: &Caller, model: &Model, typed: &str, failed: Option<&WebError>) -> Response {
    let title = format!("Delete {}", clean(&model.name));
    let body = view(&title, model, typed, caller.csrf(), failed);
    let status = failed.map_or(StatusCode::OK, |f| f.status);
    caller.answer(Page::new(&title, Section::Instances, body).status(status), model)
}

fn view(title: &str, model: &Model, typed: &str, csrf: &str, failed: Option<&WebError>) -> Markup {
    let (kind, name) = (&model.kind, clean(&model.name));
    let list = format!("/instances/{}", encode(&model.crd));
    let unconfirmed =
        failed.filter(|failed| failed.code == "not-confirmed").map(|failed| failed.what.as_str());
    let input = html! {
        input #confirm type="text" name="confirm" value=(typed) autocomplete="off" spellcheck="false"
            aria-invalid=[unconfirmed.map(|_| "true")] aria-describedby=[described_by("confirm", true, unconfirmed.is_some())];
    };
    html! {
        (parts::crumbs(&[("/instances", "Instances"), (&list, kind), (&model.href, &name)], "Delete"))
        div.head { div.head-text {
            h1 { (title) }
            p.muted { (kind) @if let Some(ns) = &model.namespace { " in namespace " (clean(ns)) } }
        } }
        div.stack {
            @if let Some(failed) = failed { (parts::alert(&failed.what, &failed.why, failed.hint.as_deref())) }
            form.split-form method="post" action={ (model.href) "/delete" } {
                div.panel { div.body.stack {
                    (parts::csrf(csrf))
                    input type="hidden" name="uid" value=(model.uid);
                    (consequences(model))
                    @if model.confirm {
                        (Field::new("confirm", html! { "To confirm, enter " code { (name) } })
                            .required(true)
                            .help(Some(html! { "Data may be lost." }))
                            .problem(unconfirmed)
                            .show(&input))
                    }
                    @if let Some(why) = &model.why_not { (parts::note(Tone::Info, &html! { (clean(why)) })) }
                    div.actions {
                        button.button.danger.solid #delete disabled[model.why_not.is_some()] { "Delete" }
                        a.button.quiet href=(model.href) { "Cancel" }
                    }
                } }
                div.stack {
                    (objects("deleted", "Deleted with it", &model.dependents.deleted, "The object owns no other objects."))
                    @if !model.dependents.retained_claims.is_empty() {
                        (objects("retained", "Retained claims", &model.dependents.retained_claims, ""))
                    }
                }
            }
        }
    }
}

/// What the deletion does, in sentences.
fn consequences(model: &Model) -> Markup {
    let dependents = &model.dependents;
    let claims = dependents.deleted.iter().filter(|object| object.kind == "PersistentVolumeClaim").count();
    html! {
        @if model.deleting {
            (parts::note(Tone::Info, &html! { strong { "The object is already being deleted. " } (held(model)) }))
        }
        p {
            "Deletes this object"
            @if !dependents.deleted.is_empty() { " and " (parts::plural(dependents.deleted.len(), "object")) " that it owns" }
            "."
        }
        @if claims > 0 {
            (parts::note(Tone::Warn, &html! { "Deletes " (parts::plural(claims, "claim")) " with the data of its volume, unless the volume is retained." }))
        }
        @if !dependents.retained_claims.is_empty() {
            p { (parts::plural(dependents.retained_claims.len(), "claim")) " of its pods has another owner or none, and is retained." }
        }
        @if !model.finalizers.is_empty() && !model.deleting { p { (held(model)) } }
        @if !dependents.not_listed.is_empty() {
            (parts::note(Tone::Warn, &html! {
                strong { "The list is incomplete. " }
                "Missing permission: list " (clean(&dependents.not_listed.join(", ")))
                @if let Some(ns) = &model.namespace { " in namespace " (clean(ns)) } "."
            }))
        }
    }
}

fn held(model: &Model) -> Markup {
    html! {
        @if !model.finalizers.is_empty() {
            "Its finalizers hold the deletion until their controllers remove them: " (model.finalizers.join(", ")) "."
        }
    }
}

fn objects(id: &str, title: &str, list: &[Dependent], none: &str) -> Markup {
    let heading = format!("{id}-h");
    html! {
        section.panel id=(id) aria-labelledby=(heading) {
            header { h2 id=(heading) { (title) } (parts::tag(&list.len().to_string())) }
            div.body {
                @if list.is_empty() { p.muted { (none) } }
                @else { ul.objects { @for object in list {
                    li { span.what { span.kind { (object.kind) } " " (clean(&object.name)) } }
                } } }
            }
        }
    }
}
