//! The manifests other than the ClusterServiceVersion.

use std::collections::BTreeSet;

use olm_kube_schema::names::{is_label_value, is_qualified_name};
use serde_json::Value;

use super::Findings;
use super::finding::quote;
use crate::kinds::scope_of;
use crate::model::{Bundle, kind, name};
use crate::provenance::Origin;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let accounts = accounts(bundle);
    let mut seen = BTreeSet::new();
    for (index, object) in bundle.objects.iter().enumerate() {
        let (kind, name) = (kind(object), name(object));
        let mut findings = findings.of(Origin::Object(index));
        if scope_of(kind).is_none() {
            let text = "registry+v1 bundles do not support this kind";
            findings.error(
                "kind-unsupported",
                "kind",
                text,
                "let the operator create it, and remove the manifest",
            );
        }
        if name.is_empty() {
            findings.error("object-name-missing", "metadata.name", "a manifest needs a name", "name it");
        } else if kind != "CustomResourceDefinition" && !seen.insert((kind, name)) {
            findings.error(
                "object-duplicate",
                "metadata.name",
                "the bundle has it twice",
                "remove one of the two",
            );
        }
        if kind == "ServiceAccount" && accounts.contains(name) {
            let text = "a deployment uses this account, which is created from spec.install.spec.permissions";
            findings.error(
                "service-account-clash",
                "metadata.name",
                text,
                "remove the manifest, or rename one of the two",
            );
        }
        labels(object, "annotations", &mut findings);
        labels(object, "labels", &mut findings);
    }
}

/// The operator's own accounts are generated from its permissions; a second one would conflict.
fn accounts(bundle: &Bundle) -> BTreeSet<&str> {
    bundle
        .deployments()
        .iter()
        .filter_map(|deployment| {
            deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str)
        })
        .collect()
}

/// The API server's rules for labels and annotations.
fn labels(object: &Value, key: &str, findings: &mut super::finding::PartFindings<'_>) {
    let map = object.pointer(&format!("/metadata/{key}")).and_then(Value::as_object);
    for (label, value) in map.into_iter().flatten() {
        let field = format!("metadata.{key}[{label}]");
        if !is_qualified_name(&label.to_ascii_lowercase()) {
            let text = format!("{} is not a valid key of a label or annotation", quote(label));
            findings.error(
                "label-name-invalid",
                field,
                text,
                "write [DOMAIN/]NAME with letters, digits, \"-\", \"_\", \".\"",
            );
        } else if key == "labels" && !value.as_str().is_none_or(is_label_value) {
            let text = format!("{} is not a valid label value", quote(value.as_str().unwrap_or_default()));
            findings.error(
                "label-value-invalid",
                field,
                text,
                "write at most 63 letters, digits, \"-\", \"_\" and \".\"",
            );
        }
    }
}
