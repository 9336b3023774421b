//! A change of the update settings: a preview of its effect, then a button to apply it.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    response::Response,
};
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::{SettingChange, SettingPreview};
use olm_plan::PlanAction;

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

/// Reads `what`, and the version or channel it applies to.
fn read(fields: &Fields) -> Result<SettingChange, WebError> {
    let text = |name: &str| fields.text(name).map(str::to_owned);
    let versions = || text("version").into_iter().collect();
    Ok(match fields.text("what").unwrap_or_default() {
        "skip" => SettingChange::Skip(versions()),
        "unskip" => SettingChange::Unskip(versions()),
        "snooze" => SettingChange::Snooze,
        "unsnooze" => SettingChange::Unsnooze,
        "pause" => SettingChange::Pause,
        "resume" => SettingChange::Resume,
        "unpin" => SettingChange::Unpin,
        "channel" => SettingChange::Channel(
            text("channel").ok_or_else(|| WebError::bad_request("`channel` is missing"))?,
        ),
        _ => {
            return Err(WebError::bad_request(
                "`what`: invalid value, expected skip, unskip, snooze, unsnooze, pause, resume, unpin or channel",
            ));
        }
    })
}

/// The change as form fields.
fn fields(change: &SettingChange) -> Vec<(&'static str, &str)> {
    match change {
        SettingChange::Skip(versions) => with("skip", "version", versions.first()),
        SettingChange::Unskip(versions) => with("unskip", "version", versions.first()),
        SettingChange::Snooze => with("snooze", "", None),
        SettingChange::Unsnooze => with("unsnooze", "", None),
        SettingChange::Pause => with("pause", "", None),
        SettingChange::Resume => with("resume", "", None),
        SettingChange::Unpin => with("unpin", "", None),
        SettingChange::Channel(channel) => with("channel", "channel", Some(channel)),
    }
}

fn with<'a>(
    what: &'static str,
    name: &'static str,
    value: Option<&'a String>,
) -> Vec<(&'static str, &'a str)> {
    let value = value.map(|value| (name, value.as_str()));
    [("what", what)].into_iter().chain(value).collect()
}

fn label(change: &SettingChange) -> String {
    match change {
        SettingChange::Skip(versions) => format!("Skip {}", versions.join(", ")),
        SettingChange::Unskip(versions) => format!("Allow {}", versions.join(", ")),
        SettingChange::Snooze => "Snooze".into(),
        SettingChange::Unsnooze => "Unsnooze".into(),
        SettingChange::Pause => "Pause".into(),
        SettingChange::Resume => "Resume".into(),
        SettingChange::Unpin => "Unpin".into(),
        SettingChange::Channel(channel) => format!("Follow {channel}"),
    }
}

/// The equivalent command line.
fn command(change: &SettingChange, name: &str, namespace: &str) -> String {
    let (name, namespace) = (word(name), word(namespace));
    let words = |versions: &[String]| versions.iter().map(|v| word(v)).collect::<Vec<_>>().join(" ");
    let arguments = match change {
        SettingChange::Skip(versions) => format!("skip {name} {}", words(versions)),
        SettingChange::Unskip(versions) => format!("skip {name} {} --undo", words(versions)),
        SettingChange::Snooze => format!("snooze {name}"),
        SettingChange::Unsnooze => format!("snooze {name} --undo"),
        SettingChange::Pause => format!("pause {name}"),
        SettingChange::Resume => format!("resume {name}"),
        SettingChange::Unpin => format!("unpin {name}"),
        SettingChange::Channel(channel) => format!("set-channel {name} {}", word(channel)),
    };
    format!("olm {arguments} -n {namespace}")
}

/// `GET /installed/{namespace}/{name}/change?what=...`: preview of the change.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((namespace, target)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let change = read(&Fields::parse(query.unwrap_or_default().as_bytes()))?;
    show(&app, &caller, &namespace, &target, &change, None).await
}

/// `POST /installed/{namespace}/{name}/change`: applies the change.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Path((namespace, target)): Path<(String, String)>,
    posted: Posted,
) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let change = read(&fields)?;
    let snapshot = app.catalogs.read(&caller.identity).await;
    match olm_ops::set(&caller.client, &snapshot.loaded, Some(&namespace), &target, &change).await {
        Ok(setting) => Ok(caller.done(StatusCode::OK, &home(&namespace, &target), &setting)),
        Err(error) => {
            let error = WebError::from(error);
            if caller.wants_json || error.status == StatusCode::UNAUTHORIZED {
                return Err(error);
            }
            show(&app, &caller, &namespace, &target, &change, Some(error)).await
        }
    }
}

async fn show(
    app: &App,
    caller: &Caller,
    namespace: &str,
    target: &str,
    change: &SettingChange,
    failed: Option<WebError>,
) -> Result<Response, WebError> {
    let snapshot = app.catalogs.read(&caller.identity).await;
    let (preview, missing) = tokio::join!(
        olm_ops::preview_set(&caller.client, &snapshot.loaded, Some(namespace), target, change),
        rights::missing(&caller.client, "patch", "subscriptions", namespace)
    );
    let preview = match preview {
        Ok(preview) => preview,
        // The error of the attempted change is more specific than the one of the current state.
        Err(error) => return cannot(caller, (namespace, target), failed.unwrap_or_else(|| error.into())),
    };
    let title = clean(&label(change));
    let why_not = match preview.setting.changed {
        true => missing,
        false => Some("No change: this setting is already in effect.".to_owned()),
    };
    let body =
        view(&preview, change, (namespace, target), caller.csrf(), why_not.as_deref(), failed.as_ref());
    let status = failed.as_ref().map_or(StatusCode::OK, |f| f.status);
    Ok(caller.answer(Page::new(&title, Section::Installed, body).status(status), &preview))
}

fn view(
    preview: &SettingPreview,
    change: &SettingChange,
    (namespace, target): (&str, &str),
    csrf: &str,
    why_not: Option<&str>,
    failed: Option<&WebError>,
) -> Markup {
    let home = home(namespace, target);
    let label = clean(&label(change));
    let package = clean(&preview.setting.package);
    html! {
        (parts::crumbs(&[("/installed", "Installed"), (&home, &package)], &label))
        div.head { div.head-text { h1 { (label) } p.muted { (package) " in namespace " (clean(namespace)) } } }
        div.stack.narrow {
            @if let Some(failed) = failed { (parts::alert(&failed.what, &sentence(&clean(&failed.why)), failed.hint.as_deref())) }
            div.panel { form.body.stack method="post" action={ (home) "/change" } {
                (parts::csrf(csrf))
                @for (name, value) in fields(change) { input type="hidden" name=(name) value=(value); }
                p { (parts::prose(&setting_text(preview))) }
                @if let Some(why) = why_not { (parts::note(Tone::Info, &html! { (why) })) }
                div.actions {
                    button.button.primary disabled[why_not.is_some()] { (label) }
                    a.button.quiet href=(home) { "Cancel" }
                }
                p.small.muted { "Command line: " code { (command(change, target, namespace)) } }
            } }
            (next(preview))
        }
    }
}

/// The effect on the Subscription as a sentence. A leading package name is not capitalized.
fn setting_text(preview: &SettingPreview) -> String {
    let text = clean(&preview.setting.text);
    if text.starts_with(&preview.setting.package) { format!("{text}.") } else { sentence(&text) }
}

/// The plan that results from the change.
fn next(preview: &SettingPreview) -> Markup {
    html! {
        @if preview.plan.is_some() || preview.problem.is_some() {
            section.panel #plan aria-labelledby="plan-h" {
                header { h2 #plan-h { "Effect" } }
                div.body.stack {
                    @match &preview.plan {
                        None => {
                            @let why = preview.problem.as_deref().map(clean).unwrap_or_default();
                            (parts::note(Tone::Warn, &html! { strong { "No plan: no version satisfies the constraints. " } (parts::explained(&why)) }))
                        }
                        Some(plan) => {
                            (when(preview))
                            @if plan.action == PlanAction::None { p { "No changes: the installed version matches the request." } }
                            @else { (plan::show(plan)) }
                        }
                    }
                }
            }
        }
    }
}

/// Whether the plan runs immediately.
fn when(preview: &SettingPreview) -> Markup {
    let plan = preview.plan.as_ref().filter(|plan| plan.action != PlanAction::None);
    html! {
        @if plan.is_some() && preview.paused {
            (parts::note(Tone::Info, &html! { "Paused: the plan runs after you resume." }))
        } @else if plan.is_some_and(|plan| plan.requires_approval) {
            (parts::note(Tone::Info, &html! { "The plan requires approval." }))
        } @else if plan.is_some() {
            (parts::note(Tone::Warn, &html! { "The plan runs immediately: plans of this operator are approved automatically." }))
        }
    }
}
