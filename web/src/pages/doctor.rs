//! Problems of the cluster; the same checks as `olm doctor`.

use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use olm_ops::doctor::{self, Problem, Report, Severity};
use serde_json::json;

use crate::{
    caller::{Caller, Page},
    error::WebError,
    links::clean,
    posted::Posted,
    view::{
        layout::Section,
        parts::{self, Tone, sentence},
    },
};

/// `GET /doctor`
pub(crate) async fn page(caller: Caller) -> Result<Response, WebError> {
    let report = doctor::examine(&caller.client, None).await;
    let body = view(&report, caller.csrf());
    Ok(caller.answer(Page::new("Doctor", Section::Doctor, body), &report))
}

/// `POST /doctor` with the UID of an orphaned object: removes it.
pub(crate) async fn apply_fix(posted: Posted) -> Result<Response, WebError> {
    let Posted { caller, fields } = posted;
    let uid = fields.text("uid").ok_or_else(|| WebError::bad_request("`uid` is missing"))?;
    // Only objects that the checks find now can be removed.
    let report = doctor::examine(&caller.client, None).await;
    let found = report.problems.iter().filter_map(|a| a.safe_fix.as_ref()).find(|fix| fix.uid == uid);
    let fix = found.ok_or_else(|| {
        WebError::new(
            StatusCode::CONFLICT,
            "gone",
            "Object not found",
            "the checks no longer find this object",
        )
        .hint("reload the page")
    })?;
    let removed = doctor::apply_fix(&caller.client, fix).await?;
    Ok(caller.done(StatusCode::OK, "/doctor", &json!({ "removed": removed })))
}

fn view(report: &Report, csrf: &str) -> Markup {
    let of = |severity| report.problems.iter().filter(|a| a.severity == severity).count();
    let (errors, warnings, unchecked) = (of(Severity::Error), of(Severity::Warning), report.unchecked());
    html! {
        div.head {
            div.head-text {
                h1 { "Doctor" }
                p.muted {
                    @if let Some(kubernetes) = &report.kubernetes { "Kubernetes " (clean(kubernetes)) ", " }
                    @match (&report.manager, &report.namespace) {
                        (Some(version), Some(namespace)) => { "manager " (clean(version)) " in namespace " (clean(namespace)) },
                        (None, Some(namespace)) => { "manager in namespace " (clean(namespace)) },
                        _ if !report.manager_checked => "manager not checked",
                        _ => "manager not found",
                    }
                    "; " (parts::plural(report.objects, "object")) " checked"
                }
            }
            div.row {
                @if errors > 0 { (parts::chip(Tone::Bad, Tone::Bad.glyph(), &parts::plural(errors, "error"))) }
                @if warnings > 0 { (parts::chip(Tone::Warn, Tone::Warn.glyph(), &parts::plural(warnings, "warning"))) }
                @if errors + warnings + unchecked == 0 { (parts::chip(Tone::Good, Tone::Good.glyph(), "Healthy")) }
                @if unchecked > 0 {
                    (parts::chip(Tone::Info, Tone::Info.glyph(), &format!("{} not run", parts::plural(unchecked, "check"))))
                }
            }
        }
        @if report.problems.is_empty() {
            (parts::note(Tone::Good, &html! { "No problems found." }))
        } @else {
            div.panel { ul.rows { @for problem in &report.problems { li { (row(problem, csrf)) } } } }
        }
    }
}

fn row(problem: &Problem, csrf: &str) -> Markup {
    let tone = match problem.severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warn,
        Severity::Info => Tone::Info,
    };
    let object = problem.object.as_deref().map(clean);
    html! {
        div.grow.stack-xs {
            div.row {
                (parts::chip(tone, tone.glyph(), problem.code.as_str()))
                @if let Some(object) = &object { span.small.muted.clip { (object) } }
            }
            p { (parts::prose(&sentence(&clean(&problem.why)))) }
            @match (&problem.safe_fix, &problem.fix) {
                (Some(_), _) => p.small.muted { "Unused object, safe to remove." },
                (None, Some(fix)) => p.small { strong { "Hint: " } (parts::prose(&clean(fix))) },
                (None, None) => {}
            }
        }
        @if let Some(fix) = &problem.safe_fix {
            form method="post" action="/doctor" {
                (parts::csrf(csrf))
                input type="hidden" name="uid" value=(fix.uid);
                button.button.slim.danger { "Remove" span.visually-hidden { " " (object.unwrap_or_default()) } }
            }
        }
    }
}
