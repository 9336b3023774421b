//! Overview: problems, progress, provided kinds, conditions and facts.

use maud::{Markup, html};
use olm_api::{
    ClusterServiceVersion, Condition, Subscription,
    condition::{self, ConditionStatus},
    names,
};
use olm_ops::{Blocker, Overview, StepState};

use super::{header, history};
use crate::{
    links::{clean, encode, word},
    view::{
        glyph::Glyph,
        parts::{self, Tone, sentence},
        time,
    },
};

pub(super) fn show(view: &Overview) -> Markup {
    html! {
        div.split {
            div.stack #operator-main {
                (blockers(view))
                (progress(view))
                (kinds(view))
                (conditions(view))
            }
            (facts(view))
        }
    }
}

/// All problems, where the banner shows only the first.
fn blockers(view: &Overview) -> Markup {
    let waits = &view.timeline.blockers;
    let wrong = header::is_wrong(view.timeline.installed.status);
    let (title, tone) = if wrong { ("Problems", Tone::Bad) } else { ("Waiting for", Tone::Warn) };
    html! {
        @if waits.len() > 1 {
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

/// The kinds that the operator provides.
fn kinds(view: &Overview) -> Markup {
    let owned = header::ready_kinds(view);
    html! {
        @if !owned.is_empty() {
            section.panel #create aria-labelledby="create-h" {
                header { h2 #create-h { "Provided kinds" } }
                ul.rows {
                    @for crd in owned {
                        @let kind = clean(&crd.kind);
                        li {
                            div.grow {
                                strong { (clean(crd.display_name.as_deref().unwrap_or(&crd.kind))) }
                                @if let Some(text) = &crd.description { p.small.muted { (clean(text)) } }
                            }
                            div.actions {
                                a.button.slim href={ "/instances/" (encode(&crd.name)) } { "View" span.visually-hidden { " " (kind) " objects" } }
                                a.button.slim href=(header::create(&view.timeline.installed, crd)) { "Create" span.visually-hidden { " " (kind) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One line when all steps are done.
fn progress(view: &Overview) -> Markup {
    let steps = &view.timeline.steps;
    let done = steps.iter().all(|step| step.state == StepState::Done);
    html! {
        @if done {
            details.fold #progress-done {
                summary {
                    "Progress" span.small.muted {
                        ": all " (steps.len()) " steps done"
                        @if let Some(at) = steps.iter().filter_map(|step| step.at.as_deref()).max() { " " (time::ago(at)) }
                    }
                }
                div.body { (timeline(view)) }
            }
        } @else {
            section.panel #progress aria-labelledby="progress-h" {
                header { h2 #progress-h { "Progress" } }
                div.body { (timeline(view)) }
            }
        }
    }
}

fn timeline(view: &Overview) -> Markup {
    let current = view.history.iter().find(|revision| revision.current);
    // The approver of the current plan, else of the installed revision.
    let approval = view.approval.as_ref().or(current.map(|r| &r.approval).filter(|_| view.plan.is_none()));
    html! {
        ol.timeline {
            @for step in &view.timeline.steps {
                @let (class, glyph, word) = appearance(step.state);
                li.(class) {
                    span.mark { (glyph.draw()) }
                    div.clip {
                        div.row {
                            span.title { (step.title) span.visually-hidden { ": " (word) } }
                            @if let Some(at) = &step.at { span.small.muted { (time::ago(at)) } }
                        }
                        @if !step.text.is_empty() { p { (clean(&step.text)) } }
                        @if let Some(approval) = approval.filter(|_| step.id == "plan") { p.small { (history::approved(approval)) } }
                    }
                }
            }
        }
    }
}

fn appearance(state: StepState) -> (&'static str, Glyph, &'static str) {
    match state {
        StepState::Pending => ("pending", Glyph::Dot, "not started"),
        StepState::Running => ("running", Glyph::Spinner, "in progress"),
        StepState::Waiting => ("waiting", Glyph::Hand, "action required"),
        StepState::Done => ("done", Glyph::Check, "done"),
        StepState::Failed => ("failed", Glyph::Cross, "failed"),
    }
}

/// Conditions of the Subscription and of the current plan: the abnormal ones, and the others folded.
fn conditions(view: &Overview) -> Markup {
    let of_subscription = view.subscription.as_ref().and_then(|s| s.status.as_ref());
    let of_plan = view.plan.as_ref().and_then(|plan| plan.status.as_ref());
    let list = of_subscription.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let all = list
        .iter()
        .map(|condition| ("Subscription", condition))
        .chain(of_plan.into_iter().flat_map(|status| status.conditions.iter().map(|c| ("InstallPlan", c))));
    let (abnormal, normal): (Vec<_>, Vec<_>) = all.partition(|(_, condition)| is_abnormal(condition));
    html! {
        @if !abnormal.is_empty() {
            section.panel #conditions aria-labelledby="conditions-h" {
                header { h2 #conditions-h { "Conditions" } }
                (rows(&abnormal))
            }
        }
        @if !normal.is_empty() {
            details.fold #conditions-normal {
                summary { (parts::plural(normal.len(), "normal condition")) }
                (rows(&normal))
            }
        }
    }
}

/// Whether a condition reports a problem or an unfinished change: `Ready`, `Resolved` and `Installed` are
/// normally true, all others false.
fn is_abnormal(condition: &Condition) -> bool {
    let normally_true = [names::CONDITION_READY, names::CONDITION_RESOLVED, names::CONDITION_INSTALLED];
    normally_true.contains(&condition.type_.as_str()) != condition.is_true()
}

fn holds(condition: &Condition) -> &'static str {
    match condition.status {
        ConditionStatus::True => "yes",
        ConditionStatus::False => "no",
        ConditionStatus::Unknown => "unknown",
    }
}

fn rows(list: &[(&str, &Condition)]) -> Markup {
    html! {
        ul.rows.conditions {
            @for (object, condition) in list {
                li {
                    strong.clip { (clean(&condition.type_)) }
                    span { (holds(condition)) }
                    div.why.clip {
                        (clean(condition.reason.as_deref().unwrap_or_default())) " " span.small.muted { (object) }
                        @if let Some(message) = &condition.message { div.small.muted { (clean(message)) } }
                    }
                    @if let Some(at) = &condition.last_transition_time { span.small.muted.when { (time::ago(&at.0.to_string())) } }
                }
            }
        }
    }
}

fn facts(view: &Overview) -> Markup {
    let one = &view.timeline.installed;
    html! {
        aside.panel #facts aria-label="Facts" {
            div.body {
                dl.facts {
                    div { dt { "Namespace" } dd { (one.namespace) } }
                    div { dt { "Watches" } dd {
                        @if one.watches.iter().any(String::is_empty) { "all namespaces" }
                        @else if one.watches.is_empty() { "unknown" }
                        @else { (one.watches.join(", ")) }
                    } }
                    div { dt { "Updates" } dd { @if one.approval == "Manual" { "manual approval" } @else { "automatic" } } }
                    @if let Some(channel) = &one.channel { div { dt { "Channel" } dd { (clean(channel)) } } }
                    @if let Some(catalog) = &one.catalog { div { dt { "Catalog" } dd { (clean(catalog)) } } }
                    @if let Some(created) = &one.created { div { dt { "Installed" } dd { (time::ago(created)) } } }
                    @if let Some(csv) = &one.csv { div { dt { "ClusterServiceVersion" } dd { code { (clean(csv)) } } } }
                    @if view.subscription.is_some() { div { dt { "Subscription" } dd { code { (clean(&one.name)) } } } }
                    @if let Some(ready) = view.subscription.as_ref().and_then(ready) { div { dt { "Ready" } dd { (ready) } } }
                    @if let Some(due) = view.csv.as_ref().and_then(certificates) { div { dt { "Certificates" } dd { "renewed " (time::ago(&due)) } } }
                }
                hr;
                p.small.muted { "Command line:" br; code { "olm status " (word(&one.package)) " -n " (one.namespace) } }
            }
        }
    }
}

/// The kstatus conditions in one line: `yes`, or the condition that holds and its reason.
fn ready(subscription: &Subscription) -> Option<String> {
    let conditions = &subscription.status.as_ref()?.conditions;
    let ready = condition::find(conditions, names::CONDITION_READY)?;
    if ready.is_true() {
        return Some("yes".to_owned());
    }
    let holds = [names::CONDITION_STALLED, names::CONDITION_RECONCILING];
    let other = holds.iter().find_map(|type_| condition::find(conditions, type_).filter(|c| c.is_true()));
    let shown = other.unwrap_or(ready);
    let reason = shown.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(clean(&match other {
        Some(other) => format!("no: {}{reason}", other.type_),
        None => format!("no{reason}"),
    }))
}

/// When its certificates are due for renewal, if it has any.
fn certificates(csv: &ClusterServiceVersion) -> Option<String> {
    csv.status.as_ref()?.certs_rotate_at.as_ref().map(|due| due.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_normally_true_and_stalled_normally_false() {
        for (type_, holds, abnormal) in [
            (names::CONDITION_READY, true, false),
            (names::CONDITION_READY, false, true),
            (names::CONDITION_STALLED, true, true),
            (names::CONDITION_CATALOG_SOURCES_UNHEALTHY, false, false),
            (names::CONDITION_PACKAGE_DEPRECATED, true, true),
        ] {
            assert_eq!(is_abnormal(&Condition::new(type_, holds, "x", "")), abnormal, "{type_} {holds}");
        }
    }
}
