//! The life of an EtcdCluster: three members, one lost, five, three again, with a client that never stops writing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use olm_tests::{Cluster, etcd};

use crate::{
    operator::{csv_succeeded, delete_namespace, get, namespace, subscription},
    scenario,
};

const LIMIT: Duration = Duration::from_secs(120);

/// A client pod with etcdctl in it that does nothing by itself.
pub(crate) fn client_pod(ns: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: client\n  namespace: {ns}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: client\n    image: quay.io/coreos/etcd:v{version}\n    command: [/usr/local/bin/etcd, --data-dir=/tmp/own, --listen-client-urls=http://127.0.0.1:12379, --advertise-client-urls=http://127.0.0.1:12379, --listen-peer-urls=http://127.0.0.1:12380]\n"
    )
}

/// A cluster whose members have their data in their pods: a pod that is lost is a member that is lost.
fn without_volumes(ns: &str, name: &str, size: i64, version: &str) -> String {
    format!("{}  storage: {{mode: Pod}}\n", etcd::manifest(ns, name, size, version))
}

/// Writes one key after another through the client Service until told to stop; a failed write counts for its second.
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    worst_second: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Writer {
    pub(crate) fn start(cluster: &Cluster, ns: &str, service: &str) -> Self {
        let (stop, written, worst) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (cluster, ns) = (cluster.clone(), ns.to_string());
        let endpoint = format!("http://{service}:2379");
        let thread = std::thread::spawn({
            let (stop, written, worst) = (Arc::clone(&stop), Arc::clone(&written), Arc::clone(&worst));
            move || {
                let mut failures = Vec::new();
                let start = Instant::now();
                let (mut second, mut failed) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    let n = written.load(Ordering::Relaxed);
                    let now = start.elapsed().as_secs();
                    if now != second {
                        (second, failed) = (now, 0);
                    }
                    match cluster.try_etcdctl(&ns, "client", &endpoint, &["put", &format!("w/{n:06}"), "x"]) {
                        Ok(out) if out.status.success() => {
                            written.fetch_add(1, Ordering::Relaxed);
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
        Self { stop, written, worst_second: worst, thread }
    }

    /// Number written, most failures within one second, and what they said.
    pub(crate) fn finish(self) -> (usize, usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failures = self.thread.join().unwrap_or_default();
        (self.written.load(Ordering::Relaxed), self.worst_second.load(Ordering::Relaxed), failures)
    }
}

#[test]
fn a_lost_member_is_replaced_and_size_changes_one_at_a_time() {
    scenario("a_lost_member_is_replaced_and_size_changes_one_at_a_time", async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped("a_lost_member_is_replaced", "etcd is not installed");
            return Ok(());
        };
        let (ns, name) = ("life", "example-etcd-cluster");
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&subscription(ns, "Automatic", None)))?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&without_volumes(ns, name, 3, &version)))?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&client_pod(ns, &version)))?;
        let before = cluster.wait_members(ns, name, 3, LIMIT).await?;
        cluster.kubectl(&["wait", "--for=condition=Ready", "pod/client", "-n", ns, "--timeout=30s"])?;
        cluster.etcdctl(ns, &before[0], &["put", "before", "kept"])?;

        // A member is lost while a client keeps writing.
        let service = format!("{name}-client");
        let writer = Writer::start(&cluster, ns, &service);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let lost = before[1].clone();
        cluster.kubectl(&["delete", "pod", &lost, "-n", ns])?;
        let start = Instant::now();
        let after = loop {
            let ready = cluster.wait_members(ns, name, 3, LIMIT).await?;
            if !ready.contains(&lost) {
                break ready;
            }
            ensure!(start.elapsed() < LIMIT, "the lost member is still counted as ready: {ready:?}");
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (written, worst, failures) = writer.finish();
        ensure!(worst <= 1, "{worst} failed requests in one second ({written} written): {failures:?}");
        ensure!(written > 3, "only {written} keys were written");
        let listed = cluster.member_list(ns, &after[0])?;
        ensure!(listed.iter().all(|(n, _)| *n != lost), "etcd still lists {lost}: {listed:?}");
        let new: Vec<_> = after.iter().filter(|m| !before.contains(m)).collect();
        ensure!(new.len() == 1, "one new member with a new name, not {new:?}");
        for member in &after {
            let kept = cluster.etcdctl(ns, member, &["get", "before", "--print-value-only"])?;
            ensure!(kept.trim() == "kept", "{member} has lost a key: {kept}");
            let count = cluster.etcdctl(ns, member, &["get", "w/", "--prefix", "--keys-only"])?;
            let count = count.lines().filter(|l| l.starts_with("w/")).count();
            ensure!(count >= written, "{member} has {count} of {written} acknowledged keys");
        }

        // Five, then three: one at a time, a voter majority of ready members at every look.
        for size in [5_usize, 3] {
            cluster
                .kubectl_in(&["apply", "-f", "-"], Some(&without_volumes(ns, name, size as i64, &version)))?;
            let start = Instant::now();
            let mut last = usize::MAX;
            loop {
                ensure!(start.elapsed() < LIMIT, "size {size} was not reached");
                let ready = cluster.ready_members(ns, name)?;
                let Some(first) = ready.first() else { bail!("no ready member on the way to {size}") };
                let Ok(listed) = cluster.member_list(ns, first) else { continue };
                let voters = listed.iter().filter(|(_, learner)| !learner).count();
                let up = listed.iter().filter(|(n, learner)| !learner && ready.contains(n)).count();
                ensure!(up * 2 > voters, "{up} of {voters} voters are ready");
                ensure!(listed.len() - voters <= 1, "more than one learner: {listed:?}");
                if last != usize::MAX {
                    ensure!(
                        listed.len().abs_diff(last) <= 1,
                        "from {last} to {} members at once",
                        listed.len()
                    );
                }
                last = listed.len();
                if listed.len() == size && voters == size && ready.len() == size {
                    break;
                }
            }
        }
        let kept = cluster.wait_members(ns, name, 3, LIMIT).await?;
        let value = cluster.etcdctl(ns, &kept[0], &["get", "before", "--print-value-only"])?;
        ensure!(value.trim() == "kept", "{value}");

        // Deleting the object takes everything along.
        cluster.kubectl(&["delete", "etcdcluster", name, "-n", ns])?;
        olm_tests::eventually("members and services to go", LIMIT, async || {
            let left = get(&cluster, &["pods,services", "-n", ns, "-l", &format!("etcd_cluster={name}")])?;
            let left = left["items"].as_array().map_or(0, Vec::len);
            if left > 0 { bail!("{left} left") } else { Ok(Some(())) }
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}
