//! Clusters with a permanently lost quorum, restored from the claim of the surviving member.

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Handle, Stage};
use serde_json::{Value, json};

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    restores::{followed, released, restoring, with_backup},
    tasks::{Task, get, put},
    with_volumes,
};

/// An EtcdRestore of cluster `c` from a claim, with more of a spec.
fn from_claim(name: &str, claim: &str, more: &Value) -> Value {
    let mut spec = json!({ "etcdCluster": { "name": "c" }, "fromClaim": claim });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore",
            "metadata": { "name": name, "namespace": "ns" }, "spec": spec })
}

/// All members but one are deleted with their volumes, while no operator runs.
async fn lose_all_but(cluster: &Handle<'_>, survivor: &str) -> Result<()> {
    let stage = cluster.stage;
    let names = cluster.names().await?;
    for name in names.iter().filter(|name| *name != survivor) {
        stage.delete("PersistentVolumeClaim", "ns", name).await?;
        stage.delete("Pod", "ns", name).await?;
    }
    stage
        .eventually("the other members and their volumes to be gone", async || {
            let claims = stage.list("PersistentVolumeClaim", "ns").await?.len();
            let pods = cluster.names().await?;
            ensure!(claims == 1 && pods.len() == 1, "{claims} claims, pods {pods:?}");
            Ok(())
        })
        .await
}

/// Invalid restores from a claim, with their messages. Nothing is changed.
async fn refused(stage: &Stage, survivor: &str) -> Result<()> {
    let two =
        from_claim("two", survivor, &json!({ "backupStorageType": "Local", "local": { "path": "a/b" } }));
    let error = stage.apply(&two).await.err().context("two sources were accepted")?;
    ensure!(format!("{error:#}").contains("expected exactly one source"), "{error:#}");
    stage
        .apply(&json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "foreign", "namespace": "ns" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }))
        .await?;
    for (name, claim, words) in [
        ("missing", "c-zzzzzzzzzz", "claim c-zzzzzzzzzz (spec.fromClaim) not found"),
        ("other", "foreign", "claim foreign (spec.fromClaim): label app is \"\""),
    ] {
        stage.apply(&from_claim(name, claim, &json!({}))).await?;
        let status = Task::known(stage, "EtcdRestore", name).failed(words).await?;
        ensure!(status["claim"].is_null() && status["clusterUID"].is_null(), "{status}");
    }
    stage.delete("PersistentVolumeClaim", "ns", "foreign").await
}

/// S11, the claim that heals: two of three are lost with their volumes. The message offers the claim of the
/// third, with its revision next to that of the last backup; the restore includes what came after the backup,
/// and the claim stays.
#[test]
fn s11_the_claim_of_a_survivor_brings_back_what_no_backup_has() {
    restoring("S11 claim", async |stage| {
        let operator = stage.operator()?;
        let cluster = stage.create("c", with_volumes(3)).await?;
        cluster.steady(3).await?;
        with_backup(&cluster, json!({})).await?;
        cluster.condition("BackedUp", "True", "BackedUp").await?;
        let backup = Task::known(stage, "EtcdBackup", "b").object().await?["status"]["etcdRevision"].clone();
        // The leader has every acknowledged write.
        let survivor = cluster.leader().await?;
        stage.apply(&from_claim("early", &survivor, &json!({}))).await?;
        Task::known(stage, "EtcdRestore", "early").failed("EtcdCluster c has a quorum").await?;
        let last = put(&cluster, "last", b"acknowledged").await?;
        let before = cluster.object().await?["status"]["clusterID"].clone();
        let former = cluster.names().await?;
        let uid = stage.get("PersistentVolumeClaim", "ns", &survivor).await?["metadata"]["uid"].clone();
        operator.stop().await;
        lose_all_but(&cluster, &survivor).await?;
        let _operator = stage.operator()?;

        // The manifest in the message is used unchanged, and the API server generates the name.
        let message = stage
            .eventually("the offer of the claim", async || {
                let condition = cluster.condition("Available", "False", "DataLost").await?;
                let message = condition["message"].as_str().unwrap_or_default().to_owned();
                let offer = format!(
                    "Member {survivor} (claim {survivor}) is at revision {last}; the last backup holds revision {backup}"
                );
                ensure!(message.contains(&offer), "{offer}: {message}");
                Ok(message)
            })
            .await?;
        refused(stage, &survivor).await?;
        let manifest = message.split_once("<<<'").and_then(|(_, rest)| rest.split_once('\''));
        let mut manifest: Value = serde_json::from_str(manifest.context("a command")?.0)?;
        ensure!(manifest["spec"]["fromClaim"] == *survivor, "{manifest}");
        let name = format!("{}1", manifest["metadata"]["generateName"].as_str().context("a name")?);
        manifest["metadata"] = json!({ "name": name, "namespace": "ns" });
        stage.apply(&manifest).await?;
        let restore = Task::known(stage, "EtcdRestore", &name);
        let status = followed(&cluster, &restore, &former).await?;

        ensure!(status["claim"] == json!({ "name": survivor, "uid": uid, "revision": last }), "{status}");
        ensure!(status["restoredRevision"].as_i64() >= Some(last), "{status}");
        let after = cluster.object().await?["status"]["clusterID"].clone();
        ensure!(after != before && after == status["clusterID"], "{before} {after} {status}");
        cluster.steady(3).await?;
        for (key, value) in [("precious", "after"), ("late", "yes"), ("last", "acknowledged")] {
            let found = get(&cluster, key).await?;
            ensure!(found.as_deref() == Some(value), "{key} is {found:?}");
        }
        released(&cluster, &restore).await?;
        restore.has_event("RestoreSucceeded").await?;

        // The claim belongs to the user from now on.
        let claim = stage.get("PersistentVolumeClaim", "ns", &survivor).await?["metadata"].clone();
        ensure!(claim["uid"] == uid && claim["deletionTimestamp"].is_null(), "{claim}");
        ensure!(claim["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{claim}");
        let restore = restore.object().await?["metadata"]["uid"].clone();
        ensure!(claim["labels"]["etcd.database.coreos.com/replaced-by"] == restore, "{claim}");
        // No pod of the cluster runs with the flag that drops the other members.
        for pod in cluster.pods().await? {
            let command = pod["spec"]["containers"][0]["command"].to_string();
            ensure!(!command.contains("force-new-cluster"), "{command}");
        }
        let clients = Clients::start(&cluster, 2, 11);
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}
