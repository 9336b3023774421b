//! Objects of a Deployment that the API server calls: its Service, its certificate, and its permissions.

use olm_api::csv::{ApiServiceDescription, WebhookDescription};
use serde_json::{Value, json};

use super::Served;
use super::endpoint::{Endpoint, port};
use crate::render::names::short_hash;

/// The namespace of the API server's own objects.
const KUBE_SYSTEM: &str = "kube-system";

pub(super) fn objects(served: &Served<'_>, endpoint: &Endpoint) -> Vec<Value> {
    let owner = served.target.owner_labels();
    let metadata = |name: &str| json!({"name": name, "namespace": endpoint.namespace, "labels": owner});
    let account = service_account(served, &endpoint.deployment);
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": endpoint.namespace}]);
    let role =
        |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let mut list = vec![
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(&endpoint.service),
            "spec": {"ports": ports(served, &endpoint.deployment), "selector": selector(served, &endpoint.deployment)},
        }),
        // Its content is generated when it is applied: a key is not part of a plan.
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": metadata(&endpoint.secret),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata(&endpoint.secret),
            "rules": [{
                "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": [endpoint.secret]
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(&endpoint.secret),
            "subjects": subjects,
            "roleRef": role("Role", &endpoint.secret),
        }),
    ];
    // Upstream creates the next two for webhooks as well, which do not need them, and omits the hash: two
    // operators with Deployments of one name would overwrite each other's.
    if endpoint.aggregated {
        let home = short_hash(&endpoint.namespace);
        list.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{}-system:auth-delegator-{home}", endpoint.service), "labels": owner},
            "subjects": subjects,
            "roleRef": role("ClusterRole", "system:auth-delegator"),
        }));
        list.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {
                "name": format!("{}-auth-reader-{home}", endpoint.service), "namespace": KUBE_SYSTEM, "labels": owner
            },
            "subjects": subjects,
            "roleRef": role("Role", "extension-apiserver-authentication-reader"),
        }));
    }
    list
}

fn deployment<'a>(served: &'a Served<'_>, name: &str) -> Option<&'a Value> {
    served.target.bundle.deployments().iter().find(|deployment| deployment["name"] == name)
}

fn service_account<'a>(served: &'a Served<'_>, name: &str) -> &'a str {
    deployment(served, name)
        .and_then(|deployment| deployment.pointer("/spec/template/spec/serviceAccountName")?.as_str())
        .filter(|account| !account.is_empty())
        .unwrap_or("default")
}

fn selector<'a>(served: &'a Served<'_>, name: &str) -> Option<&'a Value> {
    deployment(served, name)?.pointer("/spec/selector/matchLabels")
}

/// Each port once, named by its number, in the order of the descriptions: aggregated APIs first.
fn ports(served: &Served<'_>, deployment: &str) -> Vec<Value> {
    let apis = served.apis.iter().filter(|api| api.deployment_name.as_deref() == Some(deployment));
    let webhooks = served.webhooks.iter().filter(|hook| hook.deployment_name.as_deref() == Some(deployment));
    let api_port = |api: &ApiServiceDescription| (port(api.container_port), json!(port(api.container_port)));
    let webhook_port = |hook: &WebhookDescription| {
        let from = port(hook.container_port);
        (from, hook.target_port.as_ref().map_or(json!(from), |to| json!(to)))
    };
    let mut ports: Vec<(i32, Value)> = Vec::new();
    for (from, to) in apis.map(api_port).chain(webhooks.map(webhook_port)) {
        if !ports.iter().any(|(taken, _)| *taken == from) {
            ports.push((from, to));
        }
    }
    let entry = |(from, to): (i32, Value)| json!({"name": from.to_string(), "port": from, "protocol": "TCP", "targetPort": to});
    ports.into_iter().map(entry).collect()
}
