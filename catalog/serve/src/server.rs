//! One catalog on its own ports.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use olm_catalog::Catalog;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;

use crate::current::Current;
use crate::{grpc, http, names};

/// Grace period for calls in flight on shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// Detects a client that has disconnected silently: its stream holds resources.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Listen addresses; an API with `None` is not served.
#[derive(Debug, Clone, Copy, Default)]
pub struct Addresses {
    pub http: Option<SocketAddr>,
    /// Of the gRPC API; 50051 is the port that clients expect.
    pub grpc: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The name is not usable in a path of the HTTP API.
    #[error("failed to serve the catalog: {0}")]
    Name(String),
    /// Binding failed.
    #[error(
        "failed to listen on {address} for {protocol}: {source}; use another address, or port 0 for a free \
         port"
    )]
    Bind {
        address: SocketAddr,
        /// The API of that address.
        protocol: &'static str,
        source: io::Error,
    },
    /// The descriptors for reflection are invalid.
    #[error("failed to prepare gRPC reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The server failed.
    #[error("failed to serve {protocol}: {message}")]
    Run { protocol: &'static str, message: String },
}

/// Bound sockets and the catalog to serve there.
pub struct Server {
    http: Option<(TcpListener, axum::Router)>,
    grpc: Option<(TcpListener, Routes)>,
    bound: Addresses,
    current: Current,
}

impl Server {
    /// Binds the addresses. In paths of the HTTP API the catalog has the given name, in no namespace.
    /// # Errors
    /// When the name is invalid for a catalog, or binding fails.
    pub async fn bind(catalog: Arc<Catalog>, name: &str, addresses: Addresses) -> Result<Self, ServeError> {
        names::catalog(name).map_err(ServeError::Name)?;
        let current = Current::new(catalog);
        let mut server =
            Self { http: None, grpc: None, bound: Addresses::default(), current: current.clone() };
        if let Some(address) = addresses.http {
            let (listener, bound) = listen(address, "HTTP").await?;
            let (current, name) = (current.clone(), name.to_owned());
            let find = move |namespace: Option<&str>, wanted: &str| {
                (namespace.is_none() && wanted == name).then(|| current.get())
            };
            server.http = Some((listener, http::router(find)));
            server.bound.http = Some(bound);
        }
        if let Some(address) = addresses.grpc {
            let (listener, bound) = listen(address, "gRPC").await?;
            server.grpc = Some((listener, grpc::registry(current).await?));
            server.bound.grpc = Some(bound);
        }
        Ok(server)
    }

    /// The bound addresses, with the actual port in place of port 0.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.bound
    }

    /// The served catalog, which may be replaced.
    #[must_use]
    pub fn current(&self) -> Current {
        self.current.clone()
    }

    /// Serves until `shutdown` completes. Calls in flight then have a few seconds to end.
    /// # Errors
    /// When a server fails.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (stop, stopped) = watch::channel(false);
        let until = || {
            let mut stopped = stopped.clone();
            // An error means that the sender is gone, which stops the server as well.
            async move { _ = stopped.wait_for(|stop| *stop).await }
        };
        let http = async {
            let Some((listener, router)) = self.http else { return Ok(()) };
            // Without it small answers wait for the acknowledgement of previous ones, 40 ms each.
            let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
            let served = axum::serve(listener, router).with_graceful_shutdown(until()).await;
            served.map_err(|error| ServeError::Run { protocol: "HTTP", message: error.to_string() })
        };
        let grpc = async {
            let Some((listener, routes)) = self.grpc else { return Ok(()) };
            let mut server = tonic::transport::Server::builder().http2_keepalive_interval(Some(KEEPALIVE));
            let server = server.add_routes(routes);
            let served = server
                .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), until())
                .await;
            served.map_err(|error| ServeError::Run { protocol: "gRPC", message: error.to_string() })
        };
        let both = async { tokio::try_join!(http, grpc).map(|_| ()) };
        tokio::pin!(both);
        tokio::select! {
            ended = &mut both => return ended,
            () = shutdown => {
                _ = stop.send(true);
            }
        }
        // Remaining readers are disconnected.
        tokio::time::timeout(GRACE, both).await.unwrap_or(Ok(()))
    }
}

async fn listen(
    address: SocketAddr,
    protocol: &'static str,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Bind { address, protocol, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Serves a catalog until `shutdown` completes; [`Server`] in one call.
/// # Errors
/// As [`Server::bind`] and [`Server::run`].
pub async fn serve(
    catalog: Arc<Catalog>,
    name: &str,
    addresses: Addresses,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    Server::bind(catalog, name, addresses).await?.run(shutdown).await
}

#[cfg(test)]
mod tests;
