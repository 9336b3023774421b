//! ServiceAccounts, roles and bindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Target;
use super::names::{known_rule, role_name};
use crate::csv::InstallMode;

/// Roles and bindings from the permissions of a bundle.
/// When the operator watches selected namespaces, `permissions` become a Role and RoleBinding in each of
/// them. When it watches all, they are promoted to a ClusterRole and ClusterRoleBinding that may also read
/// namespaces: least permissions for one namespace cannot include that.
pub(crate) fn objects(target: &Target<'_>, own_accounts: &BTreeSet<String>) -> Vec<Value> {
    let bundle = target.bundle;
    let everywhere = target.mode == InstallMode::AllNamespaces;
    let mut objects = Vec::new();

    let permissions = bundle.permissions().iter().chain(bundle.cluster_permissions());
    let accounts: BTreeSet<&str> = permissions.map(account).collect();
    for account in accounts {
        // Every namespace has `default`; the bundle's own accounts are not created again.
        if account != "default" && !own_accounts.contains(account) {
            objects.push(service_account(target, account));
        }
    }

    for permission in bundle.cluster_permissions() {
        cluster_role(target, permission, &mut objects);
    }
    for permission in bundle.permissions() {
        if everywhere {
            cluster_role(target, &with_namespaces(permission), &mut objects);
        } else {
            for namespace in &target.namespaces {
                role(target, permission, namespace, &mut objects);
            }
        }
    }

    // Two equal permissions have one name and are one role.
    let mut seen = BTreeSet::new();
    objects.retain(|object| {
        seen.insert((
            object["kind"].to_string(),
            object["metadata"]["namespace"].to_string(),
            object["metadata"]["name"].to_string(),
        ))
    });
    objects
}

fn account(permission: &Value) -> &str {
    permission
        .get("serviceAccountName")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
        .unwrap_or("default")
}

fn with_namespaces(permission: &Value) -> Value {
    let mut rules = rules(permission);
    rules.push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
    json!({"serviceAccountName": permission.get("serviceAccountName").cloned().unwrap_or_default(), "rules": rules})
}

/// The rules with known fields only: unknown ones would make a server-side apply fail.
fn rules(permission: &Value) -> Vec<Value> {
    let rules = permission.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().map(known_rule).collect()
}

fn service_account(target: &Target<'_>, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": name,
            "namespace": target.options.install_namespace,
            "labels": target.owner_labels(),
        },
    })
}

fn cluster_role(target: &Target<'_>, permission: &Value, objects: &mut Vec<Value>) {
    let home = Some(target.options.install_namespace.as_str());
    let name = role_name(target.bundle.name(), account(permission), permission, home);
    let metadata = json!({"name": name, "labels": target.owner_labels()});
    push(target, permission, ["ClusterRole", "ClusterRoleBinding"], &metadata, objects);
}

fn role(target: &Target<'_>, permission: &Value, namespace: &str, objects: &mut Vec<Value>) {
    let home = Some(target.options.install_namespace.as_str()).filter(|home| *home != namespace);
    let name = role_name(target.bundle.name(), account(permission), permission, home);
    let metadata = json!({"name": name, "namespace": namespace, "labels": target.owner_labels()});
    push(target, permission, ["Role", "RoleBinding"], &metadata, objects);
}

fn push(
    target: &Target<'_>,
    permission: &Value,
    [role_kind, binding_kind]: [&str; 2],
    metadata: &Value,
    objects: &mut Vec<Value>,
) {
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": role_kind,
        "metadata": metadata,
        "rules": rules(permission),
    }));
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": binding_kind,
        "metadata": metadata,
        "subjects": [{
            "kind": "ServiceAccount",
            "name": account(permission),
            "namespace": target.options.install_namespace,
        }],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": metadata["name"]},
    }));
}
