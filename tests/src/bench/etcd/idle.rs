//! An operator that looks after many clusters to which nothing happens.

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
/// In so many namespaces.
const NAMESPACES: usize = 50;
/// Nothing that is on its way takes this long, not even 500 clusters one after the other on a busy machine.
const HANGS: Duration = Duration::from_secs(1_800);
/// Between two looks at what the operator has done.
const LOOK: Duration = Duration::from_millis(500);
/// Until a cluster counts as calm, and is looked at as seldom as can be (`CALM` of the operator).
const CALMS: Duration = Duration::from_secs(75);
/// How long its time on the processors is counted: twice as long as all clusters are looked at once.
const IDLE: Duration = Duration::from_secs(64);
/// The most that the operator may take: 100 MB, in the MiB in which memory is shown.
const MEMORY: f64 = 100_000_000.0 / 1_048_576.0;
/// The version that members say they are; none is started.
const VERSION: &str = "3.5.30";
/// A repository whose images are stand-ins with an address of this machine ([`olm_tests::inprocess::Kubelet`]).
const REPOSITORY: &str = "example.invalid/loopback/etcd";

/// The operator. It is killed when this goes.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that ended by itself is as good.
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
    // The operator brings the kind.
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
