//! A plan that requires approval in full, with the approve button.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use maud::{Markup, html};
use olm_ops::Installed;
use olm_plan::{Plan, PlanAction};
use serde::Serialize;

use super::installed::{approve, cannot, href, name};
use crate::{
    app::App,
    caller::{Caller, Page},
    error::WebError,
    links::clean,
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
}

/// `GET /installed/{namespace}/{name}/plan`
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
) -> Result<Response, WebError> {
    let snapshot = app.catalogs.read(&caller.identity).await;
    let client = &caller.client;
    let (installed, plan, missing) = tokio::join!(
        olm_ops::find_installed(client, Some(&namespace), &target),
        olm_ops::preview_upgrade(client, &snapshot.loaded, Some(&namespace), &target),
        rights::missing(client, "patch", "installplans", &namespace)
    );
    let installed = installed?;
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return cannot(&caller, (&namespace, &target), error.into()),
    };
    let waits = installed.plan_digest.as_ref() == Some(&plan.digest);
    let model = Model { installed, plan, waits, why_not: missing };
    let body = view(&model, caller.csrf());
    let title = format!("Plan of {}", name(&model.installed));
    Ok(caller.answer(Page::new(&title, Section::Installed, body), &model))
}

fn view(model: &Model, csrf: &str) -> Markup {
    let one = &model.installed;
    let blocked = model.plan.is_blocked();
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
                section.panel #plan aria-labelledby="plan-h" {
                    header {
                        h2 #plan-h { "Plan" }
                        @if blocked { (parts::chip(Tone::Bad, Tone::Bad.glyph(), "Blocked")) }
                    }
                    div.body { (plan::show(&model.plan)) }
                    footer.stack-s {
                        @if let Some(why) = &model.why_not { (parts::note(Tone::Info, &html! { (why) })) }
                        div.actions {
                            @if model.waits && model.why_not.is_none() && one.plan_digest.is_some() { (approve(one, csrf, "primary", None)) }
                            a.button.quiet href=(href(one)) { "Back" }
                        }
                    }
                }
            }
        }
    }
}
