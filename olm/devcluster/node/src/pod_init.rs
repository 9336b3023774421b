//! Starts the init process of a pod.
//!
//! Two kernel rules require an idle thread per pod that lives as long as the pod: a process dies with the
//! *thread* that started it (`PR_SET_PDEATHSIG`), and `unshare(CLONE_NEWPID)` changes where the calling
//! thread's children land, irreversibly where the agent's own PID namespace belongs to another user.

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use nix::sched::{CloneFlags, unshare};
use tokio::sync::oneshot;

use super::helper::POD_INIT;

/// A pod's init process; it is killed when this is dropped.
pub(crate) struct PodInit {
    child: Child,
    /// Dropping the sender ends the thread.
    _thread: mpsc::Sender<()>,
}

impl PodInit {
    /// Starts it with `control` as its standard input, as process 1 of a new PID namespace.
    pub(crate) async fn start(helper: PathBuf, label: String, control: OwnedFd) -> std::io::Result<Self> {
        let (reply, answer) = oneshot::channel();
        std::thread::Builder::new().name("olm-pod".to_owned()).spawn(move || {
            let (thread, end) = mpsc::channel();
            let started = spawn(&helper, &label, control).map(|child| Self { child, _thread: thread });
            match reply.send(started) {
                // No message is ever sent: this waits for the sender to be dropped.
                Ok(()) => drop(end.recv()),
                // The caller was cancelled and closed the control socket: the child exits, and is reaped
                // here.
                Err(Ok(mut orphan)) => orphan.wait(),
                Err(Err(_)) => {}
            }
        })?;
        answer.await.map_err(|_| std::io::Error::other("the thread that starts the process exited"))?
    }

    pub(crate) fn kill(&mut self) {
        // An error means that the process has already ended.
        let _ = self.child.kill();
    }

    /// Blocks until it has exited. Call it after [`PodInit::kill`].
    pub(crate) fn wait(&mut self) {
        let _ = self.child.wait();
    }
}

fn spawn(helper: &PathBuf, label: &str, control: OwnedFd) -> std::io::Result<Child> {
    unshare(CloneFlags::CLONE_NEWPID)?;
    Command::new(helper)
        .arg(POD_INIT)
        .arg(label)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(control))
        .stdout(Stdio::null())
        .spawn()
}
