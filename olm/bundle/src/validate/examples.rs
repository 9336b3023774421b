//! `alm-examples`: the sample objects that forms are filled from.

use serde_json::Value;

use super::Findings;
use crate::model::Bundle;

const FIELD: &str = "metadata.annotations[alm-examples]";

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let owned = bundle.provided_gvks();
    let Some(text) = bundle.csv_annotation("alm-examples").filter(|text| !text.trim().is_empty()) else {
        if !owned.is_empty() {
            findings.warn(
                "alm-examples-missing",
                FIELD,
                "there is no sample object; users start from an empty form",
            );
        }
        return;
    };
    let examples = match serde_json::from_str(text) {
        Ok(Value::Array(examples)) => examples,
        Ok(single @ Value::Object(_)) => vec![single],
        Ok(_) => {
            return findings.error(
                "alm-examples-invalid",
                FIELD,
                "it is neither a list of objects nor an object",
            );
        }
        Err(error) => {
            let text = format!("it is not JSON: {error} (lines count inside of the annotation)");
            return findings.error("alm-examples-invalid", FIELD, text);
        }
    };
    let mut shown = Vec::new();
    for (index, example) in examples.iter().enumerate() {
        let text = |key: &str| example.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if owned.iter().any(|gvk| gvk.group == group && gvk.version == version && gvk.kind == kind) {
            shown.push((group, kind));
        } else {
            let text = format!(
                "example {} is {api_version} {kind:?}, which the operator does not provide",
                index + 1
            );
            findings.error("alm-examples-foreign", FIELD, text);
        }
    }
    let mut without: Vec<&str> = owned
        .iter()
        .filter(|gvk| !shown.contains(&(gvk.group.as_str(), gvk.kind.as_str())))
        .map(|gvk| gvk.kind.as_str())
        .collect();
    without.dedup();
    if !without.is_empty() {
        findings.warn(
            "alm-examples-incomplete",
            FIELD,
            format!("there is no sample of {}", without.join(", ")),
        );
    }
}
