//! Names, group and scope.

use super::super::finding::{Of, quote};
use super::super::names::{is_dns_subdomain, is_dns1035_label};
use super::Crd;
use crate::model::name;

const LABEL: &str = "write at most 63 lower-case letters, digits and \"-\", with a letter at the start";

pub(super) fn check(crd: &Crd<'_>, findings: &mut Of<'_>) {
    let (plural, group) = (crd.text("/spec/names/plural"), crd.text("/spec/group"));
    let expected = format!("{plural}.{group}");
    if name(crd.raw) != expected {
        let text = format!("it is {} and must be spec.names.plural and spec.group", quote(name(crd.raw)));
        findings.error("crd-name", "metadata.name", text, format!("write {expected}"));
    }
    if !is_dns_subdomain(group) || !group.contains('.') {
        let text = format!("{} is no domain with a dot in it", quote(group));
        findings.error("crd-group", "spec.group", text, "write a domain that is yours, such as example.com");
    }
    protected(crd, group, findings);
    scope(crd, findings);
    names(crd, plural, findings);
}

/// Groups of the Kubernetes project need its approval.
fn protected(crd: &Crd<'_>, group: &str, findings: &mut Of<'_>) {
    let is_protected =
        ["k8s.io", "kubernetes.io"].iter().any(|domain| group.ends_with(&format!(".{domain}")));
    let approval = crd.text("/metadata/annotations/api-approved.kubernetes.io");
    if crd.v1 && is_protected && !(approval.contains("://") || approval.starts_with("unapproved")) {
        let text = format!("{group} belongs to the Kubernetes project, which must have approved the API");
        let fix = "write the address of the approval, or unapproved and why";
        findings.error("crd-group-protected", "metadata.annotations[api-approved.kubernetes.io]", text, fix);
    }
}

fn scope(crd: &Crd<'_>, findings: &mut Of<'_>) {
    match crd.text("/spec/scope") {
        "Namespaced" | "Cluster" => {}
        "" if !crd.v1 => {}
        other => {
            let text = format!("{} is no scope", quote(other));
            findings.error("crd-scope", "spec.scope", text, "write Namespaced or Cluster");
        }
    }
}

fn names(crd: &Crd<'_>, plural: &str, findings: &mut Of<'_>) {
    let (kind, list_kind) = (crd.text("/spec/names/kind"), crd.text("/spec/names/listKind"));
    let singular = crd.text("/spec/names/singular");
    for (key, value, required) in [("plural", plural, true), ("singular", singular, false)] {
        if (required || !value.is_empty()) && !is_dns1035_label(value) {
            let text = format!("{} is no name of a resource", quote(value));
            findings.error("crd-names", format!("spec.names.{key}"), text, LABEL);
        }
    }
    for (key, value, required) in [("kind", kind, true), ("listKind", list_kind, false)] {
        if (required || !value.is_empty()) && !is_dns1035_label(&value.to_ascii_lowercase()) {
            let text = format!("{} is no name of a kind", quote(value));
            findings.error(
                "crd-names",
                format!("spec.names.{key}"),
                text,
                "write at most 63 letters and digits",
            );
        }
    }
    if !kind.is_empty() && kind == list_kind {
        let text = "kind and listKind may not be the same";
        findings.error("crd-names", "spec.names.listKind", text, format!("write {kind}List, or remove it"));
    }
    for key in ["shortNames", "categories"] {
        for (index, value) in crd.list(&format!("/spec/names/{key}")).iter().enumerate() {
            if !value.as_str().is_some_and(is_dns1035_label) {
                let text = format!("{} is no name", quote(value.as_str().unwrap_or_default()));
                findings.error("crd-names", format!("spec.names.{key}[{index}]"), text, LABEL);
            }
        }
    }
}
