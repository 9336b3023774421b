//! The API server: one code path over JSON objects and a table of kinds.
//!
//! * start: [`bootstrap`] (initial objects), [`tls`], [`https`] (the listener)
//! * what requests share: [`state`]; a request with its context: [`call`]; responses to errors: [`status`]
//! * objects: [`store`] (memory, watches), [`log`] (disk), [`meta`] (fields of every object), [`serialized`]
//!   (a cache for lists)
//! * served resources: [`kinds`] (the tables of [`builtin`] ones), [`registry`] (with custom ones),
//!   [`resource`], [`discovery`]
//! * a request: [`server`] (the router) → [`request`], [`body`] ([`protobuf`]) → [`authn`] → [`authz`] →
//!   [`rest`], [`list`] ([`selector`]), [`watch`], [`delete`], [`reviews`], [`aggregation`], or the subresources
//!   [`eviction`], [`scale`] ([`replicas`]) and [`nodes`]
//! * connections to the node: [`nodes`] → [`exec`] and [`portforward`] (both over [`websocket`]), [`proxy`]
//! * writes of an object: [`prepare`], [`defaults`], [`strategy`], [`commit`], [`hooks`]; validation:
//!   [`validate`], [`names`]; admission: [`admission`], [`pod_security`], [`quota`], [`policies`], [`webhooks`];
//!   of one kind: [`crds`], [`service`], [`volumes`], [`job_rules`], [`disruption_budgets`]
//! * reads: [`convert`], [`format`](mod@format), [`table`], [`columns`], [`cells`]
//! * calls of the server itself: [`outbound`], [`trust`]
//! * tools of the dev cluster: [`faults`] (`/dev/faults`), [`request_counts`] (`/dev/rights`, whose format is in
//!   [`rights`])

#![deny(missing_docs)]

mod admission;
mod aggregation;
mod authn;
mod authz;
mod body;
mod bootstrap;
mod builtin;
mod call;
mod cells;
mod columns;
mod commit;
mod convert;
mod crds;
mod defaults;
mod delete;
mod discovery;
mod disruption_budgets;
mod eviction;
mod exec;
mod faults;
mod format;
mod hooks;
mod https;
mod job_rules;
mod kinds;
mod list;
mod log;
mod meta;
mod names;
mod nodes;
mod outbound;
mod pod_security;
mod policies;
mod portforward;
mod prepare;
mod protobuf;
mod proxy;
mod quota;
mod registry;
mod replicas;
mod request;
mod request_counts;
mod resource;
mod rest;
mod reviews;
mod scale;
mod selector;
mod serialized;
mod server;
mod service;
mod state;
mod status;
mod store;
mod strategy;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod trust;
mod validate;
mod volumes;
mod watch;
mod webhooks;
mod websocket;

pub mod rights;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicI64},
};

use axum::{Router, extract::Request};
use base64::{Engine, engine::general_purpose::STANDARD};
use olm_devcluster_machinery::backend::NodeBackend;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::{
    aggregation::{FrontProxy, registered::Aggregation},
    authn::Tokens,
    policies::active::Policies,
    registry::Registry,
    serialized::SerializedObjects,
    state::Server,
    store::Store,
    tls::Authority,
    webhooks::active::Webhooks,
};
pub use self::{
    authn::{Identity, TokenAuthenticator},
    tls::FileError,
};

/// File of the objects in the data directory.
const OBJECTS: &str = "objects.redb";

/// Configuration of the server.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Directory for objects, keys and tokens; `None` stores everything in memory only.
    pub data: Option<PathBuf>,
    /// Port of the server, to which the `kubernetes` Service points; 0 stands for 6443.
    pub port: u16,
    /// Further host names for the serving certificate.
    pub names: Vec<String>,
    /// Further addresses for the serving certificate.
    pub addresses: Vec<IpAddr>,
}

/// A failure to open the server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A key or certificate could not be read or created.
    #[error(transparent)]
    File(#[from] FileError),
    /// The objects could not be read: in use, damaged, no space.
    #[error("{0}")]
    Store(String),
    /// The initial objects of a cluster could not be written.
    #[error("failed to create the initial objects: {0}")]
    Bootstrap(String),
}

/// A Kubernetes API server.
///
/// Cheap to clone; all clones share one server. Call [`ApiServer::shutdown`] before dropping the last one, so
/// that the data directory is released when it returns.
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
    authority: Arc<Authority>,
}

impl ApiServer {
    /// Reads the data directory, or creates a new cluster in it. Does not serve yet.
    ///
    /// Does not need a tokio runtime.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let directory = config.data.as_deref();
        if let Some(directory) = directory {
            tls::make_directory(directory)?;
        }
        let store = Store::open(directory.map(|d| d.join(OBJECTS)).as_deref())
            .map_err(|error| OpenError::Store(error.to_string()))?;
        let authority = Authority::open(directory, &config.names, &config.addresses)?;
        let server = Arc::new(Server {
            store,
            registry: Registry::new(),
            tokens: Tokens::open(directory)?,
            authenticator: RwLock::default(),
            backend: RwLock::default(),
            shutdown: CancellationToken::new(),
            allocation: Arc::default(),
            definitions: Mutex::default(),
            purged: AtomicI64::new(0),
            webhooks: Webhooks::default(),
            policies: Policies::default(),
            serialized: SerializedObjects::default(),
            request_counts: request_counts::RequestCounts::default(),
            aggregation: Aggregation::new(FrontProxy::open(directory)?),
        });
        futures::executor::block_on(bootstrap::run(
            &server,
            if config.port == 0 { 6443 } else { config.port },
            &authority.ca_pem,
        ))
        .map_err(|error| OpenError::Bootstrap(error.to_string()))?;
        Ok(Self { server, authority: Arc::new(authority) })
    }

    /// The server as a router. The caller is the extension [`Identity`] of the request, which only code in this
    /// process can set; without it, the request is authenticated by its headers.
    pub fn router(&self) -> Router {
        let server = self.server.clone();
        Router::new().fallback(move |request: Request| {
            let server = server.clone();
            async move { server.handle(request).await }
        })
    }

    /// An in-process client of this server, without a socket.
    pub fn client(&self, identity: Identity) -> kube::Client {
        let service = tower::ServiceBuilder::new()
            .map_request(move |mut request: http::Request<kube::client::Body>| {
                request.extensions_mut().insert(identity.clone());
                request.map(axum::body::Body::new)
            })
            .service(self.router());
        kube::Client::new(service, "default")
    }

    /// Serves HTTPS on a listener until [`ApiServer::shutdown`]. Call it inside a tokio runtime, once per
    /// listener.
    pub fn serve(&self, listener: std::net::TcpListener) -> std::io::Result<tokio::task::JoinHandle<()>> {
        self.serve_router(self.router(), listener)
    }

    /// As [`ApiServer::serve`], with a router of the caller: one that counts or fails requests before it
    /// passes them to [`ApiServer::router`].
    pub fn serve_router(
        &self,
        router: Router,
        listener: std::net::TcpListener,
    ) -> std::io::Result<tokio::task::JoinHandle<()>> {
        https::start(router, self.authority.config.clone(), listener, self.server.shutdown.clone())
    }

    /// Connects the node that runs the pods: enables logs, exec and proxy.
    pub fn set_backend(&self, backend: Arc<dyn NodeBackend>) {
        *self.server.backend.write().unwrap_or_else(PoisonError::into_inner) = Some(backend);
    }

    /// Accepts the tokens of another issuer from now on.
    pub fn set_authenticator(&self, authenticator: Arc<dyn TokenAuthenticator>) {
        *self.server.authenticator.write().unwrap_or_else(PoisonError::into_inner) = Some(authenticator);
    }

    /// A kubeconfig of the cluster administrator for a server at this address.
    pub fn admin_kubeconfig(&self, address: SocketAddr) -> String {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {},
            "clusters": [{ "name": "olm", "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": STANDARD.encode(&self.authority.ca_pem),
            } }],
            "users": [{ "name": "olm-admin", "user": { "token": self.server.tokens.admin() } }],
            "contexts": [{ "name": "olm", "context": { "cluster": "olm", "user": "olm-admin", "namespace": "default" } }],
            "current-context": "olm",
        });
        serde_yaml::to_string(&config).unwrap_or_else(|_| config.to_string())
    }

    /// The certificate of the cluster's authority, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.authority.ca_pem
    }

    /// The administrator's bearer token.
    pub fn admin_token(&self) -> &str {
        self.server.tokens.admin()
    }

    /// Ends all watches and connections, writes pending data to disk and closes the data directory.
    pub fn shutdown(&self) {
        self.server.shutdown.cancel();
        self.server.store.shutdown();
    }
}
