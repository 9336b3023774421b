//! NetworkPolicies, PodDisruptionBudget and ServiceMonitor of the pods.

use olm_engine::site::{CONSOLE, MANAGER};
use serde_json::{Value, json};

use super::{ManifestOptions, PART_OF, SECURE_PORT_NAME};

pub(super) fn objects(options: &ManifestOptions) -> Vec<Value> {
    let mut out = Vec::new();
    if options.network_policy {
        out.push(manager(options));
        out.extend(options.console_image.is_some().then(|| console(options)));
    }
    out.extend((options.replicas > 1).then(|| disruption(options)));
    out.extend(options.service_monitor.then(|| monitor(options)));
    out
}

/// Ingress: the manager's ports, from everywhere. The addresses of Prometheus, of `kubectl port-forward` and
/// of the API server, which is not a pod, differ between clusters. The ports are read-only and check the
/// caller's rights; the webhook changes nothing. Egress: everything, because registries and catalogs listen
/// on any port of any host.
fn manager(options: &ManifestOptions) -> Value {
    let mut policy = policy(options, MANAGER, &json!([{}]));
    if let Some(ports) = policy["spec"]["ingress"][0]["ports"].as_array_mut() {
        ports.push(json!({ "protocol": "TCP", "port": SECURE_PORT_NAME }));
    }
    policy
}

/// Egress of the console: DNS, the manager's catalogs, and the API server, which is not a pod and is
/// therefore identified by its ports alone.
fn console(options: &ManifestOptions) -> Value {
    let port = |protocol: &str, port: u16| json!({ "protocol": protocol, "port": port });
    let api: Vec<Value> = options.api_server_ports.iter().map(|p| port("TCP", *p)).collect();
    let mut egress = json!([
        { "ports": [port("UDP", 53), port("TCP", 53)] },
        {
            "to": [{ "podSelector": { "matchLabels": { "app.kubernetes.io/name": MANAGER } } }],
            "ports": [{ "protocol": "TCP", "port": "http" }],
        },
    ]);
    if let Some(rules) = egress.as_array_mut() {
        // A rule without ports would mean every port.
        rules.extend((!api.is_empty()).then(|| json!({ "ports": api })));
    }
    policy(options, CONSOLE, &egress)
}

fn policy(options: &ManifestOptions, name: &str, egress: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": name, "namespace": options.namespace },
        "spec": {
            "podSelector": { "matchLabels": { "app.kubernetes.io/name": name } },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{ "ports": [{ "protocol": "TCP", "port": "http" }] }],
            "egress": egress,
        }
    })
}

/// One manager always remains to take over.
fn disruption(options: &ManifestOptions) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": MANAGER, "namespace": options.namespace },
        "spec": {
            "minAvailable": 1,
            "selector": { "matchLabels": { "app.kubernetes.io/name": MANAGER } },
        }
    })
}

fn monitor(options: &ManifestOptions) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": { "name": MANAGER, "namespace": options.namespace },
        "spec": {
            "selector": { "matchLabels": { "app.kubernetes.io/name": MANAGER, PART_OF.0: PART_OF.1 } },
            // The certificate is self-signed. The token is that of Prometheus, whose account needs
            // ClusterRole `olm-metrics-reader` or another right on /metrics.
            "endpoints": [{
                "port": "http", "path": "/metrics", "interval": "30s", "scheme": "https",
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                "tlsConfig": { "insecureSkipVerify": true },
            }],
        }
    })
}
