//! ServiceAccounts and RBAC. The manager gets the rights that installing operators needs ([`calls`]), without
//! wildcards.

use olm_api::names;
use olm_engine::site::{CONSOLE, HTTP_PORT, MANAGER, PULL_SECRETS_ROLE};
use serde_json::{Value, json};

use super::{
    ADMIN_ROLE, CATALOG_READER_ROLE, EDIT_ROLE, METRICS_READER_ROLE, ManifestOptions, PORT_ROLE, VIEW_ROLE,
    calls,
};

/// The ClusterRole by which the manager may view operands.
const INSTANCES_ROLE: &str = "olm-manager-instances";

pub(super) fn objects(options: &ManifestOptions) -> Vec<Value> {
    let namespace = &options.namespace;
    let mut out = vec![service_account(MANAGER, namespace)];
    if options.console_image.is_some() {
        // No role is bound to it: every call of the console carries the user's token.
        out.push(service_account(CONSOLE, namespace));
    }
    out.push(cluster_role());
    out.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": MANAGER },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": MANAGER },
        "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": namespace }]
    }));
    out.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": MANAGER, "namespace": namespace },
        // The Lease by which one replica leads, and by which the others observe at once that it is free.
        "rules": [rule(&["coordination.k8s.io"], &["leases"], &["get", "list", "watch", "create", "update"])]
    }));
    out.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": MANAGER, "namespace": namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": MANAGER },
        "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": namespace }]
    }));
    out.extend(pull_secrets(namespace));
    out.extend(instances(namespace));
    out.extend(readers());
    out.extend(port(namespace));
    out.extend(options.public_catalogs.then(|| public_catalogs(namespace)));
    out
}

/// All users may reach the manager's port through the API server, as the command line does: the port checks a
/// right for each catalog.
fn port(namespace: &str) -> [Value; 2] {
    let metadata = json!({ "name": PORT_ROLE, "namespace": namespace });
    let group = "rbac.authorization.k8s.io";
    let service = format!("https:{MANAGER}:{HTTP_PORT}");
    [
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{
                "apiGroups": [""], "resources": ["services/proxy"], "resourceNames": [service], "verbs": ["get"],
            }],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": "Role", "name": PORT_ROLE },
            "subjects": [{ "apiGroup": group, "kind": "Group", "name": "system:authenticated" }],
        }),
    ]
}

/// ClusterRoles to read catalogs and metrics from the manager's port; an administrator binds the role for
/// metrics to Prometheus' ServiceAccount.
fn readers() -> [Value; 2] {
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": CATALOG_READER_ROLE },
            "rules": [rule(&["operators.coreos.com"], &["catalogsources"], &["get", "list", "watch"])]
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": METRICS_READER_ROLE },
            "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]
        }),
    ]
}

/// Rights of a namespace's users on the manager's kinds, added to their roles there: `view` reads, `edit`
/// requests operators and approves, `admin` also publishes catalogs. That grants no other rights: a plan is
/// applied with the rights of its authority.
pub(super) fn personas() -> [Value; 3] {
    let group = [names::GROUP];
    let look = ["get", "list", "watch"];
    let kinds = [
        "catalogsources",
        "subscriptions",
        "installplans",
        "clusterserviceversions",
        "operatorgroups",
        "operatorconditions",
        "installpolicies",
    ];
    let packages =
        rule(&["packages.operators.coreos.com"], &["packagemanifests", "packagemanifests/icon"], &look);
    let write = ["create", "update", "patch", "delete"];
    let view = vec![rule(&group, &kinds, &look), packages];
    let edit = vec![
        rule(&group, &["subscriptions", "operatorgroups"], &write),
        rule(&group, &["installplans"], &["update", "patch", "delete"]),
        rule(&group, &["clusterserviceversions"], &["delete"]),
    ];
    let admin = vec![
        rule(&group, &["catalogsources", "clusterserviceversions"], &write),
        rule(&group, &["operatorconditions"], &["update", "patch"]),
    ];
    let role = |name: &str, to: &[&str], rules: Vec<Value>| {
        let labels =
            to.iter().map(|to| (format!("rbac.authorization.k8s.io/aggregate-to-{to}"), json!("true")));
        let labels: serde_json::Map<String, Value> = labels.collect();
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name, "labels": labels },
            "rules": rules,
        })
    };
    [
        role(VIEW_ROLE, &["view", "edit", "admin"], view),
        role(EDIT_ROLE, &["edit", "admin"], edit),
        role(ADMIN_ROLE, &["admin"], admin),
    ]
}

/// Every authenticated user may read the catalogs of the product's namespace, in that namespace alone.
fn public_catalogs(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": CATALOG_READER_ROLE, "namespace": namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CATALOG_READER_ROLE },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated" }]
    })
}

/// The manager counts operands before an operator is removed. Their kinds are known only once bundles install
/// them: each brings a ClusterRole for viewing it, and those are aggregated into this one. That gives no
/// access to Secrets and the like: each of the roles names the kinds of one CustomResourceDefinition.
fn instances(namespace: &str) -> [Value; 2] {
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": INSTANCES_ROLE },
            "aggregationRule": {
                "clusterRoleSelectors": [{ "matchLabels": { (names::LABEL_AGGREGATE_TO_MANAGER): "true" } }]
            }
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": INSTANCES_ROLE },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": INSTANCES_ROLE },
            "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": namespace }]
        }),
    ]
}

/// CatalogSources name pull secrets, so the manager gets them by name and lists none. A user who may create a
/// CatalogSource can make it use any Secret of its namespace, but never reads the content; still, a manager
/// with access to every Secret of the cluster would be an attractive target. So it reads those of its own
/// namespace, with the catalogs of the whole cluster, and those of the namespaces in which an administrator
/// binds this ClusterRole; the status of a CatalogSource elsewhere names the command.
fn pull_secrets(namespace: &str) -> [Value; 2] {
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
            "metadata": { "name": PULL_SECRETS_ROLE, "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PULL_SECRETS_ROLE },
            "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": namespace }]
        }),
    ]
}

fn service_account(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": namespace }
    })
}

fn cluster_role() -> Value {
    let rules: Vec<Value> =
        calls::CALLS.iter().map(|call| rule(&[call.group], call.resources, call.verbs)).collect();
    let why = |call: &calls::Call| format!("{} {}: {}\n", call.group, call.resources.join(","), call.why);
    let why: String = calls::CALLS.iter().map(why).collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        // The annotation documents the purpose of each rule for readers of the role.
        "metadata": { "name": MANAGER, "annotations": { "olm.rights": why } },
        "rules": rules,
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}
