//! Serves connections such that no client can starve the others: a request has to arrive in time, a response
//! has to be read in time, and the number of connections is limited.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::Router;
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::{
    client::{ClientAddress, Peer},
    stalled::WriteDeadline,
};

/// How long requests in flight may take after shutdown begins.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of concurrent connections.
    pub(crate) total: usize,
    /// Maximum per client address.
    pub(crate) per_client: usize,
    /// Maximum number of connections without a complete request.
    pub(crate) waiting: usize,
    /// Time for the head of a request, from the start of the connection or the end of the previous response.
    pub(crate) head: Duration,
    /// Time in which a client must read a part of a pending response.
    pub(crate) write: Duration,
}

impl Limits {
    pub(crate) const DEFAULT: Self = Self {
        total: 768,
        per_client: 384,
        waiting: 192,
        head: Duration::from_secs(10),
        write: Duration::from_secs(60),
    };
}

pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let connections = Connections::new(limits);
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // For example out of file descriptors, which can be temporary.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = shutdown.cancelled() => break,
        };
        // Closing the connection is the only response to a client with too many.
        let Some(slot) = connections.admit(peer.ip().into()) else { continue };
        let _ = stream.set_nodelay(true);
        let stream = WriteDeadline::new(stream, limits.write);
        let (router, watcher, tls) = (router.clone(), graceful.watcher(), tls.clone());
        let evicted = slot.evicted.clone();
        tokio::spawn(async move {
            let served = async {
                let Some(tls) = tls else {
                    return watcher.watch(serve_connection(stream, peer, router, &slot, limits)).await;
                };
                match tokio::time::timeout(limits.head, tls.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        watcher.watch(serve_connection(stream, peer, router, &slot, limits)).await
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(%error, %peer, "TLS handshake failed");
                        Ok(())
                    }
                    Err(_) => Ok(()),
                }
            };
            tokio::select! {
                result = served => if let Err(error) = result {
                    tracing::debug!(%error, %peer, "connection ended");
                },
                () = evicted.cancelled() => tracing::debug!(%peer, "closed a connection without a request"),
            }
            drop(slot);
        });
    }
    let _ = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
}

fn serve_connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    slot: &Arc<ConnectionSlot>,
    limits: Limits,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> + Send + use<S> {
    let io = TokioIo::new(stream);
    let slot = Arc::clone(slot);
    let service = service_fn(move |mut request: Request<Incoming>| {
        slot.request_received();
        request.extensions_mut().insert(Peer(peer));
        let answer = router.clone().call(request);
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|never| match never {})) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .serve_connection(io, service)
}

struct Connections {
    limits: Limits,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next: u64,
    open: Vec<OpenConnection>,
}

struct OpenConnection {
    id: u64,
    client: ClientAddress,
    /// Cancelled to close the connection; absent once it has sent a request.
    waiting: Option<CancellationToken>,
}

/// An admitted connection; dropping it frees its slot.
struct ConnectionSlot {
    id: u64,
    state: Arc<Mutex<State>>,
    evicted: CancellationToken,
}

impl Connections {
    fn new(limits: Limits) -> Self {
        Self { limits, state: Arc::default() }
    }

    /// Admits a connection. At a limit it replaces a connection without a request: the oldest one of the
    /// client that has the most of them.
    fn admit(&self, client: ClientAddress) -> Option<Arc<ConnectionSlot>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = state.open.iter().filter(|open| open.client == client).count();
        if of_client >= self.limits.per_client && !state.evict(|open| open.client == client) {
            return None;
        }
        let waiting = state.open.iter().filter(|open| open.waiting.is_some()).count();
        let full = waiting >= self.limits.waiting || state.open.len() >= self.limits.total;
        if full && !state.evict(|_| true) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let evicted = CancellationToken::new();
        state.open.push(OpenConnection { id, client, waiting: Some(evicted.clone()) });
        Some(Arc::new(ConnectionSlot { id, state: Arc::clone(&self.state), evicted }))
    }
}

impl State {
    /// Closes one of the connections without a request; false if there is none.
    fn evict(&mut self, among: impl Fn(&OpenConnection) -> bool) -> bool {
        let waiting = || self.open.iter().filter(|open| open.waiting.is_some() && among(open));
        let count = |client: ClientAddress| waiting().filter(|open| open.client == client).count();
        // Of equals, `max_by_key` returns the last: reversed from newest to oldest, the last is the oldest.
        let Some(id) = waiting().rev().max_by_key(|open| count(open.client)).map(|open| open.id) else {
            return false;
        };
        if let Some(at) = self.open.iter().position(|open| open.id == id)
            && let Some(token) = self.open.remove(at).waiting
        {
            token.cancel();
        }
        true
    }
}

impl ConnectionSlot {
    /// A complete request has arrived: the connection is no longer evicted.
    fn request_received(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = state.open.iter_mut().find(|open| open.id == self.id) {
            open.waiting = None;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).open.retain(|open| open.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(last: u8) -> ClientAddress {
        IpAddr::from([192, 0, 2, last]).into()
    }

    #[test]
    fn a_client_with_many_half_open_connections_makes_room_for_others() {
        let limits = Limits { total: 10, per_client: 8, waiting: 4, ..Limits::DEFAULT };
        let connections = Connections::new(limits);
        let other = connections.admit(client(2)).unwrap();
        let attacker: Vec<_> = (0..3).map(|_| connections.admit(client(1)).unwrap()).collect();
        // when one more connection arrives than may wait, then the oldest of the client with the most is
        // closed
        let third = connections.admit(client(3)).unwrap();
        assert!(attacker[0].evicted.is_cancelled() && !attacker[1].evicted.is_cancelled());
        assert!(!other.evicted.is_cancelled() && !third.evicted.is_cancelled());
        // and a connection that has sent a request is never evicted
        third.request_received();
        for _ in 0..20 {
            drop(connections.admit(client(1)));
        }
        assert!(!third.evicted.is_cancelled());
    }

    #[test]
    fn connections_are_limited_in_all_and_of_a_client() {
        let limits = Limits { total: 3, per_client: 2, waiting: 3, ..Limits::DEFAULT };
        let connections = Connections::new(limits);
        let busy = |last| {
            let slot = connections.admit(client(last))?;
            slot.request_received();
            Some(slot)
        };
        let (first, _second) = (busy(1).unwrap(), busy(1).unwrap());
        assert!(busy(1).is_none(), "a third of one client");
        let _other = busy(2).unwrap();
        assert!(busy(3).is_none(), "a fourth in all");
        drop(first);
        assert!(busy(3).is_some(), "the place is free again");
    }
}
