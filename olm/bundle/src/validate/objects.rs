//! The manifests beside the ClusterServiceVersion.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Findings;
use crate::kinds::scope_of;
use crate::model::{Bundle, kind, name};

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for object in &bundle.objects {
        let (kind, name) = (kind(object), name(object));
        let field = format!("{kind} {name}");
        if scope_of(kind).is_none() {
            let text = "registry+v1 bundles cannot hold this kind; the operator must make it";
            findings.error("kind-unsupported", field.clone(), text);
        }
        if name.is_empty() {
            findings.error(
                "object-name-missing",
                format!("{kind}: metadata.name"),
                "a manifest needs a name",
            );
        } else if kind != "CustomResourceDefinition" && !seen.insert((kind, name)) {
            findings.error("object-duplicate", field, "the bundle has it twice");
        }
    }
    service_accounts(bundle, findings);
}

/// The operator's own account is made from its permissions; a second one would fight over it.
fn service_accounts(bundle: &Bundle, findings: &mut Findings) {
    let used: BTreeSet<&str> = bundle
        .deployments()
        .iter()
        .filter_map(|deployment| {
            deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str)
        })
        .collect();
    for object in bundle.objects.iter().filter(|object| kind(object) == "ServiceAccount") {
        if used.contains(name(object)) {
            let text = "a deployment uses this account, which is made from spec.install.spec.permissions; remove the manifest";
            findings.error("service-account-clash", format!("ServiceAccount {}", name(object)), text);
        }
    }
}
