//! Removal of a catalog, with the operators that use it.

use axum::{extract::Path, response::Response};
use http::StatusCode;
use kube::ResourceExt as _;
use maud::{Markup, html};
use olm_api::CatalogSource;
use olm_ops::catalogs::{self, ClusterCatalog};
use serde::Serialize;

use super::{detail::subscription, href};
use crate::{
    caller::{Caller, Page},
    error::WebError,
    links::{clean, word},
    posted::Posted,
    rights,
    view::{
        layout::Section,
        parts::{self, Tone, sentence},
    },
};

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    namespace: String,
    name: String,
    /// Identifies the examined object: a new one with its name is not removed.
    uid: String,
    /// The Subscriptions that use it, as NAMESPACE/NAME; absent without the right to list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    subscriptions: Option<Vec<String>>,
    /// Whether the installation of olm contains it.
    part_of_olm: bool,
    /// Why the user cannot remove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

impl Model {
    /// The list that the user reviewed.
    fn reviewed(&self) -> String {
        self.subscriptions.as_deref().unwrap_or_default().join(",")
    }
}

async fn read(caller: &Caller, namespace: &str, name: &str) -> Result<(CatalogSource, Model), WebError> {
    let source = catalogs::find_source(&caller.client, namespace, name).await?;
    let (subscriptions, why_not) = tokio::join!(
        catalogs::subscriptions_of(&caller.client, namespace, name),
        rights::missing(&caller.client, "delete", "catalogsources", namespace)
    );
    let model = Model {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: source.uid().unwrap_or_default(),
        subscriptions: subscriptions?,
        part_of_olm: ClusterCatalog::of(&source).part_of_olm,
        why_not,
    };
    Ok((source, model))
}

/// `GET /catalogs/{namespace}/{name}/remove`
pub(crate) async fn page(
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let (_, model) = read(&caller, &namespace, &name).await?;
    Ok(answer(&caller, &model, None))
}

/// `POST /catalogs/{namespace}/{name}/remove`: removes the catalog that the page showed.
pub(crate) async fn submit(
    Path((namespace, name)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let (source, model) = read(&caller, &namespace, &name).await?;
    let differs = |field: &str, now: &str| fields.raw(field).is_some_and(|reviewed| reviewed != now);
    let error = if differs("uid", &model.uid) {
        Some(changed("another catalog with this name was created since"))
    } else if differs("subscriptions", &model.reviewed()) {
        Some(changed("the list of operators that use it is another one now"))
    } else {
        catalogs::remove(&caller.client, &source).await.err().map(WebError::from)
    };
    match error {
        None => Ok(caller.done(StatusCode::OK, "/catalogs", &model)),
        Some(error) if caller.wants_json || error.status == StatusCode::UNAUTHORIZED => Err(error),
        Some(error) => Ok(answer(&caller, &model, Some(&error))),
    }
}

fn changed(why: &str) -> WebError {
    WebError::new(StatusCode::CONFLICT, "catalog-changed", "Not removed", why)
        .hint("review the page and confirm again")
}

fn answer(caller: &Caller, model: &Model, failed: Option<&WebError>) -> Response {
    let title = format!("Remove {}", clean(&model.name));
    let body = view(model, &title, caller.csrf(), failed);
    let status = failed.map_or(StatusCode::OK, |failed| failed.status);
    caller.answer(Page::new(&title, Section::Catalogs, body).status(status), model)
}

fn view(model: &Model, title: &str, csrf: &str, failed: Option<&WebError>) -> Markup {
    let home = href(&model.namespace, &model.name);
    html! {
        (parts::crumbs(&[("/catalogs", "Catalogs"), (&home, &clean(&model.name))], "Remove"))
        div.head { div.head-text { h1 { (title) } p.muted { "in namespace " (clean(&model.namespace)) } } }
        div.stack.narrow {
            @if let Some(failed) = failed { (parts::alert(&failed.what, &sentence(&clean(&failed.why)), failed.hint.as_deref())) }
            @if model.part_of_olm {
                (parts::note(Tone::Warn, &html! { "The catalog is part of the installation of olm; " code { "olm self upgrade" } " creates it again." }))
            }
            div.panel {
                form.body.stack method="post" action={ (home) "/remove" } {
                    (parts::csrf(csrf))
                    input type="hidden" name="uid" value=(model.uid);
                    input type="hidden" name="subscriptions" value=(model.reviewed());
                    (effect(model))
                    @if let Some(why) = &model.why_not { (parts::note(Tone::Info, &html! { (clean(why)) })) }
                    div.actions {
                        button.button.danger.solid #remove disabled[model.why_not.is_some()] { "Remove" }
                        a.button.quiet href=(home) { "Cancel" }
                    }
                    p.small.muted { "Command line: " code { "olm catalog remove " (word(&format!("{}/{}", model.namespace, model.name))) } }
                }
            }
        }
    }
}

/// No data is lost: installed operators are retained.
fn effect(model: &Model) -> Markup {
    html! {
        @match model.subscriptions.as_deref() {
            None => {
                p { "The packages of the catalog are no longer available." }
                (parts::note(Tone::Warn, &html! { "Missing permission: list subscriptions. Operators that use the catalog are retained and get no upgrades." }))
            }
            Some([]) => p { "The packages of the catalog are no longer available. No operator is installed from it." },
            Some(list) => {
                p { (parts::plural(list.len(), "installed operator")) " from this catalog: retained, without upgrades." }
                ul.objects { @for user in list { li { span.what { (subscription(user)) } } } }
            }
        }
    }
}
