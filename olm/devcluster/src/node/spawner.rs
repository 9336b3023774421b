//! The thread that starts pod-inits.
//!
//! Two kernel rules tie this to one thread that lives as long as the agent: a process dies with the *thread* that
//! started it (`PR_SET_PDEATHSIG`), and `unshare(CLONE_NEWPID)` changes where the calling thread's children land.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use nix::sched::{CloneFlags, setns, unshare};
use tokio::sync::oneshot;

use super::helper::POD_INIT;

struct Job {
    label: String,
    control: OwnedFd,
    reply: oneshot::Sender<std::io::Result<Child>>,
}

/// Handle of the thread; the thread ends with the last handle.
#[derive(Clone)]
pub(crate) struct Spawner {
    jobs: std::sync::mpsc::Sender<Job>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn start(helper: PathBuf) -> std::io::Result<Self> {
        let (jobs, queue) = std::sync::mpsc::channel::<Job>();
        std::thread::Builder::new().name("olm-spawner".to_owned()).spawn(move || {
            while let Ok(job) = queue.recv() {
                let child = spawn(&helper, &job.label, job.control);
                // A caller that went away has closed the control socket: the child ends by itself, and is reaped here.
                if let Err(Ok(mut orphan)) = job.reply.send(child) {
                    let _ = orphan.wait();
                }
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts a pod-init with `control` as its standard input, as process 1 of a new PID namespace.
    pub(crate) async fn spawn(&self, label: String, control: OwnedFd) -> std::io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || std::io::Error::other("the thread that starts processes is gone");
        self.jobs.send(Job { label, control, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn spawn(helper: &PathBuf, label: &str, control: OwnedFd) -> std::io::Result<Child> {
    let own = File::open("/proc/thread-self/ns/pid")?;
    unshare(CloneFlags::CLONE_NEWPID)?;
    let child = Command::new(helper)
        .arg(POD_INIT)
        .arg(label)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(control))
        .stdout(Stdio::null())
        .spawn();
    // Without this the next pod would be refused: only one PID namespace can be asked for at a time.
    setns(&own, CloneFlags::CLONE_NEWPID)?;
    child
}
