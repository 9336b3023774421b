//! Installing, upgrading, failing and removing operators, in one process: the manager with the dev cluster's
//! API, a simulated kubelet and a layer in between that counts calls and injects faults.
//!
//! Scenarios have the ids of the upstream lists (`SUB-5`) in their doc comments; [`index`] checks that every
//! id is here or in `exclusions.tsv` with a reason.

#![allow(clippy::panic, reason = "a scenario that fails is a test that fails")]

mod adoption;
mod approvals;
mod attenuation;
mod bad_input;
mod bad_input_why;
mod bundles;
mod catalog_add;
mod catalogs;
mod certificates;
mod cli_output;
mod csvs;
mod deletions;
mod dependencies;
mod doctor;
mod existing;
mod faults;
mod groups;
mod images;
mod index;
mod inspection;
mod latency;
mod myapp;
mod otherwise;
mod ownership;
mod packages;
mod plans;
mod policies;
mod pulled;
mod removal;
mod reserved;
mod rollback;
mod self_manage;
mod self_upgrade;
mod serving;
mod signed;
mod subscriptions;
mod trust;
mod two_namespaces;
mod upgrades;
mod webhook;

use std::{
    future::Future,
    net::{SocketAddr, TcpListener},
};

use anyhow::Result;
use olm_devcluster::api::Identity;
use olm_manager::Options;
use olm_tests::{
    bin_dir,
    inprocess::{Manager, Operator, Served, World, crd},
    skipped,
};
use serde_json::Value;

/// Runs a scenario with its own cluster and manager.
fn scenario<F, Fut>(body: F)
where
    F: FnOnce(World, Manager) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    run(async move {
        let (world, manager) = World::start().await?;
        body(world, manager).await
    });
}

/// Runs a scenario that starts its own parts.
fn run(body: impl Future<Output = Result<()>>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let result = runtime.block_on(body);
    runtime.shutdown_background();
    if let Err(error) = result {
        panic!("{error:#}");
    }
}

/// The same if `olm` is built.
fn run_with_olm(name: &str, body: impl Future<Output = Result<()>>) {
    if !bin_dir().join("olm").is_file() {
        return skipped(name, "it needs the command `olm` that `cargo build` makes");
    }
    run(body);
}

/// Starts a manager that listens at a port, and gives an administrator's programs access to it and to the API.
fn manager_for_admin(world: &World, options: Options) -> Result<(Manager, SocketAddr, Served)> {
    // Free at this moment.
    let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
    let manager = world.manager_with(Options { listen: Some(address), ..options })?;
    Ok((manager, address, world.serve_to(Identity::admin(), address)?))
}

/// Package `a` in a version.
fn op(version: &str) -> Operator {
    Operator::new("a", version)
}

fn a_crd(versions: &[&str]) -> Value {
    crd("as", "a.example.com", "A", versions)
}

/// Package `a` as applied manually without an account: it runs as `default`, without rights.
fn without_rights(version: &str) -> Operator {
    op(version).csv(csvs::no_rights)
}
