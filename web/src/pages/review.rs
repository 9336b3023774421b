//! The review of a plan: all of its parts, then approval or skip.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use maud::{Markup, html};
use olm_ops::Installed;
use olm_plan::{Plan, PlanAction};
use serde::Serialize;

use super::installed::{approve_form, cannot, href, name};
use crate::{
    app::App,
    caller::{Caller, Page},
    error::WebError,
    links::{clean, encode},
    rights,
    view::{
        layout::Section,
        parts::{self, Tone},
        plan,
    },
};

/// The page as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model {
    installed: Installed,
    plan: Plan,
    /// Whether the plan is the pending one.
    waits: bool,
    /// Why the user cannot approve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
    /// Why the user cannot skip its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not_skip: Option<String>,
}

/// `GET /installed/{namespace}/{name}/plan`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let snapshot = app.catalogs.read(&caller.identity).await;
    let client = &caller.client;
    let (installed, plan, why_not, why_not_skip) = tokio::join!(
        olm_ops::find_installed(client, Some(&namespace), &target),
        olm_ops::preview_upgrade(client, &snapshot.loaded, Some(&namespace), &target),
        rights::missing(client, "patch", "installplans", &namespace),
        rights::missing(client, "patch", "subscriptions", &namespace)
    );
    let installed = installed?;
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return cannot(&caller, (&namespace, &target), error.into()),
    };
    let waits = installed.plan_digest.as_ref() == Some(&plan.digest);
    let model = Model { installed, plan, waits, why_not, why_not_skip };
    let body = view(&model, caller.csrf());
    let title = format!("Plan of {}", name(&model.installed));
    Ok(caller.answer(Page::new(&title, Section::Installed, body), &model))
}

fn view(model: &Model, csrf: &str) -> Markup {
    let one = &model.installed;
    html! {
        (parts::crumbs(&[("/installed", "Installed"), (&href(one), &name(one))], "Plan"))
        div.head { div.head-text { h1 { "Plan of " (name(one)) } p.muted { "in namespace " (clean(&one.namespace)) } } }
        div.stack.narrow {
            @if model.plan.action == PlanAction::None {
                (parts::note(Tone::Good, &html! { "No changes: the installed version matches the request." }))
            } @else {
                @if !model.waits && one.plan.is_some() {
                    (parts::note(Tone::Warn, &html! { strong { "The pending plan is out of date. " } "This plan replaces it in a few seconds; reload the page." }))
                }
                (plan::panel(&model.plan))
                (plan::footer(&decision(model, csrf)))
            }
        }
    }
}

/// Approval and skip, and why they are disabled.
fn decision(model: &Model, csrf: &str) -> Markup {
    let one = &model.installed;
    let blocked = model.plan.is_blocked().then_some("Blocked by a finding.");
    let why_not = model.why_not.as_deref().or(blocked);
    // Skipping the first version would leave nothing to install.
    let skipped = one.next.as_ref().filter(|_| one.csv.is_some());
    let reasons = [why_not, model.why_not_skip.as_deref().filter(|_| skipped.is_some())];
    html! {
        @for why in reasons.into_iter().flatten() { p.small { (clean(why)) } }
        div.actions {
            @if model.waits { (approve_form(one, csrf, "primary", why_not.is_some())) }
            @if let Some(next) = skipped {
                @if model.why_not_skip.is_some() { button.button disabled { "Skip " (clean(next)) } }
                @else { a.button href={ (href(one)) "/change?what=skip&version=" (encode(next)) } { "Skip " (clean(next)) } }
            }
            a.button.quiet href=(href(one)) { "Back" }
        }
    }
}
