//! One life of the etcd operator, in this process: it can be stopped, killed, and frozen.

use std::{
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use etcd_operator::{
    backup,
    controller::{self, Context, Scope},
    lease::{self, BACKUP_NAME, NAME, RESTORE_NAME},
    metrics::Metrics,
    restore::{self, Place},
};
use futures::future::join_all;
use kube::Client;
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{clock::ClockOffset, net::View};
use crate::inprocess::Faults;

/// Restart delay of a terminated operator.
const RESTART: Duration = Duration::from_millis(50);
/// Timeout for its blocking threads to end.
const GONE: Duration = Duration::from_secs(5);

pub(super) struct Needs {
    pub(super) client: Client,
    pub(super) faults: Faults,
    pub(super) view: View,
    pub(super) namespace: &'static str,
    pub(super) identity: String,
    pub(super) controllers: Controllers,
    pub(super) clock: ClockOffset,
    /// Directory of local backups.
    pub(super) folder: PathBuf,
}

/// The controllers of an operator: all of them, or one, like the three programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controllers {
    clusters: bool,
    backups: bool,
    restores: bool,
}

impl Controllers {
    /// `etcd-operator`.
    pub const ALL: Self = Self { clusters: true, backups: true, restores: true };
    /// Clusters alone: for most scenarios.
    pub const CLUSTERS: Self = Self { clusters: true, backups: false, restores: false };
    /// `etcd-backup-operator`.
    pub const BACKUPS: Self = Self { clusters: false, backups: true, restores: false };
    /// `etcd-restore-operator`.
    pub const RESTORES: Self = Self { clusters: false, backups: false, restores: true };
}

/// One life of an operator, in its own runtime: its tasks end with it.
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
            while !shutdown.is_cancelled() {
                // Like the command; the kubelet restarts one that lost its lease.
                process(&needs, &gate, &shutdown, &counted).await;
                tokio::time::sleep(RESTART).await;
            }
        });
        let frozen = Arc::default();
        Ok(Self { runtime: Some(runtime), task: Some(task), stop, dead, elected, frozen })
    }

    /// Like `kill -9`: no further request reaches the API or etcd.
    pub fn kill(mut self) {
        self.end();
    }

    /// Like SIGTERM: work in progress completes, and the lease is released.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
        self.end();
    }

    /// Returns when a fault killed it.
    pub async fn killed(&self) {
        self.dead.cancelled().await;
    }

    /// Number of times it got the lease.
    #[must_use]
    pub fn elected(&self) -> usize {
        self.elected.load(Ordering::Relaxed)
    }

    /// Like SIGSTOP: no instruction is executed any more, and its clock continues. Returns when it is frozen.
    pub async fn freeze(&self) {
        let (frozen, stands) = (Arc::clone(&self.frozen), Arc::new(tokio::sync::Notify::new()));
        *lock(&frozen.0) = true;
        let Some(runtime) = &self.runtime else { return };
        let reported = Arc::clone(&stands);
        runtime.spawn(async move {
            reported.notify_one();
            let (still, changed) = &*frozen;
            let guard = lock(still);
            // The one thread of the runtime waits here.
            drop(changed.wait_while(guard, |still| *still).unwrap_or_else(PoisonError::into_inner));
        });
        stands.notified().await;
    }

    /// Like SIGCONT.
    pub fn thaw(&self) {
        *lock(&self.frozen.0) = false;
        self.frozen.1.notify_all();
    }

    fn end(&mut self) {
        self.dead.cancel();
        self.thaw();
        if let Some(runtime) = self.runtime.take() {
            // Its resources are closed when this returns, like those of a terminated process. A thread,
            // because a runtime cannot wait for another.
            let gone = std::thread::spawn(move || runtime.shutdown_timeout(GONE));
            let _ = gone.join();
        }
    }
}

/// One process: its controllers, each with its own lease. It ends on shutdown, or when it lost one of them.
async fn process(
    needs: &Needs,
    gate: &CancellationToken,
    shutdown: &CancellationToken,
    elected: &Arc<AtomicUsize>,
) {
    let client = needs.faults.client(needs.client.clone(), gate.clone());
    let elector = |name| lease::elector(&client, needs.namespace, name, &needs.identity);
    let (metrics, instance) = (Arc::new(Metrics::default()), Some(needs.identity.clone()));
    let view = Arc::new(needs.view.clone());
    let first = Context::new(client.clone(), view, elector(NAME), metrics, Scope::All, instance)
        .with_clock(needs.clock.clock());
    let stop = shutdown.child_token();
    let folder = Some(needs.folder.clone());
    let mut held = Vec::new();
    if needs.controllers.backups {
        let context = Arc::new(first.with_elector(elector(BACKUP_NAME)));
        let (elector, folder) = (context.elector.clone(), folder.clone());
        held.push(tokio::spawn(lease::lead(elector, stop.clone(), move |token| {
            backup::run(context, folder, token)
        })));
    }
    if needs.controllers.restores {
        let context = Arc::new(first.with_elector(elector(RESTORE_NAME)));
        let elector = context.elector.clone();
        // Each life has its own address, like pods.
        let Ok(listener) = tokio::net::TcpListener::bind("127.0.0.1:0").await else { return };
        let Ok(address) = listener.local_addr() else { return };
        let place = Place::new(
            Some(address.to_string()),
            address.port(),
            Some(super::images::OPERATOR.to_owned()),
            None,
        );
        tokio::spawn(restore::serve(listener, Arc::clone(&context), folder.clone(), stop.clone()));
        held.push(tokio::spawn(lease::lead(elector, stop.clone(), move |token| {
            restore::run(context, folder, Arc::new(place), token)
        })));
    }
    if needs.controllers.clusters {
        let (elector, elected) = (first.elector.clone(), Arc::clone(elected));
        held.push(tokio::spawn(lease::lead(elector, stop.clone(), move |token| {
            elected.fetch_add(1, Ordering::Relaxed);
            controller::run(Arc::new(first), token)
        })));
    }
    join_all(held).await;
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
