//! Rollback to an older version: the plan with its findings, then the request.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    response::Response,
};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::RolledBack;

use super::installed::{cannot, home};
use crate::{
    app::App,
    caller::{Caller, Page},
    error::WebError,
    links::{clean, word},
    posted::{Fields, Posted},
    rights,
    view::{
        layout::Section,
        parts::{self, Tone, sentence},
        plan,
    },
};

/// `GET /installed/{namespace}/{name}/rollback?to=VERSION`: preview of the rollback.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let fields = Fields::parse(query.unwrap_or_default().as_bytes());
    show(&app, &caller, (&namespace, &target), fields.text("to"), None).await
}

/// `POST /installed/{namespace}/{name}/rollback` with the version and the digest of the reviewed plan.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Path((namespace, target)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let to = fields.text("to");
    let digest = fields.text("digest").ok_or_else(|| {
        WebError::bad_request("the digest of the plan is missing")
            .hint("open the rollback from the operator's page and review its plan")
    })?;
    let snapshot = app.catalogs.read(&caller.identity).await;
    let done =
        olm_ops::rollback(&caller.client, &snapshot.loaded, Some(&namespace), &target, to, Some(digest))
            .await;
    match done {
        Ok(back) => Ok(caller.done(StatusCode::ACCEPTED, &home(&namespace, &target), &back)),
        Err(error) => {
            let error = WebError::from(error);
            if caller.wants_json || error.status == StatusCode::UNAUTHORIZED {
                return Err(error);
            }
            show(&app, &caller, (&namespace, &target), to, Some(error)).await
        }
    }
}

async fn show(
    app: &App,
    caller: &Caller,
    (namespace, target): (&str, &str),
    to: Option<&str>,
    failed: Option<WebError>,
) -> Result<Response, WebError> {
    let snapshot = app.catalogs.read(&caller.identity).await;
    let (back, missing, cannot_approve) = tokio::join!(
        olm_ops::preview_rollback(&caller.client, &snapshot.loaded, Some(namespace), target, to),
        rights::missing(&caller.client, "patch", "subscriptions", namespace),
        rights::missing(&caller.client, "patch", "installplans", namespace)
    );
    let back = match back {
        Ok(back) => back,
        Err(error) => {
            let mut error = WebError::from(error);
            if error.status == StatusCode::CONFLICT {
                error.what = "Rollback not possible".into();
            }
            return cannot(caller, (namespace, target), failed.unwrap_or(error));
        }
    };
    let why_not = if back.plan.is_blocked() {
        Some("Blocked by a finding.".to_owned())
    } else if !back.changed {
        Some("This rollback is already requested.".to_owned())
    } else {
        missing
    };
    let title = format!("Roll back to {}", clean(&back.to));
    let why_not = (why_not.as_deref(), cannot_approve.as_deref());
    let body = view(&back, &home(namespace, target), caller.csrf(), why_not, failed.as_ref());
    let status = failed.as_ref().map_or(StatusCode::OK, |f| f.status);
    Ok(caller.answer(Page::new(&title, Section::Installed, body).status(status), &back))
}

fn view(
    back: &RolledBack,
    home: &str,
    csrf: &str,
    (why_not, cannot_approve): (Option<&str>, Option<&str>),
    failed: Option<&WebError>,
) -> Markup {
    let package = clean(&back.package);
    let label = format!("Roll back to {}", clean(&back.to));
    html! {
        (parts::crumbs(&[("/installed", "Installed"), (home, &package)], &label))
        div.head { div.head-text { h1 { (label) } p.muted { (package) " " (clean(&back.from)) " in namespace " (clean(&back.namespace)) } } }
        div.stack.narrow {
            @if let Some(failed) = failed { (parts::alert(&failed.what, &sentence(&clean(&failed.why)), failed.hint.as_deref())) }
            p { "Rolls back from " (clean(&back.from)) " to " strong { (clean(&back.to)) } ", pins this version and pauses the operator. To upgrade later, unpin, then resume." }
            @if back.plan.requires_approval && why_not.is_none() {
                (parts::note(Tone::Info, &html! {
                    @match cannot_approve {
                        None => "Plans of this operator require approval: rolling back approves this plan.",
                        Some(why) => { (why) " The plan waits for the approval of another user." },
                    }
                }))
            }
            (plan::panel(&back.plan))
            p.small.muted { "Command line: " code { "olm rollback " (word(&back.subscription)) " --to " (word(&back.to)) " -n " (word(&back.namespace)) } }
            (plan::footer(&html! {
                @if let Some(why) = why_not { p.small { (why) } }
                form.actions method="post" action={ (home) "/rollback" } {
                    (parts::csrf(csrf))
                    input type="hidden" name="to" value=(back.csv);
                    input type="hidden" name="digest" value=(back.plan.digest);
                    button.button.danger.solid disabled[why_not.is_some()] { "Roll back" }
                    a.button.quiet href=(home) { "Cancel" }
                }
            }))
        }
    }
}
