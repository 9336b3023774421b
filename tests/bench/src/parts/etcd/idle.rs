//! An operator with many idle clusters.

use std::{
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use olm_tests::inprocess::{Faults, World};
use serde_json::json;

use super::{
    super::{
        steps::{processor, pss, resident},
        table::Row,
    },
    member,
};

const CLUSTERS: usize = 500;
/// Number of namespaces.
const NAMESPACES: usize = 50;
/// Time-out beyond any value, even for 500 sequential clusters on a busy machine.
const HANGS: Duration = Duration::from_secs(1_800);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(500);
/// Time until a cluster counts as calm, with the longest interval (`CALM` of the operator).
const CALMS: Duration = Duration::from_secs(75);
/// Measurement time of its CPU usage: twice the interval in which all clusters are reconciled once.
const IDLE: Duration = Duration::from_secs(64);
/// Memory limit: 100 MB, in the displayed MiB.
const MEMORY: f64 = 100_000_000.0 / 1_048_576.0;
/// The reported version of members; none is started.
const VERSION: &str = "3.5.30";
/// A repository whose images are stand-ins with an address of this machine ([`olm_tests::inprocess::Kubelet`]).
const REPOSITORY: &str = "example.invalid/loopback/etcd";

/// The operator, killed on drop.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // A terminated one is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(in crate::parts) async fn rows() -> Result<Vec<Row>> {
    let world = World::bare().await?;
    let members = tokio::spawn(member::serve(world.client.clone(), VERSION.to_owned()));
    let faults = Faults::new();
    let served = world.serve_as_admin(&faults)?;
    let free =
        || Ok::<_, std::io::Error>(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string());
    let mut operator = Process(
        Command::new(olm_tests::bin_dir().join("etcd-operator"))
            .args(["--listen-addr", &free()?, "--restore-listen-addr", &free()?, "--watch-namespace", ""])
            .args(["--pod-namespace", "default", "--pod-name", "bench"])
            .env("KUBECONFIG", &served.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start etcd-operator (are the binaries built?)")?,
    );
    let pid = operator.0.id();

    let kind = GroupVersionKind::gvk("etcd.database.coreos.com", "v1beta2", "EtcdCluster");
    let clusters = Api::<DynamicObject>::all_with(world.client.clone(), &ApiResource::from_gvk(&kind));
    let start = Instant::now();
    // The operator creates the CRD.
    while clusters.list(&ListParams::default()).await.is_err() {
        ensure!(start.elapsed() < HANGS, "the operator does not bring its kinds");
        tokio::time::sleep(LOOK).await;
    }
    for number in 0..CLUSTERS {
        let namespace = format!("etcd-{:03}", number % NAMESPACES);
        if number < NAMESPACES {
            world.namespace(&namespace).await?;
        }
        world
            .apply(&json!({
                "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
                "metadata": { "name": format!("c-{number:03}"), "namespace": namespace },
                "spec": { "size": 1, "version": VERSION, "repository": REPOSITORY, "storage": { "mode": "Pod" } },
            }))
            .await?;
    }
    loop {
        let all = clusters.list(&ListParams::default()).await?;
        let is_ready = |cluster: &&DynamicObject| cluster.data["status"]["readyMembers"] == 1;
        let ready = all.iter().filter(is_ready).count();
        if ready == CLUSTERS {
            break;
        }
        let waiting =
            all.iter().find(|cluster| !is_ready(cluster)).map(|cluster| cluster.data["status"].clone());
        ensure!(!members.is_finished(), "the stand-ins ended: {:?}", members.await);
        ensure!(operator.0.try_wait()?.is_none(), "the operator ended");
        ensure!(start.elapsed() < HANGS, "{ready} of {CLUSTERS} are ready; {waiting:?}");
        tokio::time::sleep(LOOK).await;
    }
    let ready = start.elapsed();
    tokio::time::sleep(CALMS).await;
    let (calls, before, from) = (faults.count(), processor(pid)?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let share = (processor(pid)? - before) / from.elapsed().as_secs_f64() * 100.0;
    let calls = faults.calls().iter().skip(calls).filter(|call| !call.is_watch() && !call.is_lease()).count();
    members.abort();
    Ok(vec![
        Row {
            what: "500 idle EtcdClusters: operator's memory",
            measured: resident(pid)?,
            limit: MEMORY,
            unit: "MiB",
            note: format!(
                "the limit is 100 MB; VmRSS; PSS {:.1}; one member each, which are stand-ins that answer as an idle etcd does; made by the operator in {:.0} s",
                pss(pid)?,
                ready.as_secs_f64()
            ),
        },
        Row {
            what: "500 idle EtcdClusters: share of one core",
            measured: share,
            limit: 5.0,
            unit: "%",
            note: format!("over {} s; {calls} API calls beside watches and leases", IDLE.as_secs()),
        },
    ])
}
