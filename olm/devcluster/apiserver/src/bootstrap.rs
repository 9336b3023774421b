//! Initial objects of every cluster. Created when absent; changes by users stay.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    aggregation,
    authz::GROUP as RBAC,
    crds, hooks, meta,
    resource::stored_key,
    state::Server,
    store::{Key, WriteError},
};

/// The ConfigMap that extension API servers read.
const EXTENSIONS: &str = "extension-apiserver-authentication";

/// Creates missing objects, and serves the stored CRDs.
pub(crate) async fn run(server: &Arc<Server>, port: u16, client_ca: &str) -> Result<(), WriteError> {
    let definitions = server.store.list(crds::STORED, "").items;
    for crd in &definitions {
        crds::serve(server, crd);
    }
    // The server may have stopped between the deletion of a CRD and the acceptance of its names by another
    // one.
    let groups: BTreeSet<&str> = definitions.iter().map(|crd| meta::text(crd, "/spec/group")).collect();
    for group in groups {
        crds::accept_waiting_names(server, group).await;
    }
    server.webhooks.reload(&server.store);
    server.policies.reload(&server.store);
    for object in objects(port) {
        create(server, object).await?;
    }
    point_at(server, port).await?;
    publish_authentication(server, client_ca).await?;
    aggregation::sync(server).await;
    server.aggregation.reload(&server.store);
    hooks::aggregate(server).await;
    for crd in server.store.list(crds::STORED, "").items.iter().filter(|c| meta::is_deleting(c)) {
        crds::sweep(server, meta::name(crd)).await;
    }
    hooks::purge_events(server).await;
    Ok(())
}

/// The port may differ from the last run: the `kubernetes` Service must lead to this server.
async fn point_at(server: &Arc<Server>, port: u16) -> Result<(), WriteError> {
    for (resource, pointer) in
        [("/services", "/spec/ports/0/targetPort"), ("discovery.k8s.io/endpointslices", "/ports/0/port")]
    {
        let key = Key::new(resource, "default", "kubernetes");
        let Some(object) = server.store.get(&key) else { continue };
        let mut new = Value::clone(&object);
        match new.pointer_mut(pointer) {
            Some(value) if *value != port => *value = port.into(),
            _ => continue,
        }
        match server.store.write(&key, Some(&object), Some(new)).await {
            Ok(_) | Err(WriteError::Raced) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Updates the ConfigMap with the authentication settings for extension API servers.
async fn publish_authentication(server: &Arc<Server>, client_ca: &str) -> Result<(), WriteError> {
    let wanted = server.aggregation.front().config_map(client_ca);
    create(server, wanted.clone()).await?;
    let key = Key::new("/configmaps", "kube-system", EXTENSIONS);
    let Some(object) = server.store.get(&key).filter(|o| o["data"] != wanted["data"]) else { return Ok(()) };
    let mut new = Value::clone(&object);
    meta::as_map(&mut new).insert("data".to_owned(), wanted["data"].clone());
    match server.store.write(&key, Some(&object), Some(new)).await {
        Ok(_) | Err(WriteError::Raced) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn create(server: &Arc<Server>, mut object: Value) -> Result<(), WriteError> {
    let served = server.registry.served();
    let (group, version) = match meta::text(&object, "/apiVersion").split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), meta::text(&object, "/apiVersion").to_owned()),
    };
    let kind = meta::text(&object, "/kind");
    let Some(resource) =
        served.resources.iter().find(|r| r.group == group && r.version == version && r.kind == kind)
    else {
        return Ok(());
    };
    let key = Key::new(&stored_key(&group, &resource.plural), meta::namespace(&object), meta::name(&object));
    if server.store.get(&key).is_some() {
        return Ok(());
    }
    if let Some(builtin) = resource.builtin() {
        let status = object.get("status").cloned();
        (builtin.prepare)(&mut object, None);
        (builtin.default)(&mut object);
        if let Some(status) = status {
            meta::as_map(&mut object).insert("status".to_owned(), status);
        }
    }
    let metadata = meta::metadata(&mut object);
    metadata.insert("uid".to_owned(), meta::new_uid().into());
    metadata.insert("creationTimestamp".to_owned(), meta::now().into());
    if resource.generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    match server.store.write(&key, None, Some(object)).await {
        Ok(_) | Err(WriteError::Raced) => Ok(()),
        Err(error) => Err(error),
    }
}

fn role(name: &str, labels: Value, rules: Value) -> Value {
    let mut labels = labels;
    labels["kubernetes.io/bootstrapping"] = "rbac-defaults".into();
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": { "name": name, "labels": labels, "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" } },
        "rules": rules,
    })
}

fn aggregated(name: &str, labels: Value, from: &str) -> Value {
    let mut role = role(name, labels, json!([]));
    role["aggregationRule"] = json!({ "clusterRoleSelectors": [
        { "matchLabels": { (format!("rbac.authorization.k8s.io/aggregate-to-{from}")): "true" } },
    ] });
    role
}

fn binding(name: &str, role: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> =
        groups.iter().map(|g| json!({ "kind": "Group", "apiGroup": RBAC, "name": g })).collect();
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {
            "name": name, "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": subjects,
    })
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

fn roles() -> Vec<Value> {
    let to = |name: &str| json!({ (format!("rbac.authorization.k8s.io/aggregate-to-{name}")): "true" });
    let core_read = json!([
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
    ]);
    let apps = json!([
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
        "controllerrevisions",
    ]);
    let apps_write = json!([
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ]);
    let others = |verbs: &[&str]| {
        vec![
            json!({ "verbs": verbs, "apiGroups": ["batch"], "resources": ["cronjobs", "jobs"] }),
            json!({ "verbs": verbs, "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"] }),
            json!({ "verbs": verbs, "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"] }),
            json!({ "verbs": verbs, "apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "networkpolicies"] }),
        ]
    };
    let mut view = vec![
        json!({ "verbs": READ, "apiGroups": [""], "resources": core_read }),
        json!({ "verbs": READ, "apiGroups": ["apps"], "resources": apps }),
        json!({ "verbs": READ, "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"] }),
    ];
    view.extend(others(READ));
    let mut edit = vec![
        json!({ "verbs": READ, "apiGroups": [""], "resources": ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"] }),
        json!({ "verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"] }),
        json!({ "verbs": WRITE, "apiGroups": [""], "resources": ["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"] }),
        json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"] }),
        json!({ "verbs": WRITE, "apiGroups": [""], "resources": [
            "configmaps", "events", "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale",
            "secrets", "serviceaccounts", "services", "services/proxy",
        ] }),
        json!({ "verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token"] }),
        json!({ "verbs": WRITE, "apiGroups": ["apps"], "resources": apps_write }),
        json!({ "verbs": ([READ, WRITE].concat()), "apiGroups": ["coordination.k8s.io"], "resources": ["leases"] }),
    ];
    edit.extend(others(WRITE));
    let admin = json!([
        { "verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"] },
        { "verbs": ([READ, WRITE].concat()), "apiGroups": [RBAC], "resources": ["rolebindings", "roles"] },
    ]);
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    vec![
        role(
            "cluster-admin",
            json!({}),
            json!([
                { "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] },
                { "verbs": ["*"], "nonResourceURLs": ["*"] },
            ]),
        ),
        aggregated("admin", json!({}), "admin"),
        aggregated("edit", to("admin"), "edit"),
        aggregated("view", to("edit"), "view"),
        role("system:aggregate-to-admin", to("admin"), admin),
        role("system:aggregate-to-edit", to("edit"), edit.into()),
        role("system:aggregate-to-view", to("view"), view.into()),
        role("system:discovery", json!({}), json!([{ "verbs": ["get"], "nonResourceURLs": discovery }])),
        role(
            "system:public-info-viewer",
            json!({}),
            json!([
                { "verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"] },
            ]),
        ),
        role(
            "system:basic-user",
            json!({}),
            json!([
                { "verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"] },
                { "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"] },
            ]),
        ),
        role(
            "system:service-account-issuer-discovery",
            json!({}),
            json!([
                { "verbs": ["get"], "nonResourceURLs": ["/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"] },
            ]),
        ),
        role(
            "system:auth-delegator",
            json!({}),
            json!([
                { "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"] },
                { "verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"] },
            ]),
        ),
        role(
            "system:node",
            json!({}),
            json!([
                { "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"] },
                { "verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews", "subjectaccessreviews"] },
                { "verbs": READ, "apiGroups": [""], "resources": ["services", "configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims", "persistentvolumes"] },
                { "verbs": ["create", "get", "list", "watch", "patch", "update"], "apiGroups": [""], "resources": ["nodes", "nodes/status"] },
                { "verbs": ["create", "delete", "get", "list", "watch"], "apiGroups": [""], "resources": ["pods"] },
                { "verbs": ["patch", "update"], "apiGroups": [""], "resources": ["pods/status"] },
                { "verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token", "pods/eviction"] },
                { "verbs": ["create", "patch", "update"], "apiGroups": ["", "events.k8s.io"], "resources": ["events"] },
                { "verbs": ["create", "delete", "get", "patch", "update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"] },
            ]),
        ),
    ]
}

fn objects(port: u16) -> Vec<Value> {
    let mut all: Vec<Value> = ["default", "kube-system", "kube-public", "kube-node-lease"]
        .iter()
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
        .collect();
    all.extend(roles());
    all.push(binding("cluster-admin", "cluster-admin", &["system:masters"]));
    all.push(binding("system:discovery", "system:discovery", &["system:authenticated"]));
    all.push(binding("system:basic-user", "system:basic-user", &["system:authenticated"]));
    all.push(binding(
        "system:public-info-viewer",
        "system:public-info-viewer",
        &["system:authenticated", "system:unauthenticated"],
    ));
    all.push(binding(
        "system:service-account-issuer-discovery",
        "system:service-account-issuer-discovery",
        &["system:serviceaccounts"],
    ));
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        all.push(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value, "description": description,
        }));
    }
    all.push(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": "standard", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": olm_devcluster_machinery::PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
    }));
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    all.push(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "kubernetes", "namespace": "default", "labels": labels },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "sessionAffinity": "None",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }],
        },
        "status": { "loadBalancer": {} },
    }));
    all.push(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "kubernetes", "namespace": "default", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.244.0.1"], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
    }));
    all.push(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": {
            "name": "extension-apiserver-authentication-reader", "namespace": "kube-system",
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [EXTENSIONS], "verbs": READ,
        }],
    }));
    all
}
