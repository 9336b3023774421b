//! A backup compared with the raw speed of reading its snapshot, with the same etcd and in the same run.
//! Reading into a file is reported too: etcd, reader and writer share the processors.

use std::{
    io::Write as _,
    net::Ipv4Addr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Controllers, Stage, facts};
use serde_json::{Value, json};

use super::table::Row;

/// Size of the snapshot: large enough for negligible overhead at begin and end.
const MEGABYTES: usize = 512;
/// Number of measurements; the best one counts, since the machine has other load.
const TURNS: usize = 4;
/// Maximum duration relative to reading: 80 % of its speed.
const SHARE: f64 = 1.0 / 0.8;
/// Polling interval of the backup's status: a hundredth of its duration, and negligible load.
const LOOK: Duration = Duration::from_millis(20);

/// Reads a snapshot, discarding it or writing it to a file.
async fn raw(member: Ipv4Addr, file: Option<&Path>) -> Result<(Duration, u64)> {
    let begun = Instant::now();
    let mut file = file.map(std::fs::File::create).transpose()?;
    let client = facts::client(member).await?;
    let mut stream = client.maintenance_client().snapshot().await?;
    let mut bytes = 0;
    while let Some(piece) = stream.message().await? {
        bytes += piece.blob().len() as u64;
        if let Some(file) = &mut file {
            file.write_all(piece.blob())?;
        }
    }
    if let Some(file) = file {
        file.sync_all()?;
    }
    Ok((begun.elapsed(), bytes))
}

/// From the creation of the EtcdBackup to its success.
async fn backup(stage: &Stage, name: &str, member: Ipv4Addr, store: Value) -> Result<Duration> {
    // Directly from the member, like the compared read: the stage's audit is between a cluster and its
    // operator.
    let mut spec = json!({ "etcdEndpoints": [format!("http://{member}:2379")] });
    for (key, value) in store.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let object = json!({ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
        "metadata": { "name": name, "namespace": "ns" }, "spec": spec });
    let begun = Instant::now();
    stage.apply(&object).await?;
    loop {
        let status = stage.get("EtcdBackup", "ns", name).await?["status"].clone();
        if status["succeeded"] == true {
            return Ok(begun.elapsed());
        }
        ensure!(status["phase"] != "Failed", "{name}: {status}");
        tokio::time::sleep(LOOK).await;
    }
}

pub(crate) async fn rows() -> Result<Vec<Row>> {
    let Some(version) = olm_tests::etcd::version() else {
        olm_tests::skipped("bench: backup", "etcd is not installed");
        return Ok(Vec::new());
    };
    let stage = Stage::start().await?;
    stage.set_controllers(Controllers::ALL);
    let _operator = stage.operator()?;
    let spec = json!({ "size": 1, "version": version, "storage": { "mode": "Pod" } });
    let cluster = stage.create("c", spec).await?;
    cluster.steady(1).await?;
    let member = stage.net.inside(&cluster.leader().await?);
    let mut client = facts::client(member).await?;
    for n in 0..MEGABYTES {
        client.put(format!("bulk/{n}"), vec![b'a' + (n % 26) as u8; 1 << 20], None).await?;
    }
    let (mut read, mut saved, mut bytes) = (Duration::MAX, Duration::MAX, 0);
    let file = stage.folder().join("raw");
    let mut best = [Duration::MAX; 2];
    for (kind, best) in ["Local", "S3"].into_iter().zip(&mut best) {
        for turn in 0..TURNS {
            // Alternating, so that all have the same share of the machine.
            let (took, size) = raw(member, None).await?;
            (read, bytes) = (read.min(took), size);
            saved = saved.min(raw(member, Some(&file)).await?.0);
            let (name, path) = (format!("{}-{turn}", kind.to_lowercase()), "bucket/bulk");
            let store = match kind {
                "S3" => json!({ "storageType": kind, "s3": stage.s3_block(path).await? }),
                _ => json!({ "storageType": kind, "local": { "path": path } }),
            };
            *best = backup(&stage, &name, member, store).await.with_context(|| name.clone())?.min(*best);
            // The next one overwrites this one, like the raw file: first-time memory allocation is slow.
            if kind == "Local" {
                std::fs::remove_dir_all(stage.folder().join("backups"))?;
            }
        }
    }
    let [local, s3] = best;
    let speed = |took: Duration| bytes as f64 / took.as_secs_f64() / 1e6;
    // The S3 server is in this very process and hashes its input: its cost is its own, and it has no limit.
    Ok(vec![Row {
        what: "EtcdBackup into a folder, against reading the snapshot",
        measured: local.as_secs_f64(),
        limit: read.as_secs_f64() * SHARE,
        unit: "s",
        note: format!(
            "{:.0} MB at {:.0} MB/s; into a file {:.0} MB/s, into nothing {:.0} MB/s; into S3, its server included, {:.0} MB/s",
            bytes as f64 / 1e6,
            speed(local),
            speed(saved),
            speed(read),
            speed(s3)
        ),
    }])
}
