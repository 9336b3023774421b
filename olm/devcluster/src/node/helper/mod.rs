//! The program that is a pod's first process.
//!
//! A pod's namespaces are made by a fresh, single-threaded process: the agent starts its own executable again with
//! a hidden first argument. In there, `unshare`, `setns`, `fork` and `mount` are plain calls with none of the
//! traps that they have in a process with many threads.

pub(crate) mod init;
pub(crate) mod process;
pub(crate) mod root;
pub(crate) mod wire;

/// First argument of a process that is a pod's init.
pub(crate) const POD_INIT: &str = "__olm-pod-init";

/// Becomes a pod's first process when this executable was started as one, and then never returns.
///
/// Every binary that starts a [`NodeAgent`](super::NodeAgent) with itself as `helper_exe` calls this first in
/// `main`, before any thread exists. A test binary cannot (its `main` belongs to the test harness): it passes the path
/// of the binary `olm-node-helper` of this crate, or of `olm`, as `helper_exe` instead.
pub fn maybe_run_helper() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == POD_INIT) {
        std::process::exit(init::run());
    }
}
