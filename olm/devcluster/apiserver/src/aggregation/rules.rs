//! Defaults and validation of APIServices.

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::{Value, json};

use crate::{
    meta::{self, default, text},
    names::{NameRule, name_problems},
};

pub(crate) fn defaults(object: &mut Value) {
    if let Some(service) = object.pointer_mut("/spec/service").filter(|s| s.is_object()) {
        default(service, "port", 443);
    }
}

/// A local APIService is available from its creation.
pub(crate) fn prepare(object: &mut Value, live: Option<&Value>) {
    if live.is_none() && is_local(object) {
        meta::child(object, "status").insert("conditions".to_owned(), json!([condition()]));
    }
}

/// Whether this server serves an APIService.
fn is_local(object: &Value) -> bool {
    text(object, "/spec/service/name").is_empty()
}

/// The condition of a local APIService.
pub(super) fn condition() -> Value {
    json!({
        "type": "Available", "status": "True", "reason": "Local",
        "message": "Local APIServices are always available", "lastTransitionTime": meta::now(),
    })
}

pub(crate) fn rules(object: &Value, _live: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (name, group, version) =
        (meta::name(object), text(object, "/spec/group"), text(object, "/spec/version"));
    let required = format!("{version}.{group}");
    if name != required {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.push(FieldError::required("spec.group", detail));
        }
    } else {
        for problem in name_problems(NameRule::Subdomain, group) {
            errors.push(FieldError::invalid("spec.group", group, problem));
        }
    }
    for problem in name_problems(NameRule::Label1035, version) {
        errors.push(FieldError::invalid("spec.version", version, problem));
    }
    for (key, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let value = object["spec"][key].as_i64().unwrap_or_default();
        if !(1..=most).contains(&value) {
            let detail = format!("must be positive and less than {most}");
            errors.push(FieldError::invalid(format!("spec.{key}"), value, detail));
        }
    }
    let (bundle, insecure) =
        (text(object, "/spec/caBundle"), object["spec"]["insecureSkipTLSVerify"] == true);
    let Some(service) = object["spec"].get("service").filter(|s| !s.is_null()) else {
        if !bundle.is_empty() {
            let shown = format!("{} bytes", bundle.len() / 4 * 3);
            errors.push(FieldError::invalid(
                "spec.caBundle",
                shown,
                "local APIServices may not have a caBundle",
            ));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
        }
        return;
    };
    for key in ["namespace", "name"] {
        if text(service, &format!("/{key}")).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{key}"), ""));
        }
    }
    if let Some(port) = service["port"].as_i64().filter(|p| !(1..=65_535).contains(p)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid("spec.service.port", port, detail));
    }
    if insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid("spec.insecureSkipTLSVerify", true, detail));
    }
}
