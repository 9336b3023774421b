//! The configuration of the webhook that records requests and approvals on API servers without
//! MutatingAdmissionPolicies (Kubernetes before 1.36). The manager answers it as the [`policies`] would.

use olm_api::names;
use olm_engine::site::{MANAGER, manager_user};
use serde_json::{Value, json};

use super::policies::{self, APPROVES, CONTENT, DECISIONS, REQUESTED, REQUESTS};
use crate::manifests::SECURE_PORT_NAME;

/// Where the API server posts its reviews.
pub const PATH: &str = "/admission";
/// Names of the two webhooks; a domain is required.
const WEBHOOKS: [&str; 2] = ["requests.olm.operators.coreos.com", "approvals.olm.operators.coreos.com"];

/// The configuration, and the Service that it calls. The manager adds the CA bundle of its certificate.
pub fn objects(namespace: &str) -> Vec<Value> {
    let manager = manager_user(namespace);
    let by_others = format!("request.userInfo.username != '{manager}'");
    let recorded: Vec<&str> = [names::ANNOTATION_APPROVED_BY, names::ANNOTATION_APPROVED_BY_GROUPS]
        .into_iter()
        .chain(CONTENT)
        .collect();
    let webhook = |name: &str, resources: &[&str], conditions: Value| {
        json!({
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "name": REQUESTS, "namespace": namespace, "path": PATH, "port": 443 } },
            "failurePolicy": "Fail",
            // Changes by other webhooks are recorded too.
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "rules": [{
                "apiGroups": [names::GROUP], "apiVersions": ["*"], "resources": resources,
                "operations": ["CREATE", "UPDATE"],
            }],
            // While the manager is down, the API server still removes finalizers and the manager's own
            // account still writes.
            "matchConditions": conditions,
        })
    };
    let [requests, approvals] = WEBHOOKS;
    vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": REQUESTS, "namespace": namespace },
            "spec": {
                "selector": { "app.kubernetes.io/name": MANAGER },
                "ports": [{ "name": SECURE_PORT_NAME, "port": 443, "targetPort": SECURE_PORT_NAME, "protocol": "TCP" }],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": REQUESTS },
            "webhooks": [
                webhook(requests, &REQUESTED, json!([
                    { "name": "by-others", "expression": by_others },
                    { "name": "changes", "expression": policies::changes(&DECISIONS) },
                ])),
                webhook(approvals, &["installplans"], json!([
                    { "name": "by-others-or-approves", "expression": format!("{by_others} || ({APPROVES})") },
                    { "name": "changes", "expression": policies::changes(&recorded) },
                ])),
            ],
        }),
    ]
}
