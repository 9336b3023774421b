//! The header of an operator's page: its state, one primary action, at most one banner, and deprecations.

use maud::{Markup, html};
use olm_api::csv::{CrdDescription, CsvPhase};
use olm_ops::{Blocker, Installed, Overview, Status};
use olm_plan::AlongRef;

use super::{Tab, View};
use crate::{
    catalogs::Snapshot,
    links::{clean, encode, word},
    pages::installed::{approve_form, href, name, review, versions},
    view::{
        banner,
        menu::{self, Item},
        parts::{self, Tone, prose, sentence},
    },
};

pub(super) fn show(view: &View, snapshot: &Snapshot, csrf: &str) -> Markup {
    let overview = &view.overview;
    let one = &overview.timeline.installed;
    let card = snapshot.card(one.catalog.as_deref(), &one.package);
    let package = card.map(|(source, _)| format!("{}/{}", encode(&source.id), encode(&one.package)));
    html! {
        div.head #operator-head {
            (parts::icon(card.and_then(|(_, card)| card.icon.as_deref()), &name(one), "big"))
            div.head-text {
                h1 { (name(one)) }
                div.row {
                    (parts::status(&one.status))
                    span { (versions(one)) }
                    @if !one.deprecations.is_empty() { (parts::chip(Tone::Warn, Tone::Warn.glyph(), "Deprecated")) }
                }
            }
            div.actions {
                (primary(view, package.as_deref(), csrf))
                (menu::show("operator-menu", &further(overview, package.as_deref())))
            }
        }
        @if let Some((tone, text)) = notice(view) {
            section.notes #banner aria-label="Notice" { (banner::note(tone, &text)) }
        }
        @if !one.deprecations.is_empty() {
            section.notes #deprecations aria-label="Deprecations" {
                @for text in &one.deprecations {
                    (banner::note(Tone::Warn, &html! { strong { "Deprecated. " } (sentence(&clean(text))) }))
                }
            }
        }
    }
}

/// The one primary action.
fn primary(view: &View, package: Option<&str>, csrf: &str) -> Markup {
    let one = &view.overview.timeline.installed;
    html! {
        @match (one.status, &one.review) {
            (Status::NeedsApproval, Some(_)) => (review(one, "primary")),
            (Status::NeedsApproval, None) => (approve_form(one, csrf, "primary", view.cannot_approve.is_some())),
            (Status::Paused, _) => a.button.primary href={ (href(one)) "/change?what=resume" } { "Resume" },
            (Status::Unmanaged, _) => @if let Some(package) = package {
                a.button.primary href={ "/install/" (package) "?namespace=" (encode(&one.namespace)) } { "Create a Subscription" }
            },
            _ => @if let Some(crd) = main_kind(&view.overview) {
                a.button.primary href=(create(one, crd)) { "Create " (clean(&crd.kind)) }
            },
        }
    }
}

/// The kind that users create first: authors list it first.
fn main_kind(overview: &Overview) -> Option<&CrdDescription> {
    ready_kinds(overview).first()
}

/// The kinds that the operator provides; none before it runs.
pub(super) fn ready_kinds(overview: &Overview) -> &[CrdDescription] {
    let runs = |status: &olm_api::ClusterServiceVersionStatus| status.phase == CsvPhase::Succeeded;
    let csv = overview.csv.as_ref().filter(|csv| csv.status.as_ref().is_some_and(runs));
    csv.map(|csv| csv.spec.owned_crds()).unwrap_or_default()
}

/// URL of the form for a new object, in a namespace that the operator watches.
pub(super) fn create(one: &Installed, crd: &CrdDescription) -> String {
    let namespace = match one.watches.as_slice() {
        [only] if !only.is_empty() => only,
        [] | [_] => "default",
        many if many.contains(&one.namespace) => &one.namespace,
        many => &many[0],
    };
    format!("/instances/new/{}?ns={}", encode(&crd.name), encode(namespace))
}

/// Further actions.
fn further(overview: &Overview, package: Option<&str>) -> Vec<Item> {
    let one = &overview.timeline.installed;
    let home = href(one);
    let mut out = Vec::new();
    if overview.plan.as_ref().is_some_and(|plan| !plan.spec.approved) {
        out.push(Item::new("Review the plan", format!("{home}/plan")));
    }
    if overview.subscription.is_some() && one.status != Status::Paused {
        out.push(Item::new("Pause", format!("{home}/change?what=pause")));
    }
    if let Some(older) = overview.history.iter().find(|revision| revision.older) {
        let to = format!("{home}/rollback?to={}", encode(&older.csv));
        out.push(Item::new(format!("Roll back to {}", clean(&older.version)), to));
    }
    out.extend(package.map(|package| Item::new("View in catalog", format!("/catalog/{package}"))));
    out.push(Item::new("Uninstall", format!("{home}/uninstall")).danger());
    out
}

/// Whether a status is that of a failure.
pub(super) fn is_wrong(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Degraded | Status::CannotUpdate)
}

/// The most urgent notice: cause and fix.
fn notice(view: &View) -> Option<(Tone, Markup)> {
    let timeline = &view.overview.timeline;
    let one = &timeline.installed;
    let wrong = is_wrong(one.status);
    let tone = if wrong { Tone::Bad } else { Tone::Warn };
    let blocker =
        || timeline.blockers.first().map(|first| (tone, blocked(one, first, timeline.blockers.len() - 1)));
    match one.status {
        _ if wrong && !timeline.blockers.is_empty() => blocker(),
        Status::NeedsApproval => Some((Tone::Info, approval(view))),
        Status::Paused => Some((Tone::Info, paused(&view.overview))),
        Status::Unmanaged => Some((
            Tone::Info,
            html! {
                strong { "No Subscription. " } "This operator receives no updates."
            },
        )),
        Status::Healthy => blocker(),
        _ => blocker().or_else(|| {
            let tone = if wrong { Tone::Bad } else { Tone::Info };
            (!one.reason.is_empty()).then(|| (tone, html! { (prose(&sentence(&clean(&one.reason)))) }))
        }),
    }
}

/// The first problem, and the number of `others`.
fn blocked(one: &Installed, first: &Blocker, others: usize) -> Markup {
    html! {
        @if !first.reason.is_empty() { strong { (clean(&first.reason)) ": " } }
        (prose(&sentence(&clean(&first.text)))) " "
        span.small.muted.clip { (clean(&first.object)) }
        @if let Some(fix) = &first.fix { p.small { "Hint: " (prose(&clean(fix))) } }
        @if others > 0 {
            p.small { a href={ (Tab::Overview.href(&href(one))) "#waits" } { "Show " (parts::plural(others, "more problem")) } }
        }
    }
}

fn approval(view: &View) -> Markup {
    let one = &view.overview.timeline.installed;
    html! {
        strong { "Plan requires approval. " }
        (sentence(&clean(&one.reason)))
        @if let Some(points) = &one.review { p { "Review before the approval: " (clean(points)) "." } }
        (along(&view.overview.along))
        @if let Some(why) = &view.cannot_approve { p { (clean(why)) } }
        p.small.muted {
            @if let Some(digest) = &one.plan_digest { "Approves plan " code title=(digest) { (short(digest)) } " only. " }
            "Command line: " code { "olm approve " (word(&one.package)) " -n " (one.namespace) }
        }
    }
}

/// The dependencies of the plan: approving the plan approves them too.
fn along(list: &[AlongRef]) -> Markup {
    html! {
        @for other in list {
            p {
                "Also installs " (clean(&other.bundle.package)) " " (clean(&other.bundle.version_text()))
                ", required by " (clean(&other.required_by.join(", "))) "."
            }
        }
    }
}

/// The first digits of a digest, enough for a comparison by eye.
fn short(digest: &str) -> &str {
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    digits.get(..12).unwrap_or(digits)
}

fn paused(overview: &Overview) -> Markup {
    let version = overview.timeline.installed.version.as_deref().map(clean);
    let pin = overview.subscription.as_ref().and_then(|subscription| subscription.spec.version.as_ref());
    html! {
        strong { "Paused" @if let Some(version) = &version { " at " (version) } }
        @if pin.is_some_and(|pin| pin.starts_with('=')) { ", and pinned to this version" }
        ". Nothing is changed until you resume."
    }
}
