//! The cluster network: a separate network namespace of the node, in which every socket of the cluster is
//! created.
//!
//! One thread runs in that namespace with a small runtime. Sockets stay in the namespace they were created
//! in, so the rest of the process stays in the host's namespace and still serves and dials inside the
//! cluster. It is not visible on the host, any number of clusters run in parallel, and the kernel removes
//! everything with the last process, however that ended.
//!
//! Cluster IPs are not assigned to an interface: one `local` route makes the whole service range local to the
//! node, and a port without a listener answers with a reset, as with kube-proxy.

pub(crate) mod cut;
pub(crate) mod dns;
mod host;
mod ip_pool;
mod link;
pub(crate) mod loopback;
pub(crate) mod proxy;
pub(crate) mod zone;

use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{net::TcpStream, runtime::Handle, sync::oneshot};

use ip_pool::IpPool;

/// Address of the node in the cluster network, and the pods' gateway.
pub const NODE_IP: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// Prefix length of the pods' network.
const POD_PREFIX: u8 = 24;
/// The range of the cluster IPs.
const SERVICE_RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 16);

/// A failed operation of the cluster network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A system call failed.
    #[error("failed to {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The kernel refused a change of interfaces, addresses or routes.
    #[error("failed to {what}: {source}")]
    Netlink {
        /// The operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: rtnetlink::Error,
    },
    /// A newly created interface is missing.
    #[error("the network interface {0} is missing")]
    NoInterface(String),
    /// Every pod address is in use.
    #[error("all 253 pod addresses are in use; delete pods first")]
    NoAddress,
    /// The rules of a cut were refused.
    #[error("{0}")]
    Nft(String),
    /// The network's thread ended.
    #[error("the cluster network is stopped")]
    Gone,
}

pub(crate) fn system(what: &'static str) -> impl Fn(std::io::Error) -> NetworkError {
    move |source| NetworkError::System { what, source }
}

/// The node's network namespace.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Handle,
    links: rtnetlink::Handle,
    bridge: u32,
    pool: Mutex<IpPool>,
    /// Addresses of the service range with a listener other than the proxy.
    reserved: Mutex<HashSet<SocketAddrV4>>,
    /// The thread ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// The network of one pod. The address returns to the pool when this is dropped.
pub(crate) struct PodNetwork {
    pub(crate) namespace: Arc<OwnedFd>,
    pub(crate) ip: Ipv4Addr,
    network: Network,
}

impl Drop for PodNetwork {
    fn drop(&mut self) {
        lock(&self.network.shared.pool).release(self.ip, Instant::now());
    }
}

impl Network {
    /// Creates the namespace with its bridge; needs the privileges that
    /// [`Capability::probe`](super::Capability::probe) tests.
    pub async fn start() -> Result<Self, NetworkError> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (report, result) = oneshot::channel();
        std::thread::Builder::new()
            .name("olm-network".to_owned())
            .spawn(move || match link::enter_new_namespace() {
                Err(error) => {
                    let _ = report.send(Err(error));
                }
                Ok(runtime) => runtime.block_on(async {
                    let made = link::make_node().await;
                    let _ = report.send(made.map(|(links, bridge)| (Handle::current(), links, bridge)));
                    // Other tasks of this runtime run while this one waits for the end.
                    let _ = stopped.await;
                }),
            })
            .map_err(system("start the network's thread"))?;
        let (runtime, links, bridge) = result.await.map_err(|_| NetworkError::Gone)??;
        Ok(Self {
            shared: Arc::new(Shared {
                runtime,
                links,
                bridge,
                pool: Mutex::default(),
                reserved: Mutex::default(),
                _stop: stop,
            }),
        })
    }

    /// Listens on an address of the cluster network: [`NODE_IP`] or any cluster IP. The Service proxy does
    /// not use it then.
    pub async fn listen(&self, address: SocketAddrV4) -> Result<std::net::TcpListener, NetworkError> {
        lock(&self.shared.reserved).insert(address);
        let bound = self.inside(async move { std::net::TcpListener::bind(address) }).await?;
        let listener = bound.map_err(system("listen in the cluster network"))?;
        listener.set_nonblocking(true).map_err(system("listen in the cluster network"))?;
        Ok(listener)
    }

    /// Opens a connection from the node into the cluster network.
    pub async fn dial(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let connecting = async move { TcpStream::connect(address).await?.into_std() };
        // The stream moves to the caller's runtime.
        TcpStream::from_std(self.inside(connecting).await.map_err(std::io::Error::other)??)
    }

    pub(crate) fn is_reserved(&self, address: SocketAddrV4) -> bool {
        lock(&self.shared.reserved).contains(&address)
    }

    pub(crate) fn reserve(&self, address: SocketAddrV4) {
        lock(&self.shared.reserved).insert(address);
    }

    /// Runs a task in the network namespace.
    pub(crate) fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.shared.runtime.spawn(task)
    }

    async fn inside<F>(&self, task: F) -> Result<F::Output, NetworkError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        struct AbortOnDrop(tokio::task::AbortHandle);
        impl Drop for AbortOnDrop {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let running = self.spawn(task);
        let _guard = AbortOnDrop(running.abort_handle());
        running.await.map_err(|_| NetworkError::Gone)
    }

    /// Creates a network namespace with an address for a pod, connected to the bridge.
    pub(crate) async fn attach_pod(&self) -> Result<PodNetwork, NetworkError> {
        let ip = lock(&self.shared.pool).take(Instant::now()).ok_or(NetworkError::NoAddress)?;
        let (links, bridge) = (self.shared.links.clone(), self.shared.bridge);
        let made = self.inside(async move { link::make_pod(&links, bridge, ip).await }).await;
        match made.and_then(|made| made) {
            Ok(namespace) => Ok(PodNetwork { namespace: Arc::new(namespace), ip, network: self.clone() }),
            Err(error) => {
                lock(&self.shared.pool).release(ip, Instant::now());
                Err(error)
            }
        }
    }
}

impl PodNetwork {
    /// Cuts the pod off, replacing an earlier cut; `None` connects it again.
    pub(crate) async fn cut(
        &self,
        cut: Option<&cut::Cut>,
        earlier: Option<&cut::Cut>,
    ) -> Result<(), NetworkError> {
        let needs_rules = |cut: Option<&cut::Cut>| cut.is_some_and(|cut| *cut != cut::Cut::Everything);
        if needs_rules(cut) || needs_rules(earlier) {
            let namespace = Arc::clone(&self.namespace);
            let child = self.network.inside(async move { cut::start_nft(&namespace) }).await??;
            let script = cut::script(self.ip, cut);
            let finished = tokio::task::spawn_blocking(move || cut::finish_nft(child, &script)).await;
            finished.map_err(|_| NetworkError::Gone)??;
        }
        let (links, ip) = (self.network.shared.links.clone(), self.ip);
        let up = cut != Some(&cut::Cut::Everything);
        self.network.inside(async move { cut::set_link(&links, ip, up).await }).await?
    }
}

/// A fixed MAC address for each pod address, so that ARP caches stay valid.
fn mac_of(ip: Ipv4Addr) -> Vec<u8> {
    let mut mac = vec![0x0a, 0x58];
    mac.extend(ip.octets());
    mac
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
