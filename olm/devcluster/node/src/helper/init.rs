//! The loop of a pod's init process: serves requests, reaps children, dies with the agent.

use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, setns, unshare},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        socket::{MsgFlags, send},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, pipe2},
};

use super::{
    process,
    wire::{ANSWER_BYTES, HelperMessage, Place, ProcessSpec, Request, receive_request},
};

/// Runs until the agent closes the control socket (standard input); returns the exit code.
pub(crate) fn run() -> i32 {
    match Init::new().and_then(|mut init| init.serve()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("pod-init: {error}");
            1
        }
    }
}

struct Init {
    control: OwnedFd,
    signals: SignalFd,
    children: HashMap<i32, u64>,
    pids: HashMap<u64, Pid>,
}

impl Init {
    fn new() -> std::io::Result<Self> {
        // Two mechanisms tie a pod to its agent: this signal, and the end of the control socket (however the
        // agent ended, and even when it ended before this line).
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        let control = std::io::stdin().as_fd().try_clone_to_owned()?;
        let null = File::open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { control, signals, children: HashMap::new(), pids: HashMap::new() })
    }

    fn serve(&mut self) -> std::io::Result<()> {
        loop {
            let (requests, deaths) = {
                let mut fds = [
                    PollFd::new(self.control.as_fd(), PollFlags::POLLIN),
                    PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                ];
                match poll(&mut fds, PollTimeout::NONE) {
                    Err(Errno::EINTR) => continue,
                    other => other?,
                };
                (fds[0].any().unwrap_or(true), fds[1].any().unwrap_or(true))
            };
            if deaths {
                while self.signals.read_signal()?.is_some() {}
                self.reap();
            }
            if requests {
                match receive_request(self.control.as_fd())? {
                    None => return Ok(()),
                    Some((request, fds)) => self.handle(request, &fds),
                }
            }
        }
    }

    fn handle(&mut self, request: Request, fds: &[OwnedFd]) {
        match request {
            Request::Setup(setup) => {
                let answer = match fds.first().map(|network| enter_namespaces(network, &setup.hostname)) {
                    Some(Ok(())) => HelperMessage::Ready,
                    Some(Err(message)) => HelperMessage::SetupFailed { message },
                    None => HelperMessage::SetupFailed { message: "missing network namespace".to_owned() },
                };
                self.answer(&answer);
            }
            Request::Start { id, process } => {
                let answer = match self.start(&process, fds) {
                    Ok(pid) => {
                        self.children.insert(pid.as_raw(), id);
                        self.pids.insert(id, pid);
                        HelperMessage::Started { id }
                    }
                    Err(failure) => HelperMessage::StartFailed {
                        id,
                        message: failure.message,
                        not_found: failure.not_found,
                    },
                };
                self.answer(&answer);
                // The end of a process must not be reported before its start.
                self.reap();
            }
            Request::Signal { id, signal, group } => {
                if let (Some(pid), Ok(signal)) = (self.pids.get(&id), Signal::try_from(signal)) {
                    let target = if group { Pid::from_raw(-pid.as_raw()) } else { *pid };
                    // An error means that the process has already ended.
                    let _ = kill(target, signal);
                }
            }
            Request::SignalAll { signal } => {
                if let Ok(signal) = Signal::try_from(signal) {
                    // For process 1 of a PID namespace, -1 means all other processes in it.
                    let _ = kill(Pid::from_raw(-1), signal);
                }
            }
        }
    }

    fn start(&self, process: &ProcessSpec, fds: &[OwnedFd]) -> Result<Pid, process::Failure> {
        let [stdin, stdout, stderr] = fds else {
            return Err("expected three file descriptors for a process".into());
        };
        let beside = match process.place {
            Place::NewRoot(_) => None,
            Place::Beside(id) => match self.pids.get(&id) {
                Some(pid) => Some(*pid),
                None => return Err("the container is not running".into()),
            },
        };
        let (reader, writer) = pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(|error| process::Failure::from(format!("failed to create a pipe: {error}")))?;
        #[allow(unsafe_code)]
        // SAFETY: this process has one thread, so the child has no restrictions after the fork.
        let forked = unsafe { nix::unistd::fork() };
        match forked {
            Err(error) => Err(process::Failure::from(format!("failed to fork: {error}"))),
            Ok(nix::unistd::ForkResult::Child) => {
                drop(reader);
                let stdio: [BorrowedFd<'_>; 3] = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
                process::become_process(process, beside, stdio, writer)
            }
            Ok(nix::unistd::ForkResult::Parent { child }) => {
                drop(writer);
                let mut report = Vec::new();
                // An empty pipe means that the program was executed.
                let _ = File::from(reader).read_to_end(&mut report);
                if report.is_empty() {
                    return Ok(child);
                }
                let _ = waitpid(child, None);
                Err(serde_json::from_slice(&report)
                    .unwrap_or_else(|_| "the process exited before running its program".into()))
            }
        }
    }

    fn reap(&mut self) {
        loop {
            let (pid, code, signal) = match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code, None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32, Some(signal as i32)),
                Err(Errno::EINTR) => continue,
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => continue,
            };
            if let Some(id) = self.children.remove(&pid.as_raw()) {
                self.pids.remove(&id);
                // Kills the remaining processes of the container's group.
                let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
                self.answer(&HelperMessage::Exited { id, code, signal });
            }
        }
    }

    fn answer(&self, answer: &HelperMessage) {
        let Ok(mut bytes) = serde_json::to_vec(answer) else { return };
        if bytes.len() > ANSWER_BYTES
            && let HelperMessage::StartFailed { id, not_found, .. } = answer
        {
            let message = "error message omitted: too long".to_owned();
            let short = HelperMessage::StartFailed { id: *id, message, not_found: *not_found };
            bytes = serde_json::to_vec(&short).unwrap_or_default();
        }
        // After the agent has closed its end, the next read of the socket ends this process.
        let _ = send(self.control.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL);
    }
}

/// Joins the pod's network and creates the other namespaces.
fn enter_namespaces(network: &OwnedFd, hostname: &str) -> Result<(), String> {
    setns(network, CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("failed to enter the pod's network namespace: {error}"))?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .map_err(|error| format!("failed to create the pod's namespaces: {error}"))?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|error| format!("failed to make mounts private: {error}"))?;
    nix::unistd::sethostname(hostname).map_err(|error| format!("failed to set the hostname: {error}"))?;
    mount(
        Some("proc"),
        "/proc",
        Some("proc"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        none,
    )
    .map_err(|error| format!("failed to mount the pod's /proc: {error}"))?;
    // As container runtimes do: in a separate network namespace, a port below 1024 is not a privilege. Best
    // effort.
    let _ = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    Ok(())
}
