//! One life of a manager: it can be stopped, and killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use kube::Client;
use olm_manager::Options;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::faults::Faults;

/// Restart delay of a terminated manager.
const RESTART: Duration = Duration::from_millis(50);
/// Timeout for its blocking threads to end.
const GONE: Duration = Duration::from_secs(5);

/// One life of a manager, in its own runtime: its tasks end with it.
pub struct Manager {
    runtime: Option<Runtime>,
    task: Option<JoinHandle<Result<()>>>,
    stop: CancellationToken,
    dead: CancellationToken,
    starts: Arc<AtomicUsize>,
}

impl Manager {
    pub(super) fn start(api: Client, faults: &Faults, options: Options) -> Result<Self> {
        Self::start_program(api, faults, move |client, shutdown| {
            let options = options.clone();
            async move { olm_manager::run(client, options, shutdown).await.map_err(anyhow::Error::from) }
        })
    }

    /// Starts another program in place of a manager.
    pub(super) fn start_program<F, Fut>(api: Client, faults: &Faults, run: F) -> Result<Self>
    where
        F: Fn(Client, CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("manager")
            .enable_all()
            .build()
            .context("a runtime for the manager")?;
        let (stop, dead) = (CancellationToken::new(), CancellationToken::new());
        let (faults, shutdown, gate) = (faults.clone(), stop.clone(), dead.clone());
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&starts);
        let task = runtime.spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                let client = faults.client(api.clone(), gate.clone());
                match run(client, shutdown.clone()).await {
                    // Like the kubelet for a terminated process.
                    Err(error) if !shutdown.is_cancelled() => {
                        tracing::warn!(%error, "the manager ended and is started again");
                        tokio::time::sleep(RESTART).await;
                    }
                    ended => return ended,
                }
            }
        });
        Ok(Self { runtime: Some(runtime), task: Some(task), stop, dead, starts })
    }

    /// Like `kill -9`: no further call reaches the API.
    pub fn kill(mut self) {
        self.end();
    }

    /// Like SIGTERM: work in progress completes, and the lease is released.
    /// # Errors
    /// Its own error.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        let ended = match self.task.take() {
            Some(task) => task.await.context("the manager's task")?,
            None => Ok(()),
        };
        self.end();
        ended
    }

    /// Returns when a fault killed it.
    pub async fn killed(&self) {
        self.dead.cancelled().await;
    }

    /// Number of starts; more than one when it terminated.
    #[must_use]
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.dead.cancel();
        if let Some(runtime) = self.runtime.take() {
            // Its resources are closed when this returns, like those of a terminated process. A thread,
            // because a runtime cannot wait for another.
            let gone = std::thread::spawn(move || runtime.shutdown_timeout(GONE));
            let _ = gone.join();
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end();
    }
}
