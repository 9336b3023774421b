//! One life of the etcd operator, in this process: it can be asked to stop, killed, and frozen.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use etcd_operator::{
    controller::{self, Context, Scope},
    lease::Elector,
    metrics::Metrics,
};
use kube::Client;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::net::View;
use crate::inprocess::Faults;

/// How long an operator that ended by itself stays away.
const RESTART: Duration = Duration::from_millis(50);
/// What is begun when it is told to stop may take this long.
const FINISH: Duration = Duration::from_secs(3);
/// How long what it did on blocking threads may take to end.
const GONE: Duration = Duration::from_secs(5);

/// What it needs.
pub(super) struct Needs {
    pub(super) client: Client,
    pub(super) faults: Faults,
    pub(super) view: View,
    pub(super) namespace: &'static str,
    pub(super) identity: String,
}

/// One life of an operator, in a runtime of its own: what it spawned goes with it.
pub struct Operator {
    runtime: Option<Runtime>,
    task: Option<JoinHandle<()>>,
    stop: CancellationToken,
    pub(super) dead: CancellationToken,
    elected: Arc<AtomicUsize>,
    frozen: Arc<(Mutex<bool>, Condvar)>,
}

impl Operator {
    pub(super) fn start(needs: Needs) -> Result<Self> {
        // One thread, so that it can be frozen as a whole.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd-operator")
            .enable_all()
            .build()
            .context("a runtime for the operator")?;
        let (stop, dead) = (CancellationToken::new(), CancellationToken::new());
        let elected = Arc::new(AtomicUsize::new(0));
        let (shutdown, gate, counted) = (stop.clone(), dead.clone(), Arc::clone(&elected));
        let task = runtime.spawn(async move {
            let addressing = Arc::new(needs.view);
            while !shutdown.is_cancelled() {
                // As the command does; the kubelet starts one that lost its lease again.
                let client = needs.faults.client(needs.client.clone(), gate.clone());
                let elector = Elector::new(client.clone(), needs.namespace, &needs.identity);
                if !elector.acquire(&shutdown).await {
                    return;
                }
                counted.fetch_add(1, Ordering::Relaxed);
                let metrics = Arc::new(Metrics::default());
                let name = Some(needs.identity.clone());
                let context =
                    Context::new(client, addressing.clone(), elector.clone(), metrics, Scope::All, name);
                let stop = shutdown.child_token();
                let work = tokio::spawn(controller::run(Arc::new(context), stop.clone()));
                let kept = elector.hold(&shutdown).await;
                stop.cancel();
                if kept {
                    let _ = tokio::time::timeout(FINISH, work).await;
                    elector.release().await;
                } else {
                    work.abort();
                }
                tokio::time::sleep(RESTART).await;
            }
        });
        let frozen = Arc::default();
        Ok(Self { runtime: Some(runtime), task: Some(task), stop, dead, elected, frozen })
    }

    /// As `kill -9`: nothing of it reaches the API or etcd any more, whatever it was doing.
    pub fn kill(mut self) {
        self.end();
    }

    /// As SIGTERM: what runs is finished, and the lease given back.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
        self.end();
    }

    /// Returns when it was killed by a fault.
    pub async fn killed(&self) {
        self.dead.cancelled().await;
    }

    /// How often it got the lease.
    #[must_use]
    pub fn elected(&self) -> usize {
        self.elected.load(Ordering::Relaxed)
    }

    /// As SIGSTOP: not one of its instructions is carried out any more, and its clock goes on. Returns when it stands.
    pub async fn freeze(&self) {
        let (frozen, stands) = (Arc::clone(&self.frozen), Arc::new(tokio::sync::Notify::new()));
        *lock(&frozen.0) = true;
        let Some(runtime) = &self.runtime else { return };
        let told = Arc::clone(&stands);
        runtime.spawn(async move {
            told.notify_one();
            let (still, changed) = &*frozen;
            let guard = lock(still);
            // The one thread of the runtime waits here.
            drop(changed.wait_while(guard, |still| *still).unwrap_or_else(PoisonError::into_inner));
        });
        stands.notified().await;
    }

    /// As SIGCONT.
    pub fn thaw(&self) {
        *lock(&self.frozen.0) = false;
        self.frozen.1.notify_all();
    }

    fn end(&mut self) {
        self.dead.cancel();
        self.thaw();
        if let Some(runtime) = self.runtime.take() {
            // What it has open is closed when this returns, as it is when a process is gone. A thread, because a runtime cannot be
            // waited for in another.
            let gone = std::thread::spawn(move || runtime.shutdown_timeout(GONE));
            let _ = gone.join();
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
