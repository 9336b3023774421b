//! `olm` itself on a cluster, in one process with the API: its permissions, leader election, and generic
//! tools reading its objects.

#![allow(clippy::panic, reason = "a scenario that fails is a test that fails")]

mod clocks;
mod health;
mod leaders;
mod processes;
mod rights;

use std::future::Future;

use anyhow::Result;

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
