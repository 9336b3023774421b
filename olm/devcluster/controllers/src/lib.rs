//! The controllers of a cluster, written against `kube::Client` only.
//!
//! All of them share one watch per kind ([`cache`], [`inventory`]): a change is mapped to keys on the queues
//! of the affected controllers, and each [`queue`] handles a key by one worker at a time. Nothing polls.
//!
//! * [`disruption`]: allowed disruptions of PodDisruptionBudgets
//! * [`deployment`], [`replica_set`]: from a Deployment to its pods
//! * [`job`]: pods that run to completion
//! * [`endpoints`]: the pods of a Service
//! * [`service_account`]: the default ServiceAccount and CA of every namespace
//! * [`namespace`]: deletion of namespaces
//! * [`garbage`]: deletion of objects without owners
//! * [`quota`]: usage of ResourceQuotas
//! * [`scheduler`]: binds pods to the one node
//! * [`volumes`]: volumes of PersistentVolumeClaims

#![deny(missing_docs)]

mod cache;
mod claim;
mod deployment;
mod disruption;
mod endpoints;
mod error;
mod events;
mod garbage;
mod inventory;
mod job;
mod listeners;
mod namespace;
mod pods;
mod queue;
mod quota;
mod replica_set;
mod scheduler;
mod service_account;
mod volumes;

#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    batch::v1::Job,
    core::v1::{
        ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota,
        Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use kube::{Api, Client, runtime::watcher};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::{
    cache::{Cache, Key},
    events::Recorder,
    inventory::Inventory,
    listeners::{
        add_controller, add_itself, add_namespace, claim_pods, claim_volume, class_changed, node_changed,
        orphans, pod_budgets, pod_claims, pod_services, recreate_waits, scaled, unscheduled, volume_claims,
    },
    queue::Queue,
};

/// Configuration of the controllers.
#[derive(Debug, Clone)]
pub struct ControllerConfig {
    /// Published as ConfigMap `kube-root-ca.crt` in every namespace.
    pub root_ca_pem: String,
    /// DNS domain of the cluster, for example `cluster.local`.
    pub cluster_domain: String,
    /// The one node that pods are bound to.
    pub node_name: String,
    /// Directory of provisioned volumes, an absolute path; without it claims stay Pending.
    pub volumes_dir: Option<PathBuf>,
}

/// Concurrent workers of each controller.
const WORKERS: usize = 4;

/// Starts all controllers. The task ends shortly after `shutdown`.
pub fn spawn(client: Client, config: ControllerConfig, shutdown: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(run(client, config, shutdown))
}

/// The queues, by the kind of their keys.
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
    claims: Arc<Queue<Key>>,
    volumes: Arc<Queue<Key>>,
    budgets: Arc<Queue<Key>>,
    jobs: Arc<Queue<Key>>,
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
    claims: Arc<Cache<PersistentVolumeClaim>>,
    volumes: Arc<Cache<PersistentVolume>>,
    classes: Arc<Cache<StorageClass>>,
    budgets: Arc<Cache<PodDisruptionBudget>>,
    jobs: Arc<Cache<Job>>,
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
        claims: Queue::new("persistent-volume-claim"),
        volumes: Queue::new("persistent-volume"),
        budgets: Queue::new("disruption"),
        jobs: Queue::new("job"),
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
        claims: Cache::new(),
        volumes: Cache::new(),
        classes: Cache::new(),
        budgets: Cache::new(),
        jobs: Cache::new(),
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
            caches.claims.ready(),
            caches.volumes.ready(),
            caches.classes.ready(),
            caches.budgets.ready(),
            caches.jobs.ready(),
        )
    };
    tokio::select! {
        _ = everything => start_workers(&mut tasks, &client, config, caches, &queues, inventory, &shutdown),
        () = shutdown.cancelled() => {}
    }
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result
            && error.is_panic()
        {
            tracing::error!(%error, "controller stopped");
        }
    }
}

/// Starts the watches, with the listeners of each kind.
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

    watch!(
        deployments,
        any(),
        vec![
            add_itself(&queues.deployments),
            scaled::<Deployment>(caches, queues, |deployment| deployment.spec.replicas),
        ]
    );
    watch!(
        replica_sets,
        any(),
        vec![
            scaled::<ReplicaSet>(caches, queues, |set| set.spec.replicas),
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
            add_controller(&queues.jobs, "Job"),
            orphans::<Pod, ReplicaSet>(caches.replica_sets.clone(), &queues.replica_sets, |set| &set
                .spec
                .selector),
            recreate_waits(caches, queues),
            pod_services(caches, queues),
            unscheduled(queues),
            pod_claims(queues),
            pod_budgets(caches, queues),
        ]
    );
    watch!(services, any(), vec![add_itself(&queues.services)]);
    let services = queues.services.clone();
    // Our own writes trigger it as well; the controller then finds no difference.
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
    watch!(budgets, any(), vec![add_itself(&queues.budgets)]);
    watch!(jobs, any(), vec![add_itself(&queues.jobs)]);
    watch!(
        claims,
        any(),
        vec![add_itself(&queues.claims), claim_volume(caches, queues), claim_pods(caches, queues)]
    );
    watch!(volumes, any(), vec![add_itself(&queues.volumes), volume_claims(caches, queues)]);
    watch!(classes, any(), vec![class_changed(caches, queues)]);

    let graph = inventory.clone();
    let garbage = queues.garbage.clone();
    let (namespaces, ending) = (caches.namespaces.clone(), queues.ending.clone());
    let (quotas, counted) = (caches.quotas.clone(), queues.quotas.clone());
    let listeners: Vec<inventory::Listener> = vec![
        Box::new(move |change| {
            let namespace = &change.node.id.namespace;
            if !namespace.is_empty() {
                quotas.list(namespace).iter().for_each(|quota| counted.add(Key::of(&**quota)));
            }
        }),
        Box::new(move |change| {
            let affected = garbage::affected(&graph.graph(), change);
            affected.into_iter().for_each(|uid| garbage.add(uid));
        }),
        Box::new(move |change| {
            if change.removed {
                let key = Key::new("", &change.node.id.namespace);
                if namespaces.get(&key).is_some_and(|n| n.metadata.deletion_timestamp.is_some()) {
                    ending.add(key);
                }
            }
        }),
    ];
    tasks.spawn(inventory.clone().run(listeners, shutdown.clone()));
}

/// Starts the workers.
fn start_workers(
    tasks: &mut JoinSet<()>,
    client: &Client,
    config: ControllerConfig,
    caches: Caches,
    queues: &Queues,
    inventory: Arc<Inventory>,
    shutdown: &CancellationToken,
) {
    macro_rules! work {
        ($queue:ident, $controller:expr) => {{ work!($queue, Arc::new($controller), reconcile) }};
        ($queue:ident, $controller:expr, $reconcile:ident) => {{
            let controller = $controller;
            let queue = queues.$queue.clone();
            tasks.spawn(queue.work(WORKERS, shutdown.clone(), move |key| {
                let controller = controller.clone();
                async move { controller.$reconcile(key).await }
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
        budgets,
        disruption::Controller {
            client: client(),
            budgets: caches.budgets.clone(),
            pods: caches.pods.clone(),
            replica_sets: caches.replica_sets.clone(),
            deployments: caches.deployments.clone(),
            inventory: inventory.clone(),
            events: Recorder::new(client(), "controllermanager"),
        }
    );
    work!(
        jobs,
        job::Controller {
            client: client(),
            jobs: caches.jobs.clone(),
            pods: caches.pods.clone(),
            events: Recorder::new(client(), "job-controller"),
        }
    );
    let storage = Arc::new(volumes::Controller {
        client: client(),
        claims: caches.claims.clone(),
        volumes: caches.volumes.clone(),
        classes: caches.classes.clone(),
        pods: caches.pods.clone(),
        dir: config.volumes_dir,
        node_name: config.node_name.clone(),
        events: Recorder::new(client(), "persistentvolume-controller"),
    });
    work!(claims, storage.clone(), claim);
    work!(volumes, storage, volume);
    work!(
        unscheduled,
        scheduler::Controller {
            client: client(),
            pods: caches.pods.clone(),
            nodes: caches.nodes.clone(),
            claims: caches.claims.clone(),
            volumes: caches.volumes.clone(),
            classes: caches.classes.clone(),
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
