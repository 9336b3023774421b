//! S14 for backups and restores: the operator dies at its calls to Kubernetes, to etcd and to the store.

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Controllers, Handle, Operator, Stage};
use serde_json::{Value, json};

use crate::{
    deaths::{Work, at_every_call},
    made,
    tasks::{Task, fill, get, lacking, no_parts, object, put, readable},
};

/// Work for a dying operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Backup,
    /// The restore in place.
    Restore,
}

impl Asked {
    const fn task(self) -> (&'static str, &'static str) {
        match self {
            Self::Backup => ("EtcdBackup", "b"),
            Self::Restore => ("EtcdRestore", "r"),
        }
    }

    async fn status(self, stage: &Stage) -> Result<Value> {
        let (kind, name) = self.task();
        Ok(stage.get(kind, "ns", name).await?["status"].clone())
    }
}

impl Work for Asked {
    fn name(&self) -> String {
        format!("S14 {}", self.task().0)
    }

    fn sample(&self) -> &[usize] {
        match self {
            Self::Backup => &[9],
            Self::Restore => &[12, 66],
        }
    }

    async fn before<'a>(&self, stage: &'a Stage) -> Result<(Option<Operator>, Handle<'a>)> {
        stage.set_controllers(Controllers::ALL);
        stage.s3().await?;
        let (operator, cluster) = made(stage, 1).await?;
        fill(&cluster).await?;
        put(&cluster, "precious", b"before").await?;
        if *self == Self::Restore {
            Task::backup(&cluster, "of-before", "bucket/etcd", json!({})).await?.succeeded().await?;
            put(&cluster, "precious", b"after").await?;
        }
        Ok((Some(operator), cluster))
    }

    async fn begin(&self, cluster: &Handle<'_>) -> Result<()> {
        let (_, name) = self.task();
        match self {
            Self::Backup => Task::backup(cluster, name, "bucket/b", json!({})).await.map(drop),
            Self::Restore => {
                Task::restore(cluster.stage, &cluster.name, name, "bucket/etcd", json!({})).await.map(drop)
            }
        }
    }

    async fn done(&self, cluster: &Handle<'_>) -> Result<()> {
        let stage = cluster.stage;
        stage
            .eventually("success", async || {
                let status = self.status(stage).await?;
                ensure!(status["phase"] == "Succeeded" && status["succeeded"] == true, "{status}");
                Ok(())
            })
            .await?;
        cluster.steady(1).await
    }

    async fn judge(&self, cluster: &Handle<'_>) -> Result<()> {
        let stage = cluster.stage;
        let s3 = stage.s3().await?;
        self.done(cluster).await?;
        let status = self.status(stage).await?;
        ensure!(status["upload"].is_null(), "{status}");
        no_parts(s3)?;
        let pods = stage.list("Pod", "ns").await?.len();
        ensure!(pods == 1, "{pods} pods");
        if *self == Self::Backup {
            ensure!(status["sizeBytes"] == object(s3, "bucket/b")?.len(), "{status}");
            ensure!(
                get(cluster, "precious").await?.as_deref() == Some("before"),
                "a backup changed something"
            );
            return readable(s3, "bucket/b");
        }
        ensure!(get(cluster, "precious").await?.as_deref() == Some("before"), "not the data of the backup");
        let safety = status["safetyBackup"].as_str().and_then(|uri| uri.strip_prefix("s3://"));
        readable(s3, safety.with_context(|| format!("no safety backup: {status}"))?)?;
        stage
            .eventually("the cluster to be given back", async || {
                let (cluster, restore) =
                    (cluster.object().await?, stage.get("EtcdRestore", "ns", "r").await?);
                let held = &cluster["metadata"]["annotations"]["etcd.database.coreos.com/restore"];
                let guarded = restore["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
                ensure!(held.is_null() && !guarded, "{held} {}", restore["metadata"]);
                Ok(())
            })
            .await
    }
}

#[test]
fn s14_an_operator_dies_at_a_call_of_a_backup() {
    at_every_call(&Asked::Backup);
}

#[test]
fn s14_an_operator_dies_at_a_call_of_a_restore() {
    match lacking() {
        Some(why) => olm_tests::skipped("S14 EtcdRestore", &why),
        None => at_every_call(&Asked::Restore),
    }
}
