//! Serves HTTPS on a listener: HTTP/1.1 and HTTP/2.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Drain time: long enough for a request in progress, short enough for Ctrl-C.
const DRAIN: Duration = Duration::from_millis(500);

/// Serves until the token is cancelled.
pub(crate) fn start(
    router: Router,
    config: Arc<ServerConfig>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(tokio::spawn(accept(router, TlsAcceptor::from(config), listener, shutdown)))
}

async fn accept(
    router: Router,
    tls: TlsAcceptor,
    listener: tokio::net::TcpListener,
    shutdown: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // For example out of file descriptors: retry after a moment.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => break,
        };
        let _ = stream.set_nodelay(true);
        let (tls, router, watcher) = (tls.clone(), router.clone(), graceful.watcher());
        let stop = shutdown.clone();
        tokio::spawn(async move {
            let handshake = tokio::time::timeout(HANDSHAKE, tls.accept(stream));
            let stream = match handshake.await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return,
            };
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new());
            builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1000);
            let connection = builder
                .serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(router));
            let served = watcher.watch(connection.into_owned());
            tokio::select! {
                result = served => if let Err(error) = result {
                    tracing::debug!(error = %error, "connection ended");
                },
                () = async { stop.cancelled().await; tokio::time::sleep(DRAIN).await } => {}
            }
        });
    }
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
}
