//! The commands of the README, line by line, on real clusters: the dev cluster that the first scenario
//! starts, or the one that `KUBECONFIG` names. Each scenario has its own namespaces.

#![allow(clippy::panic, reason = "a scenario that fails is a test that fails")]

mod accessibility;
mod authoring;
mod bad_input;
mod catalog_cli;
mod catalog_sources;
mod console;
mod crawl;
mod demo;
mod documents;
mod etcd_backups;
mod etcd_cluster;
mod etcd_fixture;
mod etcd_handle;
mod etcd_obstacles;
mod etcd_scenarios;
mod etcd_secured;
mod etcd_upgrade;
mod etcd_whole;
mod images;
mod kubectl;
mod lifecycle;
mod local_console;
mod myapp;
mod network;
mod newcomer;
mod openid;
mod operator;
mod personas;
mod plan_cli;
mod proxy;
mod registry;
mod self_upgrade;
mod workloads;

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{Mutex, MutexGuard},
};

use anyhow::Result;
use olm_tests::Cluster;

/// The machine has few cores and the scenarios start real etcds: one at a time keeps their waits short and
/// their failures clear.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner())
}

/// The turn of a test that starts dev clusters of its own; `None`, with the reason printed, where KUBECONFIG names
/// another cluster or one of the programs is not installed.
fn own_turn(name: &str, programs: &[&str]) -> Option<MutexGuard<'static, ()>> {
    let turn = turn();
    Cluster::dev_only(name)?;
    if let Some(missing) = programs.iter().find(|program| olm_tests::program(program).is_none()) {
        olm_tests::skipped(name, &format!("{missing} is not installed"));
        return None;
    }
    Some(turn)
}

/// Runs a scenario to its end, and shows the state of its namespace when it fails.
fn scenario<F, Fut>(name: &str, body: F)
where
    F: FnOnce(Cluster) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let _turn = turn();
    let Some(cluster) = Cluster::get(name) else { return };
    if olm_tests::program("kubectl").is_none() {
        olm_tests::skipped(name, "kubectl is not installed");
        return;
    }
    block_on(async {
        let before = namespaces(&cluster);
        if let Err(error) = body(cluster.clone()).await {
            println!("{name}: {error:#}");
            for what in ["all,subscriptions,installplans,csv", "events"] {
                let state = cluster.try_kubectl(&["get", what, "-A", "-o", "wide"], None);
                if let Ok(out) = state {
                    println!("--- {what}\n{}", String::from_utf8_lossy(&out.stdout));
                }
            }
            // Remaining namespaces would fail the following scenarios: the operators of two of them can
            // conflict.
            for left in namespaces(&cluster).difference(&before) {
                let _ = cluster.try_kubectl(&["delete", "namespace", left, "--timeout=90s"], None);
            }
            panic!("{name}: {error:#}");
        }
    });
}

fn namespaces(cluster: &Cluster) -> BTreeSet<String> {
    let list = cluster.kubectl(&["get", "namespaces", "-o", "name"]).unwrap_or_default();
    list.lines().filter_map(|line| line.strip_prefix("namespace/")).map(str::to_owned).collect()
}

fn block_on<F: Future>(future: F) -> F::Output {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
        .block_on(future)
}
