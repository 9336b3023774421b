//! Manifests that endanger the cluster's stability (upstream's `objects`).

use serde_json::Value;

use super::Findings;
use super::finding::PartFindings;
use super::practices::has;
use crate::model::{Bundle, kind};
use crate::provenance::Origin;

/// SecurityContextConstraints of OpenShift.
const DEFAULT_CONSTRAINTS: [&str; 8] = [
    "privileged",
    "restricted",
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "node-exporter",
    "nonroot",
];

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    for (index, object) in bundle.objects.iter().enumerate() {
        let mut findings = findings.of(Origin::Object(index));
        match kind(object) {
            "PodDisruptionBudget" => disruption_budget(object, &mut findings),
            "PriorityClass" if object.get("globalDefault") == Some(&Value::Bool(true)) => {
                let text = "it would become the priority of every pod in the cluster";
                findings.error("priority-global-default", "globalDefault", text, "write false");
            }
            "Role" | "ClusterRole" => rules(object, &mut findings),
            _ => {}
        }
    }
}

fn disruption_budget(object: &Value, findings: &mut PartFindings<'_>) {
    let value = |key: &str| object.pointer(&format!("/spec/{key}")).cloned().unwrap_or_default();
    let none = |value: &Value| match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => matches!(text.trim(), "0" | "0%"),
        _ => false,
    };
    let fix = "leave room for one pod to be evicted";
    if none(&value("maxUnavailable")) {
        let text = "no pod may ever be evicted: nodes cannot be drained";
        findings.error("disruption-budget", "spec.maxUnavailable", text, fix);
    }
    if value("minAvailable").as_str().is_some_and(|text| text.trim() == "100%") {
        let text = "no pod may ever be evicted: nodes cannot be drained";
        findings.error("disruption-budget", "spec.minAvailable", text, fix);
    }
}

fn rules(object: &Value, findings: &mut PartFindings<'_>) {
    let rules = object.get("rules").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let field = format!("rules[{index}]");
        if has(rule, "apiGroups", &["policy"])
            && has(rule, "resources", &["poddisruptionbudgets"])
            && has(rule, "verbs", &["*", "create", "update", "patch"])
        {
            let text = "it may write disruption budgets, which can keep nodes from being drained";
            findings.warn(
                "rights-disruption-budgets",
                field.as_str(),
                text,
                "leave the right out where it is not needed",
            );
        }
        if has(rule, "apiGroups", &["security.openshift.io"])
            && has(rule, "resources", &["securitycontextconstraints"])
            && has(rule, "verbs", &["*", "delete", "update", "patch"])
            && has(rule, "resourceNames", &DEFAULT_CONSTRAINTS)
        {
            let text = "it may change security context constraints that the whole cluster relies on";
            findings.error("rights-default-constraints", field, text, "make constraints of your own");
        }
    }
}
