//! CustomResourceDefinitions as the dev cluster serves them: the rules are those of `olm-crd`, the status is given here.

mod status;

use serde_json::Value;

pub use self::status::compute_status;
use super::field_error::FieldError;
pub use olm_crd::definition::{
    Column, Crd, CrdVersion, Scale, is_established, json_path, set_defaults, validate_update,
};

/// Validates a CRD (after [`set_defaults`]) and reads it. What the dev cluster cannot do is refused.
pub fn parse(crd: &Value) -> Result<Crd, Vec<FieldError>> {
    let parsed = olm_crd::definition::parse(crd);
    if crd.pointer("/spec/conversion/strategy") != Some(&Value::from("Webhook")) {
        return parsed;
    }
    let mut errors = parsed.err().unwrap_or_default();
    // There is no use in correcting what is refused anyway.
    errors.retain(|error| !error.path.starts_with("spec.conversion"));
    errors.push(FieldError::forbidden(
        "spec.conversion.strategy",
        "conversion webhooks are not supported by the dev cluster: use `None`, or a real cluster",
    ));
    Err(errors)
}

#[cfg(test)]
mod tests;
