//! Rules of the API server.

use olm_kube_schema::{ErrorKind, FieldError};
use olm_version::Version;

use super::super::finding::PartFindings;
use super::Crd;

pub(super) fn check(crd: &Crd<'_>, findings: &mut PartFindings<'_>) {
    for error in olm_kube_schema::definition::check(crd.raw) {
        let code = code(&error);
        let fix = fix(code, &error, crd);
        let text = error.body();
        // No API server serves the old API any more, and patterns are checked by another library than that of
        // API servers.
        let is_doubtful = code == "crd-schema" && (!crd.v1 || error.path.ends_with(".pattern"));
        if is_doubtful {
            findings.warn(code, error.path, text, fix);
        } else {
            findings.error(code, error.path, text, fix);
        }
    }
}

/// Rules that use what the oldest Kubernetes of the bundle does not have.
pub(super) fn check_version(crd: &Crd<'_>, least: &Version, findings: &mut PartFindings<'_>) {
    for error in olm_kube_schema::definition::newer_rules(crd.raw, least.minor) {
        let text = format!("{}, spec.minKubeVersion is {least}", error.detail);
        let fix = "raise spec.minKubeVersion, or write the rule without it";
        findings.warn("crd-rule-version", error.path, text, fix);
    }
}

/// The code for an error of the API server.
fn code(error: &FieldError) -> &'static str {
    let path = error.path.as_str();
    let is_below =
        |field: &str| path.strip_prefix(field).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    let in_version =
        path.strip_prefix("spec.versions[").and_then(|rest| rest.split_once("].")).map(|(_, rest)| rest);
    // In the old API they apply to all versions.
    let part = in_version.or(path.strip_prefix("spec.")).unwrap_or_default();
    match part {
        "schema.openAPIV3Schema" if error.kind == ErrorKind::Required => return "crd-schema-missing",
        _ if part.starts_with("schema.") || part.starts_with("validation.") => return "crd-schema",
        _ if part.starts_with("additionalPrinterColumns") => return "crd-columns",
        _ if part.starts_with("subresources") => return "crd-scale",
        _ if part.starts_with("selectableFields") => return "crd-selectable-fields",
        "name" if error.kind == ErrorKind::Duplicate => return "crd-version-duplicate",
        _ => {}
    }
    match path {
        "metadata.name" => "crd-name",
        _ if is_below("metadata.annotations") => "crd-group-protected",
        _ if is_below("spec.group") => "crd-group",
        _ if is_below("spec.scope") => "crd-scope",
        _ if is_below("spec.names") => "crd-names",
        _ if path.ends_with(".conversionReviewVersions") => "crd-conversion-review-versions",
        _ if is_below("spec.conversion") => "crd-conversion",
        _ if is_below("spec.preserveUnknownFields") => "crd-preserve-unknown-fields",
        "spec.versions" if error.kind == ErrorKind::Invalid => "crd-storage",
        _ => "crd-versions",
    }
}

fn fix(code: &str, error: &FieldError, crd: &Crd<'_>) -> String {
    let fix = match code {
        "crd-name" => {
            let (plural, group) = (crd.text("/spec/names/plural"), crd.text("/spec/group"));
            return format!("write {plural}.{group}");
        }
        "crd-group-protected" => "write the address of the approval, or unapproved and why",
        "crd-group" => "write a domain that is yours, such as example.com",
        "crd-scope" => "write Namespaced or Cluster",
        "crd-names" => match error.path.as_str() {
            "spec.names.kind" => "write at most 63 letters and digits",
            "spec.names.listKind" => "remove it: the kind with List behind it is what clients expect",
            _ => "write at most 63 lower-case letters, digits and \"-\", with a letter at the start",
        },
        "crd-conversion-review-versions" => "write [v1]",
        "crd-conversion" if error.path.ends_with(".strategy") => "write None or Webhook",
        "crd-conversion" if error.kind == ErrorKind::Forbidden => "remove it, or change the strategy",
        "crd-conversion" if error.path.contains(".service.") => "fill it in; an installation replaces it",
        "crd-conversion" => "name the service of the webhook",
        "crd-preserve-unknown-fields" => {
            "write x-kubernetes-preserve-unknown-fields: true into the schema, and false or nothing here"
        }
        "crd-storage" => "set it for the version in which objects are stored",
        "crd-version-duplicate" => "keep one of the two",
        "crd-versions" if error.path.ends_with(".name") => "write a name such as v1alpha1",
        "crd-versions" if error.path.ends_with(".deprecationWarning") => "write deprecated: true",
        "crd-versions" if error.path == "spec.versions" => "list at least one",
        "crd-versions" => "write true or false",
        "crd-schema-missing" => {
            "add one; for any content: {type: object, x-kubernetes-preserve-unknown-fields: true}"
        }
        "crd-columns" if error.path.ends_with(".type") => {
            "write one of boolean, date, integer, number, string"
        }
        "crd-columns" => "fill it in, with paths in the form .spec.replicas",
        "crd-scale" | "crd-selectable-fields" => "write it in the form .spec.replicas",
        _ => return schema_fix(error).to_owned(),
    };
    fix.to_owned()
}

fn schema_fix(error: &FieldError) -> &'static str {
    let keyword = error.path.rsplit('.').next().unwrap_or_default();
    match (keyword, error.kind) {
        ("uniqueItems", _) => "write x-kubernetes-list-type: set",
        ("pattern", _) => "write a regular expression of Go",
        ("default", _) => "write a default that the schema takes",
        (_, ErrorKind::Forbidden) => "remove it",
        ("type", _) => "write one of array, boolean, integer, number, object, string",
        (_, ErrorKind::Required) => "add it",
        _ => "correct it",
    }
}
