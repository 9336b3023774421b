//! Admission policies by which the API server itself records who approved a plan.
//!
//! Without them the annotation is what the client says of itself. With the validating one nobody can write another name
//! than the own, nor write one later; with the mutating one every approval carries the name, whatever client makes it.

use olm_api::names;
use serde_json::{Value, json};

/// Name of both policies and of what binds them.
const NAME: &str = "olm-approvals";

/// Whether the request is the one that approves, and whether the name in it is another than before.
const APPROVES: &str = "object.spec.approved && (oldObject == null || !oldObject.spec.approved)";

fn name_in(object: &str) -> String {
    let key = names::ANNOTATION_APPROVED_BY;
    format!(
        "({object} != null && has({object}.metadata.annotations) && '{key}' in {object}.metadata.annotations ? \
         {object}.metadata.annotations['{key}'] : '')"
    )
}

fn plans() -> Value {
    json!({ "resourceRules": [{
        "apiGroups": [names::GROUP], "apiVersions": ["v1alpha1"], "resources": ["installplans"],
        "operations": ["CREATE", "UPDATE"],
    }] })
}

fn binding(kind: &str) -> Value {
    let mut spec = json!({ "policyName": NAME });
    if kind == "ValidatingAdmissionPolicyBinding" {
        spec["validationActions"] = json!(["Deny"]);
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": NAME }, "spec": spec,
    })
}

/// That the name is that of whoever approves: Kubernetes 1.30 and newer.
#[must_use]
pub fn validating() -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": NAME },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": plans(),
            "variables": [
                { "name": "approves", "expression": APPROVES },
                { "name": "now", "expression": name_in("object") },
                { "name": "before", "expression": name_in("oldObject") },
            ],
            "validations": [{
                "expression": "variables.now == variables.before || \
                               (variables.approves && variables.now == request.userInfo.username)",
                "messageExpression": format!(
                    "'annotation {} says who approved: it can only be ' + request.userInfo.username + ', and only in the \
                     request that sets spec.approved'",
                    names::ANNOTATION_APPROVED_BY
                ),
                "reason": "Forbidden",
            }],
        },
    });
    [policy, binding("ValidatingAdmissionPolicyBinding")]
}

/// That the name is there, whatever client approves: Kubernetes 1.36 and newer.
#[must_use]
pub fn mutating() -> [Value; 2] {
    let stamp = format!(
        "Object{{metadata: Object.metadata{{annotations: {{'{}': request.userInfo.username}}}}}}",
        names::ANNOTATION_APPROVED_BY
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": { "name": NAME },
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": plans(),
            "matchConditions": [{ "name": "approves", "expression": APPROVES }],
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": { "expression": stamp },
            }],
        },
    });
    [policy, binding("MutatingAdmissionPolicyBinding")]
}
