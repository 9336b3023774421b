//! EtcdBackups and EtcdRestores of a stage, and their data.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use etcd_client::{Client, GetOptions};
use olm_tests::etcd_stage::{Handle, Stage, s3::S3};
use serde_json::{Value, json};

/// Larger than a part of an upload: there are several.
const MEGABYTES: usize = 12;
const WANT: Duration = Duration::from_secs(15);

/// An EtcdBackup or EtcdRestore in namespace `ns`.
#[derive(Clone)]
pub struct Task<'a> {
    stage: &'a Stage,
    kind: &'static str,
    pub name: String,
}

impl<'a> Task<'a> {
    /// An EtcdBackup of a cluster into the stage's S3, with additional fields.
    /// # Errors
    /// The API's rejection.
    pub async fn backup(cluster: &Handle<'a>, name: &str, path: &str, more: Value) -> Result<Self> {
        let stage = cluster.stage;
        let mut spec =
            json!({ "clusterName": cluster.name, "storageType": "S3", "s3": stage.s3_block(path).await? });
        merge(&mut spec, more);
        Self::create(stage, "EtcdBackup", name, spec).await
    }

    /// An EtcdRestore of a cluster from the stage's S3, with additional fields.
    /// # Errors
    /// The API's rejection.
    pub async fn restore(
        stage: &'a Stage,
        cluster: &str,
        name: &str,
        path: &str,
        more: Value,
    ) -> Result<Self> {
        let mut spec = json!({ "etcdCluster": { "name": cluster }, "backupStorageType": "S3",
            "s3": stage.s3_block(path).await? });
        merge(&mut spec, more);
        Self::create(stage, "EtcdRestore", name, spec).await
    }

    pub fn known(stage: &'a Stage, kind: &'static str, name: &str) -> Self {
        Self { stage, kind, name: name.to_owned() }
    }

    async fn create(stage: &'a Stage, kind: &'static str, name: &str, spec: Value) -> Result<Self> {
        stage
            .apply(&json!({ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": kind,
                "metadata": { "name": name, "namespace": "ns" }, "spec": spec }))
            .await?;
        Ok(Self::known(stage, kind, name))
    }

    /// The object.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn object(&self) -> Result<Value> {
        self.stage.get(self.kind, "ns", &self.name).await
    }

    /// Waits until its status is as `wanted`.
    /// # Errors
    /// On time-out.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let what = format!("{} {}: {what}", self.kind, self.name);
        self.stage
            .eventually(&what, async || {
                let status = self.object().await?["status"].clone();
                ensure!(wanted(&status), "its status is {status}");
                Ok(status)
            })
            .await
    }

    /// Waits until it succeeded. A failure ends the wait.
    /// # Errors
    /// The cause of its failure.
    pub async fn succeeded(&self) -> Result<Value> {
        let over = |status: &Value| {
            status["succeeded"] == true || (self.kind == "EtcdRestore" && status["phase"] == "Failed")
        };
        let status = self.until("success", over).await?;
        ensure!(status["succeeded"] == true && status["phase"] == "Succeeded", "{}: {status}", self.name);
        Ok(status)
    }

    /// Waits until it failed with these words in its reason.
    /// # Errors
    /// When it does not.
    pub async fn failed(&self, words: &str) -> Result<Value> {
        let matches = |status: &Value| status["reason"].as_str().is_some_and(|reason| reason.contains(words));
        let failed = |status: &Value| status["phase"] == "Failed" || status["phase"] == "Retrying";
        self.until(words, |status| failed(status) && matches(status)).await
    }

    /// Deletes it.
    ///
    /// # Errors
    /// The API's refusal.
    pub async fn delete(&self) -> Result<()> {
        self.stage.delete(self.kind, "ns", &self.name).await
    }

    /// Waits for an event with a reason: it is sent after the status.
    /// # Errors
    /// On time-out.
    pub async fn has_event(&self, reason: &str) -> Result<()> {
        let own = |event: &Value| {
            event["regarding"]["kind"] == self.kind && event["regarding"]["name"] == *self.name
        };
        self.stage
            .eventually(&format!("event {reason} of {}", self.name), async || {
                let events = self.stage.list("Event", "ns").await?;
                let reasons: Vec<&Value> = events.iter().filter(|e| own(e)).map(|e| &e["reason"]).collect();
                ensure!(reasons.iter().any(|found| **found == reason), "{reasons:?}");
                Ok(())
            })
            .await
    }
}

fn merge(spec: &mut Value, more: Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        match value {
            Value::Null => drop(spec.as_object_mut().map(|spec| spec.remove(key))),
            value => spec[key] = value.clone(),
        }
    }
}

/// Why restore scenarios are unsupported: restored pods run the operator's own program.
pub fn lacking() -> Option<String> {
    let program = olm_tests::bin_dir().join("etcd-operator");
    (!program.is_file()).then(|| format!("{} is not built", program.display()))
}

async fn entered(cluster: &Handle<'_>, member: &str) -> Result<Client> {
    cluster.stage.entry.client(cluster.stage.net.inside(member), WANT).await
}

/// Writes a key to the leader; returns the revision.
/// # Errors
/// When no member accepts it.
pub async fn put(cluster: &Handle<'_>, key: &str, value: &[u8]) -> Result<i64> {
    cluster
        .stage
        .eventually(&format!("a write of {key}"), async || {
            let leader = cluster.leader().await?;
            let mut client = entered(cluster, &leader).await?;
            let done = client.put(key, value, None).await?;
            Ok(done.header().context("an answer without a header")?.revision())
        })
        .await
}

/// Linearizable read of a key.
/// # Errors
/// When no member answers.
pub async fn get(cluster: &Handle<'_>, key: &str) -> Result<Option<String>> {
    cluster
        .stage
        .eventually(&format!("a read of {key}"), async || {
            let leader = cluster.leader().await?;
            let mut client = entered(cluster, &leader).await?;
            let got = client.get(key, Some(GetOptions::new())).await?;
            Ok(got.kvs().first().map(|pair| String::from_utf8_lossy(pair.value()).into_owned()))
        })
        .await
}

/// Writes enough for a backup in several parts; returns the revision.
/// # Errors
/// When no member accepts it.
pub async fn fill(cluster: &Handle<'_>) -> Result<i64> {
    let mut revision = 0;
    for n in 0..MEGABYTES {
        revision = put(cluster, &format!("fill/{n}"), &vec![b'a' + (n % 26) as u8; 1 << 20]).await?;
    }
    Ok(revision)
}

/// The content of an S3 object.
/// # Errors
/// When there is no such object.
pub fn object(s3: &S3, path: &str) -> Result<Vec<u8>> {
    std::fs::read(s3.dir.path().join(path)).with_context(|| format!("{path} is not in the store"))
}

/// Names of objects in a directory of the S3 server, sorted.
pub fn objects(s3: &S3, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(s3.dir.path().join(folder)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|e| e.path().is_file())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// etcd's own tool reads it.
/// # Errors
/// Its message.
pub fn readable(s3: &S3, path: &str) -> Result<()> {
    let tool =
        olm_tests::etcd::tool("etcdctl").context("there is no etcdctl of the version that members run")?;
    let mut command = std::process::Command::new(tool);
    let done = command
        .env("ETCDCTL_API", "3")
        .args(["snapshot", "status"])
        .arg(s3.dir.path().join(path))
        .output()?;
    ensure!(done.status.success(), "{path}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// No parts of an upload are in the store. An upload started at the moment of its operator's death has none.
/// # Errors
/// The remaining parts.
pub fn no_parts(s3: &S3) -> Result<()> {
    let parts: Vec<String> = s3.unfinished().into_iter().filter(|name| name.contains(".part-")).collect();
    ensure!(parts.is_empty(), "parts lie in the store: {parts:?}");
    Ok(())
}
