//! Defaults and validation of webhook configurations.

use std::collections::HashSet;

use olm_devcluster_machinery::field_error::FieldError;
use serde_json::{Value, json};

use super::{conditions, hook::REVIEW_VERSIONS};
use crate::{
    meta::{default, items_mut, list, text},
    names::{self, NameRule},
};

type Errors = Vec<FieldError>;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// v1 accepts only webhooks without side effects, or without them in a dry run.
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

/// Sets the defaults of a ValidatingWebhookConfiguration.
pub(crate) fn defaults_validating(object: &mut Value) {
    for hook in items_mut(object, "webhooks") {
        defaults(hook);
    }
}

/// Sets the defaults of a MutatingWebhookConfiguration.
pub(crate) fn defaults_mutating(object: &mut Value) {
    for hook in items_mut(object, "webhooks") {
        defaults(hook);
        default(hook, "reinvocationPolicy", "Never");
    }
}

fn defaults(hook: &mut Value) {
    default(hook, "failurePolicy", "Fail");
    default(hook, "matchPolicy", "Equivalent");
    default(hook, "namespaceSelector", json!({}));
    default(hook, "objectSelector", json!({}));
    default(hook, "timeoutSeconds", 10);
    for rule in items_mut(hook, "rules") {
        default(rule, "scope", "*");
    }
    if let Some(service) = hook.get_mut("clientConfig").and_then(|c| c.get_mut("service")) {
        default(service, "port", 443);
    }
}

pub(crate) fn validating_rules(object: &Value, _live: Option<&Value>, errors: &mut Errors) {
    webhooks(object, errors, |_, _, _| {});
}

pub(crate) fn mutating_rules(object: &Value, _live: Option<&Value>, errors: &mut Errors) {
    webhooks(object, errors, |hook, path, errors| {
        one_of(hook, path, "reinvocationPolicy", &["IfNeeded", "Never"], errors);
    });
}

fn webhooks(object: &Value, errors: &mut Errors, more: impl Fn(&Value, &str, &mut Errors)) {
    let mut names = HashSet::new();
    for (index, hook) in list(object, "/webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        name(hook, &path, errors);
        for (index, rule) in list(hook, "/rules").iter().enumerate() {
            check_rule(rule, &format!("{path}.rules[{index}]"), errors);
        }
        one_of(hook, &path, "failurePolicy", &["Fail", "Ignore"], errors);
        one_of(hook, &path, "matchPolicy", &["Equivalent", "Exact"], errors);
        match text(hook, "/sideEffects") {
            "" => {
                let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
                errors.push(FieldError::required(format!("{path}.sideEffects"), detail));
            }
            _ => one_of(hook, &path, "sideEffects", &SIDE_EFFECTS, errors),
        }
        if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|s| !(1..=30).contains(s)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(format!("{path}.timeoutSeconds"), seconds, detail));
        }
        for key in ["namespaceSelector", "objectSelector"] {
            check_selector(&format!("{path}.{key}"), &hook[key], errors);
        }
        client(&hook["clientConfig"], &format!("{path}.clientConfig"), errors);
        more(hook, &path, errors);
        conditions::check(list(hook, "/matchConditions"), &path, &conditions::VARIABLES, errors);
        review_versions(hook, &format!("{path}.admissionReviewVersions"), errors);
        let name = text(hook, "/name");
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
    }
}

fn name(hook: &Value, path: &str, errors: &mut Errors) {
    let path = format!("{path}.name");
    let name = text(hook, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = names::name_problems(NameRule::Subdomain, name);
    let odd = !problems.is_empty();
    errors.extend(problems.into_iter().map(|p| FieldError::invalid(path.as_str(), name, p)));
    if !odd && name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// Validates a LabelSelector.
pub(crate) fn check_selector(path: &str, selector: &Value, errors: &mut Errors) {
    names::labels(&format!("{path}.matchLabels"), selector.get("matchLabels"), errors);
    for (index, term) in list(selector, "/matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = list(term, "/values");
        match text(term, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{path}.values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{path}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{path}.operator"), other, detail));
            }
        }
        let key = text(term, "/key");
        if let Some(problem) = names::key_problem(key) {
            errors.push(FieldError::invalid(format!("{path}.key"), key, problem));
        }
    }
}

/// Validates that a field, if set, has one of these values.
pub(crate) fn one_of(object: &Value, path: &str, key: &str, allowed: &[&str], errors: &mut Errors) {
    if let Some(value) = object[key].as_str().filter(|v| !allowed.contains(v)) {
        errors.push(FieldError::not_supported(format!("{path}.{key}"), value, allowed));
    }
}

/// Validates a match rule.
pub(crate) fn check_rule(rule: &Value, path: &str, errors: &mut Errors) {
    let mut words = |key: &str, what: &str, empty_allowed: bool| {
        let path = format!("{path}.{key}");
        let items = list(rule, &format!("/{key}"));
        if items.is_empty() {
            errors.push(FieldError::required(path.as_str(), ""));
        }
        if items.len() > 1 && items.iter().any(|i| i == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(path.as_str(), items.to_vec(), detail));
        }
        for (index, _) in items.iter().enumerate().filter(|(_, i)| !empty_allowed && *i == "") {
            errors.push(FieldError::required(format!("{path}[{index}]"), ""));
        }
    };
    // Unknown and empty operations are reported below.
    words("operations", "operations", true);
    words("apiGroups", "API groups", true);
    words("apiVersions", "API versions", false);
    for (index, operation) in list(rule, "/operations").iter().enumerate() {
        if !OPERATIONS.iter().any(|known| operation == known) {
            let path = format!("{path}.operations[{index}]");
            errors.push(FieldError::not_supported(path, operation.clone(), OPERATIONS));
        }
    }
    resources(list(rule, "/resources"), &format!("{path}.resources"), errors);
    one_of(rule, path, "scope", &["*", "Cluster", "Namespaced"], errors);
}

fn resources(items: &[Value], path: &str, errors: &mut Errors) {
    if items.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut whole_of, mut of_all) = (HashSet::new(), HashSet::new());
    let (mut everything, mut all, mut plain) = (false, false, false);
    for (index, item) in items.iter().enumerate() {
        let (item, path) = (item.as_str().unwrap_or_default(), format!("{path}[{index}]"));
        everything |= item == "*/*";
        all |= item == "*";
        if item.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some((resource, sub)) = item.split_once('/') else {
            plain |= item != "*";
            continue;
        };
        if whole_of.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {item}");
            errors.push(FieldError::invalid(path.as_str(), item, detail));
        }
        if of_all.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {item}");
            errors.push(FieldError::invalid(path, item, detail));
        }
        if sub == "*" {
            whole_of.insert(resource);
        }
        if resource == "*" {
            of_all.insert(sub);
        }
    }
    if items.len() > 1 && everything {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, items.to_vec(), detail));
    }
    if all && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, items.to_vec(), detail));
    }
}

fn client(config: &Value, path: &str, errors: &mut Errors) {
    let url = config.get("url").filter(|u| !u.is_null());
    let service = config.get("service").filter(|s| !s.is_null());
    match (url, service) {
        (Some(url), None) => self::url(url.as_str().unwrap_or_default(), &format!("{path}.url"), errors),
        (None, Some(service)) => self::service(service, &format!("{path}.service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn url(url: &str, path: &str, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let uri: http::Uri = match before.parse() {
        Ok(uri) => uri,
        Err(error) => {
            let detail = format!("url must be a valid URL: {error}{FORM}");
            errors.push(FieldError::required(path, detail));
            return;
        }
    };
    let mut refuse = |value: &str, detail: String| {
        errors.push(FieldError::invalid(path, value, detail));
    };
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        refuse(scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if uri.host().is_none_or(str::is_empty) {
        refuse("", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = uri.authority().and_then(|a| a.as_str().rsplit_once('@')) {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if let Some(query) = uri.query().filter(|q| !q.is_empty()) {
        refuse(query, "query parameters are not permitted in the URL".to_owned());
    }
}

fn service(service: &Value, path: &str, errors: &mut Errors) {
    for key in ["name", "namespace"] {
        if text(service, &format!("/{key}")).is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    if let Some(port) = service["port"].as_i64().filter(|p| !(1..=65_535).contains(p)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, detail));
    }
    let at = text(service, "/path");
    let path = format!("{path}.path");
    if matches!(at, "" | "/") {
        return;
    }
    if at == "//" {
        errors.push(FieldError::invalid(path, at, "segment[0] may not be empty"));
        return;
    }
    if !at.starts_with('/') {
        errors.push(FieldError::invalid(path.as_str(), at, "must start with a '/'"));
    }
    let steps: String = at.chars().skip(1).collect();
    for (index, step) in steps.strip_suffix('/').unwrap_or(&steps).split('/').enumerate() {
        if step.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(path.as_str(), at, detail));
            continue;
        }
        for problem in names::name_problems(NameRule::Subdomain, step) {
            errors.push(FieldError::invalid(path.as_str(), at, format!("segment[{index}]: {problem}")));
        }
    }
}

fn review_versions(hook: &Value, path: &str, errors: &mut Errors) {
    let versions = list(hook, "/admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        errors.push(FieldError::required(path, format!("must specify one of {known}")));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let (version, path) = (version.as_str().unwrap_or_default(), format!("{path}[{index}]"));
        if !seen.insert(version) {
            errors.push(FieldError::duplicate(path.as_str(), version));
        }
        for problem in names::name_problems(NameRule::Label1035, version) {
            errors.push(FieldError::invalid(path.as_str(), version, problem));
        }
    }
    if !versions.iter().any(|v| REVIEW_VERSIONS.iter().any(|known| v == known)) {
        let detail = format!("must include at least one of {known}");
        errors.push(FieldError::invalid(path, versions.to_vec(), detail));
    }
}
