//! A pod's namespaces from the agent's side: starts processes in them, signals them, receives their exit.

use std::{
    collections::HashMap,
    io::ErrorKind,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socketpair};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::unix::pipe,
    sync::{oneshot, watch},
};

use super::{
    helper::wire::{ANSWER_BYTES, HelperMessage, Place, ProcessSpec, Request, Setup, send_request},
    pod_init::PodInit,
};

/// A failed start of a sandbox or of a process in it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A system call of the agent failed.
    #[error("failed to {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The pod's init process reported a failure.
    #[error("{0}")]
    Setup(String),
    /// The process was refused.
    #[error("{message}")]
    Start {
        /// The cause.
        message: String,
        /// The program does not exist in the container.
        not_found: bool,
    },
    /// The sandbox ended.
    #[error("the pod's sandbox has exited")]
    Gone,
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> SandboxError {
    move |source| SandboxError::System { what, source }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit code; 128 + signal when it was killed.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// Reported for a process whose sandbox was destroyed.
    const KILLED: Self = Self { code: 137, signal: Some(9) };
}

/// The standard streams of a new process.
pub(crate) struct Stdio {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// The agent's ends of the standard streams.
pub(crate) struct Streams {
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

/// Creates pipes for a process; without `stdin` it reads from /dev/null.
pub(crate) fn pipes(stdin: bool) -> std::io::Result<(Stdio, Streams)> {
    let (stdin, sender) = if stdin {
        let (sender, receiver) = pipe::pipe()?;
        (receiver.into_blocking_fd()?, Some(sender))
    } else {
        (OwnedFd::from(std::fs::File::open("/dev/null")?), None)
    };
    let (out_writer, stdout) = pipe::pipe()?;
    let (err_writer, stderr) = pipe::pipe()?;
    let stdio =
        Stdio { stdin, stdout: out_writer.into_blocking_fd()?, stderr: err_writer.into_blocking_fd()? };
    Ok((stdio, Streams { stdin: sender, stdout, stderr }))
}

/// A running process in a sandbox.
#[derive(Clone)]
pub struct Process {
    id: u64,
    sandbox: Arc<Sandbox>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Process {
    /// Sends a signal to the process, or to its whole group.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal, group: bool) {
        let request = Request::Signal { id: self.id, signal: signal as i32, group };
        // A destroyed sandbox has no processes to signal.
        let _ = self.sandbox.send(&request, &[]);
    }

    pub(crate) async fn wait(&mut self) -> Exit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::KILLED),
            Err(_) => Exit::KILLED,
        }
    }

    /// Runs another process in the same root.
    pub(crate) async fn run_in_root_of(
        &self,
        mut spec: ProcessSpec,
        stdio: Stdio,
    ) -> Result<Process, SandboxError> {
        spec.place = Place::Beside(self.id);
        self.sandbox.run(spec, stdio).await
    }

    /// Runs a command in the same root to completion: exit code and the first bytes of its output.
    pub(crate) async fn run_to_end(
        &self,
        spec: ProcessSpec,
        limit: Duration,
    ) -> Result<(Exit, String), SandboxError> {
        use tokio::io::AsyncReadExt as _;
        const OUTPUT: u64 = 10 * 1024;
        let (stdio, streams) = pipes(false).map_err(system("create pipes"))?;
        let mut process = self.run_in_root_of(spec, stdio).await?;
        let Streams { stdout, stderr, .. } = streams;
        let finished = {
            let mut waiting = process.clone();
            async move {
                let (mut out, mut err) = (Vec::new(), Vec::new());
                let exit = {
                    let (mut stdout, mut stderr) = (stdout.take(OUTPUT), stderr.take(OUTPUT));
                    let reading = async {
                        let _ = tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err));
                    };
                    let exit = waiting.wait();
                    tokio::pin!(reading, exit);
                    // Children of the command may hold the pipes open longer than the command lives.
                    tokio::select! {
                        exit = &mut exit => {
                            let _ = tokio::time::timeout(Duration::from_millis(100), reading).await;
                            exit
                        }
                        () = &mut reading => exit.await,
                    }
                };
                out.extend(err);
                (exit, String::from_utf8_lossy(&out).trim_end().to_owned())
            }
        };
        match tokio::time::timeout(limit, finished).await {
            Ok(result) => Ok(result),
            Err(_) => {
                process.signal(nix::sys::signal::Signal::SIGKILL, true);
                let exit = process.wait().await;
                Ok((exit, format!("timed out after {} s", limit.as_secs_f32())))
            }
        }
    }
}

#[derive(Default)]
struct ProcessTable {
    starting: HashMap<u64, oneshot::Sender<Result<(), SandboxError>>>,
    running: HashMap<u64, watch::Sender<Option<Exit>>>,
    gone: bool,
}

/// A pod's namespaces. They end, with every process in them, when this is dropped.
pub struct Sandbox {
    control: Arc<AsyncFd<OwnedFd>>,
    processes: Arc<Mutex<ProcessTable>>,
    next: AtomicU64,
    reader: tokio::task::JoinHandle<()>,
    ended: watch::Receiver<bool>,
}

impl Sandbox {
    /// Starts the pod's init process in the given network namespace.
    pub(crate) async fn start(
        helper: &Path,
        label: String,
        hostname: String,
        network: BorrowedFd<'_>,
    ) -> Result<Arc<Self>, SandboxError> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
            .map_err(|error| system("create a control socket")(error.into()))?;
        let set_nonblocking = || -> nix::Result<()> {
            use nix::fcntl::{FcntlArg, OFlag, fcntl};
            fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
        };
        set_nonblocking().map_err(|error| system("set up the control socket")(error.into()))?;
        let child = PodInit::start(helper.to_owned(), label, theirs)
            .await
            .map_err(system("start the pod's first process"))?;
        #[allow(unsafe_code)]
        // SAFETY: the descriptor is owned by the `AsyncFd` and stays the same open file for its whole life.
        let control = unsafe { AsyncFd::register_with_interest(ours, Interest::READABLE) };
        let control = Arc::new(control.map_err(|error| system("watch the control socket")(error.into()))?);
        let processes = Arc::new(Mutex::new(ProcessTable::default()));
        let (ready, is_ready) = oneshot::channel();
        let (end, ended) = watch::channel(false);
        let reader = tokio::spawn(read_answers(
            Arc::clone(&control),
            Arc::clone(&processes),
            ready,
            end,
            Reaper(Some(child)),
        ));
        let sandbox = Arc::new(Self { control, processes, next: AtomicU64::new(1), reader, ended });
        sandbox.send(&Request::Setup(Setup { hostname }), &[network])?;
        match tokio::time::timeout(Duration::from_secs(10), is_ready).await {
            Ok(Ok(result)) => result.map(|()| sandbox).map_err(SandboxError::Setup),
            Ok(Err(_)) => Err(SandboxError::Gone),
            Err(_) => Err(SandboxError::Setup("timed out after 10 s waiting for pod-init".to_owned())),
        }
    }

    pub(crate) async fn run(
        self: &Arc<Self>,
        spec: ProcessSpec,
        stdio: Stdio,
    ) -> Result<Process, SandboxError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (started, is_started) = oneshot::channel();
        let (end, exit) = watch::channel(None);
        {
            let mut processes = lock(&self.processes);
            if processes.gone {
                return Err(SandboxError::Gone);
            }
            processes.starting.insert(id, started);
            processes.running.insert(id, end);
        }
        let request = Request::Start { id, process: Box::new(spec) };
        let fds = [stdio.stdin.as_fd(), stdio.stdout.as_fd(), stdio.stderr.as_fd()];
        if let Err(error) = self.send(&request, &fds) {
            let mut processes = lock(&self.processes);
            processes.starting.remove(&id);
            processes.running.remove(&id);
            return Err(error);
        }
        drop(stdio);
        is_started.await.map_err(|_| SandboxError::Gone)??;
        Ok(Process { id, sandbox: Arc::clone(self), exit })
    }

    /// Sends a signal to every process of the pod.
    pub(crate) fn signal_all(&self, signal: nix::sys::signal::Signal) -> Result<(), SandboxError> {
        self.send(&Request::SignalAll { signal: signal as i32 }, &[])
    }

    /// Kills everything in the pod and waits until it is gone.
    pub(crate) async fn destroy(&self) {
        let _ =
            nix::sys::socket::shutdown(self.control.get_ref().as_raw_fd(), nix::sys::socket::Shutdown::Both);
        let mut ended = self.ended.clone();
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Resolves when the pod's init process has exited.
    pub(crate) fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }

    fn send(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
        // Requests are few and the receiver reads at once: a full socket means that it is stuck.
        send_request(self.control.get_ref().as_fd(), request, fds)
            .map_err(system("send a request to the pod's first process"))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Ensures that the pod's init process is killed and reaped, however the sandbox ends.
struct Reaper(Option<PodInit>);

impl Reaper {
    async fn reap(mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill();
            let _ = tokio::task::spawn_blocking(move || child.wait()).await;
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill();
            // SIGKILL to process 1 kills the whole namespace, so the wait is short.
            std::thread::spawn(move || child.wait());
        }
    }
}

async fn read_answers(
    control: Arc<AsyncFd<OwnedFd>>,
    processes: Arc<Mutex<ProcessTable>>,
    ready: oneshot::Sender<Result<(), String>>,
    end: watch::Sender<bool>,
    child: Reaper,
) {
    let mut ready = Some(ready);
    let mut buffer = vec![0_u8; ANSWER_BYTES];
    loop {
        let Ok(mut guard) = control.readable().await else { break };
        let received = guard
            .try_io(|fd| recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(std::io::Error::from));
        let length = match received {
            Err(_would_block) => continue,
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(Err(_) | Ok(0)) => break,
            Ok(Ok(length)) => length,
        };
        match serde_json::from_slice::<HelperMessage>(&buffer[..length]) {
            Ok(HelperMessage::Ready) => {
                let _ = ready.take().map(|ready| ready.send(Ok(())));
            }
            Ok(HelperMessage::SetupFailed { message }) => {
                let _ = ready.take().map(|ready| ready.send(Err(message)));
            }
            Ok(HelperMessage::Started { id }) => {
                if let Some(started) = lock(&processes).starting.remove(&id) {
                    let _ = started.send(Ok(()));
                }
            }
            Ok(HelperMessage::StartFailed { id, message, not_found }) => {
                let mut processes = lock(&processes);
                processes.running.remove(&id);
                if let Some(started) = processes.starting.remove(&id) {
                    let _ = started.send(Err(SandboxError::Start { message, not_found }));
                }
            }
            Ok(HelperMessage::Exited { id, code, signal }) => {
                if let Some(end) = lock(&processes).running.remove(&id) {
                    let _ = end.send(Some(Exit { code, signal }));
                }
            }
            Err(error) => tracing::error!(%error, "invalid message from pod-init"),
        }
    }
    child.reap().await;
    let mut processes = lock(&processes);
    processes.gone = true;
    processes.starting.clear();
    for (_, running) in processes.running.drain() {
        let _ = running.send(Some(Exit::KILLED));
    }
    drop(processes);
    let _ = end.send(true);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
