//! The agent: watches the objects of this node and passes them to the workers, the proxy and DNS.

use std::{
    collections::{BTreeMap, HashSet},
    net::Ipv4Addr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use futures::TryStreamExt as _;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use olm_devcluster_machinery::backend::NodeBackend;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{
    NODE_NAME,
    backend::Backend,
    capability::in_user_namespace,
    context::Context,
    events::Events,
    images::{ImageSource, Images},
    network::{Network, NetworkError, dns, proxy::Proxy, zone::Zone},
    pod::worker::{Message, Worker},
    registration,
};

/// Configuration of an agent.
pub struct NodeConfig {
    /// Client of the API server with the permissions of a node.
    pub client: Client,
    /// The cluster network, from [`Network::start`].
    pub network: Network,
    /// Directory of the pods' files (in `pods/`) and of images (in `images/`).
    pub data_dir: PathBuf,
    /// Where images are pulled from; `None` for a node that runs only loaded images.
    pub image_source: Option<Arc<dyn ImageSource>>,
    /// A program whose `main` begins with [`maybe_run_helper`](super::maybe_run_helper); usually the current
    /// executable.
    pub helper_exe: PathBuf,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// The DNS server's cluster IP.
    pub dns_ip: Ipv4Addr,
}

/// A failed start of an agent.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A system call failed.
    #[error("failed to {what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The cluster network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The API server refused the node.
    #[error("failed to {what}: {source}")]
    Api {
        /// The operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
}

/// A running agent. Dropping it does not stop it immediately: use [`NodeAgent::shutdown`].
pub struct NodeAgent {
    context: Arc<Context>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Timeout of the pods' shutdown when the node stops.
const SHUTDOWN: Duration = Duration::from_secs(8);

impl NodeAgent {
    /// Starts the agent; returns when the Services and the pods of this node are in its cache.
    pub async fn start(config: NodeConfig) -> Result<Self, NodeError> {
        let pods_dir = config.data_dir.join("pods");
        olm_devcluster_machinery::private::make_directory(&pods_dir).map_err(|source| NodeError::System {
            what: format!("create the pod directory {}", pods_dir.display()),
            source,
        })?;
        let images_dir = config.data_dir.join("images");
        let images_dir = std::path::absolute(&images_dir).map_err(|source| NodeError::System {
            what: format!("resolve the image directory {}", images_dir.display()),
            source,
        })?;
        let images = Images::new(config.image_source, images_dir);
        registration::write(&config.client, &images.entries(), Ok(()))
            .await
            .map_err(|source| NodeError::Api { what: "register the node", source: Box::new(source) })?;
        let zone = Zone::new(config.cluster_domain.clone());
        let context = Arc::new(Context {
            events: Events::start(config.client.clone(), NODE_NAME.to_owned()),
            client: config.client,
            network: config.network,
            helper: config.helper_exe,
            images,
            zone: RwLock::new(Arc::new(zone)),
            pods_dir,
            domain: config.cluster_domain,
            dns_ip: config.dns_ip.to_string(),
            one_user: in_user_namespace(),
            workers: Mutex::default(),
        });
        let source = Arc::clone(&context);
        dns::serve(&context.network, config.dns_ip, Arc::new(move || source.zone())).await?;
        let (changed, changes) = watch::channel(());
        let (services, slices, pods) = (Ready::new(), Ready::new(), Ready::new());
        let mut tasks = vec![
            tokio::spawn(watch_services(Arc::clone(&context), changed.clone(), services.clone())),
            tokio::spawn(watch_slices(Arc::clone(&context), changed, slices.clone())),
            tokio::spawn(run_proxy(Arc::clone(&context), changes)),
        ];
        // The first pods already need the variables of their Services.
        services.wait().await;
        slices.wait().await;
        tasks.push(tokio::spawn(watch_pods(Arc::clone(&context), pods.clone())));
        pods.wait().await;
        tasks.push(tokio::spawn(watch_sources::<ConfigMap>(Arc::clone(&context))));
        tasks.push(tokio::spawn(watch_sources::<Secret>(Arc::clone(&context))));
        tasks.push(tokio::spawn(watch_sources::<ServiceAccount>(Arc::clone(&context))));
        Ok(Self { context, tasks })
    }

    /// The API server's interface to the node.
    pub fn backend(&self) -> Arc<dyn NodeBackend> {
        Arc::new(Backend(Arc::clone(&self.context)))
    }

    /// The cluster network.
    pub fn network(&self) -> &Network {
        &self.context.network
    }

    /// Stops the containers of all pods without changing the pod objects: the next start runs them again.
    pub async fn shutdown(self) {
        for task in &self.tasks {
            task.abort();
        }
        let handles: Vec<_> = self.context.workers().values().cloned().collect();
        for handle in &handles {
            let _ = handle.messages.send(Message::Shutdown(SHUTDOWN));
        }
        let all_gone = async {
            for handle in &handles {
                handle.messages.closed().await;
            }
        };
        if tokio::time::timeout(SHUTDOWN + Duration::from_secs(2), all_gone).await.is_err() {
            tracing::warn!("timed out stopping pods; the kernel kills them with this process");
        }
    }
}

/// A flag that is set once.
#[derive(Clone)]
struct Ready(watch::Sender<bool>);

impl Ready {
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    fn set(&self) {
        self.0.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|ready| *ready).await;
    }
}

/// Runs a watch forever.
async fn follow<K>(api: Api<K>, config: watcher::Config, mut each: impl FnMut(Event<K>))
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut stream = Box::pin(watcher(api, config).default_backoff());
    loop {
        match stream.try_next().await {
            Ok(Some(event)) => each(event),
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, kind = std::any::type_name::<K>(), "watch failed, restarting")
            }
        }
    }
}

fn change_zone(cx: &Context, changed: &watch::Sender<()>, change: impl FnOnce(&mut Zone)) {
    let mut zone = cx.zone.write().unwrap_or_else(PoisonError::into_inner);
    change(Arc::make_mut(&mut zone));
    changed.send_replace(());
}

async fn watch_services(cx: Arc<Context>, changed: watch::Sender<()>, ready: Ready) {
    let api: Api<Service> = Api::all(cx.client.clone());
    let mut fresh: Vec<Service> = Vec::new();
    follow(api, watcher::Config::default(), move |event| match event {
        Event::Apply(service) => change_zone(&cx, &changed, |zone| zone.set_service(&service)),
        Event::Delete(service) => change_zone(&cx, &changed, |zone| zone.remove_service(&service)),
        Event::Init => fresh.clear(),
        Event::InitApply(service) => fresh.push(service),
        Event::InitDone => {
            change_zone(&cx, &changed, |zone| {
                zone.clear_services();
                fresh.drain(..).for_each(|service| zone.set_service(&service));
            });
            ready.set();
        }
    })
    .await;
}

async fn watch_slices(cx: Arc<Context>, changed: watch::Sender<()>, ready: Ready) {
    let api: Api<EndpointSlice> = Api::all(cx.client.clone());
    let mut fresh: Vec<EndpointSlice> = Vec::new();
    follow(api, watcher::Config::default(), move |event| match event {
        Event::Apply(slice) => change_zone(&cx, &changed, |zone| zone.set_slice(&slice)),
        Event::Delete(slice) => change_zone(&cx, &changed, |zone| zone.remove_slice(&slice)),
        Event::Init => fresh.clear(),
        Event::InitApply(slice) => fresh.push(slice),
        Event::InitDone => {
            change_zone(&cx, &changed, |zone| {
                zone.clear_slices();
                fresh.drain(..).for_each(|slice| zone.set_slice(&slice));
            });
            ready.set();
        }
    })
    .await;
}

async fn run_proxy(cx: Arc<Context>, mut changes: watch::Receiver<()>) {
    let mut proxy = Proxy::new(cx.network.clone());
    loop {
        changes.mark_unchanged();
        proxy.sync(&cx.zone()).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn watch_pods(cx: Arc<Context>, ready: Ready) {
    let api: Api<Pod> = Api::all(cx.client.clone());
    let config = watcher::Config::default().fields(&format!("spec.nodeName={NODE_NAME}"));
    let mut fresh: BTreeMap<String, Pod> = BTreeMap::new();
    let mut first = true;
    follow(api, config, move |event| match event {
        Event::Apply(pod) => update(&cx, pod),
        Event::Delete(pod) => notify_deleted(&cx, &pod.uid().unwrap_or_default()),
        Event::Init => fresh.clear(),
        Event::InitApply(pod) => {
            fresh.insert(pod.uid().unwrap_or_default(), pod);
        }
        Event::InitDone => {
            let known: Vec<String> = cx.workers().keys().cloned().collect();
            known.iter().filter(|uid| !fresh.contains_key(*uid)).for_each(|uid| notify_deleted(&cx, uid));
            if std::mem::take(&mut first) {
                remove_leftovers(&cx, &fresh.keys().cloned().collect());
            }
            std::mem::take(&mut fresh).into_values().for_each(|pod| update(&cx, pod));
            ready.set();
        }
    })
    .await;
}

fn update(cx: &Arc<Context>, pod: Pod) {
    let uid = pod.uid().unwrap_or_default();
    // The UID becomes a directory name, so other values are rejected.
    let is_plain = !uid.is_empty() && uid.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    if !is_plain || pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) != Some(NODE_NAME) {
        return;
    }
    let mut workers = cx.workers();
    match workers.get(&uid) {
        Some(handle) => {
            let _ = handle.messages.send(Message::Update(Arc::new(pod)));
        }
        None => {
            workers.insert(uid, Worker::start(cx, Arc::new(pod)));
        }
    }
}

fn notify_deleted(cx: &Context, uid: &str) {
    if let Some(handle) = cx.workers().get(uid) {
        let _ = handle.messages.send(Message::Gone);
    }
}

/// Removes directories of pods that were deleted while no agent ran.
fn remove_leftovers(cx: &Context, present: &HashSet<String>) {
    for entry in std::fs::read_dir(&cx.pods_dir).into_iter().flatten().flatten() {
        if !present.contains(&entry.file_name().to_string_lossy().into_owned())
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, path = %entry.path().display(), "failed to remove the leftovers of a pod");
        }
    }
}

/// Refreshes the pods of a namespace after a change of an object that they may refer to.
async fn watch_sources<K>(cx: Arc<Context>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let api: Api<K> = Api::all(cx.client.clone());
    follow(api, watcher::Config::default(), move |event| {
        let (Event::Apply(object) | Event::Delete(object) | Event::InitApply(object)) = event else { return };
        let namespace = object.namespace();
        for handle in cx.workers().values().filter(|handle| Some(&handle.namespace) == namespace.as_ref()) {
            let _ = handle.messages.send(Message::Refresh);
        }
    })
    .await;
}
