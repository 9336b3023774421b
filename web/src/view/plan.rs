//! Rendering of a plan.

use maud::{Markup, html};
use olm_plan::{Cause, Level, Op, Plan, PlannedObject, Severity, SignatureVerdict};

use super::{
    diff,
    glyph::Glyph,
    parts::{self, Tone, sentence},
};
use crate::links::clean;

fn mark(op: Op) -> &'static str {
    match op {
        Op::Create => "+",
        Op::Update | Op::Adopt => "~",
        Op::Delete => "−",
        Op::Noop | Op::Unchanged => "·",
    }
}

fn tone(level: Level) -> (Tone, &'static str) {
    match level {
        Level::High => (Tone::Bad, "High"),
        Level::Med => (Tone::Warn, "Medium"),
        Level::Low => (Tone::Plain, "Low"),
    }
}

pub(crate) fn show(plan: &Plan) -> Markup {
    let (created, changed, deleted) = plan.counts();
    html! {
        div.stack {
            div.row {
                @if let Some(from) = plan.from.as_ref().filter(|from| Some(*from) != plan.to.as_ref()) {
                    strong { (from) } span aria-hidden="true" { "→" } span.visually-hidden { " to " }
                }
                @if let Some(to) = &plan.to { strong { (to) } }
                span.counts {
                    @if created + changed + deleted == 0 { (parts::tag("no changes")) }
                    @if created > 0 { (parts::chip(Tone::Good, Glyph::Check, &format!("{created} created"))) }
                    @if changed > 0 { (parts::chip(Tone::Warn, Glyph::Info, &format!("{changed} changed"))) }
                    @if deleted > 0 { (parts::chip(Tone::Bad, Glyph::Trash, &format!("{deleted} deleted"))) }
                }
            }
            @if !plan.why.text.is_empty() { p.muted { (sentence(&clean(&plan.why.text))) } }
            (findings(plan))
            (permissions(plan, "plan"))
            (dependencies(plan))
            (signatures(plan))
            (objects(plan, "plan"))
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

/// `id` distinguishes the parts of several plans on one page.
fn permissions(plan: &Plan, id: &str) -> Markup {
    let mut added: Vec<_> = plan.permissions.added.iter().collect();
    added.sort_by(|a, b| (a.level, &a.scope, &a.rule).cmp(&(b.level, &b.scope, &b.rule)));
    let count = |level| added.iter().filter(|rule| rule.level == level).count();
    html! {
        div.stack-s {
            h3 { "Added permissions" }
            @if added.is_empty() {
                p.muted { "No new permissions." }
            } @else {
                div.counts {
                    @for level in [Level::High, Level::Med, Level::Low] {
                        @if count(level) > 0 {
                            @let (tone, word) = tone(level);
                            (parts::chip(tone, tone.glyph(), &format!("{} {}", count(level), word.to_lowercase())))
                        }
                    }
                }
                details.fold id={ (id) "-permissions" } open[count(Level::High) > 0] {
                    summary { "All " (parts::plural(added.len(), "permission")) }
                    div.body {
                        ul.objects {
                            @for rule in added {
                                @let (tone, word) = tone(rule.level);
                                li {
                                    (parts::chip(tone, tone.glyph(), word))
                                    span.what {
                                        (clean(&rule.rule))
                                        span.muted { " · " @if rule.scope == "cluster" { "whole cluster" } @else { "in " (clean(&rule.scope)) } }
                                        @if let Some(reason) = &rule.reason { div.small.muted { (clean(reason)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if let Some(percentile) = plan.permissions.percentile {
                p.small.muted { "More permissions than " (percentile) "% of the operators in this catalog (" (clean(&plan.permissions.compared)) ")." }
            }
            @if !plan.permissions.removed.is_empty() {
                p.small.muted { (parts::plural(plan.permissions.removed.len(), "permission")) " removed." }
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
                (permissions(&other.plan, &id))
                (signatures(&other.plan))
                (objects(&other.plan, &id))
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
                div.body { ul.objects { @for object in &plan.objects { (line(object)) } } }
            }
            p.small.muted.clip { "Plan " code { (plan.short_digest()) } }
        }
    }
}

fn objects(plan: &Plan, id: &str) -> Markup {
    html! {
        details.fold id={ (id) "-objects" } {
            summary { (parts::plural(plan.objects.len(), "object")) }
            div.body { ul.objects { @for object in &plan.objects { (line(object)) } } }
        }
    }
}

/// One object with its change.
fn line(object: &PlannedObject) -> Markup {
    html! {
        li {
            span.op.(object.op.as_str()) aria-hidden="true" { (mark(object.op)) }
            span.what {
                span.visually-hidden { (object.op.as_str()) " " }
                span.kind { (clean(object.gvk.split('.').next().unwrap_or(&object.gvk))) } " "
                (clean(&object.name))
                @if let Some(ns) = &object.ns { span.muted { " in " (clean(ns)) } }
                @if let Some(note) = &object.note { div.small.muted { (clean(note)) } }
                @if let Some(with) = &object.goes_with { div.small.muted { "deleted with " (clean(with)) } }
                @for change in &object.diff {
                    @let note = cause(change.cause, change.by.as_deref());
                    (diff::field(&change.path, change.live.as_ref(), change.new.as_ref(), note.as_deref()))
                }
                @if object.masked { div.small.muted { "Secret values are not shown." } }
            }
        }
    }
}

/// The author of a difference, unless it is the new version.
fn cause(cause: Cause, by: Option<&str>) -> Option<String> {
    let what = match cause {
        Cause::Change | Cause::Unknown => return None,
        Cause::Drift => "changed since the last apply",
        Cause::Both => "changed since the last apply and by this version",
    };
    Some(by.map_or_else(|| what.to_owned(), |by| format!("{what} by {by}")))
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
