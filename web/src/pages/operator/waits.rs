//! Pending actions of an operator: what requires the user, and what to do.

use maud::{Markup, html};
use olm_ops::{Blocker, Overview, Status};
use olm_plan::AlongRef;

use crate::{
    links::{clean, encode},
    pages::installed::{approve, href, review},
    view::parts::{self, Tone, sentence},
};

/// A plan that requires approval.
pub(super) fn approval(view: &Overview, csrf: &str, cannot: Option<&str>) -> Markup {
    let one = &view.timeline.installed;
    let steps =
        view.plan.as_ref().and_then(|p| p.status.as_ref()).map(|s| s.plan.as_slice()).unwrap_or_default();
    html! {
        section.panel #waiting aria-labelledby="waiting-h" {
            header { h2 #waiting-h { "Plan requires approval" } }
            div.body.stack {
                (along(&view.along))
                @if !steps.is_empty() {
                    details.fold #waiting-objects {
                        summary { (parts::plural(steps.len(), "object")) " in this plan" }
                        div.body {
                            ul.objects {
                                @for step in steps {
                                    li { span.what { span.kind { (clean(&step.resource.kind)) } " " (clean(&step.resource.name)) } }
                                }
                            }
                        }
                    }
                }
                @match &one.review {
                    Some(points) => {
                        p { "Review before the approval: " (clean(points)) "." }
                        div.actions { (review(one, "primary")) }
                    }
                    None => div.actions {
                        (approve(one, csrf, "primary", cannot))
                        a.button href={ (href(one)) "/plan" } { "Review the plan" }
                    },
                }
                p.small.muted {
                    @if let Some(digest) = &one.plan_digest { "Approves plan " code title=(digest) { (short(digest)) } " only. " }
                    "Command line: " code { "olm approve " (clean(&one.package)) " -n " (one.namespace) }
                }
            }
        }
    }
}

/// The one banner of a paused operator.
pub(super) fn paused(view: &Overview) -> Markup {
    let one = &view.timeline.installed;
    let version = one.version.as_deref().map(clean);
    let pin = view.subscription.as_ref().and_then(|subscription| subscription.spec.version.as_ref());
    let pinned = pin.is_some_and(|pin| pin.starts_with('='));
    html! {
        @if one.status == Status::Paused {
            section.panel #paused aria-label="Paused" {
                div.body.row.between {
                    p {
                        strong { "Paused" @if let Some(version) = &version { " at " (version) } }
                        @if pinned { ", and pinned to this version" }
                        ". Nothing is changed until you resume."
                    }
                    a.button.primary href={ (href(one)) "/change?what=resume" } { "Resume" }
                }
            }
        }
    }
}

/// The dependencies of the plan: approving the plan approves them too.
fn along(list: &[AlongRef]) -> Markup {
    html! {
        @if !list.is_empty() {
            div.stack-s #waiting-along {
                h3 { "Dependencies to install" }
                ul.objects {
                    @for other in list {
                        li { span.what {
                            span.kind { (clean(&other.bundle.package)) } " " (clean(&other.bundle.version_text()))
                            span.muted { " · required by " (clean(&other.required_by.join(", "))) }
                        } }
                    }
                }
                p.small.muted { "Approving the plan also approves its dependencies." }
            }
        }
    }
}

/// The first digits of a digest, enough for a comparison by eye.
fn short(digest: &str) -> &str {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    digits.get(..12).unwrap_or(digits)
}

/// The problems that block progress.
pub(super) fn blockers(view: &Overview) -> Markup {
    let waits = &view.timeline.blockers;
    let status = view.timeline.installed.status;
    let wrong = matches!(status, Status::Failed | Status::Degraded | Status::CannotUpdate);
    let (title, tone) = if wrong { ("Problems", Tone::Bad) } else { ("Waiting for", Tone::Warn) };
    html! {
        @if !waits.is_empty() {
            section.panel #waits aria-labelledby="waits-h" {
                header { h2 #waits-h { (title) } }
                ul.rows { @for wait in waits { li { (blocker(wait, tone)) } } }
            }
        }
    }
}

fn blocker(wait: &Blocker, tone: Tone) -> Markup {
    html! {
        div.grow.stack-xs {
            div.row {
                (parts::chip(tone, tone.glyph(), &clean(if wait.reason.is_empty() { "Waiting" } else { &wait.reason })))
                span.small.muted.clip { (clean(&wait.object)) }
            }
            p { (parts::prose(&sentence(&clean(&wait.text)))) }
            @if let Some(fix) = &wait.fix { p.small { strong { "Hint: " } (parts::prose(&clean(fix))) } }
        }
    }
}

/// Without a Subscription the operator gets no updates.
pub(super) fn unmanaged(view: &Overview, source: Option<&str>) -> Markup {
    let one = &view.timeline.installed;
    html! {
        @if view.subscription.is_none() {
            section.panel #updates aria-labelledby="updates-h" {
                header { h2 #updates-h { "Updates" } }
                div.body.stack-s {
                    p { "No Subscription: this operator receives no updates." }
                    div.actions {
                        @if let Some(source) = source {
                            a.button href={ "/install/" (encode(source)) "/" (encode(&one.package)) "?namespace=" (encode(&one.namespace)) } { "Create a Subscription" }
                        } @else {
                            span.muted.small { "No serving catalog contains its package." }
                        }
                    }
                }
            }
        }
    }
}
