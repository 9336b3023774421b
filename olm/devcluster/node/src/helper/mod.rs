//! The executable of a pod's init process.
//!
//! A fresh, single-threaded process creates a pod's namespaces: the agent starts its own executable again
//! with a hidden first argument. There, `unshare`, `setns`, `fork` and `mount` are plain calls without the
//! restrictions of a multi-threaded process.

pub(crate) mod init;
pub(crate) mod process;
mod restrict;
pub(crate) mod root;
pub(crate) mod wire;

/// First argument of a pod's init process.
pub(crate) const POD_INIT: &str = "__olm-pod-init";

/// First argument of a process that ends with its parent.
const TIED: &str = "__olm-tied";

/// A command that runs the current executable and dies with the calling thread, however that ends; arguments
/// follow.
///
/// # Errors
/// The path of the executable is unknown.
pub fn tied_command() -> std::io::Result<std::process::Command> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.arg(TIED).arg(std::process::id().to_string());
    Ok(command)
}

/// Becomes a pod's init process when this executable was started as one, and then never returns. Likewise for
/// [`tied_command`].
///
/// Every binary that starts a [`NodeAgent`](super::NodeAgent) with itself as `helper_exe` calls this first in
/// `main`, before any thread exists. A test binary cannot (its `main` belongs to the test harness): it passes
/// the path of the binary `olm-node-helper` of this crate, or of `olm`, as `helper_exe` instead.
pub fn maybe_run_helper() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == POD_INIT) {
        std::process::exit(init::run());
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == TIED) {
        let parent = arguments.next().unwrap_or_default();
        eprintln!("error: {}", run_tied(&parent.to_string_lossy(), arguments));
        std::process::exit(1);
    }
}

/// Ties this process to its parent and re-executes itself without the tie arguments; returns the error on
/// failure.
fn run_tied(parent: &str, arguments: impl Iterator<Item = std::ffi::OsString>) -> std::io::Error {
    use std::os::unix::process::CommandExt as _;
    if let Err(error) = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL) {
        return error.into();
    }
    // The parent may have ended before the death signal was set.
    if nix::unistd::getppid().to_string() != parent {
        return std::io::Error::other("parent process exited");
    }
    match std::env::current_exe() {
        Ok(program) => std::process::Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}
