//! CustomResourceDefinitions: those that are listed and those that are there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Findings;
use crate::model::{Bundle, name};
use crate::properties::versions;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut crds: BTreeMap<&str, &Value> = BTreeMap::new();
    for crd in bundle.crds() {
        if crds.insert(name(crd), crd).is_some() {
            let field = format!("CustomResourceDefinition {}", name(crd));
            findings.error("crd-duplicate", field, "the bundle has it twice; keep one with all versions");
        }
        shape(crd, findings);
    }

    let owned = bundle.owned_crds();
    for (index, owned) in owned.iter().enumerate() {
        let field = format!("spec.customresourcedefinitions.owned[{index}]");
        let Some(crd) = crds.get(owned.name.as_str()) else {
            let nearest = olm_version::suggest(&owned.name, crds.keys().copied(), 1);
            let hint = nearest.first().map(|near| format!("; there is {near}")).unwrap_or_default();
            findings.error(
                "crd-missing",
                field,
                format!("{} is owned but not in the bundle{hint}", owned.name),
            );
            continue;
        };
        let kind = text(crd, "/spec/names/kind");
        if kind != owned.kind {
            let text = format!("kind is {:?} here and {kind:?} in the CustomResourceDefinition", owned.kind);
            findings.error("crd-kind-mismatch", format!("{field}.kind"), text);
        }
        if !versions(crd).contains(&owned.version.as_str()) {
            let text = format!(
                "{} has no version {:?}; it has {}",
                owned.name,
                owned.version,
                versions(crd).join(", ")
            );
            findings.error("crd-version-missing", format!("{field}.version"), text);
        } else if !served(crd, &owned.version) {
            let text = format!("version {} of {} is not served", owned.version, owned.name);
            findings.error("crd-version-not-served", format!("{field}.version"), text);
        }
    }
    for name in crds.keys().filter(|name| !owned.iter().any(|owned| owned.name == **name)) {
        let text = "it is in the bundle but not among spec.customresourcedefinitions.owned; list it there";
        findings.error("crd-not-owned", format!("CustomResourceDefinition {name}"), text);
    }
}

fn shape(crd: &Value, findings: &mut Findings) {
    let field = format!("CustomResourceDefinition {}", name(crd));
    let v1 = text(crd, "/apiVersion") == "apiextensions.k8s.io/v1";
    if !v1 {
        let text = "it is not of apiextensions.k8s.io/v1; Kubernetes 1.22 removed the older one, so it cannot be installed";
        findings.warn("crd-api-removed", format!("{field}: apiVersion"), text);
    }
    let expected = format!("{}.{}", text(crd, "/spec/names/plural"), text(crd, "/spec/group"));
    if name(crd) != expected {
        let text = format!("the name must be spec.names.plural and spec.group: {expected:?}");
        findings.error("crd-name", format!("{field}: metadata.name"), text);
    }
    if v1 {
        let versions =
            crd.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let stored =
            versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
        if stored != 1 {
            let text = format!("exactly one version must have storage: true, and {stored} have");
            findings.error("crd-storage", format!("{field}: spec.versions"), text);
        }
        for version in versions.iter().filter(|version| version.pointer("/schema/openAPIV3Schema").is_none())
        {
            let text = "a version needs a schema (schema.openAPIV3Schema)";
            findings.error(
                "crd-schema-missing",
                format!("{field}: spec.versions {}", text_of(version, "name")),
                text,
            );
        }
    }
}

fn served(crd: &Value, version: &str) -> bool {
    let listed = crd.pointer("/spec/versions").and_then(Value::as_array);
    // The old API's single spec.version is served.
    listed
        .into_iter()
        .flatten()
        .find(|entry| text_of(entry, "name") == version)
        .is_none_or(|entry| entry.get("served") != Some(&Value::Bool(false)))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
