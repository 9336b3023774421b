//! TLS connections and their callers.

use std::{sync::Arc, time::Duration};

use axum::{Extension, Router};
use http::HeaderMap;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rustls::{ServerConfig, pki_types::CertificateDer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{packages::FrontProxy, reviews::User};

/// Time limit of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long responses in progress are awaited on shutdown.
const DRAIN: Duration = Duration::from_millis(500);
/// Maximum number of connections. The API servers of a cluster open a few and reuse them.
const CONNECTIONS: usize = 64;

/// TLS settings of a connection.
pub(super) struct Settings {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) front: Arc<FrontProxy>,
}

/// The settings of new connections; empty before there is a certificate.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) settings: watch::Receiver<Option<Arc<Settings>>>,
    /// Notified when a client was not authenticated: the known authorities may be outdated.
    pub(super) stranger: Arc<Notify>,
}

/// The client of a connection.
#[derive(Clone)]
pub(crate) struct Caller {
    front: Arc<FrontProxy>,
    certificate: Option<CertificateDer<'static>>,
    stranger: Arc<Notify>,
}

impl Caller {
    /// The user of its request.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let user = self.front.user(self.certificate.as_ref(), headers);
        if user.is_none() {
            self.stranger.notify_one();
        }
        user
    }

    #[cfg(test)]
    pub(crate) fn new(front: FrontProxy, certificate: Option<CertificateDer<'static>>) -> Self {
        Self { front: Arc::new(front), certificate, stranger: Arc::default() }
    }
}

/// Serves until `stop`.
pub(super) async fn serve(listener: TcpListener, current: Current, router: Router, stop: &CancellationToken) {
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection of the API server");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        // A caller that is too early, or beyond the limit, retries.
        let Some(settings) = current.settings.borrow().clone() else { continue };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        let (router, watcher, stop) = (router.clone(), graceful.watcher(), stop.clone());
        let stranger = Arc::clone(&current.stranger);
        tokio::spawn(async move {
            let _slot = slot;
            let Some((stream, caller)) = tls_handshake(stream, &settings, stranger).await else { return };
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new());
            builder.http2().timer(TokioTimer::new());
            let service = TowerToHyperService::new(router.layer(Extension(caller)));
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            let served = watcher.watch(connection.into_owned());
            tokio::select! {
                result = served => if let Err(error) = result {
                    tracing::debug!(%error, "a connection of the API server failed");
                },
                () = async { stop.cancelled().await; tokio::time::sleep(DRAIN).await } => {}
            }
        });
    }
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
}

async fn tls_handshake(
    stream: TcpStream,
    settings: &Settings,
    stranger: Arc<Notify>,
) -> Option<(tokio_rustls::server::TlsStream<TcpStream>, Caller)> {
    let _ = stream.set_nodelay(true);
    let accepted = TlsAcceptor::from(Arc::clone(&settings.tls)).accept(stream);
    let stream = match tokio::time::timeout(HANDSHAKE, accepted).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake with the API server failed");
            stranger.notify_one();
            return None;
        }
        Err(_) => return None,
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certificate = shown.map(|certificate| certificate.clone().into_owned());
    let caller = Caller { front: Arc::clone(&settings.front), certificate, stranger };
    Some((stream, caller))
}
