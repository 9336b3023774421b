//! Whether the namespace admits the operator's pods: the Pod Security Standards, by the labels of the
//! namespace.
//!
//! Exemptions configured in the API server (users, namespaces, runtime classes) are not visible to clients;
//! neither are other admission plug-ins.

use olm_kube_schema::pod_security::{LABEL, Level, pinned_minor, violations};

use super::pod::{self, Pods};
use super::{Context, Report};
use crate::finding::{Finding, FindingCode, MOST_NAMED, Severity};
use crate::json::{label, some_of};

/// Mode, its effect on violating pods, and the severity.
const MODES: &[(&str, &str, Severity)] = &[
    ("enforce", "the namespace rejects them", Severity::Block),
    ("warn", "the API server will warn", Severity::Warn),
    ("audit", "the violation is recorded in the audit log", Severity::Info),
];

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let Some(namespace) = context.namespace() else { return };
    let here = context.input.namespace;
    for pods in pod::changed(context).iter().filter(|p| p.reference.namespace.as_deref() == Some(here)) {
        // The strictest violated mode is sufficient; a milder one for the same violation is noise.
        let mut reported: Option<Level> = None;
        for (mode, consequence, severity) in MODES {
            let Some(level) = label(namespace, &format!("{LABEL}{mode}")).and_then(Level::parse) else {
                continue;
            };
            if reported.is_some_and(|reported| level <= reported) {
                continue;
            }
            let minor = minor_of(label(namespace, &format!("{LABEL}{mode}-version")), context);
            let broken = violations(pods.template, level, minor);
            if broken.is_empty() {
                continue;
            }
            reported = Some(level);
            let text = format!(
                "its pods violate Pod Security level {} ({LABEL}{mode}), so {consequence}: {}",
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

/// The minor version of Kubernetes whose rules apply. `latest` is that of the cluster; where unknown, the
/// newest.
fn minor_of(version: Option<&str>, context: &Context<'_>) -> u64 {
    let pinned = version.and_then(pinned_minor);
    let cluster = context.input.facts.kubernetes.as_ref().map(|v| v.minor);
    pinned.or(cluster).unwrap_or(u64::MAX)
}

/// The strictest level that the pods satisfy.
fn enough(pods: &Pods<'_>, minor: u64) -> &'static str {
    if violations(pods.template, Level::Baseline, minor).is_empty() { "baseline" } else { "privileged" }
}
