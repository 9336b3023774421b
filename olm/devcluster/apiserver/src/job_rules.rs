//! Jobs in the API server: defaults, the selector and validation.

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::{Value, json};

use super::{
    defaults,
    meta::{self, default, text},
    validate,
};

pub(crate) const GROUP: &str = "batch";
/// Labels of a Job's pods; the old name remains for existing selectors.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// Fields that the dev cluster does not support.
const UNSUPPORTED: [&str; 6] = [
    "backoffLimitPerIndex",
    "managedBy",
    "maxFailedIndexes",
    "podFailurePolicy",
    "scheduling",
    "successPolicy",
];

pub(crate) fn set_defaults(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    // Without both it is one pod; with only parallelism it is a work queue.
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    default(spec, "backoffLimit", 6);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "podReplacementPolicy", "TerminatingOrFailed");
    if let Some(pod) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
        defaults::pod_spec(pod);
    }
}

/// Generates the selector of a new Job and its pod labels from its UID.
pub(crate) fn select(object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (meta::uid(object).to_owned(), meta::name(object).to_owned());
    let spec = meta::child(object, "spec");
    spec.insert("selector".to_owned(), json!({ "matchLabels": { (UID_LABELS[0]): uid } }));
    let template = spec.entry("template").or_insert_with(|| json!({}));
    let labels = meta::metadata(template).entry("labels").or_insert_with(|| json!({}));
    let labels = meta::as_map(labels);
    for (keys, value) in [(UID_LABELS, &uid), (NAME_LABELS, &name)] {
        for key in keys {
            labels.insert(key.to_owned(), value.as_str().into());
        }
    }
}

pub(crate) fn rules(object: &Value, live: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    for field in
        ["activeDeadlineSeconds", "backoffLimit", "completions", "parallelism", "ttlSecondsAfterFinished"]
    {
        if spec[field].as_i64().is_some_and(|value| value < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("spec.{field}"), spec[field].clone(), detail));
        }
    }
    let mode = text(spec, "/completionMode");
    if mode != "NonIndexed" {
        errors.push(FieldError::not_supported("spec.completionMode", mode, ["NonIndexed"]));
    }
    let replacement = text(spec, "/podReplacementPolicy");
    if replacement != "TerminatingOrFailed" {
        let all = ["TerminatingOrFailed"];
        errors.push(FieldError::not_supported("spec.podReplacementPolicy", replacement, all));
    }
    for field in UNSUPPORTED.iter().filter(|field| !spec[**field].is_null()) {
        errors.push(FieldError::forbidden(format!("spec.{field}"), "not supported by the dev cluster"));
    }
    let pod = &spec["template"]["spec"];
    validate::pod_spec(pod, "spec.template.spec", errors);
    let policy = text(pod, "/restartPolicy");
    if !matches!(policy, "OnFailure" | "Never") {
        let path = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(path, policy, ["OnFailure", "Never"]));
    }
    let Some(live) = live else { return };
    for field in ["completions", "completionMode", "selector", "template"] {
        // The pod template of a suspended Job may change.
        let may_change = field == "template" && live["spec"]["suspend"] == true;
        if live["spec"][field] != spec[field] && !may_change {
            errors.push(FieldError::invalid(
                format!("spec.{field}"),
                spec[field].clone(),
                "field is immutable",
            ));
        }
    }
}
