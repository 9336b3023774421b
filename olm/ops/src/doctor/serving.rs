//! Webhooks and aggregated APIs without a running backend: they block writes of whole kinds, and the deletion
//! of namespaces.

use serde_json::Value;

use super::{
    facts::Facts,
    problem::{Code, Problem, Severity},
};

pub(super) fn check(facts: &Facts) -> Vec<Problem> {
    let mut out: Vec<Problem> = facts.webhooks.iter().flat_map(|w| webhook(w, facts)).collect();
    out.extend(facts.api_services.iter().filter_map(api_service));
    out
}

/// The Services that a webhook configuration names, as namespace and name.
pub(super) fn services(configuration: &Value) -> Vec<(String, String)> {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let mut out: Vec<(String, String)> = webhooks.filter_map(service).collect();
    out.sort();
    out.dedup();
    out
}

fn service(webhook: &Value) -> Option<(String, String)> {
    let text = |key: &str| webhook["clientConfig"]["service"][key].as_str().map(str::to_owned);
    Some((text("namespace")?, text("name")?))
}

fn webhook(configuration: &Value, facts: &Facts) -> Vec<Problem> {
    let kind = configuration["kind"].as_str().unwrap_or("webhook configuration");
    let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
    let dead = configuration["webhooks"].as_array().into_iter().flatten().filter_map(|webhook| {
        let service = service(webhook)?;
        if facts.answers.get(&service) != Some(&false) {
            return None;
        }
        let (namespace, service) = service;
        let webhook_name = webhook["name"].as_str().unwrap_or_default();
        let (severity, what) = match webhook["failurePolicy"].as_str() {
            Some("Ignore") => (Severity::Warning, "is unavailable and ignored"),
            _ => (Severity::Error, "is unavailable and rejects all its requests"),
        };
        let why =
            format!("webhook {webhook_name} {what}: no pod behind Service {namespace}/{service} is ready");
        let fix = format!("kubectl get pods,endpointslices -n {namespace}");
        Some(
            Problem::new(Code::WebhookUnanswered, Some(format!("{kind} {name}")), why)
                .severity(severity)
                .fix(fix),
        )
    });
    dead.collect()
}

fn api_service(object: &Value) -> Option<Problem> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let bad =
        conditions.into_iter().flatten().find(|c| c["type"] == "Available" && c["status"] == "False")?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let service = |key: &str| object["spec"]["service"][key].as_str().unwrap_or_default();
    let why = format!(
        "{}: {}; while it is registered and unavailable, the deletion of namespaces is blocked",
        bad["reason"].as_str().unwrap_or("Unavailable"),
        bad["message"].as_str().unwrap_or_default()
    );
    let fix = format!(
        "restore Service {}/{}, or run `kubectl delete apiservice {name}`",
        service("namespace"),
        service("name")
    );
    Some(Problem::new(Code::ApiServiceUnavailable, Some(format!("APIService {name}")), why).fix(fix))
}
