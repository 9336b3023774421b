//! The controllers of a cluster, written against `kube::Client` alone.
//!
//! All of them share one watch per kind ([`cache`], [`inventory`]): a change is turned into keys on the queues of the
//! controllers that care, and each [`queue`] handles a key by one worker at a time. Nothing polls.
//!
//! * [`deployment`], [`replica_set`]: from a Deployment to its pods
//! * [`endpoints`]: which pods stand behind a Service
//! * [`service_account`]: what every namespace is given
//! * [`namespace`]: the end of a namespace
//! * [`garbage`]: what happens to objects whose owners are gone
//! * [`quota`]: what is used of ResourceQuotas
//! * [`scheduler`]: binds pods to the one node

mod cache;
mod claim;
mod deployment;
mod endpoints;
mod error;
mod events;
mod garbage;
mod inventory;
mod namespace;
mod pods;
mod queue;
mod quota;
mod replica_set;
mod scheduler;
mod service_account;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{ConfigMap, Endpoints, Namespace, Node, Pod, ResourceQuota, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, Resource, runtime::watcher};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::{
    cache::{Cache, Key, Listener},
    claim::controller_of,
    events::Recorder,
    inventory::Inventory,
    queue::Queue,
};

/// What the controllers must be told.
#[derive(Debug, Clone)]
pub struct ControllerConfig {
    /// Published as ConfigMap `kube-root-ca.crt` in every namespace.
    pub root_ca_pem: String,
    /// DNS domain of the cluster, for example `cluster.local`.
    pub cluster_domain: String,
    /// The one node that pods are bound to.
    pub node_name: String,
}

/// Objects handled at a time by each controller.
const WORKERS: usize = 4;

/// Starts all controllers. The task ends some moments after `shutdown`.
pub fn spawn(client: Client, config: ControllerConfig, shutdown: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(run(client, config, shutdown))
}

/// The queues, by what is on them.
#[derive(Clone)]
struct Queues {
    deployments: Arc<Queue<Key>>,
    replica_sets: Arc<Queue<Key>>,
    services: Arc<Queue<Key>>,
    unscheduled: Arc<Queue<Key>>,
    /// Namespaces that need their ServiceAccount and CA.
    furnished: Arc<Queue<Key>>,
    ending: Arc<Queue<Key>>,
    quotas: Arc<Queue<Key>>,
    garbage: Arc<Queue<String>>,
}

/// The shared watches.
#[derive(Clone)]
struct Caches {
    deployments: Arc<Cache<Deployment>>,
    replica_sets: Arc<Cache<ReplicaSet>>,
    pods: Arc<Cache<Pod>>,
    services: Arc<Cache<Service>>,
    endpoints: Arc<Cache<Endpoints>>,
    slices: Arc<Cache<EndpointSlice>>,
    namespaces: Arc<Cache<Namespace>>,
    accounts: Arc<Cache<ServiceAccount>>,
    ca_maps: Arc<Cache<ConfigMap>>,
    nodes: Arc<Cache<Node>>,
    quotas: Arc<Cache<ResourceQuota>>,
}

async fn run(client: Client, config: ControllerConfig, shutdown: CancellationToken) {
    let queues = Queues {
        deployments: Queue::new("deployment"),
        replica_sets: Queue::new("replica-set"),
        services: Queue::new("endpoints"),
        unscheduled: Queue::new("scheduler"),
        furnished: Queue::new("service-account"),
        ending: Queue::new("namespace"),
        quotas: Queue::new("resource-quota"),
        garbage: Queue::new("garbage"),
    };
    let caches = Caches {
        deployments: Cache::new(),
        replica_sets: Cache::new(),
        pods: Cache::new(),
        services: Cache::new(),
        endpoints: Cache::new(),
        slices: Cache::new(),
        namespaces: Cache::new(),
        accounts: Cache::new(),
        ca_maps: Cache::new(),
        nodes: Cache::new(),
        quotas: Cache::new(),
    };
    let inventory = Inventory::new(client.clone());
    let mut tasks = JoinSet::new();
    watch_all(&mut tasks, &client, &config, &caches, &queues, &inventory, &shutdown);
    let everything = async {
        tokio::join!(
            caches.deployments.ready(),
            caches.replica_sets.ready(),
            caches.pods.ready(),
            caches.services.ready(),
            caches.endpoints.ready(),
            caches.slices.ready(),
            caches.namespaces.ready(),
            caches.accounts.ready(),
            caches.ca_maps.ready(),
            caches.nodes.ready(),
            caches.quotas.ready(),
        )
    };
    tokio::select! {
        _ = everything => work_all(&mut tasks, &client, config, caches, &queues, inventory, &shutdown),
        () = shutdown.cancelled() => {}
    }
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result
            && error.is_panic()
        {
            tracing::error!(%error, "a controller has stopped");
        }
    }
}

/// Starts the watches and says which change concerns whom.
fn watch_all(
    tasks: &mut JoinSet<()>,
    client: &Client,
    config: &ControllerConfig,
    caches: &Caches,
    queues: &Queues,
    inventory: &Arc<Inventory>,
    shutdown: &CancellationToken,
) {
    macro_rules! watch {
        ($cache:ident, $config:expr, $listeners:expr) => {
            tasks.spawn(caches.$cache.clone().run(
                Api::all(client.clone()),
                $config,
                $listeners,
                shutdown.clone(),
            ))
        };
    }
    let any = watcher::Config::default;

    watch!(deployments, any(), vec![add_itself(&queues.deployments)]);
    watch!(
        replica_sets,
        any(),
        vec![
            add_itself(&queues.replica_sets),
            add_controller(&queues.deployments, "Deployment"),
            orphans::<ReplicaSet, Deployment>(caches.deployments.clone(), &queues.deployments, |d| &d
                .spec
                .selector),
        ]
    );
    watch!(
        pods,
        any(),
        vec![
            add_controller(&queues.replica_sets, "ReplicaSet"),
            orphans::<Pod, ReplicaSet>(caches.replica_sets.clone(), &queues.replica_sets, |set| &set
                .spec
                .selector),
            recreate_waits(caches, queues),
            pod_services(caches, queues),
            unscheduled(queues),
        ]
    );
    watch!(services, any(), vec![add_itself(&queues.services)]);
    let services = queues.services.clone();
    // Our own writes come back as well; the controller then finds nothing to do.
    watch!(endpoints, any(), vec![add_itself(&services)]);
    watch!(
        slices,
        any(),
        vec![Box::new(move |old: Option<&Arc<EndpointSlice>>, new: Option<&Arc<EndpointSlice>>| {
            for slice in [old, new].into_iter().flatten() {
                if let Some(service) = endpoints::service_of(slice) {
                    services.add(service);
                }
            }
        })]
    );
    watch!(namespaces, any(), vec![add_itself(&queues.furnished), add_itself(&queues.ending)]);
    let field = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    watch!(accounts, field(service_account::ACCOUNT), vec![add_namespace(&queues.furnished)]);
    watch!(ca_maps, field(service_account::CA_MAP), vec![add_namespace(&queues.furnished)]);
    watch!(quotas, any(), vec![add_itself(&queues.quotas)]);
    watch!(nodes, field(&config.node_name), vec![node_changed(caches, queues)]);

    let graph = inventory.clone();
    let garbage = queues.garbage.clone();
    let (namespaces, ending) = (caches.namespaces.clone(), queues.ending.clone());
    let (quotas, counted) = (caches.quotas.clone(), queues.quotas.clone());
    let listeners: Vec<inventory::Listener> = vec![
        Box::new(move |happened| {
            let namespace = &happened.node.id.namespace;
            if !namespace.is_empty() {
                quotas.list(namespace).iter().for_each(|quota| counted.add(Key::of(&**quota)));
            }
        }),
        Box::new(move |happened| {
            let affected = garbage::affected(&graph.graph(), happened);
            affected.into_iter().for_each(|uid| garbage.add(uid));
        }),
        Box::new(move |happened| {
            if happened.removed {
                let key = Key::new("", &happened.node.id.namespace);
                if namespaces.get(&key).is_some_and(|n| n.metadata.deletion_timestamp.is_some()) {
                    ending.add(key);
                }
            }
        }),
    ];
    tasks.spawn(inventory.clone().run(listeners, shutdown.clone()));
}

/// Starts the workers.
fn work_all(
    tasks: &mut JoinSet<()>,
    client: &Client,
    config: ControllerConfig,
    caches: Caches,
    queues: &Queues,
    inventory: Arc<Inventory>,
    shutdown: &CancellationToken,
) {
    macro_rules! work {
        ($queue:ident, $controller:expr) => {{
            let controller = Arc::new($controller);
            let queue = queues.$queue.clone();
            tasks.spawn(queue.work(WORKERS, shutdown.clone(), move |key| {
                let controller = controller.clone();
                async move { controller.reconcile(key).await }
            }));
        }};
    }
    let client = || client.clone();
    work!(
        deployments,
        deployment::Controller {
            client: client(),
            deployments: caches.deployments.clone(),
            replica_sets: caches.replica_sets.clone(),
            pods: caches.pods.clone(),
            events: Recorder::new(client(), "deployment-controller"),
        }
    );
    work!(
        replica_sets,
        replica_set::Controller {
            client: client(),
            replica_sets: caches.replica_sets.clone(),
            pods: caches.pods.clone(),
            events: Recorder::new(client(), "replicaset-controller"),
        }
    );
    work!(
        services,
        endpoints::Controller {
            client: client(),
            services: caches.services.clone(),
            pods: caches.pods.clone(),
            endpoints: caches.endpoints.clone(),
            slices: caches.slices.clone(),
        }
    );
    work!(
        furnished,
        service_account::Controller {
            client: client(),
            namespaces: caches.namespaces.clone(),
            accounts: caches.accounts.clone(),
            ca_maps: caches.ca_maps.clone(),
            root_ca_pem: config.root_ca_pem,
        }
    );
    work!(
        ending,
        namespace::Controller {
            client: client(),
            namespaces: caches.namespaces.clone(),
            inventory: inventory.clone(),
        }
    );
    work!(
        quotas,
        quota::Controller { client: client(), quotas: caches.quotas.clone(), inventory: inventory.clone() }
    );
    work!(
        unscheduled,
        scheduler::Controller {
            client: client(),
            pods: caches.pods.clone(),
            nodes: caches.nodes.clone(),
            node_name: config.node_name,
            events: Recorder::new(client(), "default-scheduler"),
        }
    );
    let garbage = garbage::Controller {
        client: client(),
        inventory: inventory.clone(),
        queue: queues.garbage.clone(),
        events: Recorder::new(client(), "garbage-collector-controller"),
    };
    let (queue, shutdown) = (queues.garbage.clone(), shutdown.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = inventory.ready() => {}
            () = shutdown.cancelled() => return,
        }
        let garbage = Arc::new(garbage);
        let work = move |uid| {
            let garbage = garbage.clone();
            async move { garbage.reconcile(uid).await }
        };
        queue.work(WORKERS, shutdown, work).await;
    });
}

fn add_itself<K: Resource + Send + Sync + 'static>(queue: &Arc<Queue<Key>>) -> Listener<K> {
    let queue = queue.clone();
    Box::new(move |old, new| {
        if let Some(object) = new.or(old) {
            queue.add(Key::of(&**object));
        }
    })
}

fn add_namespace<K: Resource + Send + Sync + 'static>(queue: &Arc<Queue<Key>>) -> Listener<K> {
    let queue = queue.clone();
    Box::new(move |old, new| {
        if let Some(object) = new.or(old) {
            queue.add(Key::new("", object.meta().namespace.as_deref().unwrap_or_default()));
        }
    })
}

/// The controllers of the object, before and after.
fn add_controller<K: Resource + Send + Sync + 'static>(
    queue: &Arc<Queue<Key>>,
    kind: &'static str,
) -> Listener<K> {
    let queue = queue.clone();
    Box::new(move |old, new| {
        for object in [old, new].into_iter().flatten() {
            if let Some(owner) = controller_of(&**object).filter(|owner| owner.kind == kind) {
                queue.add(Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name));
            }
        }
    })
}

/// Those who may adopt an object without a controller.
fn orphans<K, O>(
    owners: Arc<Cache<O>>,
    queue: &Arc<Queue<Key>>,
    selector: fn(&O) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector,
) -> Listener<K>
where
    K: Resource + Send + Sync + 'static,
    O: Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let queue = queue.clone();
    Box::new(move |_, new| {
        let Some(object) = new.filter(|object| controller_of(&***object).is_none()) else { return };
        for owner in owners.list(object.meta().namespace.as_deref().unwrap_or_default()) {
            if claim::selector(selector(&owner)).is_some_and(|selector| claim::matches(&selector, &**object))
            {
                queue.add(Key::of(&*owner));
            }
        }
    })
}

/// A Deployment with strategy Recreate waits for its old pods to end.
fn recreate_waits(caches: &Caches, queues: &Queues) -> Listener<Pod> {
    let (sets, queue) = (caches.replica_sets.clone(), queues.deployments.clone());
    Box::new(move |old, new| {
        let Some(pod) = old.filter(|_| new.is_none_or(|pod| pods::is_finished(pod))) else { return };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let Some(set) = controller_of(&**pod).and_then(|owner| sets.get(&Key::new(namespace, &owner.name)))
        else {
            return;
        };
        if let Some(owner) = controller_of(&*set) {
            queue.add(Key::new(namespace, &owner.name));
        }
    })
}

/// The Services whose endpoints a pod's change touches.
fn pod_services(caches: &Caches, queues: &Queues) -> Listener<Pod> {
    let (services, queue) = (caches.services.clone(), queues.services.clone());
    let face = |pod: &Pod| {
        let status = pod.status.as_ref();
        (
            pod.metadata.labels.clone(),
            pods::is_terminating(pod),
            pods::is_finished(pod),
            pods::is_ready(pod),
            status.and_then(|status| status.pod_ip.clone()),
            status.and_then(|status| status.pod_ips.clone()),
        )
    };
    Box::new(move |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && face(old) == face(new)
        {
            return;
        }
        let Some(namespace) = new.or(old).and_then(|pod| pod.metadata.namespace.clone()) else { return };
        for service in services.list(&namespace) {
            if [old, new].into_iter().flatten().any(|pod| endpoints::selects(&service, pod)) {
                queue.add(Key::of(&*service));
            }
        }
    })
}

fn unscheduled(queues: &Queues) -> Listener<Pod> {
    let queue = queues.unscheduled.clone();
    Box::new(move |_, new| {
        if let Some(pod) = new.filter(|pod| scheduler::is_waiting(pod)) {
            queue.add(Key::of(&**pod));
        }
    })
}

/// A node that comes, goes or changes its mind concerns every pod that waits for it.
fn node_changed(caches: &Caches, queues: &Queues) -> Listener<Node> {
    let (pods, queue) = (caches.pods.clone(), queues.unscheduled.clone());
    let face = |node: &Node| {
        let conditions =
            node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready").map(|c| (c.status, c.message));
        (ready, node.spec.as_ref().and_then(|spec| spec.unschedulable), node.metadata.labels.clone())
    };
    Box::new(move |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && face(old) == face(new)
        {
            return;
        }
        for pod in pods.all().iter().filter(|pod| scheduler::is_waiting(pod)) {
            queue.add(Key::of(&**pod));
        }
    })
}
