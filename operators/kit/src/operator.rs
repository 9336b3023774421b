//! An operator: its name and kinds, and a run of it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::controller::{self, Running};
use crate::describe;
use crate::http;
use crate::kind::Kind;
use crate::lease::{Elector, Fence, lead};
use crate::metrics::Metrics;
use crate::rights::{self, Right};

/// Port of `/healthz`, `/readyz` and `/metrics`.
pub(crate) const PORT: u16 = 8080;
/// Pause between two attempts to reach the API server at the start.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for the server of probes and metrics to end.
const CLOSING: Duration = Duration::from_secs(1);

/// An operator: a name, a version and the kinds that it manages.
#[derive(Debug, Clone)]
#[must_use]
pub struct Operator {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) kinds: Vec<Kind>,
}

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Watched namespaces; empty for all of them. Kinds without a namespace are watched in any case.
    pub namespaces: Vec<String>,
    /// Address of `/healthz`, `/readyz` and `/metrics`; `None` to serve none of them.
    pub listen: Option<SocketAddr>,
    /// Whether the operator acts only while it holds the Lease of its name, in the namespace of the client.
    pub leader_election: bool,
    /// Name of this process in events and in the lease, unique among the processes of the operator.
    pub identity: String,
}

impl Options {
    /// Settings of a process in a pod. `WATCH_NAMESPACE` has the watched namespaces, separated by commas, as
    /// OLM sets it; empty or absent, all are watched. The identity begins with `POD_NAME` or `HOSTNAME`.
    #[must_use]
    pub fn from_env() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let host =
            variable("POD_NAME").or_else(|| variable("HOSTNAME")).unwrap_or_else(|| "local".to_owned());
        // The pod's name alone is not enough: a restarted process of the same pod must not take the lease of a
        // hung one.
        let start = Timestamp::now().as_nanosecond().unsigned_abs();
        Self {
            namespaces: namespaces(&variable("WATCH_NAMESPACE").unwrap_or_default()),
            listen: Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))),
            leader_election: true,
            identity: format!("{host}_{start:x}_{}", std::process::id()),
        }
    }
}

/// The namespaces in a list, each once.
pub(crate) fn namespaces(list: &str) -> Vec<String> {
    let mut namespaces: Vec<String> =
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    namespaces.sort();
    namespaces.dedup();
    namespaces
}

/// Why a run ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of probes and metrics is not available.
    #[error("failed to listen on {address}: {source}. hint: set another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Reason of the operating system.
        source: std::io::Error,
    },
    /// Another process leads, or the lease could not be renewed in time. The process must end, so that two never
    /// act at the same time.
    #[error("lease lost; exiting so that only one operator is active")]
    LeaseLost,
}

impl Operator {
    /// An operator without kinds. `name` is a DNS label: it names the field manager, the lease and the reporter
    /// of events, so a later version keeps it.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), kinds: Vec::new() }
    }

    /// Adds a kind.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// The permissions that the operator needs: the sum of its registrations, of events and of the lease.
    #[must_use]
    pub fn rights(&self) -> Vec<Right> {
        rights::rights(&self.kinds)
    }

    /// The description of the operator, as its command `describe` prints it: a JSON document with its name and
    /// version, its kinds with definition, schema and owned kinds, its rights and ports.
    #[must_use]
    pub fn describe(&self) -> Value {
        describe::describe(self)
    }

    /// Runs until `shutdown`, then finishes reconciliations in progress and releases the lease.
    ///
    /// # Errors
    /// The address of probes is not available, or the lease is lost.
    pub async fn run(
        self,
        client: Client,
        options: Options,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let stop = shutdown.child_token();
        let (ready, metrics) = (Arc::new(AtomicBool::new(false)), Arc::new(Metrics::default()));
        let server = match options.listen {
            Some(address) => {
                let listener = listen(address).await.map_err(|source| Error::Listen { address, source })?;
                Some(tokio::spawn(http::serve(listener, ready.clone(), metrics.clone(), stop.clone())))
            }
            None => None,
        };
        tracing::info!(version = self.version, namespaces = ?options.namespaces, "starting {}", self.name);
        let kept = if reachable(&client, &stop).await {
            ready.store(true, Ordering::Relaxed);
            self.lead(client, options, metrics, &stop).await
        } else {
            true
        };
        stop.cancel();
        if let Some(server) = server {
            // It ends with its connections, which are not waited for longer.
            let _ = tokio::time::timeout(CLOSING, server).await;
        }
        if kept { Ok(()) } else { Err(Error::LeaseLost) }
    }

    /// Manages the kinds while it leads; false when the lease is lost.
    async fn lead(
        self,
        client: Client,
        options: Options,
        metrics: Arc<Metrics>,
        stop: &CancellationToken,
    ) -> bool {
        let fence = Arc::new(Fence::default());
        if !options.leader_election {
            fence.open();
        }
        let namespace = client.default_namespace().to_owned();
        let elector =
            Elector::new(client.clone(), &namespace, &self.name, &options.identity, fence).polling();
        let running = Running {
            client,
            operator: self.name,
            identity: options.identity,
            namespaces: options.namespaces,
            elector: elector.clone(),
            metrics,
        };
        let kinds = self.kinds;
        if options.leader_election {
            return lead(elector, stop.clone(), |token| controller::run(running, kinds, token)).await;
        }
        controller::run(running, kinds, stop.clone()).await;
        true
    }
}

/// Waits until the API server answers; false on shutdown.
async fn reachable(client: &Client, stop: &CancellationToken) -> bool {
    let mut reported = false;
    loop {
        let answer = tokio::select! {
            () = stop.cancelled() => return false,
            answer = client.apiserver_version() => answer,
        };
        let Err(error) = answer else { return true };
        if !reported {
            tracing::warn!(%error, "the API server is not reachable yet");
            reported = true;
        }
        if tokio::time::timeout(PAUSE, stop.cancelled()).await.is_ok() {
            return false;
        }
    }
}

/// Listens on IPv4 alone where a node has no IPv6.
async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}
