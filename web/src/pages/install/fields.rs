//! The fields of the form.

use maud::{Markup, html};
use olm_ops::InstallRequest;

use super::{ConfigForm, Form, Policy, namespace_problem};
use crate::{
    links::clean,
    pages::package::{Found, version_of},
    view::{
        field::{self, Field, described_by},
        parts::{self, Tone},
    },
};

/// Why something should not be installed; the script replaces it with that of the next preview.
pub(super) fn deprecation(id: &str, message: Option<&str>) -> Markup {
    html! {
        div id=(id) { @if let Some(message) = message {
            (parts::note(Tone::Warn, &html! { strong { "Deprecated. " } (clean(message)) }))
        } }
    }
}

pub(super) fn channel_and_version(found: &Found<'_>, form: &Form) -> Markup {
    let channel = html! {
        select #channel name="channel" {
            @for channel in found.package.channels.values() {
                option value=(channel.name) selected[channel.name == found.channel.name] {
                    (clean(&channel.name))
                    @if channel.name == found.package.default_channel { " (default)" }
                    @if channel.deprecated.is_some() { " (deprecated)" }
                }
            }
        }
    };
    let older = (!found.newest && form.policy == Policy::Follow)
        .then(|| html! { "Installs " (version_of(found.bundle)) ". Upgrades require approval." });
    let version = html! {
        select #version name="version" aria-describedby=[described_by("version", older.is_some(), false)] {
            @for bundle in found.bundles() {
                @let version = version_of(bundle);
                @let is_head = found.is_head(bundle);
                option value=(if is_head { "" } else { &version }) selected[bundle.name == found.bundle.name] {
                    (clean(&version))
                    @if is_head { " (channel head)" }
                    @if bundle.deprecated.is_some() { " (deprecated)" }
                }
            }
        }
    };
    html! {
        (Field::new("channel", html! { "Channel" }).show(&channel))
        (deprecation("channel-note", found.channel.deprecated.as_deref()))
        div.not-range {
            (Field::new("version", html! { "Version" }).part("versions").help(older).show(&version))
            (deprecation("version-note", found.bundle.deprecated.as_deref()))
        }
    }
}

pub(super) fn version_policy(form: &Form, problem: Option<&str>) -> Markup {
    let choice = |value: &str, policy: Policy, label: &str, help: &str| {
        field::radio("policy", value, form.policy == policy, &html! { (label) }, &html! { (help) })
    };
    let input = html! {
        input #range type="text" name="range" value=(form.range) autocomplete="off" spellcheck="false"
            placeholder=">=0.10.0 <0.12.0" aria-invalid=[problem.map(|_| "true")] aria-describedby=[described_by("range", true, problem.is_some())];
    };
    html! {
        fieldset.field {
            legend { "Version policy" }
            (choice("follow", Policy::Follow, "Follow the channel", "Upgrades to new versions of the channel."))
            (choice("range", Policy::Range, "Stay in a range", "Installs the newest version in a range, and upgrades within it."))
            (choice("pin", Policy::Pin, "Pin the version", "Installs the selected version without upgrades."))
        }
        div.only-range {
            (Field::new("range", html! { "Range" })
                .part("ranges")
                .help(Some(html! { "Required only for a range." }))
                .problem(problem)
                .show(&input))
        }
    }
}

pub(super) fn namespace(request: &InstallRequest, known: &[String]) -> Markup {
    let (value, problem) = (&request.namespace, namespace_problem(request));
    let input = html! {
        input #namespace type="text" name="namespace" value=(value) list="namespaces" required maxlength="63" autocomplete="off"
            spellcheck="false" aria-invalid=[problem.as_ref().map(|_| "true")] aria-describedby=[described_by("namespace", true, problem.is_some())];
        datalist #namespaces { @for ns in known { option value=(ns) {} } }
    };
    let help = html! { @if request.create_namespace { "Does not exist, and will be created." } @else { "The operator's namespace, created if missing." } };
    Field::new("namespace", html! { "Namespace" })
        .part("namespace-field")
        .help(Some(help))
        .problem(problem.as_deref())
        .show(&input)
}

/// Settings of the operator's Deployments, collapsed.
pub(super) fn config(form: &ConfigForm) -> Markup {
    let problems = form.problems();
    let lists = [
        (
            "env",
            "Environment variables",
            "NAME=VALUE, one per line. They are readable in the Subscription: do not enter credentials.",
        ),
        ("node-selector", "Node selector", "LABEL=VALUE, one per line."),
        ("toleration", "Tolerations", "KEY[=VALUE][:EFFECT], one per line, such as dedicated=db:NoSchedule."),
    ];
    let input = |name: &str| {
        let wrong = problems.get(name).map(|_| "true");
        let about = described_by(name, true, wrong.is_some());
        html! {
            textarea id=(name) name=(name) rows="2" spellcheck="false" aria-invalid=[wrong] aria-describedby=[about] {
                "\n" (form.text(name))
            }
        }
    };
    html! {
        details.fold #config open[!form.is_empty()] {
            summary { "Configuration" }
            div.body.stack {
                @for (name, label, help) in lists {
                    (Field::new(name, html! { (label) })
                        .help(Some(html! { (help) }))
                        .problem(problems.get(name).map(String::as_str))
                        .show(&input(name)))
                }
                fieldset.group {
                    legend { "Resources of each container" }
                    div.grid2 { @for (name, label) in super::config::RESOURCES {
                        @let id = name.replace('.', "-");
                        @let wrong = problems.get(name).map(|_| "true");
                        (Field::new(&id, html! { (label) }).problem(problems.get(name).map(String::as_str)).show(&html! {
                            input id=(id) type="text" name=(name) value=(form.text(name)) autocomplete="off"
                                placeholder=(if name.ends_with("cpu") { "100m" } else { "64Mi" })
                                aria-invalid=[wrong] aria-describedby=[described_by(&id, false, wrong.is_some())];
                        }))
                    } }
                }
            }
        }
    }
}
