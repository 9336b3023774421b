//! Setup of a process in a pod between `fork` and `execve`.

use std::{
    ffi::CString,
    fs::File,
    io::Write,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, setns, unshare},
    sys::signal::SigSet,
    unistd::{Gid, Pid, Uid, access, chdir, execve, getcwd, setgid, setgroups, setsid, setuid},
};
use serde::{Deserialize, Serialize};

use super::{
    restrict, root,
    wire::{Place, ProcessSpec, User},
};

/// A failed start of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// The program does not exist in the container.
    pub(crate) not_found: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, not_found: false }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

/// Turns this forked child into the process; reports a failure on `report`. Never returns.
pub(crate) fn become_process(
    spec: &ProcessSpec,
    beside: Option<Pid>,
    stdio: [BorrowedFd<'_>; 3],
    report: OwnedFd,
) -> ! {
    let failure = match prepare(spec, beside, stdio) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    let bytes = serde_json::to_vec(&failure).unwrap_or_default();
    let _ = File::from(report).write_all(&bytes);
    std::process::exit(127)
}

fn prepare(
    spec: &ProcessSpec,
    beside: Option<Pid>,
    stdio: [BorrowedFd<'_>; 3],
) -> Result<std::convert::Infallible, Failure> {
    setsid().map_err(|error| format!("failed to start a session: {error}"))?;
    match (&spec.place, beside) {
        (Place::NewRoot(root), _) => root::enter(root)?,
        (Place::Beside(_), Some(pid)) => join_namespaces(pid)?,
        (Place::Beside(_), None) => return Err("the container is not running".into()),
    }
    become_user(spec)?;
    let cwd = if spec.cwd.is_empty() { "/" } else { &spec.cwd };
    chdir(cwd).map_err(|error| format!("failed to change to the working directory {cwd}: {error}"))?;
    // A link of /proc to an open directory would lead out of the root.
    getcwd().map_err(|error| format!("the working directory {cwd} is not in the container: {error}"))?;
    nix::unistd::dup2_stdin(stdio[0])
        .and_then(|()| nix::unistd::dup2_stdout(stdio[1]))
        .and_then(|()| nix::unistd::dup2_stderr(stdio[2]))
        .map_err(|error| format!("failed to connect the standard streams: {error}"))?;
    SigSet::empty().thread_set_mask().map_err(|error| format!("failed to unblock signals: {error}"))?;
    execute(spec)
}

fn join_namespaces(pid: Pid) -> Result<(), Failure> {
    let namespace = File::open(format!("/proc/{pid}/ns/mnt"))
        .map_err(|error| format!("failed to open the container's mounts: {error}"))?;
    setns(namespace.as_fd(), CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("failed to enter the container's mounts: {error}"))?;
    Ok(())
}

fn become_user(spec: &ProcessSpec) -> Result<(), Failure> {
    let user = &spec.user;
    let bound = || {
        restrict::bound(spec.capabilities).map_err(|error| format!("failed to drop capabilities: {error}"))
    };
    if user.alone {
        // A new user namespace begins with all capabilities.
        be_called(user)?;
        bound()?;
    } else {
        set_groups(user)?;
        bound()?;
        setuid(Uid::from_raw(user.uid))
            .map_err(|error| format!("failed to set user {}: {error}", user.uid))?;
    }
    restrict::limit(if user.uid == 0 { spec.capabilities } else { 0 })
        .map_err(|error| format!("failed to limit capabilities: {error}"))?;
    if spec.no_new_privileges {
        nix::sys::prctl::set_no_new_privs()
            .map_err(|error| format!("failed to set no_new_privs: {error}"))?;
    }
    Ok(())
}

fn set_groups(user: &User) -> Result<(), Failure> {
    let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    setgroups(&groups).map_err(|error| format!("failed to set the groups {:?}: {error}", user.groups))?;
    setgid(Gid::from_raw(user.gid)).map_err(|error| format!("failed to set group {}: {error}", user.gid))?;
    Ok(())
}

/// The agent's user namespace maps only root. A nested user namespace maps that user to another number, and
/// drops root's privileges at the next `execve`.
fn be_called(user: &User) -> Result<(), Failure> {
    if (user.uid, user.gid) == (0, 0) {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(std::io::Error::from)
        .and_then(|()| std::fs::write("/proc/self/uid_map", format!("{} 0 1", user.uid)))
        .and_then(|()| std::fs::write("/proc/self/gid_map", format!("{} 0 1", user.gid)))
        .map_err(|error| format!("failed to map user {} and group {}: {error}", user.uid, user.gid))?;
    Ok(())
}

fn execute(spec: &ProcessSpec) -> Result<std::convert::Infallible, Failure> {
    let Some(name) = spec.argv.first() else {
        return Err("no command specified".into());
    };
    let program = find(name, &spec.env)?;
    let text = |value: &str| {
        CString::new(value).map_err(|_| Failure::from(format!("{value:?} contains a zero byte")))
    };
    let argv = spec.argv.iter().map(|value| text(value)).collect::<Result<Vec<_>, _>>()?;
    let env =
        spec.env.iter().map(|(key, value)| text(&format!("{key}={value}"))).collect::<Result<Vec<_>, _>>()?;
    match execve(&text(&program)?, &argv, &env) {
        Ok(never) => Ok(never),
        Err(error) => Err(Failure {
            message: format!("failed to execute {program}: {}", error.desc()),
            not_found: error == Errno::ENOENT,
        }),
    }
}

/// Finds a program in the container's `PATH`, as a shell does.
fn find(name: &str, env: &[(String, String)]) -> Result<String, Failure> {
    if name.contains('/') {
        return if Path::new(name).exists() {
            Ok(name.to_owned())
        } else {
            Err(Failure {
                message: format!("stat {name}: no such file or directory in the container"),
                not_found: true,
            })
        };
    }
    let path = env.iter().rev().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value);
    path.split(':')
        .filter(|dir| !dir.is_empty())
        .map(|dir| format!("{dir}/{name}"))
        .find(|candidate| {
            Path::new(candidate).is_file()
                && access(candidate.as_str(), nix::unistd::AccessFlags::X_OK).is_ok()
        })
        .ok_or_else(|| Failure {
            message: format!("exec: {name:?}: executable file not found in $PATH ({path})"),
            not_found: true,
        })
}
