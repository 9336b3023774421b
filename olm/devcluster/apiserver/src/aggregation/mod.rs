//! API aggregation: extension API servers behind this one, registered by APIServices.
//!
//! * [`local`]: APIServices for this server's own groups
//! * [`remote`]: extension API servers with their endpoints; [`availability`]: their health; [`proxy`]:
//!   requests to them
//! * [`front`]: this server's authentication at them; [`discovery`]: their discovery documents;
//!   [`rules`](mod@rules): validation of APIServices

mod availability;
mod discovery;
mod front;
mod local;
mod proxy;
mod remote;
mod rules;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

pub(crate) use self::{
    discovery::{Offered, fetch_openapi, merge_groups},
    front::FrontProxy,
    local::{STORED, sync},
    proxy::forward,
    remote::Remote,
    rules::{defaults, prepare, rules},
};
use super::{registry::Resource, server::Server, store::Store};

/// Group of APIServices.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";

/// Extension API servers, by group and version.
type Remotes = BTreeMap<(String, String), Arc<Remote>>;

/// State of APIServices for requests and discovery; a changed APIService replaces it.
pub(crate) struct Aggregation {
    front: FrontProxy,
    remotes: RwLock<Arc<Remotes>>,
    /// Discovery documents, by name of the APIService.
    offered: RwLock<BTreeMap<String, Arc<Offered>>>,
    /// Whether any remote exists: the only check on the path of every request.
    any: AtomicBool,
    watched: AtomicBool,
    /// Held while the local APIServices are updated.
    sync_lock: tokio::sync::Mutex<()>,
}

impl Aggregation {
    pub(crate) fn new(front: FrontProxy) -> Self {
        Self {
            front,
            remotes: RwLock::default(),
            offered: RwLock::default(),
            any: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            sync_lock: tokio::sync::Mutex::default(),
        }
    }

    /// The certificates in the ConfigMap `extension-apiserver-authentication`.
    pub(crate) fn front(&self) -> &FrontProxy {
        &self.front
    }

    /// Reloads the APIServices from the store.
    pub(crate) fn reload(&self, store: &Store) {
        // The lock is held during the read: of two concurrent reloads, the last to read is the last to write.
        let mut remotes = self.remotes.write().unwrap_or_else(PoisonError::into_inner);
        let all = store.list(STORED, "").items;
        let found = all.iter().filter_map(|object| Remote::of(object, &self.front));
        *remotes = Arc::new(found.map(|r| ((r.group.clone(), r.version.clone()), Arc::new(r))).collect());
        self.any.store(!remotes.is_empty(), Ordering::Release);
        let mut offered = self.offered.write().unwrap_or_else(PoisonError::into_inner);
        offered.retain(|name, _| remotes.values().any(|remote| remote.name == *name));
    }

    pub(crate) fn remotes(&self) -> Arc<Remotes> {
        self.remotes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The extension API server of a path; `None` when this server serves it.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Remote>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut segments = path.trim_start_matches('/').split('/');
        let (Some("apis"), Some(group), Some(version)) = (segments.next(), segments.next(), segments.next())
        else {
            return None;
        };
        self.remotes().get(&(group.to_owned(), version.to_owned())).cloned()
    }

    pub(crate) fn offered(&self, name: &str) -> Option<Arc<Offered>> {
        self.offered.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn set_offered(&self, name: &str, offered: Option<Offered>) {
        let mut all = self.offered.write().unwrap_or_else(PoisonError::into_inner);
        match offered {
            Some(offered) => all.insert(name.to_owned(), Arc::new(offered)),
            None => all.remove(name),
        };
    }

    /// Starts the availability checks with the first remote; otherwise they cost nothing.
    pub(crate) fn start_checks(server: &Arc<Server>) {
        let me = &server.aggregation;
        if !me.any.load(Ordering::Relaxed) || me.watched.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && !me.watched.swap(true, Ordering::AcqRel)
        {
            runtime.spawn(availability::run(Arc::downgrade(server), server.shutdown.clone()));
        }
    }
}

/// Whether a write affects the routing of paths.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.is(GROUP, "apiservices")
}
