//! The proxy of `olm up --catalog`: the manager's pod has no route to the networks of this machine.

use std::fs;

use anyhow::{Result, ensure};
use nix::unistd::geteuid;
use olm_tests::{Cluster, DevCluster, eventually, root, skipped};
use serde_json::{Value, json};

use crate::{
    block_on,
    operator::LIMIT,
    own_turn,
    registry::{Network, Registry},
};

#[test]
fn the_manager_fetches_a_catalog_from_another_network() {
    const NAME: &str = "the_manager_fetches_a_catalog_from_another_network";
    let Some(_turn) = own_turn(NAME, &["kubectl", "docker-registry", "skopeo", "ip"]) else { return };
    if !geteuid().is_root() {
        return skipped(NAME, "only root creates networks");
    }
    block_on(fetch()).expect(NAME);
}

async fn fetch() -> Result<()> {
    // given a registry in another network, with a self-signed certificate
    let network = Network::create()?;
    let (registry, certificate) = Registry::start_in(&network).await?;
    let content = tempfile::tempdir()?;
    fs::create_dir_all(content.path().join("configs/etcd"))?;
    let catalog = root().join("catalog/data/etcd/catalog.yaml");
    fs::copy(catalog, content.path().join("configs/etcd/catalog.yaml"))?;
    let labels = json!({ "operators.operatorframework.io.index.configs.v1": "/configs" });
    registry.push("site", json!({ "Labels": labels }), content.path())?;

    // when the cluster starts with its catalog, then the manager reaches the registry and rejects the certificate
    let up = DevCluster::start_in_temp(&["--catalog", &format!("site={}/site:latest", registry.host)])?;
    let cluster = up.cluster();
    eventually("the refused certificate", LIMIT, async || {
        let state = source(&cluster)?;
        Ok(state["message"].as_str().is_some_and(|text| text.contains("olm-registries")).then_some(()))
    })
    .await?;

    // when the certificate is trusted, then the catalog is read
    let authorities = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "olm-registries", "namespace": "olm" },
        "data": { "site.crt": certificate },
    });
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&authorities.to_string()))?;
    cluster.kubectl(&["rollout", "restart", "deployment/olm-manager", "-n", "olm"])?;
    eventually("the catalog", LIMIT, async || {
        Ok((source(&cluster)?["connectionState"]["lastObservedState"] == "READY").then_some(()))
    })
    .await?;
    let found = cluster.olm_ok(&["show", "etcd", "--catalog", "site"])?;
    ensure!(found.contains("0.11.0"), "{found}");

    // when the cluster starts again, then its manager is not replaced: the proxy has the same address
    let pods = ["get", "pods", "-n", "olm", "-l", "app.kubernetes.io/name=olm-manager", "-o", "name"];
    let before = cluster.kubectl(&pods)?;
    ensure!(!before.is_empty());
    drop(cluster);
    up.stop()?;
    let data = up.data_dir.clone();
    let again = DevCluster::start(&data, &["--catalog", &format!("site={}/site:latest", registry.host)])?;
    let after = again.cluster().kubectl(&pods)?;
    ensure!(before == after, "{before} was replaced by {after}");
    again.stop()?;
    Ok(())
}

fn source(cluster: &Cluster) -> Result<Value> {
    let text = cluster.kubectl(&["get", "catalogsource", "site", "-n", "olm", "-o", "jsonpath={.status}"])?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}
