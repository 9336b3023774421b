//! The Service proxy: the function of kube-proxy, with sockets instead of kernel rules.
//!
//! A port of a Service has a listener as long as it has an endpoint; without one the kernel refuses
//! connections. When a connect to an endpoint fails, the next endpoint is tried; a connection whose endpoint
//! left the Service is closed. UDP is not proxied.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr, SocketAddrV4},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{
    Network,
    zone::{Key, PortInfo, Zone},
};

/// Timeout of a connect to one endpoint before the next is tried.
const CONNECT: Duration = Duration::from_secs(1);

/// Current endpoints of one port of one Service.
#[derive(Default)]
struct Backends {
    ready: Vec<SocketAddrV4>,
    affinity: Option<u64>,
    next: AtomicUsize,
    sticky: HashMap<IpAddr, (SocketAddrV4, Instant)>,
    /// Cancelled when an endpoint leaves the Service.
    connections: HashMap<SocketAddrV4, CancellationToken>,
}

struct Port {
    owner: (Key, PortInfo),
    backends: Arc<Mutex<Backends>>,
    listener: Option<CancellationToken>,
}

impl Drop for Port {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.cancel();
        }
        for life in lock(&self.backends).connections.values() {
            life.cancel();
        }
    }
}

pub(crate) struct Proxy {
    network: Network,
    ports: HashMap<SocketAddrV4, Port>,
    warned: HashSet<Key>,
}

impl Proxy {
    pub(crate) fn new(network: Network) -> Self {
        Self { network, ports: HashMap::new(), warned: HashSet::new() }
    }

    /// Updates the listeners to the zone.
    pub(crate) async fn sync(&mut self, zone: &Zone) {
        let mut wanted: HashMap<SocketAddrV4, (Key, PortInfo)> = HashMap::new();
        for (key, service) in &zone.services {
            let Some(ip) = service.ip else { continue };
            for port in &service.ports {
                let address = SocketAddrV4::new(ip, port.port);
                if self.network.is_reserved(address) {
                    continue;
                }
                if port.protocol != "TCP" {
                    if self.warned.insert(key.clone()) {
                        tracing::warn!(
                            namespace = key.0,
                            service = key.1,
                            port = port.port,
                            protocol = port.protocol,
                            "the dev cluster supports only TCP ports of Services; this port is not \
                             reachable through its cluster IP"
                        );
                    }
                    continue;
                }
                wanted.insert(address, (key.clone(), port.clone()));
            }
        }
        self.warned.retain(|key| zone.services.contains_key(key));
        self.ports.retain(|address, port| wanted.get(address) == Some(&port.owner));
        for (address, owner) in wanted {
            let port = self.ports.entry(address).or_insert_with(|| Port {
                owner,
                backends: Arc::default(),
                listener: None,
            });
            let usable = port.update(zone);
            match (&port.listener, usable) {
                // Connections live on while their endpoint belongs to the Service, ready or not.
                (Some(listener), false) => {
                    listener.cancel();
                    port.listener = None;
                }
                (None, true) => {
                    let bound = self.network.inside(async move { bind(address).await }).await;
                    match bound.map_err(std::io::Error::other).and_then(|bound| bound) {
                        Ok(listener) => {
                            let stop = CancellationToken::new();
                            port.listener = Some(stop.clone());
                            let backends = Arc::clone(&port.backends);
                            self.network.spawn(async move { accept(listener, backends, stop).await });
                        }
                        Err(error) => tracing::warn!(%address, %error, "failed to listen for a Service"),
                    }
                }
                _ => {}
            }
        }
    }
}

/// The previous listener may not be closed yet: its task has to observe the cancellation first.
async fn bind(address: SocketAddrV4) -> std::io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tries < 20 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            other => return other,
        }
    }
}

impl Port {
    /// Updates the endpoints from the zone; returns whether one is available.
    fn update(&self, zone: &Zone) -> bool {
        let all = zone.endpoints(&self.owner.0, &self.owner.1, true);
        let mut backends = lock(&self.backends);
        backends.ready = zone.endpoints(&self.owner.0, &self.owner.1, false);
        backends.affinity = zone.services.get(&self.owner.0).and_then(|service| service.affinity);
        backends.connections.retain(|address, life| {
            let stays = all.contains(address);
            if !stays {
                life.cancel();
            }
            stays
        });
        let now = Instant::now();
        let Backends { ready, sticky, .. } = &mut *backends;
        sticky.retain(|_, (address, until)| *until > now && ready.contains(address));
        !ready.is_empty()
    }
}

async fn accept(listener: TcpListener, backends: Arc<Mutex<Backends>>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, peer)) => {
                let backends = Arc::clone(&backends);
                tokio::spawn(async move { forward(client, peer, &backends).await });
            }
            // Most likely out of file descriptors: wait until some are free again.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn forward(mut client: TcpStream, peer: SocketAddr, backends: &Mutex<Backends>) {
    let addresses = order(&mut lock(backends), peer.ip(), Instant::now());
    for address in addresses {
        let Ok(Ok(mut server)) = tokio::time::timeout(CONNECT, connect(&client, address)).await else {
            continue;
        };
        let life = {
            let mut backends = lock(backends);
            if let Some(seconds) = backends.affinity {
                let until = Instant::now() + Duration::from_secs(seconds);
                backends.sticky.insert(peer.ip(), (address, until));
            }
            backends.connections.entry(address).or_default().clone()
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        tokio::select! {
            () = life.cancelled() => {
                reset(&client);
                reset(&server);
            }
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        }
        return;
    }
    reset(&client);
}

/// Connects to an endpoint from the address of the Service, which distinguishes these connections from the
/// node's probes.
async fn connect(client: &TcpStream, endpoint: SocketAddrV4) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(client.local_addr()?.ip(), 0))?;
    socket.connect(endpoint.into()).await
}

/// Makes the peer see a reset when the stream is dropped: "refused", not "ended".
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// The endpoints in the order to try them.
fn order(backends: &mut Backends, client: IpAddr, now: Instant) -> Vec<SocketAddrV4> {
    let count = backends.ready.len();
    if count == 0 {
        return Vec::new();
    }
    let sticky = backends.affinity.and_then(|_| backends.sticky.get(&client));
    let sticky = sticky.filter(|(_, until)| *until > now).map(|(address, _)| *address);
    let start = sticky
        .and_then(|address| backends.ready.iter().position(|ready| *ready == address))
        .unwrap_or_else(|| backends.next.fetch_add(1, Ordering::Relaxed) % count);
    (0..count).map(|step| backends.ready[(start + step) % count]).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_rotate_and_session_affinity_is_respected() {
        // given three endpoints
        let ready: Vec<SocketAddrV4> =
            (5..8).map(|host| format!("10.244.0.{host}:80").parse().unwrap()).collect();
        let mut backends = Backends { ready: ready.clone(), ..Backends::default() };
        let (client, now) = (IpAddr::from([10, 244, 0, 9]), Instant::now());
        // when connections arrive, then each starts with the next one and has the others as fallback
        assert_eq!(order(&mut backends, client, now), [ready[0], ready[1], ready[2]]);
        assert_eq!(order(&mut backends, client, now), [ready[1], ready[2], ready[0]]);
        // when the client has affinity to one, then it starts there until that expires
        backends.affinity = Some(10);
        backends.sticky.insert(client, (ready[2], now + Duration::from_secs(10)));
        assert_eq!(order(&mut backends, client, now)[0], ready[2]);
    }
}
