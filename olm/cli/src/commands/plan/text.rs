//! A plan as text.

use std::fmt::Write as _;

use olm_bundle::permissions::PermissionRule;
use olm_plan::{
    Finding, ImageSignature, Level, Op, Plan, PlanAction, PlannedObject, Severity, watched_namespaces,
};

use crate::{
    output::{by_kind, count},
    prose::{printable, wrapped},
};

/// Maximum number of permissions without risk that are listed; risky ones are always listed.
const LOW_RIGHTS: usize = 10;

/// Changes, findings and permissions of the operator.
pub fn plan_text(plan: &Plan) -> String {
    let mut out = format!("plan {}\n", plan.digest);
    out += &wrapped("", "  ", &printable(&title(plan)));
    if plan.path.len() > 1 {
        let hops = plan.path.join(" -> ");
        out += &wrapped("path:      ", "           ", &printable(&format!("{hops} (one version at a time)")));
    }
    if !plan.watches.is_empty() {
        out += &wrapped("watches:   ", "           ", &printable(&watched_namespaces(&plan.watches)));
    }
    if !plan.why.text.is_empty() {
        out += &wrapped("why:       ", "           ", &printable(&plan.why.text));
    }
    for need in &plan.dependencies {
        let text = format!("{} of {}: {}", need.need, need.required_by, need.satisfied_by);
        out += &wrapped("needs:     ", "           ", &printable(&text));
    }
    for along in &plan.along {
        let (create, change, _) = along.plan.counts();
        let added = along.plan.permissions.added.len();
        let text = format!(
            "{} {} by Subscription {}: {create} to create, {change} to change, {added} permissions (plan {})",
            along.entry.bundle.package,
            along.entry.bundle.version_text(),
            along.entry.subscription,
            along.plan.short_digest()
        );
        out += &wrapped("along:     ", "           ", &printable(&text));
    }
    if !plan.reversible.possible {
        let why = plan.reversible.reason.as_deref().unwrap_or("unknown");
        out += &wrapped("rollback:  ", "           ", &printable(&format!("not possible: {why}")));
    }
    out += &findings(&plan.findings);
    out += &permissions(plan);
    out += &images(plan);
    out += &signatures(plan);
    out += &objects(plan);
    out
}

fn title(plan: &Plan) -> String {
    let mut title = match plan.action {
        PlanAction::None => format!("keep {}", plan.package),
        action => format!("{} {}", action.as_str(), plan.package),
    };
    match (&plan.from, &plan.to) {
        (Some(from), Some(to)) if from != to => _ = write!(title, " {from} -> {to}"),
        (Some(version), _) | (None, Some(version)) => _ = write!(title, " {version}"),
        (None, None) => {}
    }
    _ = write!(title, " in namespace {}", plan.namespace);
    match (&plan.from_channel, &plan.channel) {
        (Some(from), Some(to)) => _ = write!(title, " (channel {from} -> {to})"),
        (None, Some(channel)) => _ = write!(title, " (channel {channel})"),
        (_, None) => {}
    }
    title
}

fn findings(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "\nfindings: none\n".to_owned();
    }
    let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let mut out = format!(
        "\nfindings: {} blocking, {} warning, {} informational (olm explain CODE)\n",
        of(Severity::Block),
        of(Severity::Warn),
        of(Severity::Info)
    );
    for finding in findings {
        let mark = match finding.severity {
            Severity::Block => '✖',
            Severity::Warn => '⚠',
            Severity::Info => '·',
        };
        // Most texts contain their subject.
        let about = if finding.text.contains(&finding.subject) || finding.subject.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.subject)
        };
        let text = format!("{}: {about}{}", finding.code, finding.text);
        out += &wrapped(&format!("  {mark} "), "    ", &printable(&text));
        if let Some(fix) = &finding.fix {
            _ = writeln!(out, "      {}", printable(fix));
        }
    }
    out
}

fn permissions(plan: &Plan) -> String {
    let delta = &plan.permissions;
    let of = |level| delta.summary.get(&level).copied().unwrap_or_default();
    let mut out = format!(
        "\npermissions: {} added, {} removed; resulting HIGH {}, MED {}, LOW {}\n",
        delta.added.len(),
        delta.removed.len(),
        of(Level::High),
        of(Level::Med),
        of(Level::Low)
    );
    if let Some(percentile) = delta.percentile {
        let text = format!(
            "{percentile} of 100 operators of the catalog have fewer permissions ({})",
            delta.compared
        );
        out += &wrapped("  ", "  ", &printable(&text));
    }
    for (lead, rules) in [("  + ", &delta.added), ("  - ", &delta.removed)] {
        out += &rules_text(lead, rules);
    }
    out
}

/// Permissions, one a line, after a lead.
pub fn rules_text(lead: &str, rules: &[PermissionRule]) -> String {
    let mut out = String::new();
    let rest = " ".repeat(lead.len() + 7);
    let mut low = 0;
    for rule in rules {
        if rule.level == Level::Low {
            low += 1;
            if low > LOW_RIGHTS {
                continue;
            }
        }
        let level = rule.level.as_str();
        let mut text = format!("{} ({})", rule.rule, rule.scope);
        if let Some(reason) = &rule.reason {
            _ = write!(text, ": {reason}");
        }
        out += &wrapped(&format!("{lead}{level:<4} "), &rest, &printable(&text));
    }
    if low > LOW_RIGHTS {
        _ = writeln!(out, "{lead}LOW  and {} more (-o json lists all)", low - LOW_RIGHTS);
    }
    out
}

/// The images that the plan runs, and the number of those that the operator may run later.
fn images(plan: &Plan) -> String {
    let (runs, later): (Vec<_>, Vec<_>) = plan.images.iter().partition(|image| image.runs);
    if plan.images.is_empty() {
        return String::new();
    }
    let mut out = format!("\nimages: {} to run, {} for later\n", runs.len(), later.len());
    for image in runs {
        let note = image.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
        out += &wrapped("  ", "    ", &printable(&format!("{}{note}", image.image)));
    }
    out
}

/// The images that InstallPolicies require to be signed.
fn signatures(plan: &Plan) -> String {
    if plan.signatures.is_empty() {
        return String::new();
    }
    let mut out = "\nsignatures required by InstallPolicies:\n".to_owned();
    for signature in &plan.signatures {
        let ImageSignature { image, role, policy, verdict, .. } = signature;
        let text = format!("{} image {image}: {} (InstallPolicy {policy})", role.as_str(), verdict.summary());
        out += &wrapped("  ", "    ", &printable(&text));
    }
    out
}

fn objects(plan: &Plan) -> String {
    let (create, change, delete) = plan.counts();
    let same = plan.objects.iter().filter(|object| object.op == Op::Unchanged).count();
    let mut out =
        format!("\nobjects: {create} to create, {change} to change, {delete} to delete, {same} unchanged\n");
    if plan.action == PlanAction::Uninstall {
        out = "\nobjects:\n".to_owned();
        for (what, op) in [("delete", Op::Delete), ("retain", Op::Noop)] {
            let objects: Vec<String> = plan.objects.iter().filter(|o| o.op == op).map(named).collect();
            let kinds = if objects.is_empty() { String::new() } else { format!(": {}", by_kind(&objects)) };
            let text = format!("{} to {what}{kinds}", count(objects.len(), "object"));
            out += &wrapped("  ", "    ", &printable(&text));
        }
    }
    for object in plan.objects.iter().filter(|object| object.op != Op::Unchanged) {
        let mut text = named(object);
        if matches!(object.op, Op::Update | Op::Adopt) && !object.diff.is_empty() {
            _ = write!(text, ", {}", count(object.diff.len(), "field"));
        }
        if let Some(with) = &object.goes_with {
            _ = write!(text, ", with {with}");
        }
        if let Some(note) = &object.note {
            _ = write!(text, " ({note})");
        }
        let mark = match object.op {
            Op::Create => "+",
            Op::Update => "~",
            Op::Adopt => "~ adopt",
            Op::Delete => "-",
            Op::Noop | Op::Unchanged => "=",
        };
        out += &wrapped(&format!("  {mark} "), "    ", &printable(&text));
    }
    out
}

/// `Kind namespace/name`.
pub fn named(object: &PlannedObject) -> String {
    let kind = object.gvk.split('.').next().unwrap_or_default();
    match &object.ns {
        Some(namespace) => format!("{kind} {namespace}/{}", object.name),
        None => format!("{kind} {}", object.name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(findings: Value) -> Plan {
        serde_json::from_value(json!({
            "apiVersion": olm_plan::API_VERSION, "digest": "sha256:0", "action": "install", "namespace": "ns",
            "subscription": "a", "package": "a", "bundle": "a.v1", "path": [], "dependencies": [], "objects": [],
            "why": { "chosen": "", "text": "", "rejected": [] }, "findings": findings, "requiresApproval": false,
            "permissions": { "added": [], "removed": [], "summary": {} },
            "reversible": { "possible": true },
        }))
        .unwrap()
    }

    #[test]
    fn t06_a_plan_shows_its_high_rights_among_the_findings() {
        assert!(plan_text(&plan(json!([]))).contains("\nfindings: none\n"));
        let high = json!([{ "code": "HighRightsAdded", "severity": "warn", "subject": "a.v1",
            "text": "the plan grants 2 new permissions of level HIGH: patch nodes" }]);
        let expected = "\nfindings: 0 blocking, 1 warning, 0 informational (olm explain CODE)\n  \
            ⚠ HighRightsAdded: ";
        let text = plan_text(&plan(high));
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_plan_shows_the_watched_namespaces() {
        let mut plan = plan(json!([]));
        assert!(!plan_text(&plan).contains("watches:"));
        for (watches, line) in
            [(&["a", "b"][..], "watches:   a, b\n"), (&[""][..], "watches:   all namespaces\n")]
        {
            plan.watches = watches.iter().map(ToString::to_string).collect();
            let text = plan_text(&plan);
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn an_uninstall_counts_the_kinds_that_go_and_that_stay() {
        let object =
            |gvk: &str, name: &str, op: &str| json!({ "gvk": gvk, "ns": "ns", "name": name, "op": op });
        let mut plan = plan(json!([]));
        plan.action = PlanAction::Uninstall;
        plan.objects = [
            object("Deployment.v1.apps", "a", "delete"),
            object("Lease.v1.coordination.k8s.io", "a", "delete"),
            object("Lease.v1.coordination.k8s.io", "b", "delete"),
            object("CustomResourceDefinition.v1.apiextensions.k8s.io", "as.example.com", "noop"),
        ]
        .map(|object| serde_json::from_value(object).unwrap())
        .into();
        let text = plan_text(&plan);
        let expected = "\nobjects:\n  3 objects to delete: 1 Deployment, 2 Leases\n  \
            1 object to retain: 1 CustomResourceDefinition\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn t22_a_plan_lists_who_signed_which_image() {
        let image = |role: &str, found: Value| {
            let mut image =
                json!({ "image": "a@sha256:0", "role": role, "policy": "p", "rule": "spec.signatures[0]" });
            image.as_object_mut().unwrap().extend(found.as_object().unwrap().clone());
            image
        };
        let signatures = [
            image("bundle", json!({ "verdict": "signed", "signer": "key sha256:1" })),
            image(
                "operator",
                json!({ "verdict": "not-signed", "reason": "WrongKey", "message": "made with another key" }),
            ),
        ];
        let mut plan = plan(json!([]));
        plan.signatures =
            signatures.into_iter().map(|image| serde_json::from_value(image).unwrap()).collect();
        let text = plan_text(&plan);
        let expected = "signatures required by InstallPolicies:\n  \
            bundle image a@sha256:0: signed by key sha256:1 (InstallPolicy p)\n  \
            operator image a@sha256:0: not signed as required (WrongKey) (InstallPolicy p)\n";
        assert!(text.contains(expected), "{text}");
    }
}
