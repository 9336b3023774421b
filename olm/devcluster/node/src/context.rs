//! State shared by the workers of all pods.

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use kube::Client;

use super::{
    events::Events,
    images::Images,
    network::{Network, zone::Zone},
    pod::worker::Handle,
};

/// The agent's internal state.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) network: Network,
    /// The executable of a pod's init process.
    pub(crate) helper: PathBuf,
    pub(crate) events: Events,
    pub(crate) images: Images,
    pub(crate) zone: RwLock<Arc<Zone>>,
    pub(crate) pods_dir: PathBuf,
    pub(crate) domain: String,
    pub(crate) dns_ip: String,
    pub(crate) one_user: bool,
    /// Workers by pod UID.
    pub(crate) workers: Mutex<HashMap<String, Handle>>,
}

impl Context {
    pub(crate) fn zone(&self) -> Arc<Zone> {
        Arc::clone(&self.zone.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Cluster IPs that the node itself serves: the API server and DNS.
    pub(crate) fn own_services(&self) -> Vec<Ipv4Addr> {
        let zone = self.zone();
        let api = zone.services.get(&("default".to_owned(), "kubernetes".to_owned()));
        let api = api.and_then(|service| service.ip);
        api.into_iter().chain(self.dns_ip.parse().ok()).collect()
    }

    pub(crate) fn workers(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
