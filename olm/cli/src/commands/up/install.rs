//! Installs the manager and the console into the dev cluster, with the same manifests as on a real cluster.

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use olm_engine::resources::ResourceError;
use olm_ops::manifests::{ManifestOptions, NO_PROXY, for_server, manifests};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    args::UpCatalog,
    commands::progress::{Progress, Seen, pod_state},
    exit::{Code, Failure},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Applies the manifests in order; waits for CRDs before the objects that need them.
pub async fn apply(
    client: &Client,
    catalogs: &[UpCatalog],
    package_manifests: bool,
    console_args: &[String],
    route: Option<u16>,
) -> Result<(), Failure> {
    let options = ManifestOptions {
        package_manifests,
        console_args: console_args.to_vec(),
        extra_catalogs: catalogs.iter().map(catalog).collect(),
        namespace: olm_engine::site::manager_namespace().into(),
        ..ManifestOptions::default()
    };
    let failed = |error: ResourceError| Failure::new(Code::Unexpected, error.to_string());
    let mut objects = for_server(client, manifests(&options)).await.map_err(failed)?;
    mount_directories(&mut objects, &directories(catalogs));
    if let Some(port) = route {
        set_proxy(&mut objects, port);
    }
    olm_ops::manifests::apply(client, &objects).await.map_err(failed)
}

/// The CatalogSource of a catalog.
fn catalog(catalog: &UpCatalog) -> Value {
    let (name, spec) = match catalog {
        UpCatalog::Directory { name, dir } => (
            name,
            json!({
                "sourceType": "directory",
                "directory": format!("/catalogs/{name}"),
                "displayName": name,
                "publisher": dir.display().to_string(),
            }),
        ),
        UpCatalog::Remote { name, spec } => (name, json!(spec)),
    };
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": olm_engine::site::manager_namespace()},
        "spec": spec,
    })
}

/// The catalogs that are directories of this machine.
fn directories(catalogs: &[UpCatalog]) -> Vec<(String, PathBuf)> {
    let directory = |catalog: &UpCatalog| match catalog {
        UpCatalog::Directory { name, dir } => Some((name.clone(), dir.clone())),
        UpCatalog::Remote { .. } => None,
    };
    catalogs.iter().filter_map(directory).collect()
}

/// Mounts the host's catalog directories into the manager's pod. Its namespace forbids hostPath (Pod Security
/// level restricted), so each directory is a PersistentVolume.
fn mount_directories(objects: &mut Vec<Value>, catalogs: &[(String, PathBuf)]) {
    let home = olm_engine::site::manager_namespace();
    let mut made = Vec::new();
    let Some(pod) = manager_pod(objects) else { return };
    for (name, dir) in catalogs {
        // The source of a volume is immutable: another directory needs another volume.
        let hash = Sha256::digest(dir.as_os_str().as_encoded_bytes());
        let claim = format!("catalog-{name}-{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3]);
        let (capacity, modes) = (json!({"storage": "1Gi"}), ["ReadOnlyMany"]);
        made.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": claim},
            "spec": {
                "capacity": capacity, "accessModes": modes, "storageClassName": "",
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": home, "name": claim},
                "hostPath": {"path": dir, "type": "Directory"},
            },
        }));
        made.push(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": home},
            "spec": {
                "accessModes": modes, "storageClassName": "", "volumeName": claim,
                "resources": {"requests": capacity},
            },
        }));
        let volume = format!("catalog-{name}");
        let source = json!({"claimName": claim, "readOnly": true});
        push(pod, "volumes", json!({"name": volume, "persistentVolumeClaim": source}));
        let mount = json!({"name": volume, "mountPath": format!("/catalogs/{name}"), "readOnly": true});
        if let Some(container) = pod["containers"].get_mut(0) {
            push(container, "volumeMounts", mount);
        }
    }
    objects.extend(made);
}

/// Lets the manager fetch catalogs through the proxy at this port of `host.olm.internal`.
fn set_proxy(objects: &mut [Value], port: u16) {
    let Some(pod) = manager_pod(objects) else { return };
    let Some(container) = pod["containers"].get_mut(0) else { return };
    let proxy = format!("http://host.olm.internal:{port}");
    push(container, "env", json!({"name": "HTTPS_PROXY", "value": proxy}));
    push(container, "env", json!({"name": "NO_PROXY", "value": NO_PROXY}));
}

/// The pod spec of the manager's Deployment.
fn manager_pod(objects: &mut [Value]) -> Option<&mut Value> {
    let manager = objects
        .iter_mut()
        .find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == olm_engine::site::MANAGER)?;
    Some(&mut manager["spec"]["template"]["spec"])
}

fn push(object: &mut Value, list: &str, item: Value) {
    match object[list].as_array_mut() {
        Some(items) => items.push(item),
        None => object[list] = json!([item]),
    }
}

/// Waits until a Deployment of the product is available.
pub async fn available(progress: &Progress, client: &Client, name: &str) -> Result<(), Failure> {
    let namespace = olm_engine::site::manager_namespace();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    progress
        .wait(client, namespace, &format!("{name} is available"), LIMIT, || async {
            let deployment = deployments.get(name).await?;
            let current = deployment.status.as_ref().and_then(|s| s.observed_generation)
                == deployment.metadata.generation;
            let available = deployment.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
            let list = pods.list(&ListParams::default()).await?;
            let mine: Vec<&Pod> = list.iter().filter(|p| p.name_any().starts_with(name)).collect();
            // The Deployment's status may predate a restart; the readiness of a pod is current.
            if current && available > 0 && mine.iter().any(|pod| is_ready(pod)) {
                return Ok(Seen::Ready(()));
            }
            let pod = mine.first();
            Ok(Seen::Waiting(
                pod.map_or("no pod created".into(), |p| format!("pod {}: {}", p.name_any(), pod_state(p))),
            ))
        })
        .await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_catalog_is_its_spec_and_is_not_mounted() {
        let spec = olm_api::CatalogSourceSpec {
            source_type: "grpc".into(),
            image: Some("quay.io/acme/catalog:v1".into()),
            ..Default::default()
        };
        let remote = UpCatalog::Remote { name: "acme".into(), spec: Box::new(spec) };
        let source = catalog(&remote);
        assert_eq!(source["metadata"], json!({"name": "acme", "namespace": "olm"}));
        assert_eq!(source["spec"], json!({"sourceType": "grpc", "image": "quay.io/acme/catalog:v1"}));
        let mine = UpCatalog::Directory { name: "mine".into(), dir: "/tmp/c".into() };
        assert_eq!(catalog(&mine)["spec"]["directory"], "/catalogs/mine");
        assert_eq!(directories(&[remote, mine]), [("mine".to_owned(), PathBuf::from("/tmp/c"))]);
    }

    #[test]
    fn the_manager_fetches_through_the_proxy_of_the_host() {
        let mut objects = manifests(&ManifestOptions::default());
        set_proxy(&mut objects, 4711);
        let deployment = |name: &str| {
            let mut all = objects.iter();
            all.find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == name).unwrap().to_string()
        };
        assert!(deployment("olm-manager").contains("http://host.olm.internal:4711"));
        assert!(!deployment("olm-console").contains("HTTPS_PROXY"));
    }

    #[test]
    fn a_catalog_directory_is_mounted_into_the_manager() {
        let catalogs = vec![("mine".to_string(), PathBuf::from("/tmp/c"))];
        let mut objects = manifests(&ManifestOptions::default());
        mount_directories(&mut objects, &catalogs);
        let manager = objects
            .iter()
            .find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == "olm-manager")
            .unwrap();
        let pod = &manager["spec"]["template"]["spec"];
        let of = |kind: &str| objects.iter().find(|o| o["kind"] == kind).unwrap();
        let (volume, claim) = (of("PersistentVolume"), of("PersistentVolumeClaim"));
        assert_eq!(volume["spec"]["hostPath"]["path"], "/tmp/c");
        assert_eq!(volume["metadata"]["name"], claim["spec"]["volumeName"]);
        let volumes = pod["volumes"].as_array().unwrap();
        let name = &claim["metadata"]["name"];
        assert!(volumes.iter().any(|v| v["persistentVolumeClaim"]["claimName"] == *name), "{volumes:?}");
        // the namespace forbids other volume types
        assert!(volumes.iter().all(|v| v["hostPath"].is_null()));
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|m| m["mountPath"] == "/catalogs/mine" && m["readOnly"] == true));
    }
}
