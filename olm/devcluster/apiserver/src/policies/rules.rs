//! Defaults and validation of policies and bindings.

use std::collections::HashSet;

use olm_devcluster_machinery::field_error::FieldError;
use olm_kube_schema::{ExpectedType, Expression, Named};
use serde_json::{Value, json};

use super::policy::{condition_variables, variables};
use crate::{
    meta::{self, default, items_mut, list, text},
    names::{self, NameRule},
    webhooks::{
        conditions::check as check_conditions,
        rules::{check_rule, check_selector, one_of},
    },
};

type Errors = Vec<FieldError>;

/// Kubernetes' limit.
const MOST_AUDIT_ANNOTATIONS: usize = 20;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Sets the defaults of a policy.
pub(crate) fn defaults(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec") else { return };
    default(spec, "failurePolicy", "Fail");
    defaults_matching(spec.get_mut("matchConstraints"));
}

/// Sets the defaults of a binding.
pub(crate) fn defaults_binding(binding: &mut Value) {
    defaults_matching(binding.pointer_mut("/spec/matchResources"));
}

fn defaults_matching(matching: Option<&mut Value>) {
    let Some(matching) = matching.filter(|m| m.is_object()) else { return };
    default(matching, "matchPolicy", "Equivalent");
    default(matching, "namespaceSelector", json!({}));
    default(matching, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(matching, key) {
            default(rule, "scope", "*");
        }
    }
}

pub(crate) fn validating_rules(policy: &Value, _live: Option<&Value>, errors: &mut Errors) {
    let spec = &policy["spec"];
    let seen = variables(spec);
    let named = head(spec, errors);
    let (validations, annotations) = (list(spec, "/validations"), list(spec, "/auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for key in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(format!("spec.{key}"), detail));
        }
    }
    for (index, step) in validations.iter().enumerate() {
        validation(step, &format!("spec.validations[{index}]"), seen, &named, errors);
    }
    if annotations.len() > MOST_AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {MOST_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid("spec.auditAnnotations", annotations.len() as u64, detail));
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        let key = text(annotation, "/key");
        if let Some(problem) = names::key_problem(&format!("{}/{key}", meta::name(policy))) {
            errors.push(FieldError::invalid(format!("{path}.key"), key, problem));
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), key));
        }
        let path = format!("{path}.valueExpression");
        expression(annotation, "valueExpression", &path, "valueExpression is not specified", errors, |e| {
            Expression::compile(e, seen, &named, ExpectedType::Any)
        });
    }
}

pub(crate) fn mutating_rules(policy: &Value, _live: Option<&Value>, errors: &mut Errors) {
    let spec = &policy["spec"];
    let seen = variables(spec);
    let named = head(spec, errors);
    operations(spec, "matchConstraints", errors);
    let mutations = list(spec, "/mutations");
    if mutations.is_empty() {
        errors.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, step) in mutations.iter().enumerate() {
        mutation(step, &format!("spec.mutations[{index}]"), seen, &named, errors);
    }
    match text(spec, "/reinvocationPolicy") {
        "" => errors.push(FieldError::required("spec.reinvocationPolicy", "")),
        _ => one_of(spec, "spec", "reinvocationPolicy", &["IfNeeded", "Never"], errors),
    }
}

pub(crate) fn validating_binding_rules(binding: &Value, _live: Option<&Value>, errors: &mut Errors) {
    self::binding(binding, errors);
    let (actions, path) = (list(&binding["spec"], "/validationActions"), "spec.validationActions");
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().filter_map(Value::as_str).enumerate() {
        const KNOWN: [&str; 3] = ["Audit", "Deny", "Warn"];
        let path = format!("{path}[{index}]");
        if !KNOWN.contains(&action) {
            errors.push(FieldError::not_supported(path.as_str(), action, KNOWN));
        }
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(path, action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, actions.to_vec(), detail));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
    }
}

pub(crate) fn mutating_binding_rules(binding: &Value, _live: Option<&Value>, errors: &mut Errors) {
    self::binding(binding, errors);
    operations(&binding["spec"], "matchResources", errors);
}

/// Validates the common fields of both kinds of policies; returns the compiled variables.
fn head(spec: &Value, errors: &mut Errors) -> Named {
    one_of(spec, "spec", "failurePolicy", &["Fail", "Ignore"], errors);
    if let Some(kind) = spec.get("paramKind").filter(|k| k.is_object()) {
        for key in ["apiVersion", "kind"] {
            if text(kind, &format!("/{key}")).is_empty() {
                errors.push(FieldError::required(format!("spec.paramKind.{key}"), ""));
            }
        }
    }
    match spec.get("matchConstraints").filter(|m| m.is_object()) {
        None => errors.push(FieldError::required("spec.matchConstraints", "")),
        Some(constraints) => {
            matching(constraints, "spec.matchConstraints", errors);
            if list(constraints, "/resourceRules").is_empty() {
                errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
            }
        }
    }
    check_conditions(list(spec, "/matchConditions"), "spec", condition_variables(spec), errors);
    let mut named = Named::default();
    for (index, variable) in list(spec, "/variables").iter().enumerate() {
        let path = format!("spec.variables[{index}]");
        let name = text(variable, "/name");
        if name.trim().is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), "name is not specified"));
        } else if !is_identifier(name) {
            let detail = "must be a valid CEL identifier";
            errors.push(FieldError::invalid(format!("{path}.name"), name, detail));
        }
        let path = format!("{path}.expression");
        expression(variable, "expression", &path, "expression is not specified", errors, |e| {
            named.add(name, e, variables(spec))
        });
    }
    named
}

fn is_identifier(name: &str) -> bool {
    name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn matching(matching: &Value, path: &str, errors: &mut Errors) {
    one_of(matching, path, "matchPolicy", &["Equivalent", "Exact"], errors);
    for key in ["namespaceSelector", "objectSelector"] {
        check_selector(&format!("{path}.{key}"), &matching[key], errors);
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(matching, &format!("/{key}")).iter().enumerate() {
            let path = format!("{path}.{key}[{index}]");
            check_rule(rule, &path, errors);
            let mut names = HashSet::new();
            for (index, name) in list(rule, "/resourceNames").iter().filter_map(Value::as_str).enumerate() {
                let path = format!("{path}.resourceNames[{index}]");
                for problem in names::name_problems(NameRule::PathSegment, name) {
                    errors.push(FieldError::invalid(path.as_str(), name, problem));
                }
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(path, name));
                }
            }
        }
    }
}

/// A deleted object cannot be mutated.
fn operations(spec: &Value, key: &str, errors: &mut Errors) {
    const KNOWN: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    for rule in list(spec, &format!("/{key}/resourceRules")) {
        let operations = list(rule, "/operations").iter();
        for operation in operations.filter(|o| !KNOWN.iter().any(|known| o == known)) {
            let path = format!("spec.{key}.resourceRules.operations");
            errors.push(FieldError::not_supported(path, operation.clone(), KNOWN));
        }
    }
}

fn expression<T>(
    of: &Value,
    key: &str,
    path: &str,
    absent: &str,
    errors: &mut Errors,
    compile: impl FnOnce(&str) -> Result<T, String>,
) {
    let expression = text(of, &format!("/{key}"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(path, absent));
    } else if let Err(why) = compile(expression) {
        errors.push(FieldError::invalid(path, expression, why));
    }
}

fn validation(step: &Value, path: &str, seen: &[&str], named: &Named, errors: &mut Errors) {
    let compile = |wanted| move |e: &str| Expression::compile(e, seen, named, wanted);
    let at = format!("{path}.expression");
    expression(step, "expression", &at, "expression is not specified", errors, compile(ExpectedType::Bool));
    let given = |key: &str| step[key].as_str().filter(|text| !text.is_empty());
    if let Some(message) = given("messageExpression") {
        let at = format!("{path}.messageExpression");
        if message.trim().is_empty() {
            errors.push(FieldError::invalid(at, message, "must be non-empty if specified"));
        } else if let Err(why) = compile(ExpectedType::Text)(message) {
            errors.push(FieldError::invalid(at, message, why));
        }
    }
    if let Some(message) = given("message") {
        let at = format!("{path}.message");
        if message.trim().is_empty() {
            errors.push(FieldError::invalid(at, message, "must be non-empty if specified"));
        } else if message.trim().contains(['\n', '\r']) {
            errors.push(FieldError::invalid(at, message, "must not contain line breaks"));
        }
    }
    one_of(step, path, "reason", &REASONS, errors);
}

fn mutation(step: &Value, path: &str, seen: &[&str], named: &Named, errors: &mut Errors) {
    let (mine, other, wanted) = match text(step, "/patchType") {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", ExpectedType::Object),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", ExpectedType::Patches),
        "" => {
            errors.push(FieldError::required(format!("{path}.patchType"), ""));
            return;
        }
        kind => {
            let known = ["ApplyConfiguration", "JSONPatch"];
            errors.push(FieldError::not_supported(format!("{path}.patchType"), kind, known));
            return;
        }
    };
    let kind = text(step, "/patchType");
    if step[mine].is_object() {
        let at = format!("{path}.{mine}.expression");
        expression(&step[mine], "expression", &at, "", errors, |e| {
            Expression::compile(e.trim(), seen, named, wanted)
        });
    } else {
        let detail = format!("must be specified when patchType is {kind}");
        errors.push(FieldError::required(format!("{path}.{mine}"), detail));
    }
    if step[other].is_object() {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid(format!("{path}.{other}"), format!("{{{other}}}"), detail));
    }
}

fn binding(binding: &Value, errors: &mut Errors) {
    let spec = &binding["spec"];
    let policy = text(spec, "/policyName");
    if policy.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        for problem in names::name_problems(NameRule::Subdomain, policy) {
            errors.push(FieldError::invalid("spec.policyName", policy, problem));
        }
    }
    if let Some(reference) = spec.get("paramRef").filter(|p| p.is_object()) {
        param_ref(reference, errors);
    }
    if let Some(resources) = spec.get("matchResources").filter(|m| m.is_object()) {
        matching(resources, "spec.matchResources", errors);
    }
}

fn param_ref(reference: &Value, errors: &mut Errors) {
    let path = "spec.paramRef";
    let (name, selector) = (text(reference, "/name"), &reference["selector"]);
    for problem in Some(name)
        .filter(|n| !n.is_empty())
        .into_iter()
        .flat_map(|name| names::name_problems(NameRule::PathSegment, name))
    {
        errors.push(FieldError::invalid(format!("{path}.name"), name, problem));
    }
    match (name.is_empty(), selector.is_object()) {
        (false, true) => {
            for key in ["name", "selector"] {
                let detail = "name and selector are mutually exclusive";
                errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
            }
        }
        (true, false) => errors.push(FieldError::required(path, "one of name or selector must be specified")),
        (true, true) => check_selector(&format!("{path}.selector"), selector, errors),
        (false, false) => {}
    }
    match text(reference, "/parameterNotFoundAction") {
        "" => errors.push(FieldError::required(format!("{path}.parameterNotFoundAction"), "")),
        _ => one_of(reference, path, "parameterNotFoundAction", &["Allow", "Deny"], errors),
    }
}
