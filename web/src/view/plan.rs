//! Rendering of a plan.

mod objects;

use maud::{Markup, html};
use olm_plan::{Plan, Severity, SignatureVerdict, watched_namespaces};

use super::{
    glyph::Glyph,
    parts::{self, Tone, sentence},
    permissions,
};
use crate::links::clean;

/// A plan under a heading.
pub(crate) fn panel(plan: &Plan) -> Markup {
    html! {
        section.panel #plan aria-labelledby="plan-h" {
            header {
                h2 #plan-h { "Plan" }
                @if plan.is_blocked() { (parts::chip(Tone::Bad, Tone::Bad.glyph(), "Blocked")) }
            }
            div.body { (show(plan)) }
        }
    }
}

/// The decision about a plan, which stays at the lower edge of the window.
pub(crate) fn footer(content: &Markup) -> Markup {
    html! { div.decision role="group" aria-label="Decision" { (content) } }
}

/// A plan: of an installation, an upgrade or a rollback.
pub(crate) fn show(plan: &Plan) -> Markup {
    html! {
        div.stack {
            (summary(plan))
            (delta(plan, "plan"))
            (findings(plan))
            (dependencies(plan))
            (signatures(plan))
            (objects::grouped(plan, "plan"))
            (along(plan))
            @if !plan.why.rejected.is_empty() {
                details.fold #plan-why {
                    summary { "Rejected versions" }
                    div.body {
                        dl.facts {
                            @for (versions, cause) in plan.why.rejected_by_cause() {
                                div { dt { (clean(&versions)) } dd { (clean(&cause.text)) } }
                            }
                        }
                    }
                }
            }
            p.small.muted.clip { "Plan " code { (plan.short_digest()) } }
        }
    }
}

/// The versions, the number of objects by operation, and why this version was selected.
fn summary(plan: &Plan) -> Markup {
    let (created, changed, deleted) = plan.counts();
    let totals =
        [("Create", created, "create"), ("Change", changed, "update"), ("Delete", deleted, "delete")];
    html! {
        div.stack-s {
            div.row.between {
                div.row {
                    @if let Some(from) = plan.from.as_ref().filter(|from| Some(*from) != plan.to.as_ref()) {
                        strong { (from) } span aria-hidden="true" { "→" } span.visually-hidden { " to " }
                    }
                    @if let Some(to) = &plan.to { strong { (to) } }
                }
                dl.totals {
                    @for (label, count, class) in totals {
                        div.(class).none[count == 0] { dt { (label) } dd { (count) } }
                    }
                }
            }
            @if !plan.why.text.is_empty() { p.muted { (sentence(&clean(&plan.why.text))) } }
            @if !plan.watches.is_empty() { p.muted { "Watches " (clean(&watched_namespaces(&plan.watches))) "." } }
        }
    }
}

fn findings(plan: &Plan) -> Markup {
    let mut findings: Vec<_> = plan.findings.iter().collect();
    findings.sort_by_key(|f| f.severity);
    html! {
        @if findings.is_empty() {
            (parts::note(Tone::Good, &html! { "No findings." }))
        } @else {
            ul.plain.stack-s aria-label="Findings" {
                @for finding in findings {
                    @let tone = match finding.severity {
                        Severity::Block => Tone::Bad,
                        Severity::Warn => Tone::Warn,
                        Severity::Info => Tone::Info,
                    };
                    li {
                        (parts::note(tone, &html! {
                            @if finding.severity == Severity::Block { strong { "Blocks the plan: " } }
                            @if finding.severity == Severity::Warn { strong { "Warning: " } }
                            @if finding.severity == Severity::Info { (sentence(&clean(&finding.text))) } @else { (clean(&finding.text)) }
                            @if let Some(fix) = &finding.fix { div.small.muted { (parts::prose(&clean(fix))) } }
                        }))
                    }
                }
            }
        }
    }
}

/// The change of the permissions; `id` distinguishes the parts of several plans on one page.
fn delta(plan: &Plan, id: &str) -> Markup {
    let added = &plan.permissions.added;
    html! {
        div.stack-s {
            div.row.between {
                h3 { "Added permissions" }
                (permissions::counts(added))
            }
            @if added.is_empty() { p.muted { "No new permissions." } }
            (permissions::high_first(added, id))
            @if !plan.permissions.removed.is_empty() {
                details.fold id={ (id) "-removed" } {
                    summary { "Removes " (parts::plural(plan.permissions.removed.len(), "permission")) }
                    div.body { (permissions::all(&plan.permissions.removed)) }
                }
            }
            @if let Some(percentile) = plan.permissions.percentile {
                p.small.muted { "More permissions than " (percentile) "% of the operators in this catalog (" (clean(&plan.permissions.compared)) ")." }
            }
        }
    }
}

fn dependencies(plan: &Plan) -> Markup {
    html! {
        @if !plan.dependencies.is_empty() {
            div.stack-s {
                h3 { "Dependencies" }
                dl.facts {
                    @for need in &plan.dependencies {
                        div { dt { (clean(&need.need)) } dd { (clean(&need.satisfied_by)) } }
                    }
                }
            }
        }
    }
}

/// The images that InstallPolicies require to be signed.
fn signatures(plan: &Plan) -> Markup {
    html! {
        @if !plan.signatures.is_empty() {
            div.stack-s {
                h3 { "Signatures required by policies" }
                ul.objects {
                    @for signature in &plan.signatures {
                        @let (tone, word) = match signature.verdict {
                            SignatureVerdict::Signed { .. } => (Tone::Good, "Signed"),
                            SignatureVerdict::Unknown { .. } => (Tone::Warn, "Unknown"),
                            _ => (Tone::Bad, "Missing"),
                        };
                        li {
                            (parts::chip(tone, tone.glyph(), word))
                            span.what {
                                (signature.role.as_str()) " image " code.clip { (clean(&signature.image)) }
                                div.small.muted { (clean(&signature.verdict.summary())) " · InstallPolicy " (clean(&signature.policy)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The dependencies in the plan, each with its rights and objects: approving the plan approves all of them.
fn along(plan: &Plan) -> Markup {
    html! {
        @for other in &plan.along {
            @let id = format!("along-{}", other.entry.subscription);
            section.stack-s aria-labelledby=(id) {
                h3 id=(id) { "Dependency: " (clean(&other.entry.bundle.package)) @if let Some(to) = &other.plan.to { " " (clean(to)) } }
                p.muted { "Required by " (clean(&other.entry.required_by.join(", "))) "; approving this plan also approves this operator." }
                @if !other.plan.findings.is_empty() { (findings(&other.plan)) }
                (delta(&other.plan, &id))
                (signatures(&other.plan))
                (objects::grouped(&other.plan, &id))
            }
        }
    }
}

/// Deleted and retained objects of a removal; `id` distinguishes several on one page.
pub(crate) fn removal(plan: &Plan, id: &str, title: &str) -> Markup {
    let (.., deleted) = plan.counts();
    let kept = plan.objects.len() - deleted;
    html! {
        div.stack-s {
            div.row {
                strong { (title) }
                span.counts {
                    (parts::chip(Tone::Bad, Glyph::Trash, &format!("{deleted} deleted")))
                    @if kept > 0 { (parts::tag(&format!("{kept} retained"))) }
                }
            }
            @if !plan.findings.is_empty() { (findings(plan)) }
            details.fold id={ "removal-" (id) } {
                summary { (parts::plural(plan.objects.len(), "object")) }
                div.body { ul.objects { @for object in &plan.objects { (objects::line(object)) } } }
            }
            p.small.muted.clip { "Plan " code { (plan.short_digest()) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn t06_a_plan_with_high_rights_is_not_recommended() {
        let shown = |findings: serde_json::Value| {
            let plan: Plan = serde_json::from_value(json!({
                "apiVersion": olm_plan::API_VERSION, "digest": "sha256:0", "action": "install", "namespace": "ns",
                "subscription": "a", "package": "a", "bundle": "a.v1", "path": [], "dependencies": [], "objects": [],
                "why": { "chosen": "", "text": "", "rejected": [] }, "findings": findings, "requiresApproval": false,
                "permissions": { "added": [], "removed": [], "summary": {} },
                "reversible": { "possible": true },
            }))
            .unwrap();
            show(&plan).into_string()
        };
        assert!(shown(json!([])).contains("No findings."));
        let finding = |code: &str, text: &str| json!({ "code": code, "severity": "warn", "subject": "a", "text": text });
        let page = shown(json!([
            finding("HighRightsAdded", "patch nodes"),
            finding("DeprecatedPackage", "use another")
        ]));
        let (high, other) = (page.find("patch nodes").unwrap(), page.find("use another").unwrap());
        assert!(high < other && !page.contains("No findings") && !page.contains("note good"), "{page}");
    }
}
