//! Starts the first process of a pod.
//!
//! Two kernel rules give each pod a thread of its own, which lives as long as its pod and does nothing: a process dies
//! with the *thread* that started it (`PR_SET_PDEATHSIG`), and `unshare(CLONE_NEWPID)` changes where the calling
//! thread's children land, for good where the agent's own PID namespace belongs to another user.

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use nix::sched::{CloneFlags, unshare};
use tokio::sync::oneshot;

use super::helper::POD_INIT;

/// A pod's first process; it is killed when this is dropped.
pub(crate) struct PodInit {
    child: Child,
    /// Its thread ends with this.
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
                // Nobody sends: this waits for the end of the other side.
                Ok(()) => drop(end.recv()),
                // The caller went away and closed the control socket: the child ends by itself, and is reaped here.
                Err(Ok(mut orphan)) => orphan.wait(),
                Err(Err(_)) => {}
            }
        })?;
        answer.await.map_err(|_| std::io::Error::other("the thread that starts the process exited"))?
    }

    pub(crate) fn kill(&mut self) {
        // A process that has ended already is as good as killed.
        let _ = self.child.kill();
    }

    /// Blocks until it has ended. Call it after [`PodInit::kill`].
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
