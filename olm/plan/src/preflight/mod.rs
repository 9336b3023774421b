//! Everything that could block an install or an upgrade, reported at once.
//!
//! Each module checks one aspect. All are functions of the plan's input, the live objects and the facts; an
//! unknown fact gives no finding, and where it is relevant one line of
//! [`FindingCode::NotChecked`](crate::FindingCode::NotChecked).

mod access;
mod apis;
mod bundle;
mod collision;
mod context;
mod crd;
mod high_rights;
mod image;
mod immutable;
mod namespace;
mod needed;
mod pod;
mod pod_security;
mod policy;
mod priority_class;
mod quota;
mod report;
mod reserved;
mod rights;
mod rollback;
mod trap;
mod upgrade;
mod webhook;

use crate::finding::Finding;

pub(crate) use access::add;
pub use access::{Access, Rule};
pub(crate) use context::Context;
pub(crate) use crd::removed_stored_versions;
pub use image::names_on_nodes;
pub use needed::{
    FactsNeeded, KindNeeded, kinds_needed, namespaces_to_review, roles_needed, services_needed,
};
pub(crate) use policy::lending;
use report::Report;
pub(crate) use rights::demands;

/// Every check. None depends on another, so the order does not matter.
const CHECKS: &[fn(&Context<'_>, &mut Report)] = &[
    bundle::check,
    namespace::check,
    apis::check,
    rights::check,
    high_rights::check,
    policy::check,
    crd::check,
    reserved::check,
    collision::check,
    immutable::check,
    pod_security::check,
    quota::check,
    priority_class::check,
    image::check,
    webhook::check,
    trap::check,
    upgrade::check,
    rollback::check,
];

/// All findings, the most severe first.
pub(crate) fn findings(context: &Context<'_>) -> Vec<Finding> {
    let mut report = Report::default();
    for reference in &context.input.facts.unreadable {
        report.not_checked(format!("the current state of {reference}"), "no permission to read it");
    }
    for check in CHECKS {
        check(context, &mut report);
    }
    report.into_findings(context.input)
}
