//! Ability of this process to create namespaces on this machine.

use nix::{
    sched::{CloneFlags, unshare},
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, Uid, fork, getegid, geteuid},
};

/// Whether pods can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// Namespaces can be created as root.
    Root,
    /// Namespaces can be created in a new user namespace.
    UserNamespace,
    /// Namespaces cannot be created; the reason and the remedy.
    Nothing(String),
}

/// Set in a process that has entered its user namespace; its children inherit it.
const MARK: &str = "OLM_USER_NAMESPACE";

impl Capability {
    /// Tests it in a child process, without effect on this one. Call it while the process has one thread.
    pub fn probe() -> Self {
        let namespaces = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
        if can_unshare(namespaces) {
            return if in_user_namespace() { Self::UserNamespace } else { Self::Root };
        }
        if can_unshare(CloneFlags::CLONE_NEWUSER | namespaces) {
            return Self::UserNamespace;
        }
        Self::Nothing(if Uid::effective().is_root() {
            "this process runs as root without permission to create network, mount and PID namespaces; in \
             a container, start it with --privileged (or with CAP_SYS_ADMIN and without the seccomp \
             profile)"
                .to_owned()
        } else {
            "this user has no permission to create user namespaces; run `olm up` as root, or allow user \
             namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1` (Debian), `sudo sysctl -w \
             kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu), `sudo sysctl -w \
             user.max_user_namespaces=10000`"
                .to_owned()
        })
    }
}

/// Whether this process has entered a new user namespace, which has a single user.
pub(crate) fn in_user_namespace() -> bool {
    std::env::var_os(MARK).is_some()
}

fn can_unshare(flags: CloneFlags) -> bool {
    #[allow(unsafe_code)]
    // SAFETY: the child makes one system call and ends, without touching locks or memory of other threads.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let code = i32::from(unshare(flags).is_err());
            // SAFETY: ends the process without running anything that belongs to the parent.
            unsafe { libc::_exit(code) }
        }
        Ok(ForkResult::Parent { child }) => matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0))),
        Err(_) => false,
    }
}

/// Enters a user namespace when that is the only way to run pods: this user becomes root inside it.
///
/// Call it before the process has a second thread; later the kernel refuses it. Without effect for root, and
/// where user namespaces are not available: [`Capability::probe`] then returns the remedy.
pub fn enter_user_namespace_if_needed() {
    if Uid::effective().is_root() || Capability::probe() != Capability::UserNamespace {
        return;
    }
    let (uid, gid) = (geteuid(), getegid());
    let entered = unshare(CloneFlags::CLONE_NEWUSER).map_err(std::io::Error::from).and_then(|()| {
        // The kernel requires this before an unprivileged user writes a group mapping.
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {gid} 1"))
    });
    match entered {
        Ok(()) => {
            #[allow(unsafe_code)]
            // SAFETY: this process has one thread, by the contract of this function.
            unsafe {
                std::env::set_var(MARK, "1");
            }
        }
        Err(error) => eprintln!("warning: failed to enter a user namespace: {error}; pods are not started"),
    }
}
