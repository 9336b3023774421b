//! The registered extension API servers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::Value;

use super::{front::FrontProxy, remote::Remote};
use crate::{resource::Resource, store::Store};

/// Group of APIServices.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";

/// Where APIServices are stored.
pub(crate) const STORED: &str = "apiregistration.k8s.io/apiservices";

/// Extension API servers, by group and version.
type Remotes = BTreeMap<(String, String), Arc<Remote>>;

/// State of APIServices for requests and discovery; a changed APIService replaces it.
pub(crate) struct Aggregation {
    front: FrontProxy,
    remotes: RwLock<Arc<Remotes>>,
    /// Discovery documents, by name of the APIService.
    documents: RwLock<BTreeMap<String, Arc<RemoteDocuments>>>,
    /// Whether any remote exists: the only check on the path of every request.
    pub(super) any: AtomicBool,
    pub(super) watched: AtomicBool,
    /// Held while the local APIServices are updated.
    pub(super) sync_lock: tokio::sync::Mutex<()>,
}

impl Aggregation {
    pub(crate) fn new(front: FrontProxy) -> Self {
        Self {
            front,
            remotes: RwLock::default(),
            documents: RwLock::default(),
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
        let mut documents = self.documents.write().unwrap_or_else(PoisonError::into_inner);
        documents.retain(|name, _| remotes.values().any(|remote| remote.name == *name));
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

    pub(crate) fn documents(&self, name: &str) -> Option<Arc<RemoteDocuments>> {
        self.documents.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(super) fn set_documents(&self, name: &str, documents: Option<RemoteDocuments>) {
        let mut all = self.documents.write().unwrap_or_else(PoisonError::into_inner);
        match documents {
            Some(documents) => all.insert(name.to_owned(), Arc::new(documents)),
            None => all.remove(name),
        };
    }
}

/// Whether a write affects the routing of paths.
pub(crate) fn concerns(resource: &Resource) -> bool {
    resource.is(GROUP, "apiservices")
}

/// Documents of an API server as of its last check.
#[derive(Debug, Default)]
pub(crate) struct RemoteDocuments {
    /// Resources in the form of aggregated discovery.
    pub resources: Vec<Value>,
    /// The path of its OpenAPI document, with the hash of its content.
    pub openapi: Option<String>,
}
