//! One port for TLS and plain HTTP: a connection that starts with a TLS handshake record is TLS. Probes of
//! the kubelet are plain; requests with a token are refused on plain connections from other machines.
//!
//! The certificate is self-signed and made at the start, as in kube-rbac-proxy and controller-runtime: the
//! API server's service proxy does not verify certificates of Services, and neither does Prometheus by
//! default.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use jiff::Timestamp;
use olm_engine::site::MANAGER;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::NoClientAuth,
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};
use tokio_rustls::TlsAcceptor;

use crate::certs::issue;

/// Time limit for a client to start its request or its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of connections that have not sent anything yet.
const STARTING: usize = 256;
/// The first byte of a TLS handshake record (RFC 8446, 5.1). No HTTP method starts with it.
const TLS_HANDSHAKE: u8 = 22;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
}

impl Peer {
    /// Whether others cannot read the traffic: TLS, or a connection within this machine.
    pub(crate) fn is_private(self) -> bool {
        self.tls || self.address.ip().to_canonical().is_loopback()
    }
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        *stream.remote_addr()
    }
}

/// A connection of either kind.
pub(crate) type Stream = Box<dyn Duplex>;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Connections whose kind is known.
pub(crate) struct Connections {
    local: SocketAddr,
    ready: mpsc::Receiver<(Stream, Peer)>,
}

impl Connections {
    /// Takes over a port, which is released on drop.
    ///
    /// # Errors
    /// When no certificate can be made, or the port has no address.
    pub(crate) fn new(listener: TcpListener, namespace: &str) -> io::Result<Self> {
        let local = listener.local_addr()?;
        let tls = TlsAcceptor::from(Arc::new(settings(namespace).map_err(io::Error::other)?));
        let (sender, ready) = mpsc::channel(1);
        tokio::spawn(accept(listener, tls, sender));
        Ok(Self { local, ready })
    }
}

impl Listener for Connections {
    type Io = Stream;
    type Addr = Peer;

    async fn accept(&mut self) -> (Stream, Peer) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task ends only on drop.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { address: self.local, tls: true })
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, sender: mpsc::Sender<(Stream, Peer)>) {
    let starting = Arc::new(Semaphore::new(STARTING));
    loop {
        let accepted = tokio::select! {
            () = sender.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Beyond the limit a connection is closed; clients retry.
        let Ok(slot) = Arc::clone(&starting).try_acquire_owned() else { continue };
        let (tls, sender) = (tls.clone(), sender.clone());
        tokio::spawn(async move {
            let started = tokio::time::timeout(HANDSHAKE, start(stream, address, tls)).await;
            drop(slot);
            match started {
                Ok(Ok(connection)) => drop(sender.send(connection).await),
                Ok(Err(error)) => tracing::debug!(%error, %address, "failed to start a connection"),
                Err(_) => tracing::debug!(%address, "closed an idle connection"),
            }
        });
    }
}

async fn start(stream: TcpStream, address: SocketAddr, acceptor: TlsAcceptor) -> io::Result<(Stream, Peer)> {
    let _ = stream.set_nodelay(true);
    let mut first = [0];
    let tls = stream.peek(&mut first).await? == 1 && first[0] == TLS_HANDSHAKE;
    let stream: Stream = if tls { Box::new(acceptor.accept(stream).await?) } else { Box::new(stream) };
    Ok((stream, Peer { address, tls }))
}

fn settings(namespace: &str) -> Result<ServerConfig, String> {
    let names = [format!("{MANAGER}.{namespace}.svc"), format!("{MANAGER}.{namespace}.svc.cluster.local")];
    let (_, pair) = issue(&names, Timestamp::now()).map_err(|error| error.to_string())?;
    let provider = Arc::new(ring::default_provider());
    let (chain, key) = pair.certified()?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| error.to_string())?;
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(Arc::new(NoClientAuth))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))));
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}
