//! Whether the namespace lets the operator's pods in: the Pod Security Standards, by the labels of the namespace.
//!
//! Exemptions that an administrator configured in the API server (users, namespaces, runtime classes) are not visible
//! from outside; neither are other admission plug-ins.

mod baseline;
mod restricted;

use serde_json::Value;

use super::json::label;
use super::pod::{self, Pods};
use super::report::MOST_NAMED;
use super::{Context, Report, json::some_of};
use crate::finding::{Finding, FindingCode, Severity};

const LABEL: &str = "pod-security.kubernetes.io/";

/// What a mode does with pods that break its level, and how bad that is.
const MODES: &[(&str, &str, Severity)] = &[
    ("enforce", "the namespace refuses them", Severity::Block),
    ("warn", "the API server will warn", Severity::Warn),
    ("audit", "it will be in the audit log", Severity::Info),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn of(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            // The API server refuses such a label, except from before the admission plug-in was there.
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let Some(namespace) = context.namespace() else { return };
    let here = context.input.namespace;
    for pods in pod::changed(context).iter().filter(|p| p.reference.namespace.as_deref() == Some(here)) {
        // The strictest mode that the pods break tells it all; a milder one about the same is noise.
        let mut told: Option<Level> = None;
        for (mode, consequence, severity) in MODES {
            let Some(level) = label(namespace, &format!("{LABEL}{mode}")).and_then(Level::of) else {
                continue;
            };
            if told.is_some_and(|told| level <= told) {
                continue;
            }
            let minor = minor_of(label(namespace, &format!("{LABEL}{mode}-version")), context);
            let broken = violations(pods, level, minor);
            if broken.is_empty() {
                continue;
            }
            told = Some(level);
            let text = format!(
                "its pods break the Pod Security level {} ({LABEL}{mode}), so {consequence}: {}",
                level.as_str(),
                some_of(&broken, MOST_NAMED)
            );
            let fix =
                format!("kubectl label namespace {here} {LABEL}{mode}={} --overwrite", enough(pods, minor));
            report.push(
                Finding::new(FindingCode::PodSecurityViolation, pods.reference, text)
                    .severity(*severity)
                    .fix(fix),
            );
        }
    }
}

/// The minor version of Kubernetes whose rules hold. `latest` is that of the cluster; where nobody knows it, the newest.
fn minor_of(version: Option<&str>, context: &Context<'_>) -> u64 {
    let pinned = version.and_then(|v| v.strip_prefix("v1.")).and_then(|minor| minor.parse().ok());
    let cluster = context.input.facts.kubernetes.as_ref().map(|v| v.minor);
    pinned.or(cluster).unwrap_or(u64::MAX)
}

/// The strictest level that the pods keep.
fn enough(pods: &Pods<'_>, minor: u64) -> &'static str {
    if violations(pods, Level::Baseline, minor).is_empty() { "baseline" } else { "privileged" }
}

fn violations(pods: &Pods<'_>, level: Level, minor: u64) -> Vec<String> {
    let pod = Pod { spec: pods.spec(), annotations: pods.template.pointer("/metadata/annotations"), minor };
    let mut list = Vec::new();
    if level >= Level::Baseline {
        list.extend(baseline::violations(&pod));
    }
    if level >= Level::Restricted {
        list.extend(restricted::violations(&pod));
    }
    list
}

/// A pod as the rules look at it.
struct Pod<'a> {
    spec: &'a Value,
    annotations: Option<&'a Value>,
    /// Minor version of the rules.
    minor: u64,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        let spec = self.spec;
        ["/initContainers", "/containers", "/ephemeralContainers"]
            .into_iter()
            .flat_map(move |pointer| super::json::list(spec, pointer))
            .map(|container| (super::json::text(container, "/name"), container))
    }

    /// Names of the containers that break a rule.
    fn containers_that(&self, breaks: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|(_, c)| breaks(c)).map(|(name, _)| name).collect()
    }

    /// The pod's own setting and each container's, with who sets it.
    fn settings(&self, pointer: &str) -> Vec<(String, &'a Value)> {
        let pod = self.spec.pointer(&format!("/securityContext{pointer}"));
        let mut list: Vec<(String, &Value)> = pod.map(|v| ("the pod".to_owned(), v)).into_iter().collect();
        list.extend(self.containers().filter_map(|(name, container)| {
            Some((format!("container {name}"), container.pointer(&format!("/securityContext{pointer}"))?))
        }));
        list.retain(|(_, value)| !value.is_null());
        list
    }

    fn is_windows(&self) -> bool {
        super::json::text(self.spec, "/os/name") == "windows"
    }

    /// Since 1.34 a user namespace of its own makes some rules superfluous.
    fn has_own_users(&self) -> bool {
        self.minor >= 34 && self.spec["hostUsers"] == false
    }
}

/// `containers a, b`, or nothing.
fn named(what: &str, names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("{what} (container {one})")),
        many => Some(format!("{what} (containers {})", many.join(", "))),
    }
}

#[cfg(test)]
mod tests;
