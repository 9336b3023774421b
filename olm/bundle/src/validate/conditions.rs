//! APIs and webhooks that the ClusterServiceVersion describes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Findings;
use super::finding::{PartFindings, quote};
use crate::model::Bundle;
use crate::provenance::Origin;

const WEBHOOK_TYPES: [&str; 3] =
    ["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"];

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut csv = findings.of(Origin::Csv);
    let deployments: BTreeSet<&str> = bundle.deployments().iter().map(|d| text(d, "name")).collect();
    descriptions(bundle, &mut csv);
    api_services(bundle, &deployments, &mut csv);
    webhooks(bundle, &deployments, &mut csv);
    native(bundle, &mut csv);
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn need(value: &Value, keys: &[&str], field: &str, findings: &mut PartFindings<'_>) {
    for key in keys.iter().filter(|key| text(value, key).is_empty()) {
        let field = format!("{field}.{key}");
        findings.error("csv-field-missing", field, "it is required, expected a string", "fill it in");
    }
}

/// Owned and required CustomResourceDefinitions.
fn descriptions(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    for relation in ["owned", "required"] {
        let list = bundle.list(&format!("/spec/customresourcedefinitions/{relation}"));
        let mut seen = BTreeSet::new();
        for (index, crd) in list.iter().enumerate() {
            let field = format!("spec.customresourcedefinitions.{relation}[{index}]");
            need(crd, &["name", "version", "kind"], &field, findings);
            let name = text(crd, "name");
            if !name.is_empty() && !name.contains('.') {
                let text = format!("{} is not of the form plural.group", quote(name));
                findings.error("csv-crd-name", format!("{field}.name"), text, "write plural.group");
            }
            if !name.is_empty() && !seen.insert((name, text(crd, "version"))) {
                let text = format!("{name} {} is listed twice", text(crd, "version"));
                findings.error("csv-crd-duplicate", field, text, "remove one of the two");
            }
        }
    }
}

fn api_services(bundle: &Bundle, deployments: &BTreeSet<&str>, findings: &mut PartFindings<'_>) {
    for relation in ["owned", "required"] {
        let list = bundle.list(&format!("/spec/apiservicedefinitions/{relation}"));
        for (index, api) in list.iter().enumerate() {
            let field = format!("spec.apiservicedefinitions.{relation}[{index}]");
            need(api, &["name", "group", "version", "kind"], &field, findings);
            let deployment = text(api, "deploymentName");
            if relation == "owned" && !deployments.contains(deployment) {
                let text = format!("there is no deployment {}", quote(deployment));
                let fix = "name one of spec.install.spec.deployments";
                findings.error("api-service-deployment", format!("{field}.deploymentName"), text, fix);
            }
        }
    }
}

fn webhooks(bundle: &Bundle, deployments: &BTreeSet<&str>, findings: &mut PartFindings<'_>) {
    let owned: BTreeSet<String> = bundle.owned_crds().into_iter().map(|crd| crd.name).collect();
    let mut seen = BTreeSet::new();
    let mut first_conversion = None;
    for (index, webhook) in bundle.webhooks().iter().enumerate() {
        let field = format!("spec.webhookdefinitions[{index}]");
        let kind = text(webhook, "type");
        if !WEBHOOK_TYPES.contains(&kind) {
            let text = format!("{} is not a type of webhook", quote(kind));
            findings.error(
                "webhook-type",
                format!("{field}.type"),
                text,
                format!("write one of {}", WEBHOOK_TYPES.join(", ")),
            );
        }
        let name = text(webhook, "generateName");
        if name.is_empty() {
            findings.error(
                "csv-field-missing",
                format!("{field}.generateName"),
                "it is required",
                "fill it in",
            );
        } else if !seen.insert((name, kind)) {
            let text = format!("two webhooks of this type are called {}", quote(name));
            findings.warn(
                "webhook-name-duplicate",
                format!("{field}.generateName"),
                text,
                "rename one of the two",
            );
        }
        let deployment = text(webhook, "deploymentName");
        if !deployments.contains(deployment) {
            let text = format!("there is no deployment {}", quote(deployment));
            let fix = "name one of spec.install.spec.deployments";
            findings.error("webhook-deployment", format!("{field}.deploymentName"), text, fix);
        }
        let list =
            |key: &str| webhook.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if list("admissionReviewVersions").is_empty() {
            let text = "it is empty, expected the versions of AdmissionReview that the webhook supports";
            findings.error(
                "webhook-review-versions",
                format!("{field}.admissionReviewVersions"),
                text,
                "write [v1]",
            );
        }
        if kind != "ConversionWebhook" && !matches!(text(webhook, "sideEffects"), "None" | "NoneOnDryRun") {
            let text = format!(
                "{} is not allowed in admissionregistration.k8s.io/v1",
                quote(text(webhook, "sideEffects"))
            );
            findings.error(
                "webhook-side-effects",
                format!("{field}.sideEffects"),
                text,
                "write None or NoneOnDryRun",
            );
        }
        let converted = list("conversionCRDs");
        if kind == "ConversionWebhook" && converted.is_empty() {
            let text = "it is empty";
            findings.error(
                "webhook-conversion-none",
                format!("{field}.conversionCRDs"),
                text,
                "list CustomResourceDefinitions",
            );
        }
        for (index, crd) in converted.iter().enumerate() {
            let crd = crd.as_str().unwrap_or_default();
            if !owned.contains(crd) {
                let text = format!("{} is not among the owned CustomResourceDefinitions", quote(crd));
                let fix = "list it in spec.customresourcedefinitions.owned, or remove it here";
                findings.error(
                    "webhook-conversion-foreign",
                    format!("{field}.conversionCRDs[{index}]"),
                    text,
                    fix,
                );
            }
        }
        if !converted.is_empty() {
            first_conversion.get_or_insert(field);
        }
    }
    if let Some(field) = first_conversion {
        only_all_namespaces(bundle, &field, findings);
    }
}

/// A conversion webhook serves the whole cluster.
fn only_all_namespaces(bundle: &Bundle, field: &str, findings: &mut PartFindings<'_>) {
    let modes = bundle.list("/spec/installModes");
    let wrong = |mode: &&Value| {
        let supported = mode.get("supported") == Some(&Value::Bool(true));
        (text(mode, "type") == "AllNamespaces") != supported
    };
    if let Some(mode) = modes.iter().find(wrong) {
        let text = format!(
            "with conversionCRDs, AllNamespaces must be the only supported install mode; it is not while {} is {}",
            text(mode, "type"),
            mode.get("supported").unwrap_or(&Value::Null)
        );
        let fix = "support AllNamespaces alone";
        findings.error("webhook-conversion-install-mode", format!("{field}.conversionCRDs"), text, fix);
    }
}

fn native(bundle: &Bundle, findings: &mut PartFindings<'_>) {
    for (index, api) in bundle.list("/spec/nativeAPIs").iter().enumerate() {
        need(api, &["version", "kind"], &format!("spec.nativeAPIs[{index}]"), findings);
    }
}
