//! Shared parts of etcd scenarios: the operator with a client pod, a writing client, and the data of members.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, etcd, eventually};
use serde_json::Value;

use crate::operator::{csv_succeeded, get, namespace, subscription};

/// Members start one after the other, and a restore restarts all of them.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// Addition to a Subscription for backups on a volume.
pub(crate) const BACKUP_VOLUME: &str = r#"  config:
    env: [{name: BACKUP_DIR, value: /backups}]
    volumes: [{name: backups, persistentVolumeClaim: {claimName: backups}}]
    volumeMounts: [{name: backups, mountPath: /backups}]
"#;

pub(crate) fn backup_claim(ns: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: backups, namespace: {ns}}}\nspec:\n  accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n"
    )
}

/// An object of the operator's group.
pub(crate) fn order(kind: &str, ns: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: {kind}\nmetadata: {{name: {name}, namespace: {ns}}}\nspec: {spec}\n"
    )
}

/// An idle client pod with etcdctl.
pub(crate) fn client_pod(ns: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: client\n  namespace: {ns}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: client\n    image: quay.io/coreos/etcd:v{version}\n    command: [/usr/local/bin/etcd, --data-dir=/tmp/own, --listen-client-urls=http://127.0.0.1:12379, --advertise-client-urls=http://127.0.0.1:12379, --listen-peer-urls=http://127.0.0.1:12380]\n"
    )
}

/// A cluster with member data in pods: a lost pod is a lost member.
pub(crate) fn without_volumes(ns: &str, name: &str, size: i64, version: &str) -> String {
    format!("{}  storage: {{mode: Pod}}\n", etcd::manifest(ns, name, size, version))
}

/// Time for a writer's first keys.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes one key after another through the client Service until stopped; a failed write counts as one
/// second.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    most_in_a_row: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Writer {
    pub(crate) fn start(cluster: &Cluster, ns: &str, service: &str) -> Self {
        Self::with_pauses(cluster, ns, service, Duration::ZERO)
    }

    /// With a pause after each key, for several concurrent writers.
    pub(crate) fn with_pauses(cluster: &Cluster, ns: &str, service: &str, pause: Duration) -> Self {
        let (stop, written, worst) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (cluster, ns) = (cluster.clone(), ns.to_string());
        let endpoint = format!("http://{service}:2379");
        let thread = std::thread::spawn({
            let (stop, written, worst) = (Arc::clone(&stop), Arc::clone(&written), Arc::clone(&worst));
            move || {
                let mut failures = Vec::new();
                let mut failed = 0;
                while !stop.load(Ordering::Relaxed) {
                    let n = written.load(Ordering::Relaxed);
                    match cluster.try_etcdctl(&ns, "client", &endpoint, &["put", &format!("w/{n:06}"), "x"]) {
                        Ok(out) if out.status.success() => {
                            failed = 0;
                            written.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(pause);
                        }
                        other => {
                            failed += 1;
                            worst.fetch_max(failed, Ordering::Relaxed);
                            failures.push(match other {
                                Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_string(),
                                Err(error) => error.to_string(),
                            });
                            std::thread::sleep(Duration::from_millis(200));
                        }
                    }
                }
                failures
            }
        });
        Self { stop, written, most_in_a_row: worst, thread }
    }

    /// Waits until this many more keys are written.
    pub(crate) async fn more(&self, keys: usize) -> Result<()> {
        let before = self.written.load(Ordering::Relaxed);
        eventually("more keys to be written", LIMIT, async || {
            Ok((self.written.load(Ordering::Relaxed) >= before + keys).then_some(()))
        })
        .await
    }

    /// Number of written keys, the longest run of failures, and their messages. Ends when some keys are written.
    pub(crate) fn finish(self) -> (usize, usize, Vec<String>) {
        let end = Instant::now() + PATIENCE;
        while self.written.load(Ordering::Relaxed) <= 3 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.stop.store(true, Ordering::Relaxed);
        let failures = self.thread.join().unwrap_or_default();
        (self.written.load(Ordering::Relaxed), self.most_in_a_row.load(Ordering::Relaxed), failures)
    }
}

/// A namespace with the operator and a client pod. `config` continues the Subscription's `spec`.
pub(crate) async fn operator_and_client(
    cluster: &Cluster,
    ns: &str,
    version: &str,
    config: &str,
) -> Result<()> {
    namespace(cluster, ns)?;
    let manifest = format!("{}{config}", subscription(ns, "Automatic", None));
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&manifest))?;
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&client_pod(ns, version)))?;
    csv_succeeded(cluster, ns, "etcdoperator.v0.11.0").await?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/client", "-n", ns, "--timeout=60s"]).map(drop)
}

/// A namespace with the operator, a client pod, and a cluster of three members with volumes.
pub(crate) async fn three_members(
    cluster: &Cluster,
    ns: &str,
    name: &str,
    version: &str,
) -> Result<Vec<String>> {
    operator_and_client(cluster, ns, version, "").await?;
    let manifest = etcd::manifest(ns, name, 3, version);
    cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&manifest))?;
    cluster.wait_members(ns, name, 3, LIMIT).await
}

/// UID and restart count of each member's pod.
pub(crate) fn pods(cluster: &Cluster, ns: &str, name: &str) -> Result<BTreeMap<String, (String, u64)>> {
    let list = get(cluster, &["pods", "-n", ns, "-l", &format!("etcd_cluster={name}")])?;
    let items = list["items"].as_array().context("items")?;
    let facts = items.iter().map(|pod| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
        (text(&pod["metadata"]["name"]), (text(&pod["metadata"]["uid"]), restarts))
    });
    Ok(facts.collect())
}

/// Fails unless a member holds every acknowledged key.
pub(crate) fn holds_all(cluster: &Cluster, ns: &str, member: &str, written: usize) -> Result<()> {
    let before = cluster.etcdctl(ns, member, &["get", "before", "--print-value-only"])?;
    ensure!(before.trim() == "kept", "{member} lost a key: {before:?}");
    let keys = cluster.etcdctl(ns, member, &["get", "w/", "--prefix", "--keys-only"])?;
    let count = keys.lines().filter(|line| line.starts_with("w/")).count();
    ensure!(count >= written, "{member} holds {count} of {written} acknowledged keys");
    Ok(())
}

/// Names and ids of the members, when there are this many, all of them ready.
pub(crate) async fn members(
    cluster: &Cluster,
    ns: &str,
    name: &str,
    size: usize,
) -> Result<Vec<(String, String)>> {
    eventually(&format!("{size} members of {name} to be ready"), LIMIT, async || {
        let object = get(cluster, &["etcdcluster", name, "-n", ns])?;
        let (status, spec) = (&object["status"], &object["spec"]);
        ensure!(spec["size"].as_u64() == Some(size as u64), "{spec}");
        let ready = status["members"]["ready"].as_array().map_or(0, Vec::len);
        let list = status["memberList"].as_array().cloned().unwrap_or_default();
        let seen = status["observedGeneration"] == object["metadata"]["generation"];
        let settled =
            condition(&object, "Available") == "True" && condition(&object, "Progressing") == "False";
        if ready != size || list.len() != size || !seen || !settled {
            bail!("{status}");
        }
        let text = |member: &Value, key: &str| member[key].as_str().unwrap_or_default().to_owned();
        Ok(Some(list.iter().map(|m| (text(m, "name"), text(m, "id"))).collect()))
    })
    .await
}

pub(crate) fn condition(object: &Value, type_: &str) -> String {
    let list = object["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|c| c["type"] == type_);
    found.and_then(|c| c["status"].as_str()).unwrap_or("missing").to_owned()
}

pub(crate) async fn succeeded(cluster: &Cluster, ns: &str, kind: &str, name: &str) -> Result<Value> {
    eventually(&format!("{kind} {name} to succeed"), LIMIT, async || {
        let object = get(cluster, &[kind, name, "-n", ns])?;
        match object["status"]["phase"].as_str() {
            Some("Succeeded") if object["status"]["succeeded"] == true => Ok(Some(object)),
            // A restore has one attempt: no other state follows.
            Some("Failed") if kind == "etcdrestore" => Ok(Some(object)),
            _ => bail!("{}", object["status"]),
        }
    })
    .await
    .and_then(|object| {
        ensure!(object["status"]["succeeded"] == true, "{}", object["status"]);
        Ok(object)
    })
}
