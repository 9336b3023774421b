//! Validation of PodDisruptionBudgets.

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::Value;

use super::meta::text;

pub(crate) fn rules(object: &Value, _live: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", spec.clone(), detail));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{field}");
        match &spec[field] {
            Value::Null => {}
            Value::String(text) => match text.strip_suffix('%').and_then(|number| number.parse::<u32>().ok())
            {
                Some(0..=100) => {}
                Some(_) => {
                    errors.push(FieldError::invalid(path, text.as_str(), "must not be greater than 100%"))
                }
                None => {
                    let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                    errors.push(FieldError::invalid(path, text.as_str(), detail));
                }
            },
            number if number.as_i64().is_some_and(|number| number < 0) => {
                errors.push(FieldError::invalid(path, number.clone(), "must be greater than or equal to 0"));
            }
            _ => {}
        }
    }
    let policy = text(spec, "/unhealthyPodEvictionPolicy");
    if !matches!(policy, "" | "AlwaysAllow" | "IfHealthyBudget") {
        let all = ["AlwaysAllow", "IfHealthyBudget"];
        errors.push(FieldError::not_supported("spec.unhealthyPodEvictionPolicy", policy, all));
    }
}
