//! Advice for operator authors (upstream's `good-practices`).

use olm_version::Version;
use serde_json::Value;

use super::Findings;
use super::finding::{PartFindings, quote};
use crate::model::{Bundle, CHANNELS};
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    requests(bundle, &mut csv);
    descriptions(bundle, &mut csv);
    rights(bundle, &mut csv);
    name(bundle, &mut csv);
    channels(bundle, &mut findings.of(Origin::Annotations));
}

fn requests(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    if bundle.deployments().is_empty() {
        let field = "spec.install.spec.deployments";
        return findings.error(
            "practice-no-deployment",
            field,
            "there is no deployment to install",
            "list one",
        );
    }
    for (index, deployment) in bundle.deployments().iter().enumerate() {
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        for (container, value) in containers.into_iter().flatten().enumerate() {
            let missing: Vec<&str> = ["cpu", "memory"]
                .into_iter()
                .filter(|key| value.pointer(&format!("/resources/requests/{key}")).is_none_or(Value::is_null))
                .collect();
            if !missing.is_empty() {
                let field = format!(
                    "spec.install.spec.deployments[{index}].spec.template.spec.containers[{container}].resources.requests"
                );
                let text = format!(
                    "the container requests no {}; where quotas are set, it is refused",
                    missing.join(" and no ")
                );
                findings.warn("practice-resource-requests", field, text, "set the requests");
            }
        }
    }
}

fn descriptions(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    for (relation, crds) in [("owned", bundle.owned_crds()), ("required", bundle.required_crds())] {
        for (index, crd) in crds.iter().enumerate().filter(|(_, crd)| crd.description.is_empty()) {
            let field = format!("spec.customresourcedefinitions.{relation}[{index}].description");
            let text = format!("{} has no description", crd.name);
            findings.warn("practice-crd-description", field, text, "describe its purpose in one sentence");
        }
    }
}

/// An operator that creates CustomResourceDefinitions bypasses the lifecycle manager.
fn rights(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    for (key, list) in
        [("permissions", bundle.permissions()), ("clusterPermissions", bundle.cluster_permissions())]
    {
        for (index, permission) in list.iter().enumerate() {
            let rules = permission.get("rules").and_then(Value::as_array);
            let rule = rules.into_iter().flatten().position(|rule| {
                has(rule, "apiGroups", &["apiextensions.k8s.io"])
                    && has(rule, "resources", &["customresourcedefinitions", "*"])
                    && has(rule, "verbs", &["create", "patch", "*"])
            });
            if let Some(rule) = rule {
                let field = format!("spec.install.spec.{key}[{index}].rules[{rule}]");
                let text = "it may create CustomResourceDefinitions, whose upgrades are not checked";
                findings.warn(
                    "practice-crd-rights",
                    field,
                    text,
                    "bring them in the bundle, or depend on another operator",
                );
            }
        }
    }
}

/// Whether a list of a rule has one of these.
pub(super) fn has(rule: &Value, key: &str, wanted: &[&str]) -> bool {
    let list = rule.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).any(|entry| wanted.contains(&entry))
}

fn name(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let name = bundle.name();
    // With a release, the default suite checks the name.
    if bundle.release().is_some() {
        return;
    }
    let good = name.split_once(".v").is_some_and(|(_, version)| Version::parse(version).is_ok());
    if !good {
        let text = format!("{} does not follow the convention", quote(name));
        findings.warn("practice-name", "metadata.name", text, "write NAME.vMAJOR.MINOR.PATCH");
    }
}

fn channels(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    let mut channels = bundle.channels();
    channels.extend(bundle.default_channel());
    channels.sort_unstable();
    channels.dedup();
    channels.retain(|channel| !["candidate", "fast", "stable"].iter().any(|good| channel.starts_with(good)));
    if !channels.is_empty() {
        let text = format!("{} do not follow the convention", channels.join(", "));
        let fix = "begin the name of a channel with candidate, fast or stable";
        findings.warn("practice-channel", format!("annotations[{CHANNELS}]"), text, fix);
    }
}
