//! Backups into a real S3 server: source member, errors of stores, and retention.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use olm_tests::etcd_stage::{Controllers, Handle, Stage, s3::Fault};
use serde_json::{Value, json};

use crate::{
    made, scenario, spec,
    tasks::{Task, fill, no_parts, object, objects, put, readable},
};

/// A stage with one operator for everything, and a cluster `c`.
async fn employed(stage: &Stage, size: usize) -> Result<(olm_tests::etcd_stage::Operator, Handle<'_>)> {
    stage.set_controllers(Controllers::ALL);
    stage.s3().await?;
    made(stage, size).await
}

/// S21: one backup, of a cluster whose members die: it is read from a follower, then from any remaining
/// member; without a quorum it fails, and is repeated when there is one again.
#[test]
fn s21_a_backup_is_read_from_any_healthy_member() {
    scenario("S21 members", async |stage| {
        let (_operator, cluster) = employed(stage, 3).await?;
        let s3 = stage.s3().await?;
        let revision = fill(&cluster).await?;

        let first = Task::backup(&cluster, "first", "bucket/first", json!({})).await?;
        let status = first.succeeded().await?;
        ensure!(status["etcdRevision"] == revision, "{revision} was written: {status}");
        ensure!(status["object"] == "s3://bucket/first", "{status}");
        let stored = object(s3, "bucket/first")?;
        ensure!(status["sizeBytes"] == stored.len(), "{} bytes are there: {status}", stored.len());
        let id = cluster.object().await?["status"]["clusterID"].clone();
        ensure!(status["clusterID"] == id && status["etcdVersion"].is_string(), "{id}: {status}");
        readable(s3, "bucket/first")?;
        first.has_event("BackupSucceeded").await?;
        let backed_up = cluster.condition("BackedUp", "True", "BackedUp").await?;
        ensure!(
            backed_up["message"].as_str().is_some_and(|text| text.contains("last backup at")),
            "{backed_up}"
        );

        // Not from the leader, which has the most load.
        let followers = cluster.followers().await?;
        let from = status["endpoint"].as_str().context("an endpoint")?.to_owned();
        let is = |name: &String| from.starts_with(&format!("{}:", stage.net.outside(name)));
        let asked =
            followers.iter().find(|name| is(name)).with_context(|| format!("{from} is not a follower"))?;

        // That one is down: the other follower is used. By their URLs, without the EtcdCluster.
        stage.kubelet.down(asked)?;
        let urls: Vec<String> =
            cluster.names().await?.iter().map(|n| format!("http://{}:2379", stage.net.outside(n))).collect();
        let by_url = json!({ "clusterName": null, "etcdEndpoints": urls });
        let second = Task::backup(&cluster, "second", "bucket/second", by_url).await?.succeeded().await?;
        let skipped = second["skippedEndpoints"][0].as_str().unwrap_or_default().to_owned();
        ensure!(skipped.starts_with(&format!("{}:2379: ", stage.net.outside(asked))), "{second}");
        readable(s3, "bucket/second")?;

        // Two of three: the data of the last one may be stale.
        let other = followers.iter().find(|name| *name != asked).context("another follower")?;
        stage.kubelet.down(other)?;
        let third = Task::backup(&cluster, "third", "bucket/third", json!({})).await?;
        let failed = third.failed("no member is suitable for a backup").await?;
        ensure!(
            failed["failures"] == 1
                && failed["nextBackup"].is_string()
                && failed["Reason"] == failed["reason"],
            "{failed}"
        );
        ensure!(object(s3, "bucket/third").is_err(), "it was backed up without a quorum");
        stage.kubelet.up(asked)?;
        third.succeeded().await?;
        readable(s3, "bucket/third")?;
        third.has_event("BackupFailed").await?;
        third.has_event("BackupSucceeded").await?;
        stage.kubelet.up(other)?;
        cluster.steady(3).await?;
        no_parts(s3)
    });
}

/// S21, errors of stores and users: they are reported with the original message, leave nothing behind, and
/// are retried.
#[test]
fn s21_a_failed_backup_is_reported_and_retried() {
    scenario("S21 stores", async |stage| {
        let (_operator, cluster) = employed(stage, 1).await?;
        let s3 = stage.s3().await?;
        fill(&cluster).await?;
        let block = async |more: Value| {
            let mut block = stage.s3_block("bucket/never").await?;
            for (key, value) in more.as_object().into_iter().flatten() {
                block[key] = value.clone();
            }
            anyhow::Ok(json!({ "s3": block }))
        };
        let wrong_key = "[default]\naws_access_key_id = AK\naws_secret_access_key = guessed\n";
        for (name, credentials) in [("guessed", wrong_key), ("empty", "")] {
            stage
                .apply(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "ns" },
                    "stringData": { "credentials": credentials } }))
                .await?;
        }
        let cases = [
            (
                "bucket",
                block(json!({ "path": "nobucket/etcd" })).await?,
                "NoSuchBucket: The specified bucket does not exist",
            ),
            (
                "secret",
                block(json!({ "awsSecret": "missing" })).await?,
                "Secret missing does not exist in namespace ns",
            ),
            (
                "empty",
                block(json!({ "awsSecret": "empty" })).await?,
                "Secret empty: key credentials is missing or empty",
            ),
            ("guessed", block(json!({ "awsSecret": "guessed" })).await?, "SignatureDoesNotMatch"),
            ("unreachable", block(json!({ "endpoint": "http://127.0.0.1:9" })).await?, "s3://bucket/never"),
            (
                "cluster",
                json!({ "clusterName": "other" }),
                "EtcdCluster other does not exist in namespace ns",
            ),
            (
                "tls",
                json!({ "clusterName": null, "etcdEndpoints": ["https://10.0.0.1:2379"], "clientTLSSecret": "mine" }),
                "Secret mine does not exist in namespace ns",
            ),
            (
                "oss",
                json!({ "storageType": "OSS", "s3": null, "oss": { "path": "a/b" } }),
                "use S3 with s3.endpoint",
            ),
        ];
        let mut tasks = Vec::new();
        for (name, spec, words) in cases {
            tasks.push((Task::backup(&cluster, name, "bucket/never", spec).await?, words));
        }
        for (task, words) in tasks {
            task.failed(words).await?;
            task.delete().await?;
        }
        ensure!(objects(s3, "bucket").is_empty(), "{:?}", objects(s3, "bucket"));

        // The store rejects everything, then parts, then does not answer in time; each time the backup
        // continues afterwards.
        for (name, fault, words) in [
            ("denied", Fault::Denied, "AccessDenied: Not for you"),
            ("full", Fault::Broken, "QuotaExceeded: The bucket is full"),
            ("late", Fault::Stalled, "timed out after the 2 seconds of spec.backupPolicy.timeoutInSecond"),
        ] {
            s3.fail(Some(fault));
            let path = format!("bucket/{name}");
            let bound = |seconds: u64| json!({ "backupPolicy": { "timeoutInSecond": seconds } });
            let more = if fault == Fault::Stalled { bound(2) } else { json!({}) };
            let task = Task::backup(&cluster, name, &path, more).await?;
            let failed = task.failed(words).await?;
            ensure!(failed["failures"].as_i64() >= Some(1) && failed["nextBackup"].is_string(), "{failed}");
            ensure!(failed["succeeded"] == false && failed["lastSuccessDate"].is_null(), "{failed}");
            if fault == Fault::Denied {
                cluster.condition("BackedUp", "False", "NoBackupYet").await?;
            }
            ensure!(object(s3, &path).is_err(), "there is something of it");
            s3.fail(None);
            if fault == Fault::Stalled {
                // Two seconds may be too short on a busy machine; a changed spec is retried at once.
                stage.patch("EtcdBackup", "ns", name, &json!({ "spec": bound(60) })).await?;
            }
            let done = task.succeeded().await?;
            ensure!(
                done["reason"].is_null() && done["failures"].is_null() && done["upload"].is_null(),
                "{done}"
            );
            readable(s3, &path)?;
            no_parts(s3)?;
        }
        cluster.condition("BackedUp", "True", "BackedUp").await?;

        // A slow store: progress is visible while the backup runs.
        s3.fail(Some(Fault::Stalled));
        let slow = Task::backup(&cluster, "slow", "bucket/slow", json!({})).await?;
        let moves =
            |status: &Value| status["phase"] == "Running" && status["progressBytes"].as_i64() > Some(8 << 20);
        let status = slow.until("progress", moves).await?;
        ensure!(status["upload"]["key"] == "slow" && status["upload"]["id"].is_string(), "{status}");
        s3.fail(None);
        let done = slow.succeeded().await?;
        ensure!(done["progressBytes"].is_null() && done["failures"].is_null(), "{done}");
        readable(s3, "bucket/slow")?;
        no_parts(s3)
    });
}

fn time(status: &Value, field: &str) -> Result<Timestamp> {
    Ok(status[field].as_str().with_context(|| format!("no {field}: {status}"))?.parse()?)
}

/// S22: periodic backups; the newest are retained, and foreign objects are not touched; a stopped operator
/// and its successor keep the pace.
#[test]
fn s22_periodic_backups_keep_the_newest_and_leave_others_alone() {
    scenario("S22", async |stage| {
        let (operator, cluster) = employed(stage, 1).await?;
        let s3 = stage.s3().await?;
        // Similar names, but foreign objects.
        let foreign = [
            "dir/etcd_v1_2020-01-01-00:00:00",
            "dir/etcd2_v1_2020-01-01-00:00:00",
            "dir/etcd_v1_2020-01-01-00:00:00.txt",
            "dir/etcd",
        ];
        std::fs::create_dir_all(s3.dir.path().join("bucket/dir"))?;
        for name in foreign {
            std::fs::write(s3.dir.path().join("bucket").join(name), "foreign")?;
        }
        let every = Duration::from_secs(2);
        let policy =
            json!({ "backupPolicy": { "backupIntervalInSecond": every.as_secs(), "maxBackups": 2 } });
        // Two writers on the very same path, each with its own two.
        let task = Task::backup(&cluster, "ours", "bucket/dir/etcd", policy.clone()).await?;
        task.succeeded().await?;
        let beside = Task::backup(&cluster, "beside", "bucket/dir/etcd", policy).await?;
        let mut seen = BTreeSet::new();
        let mut revisions = Vec::new();
        // Revisions of one digit, of two and of three.
        for turn in 0..4 {
            let mut written = 0;
            for n in 0..[1, 5, 60, 60][turn] {
                written = put(&cluster, &format!("turn/{turn}"), n.to_string().as_bytes()).await?;
            }
            let new = |status: &Value| {
                status["succeeded"] == true
                    && status["etcdRevision"].as_i64() >= Some(written)
                    && status["object"].as_str().is_some_and(|o| !seen.contains(o))
            };
            let status = task.until("another one", new).await?;
            seen.insert(status["object"].as_str().unwrap_or_default().to_owned());
            revisions.push((
                status["etcdRevision"].as_i64().unwrap_or_default(),
                time(&status, "lastScheduleTime")?,
            ));
        }
        for pair in revisions.windows(2) {
            let apart = Duration::try_from(pair[1].1.duration_since(pair[0].1))?;
            ensure!(apart >= every, "two within one interval: {revisions:?}");
        }
        ensure!(revisions.first().is_some_and(|(first, _)| *first < 10), "{revisions:?}");
        ensure!(revisions.last().is_some_and(|(last, _)| *last > 100), "{revisions:?}");

        // The operator is down for less than an interval; the next one repeats and skips none.
        beside.delete().await?;
        let before = time(&task.until("rest", |s| s["phase"] == "Succeeded").await?, "lastScheduleTime")?;
        operator.kill();
        let _next = stage.operator()?;
        let later = |status: &Value| {
            status["phase"] == "Succeeded" && time(status, "lastScheduleTime").is_ok_and(|time| time > before)
        };
        let after = time(&task.until("the next one", later).await?, "lastScheduleTime")?;
        let apart = Duration::try_from(after.duration_since(before))?;
        ensure!(apart >= every && apart < every * 4, "{apart:?} between two backups");

        task.delete().await?;
        for name in foreign {
            let content = object(s3, &format!("bucket/{name}"))?;
            ensure!(content == b"foreign", "{name} was overwritten");
        }
        let own: Vec<String> = objects(s3, "bucket/dir")
            .into_iter()
            .filter(|name| !foreign.contains(&format!("dir/{name}").as_str()))
            .collect();
        // Two of each; one in progress when its EtcdBackup was deleted may have completed.
        ensure!((4..=6).contains(&own.len()), "{own:?}");
        for name in &own {
            readable(s3, &format!("bucket/dir/{name}"))?;
        }
        no_parts(s3)
    });
}

/// S21, with three programs: the cluster controller reads the backup state from the API, as the backup
/// controller writes it there.
#[test]
fn s21_three_programs_report_the_same_as_one() {
    scenario("S21 three programs", async |stage| {
        let s3 = stage.s3().await?;
        stage.set_controllers(Controllers::CLUSTERS);
        let (clusters, cluster) = made(stage, 1).await?;
        cluster.condition("BackedUp", "False", "NoBackup").await?;
        stage.set_controllers(Controllers::BACKUPS);
        let _backups = stage.operator_in(1)?;
        s3.fail(Some(Fault::Denied));
        let task = Task::backup(&cluster, "b", "bucket/b", json!({})).await?;
        let backed_up = cluster.condition("BackedUp", "False", "NoBackupYet").await?;
        let backed_up = match backed_up["message"].as_str() {
            Some(text) if text.contains("AccessDenied") => backed_up,
            _ => {
                cluster
                    .until("the store's words", |object| {
                        object["status"].to_string().contains("EtcdBackup b: ")
                    })
                    .await?
            }
        };
        ensure!(backed_up.to_string().contains("AccessDenied: Not for you"), "{backed_up}");
        s3.fail(None);
        task.succeeded().await?;
        let backed_up = cluster.condition("BackedUp", "True", "BackedUp").await?;
        // A new one has the same information, and does not report a missing backup in between.
        clusters.kill();
        let from = stage.faults[0].count();
        stage.set_controllers(Controllers::CLUSTERS);
        let _next = stage.operator()?;
        stage
            .eventually("looks of the next operator", async || {
                let calls = stage.faults[0].calls();
                let looks = calls
                    .iter()
                    .skip(from)
                    .filter(|c| c.method == "GET" && c.path.ends_with("/pods") && !c.is_watch());
                ensure!(looks.count() >= 2, "not yet");
                Ok(())
            })
            .await?;
        let object = cluster.object().await?;
        let now = olm_tests::etcd_stage::condition(&object, "BackedUp");
        ensure!(
            now["lastTransitionTime"] == backed_up["lastTransitionTime"] && now["status"] == "True",
            "{backed_up}, then {now}"
        );
        // Without an EtcdBackup the condition is gone.
        task.delete().await?;
        cluster.condition("BackedUp", "False", "NoBackup").await.map(drop)
    });
}

/// A backup applied together with its cluster waits until there is something to back up, without a failure.
#[test]
fn a_backup_that_comes_with_its_cluster_waits_for_it() {
    scenario("backup with its cluster", async |stage| {
        stage.set_controllers(Controllers::ALL);
        let s3 = stage.s3().await?;
        let cluster = stage.create("c", spec(1)).await?;
        let backup = Task::backup(&cluster, "first", "bucket/first", json!({})).await?;
        let _operator = stage.operator()?;
        let waits = |status: &Value| {
            status["phase"] == "Pending"
                && status["reason"] == "EtcdCluster c is being created: waiting for its first member"
        };
        backup.until("that it waits", waits).await?;
        let status = backup.succeeded().await?;
        ensure!(
            status["failures"].as_i64().unwrap_or_default() == 0 && status["reason"].is_null(),
            "{status}"
        );
        readable(s3, "bucket/first")?;
        backup.has_event("BackupSucceeded").await?;
        let events = stage.list("Event", "ns").await?;
        ensure!(events.iter().all(|event| event["reason"] != "BackupFailed"), "{events:?}");
        Ok(())
    });
}
