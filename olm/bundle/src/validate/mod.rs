//! What is wrong with a bundle.
//!
//! The codes are stable: scripts and the documentation refer to them.

mod crds;
mod csv;
mod examples;
mod icon;
mod metadata;
mod objects;

use crate::model::Bundle;

pub use icon::{ImageKind, sniff};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The bundle is wrong.
    Error,
    /// The bundle works; an author would want to know.
    Warning,
}

/// One thing that is wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Stable name of the rule, such as `crd-missing`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The field, as a path from the manifest it is in.
    pub field: String,
    /// What is wrong and what to do about it.
    pub text: String,
}

impl Bundle {
    /// Everything that is wrong with the bundle, errors first.
    #[must_use]
    pub fn validate(&self) -> Vec<Finding> {
        let mut findings = Findings::default();
        csv::check(self, &mut findings);
        crds::check(self, &mut findings);
        examples::check(self, &mut findings);
        icon::check(self, &mut findings);
        objects::check(self, &mut findings);
        metadata::check(self, &mut findings);
        findings.0.sort_by_key(|finding| finding.severity);
        findings.0
    }
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, code: &'static str, field: impl Into<String>, text: impl Into<String>) {
        self.0.push(Finding { code, severity: Severity::Error, field: field.into(), text: text.into() });
    }

    fn warn(&mut self, code: &'static str, field: impl Into<String>, text: impl Into<String>) {
        self.0.push(Finding { code, severity: Severity::Warning, field: field.into(), text: text.into() });
    }
}

/// Whether a text is a DNS-1123 subdomain: dot-separated labels of lower-case letters, digits and `-`.
pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !label.is_empty()
        && label.len() <= 63
        && label.chars().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests;
