//! The metadata of every object of every kind, and the ownership graph.
//!
//! Discovery lists the kinds; each gets one metadata watch. When a CustomResourceDefinition changes,
//! discovery runs again. The garbage collector and the namespace controller use this.

pub(crate) mod graph;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ListParams,
    core::{ApiResource, PartialObjectMeta},
    discovery::{ApiCapabilities, Discovery, Scope, verbs},
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::graph::{Graph, Identity, Node};
use super::error::{During, Error, unless_gone};

/// Interval of discovery without an event, that of Kubernetes' garbage collector. Discovery may list a kind
/// after its definition is established, and foreground deletion never ends for objects of a kind that is not
/// watched.
const REDISCOVER: Duration = Duration::from_secs(30);
/// Delay of discovery after a change of the CRDs, to batch further changes.
const DEBOUNCE: Duration = Duration::from_millis(10);
/// Limit of the wait for the first list of all kinds before workers start.
const FIRST_LISTS: Duration = Duration::from_secs(10);

/// Concurrent lists.
const PARALLEL: usize = 8;

#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    capabilities: Arc<ApiCapabilities>,
}

impl Kind {
    pub(crate) fn supports(&self, verb: &str) -> bool {
        self.capabilities.supports_operation(verb)
    }

    /// A client for objects of this kind, metadata only.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<PartialObjectMeta> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests(api_version: &str, kind: &str, namespaced: bool) -> Self {
        let plural = format!("{}s", kind.to_lowercase());
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self {
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                plural,
            },
            namespaced,
            capabilities: Arc::new(ApiCapabilities {
                scope: if namespaced { Scope::Namespaced } else { Scope::Cluster },
                subresources: Vec::new(),
                operations: Vec::new(),
            }),
        }
    }

    fn id(&self) -> (String, String) {
        (self.resource.api_version.clone(), self.resource.plural.clone())
    }
}

/// A change of an object: its state now (or before it was `removed`), and its previous owners.
pub(crate) struct ObjectChange {
    pub(crate) node: Node,
    pub(crate) removed: bool,
    /// Owners that it no longer has.
    pub(crate) former_owners: Vec<String>,
}

/// Called for every change.
pub(crate) type Listener = Box<dyn Fn(&ObjectChange) + Send + Sync>;

pub(crate) struct Inventory {
    client: Client,
    graph: Mutex<Graph>,
    kinds: Mutex<Vec<Kind>>,
    rediscover: Notify,
    ready: watch::Sender<bool>,
}

impl Inventory {
    pub(crate) fn new(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            graph: Mutex::default(),
            kinds: Mutex::default(),
            rediscover: Notify::new(),
            ready: watch::Sender::new(false),
        })
    }

    /// Without watches: contains these kinds and no objects.
    #[cfg(test)]
    pub(crate) fn for_tests(client: Client, kinds: Vec<Kind>) -> Arc<Self> {
        let inventory = Self::new(client);
        *inventory.kinds.lock().unwrap_or_else(PoisonError::into_inner) = kinds;
        inventory
    }

    pub(crate) fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kinds of the last discovery.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kind of an owner reference.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let same_group = |a: &str, b: &str| {
            let group =
                |text: &str| text.rsplit_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
            group(a) == group(b)
        };
        let kinds = self.kinds();
        kinds
            .into_iter()
            .find(|k| k.resource.kind == kind && same_group(&k.resource.api_version, api_version))
    }

    /// Queries the kinds of the server.
    pub(crate) async fn discover(&self) -> Result<Vec<Kind>, Error> {
        let discovery = match Discovery::new(self.client.clone()).run_aggregated().await {
            Ok(discovery) => discovery,
            // Servers before 1.27.
            Err(_) => {
                Discovery::new(self.client.clone()).run().await.during(|| "discover the kinds".to_owned())?
            }
        };
        let mut kinds = Vec::new();
        for group in discovery.groups() {
            for (resource, capabilities) in group.resources_by_stability() {
                let readable = capabilities.supports_operation(verbs::LIST);
                if readable
                    && capabilities.supports_operation(verbs::DELETE)
                    && !resource.plural.contains('/')
                {
                    kinds.push(Kind {
                        resource,
                        namespaced: capabilities.scope == Scope::Namespaced,
                        capabilities: Arc::new(capabilities),
                    });
                }
            }
        }
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = kinds.clone();
        Ok(kinds)
    }

    /// Queries the server for all objects with this owner: authoritative, where the graph may lag behind.
    pub(crate) async fn find_dependents(&self, owner: &Node) -> Result<Vec<Node>, Error> {
        let namespace = &owner.id.namespace;
        let kinds = self.kinds().into_iter().filter(is_watched);
        let kinds = kinds.filter(|kind| namespace.is_empty() || kind.namespaced);
        let lists: Vec<Result<Vec<Node>, Error>> = futures::stream::iter(kinds)
            .map(|kind| async move {
                let api = kind.api(&self.client, namespace);
                let list = api.list(&ListParams::default()).await;
                let list = unless_gone(list.during(|| format!("list {}", kind.resource.plural)))?;
                let kind = Arc::new(kind);
                let names_owner = |object: &PartialObjectMeta| {
                    object.owner_references().iter().any(|reference| reference.uid == owner.id.uid)
                };
                let items = list.into_iter().flat_map(|list| list.items);
                Ok(items.filter(names_owner).map(|object| node(&kind, &object)).collect())
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let lists: Vec<Vec<Node>> = lists.into_iter().collect::<Result<_, _>>()?;
        Ok(lists.into_iter().flatten().collect())
    }

    /// Waits until all kinds were listed once.
    pub(crate) async fn ready(&self) {
        // The sender lives as long as this inventory.
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Runs one watch per kind until `shutdown`.
    pub(crate) async fn run(self: Arc<Self>, listeners: Vec<Listener>, shutdown: CancellationToken) {
        let listeners = Arc::new(listeners);
        let mut watches: HashMap<(String, String), CancellationToken> = HashMap::new();
        let mut tasks = tokio::task::JoinSet::new();
        let mut delay = Duration::from_millis(50);
        loop {
            match self.discover().await {
                Ok(kinds) => {
                    delay = Duration::from_millis(50);
                    let wanted: HashMap<(String, String), Kind> =
                        kinds.into_iter().filter(is_watched).map(|kind| (kind.id(), kind)).collect();
                    watches.retain(|id, token| {
                        let keep = wanted.contains_key(id);
                        if !keep {
                            token.cancel();
                        }
                        keep
                    });
                    let mut first = Vec::new();
                    for (id, kind) in wanted {
                        watches.entry(id).or_insert_with(|| {
                            let token = shutdown.child_token();
                            let (done, listed) = tokio::sync::oneshot::channel();
                            first.push(listed);
                            tasks.spawn(self.clone().watch(kind, listeners.clone(), done, token.clone()));
                            token
                        });
                    }
                    if !*self.ready.borrow() {
                        // A kind that cannot be listed must not block the others.
                        let all = futures::future::join_all(first);
                        let _ = tokio::time::timeout(FIRST_LISTS, all).await;
                        self.ready.send_replace(true);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "discovery failed, will retry");
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = shutdown.cancelled() => break,
                    }
                    delay = (delay * 2).min(Duration::from_secs(30));
                    continue;
                }
            }
            tokio::select! {
                () = self.rediscover.notified() => tokio::time::sleep(DEBOUNCE).await,
                () = tokio::time::sleep(REDISCOVER) => {}
                () = shutdown.cancelled() => break,
            }
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn watch(
        self: Arc<Self>,
        kind: Kind,
        listeners: Arc<Vec<Listener>>,
        listed: tokio::sync::oneshot::Sender<()>,
        stop: CancellationToken,
    ) {
        let kind = Arc::new(kind);
        let is_crd =
            kind.resource.group == "apiextensions.k8s.io" && kind.resource.kind == "CustomResourceDefinition";
        let api = kind.api(&self.client, "");
        let stream =
            watcher(api, watcher::Config::default()).default_backoff().take_until(stop.cancelled_owned());
        tokio::pin!(stream);
        let mut listed = Some(listed);
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(event) = stream.next().await {
            let change = match event {
                Ok(watcher::Event::Init) => {
                    seen.clear();
                    continue;
                }
                Ok(watcher::Event::InitApply(object)) => {
                    let node = node(&kind, &object);
                    seen.insert(node.id.uid.clone());
                    vec![self.insert(node)]
                }
                Ok(watcher::Event::InitDone) => {
                    if let Some(listed) = listed.take() {
                        // The receiver may have timed out.
                        let _ = listed.send(());
                    }
                    let gone = self.graph().others(&kind.resource, &seen);
                    gone.into_iter().filter_map(|uid| self.remove(&uid)).collect()
                }
                Ok(watcher::Event::Apply(object)) => vec![self.insert(node(&kind, &object))],
                Ok(watcher::Event::Delete(object)) => {
                    self.remove(&object.uid().unwrap_or_default()).into_iter().collect()
                }
                Err(error) => {
                    tracing::debug!(kind = %kind.resource.kind, %error, "watch failed, restarting");
                    // The kind may no longer be served.
                    self.rediscover.notify_one();
                    continue;
                }
            };
            if is_crd && !change.is_empty() {
                self.rediscover.notify_one();
            }
            for change in &change {
                for listener in listeners.iter() {
                    listener(change);
                }
            }
        }
        // The kind is no longer served: its objects are removed.
        let gone = self.graph().others(&kind.resource, &HashSet::new());
        for change in gone.into_iter().filter_map(|uid| self.remove(&uid)) {
            for listener in listeners.iter() {
                listener(&change);
            }
        }
    }

    fn insert(&self, node: Node) -> ObjectChange {
        let former_owners = self.graph().insert(node.clone());
        ObjectChange { node, removed: false, former_owners }
    }

    fn remove(&self, uid: &str) -> Option<ObjectChange> {
        let node = self.graph().remove(uid)?;
        Some(ObjectChange { node, removed: true, former_owners: Vec::new() })
    }
}

/// Events own nothing and are not garbage-collected one by one; watching them would be most of the work.
fn is_watched(kind: &Kind) -> bool {
    kind.supports(verbs::WATCH) && kind.resource.kind != "Event"
}

fn node(kind: &Arc<Kind>, object: &PartialObjectMeta) -> Node {
    Node::new(
        Identity {
            kind: kind.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
        },
        object.meta(),
    )
}
