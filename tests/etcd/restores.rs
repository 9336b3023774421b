//! Backups that replace the data of a cluster, and those that must not.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use olm_tests::etcd_stage::{
    Controllers, Handle, Rpc, Stage, newer,
    s3::{Fault, S3},
};
use serde_json::{Value, json};

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    long, scenario, spec,
    tasks::{Task, fill, get, lacking, no_parts, object, put},
    with_volumes,
};

/// A scenario in which pods run the operator's own program.
pub fn restoring(id: &str, body: impl AsyncFnOnce(&Stage) -> Result<()>) {
    match lacking() {
        Some(why) => olm_tests::skipped(id, &why),
        None => scenario(id, async |stage| {
            stage.set_controllers(Controllers::ALL);
            stage.s3().await?;
            body(stage).await
        }),
    }
}

async fn made<'a>(stage: &'a Stage, name: &str, spec: Value) -> Result<Handle<'a>> {
    let size = spec["size"].as_u64().context("a size")?;
    let cluster = stage.create(name, spec).await?;
    cluster.steady(usize::try_from(size)?).await?;
    Ok(cluster)
}

/// A cluster with a key in its backup `bucket/etcd`, and one written later.
async fn made_with_backup<'a>(stage: &'a Stage, spec: Value, more: Value) -> Result<(Handle<'a>, i64)> {
    let cluster = made(stage, "c", spec).await?;
    let revision = with_backup(&cluster, more).await?;
    Ok((cluster, revision))
}

/// Creates a backup at `bucket/etcd`, and later data; returns the revision in the backup.
pub async fn with_backup(cluster: &Handle<'_>, more: Value) -> Result<i64> {
    fill(cluster).await?;
    let revision = put(cluster, "precious", b"before").await?;
    Task::backup(cluster, "b", "bucket/etcd", more).await?.succeeded().await?;
    put(cluster, "precious", b"after").await?;
    put(cluster, "late", b"yes").await?;
    Ok(revision)
}

/// The members of a cluster in etcd and Kubernetes: names with ids, and uids of pods.
async fn members(cluster: &Handle<'_>) -> Result<(BTreeMap<String, u64>, BTreeSet<String>)> {
    let ids = cluster.facts().await.0.into_iter().map(|(name, report)| (name, report.id)).collect();
    let pods = cluster.pods().await?;
    Ok((ids, pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()))
}

/// Waits for the end of a restore, and checks that no former member runs together with the first new one.
pub async fn followed(cluster: &Handle<'_>, restore: &Task<'_>, former: &BTreeSet<String>) -> Result<Value> {
    let stage = cluster.stage;
    let begun = std::time::Instant::now();
    loop {
        let status = restore.object().await?["status"].clone();
        let names = cluster.names().await?;
        let both =
            names.iter().any(|name| former.contains(name)) && names.iter().any(|name| !former.contains(name));
        ensure!(!both, "former members {former:?} beside new ones: {names:?}");
        ensure!(status["phase"] != "Failed", "{status}");
        if status["phase"] == "Succeeded" {
            return Ok(status);
        }
        ensure!(begun.elapsed() < olm_tests::etcd_stage::PATIENCE, "{status}\n{}", stage.report().await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The state of the objects after a restore.
pub async fn released(cluster: &Handle<'_>, restore: &Task<'_>) -> Result<()> {
    cluster
        .stage
        .eventually("the cluster to be given back", async || {
            let held = cluster.object().await?["metadata"]["annotations"]["etcd.database.coreos.com/restore"]
                .clone();
            ensure!(held.is_null(), "held by {held}");
            let restore = restore.object().await?;
            ensure!(
                restore["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty),
                "{}",
                restore["metadata"]
            );
            Ok(())
        })
        .await
}

/// S23: a cluster of three with volumes is restored from its backup; the former volumes are set aside; its
/// data is backed up first, and a new cluster is created from that.
#[test]
fn s23_a_cluster_goes_back_to_its_backup() {
    restoring("S23", async |stage| {
        let _operator = stage.operator()?;
        let (cluster, revision) = made_with_backup(stage, with_volumes(3), json!({})).await?;
        let before = cluster.object().await?;
        let former = cluster.names().await?;
        let restore = Task::restore(stage, "c", "back", "bucket/etcd", json!({})).await?;
        let status = followed(&cluster, &restore, &former).await?;
        ensure!(status["succeeded"] == true && status["snapshot"]["revision"] == revision, "{status}");
        ensure!(status["restoredRevision"].as_i64() >= Some(revision), "{status}");
        // It does not succeed before all of them serve.
        let (facts, running) = (cluster.facts().await, stage.kubelet.running("c").len());
        ensure!(
            facts.voters().len() == 3 && running == 3,
            "success with {running} running: {}",
            facts.brief()
        );
        cluster.steady(3).await?;
        let clients = Clients::start(&cluster, 2, 23);
        let after = cluster.object().await?;
        ensure!(after["metadata"]["uid"] == before["metadata"]["uid"], "the object was made anew");
        let id = |object: &Value| object["status"]["clusterID"].clone();
        ensure!(
            id(&after) != id(&before) && id(&after) == status["clusterID"],
            "{} {}",
            id(&before),
            id(&after)
        );
        ensure!(
            get(&cluster, "precious").await?.as_deref() == Some("before"),
            "{:?}",
            get(&cluster, "precious").await?
        );
        ensure!(get(&cluster, "late").await?.is_none(), "what came after the backup is still there");
        ensure!(
            get(&cluster, "fill/11").await?.is_some_and(|value| value.len() == 1 << 20),
            "the bulk is missing"
        );
        released(&cluster, &restore).await?;
        restore.has_event("RestoreSucceeded").await?;

        // Former volumes are retained.
        let claims = stage.list("PersistentVolumeClaim", "ns").await?;
        let uid = restore.object().await?["metadata"]["uid"].clone();
        for name in &former {
            let claim = claims.iter().find(|claim| claim["metadata"]["name"] == **name);
            let claim = &claim.with_context(|| format!("the volume of {name} is gone"))?["metadata"];
            ensure!(claim["labels"]["etcd.database.coreos.com/replaced-by"] == uid, "{claim}");
            ensure!(claim["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{claim}");
        }
        ensure!(claims.len() == 6, "{} claims", claims.len());

        // The former data is in the safety backup: a new cluster from it has the late key.
        let safety = status["safetyBackup"]
            .as_str()
            .and_then(|uri| uri.strip_prefix("s3://"))
            .context("a safety backup")?;
        let template = json!({ "clusterTemplate": spec(1) });
        let rescue = Task::restore(stage, "d", "rescue", safety, template).await?;
        rescue.succeeded().await?;
        let rescued = Handle { stage, name: "d".to_owned() };
        rescued.steady(1).await?;
        ensure!(
            get(&rescued, "late").await?.as_deref() == Some("yes"),
            "the safety backup lacks what came late"
        );
        ensure!(
            get(&rescued, "precious").await?.as_deref() == Some("after"),
            "{:?}",
            get(&rescued, "precious").await?
        );
        released(&rescued, &rescue).await?;
        no_parts(stage.s3().await?)?;
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}

/// S11, the restore that heals: two of three lost their data; the message names the backup, and the backup
/// restores all.
#[test]
fn s11_a_backup_heals_what_lost_its_data() {
    restoring("S11 restore", async |stage| {
        let _operator = stage.operator()?;
        let (cluster, _) = made_with_backup(stage, spec(3), json!({})).await?;
        cluster.condition("BackedUp", "True", "BackedUp").await?;
        let former = cluster.names().await?;
        cluster.lose(former.iter().take(2)).await?;
        let condition = cluster.condition("Available", "False", "DataLost").await?;
        let message = condition["message"].as_str().unwrap_or_default();
        // The command in the message is used unchanged, and the API server generates the name.
        let manifest = message.split_once("<<<'").and_then(|(_, rest)| rest.split_once('\''));
        let manifest = manifest.with_context(|| format!("no command: {message}"))?.0;
        let mut manifest: Value = serde_json::from_str(manifest).with_context(|| manifest.to_owned())?;
        let name = format!("{}1", manifest["metadata"]["generateName"].as_str().context("a name")?);
        manifest["metadata"] = json!({ "name": name, "namespace": "ns" });
        stage.apply(&manifest).await?;
        let restore = Task::known(stage, "EtcdRestore", &name);
        let status = followed(&cluster, &restore, &former).await?;
        let safety = status["safetyBackup"].as_str().unwrap_or_default();
        ensure!(safety.contains("no quorum"), "{status}");
        cluster.steady(3).await?;
        ensure!(get(&cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        let clients = Clients::start(&cluster, 2, 11);
        released(&cluster, &restore).await?;
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}

/// A copy of the backup `bucket/etcd` under another key, with other bytes, or with another label.
fn copied(
    s3: &S3,
    key: &str,
    change: impl FnOnce(&mut Vec<u8>),
    label: Option<(&str, &str)>,
) -> Result<String> {
    let path = format!("bucket/{key}");
    let mut bytes = object(s3, "bucket/etcd")?;
    change(&mut bytes);
    let root = s3.dir.path();
    std::fs::write(root.join(&path), bytes)?;
    // The server stores labels next to the objects, under generated names.
    let labels = |key: &str| {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        root.join(format!(".bucket-{}.object-{}.metadata.json", encode("bucket"), encode(key)))
    };
    let mut all: Value = serde_json::from_slice(&std::fs::read(labels("etcd"))?)?;
    if let Some((name, value)) = label {
        ensure!(all["user_metadata"][name].is_string(), "the server keeps labels otherwise: {all}");
        all["user_metadata"][name] = value.into();
    }
    std::fs::write(labels(key), serde_json::to_vec(&all)?)?;
    Ok(path)
}

/// S23, rejected restores: a changed or truncated backup, one of a newer etcd, one of another cluster.
/// Nothing is changed: members, pods and clients continue as without the request.
#[test]
fn s23_what_does_not_fit_is_refused_before_anything_is_touched() {
    restoring("S23 refused", async |stage| {
        let _operator = stage.operator()?;
        let s3 = stage.s3().await?;
        let (cluster, _) = made_with_backup(stage, spec(1), json!({})).await?;
        let other = made(stage, "o", spec(1)).await?;
        Task::backup(&other, "of-another", "bucket/other", json!({})).await?.succeeded().await?;
        let before = members(&cluster).await?;
        let (from, calls) = (stage.audit.count(), stage.faults[0].count());
        let clients = Clients::start(&cluster, 2, 231);

        let flip = |bytes: &mut Vec<u8>| bytes[5000] ^= 1;
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
        let page = |bytes: &mut Vec<u8>| *bytes = b"<html>Not found</html>".to_vec();
        let refused = [
            ("changed", copied(s3, "changed", flip, None)?, "truncated or modified"),
            ("cut", copied(s3, "cut", cut, None)?, "not an etcd snapshot, or truncated"),
            ("page", copied(s3, "page", page, None)?, "not an etcd snapshot"),
            (
                "newer",
                copied(s3, "newer", |_| (), Some(("etcdversion", "3.99.0")))?,
                "etcd does not read data of a newer minor version",
            ),
            ("other", "bucket/other".to_owned(), "set spec.allowOtherCluster"),
        ];
        let mut tasks = Vec::new();
        for (name, path, words) in refused {
            tasks.push((Task::restore(stage, "c", name, &path, json!({})).await?, words));
        }
        for (task, words) in tasks {
            let status = task.failed(words).await?;
            ensure!(status["succeeded"] == false && status["safetyBackup"].is_null(), "{status}");
            task.has_event("RestoreFailed").await?;
        }
        // Temporary errors are retried, with the store's own message.
        let wrong = [
            ("bucket", "nobucket/etcd", None, "NoSuchBucket: The specified bucket does not exist"),
            ("key", "bucket/nothing", None, "NoSuchKey"),
            ("denied", "bucket/etcd", Some(Fault::Denied), "AccessDenied: Not for you"),
            ("broken", "bucket/etcd", Some(Fault::Cut), "failed to read"),
        ];
        for (name, path, fault, words) in wrong {
            s3.fail(fault);
            let task = Task::restore(stage, "c", name, path, json!({})).await?;
            let matches =
                |status: &Value| status["reason"].as_str().is_some_and(|reason| reason.contains(words));
            task.until(words, |status| status["phase"] == "Downloading" && matches(status)).await?;
            task.delete().await?;
        }
        s3.fail(None);

        ensure!(members(&cluster).await? == before, "{:?}, before {before:?}", members(&cluster).await?);
        let changes: Vec<String> = stage.audit.log().iter().skip(from).map(Rpc::brief).collect();
        ensure!(changes.is_empty(), "etcd was asked for changes: {changes:?}");
        let written: Vec<String> = stage.faults[0]
            .writes_since(calls)
            .iter()
            .filter(|call| call.path.contains("/pods") || call.path.ends_with("/etcdclusters/c"))
            .map(ToString::to_string)
            .collect();
        ensure!(written.is_empty(), "{written:?}");
        judge(&cluster, clients, Guarantee::of(1)).await.map(drop)
    });
}

/// S25, a restore deleted in the middle: the cluster is released, and another restore heals it.
#[test]
fn s25_a_restore_deleted_in_the_middle_gives_the_cluster_back() {
    restoring("S25 restore", async |stage| {
        let _operator = stage.operator()?;
        let (cluster, _) = made_with_backup(stage, spec(1), json!({})).await?;
        stage.kubelet.refuse(|_| Some("the scenario holds it back".into()));
        let first = Task::restore(stage, "c", "first", "bucket/etcd", json!({})).await?;
        first.until("the seed", |status| status["phase"] == "Seeding").await?;
        // Another one waits for its turn.
        let second = Task::restore(stage, "c", "second", "bucket/etcd", json!({})).await?;
        let waits =
            |status: &Value| status["reason"].as_str().is_some_and(|r| r.contains("another EtcdRestore"));
        second.until("its turn", waits).await?;
        first.delete().await?;
        stage
            .eventually("the first restore to be gone", async || {
                ensure!(first.object().await.is_err(), "it is there");
                Ok(())
            })
            .await?;
        stage.kubelet.accept();
        second.succeeded().await?;
        cluster.steady(1).await?;
        ensure!(get(&cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        released(&cluster, &second).await?;
        let pods = cluster.names().await?;
        ensure!(pods.len() == 1, "{pods:?}");
        Ok(())
    });
}

/// S23, encrypted: the stored backup is unreadable, and is restored only with its key.
#[test]
fn s23_an_encrypted_backup_comes_back_with_its_key_alone() {
    restoring("S23 encrypted", async |stage| {
        let _operator = stage.operator()?;
        let s3 = stage.s3().await?;
        for (name, key) in
            [("keys", "0123456789abcdef0123456789abcdef"), ("others", "fedcba9876543210fedcba9876543210")]
        {
            stage
                .apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "ns" },
                    "stringData": { "key": key } }))
                .await?;
        }
        let with = |secret: &str| json!({ "encryption": { "secret": secret } });
        let (cluster, _) = made_with_backup(stage, spec(1), with("keys")).await?;
        let status = Task::known(stage, "EtcdBackup", "b").object().await?["status"].clone();
        let key = status["encryptionKey"].as_str().context("the name of the key")?.to_owned();
        let stored = object(s3, "bucket/etcd")?;
        ensure!(stored.starts_with(b"OLMETCD") && stored.len() > 12 << 20, "{} bytes", stored.len());
        ensure!(!stored.windows(64).any(|window| window == [b'c'; 64]), "it is readable");

        let mut cut = stored.clone();
        cut.truncate(stored.len() / 2);
        std::fs::write(s3.dir.path().join("bucket/cut"), cut)?;
        let waits = [
            ("without", "bucket/etcd", json!({}), "set spec.encryption.secret to the Secret with this key"),
            ("wrong", "bucket/etcd", with("others"), "Secret others has"),
            ("missing", "bucket/etcd", with("none"), "spec.encryption: Secret none does not exist"),
        ];
        for (name, path, more, words) in waits {
            let task = Task::restore(stage, "c", name, path, more).await?;
            let matches =
                |status: &Value| status["reason"].as_str().is_some_and(|reason| reason.contains(words));
            let status =
                task.until(words, |status| status["phase"] == "Downloading" && matches(status)).await?;
            ensure!(
                name == "missing" || status["reason"].as_str().is_some_and(|r| r.contains(&key)),
                "{status}"
            );
            task.delete().await?;
        }
        Task::restore(stage, "c", "cut", "bucket/cut", with("keys"))
            .await?
            .failed("decryption failed")
            .await?;
        let restore = Task::restore(stage, "c", "back", "bucket/etcd", with("keys")).await?;
        let status = followed(&cluster, &restore, &cluster.names().await?).await?;
        cluster.steady(1).await?;
        ensure!(get(&cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        let safety = status["safetyBackup"]
            .as_str()
            .and_then(|uri| uri.strip_prefix("s3://"))
            .context("a safety backup")?;
        ensure!(object(s3, safety)?.starts_with(b"OLMETCD"), "the safety backup is readable");
        Ok(())
    });
}

/// S23, with etcd 3.5: etcdutl restores its snapshots, and 3.4 rejects them.
#[test]
fn s23_a_backup_of_a_newer_minor_version_goes_back_with_its_own_tool() {
    let version = match newer() {
        Ok(version) => version,
        Err(why) => return olm_tests::skipped("S23 etcdutl", &why),
    };
    restoring("S23 etcdutl", async |stage| {
        let _operator = stage.operator()?;
        let mut spec35 = spec(1);
        spec35["version"] = version.as_str().into();
        let (cluster, _) = made_with_backup(stage, spec35, json!({})).await?;
        let restore = Task::restore(stage, "c", "back", "bucket/etcd", json!({})).await?;
        let status = followed(&cluster, &restore, &cluster.names().await?).await?;
        ensure!(status["snapshot"]["etcdVersion"] == *version, "{status}");
        cluster.steady(1).await?;
        ensure!(get(&cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        let own = olm_tests::etcd::version().unwrap_or_default();
        if own.starts_with("3.4.") {
            let template = json!({ "clusterTemplate": spec(1) });
            let refused = Task::restore(stage, "d", "older", "bucket/etcd", template).await?;
            refused.failed("etcd does not read data of a newer minor version").await?;
            let pods = stage.list("Pod", "ns").await?;
            let of_it = pods.iter().filter(|pod| pod["metadata"]["labels"]["etcd_cluster"] == "d");
            let of_it: Vec<&Value> = of_it.collect();
            ensure!(of_it.is_empty(), "members were made for it: {of_it:?}");
        }
        Ok(())
    });
}

/// S23, a store that stops responding in the middle: only the long run has the minute.
#[test]
fn s23_a_store_that_stands_still_is_given_up() {
    if !long() {
        olm_tests::skipped("S23 with a store that stands still", "it is a minute; part of make test-long");
        return;
    }
    restoring("S23 mute", async |stage| {
        let _operator = stage.operator()?;
        let (cluster, _) = made_with_backup(stage, spec(1), json!({})).await?;
        let s3 = stage.s3().await?;
        s3.fail(Some(Fault::Mute));
        let task = Task::restore(stage, "c", "mute", "bucket/etcd", json!({})).await?;
        let stalled = |status: &Value| {
            status["reason"].as_str().is_some_and(|reason| reason.contains("stalled for 60 seconds"))
        };
        task.until("patience", stalled).await?;
        s3.fail(None);
        task.succeeded().await?;
        cluster.steady(1).await
    });
}
