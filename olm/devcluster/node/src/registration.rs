//! The Node object: properties of this node, and whether it runs pods.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{NODE_NAME, capacity, images::Images, network::NODE_IP};

/// Writes the Node object with these images (names, bytes); `Err` is the reason why it runs no pods.
pub(crate) async fn write(
    client: &Client,
    images: &[(Vec<String>, u64)],
    pods: Result<(), &str>,
) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    if nodes.get_opt(NODE_NAME).await?.is_none() {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NODE_NAME, "labels": {
                "kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": arch(),
                "node-role.kubernetes.io/control-plane": "",
            }},
        });
        let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
        nodes.create(&PostParams::default(), &node).await?;
    }
    let status = Patch::Merge(json!({"status": status(images, pods)}));
    nodes.patch_status(NODE_NAME, &PatchParams::default(), &status).await?;
    Ok(())
}

/// Updates the images of the node.
pub(crate) async fn write_images(client: &Client, images: &Images) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = Patch::Merge(json!({"status": {"images": listed(&images.entries())}}));
    nodes.patch_status(NODE_NAME, &PatchParams::default(), &status).await?;
    Ok(())
}

fn listed(images: &[(Vec<String>, u64)]) -> Vec<Value> {
    images.iter().map(|(names, bytes)| json!({"names": names, "sizeBytes": bytes})).collect()
}

fn status(images: &[(Vec<String>, u64)], pods: Result<(), &str>) -> Value {
    let now = jiff::Timestamp::now().to_string();
    let ready = match pods {
        Ok(()) => ("True", "KubeletReady", "the node agent is running"),
        Err(why) => ("False", "PodsUnavailable", why),
    };
    let capacity = json!({
        "cpu": capacity::processors().to_string(), "memory": format!("{}Ki", capacity::memory() / 1024),
        "pods": if pods.is_ok() { "253" } else { "0" },
    });
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "addresses": [
            {"type": "InternalIP", "address": NODE_IP.to_string()},
            {"type": "Hostname", "address": NODE_NAME},
        ],
        "capacity": capacity, "allocatable": capacity, "images": listed(images),
        "conditions": [{
            "type": "Ready", "status": ready.0, "reason": ready.1, "message": ready.2,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
        "nodeInfo": {
            "architecture": arch(), "bootID": "",
            "containerRuntimeVersion": concat!("olm://", env!("CARGO_PKG_VERSION")),
            "kernelVersion": kernel.trim(), "kubeProxyVersion": "",
            "kubeletVersion": olm_devcluster_machinery::KUBERNETES_VERSION,
            "machineID": "", "operatingSystem": "linux", "osImage": "processes on this machine", "systemUUID": "",
        },
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
