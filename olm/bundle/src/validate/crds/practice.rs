//! Valid but problematic schemas, and remains of the old API.

use serde_json::Value;

use super::super::finding::{PartFindings, quote};
use super::{Crd, text};

pub(super) fn check(crd: &Crd<'_>, findings: &mut PartFindings<'_>) {
    let versions = crd.list("/spec/versions");
    let is_served = |version: &Value| version.get("served") == Some(&Value::Bool(true));
    if !versions.is_empty() && !versions.iter().any(is_served) {
        let text = "no version is served, so the API is unusable";
        findings.warn("crd-not-served", "spec.versions", text, "write served: true for at least one");
    }
    if crd.v1 {
        removed_fields(crd, findings);
    } else {
        duplicates(crd, versions, findings);
    }
    for (index, version) in versions.iter().enumerate() {
        if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
            keywords(schema, &format!("spec.versions[{index}].schema.openAPIV3Schema"), findings);
        }
    }
}

/// Keywords without effect.
fn keywords(schema: &Value, field: &str, findings: &mut PartFindings<'_>) {
    for field in olm_kube_schema::schema::unknown_keywords(schema, field) {
        let text = "unknown keyword: API servers drop it, or refuse it with strict field validation";
        findings.warn("crd-schema-keyword", field, text, "correct its name, or remove it");
    }
}

/// Fields removed in the new API.
fn removed_fields(crd: &Crd<'_>, findings: &mut PartFindings<'_>) {
    for key in ["version", "validation", "subresources", "additionalPrinterColumns"] {
        if crd.get(&format!("/spec/{key}")).is_some() {
            let text = "apiextensions.k8s.io/v1 has it in each version; the API server drops it here";
            findings.warn("crd-field-removed", format!("spec.{key}"), text, "move it to spec.versions");
        }
    }
}

/// The old API has some fields once for all versions, or in each version.
fn duplicates(crd: &Crd<'_>, versions: &[Value], findings: &mut PartFindings<'_>) {
    let single = crd.text("/spec/version");
    if let Some(first) = versions.first()
        && !single.is_empty()
        && text(first, "/name") != single
    {
        let text = format!(
            "it is {} and the first of spec.versions is {}",
            quote(single),
            quote(text(first, "/name"))
        );
        findings.error("crd-versions", "spec.version", text, "remove it, or give both the same name");
    }
    for (top, per_version) in [
        ("validation", "schema"),
        ("subresources", "subresources"),
        ("additionalPrinterColumns", "additionalPrinterColumns"),
    ] {
        let is_there = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
        if is_there(crd.get(&format!("/spec/{top}")))
            && versions.iter().any(|version| is_there(version.get(per_version)))
        {
            let text = format!("it is for all versions, and a version has {per_version} of its own");
            findings.error("crd-versions", format!("spec.{top}"), text, "set it in one place");
        }
    }
    if crd.text("/spec/conversion/strategy") == "Webhook"
        && crd.get("/spec/preserveUnknownFields") != Some(&Value::Bool(false))
    {
        let text = "a webhook can convert objects only where unknown fields are dropped";
        findings.error("crd-conversion", "spec.preserveUnknownFields", text, "write false");
    }
}
