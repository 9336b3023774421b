//! ServiceAccounts and rights. The manager gets what installing operators needs and not one wildcard.

use serde_json::{Value, json};

use super::{CONSOLE, MANAGER, NAMESPACE, PULL_SECRETS_ROLE};

pub(super) fn objects(console: bool) -> Vec<Value> {
    let mut out = vec![service_account(MANAGER)];
    if console {
        // No role is bound to it: every call the console makes carries the user's token, not this one.
        out.push(service_account(CONSOLE));
    }
    out.push(cluster_role());
    out.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": MANAGER },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": MANAGER },
        "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": NAMESPACE }]
    }));
    out.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": MANAGER, "namespace": NAMESPACE },
        // The Lease by which one replica leads.
        "rules": [rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update"])]
    }));
    out.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": MANAGER, "namespace": NAMESPACE },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": MANAGER },
        "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": NAMESPACE }]
    }));
    out.extend(pull_secrets());
    out
}

/// Pull secrets are named by CatalogSources, so the manager gets them by name and lists none. Anybody who may create
/// a CatalogSource can have it use any Secret beside it, and nobody ever sees its content; still, a manager that could read
/// every Secret of the cluster would be worth breaking into. So it reads those of its own namespace, where the
/// catalogs of the whole cluster are, and those of the namespaces in which an administrator binds this ClusterRole; the status of a
/// CatalogSource elsewhere says how.
fn pull_secrets() -> [Value; 2] {
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": PULL_SECRETS_ROLE },
            "rules": [rule(&[""], &["secrets"], &["get"])]
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": PULL_SECRETS_ROLE, "namespace": NAMESPACE },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PULL_SECRETS_ROLE },
            "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": NAMESPACE }]
        }),
    ]
}

fn service_account(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": NAMESPACE }
    })
}

fn cluster_role() -> Value {
    const OWN: [&str; 6] = [
        "catalogsources",
        "subscriptions",
        "installplans",
        "clusterserviceversions",
        "operatorgroups",
        "operatorconditions",
    ];
    let status: Vec<String> = OWN.iter().map(|r| format!("{r}/status")).collect();
    let finalizers: Vec<String> = OWN.iter().map(|r| format!("{r}/finalizers")).collect();
    let status: Vec<&str> = status.iter().map(String::as_str).collect();
    let finalizers: Vec<&str> = finalizers.iter().map(String::as_str).collect();
    let install = ["get", "list", "create", "update", "patch", "delete"];
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": MANAGER },
        "rules": [
            // Its own API: the objects, what it reports in them, and ownership by them.
            rule(&["operators.coreos.com"], &OWN,
                &["get", "list", "watch", "create", "update", "patch", "delete"]),
            rule(&["operators.coreos.com"], &status, &["get", "update", "patch"]),
            rule(&["operators.coreos.com"], &finalizers, &["update"]),
            // What operators extend the API with. No delete: removing a CRD removes everyone's data, so only a
            // user may do it, with the user's own rights.
            rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"],
                &["get", "list", "watch", "create", "update", "patch"]),
            // What operators run as and run from.
            rule(&["apps"], &["deployments"],
                &["get", "list", "watch", "create", "update", "patch", "delete"]),
            rule(&[""], &["serviceaccounts", "services", "configmaps"], &install),
            // A bundle may bring a Secret; none is read by this right. ConfigMaps above are read for bundles that
            // bring some and for CatalogSources of type configmap.
            rule(&[""], &["secrets"], &["create", "patch", "delete"]),
            // Other kinds that the bundle format allows.
            rule(&["policy"], &["poddisruptionbudgets"], &install),
            rule(&["networking.k8s.io"], &["networkpolicies"], &install),
            rule(&["scheduling.k8s.io"], &["priorityclasses"], &install),
            rule(&["monitoring.coreos.com"], &["prometheusrules", "servicemonitors", "podmonitors"], &install),
            // An operator is granted the permissions that its bundle asks for and an administrator approved.
            // Granting what one does not hold needs `escalate` (to write the role) and `bind` (to bind it).
            rule(&["rbac.authorization.k8s.io"], &["roles", "clusterroles"],
                &["get", "list", "create", "update", "patch", "delete", "escalate", "bind"]),
            rule(&["rbac.authorization.k8s.io"], &["rolebindings", "clusterrolebindings"], &install),
            // Where operators live, and what is wrong with their pods when a rollout does not finish.
            rule(&[""], &["namespaces"], &["get", "list"]),
            rule(&[""], &["pods"], &["list"]),
            // What may stand in the way of a plan: looked at before anything is changed, and told in its findings.
            rule(&[""], &["resourcequotas"], &["list"]),
            rule(&["admissionregistration.k8s.io"],
                &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"], &["list"]),
            rule(&["discovery.k8s.io"], &["endpointslices"], &["list"]),
            // What it did, told to `kubectl describe`.
            rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
        ]
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}
