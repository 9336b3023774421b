//! Built-in admission plugins: the ServiceAccount of a pod and its token, priority, the defaults of
//! LimitRanges, the class of a claim.

use serde_json::{Value, json};

use super::{
    call::Call,
    meta::{self, list, text},
    quota,
    status::{ApiError, ApiResult},
    store::Key,
    volumes,
};

const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// One hour and seven seconds: the lifetime by which Kubernetes recognises the tokens that it mounts itself.
const TOKEN_SECONDS: i64 = 3607;

/// Runs on the creation of an object.
pub(crate) fn create(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    if call.resource.is("", "pods") {
        quota::fill_in(call, object);
        tolerations(object);
        priority(call, object)?;
        service_account(call, object)?;
    }
    volumes::admit(call.resource, &call.server.store, object);
    Ok(())
}

/// As the DefaultTolerationSeconds plugin.
fn tolerations(pod: &mut Value) {
    let spec = meta::child(pod, "spec");
    let all = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(all) = all.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = all.iter().any(|t| {
            matches!(text(t, "/key"), k if k == key || k.is_empty())
                && matches!(text(t, "/effect"), "NoExecute" | "")
        });
        if !tolerated {
            all.push(
                json!({ "effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300 }),
            );
        }
    }
}

/// As the Priority plugin.
fn priority(call: &Call<'_>, pod: &mut Value) -> ApiResult<()> {
    let class = text(pod, "/spec/priorityClassName").to_owned();
    let mut value = 0;
    let mut preemption = "PreemptLowerPriority".to_owned();
    if !class.is_empty() {
        let Some(found) = call.server.store.get(&Key::new("scheduling.k8s.io/priorityclasses", "", &class))
        else {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(ApiError::forbidden("pods", "", meta::name(pod), &why));
        };
        value = found["value"].as_i64().unwrap_or(0);
        preemption = text(&found, "/preemptionPolicy").to_owned();
    }
    let spec = meta::child(pod, "spec");
    spec.entry("priority").or_insert(value.into());
    if !preemption.is_empty() {
        spec.entry("preemptionPolicy").or_insert(preemption.into());
    }
    Ok(())
}

/// As the ServiceAccount plugin.
fn service_account(call: &Call<'_>, pod: &mut Value) -> ApiResult<()> {
    if !text(pod, "/metadata/annotations/kubernetes.io~1config.mirror").is_empty() {
        return Ok(());
    }
    let name = match text(pod, "/spec/serviceAccountName") {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    {
        let spec = meta::child(pod, "spec");
        spec.insert("serviceAccountName".to_owned(), name.as_str().into());
        spec.insert("serviceAccount".to_owned(), name.as_str().into());
    }
    let namespace = meta::namespace(pod).to_owned();
    let Some(account) = call.server.store.get(&Key::new("/serviceaccounts", &namespace, &name)) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(ApiError::forbidden("pods", "", meta::name(pod), &why));
    };
    let mounts = pod["spec"]["automountServiceAccountToken"]
        .as_bool()
        .or(account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    if mounts {
        mount_token(pod);
    }
    if list(pod, "/spec/imagePullSecrets").is_empty() && !list(&account, "/imagePullSecrets").is_empty() {
        meta::child(pod, "spec").insert("imagePullSecrets".to_owned(), account["imagePullSecrets"].clone());
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    let existing = list(pod, "/spec/volumes")
        .iter()
        .find(|v| {
            text(v, "/name").starts_with("kube-api-access-")
                && list(v, "/projected/sources").iter().any(|s| s["serviceAccountToken"].is_object())
        })
        .map(|v| text(v, "/name").to_owned());
    let volume = existing.clone().unwrap_or_else(|| format!("kube-api-access-{}", meta::random_suffix(5)));
    let mut mounted = false;
    let Some(spec) = pod.get_mut("spec") else { return };
    for key in ["initContainers", "containers"] {
        for container in meta::items_mut(spec, key) {
            let Some(container) = container.as_object_mut() else { continue };
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if mounts.iter().any(|m| m["mountPath"] == TOKEN_MOUNT) {
                continue;
            }
            mounts.push(json!({ "mountPath": TOKEN_MOUNT, "name": volume, "readOnly": true }));
            mounted = true;
        }
    }
    if existing.is_some() || !mounted {
        return;
    }
    let volumes = meta::as_map(spec).entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({
            "name": volume,
            "projected": {
                "defaultMode": 420,
                "sources": [
                    { "serviceAccountToken": { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
                    { "configMap": { "items": [{ "key": "ca.crt", "path": "ca.crt" }], "name": "kube-root-ca.crt" } },
                    { "downwardAPI": { "items": [{
                        "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" }, "path": "namespace",
                    }] } },
                ],
            },
        }));
    }
}
