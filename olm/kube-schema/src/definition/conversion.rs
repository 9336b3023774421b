//! Conversion between versions.

use serde_json::Value;

use crate::field_error::FieldError;

/// Versions of ConversionReview that API servers support.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

const PATH: &str = "spec.conversion";

pub(super) fn check(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(conversion) = spec.get("conversion").filter(|conversion| !conversion.is_null()) else { return };
    let webhook = conversion.get("webhook").filter(|webhook| !webhook.is_null());
    match conversion.get("strategy").and_then(Value::as_str).unwrap_or_default() {
        "Webhook" => match webhook {
            Some(webhook) => check_webhook(webhook, errors),
            None => {
                let detail = "required when strategy is set to Webhook";
                errors.push(FieldError::required(format!("{PATH}.webhook"), detail));
            }
        },
        "None" => {
            if webhook.is_some() {
                let detail = "should not be set when strategy is not set to Webhook";
                errors.push(FieldError::forbidden(format!("{PATH}.webhook"), detail));
            }
        }
        "" => errors.push(FieldError::required(format!("{PATH}.strategy"), "")),
        other => {
            let allowed = ["None", "Webhook"];
            errors.push(FieldError::not_supported(format!("{PATH}.strategy"), other, allowed));
        }
    }
}

fn check_webhook(webhook: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("{PATH}.webhook.conversionReviewVersions");
    let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
    match versions.map(Vec::as_slice).unwrap_or_default() {
        [] => errors.push(FieldError::required(path, "must have at least one version")),
        versions if !versions.iter().filter_map(Value::as_str).any(|v| REVIEW_VERSIONS.contains(&v)) => {
            let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
            errors.push(FieldError::invalid(path, versions.to_vec(), detail));
        }
        _ => {}
    }
    let path = format!("{PATH}.webhook.clientConfig");
    match webhook.get("clientConfig").filter(|client| client.is_object()) {
        Some(client) => check_client(client, &path, errors),
        None => errors.push(FieldError::required(path, "required when strategy is set to Webhook")),
    }
}

fn check_client(client: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let url = client.get("url").and_then(Value::as_str).filter(|url| !url.is_empty());
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        (Some(url), None) if !url.starts_with("https://") => {
            let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            errors.push(FieldError::invalid(format!("{path}.url"), url, detail));
        }
        (Some(_), None) => {}
        (None, Some(service)) => check_service(service, &format!("{path}.service"), errors),
    }
}

fn check_service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["name", "namespace"] {
        if service.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{path}.{key}"), format!("service {key} is required")));
        }
    }
    if let Some(at) = service.get("path").and_then(Value::as_str)
        && !at.starts_with('/')
    {
        let detail = "must start with a '/'";
        errors.push(FieldError::invalid(format!("{path}.path"), at, detail));
    }
    if let Some(port) = service.get("port").filter(|port| !port.is_null())
        && !port.as_u64().is_some_and(|port| (1..=65_535).contains(&port))
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port.clone(), detail));
    }
}
