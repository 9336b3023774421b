//! Updates: the pending plan, and the update settings. Each choice links to a preview; this page changes
//! nothing.

use kube::ResourceExt as _;
use maud::{Markup, html};
use olm_api::{Subscription, names, subscription::SubscriptionState};
use olm_ops::{Installed, Overview};
use serde_json::{Value, json};

use crate::{
    links::{clean, encode},
    pages::installed::href,
    view::{glyph::Glyph, parts, parts::Tone},
};

/// A setting that can be changed.
struct Choice {
    title: String,
    /// The effect, or why the choice is unavailable.
    text: String,
    button: String,
    /// Query of the preview page; absent when the choice is unavailable.
    query: Option<String>,
}

impl Choice {
    fn new(title: &str, text: impl Into<String>, button: impl Into<String>, what: &str) -> Self {
        Self {
            title: title.into(),
            text: text.into(),
            button: button.into(),
            query: Some(format!("what={what}")),
        }
    }

    /// An unavailable choice.
    fn not_now(title: &str, why: &str, button: &str) -> Self {
        Self { title: title.into(), text: why.into(), button: button.into(), query: None }
    }
}

/// `channels` are those of the package in its catalog.
pub(super) fn show(view: &Overview, channels: &[String]) -> Markup {
    let one = &view.timeline.installed;
    html! {
        div.stack {
            (pending(view))
            @match &view.subscription {
                Some(subscription) => section.panel #updates aria-labelledby="updates-h" {
                    header { h2 #updates-h { "Settings" } div.row { (marks(subscription)) } }
                    ul.rows {
                        @for choice in choices(one, subscription) { li { (row(one, &choice)) } }
                        li { (channel(one, subscription, channels)) }
                    }
                },
                None => p.muted { "An operator without a Subscription has no update settings." },
            }
        }
    }
}

/// The same as JSON.
pub(super) fn model(view: &Overview, channels: &[String]) -> Value {
    let one = &view.timeline.installed;
    let spec = view.subscription.as_ref().map(|subscription| &subscription.spec);
    json!({
        "installed": one,
        "along": view.along,
        "channels": channels,
        "settings": spec.map(|spec| json!({
            "channel": spec.channel,
            "paused": spec.paused,
            "version": spec.version,
            "skipVersions": spec.skip_versions,
            "snooze": spec.snooze,
            "upgradeConstraintPolicy": spec.upgrade_constraint_policy,
        })),
    })
}

/// The plan that is pending or in progress, and its objects.
fn pending(view: &Overview) -> Markup {
    let Some(plan) = &view.plan else { return html! {} };
    let one = &view.timeline.installed;
    let steps = plan.status.as_ref().map(|status| status.plan.as_slice()).unwrap_or_default();
    let summary = plan.annotations().get(names::ANNOTATION_PLAN_SUMMARY);
    html! {
        section.panel #pending aria-labelledby="pending-h" {
            header {
                h2 #pending-h { @if plan.spec.approved { "Current plan" } @else { "Pending plan" } }
                @if !plan.spec.approved { a.button.slim href={ (href(one)) "/plan" } { "Review the plan" } }
            }
            div.body.stack-s {
                @if let Some(summary) = summary { p { (parts::sentence(&clean(summary))) } }
                @for other in &view.along {
                    p {
                        "Installs dependency " strong { (clean(&other.bundle.package)) } " " (clean(&other.bundle.version_text()))
                        span.muted { ", required by " (clean(&other.required_by.join(", "))) }
                    }
                }
                @if !steps.is_empty() {
                    details.fold #pending-objects {
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
                p.small.muted { "InstallPlan " code { (clean(&plan.name_any())) } }
            }
        }
    }
}

/// Chips of the active settings.
fn marks(subscription: &Subscription) -> Markup {
    let spec = &subscription.spec;
    html! {
        // A banner reports the pause, and the version that it pins.
        @if let Some(pin) = spec.version.as_ref().filter(|_| !spec.paused) { (parts::chip(Tone::Plain, Glyph::Dot, &clean(&format!("Pinned to {}", pin.trim_start_matches('='))))) }
        @if spec.snooze.is_some() { (parts::chip(Tone::Plain, Glyph::Clock, "Snoozed")) }
    }
}

fn choices(one: &Installed, subscription: &Subscription) -> Vec<Choice> {
    let spec = &subscription.spec;
    let state = subscription.status.as_ref().map(|status| status.state).unwrap_or_default();
    let offered = one.csv.is_some()
        && !spec.paused
        && matches!(state, SubscriptionState::UpgradeAvailable | SubscriptionState::UpgradePending);
    let none = if spec.paused { "No upgrade while paused." } else { "No upgrade available." };
    let mut out = vec![match &one.next {
        Some(next) if one.csv.is_some() && !spec.paused => Choice::new(
            "Skip",
            format!("Excludes {next}. Newer versions remain available."),
            format!("Skip {next}"),
            &format!("skip&version={}", encode(next)),
        ),
        _ => Choice::not_now("Skip", none, "Skip"),
    }];
    out.extend(spec.skip_versions.iter().map(|version| {
        let what = format!("unskip&version={}", encode(version));
        Choice::new("Skipped", format!("{version} is excluded."), format!("Allow {version}"), &what)
    }));
    out.push(match &spec.snooze {
        Some(snooze) => {
            let text =
                format!("Upgrades are hidden until a version newer than {} is available.", snooze.newest);
            Choice::new("Snoozed", text, "Unsnooze", "unsnooze")
        }
        None if offered => {
            let text = "Hides the available upgrade until a newer one appears.";
            Choice::new("Snooze", text, "Snooze", "snooze")
        }
        None => Choice::not_now("Snooze", none, "Snooze"),
    });
    out.push(match spec.paused {
        true => Choice::new("Paused", "The operator is not changed until you resume.", "Resume", "resume"),
        false => Choice::new("Pause", "Stops all changes until you resume.", "Pause", "pause"),
    });
    out.push(match &spec.version {
        Some(pin) => Choice::new(
            "Pinned",
            format!("Pinned to {pin}; other versions of the channel are ignored."),
            "Unpin",
            "unpin",
        ),
        None if spec.upgrade_constraint_policy.is_some() => {
            Choice::new("Pinned", "Upgrade edges of the catalog are ignored.", "Unpin", "unpin")
        }
        None => Choice::not_now("Pin", "Not pinned: follows its channel.", "Unpin"),
    });
    out
}

fn row(one: &Installed, choice: &Choice) -> Markup {
    html! {
        div.grow { strong { (choice.title) } p.small.muted { (clean(&choice.text)) } }
        @match &choice.query {
            Some(query) => a.button.slim href={ (href(one)) "/change?" (query) } { (clean(&choice.button)) },
            None => button.button.slim disabled { (choice.button) },
        }
    }
}

fn channel(one: &Installed, subscription: &Subscription, channels: &[String]) -> Markup {
    let followed = subscription.spec.channel.as_deref();
    let others = channels.iter().any(|channel| Some(channel.as_str()) != followed);
    let why = match (channels.is_empty(), followed) {
        (true, _) => "Failed to read its catalog.".to_owned(),
        (false, None) => "Follows the default channel of the package.".to_owned(),
        (false, Some(followed)) if others => format!("Follows {}.", clean(followed)),
        (false, Some(followed)) => format!("Follows {}, the only channel of the package.", clean(followed)),
    };
    html! {
        div.grow { strong #channel-h { "Channel" } p.small.muted { (why) } }
        @if others {
            form.row action={ (href(one)) "/change" } {
                input type="hidden" name="what" value="channel";
                select.slim name="channel" aria-labelledby="channel-h" {
                    @for channel in channels { option value=(channel) selected[Some(channel.as_str()) == followed] { (clean(channel)) } }
                }
                button.button.slim { "Change" }
            }
        } @else {
            button.button.slim disabled { "Change" }
        }
    }
}
