//! Versions, their schemas, columns and subresources.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::finding::{Of, quote};
use super::super::names::is_dns1035_label;
use super::{Crd, schema, text};

pub(super) fn check(crd: &Crd<'_>, findings: &mut Of<'_>) {
    let versions = crd.list("/spec/versions");
    if versions.is_empty() && (crd.v1 || crd.text("/spec/version").is_empty()) {
        let text = "there is no version";
        return findings.error("crd-versions", "spec.versions", text, "list at least one");
    }
    if !crd.v1 {
        top_level(crd, versions, findings);
    }
    removed_fields(crd, findings);
    let mut names = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        let name = text(version, "/name");
        if !is_dns1035_label(name) {
            let text = format!("{} is no name of a version", quote(name));
            findings.error("crd-versions", format!("{field}.name"), text, "write a name such as v1alpha1");
        } else if !names.insert(name) {
            let text = format!("version {name} is listed twice");
            findings.error("crd-version-duplicate", format!("{field}.name"), text, "keep one of the two");
        }
        for key in ["served", "storage"] {
            if !version.get(key).is_some_and(Value::is_boolean) {
                let text = "it must be said";
                findings.error("crd-versions", format!("{field}.{key}"), text, "write true or false");
            }
        }
        if version.get("deprecationWarning").is_some_and(|warning| !warning.is_null())
            && version.get("deprecated") != Some(&Value::Bool(true))
        {
            let text = "only a deprecated version can have it";
            findings.error(
                "crd-versions",
                format!("{field}.deprecationWarning"),
                text,
                "write deprecated: true",
            );
        }
        check_version(crd, version, &field, findings);
    }
    if !versions.is_empty() {
        flags(versions, findings);
    }
}

fn flags(versions: &[Value], findings: &mut Of<'_>) {
    let count =
        |key: &str| versions.iter().filter(|version| version.get(key) == Some(&Value::Bool(true))).count();
    let stored = count("storage");
    if stored != 1 {
        let text = format!("exactly one version must have storage: true, and {stored} have");
        findings.error("crd-storage", "spec.versions", text, "mark the one that objects are kept in");
    }
    if count("served") == 0 {
        let text = "no version is served, so that nobody can use it";
        findings.warn("crd-not-served", "spec.versions", text, "write served: true for at least one");
    }
}

/// Fields that the old API has once for all versions.
fn top_level(crd: &Crd<'_>, versions: &[Value], findings: &mut Of<'_>) {
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
    if !single.is_empty() && !is_dns1035_label(single) {
        let text = format!("{} is no name of a version", quote(single));
        findings.error("crd-versions", "spec.version", text, "write a name such as v1alpha1");
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
            findings.error("crd-versions", format!("spec.{top}"), text, "say it once");
        }
    }
    if let Some(schema) = crd.get("/spec/validation/openAPIV3Schema")
        && crd.get("/spec/preserveUnknownFields") == Some(&Value::Bool(false))
    {
        schema::check(schema, "spec.validation.openAPIV3Schema", &mut findings.softly());
    }
    columns(crd.list("/spec/additionalPrinterColumns"), "spec", "JSONPath", findings);
    scale(crd.get("/spec/subresources/scale"), "spec", findings);
}

/// What the new API does not have any more.
fn removed_fields(crd: &Crd<'_>, findings: &mut Of<'_>) {
    if !crd.v1 {
        return;
    }
    if crd.get("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        let text = "apiextensions.k8s.io/v1 does not have it any more";
        let fix =
            "write x-kubernetes-preserve-unknown-fields: true into the schema, and false or nothing here";
        findings.error("crd-preserve-unknown-fields", "spec.preserveUnknownFields", text, fix);
    }
    for key in ["version", "validation", "subresources", "additionalPrinterColumns"] {
        if crd.get(&format!("/spec/{key}")).is_some() {
            let text = "apiextensions.k8s.io/v1 has it in each version; the API server drops it here";
            findings.warn("crd-field-removed", format!("spec.{key}"), text, "move it to spec.versions");
        }
    }
}

fn check_version(crd: &Crd<'_>, version: &Value, field: &str, findings: &mut Of<'_>) {
    let schema_field = format!("{field}.schema.openAPIV3Schema");
    let structural = crd.v1 || crd.get("/spec/preserveUnknownFields") == Some(&Value::Bool(false));
    match version.pointer("/schema/openAPIV3Schema").filter(|schema| !schema.is_null()) {
        None if crd.v1 => {
            let text = "a version needs a schema";
            let fix = "add one; for any content: {type: object, x-kubernetes-preserve-unknown-fields: true}";
            findings.error("crd-schema-missing", schema_field, text, fix);
        }
        Some(schema) if crd.v1 => schema::check(schema, &schema_field, findings),
        // No API server that serves the old API is left to refuse it.
        Some(schema) if structural => schema::check(schema, &schema_field, &mut findings.softly()),
        _ => {}
    }
    let list = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let path = if crd.v1 { "jsonPath" } else { "JSONPath" };
    columns(list.map(Vec::as_slice).unwrap_or_default(), field, path, findings);
    scale(version.pointer("/subresources/scale").filter(|scale| !scale.is_null()), field, findings);
}

fn columns(columns: &[Value], field: &str, path: &str, findings: &mut Of<'_>) {
    for (index, column) in columns.iter().enumerate() {
        let field = format!("{field}.additionalPrinterColumns[{index}]");
        for key in ["name", path] {
            if text(column, &format!("/{key}")).is_empty() {
                findings.error("crd-columns", format!("{field}.{key}"), "it is required", "fill it in");
            }
        }
        let types = ["integer", "number", "string", "boolean", "date"];
        let type_ = text(column, "/type");
        if !types.contains(&type_) {
            let text = format!("{} is no type of a column", quote(type_));
            findings.error(
                "crd-columns",
                format!("{field}.type"),
                text,
                format!("write one of {}", types.join(", ")),
            );
        }
    }
}

fn scale(scale: Option<&Value>, field: &str, findings: &mut Of<'_>) {
    let Some(scale) = scale else { return };
    for (key, prefixes, required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."], true),
        ("labelSelectorPath", &[".spec.", ".status."], false),
    ] {
        let path = text(scale, &format!("/{key}"));
        let good = prefixes.iter().any(|prefix| path.starts_with(prefix)) && !path.contains('[');
        if !good && (required || !path.is_empty()) {
            let text = format!("{} is no path to a field below {}", quote(path), prefixes.join(" or "));
            let field = format!("{field}.subresources.scale.{key}");
            findings.error("crd-scale", field, text, "write it in the form .spec.replicas");
        }
    }
}
