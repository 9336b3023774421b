//! Existing objects of the plan that do not belong to the package.

use std::collections::BTreeSet;

use olm_version::shell_word;

use super::{Context, Report};
use crate::finding::{Finding, FindingCode, Severity};
use crate::json::{list, text};
use crate::object::ObjectRef;
use crate::owner::{Owner, owner_in};
use crate::plan::PlannedObject;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for object in context.objects.iter().filter(|o| o.phase.is_some()) {
        let reference = &object.reference;
        // CRDs have their own code; a namespace has no owner, and the version has the package's own name.
        let own = ["CustomResourceDefinition", "Namespace", "ClusterServiceVersion", "OperatorGroup"];
        if own.contains(&reference.kind.as_str()) {
            continue;
        }
        let Some(live) = context.live.get(reference) else { continue };
        report.extend(collision(object, owner_in(context.input, live)));
    }
    report.extend(default_account(context));
}

fn collision(object: &PlannedObject, owner: Owner) -> Option<Finding> {
    let reference = &object.reference;
    // Labels record ownership; they alone overwrite nothing.
    let changes: Vec<&str> =
        object.diff.iter().map(|d| d.path.as_str()).filter(|p| !p.starts_with("/metadata/")).collect();
    let (severity, text) = match owner {
        Owner::Ours => return None,
        Owner::Other(other) => (
            Severity::Block,
            format!("it exists and belongs to {other}; two owners would overwrite each other"),
        ),
        Owner::None | Owner::Shared(_) if changes.is_empty() => return None,
        Owner::None => (
            Severity::Warn,
            format!(
                "it exists without a known owner, and {} of its fields would be overwritten",
                changes.len()
            ),
        ),
        Owner::Shared(namespace) => (
            Severity::Warn,
            format!(
                "it is shared with the same package in namespace {namespace}, and {} of its fields would be \
                    overwritten for both",
                changes.len()
            ),
        ),
    };
    Some(
        Finding::new(FindingCode::NameCollision, reference, text)
            .severity(severity)
            .fix(format!("kubectl get {} -o yaml", named(reference))),
    )
}

/// `deployment.apps/x -n ns`, as for kubectl.
fn named(reference: &ObjectRef) -> String {
    let kind = match reference.group() {
        "" => reference.kind.to_lowercase(),
        group => format!("{}.{group}", reference.kind.to_lowercase()),
    };
    let object = shell_word(&format!("{kind}/{}", reference.name));
    match &reference.namespace {
        Some(namespace) => format!("{object} -n {}", shell_word(namespace)),
        None => object,
    }
}

/// Every pod without an account runs as `default`: rights granted to it are granted to all of them.
fn default_account(context: &Context<'_>) -> Option<Finding> {
    let mut namespaces = BTreeSet::new();
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for (_, binding) in context.of_kind("rbac.authorization.k8s.io", kind) {
            for subject in list(binding, "/subjects") {
                if text(subject, "/kind") == "ServiceAccount" && text(subject, "/name") == "default" {
                    namespaces.insert(text(subject, "/namespace"));
                }
            }
        }
    }
    let namespace = namespaces.first()?;
    let subject = ObjectRef::new("v1", "ServiceAccount", Some(namespace), "default");
    let text = "the operator uses ServiceAccount default of the namespace, so every pod without its own \
        ServiceAccount receives these permissions";
    Some(Finding::new(FindingCode::NameCollision, subject, text).severity(Severity::Warn).fix(format!(
        "kubectl get pods -n {}  # use a separate namespace: olm install -n NAMESPACE",
        shell_word(namespace)
    )))
}
