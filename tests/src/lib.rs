//! Shared parts of the end-to-end scenarios: a cluster, the real binaries, kubectl, and waits with a
//! diagnosis.
//!
//! Scenarios use a [`Cluster`] with only `kube::Client` and kubectl, so they run unchanged on the dev cluster
//! (started by the first test that needs one) and on the cluster of `KUBECONFIG`.

pub mod browser;
pub mod cluster;
pub mod console;
pub mod crawl;
pub mod documents;
pub mod etcd;
pub mod etcd_stage;
pub mod forward;
pub mod html;
pub mod inprocess;
pub mod processes;
pub mod visitor;
pub mod wait;

use std::path::{Path, PathBuf};

pub use cluster::{Cluster, DevCluster};
pub use wait::{eventually, until};

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_path_buf()
}

/// The directory of real data, which is read in place: `OLM_SHARED_DATA`, otherwise next to the checkout. It
/// is optional.
pub fn data() -> PathBuf {
    std::env::var_os("OLM_SHARED_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}

/// The directory with the binaries that cargo built with this test.
pub fn bin_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    let dir = exe.parent().unwrap_or(Path::new("/"));
    // target/debug/deps/e2e-… → target/debug; the benchmark is in that directory itself.
    if dir.ends_with("deps") { dir.parent().unwrap_or(dir).to_path_buf() } else { dir.to_path_buf() }
}

/// A program on the `PATH`, if it is there.
pub fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// The folder of a globally installed package of npm, if it is there.
pub fn npm_package(name: &str) -> Option<PathBuf> {
    let out = std::process::Command::new(program("npm")?).args(["root", "--global"]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(out.stdout).ok()?.trim()).join(name);
    folder.is_dir().then_some(folder)
}

/// Prints that a test did not run, in the format that `make test` collects.
pub fn skipped(test: &str, why: &str) {
    println!("skipped: {test}: {why}");
}
