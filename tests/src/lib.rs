//! What the end-to-end scenarios stand on: a cluster, the real binaries, kubectl, and waiting with a diagnosis.
//!
//! Scenarios take a [`Cluster`] and use `kube::Client` and kubectl alone, so they run unchanged on the dev cluster (started by
//! the first test that asks for one) and on the cluster that `KUBECONFIG` names.

pub mod browser;
pub mod cluster;
pub mod console;
pub mod etcd;
pub mod etcd_stage;
pub mod forward;
pub mod inprocess;
pub mod processes;
pub mod wait;

use std::path::{Path, PathBuf};

pub use cluster::{Cluster, DevCluster};
pub use wait::{eventually, until};

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_path_buf()
}

/// The folder of real data, which is read in place: `OLM_SHARED_DATA`, else beside the checkout. It need not be there.
pub fn data() -> PathBuf {
    std::env::var_os("OLM_SHARED_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}

/// The folder with the binaries that cargo built beside this test.
pub fn bin_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let dir = exe.parent().unwrap_or(Path::new("/"));
    // target/debug/deps/e2e-… → target/debug; the benchmark is in that folder itself.
    if dir.ends_with("deps") { dir.parent().unwrap_or(dir).to_path_buf() } else { dir.to_path_buf() }
}

/// A program on the `PATH`, if it is there.
pub fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Says on standard output that a test did not run, in the form that `make test` collects.
pub fn skipped(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
}
