//! The etcd operator with real etcds: the scenarios S01 to S28 of the reference (section 5.3), each with a
//! writer, a watcher and clients whose history must have one order, and at the end of each the same checks
//! ([`judge`]).
//!
//! The stage is in one process ([`olm_tests::etcd_stage`]): the API server and the controllers of the dev
//! cluster, the operator, and a kubelet that runs pods as etcd processes at addresses of 127.0.0.0/8.
//! Unsupported scenarios are in [`SKIPPED`]. Members run the etcd of this machine, or the one in
//! `OLM_TEST_ETCD_VERSION`: `scripts/test.sh` repeats a handful of scenarios with the newest 3.5, and
//! `scripts/test-long.sh` all of them. `OLM_TEST_LONG` (`make test-long`) prolongs the monkeys, and kills the
//! operator at every single call.

#![allow(clippy::panic, reason = "a scenario that fails is a test that fails")]

mod certificates;
mod clients;
mod connections;
mod damage;
mod deaths;
mod history;
mod judge;
mod linear;
mod random;
mod tasks;

mod backups;
mod chaos;
mod corrupt;
mod create;
mod heal;
mod kills;
mod operators;
mod quorum;
mod resize;
mod restore_deaths;
mod restores;
mod secured;
mod slow;
mod survivors;
mod upgrades;
mod users;
mod volumes;

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Instant,
};

use anyhow::Result;
use olm_tests::etcd_stage::{Handle, Operator, Stage};
use serde_json::{Value, json};

/// Unsupported scenarios, and why.
const SKIPPED: &[(&str, &str)] = &[(
    "S19, no way back when all members run the new version",
    "covered by the plan's tests; here a broken image fails earlier",
)];

/// Concurrent scenarios: they mostly wait for etcd's five seconds.
const AT_ONCE: usize = 3;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A slot among the running scenarios.
struct Place;

impl Place {
    fn wait() -> Self {
        let running = RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running =
            RUNNING.1.wait_while(running, |count| *count >= AT_ONCE).unwrap_or_else(PoisonError::into_inner);
        *running += 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RUNNING.1.notify_one();
    }
}

/// Whether the long versions are enabled.
fn long() -> bool {
    std::env::var_os("OLM_TEST_LONG").is_some()
}

/// Runs a scenario on a stage of its own.
fn scenario(id: &str, body: impl AsyncFnOnce(&Stage) -> Result<()>) {
    if olm_tests::etcd::version().is_none() {
        olm_tests::skipped(id, "etcd is not installed");
        return;
    }
    let _place = Place::wait();
    let begun = Instant::now();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let result = runtime.block_on(async {
        let stage = Stage::start().await?;
        body(&stage).await
    });
    runtime.shutdown_background();
    println!("{id}: {:?}", begun.elapsed());
    if let Err(error) = result {
        panic!("{id}: {error:#}");
    }
}

/// A spec with a size, for the etcd of this run, with data only in the pods: lost pods lose their data.
fn spec(size: usize) -> Value {
    let version = olm_tests::etcd::version().unwrap_or_default();
    // Twice etcd's own timeouts: leaders must not change only because the machine is busy.
    let env = [("ETCD_HEARTBEAT_INTERVAL", "200"), ("ETCD_ELECTION_TIMEOUT", "2000")];
    let env = env.map(|(name, value)| json!({ "name": name, "value": value }));
    json!({ "size": size, "version": version, "storage": { "mode": "Pod" }, "pod": { "etcdEnv": env } })
}

/// The same with a volume for each member.
fn with_volumes(size: usize) -> Value {
    let mut spec = spec(size);
    spec["storage"] = json!({ "mode": "Volume", "size": "1Gi" });
    spec
}

/// An operator, and a cluster `c` of a size that it created.
async fn made(stage: &Stage, size: usize) -> Result<(Operator, Handle<'_>)> {
    let operator = stage.operator()?;
    let cluster = stage.create("c", spec(size)).await?;
    cluster.steady(size).await?;
    Ok((operator, cluster))
}

#[test]
fn every_scenario_is_run_or_reported_as_skipped() {
    let folder = olm_tests::root().join("tests/etcd");
    let files = std::fs::read_dir(folder).expect("this folder").flatten().map(|entry| entry.path());
    let texts: Vec<String> = files.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    for number in 1..=28 {
        // The scenario's comment starts with its id.
        let id = format!("S{number:02}");
        let begins = |text: &String| {
            text.lines()
                .any(|line| line.starts_with(&format!("/// {id}")) || line.starts_with(&format!("//! {id}")))
        };
        let skipped = SKIPPED.iter().any(|(skipped, _)| *skipped == id);
        assert!(texts.iter().any(begins) || skipped, "{id} is neither a scenario nor skipped with a reason");
    }
    for (id, why) in SKIPPED {
        olm_tests::skipped(&format!("etcd {id}"), why);
    }
}
