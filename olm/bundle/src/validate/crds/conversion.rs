//! Conversion between versions.

use serde_json::Value;

use super::super::finding::{Of, quote};
use super::Crd;

/// Of ConversionReview, what API servers speak.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(crd: &Crd<'_>, findings: &mut Of<'_>) {
    let Some(conversion) = crd.get("/spec/conversion") else { return };
    let strategy = conversion.get("strategy").and_then(Value::as_str).unwrap_or_default();
    match strategy {
        "Webhook" => {}
        "None" => return unused(crd, conversion, findings),
        "" if !crd.v1 => return unused(crd, conversion, findings),
        other => {
            let text = format!("{} is no way of conversion", quote(other));
            return findings.error(
                "crd-conversion",
                "spec.conversion.strategy",
                text,
                "write None or Webhook",
            );
        }
    }
    if !crd.v1 && crd.get("/spec/preserveUnknownFields") != Some(&Value::Bool(false)) {
        let text = "a webhook can convert objects only where unknown fields are dropped";
        findings.error("crd-conversion", "spec.preserveUnknownFields", text, "write false");
    }
    // The old API has the webhook's fields beside the strategy.
    let (webhook, field, client) = match crd.v1 {
        true => (conversion.get("webhook"), "spec.conversion.webhook", "clientConfig"),
        false => (Some(conversion), "spec.conversion", "webhookClientConfig"),
    };
    let Some(webhook) = webhook.filter(|webhook| webhook.is_object()) else {
        return findings.error("crd-conversion", field, "the webhook is not described", "describe it");
    };
    review_versions(crd, webhook, field, findings);
    let client_field = format!("{field}.{client}");
    match webhook.get(client).filter(|client| client.is_object()) {
        None => findings.error(
            "crd-conversion",
            client_field,
            "it says nowhere where the webhook is",
            "name its service",
        ),
        Some(client) => client_config(client, &client_field, findings),
    }
}

fn unused(crd: &Crd<'_>, conversion: &Value, findings: &mut Of<'_>) {
    let keys: &[&str] =
        if crd.v1 { &["webhook"] } else { &["webhookClientConfig", "conversionReviewVersions"] };
    for key in keys.iter().filter(|key| conversion.get(**key).is_some_and(|value| !value.is_null())) {
        let text = "it may be there only with strategy Webhook";
        findings.error(
            "crd-conversion",
            format!("spec.conversion.{key}"),
            text,
            "remove it, or change the strategy",
        );
    }
}

fn review_versions(crd: &Crd<'_>, webhook: &Value, field: &str, findings: &mut Of<'_>) {
    let field = format!("{field}.conversionReviewVersions");
    let list = webhook.get("conversionReviewVersions").and_then(Value::as_array);
    let versions: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    match versions.as_slice() {
        // The old API takes v1beta1 where nothing is said.
        [] if !crd.v1 && list.is_none() => {}
        [] => findings.error("crd-conversion-review-versions", field, "it is required", "write [v1]"),
        versions if !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) => {
            let text = format!("API servers speak none of {}", versions.join(", "));
            findings.error("crd-conversion-review-versions", field, text, "write [v1]");
        }
        _ => {}
    }
}

fn client_config(client: &Value, field: &str, findings: &mut Of<'_>) {
    let url = client.get("url").and_then(Value::as_str).filter(|url| !url.is_empty());
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            let text = "the webhook must be at a service or at an address, not both and not none";
            findings.error("crd-conversion", field, text, "name its service");
        }
        (Some(url), None) if !url.starts_with("https://") => {
            let text = format!("{} does not begin with https://", quote(url));
            findings.error("crd-conversion", format!("{field}.url"), text, "use https");
        }
        (Some(_), None) => {}
        (None, Some(service)) => {
            for key in ["name", "namespace"] {
                if service.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                    let field = format!("{field}.service.{key}");
                    findings.error(
                        "crd-conversion",
                        field,
                        "it is required",
                        "fill it in; an installation replaces it",
                    );
                }
            }
            if let Some(path) = service.get("path").and_then(Value::as_str)
                && !path.starts_with('/')
            {
                let text = format!("{} does not begin with /", quote(path));
                findings.error("crd-conversion", format!("{field}.service.path"), text, "begin it with /");
            }
            if let Some(port) = service.get("port").filter(|port| !port.is_null())
                && !port.as_u64().is_some_and(|port| (1..=65_535).contains(&port))
            {
                let text = format!("{port} is no port");
                findings.error("crd-conversion", format!("{field}.service.port"), text, "write 1 to 65535");
            }
        }
    }
}
