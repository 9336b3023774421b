//! The annotations that catalogs are sorted by.

use super::finding::quote;
use super::{Findings, Options};
use crate::model::Bundle;
use crate::provenance::Origin;

const CAPABILITIES: [&str; 5] =
    ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];

pub(super) fn check_capabilities(bundle: &Bundle, findings: &mut Findings) {
    if let Some(level) = bundle.csv_annotation("capabilities")
        && !CAPABILITIES.contains(&level)
    {
        let text = format!("unknown capability level {}", quote(level));
        let fix = fix(level, &CAPABILITIES);
        findings.of(Origin::Csv).error("capability-unknown", "metadata.annotations.capabilities", text, fix);
    }
}

pub(super) fn check(bundle: &Bundle, options: &Options, findings: &mut Findings) {
    let Some(categories) = bundle.csv_annotation("categories") else { return };
    let custom: Vec<&str> = options.categories.iter().map(String::as_str).collect();
    let known: &[&str] = if custom.is_empty() { &CATEGORIES } else { &custom };
    for category in categories.split(',').map(str::trim).filter(|category| !known.contains(category)) {
        let text = format!("unknown category {}", quote(category));
        let fix = fix(category, known);
        findings.of(Origin::Csv).error("category-unknown", "metadata.annotations.categories", text, fix);
    }
}

fn fix(name: &str, known: &[&str]) -> String {
    match olm_version::suggest(name, known, 1).first() {
        Some(near) => format!("did you mean {near}?"),
        None => format!("write one of {}", known.join(", ")),
    }
}
