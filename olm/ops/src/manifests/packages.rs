//! The optional API of PackageManifests.

use olm_engine::site::MANAGER;
use serde_json::{Value, json};

use super::{ManifestOptions, SECURE_PORT_NAME};

/// Group and version of the API.
pub const GROUP: &str = "packages.operators.coreos.com";
pub const VERSION: &str = "v1";
/// Name of the Service by which the API server reaches the API, and of its RBAC objects.
pub const PACKAGES: &str = "olm-packages";
/// Name of the APIService. Upstream's packageserver has the same: only one of them can be installed.
pub const PACKAGES_API: &str = "v1.packages.operators.coreos.com";

pub(super) fn objects(options: &ManifestOptions) -> Vec<Value> {
    if !options.package_manifests {
        return Vec::new();
    }
    let namespace = &options.namespace;
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": format!("{PACKAGES}-view"),
                "labels": {
                    "rbac.authorization.k8s.io/aggregate-to-view": "true",
                    "rbac.authorization.k8s.io/aggregate-to-edit": "true",
                    "rbac.authorization.k8s.io/aggregate-to-admin": "true",
                },
            },
            "rules": [{
                "apiGroups": [GROUP],
                "resources": ["packagemanifests", "packagemanifests/icon"],
                "verbs": ["get", "list", "watch"],
            }]
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": PACKAGES, "namespace": namespace },
            "spec": {
                "selector": { "app.kubernetes.io/name": MANAGER },
                "ports": [{ "name": SECURE_PORT_NAME, "port": 443, "targetPort": SECURE_PORT_NAME, "protocol": "TCP" }]
            }
        }),
        // The manager makes the certificate and writes the CA bundle.
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": PACKAGES_API },
            "spec": {
                "group": GROUP,
                "version": VERSION,
                "groupPriorityMinimum": 2000,
                "versionPriority": 15,
                "service": { "name": PACKAGES, "namespace": namespace, "port": 443 }
            }
        }),
    ]
}
