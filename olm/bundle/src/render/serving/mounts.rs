//! Mounts of the certificate where operators expect it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Endpoint;

/// Volume, path in the containers, and names of certificate and key there.
const MOUNTS: [(&str, &str, &str, &str); 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),
    ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
];

/// Mounts the endpoint's certificate into every container of a Deployment. It replaces the author's mounts of
/// the same paths or names: a scaffold mounts the Secret of another certificate tool there.
pub(in crate::render) fn mount(endpoint: &Endpoint, deployment: &mut Value) {
    let Some(pod) = deployment.pointer_mut("/spec/template/spec") else { return };
    let mut replaced: BTreeSet<String> = MOUNTS.iter().map(|(volume, ..)| (*volume).to_owned()).collect();
    for container in containers(pod) {
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            if MOUNTS.iter().any(|(_, path, ..)| mount["mountPath"] == *path)
                && let Some(name) = mount["name"].as_str()
            {
                replaced.insert(name.to_owned());
            }
        }
    }
    let gone = |item: &Value| item["name"].as_str().is_some_and(|name| replaced.contains(name));
    let new = |list: &mut Value, mut items: Vec<Value>| {
        let mut kept: Vec<Value> =
            list.as_array().into_iter().flatten().filter(|i| !gone(i)).cloned().collect();
        kept.append(&mut items);
        *list = kept.into();
    };
    for container in containers(pod) {
        let mounts = MOUNTS.iter().map(|(volume, path, ..)| json!({"name": volume, "mountPath": path}));
        new(&mut container["volumeMounts"], mounts.collect());
    }
    let volumes = MOUNTS.iter().map(|(volume, _, certificate, key)| {
        json!({"name": volume, "secret": {"secretName": endpoint.secret, "items": [
            {"key": "tls.crt", "path": certificate},
            {"key": "tls.key", "path": key},
        ]}})
    });
    new(&mut pod["volumes"], volumes.collect());
}

fn containers(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    let list = pod.get_mut("containers").and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|container| container.is_object())
}
