//! Collected findings of the checks.

use std::collections::BTreeMap;

use crate::facts::Fact;
use crate::finding::{Finding, FindingCode, MOST_NAMED};
use crate::input::PlanInput;
use crate::json::some_of;

/// Findings, and unchecked items.
#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    /// Cause → unchecked items.
    open: BTreeMap<String, Vec<String>>,
}

impl Report {
    pub(super) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
    }

    pub(super) fn not_checked(&mut self, what: impl Into<String>, why: &str) {
        let list = self.open.entry(why.to_owned()).or_default();
        let what = what.into();
        if !list.contains(&what) {
            list.push(what);
        }
    }

    /// The value of a fact; records what cannot be checked when it is unknown.
    pub(super) fn known_or_record<'f, T>(&mut self, fact: &'f Fact<T>, what: &str) -> Option<&'f T> {
        if let Some(why) = fact.why_unknown() {
            self.not_checked(what, why);
        }
        fact.known()
    }

    pub(super) fn into_findings(mut self, input: &PlanInput<'_>) -> Vec<Finding> {
        if !self.open.is_empty() {
            let parts: Vec<String> = self
                .open
                .iter()
                .map(|(why, what)| format!("{} ({why})", some_of(what, MOST_NAMED)))
                .collect();
            let text = format!("not checked: {}", parts.join("; "));
            self.findings.push(
                Finding::new(FindingCode::NotChecked, format!("Namespace {}", input.namespace), text)
                    .fix(format!("kubectl auth can-i --list -n {}", input.namespace)),
            );
        }
        let mut list = self.findings;
        list.sort_by(|a, b| {
            (a.severity, a.code, &a.subject, &a.text).cmp(&(b.severity, b.code, &b.subject, &b.text))
        });
        list.dedup();
        list
    }
}
