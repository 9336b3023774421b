//! The controllers' view of the cluster: one watch per kind, shared by all of them.
//!
//! Decisions are made on this state, which may lag behind the cluster. So every write is conditional on the
//! state that it was decided on (server-side apply, creation under a name derived from the decision, a
//! resourceVersion), and what cannot be undone is decided on a live read.
//!
//! [`ClusterCache`] has one [`KindCache`] for each kind whose objects the controllers share. A
//! [`FieldCache`](field_cache::FieldCache) contains a few fields of each object of a kind; the CSV controller has
//! those of the parts of operators. Catalogs are elsewhere: `LoadedCatalogs` of the engine has them in memory,
//! and `CacheDir` on disk. docs/cache.md lists what each part saves.

mod cached;
mod compress;
pub(crate) mod field_cache;
mod kind_cache;
mod table;
mod trim;

use std::{any::Any, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, core::PartialObjectMeta, runtime::watcher::Config};
use olm_api::{
    ClusterServiceVersion, InstallPlan, InstallPolicy, OperatorCondition, OperatorGroup, Subscription, names,
};

use olm_client::{lists, metadata_only};
use olm_engine::{Snapshot, Watched, resources::Resources};
use olm_plan::Policies;

pub(crate) use cached::{Cached, Parts, text};
pub(crate) use kind_cache::KindCache;

/// Key of the InstallPlans that are not over.
pub(crate) const OPEN_PLANS: &str = "open";

/// Page size for ClusterServiceVersions: they are large, and a page is held in memory as received until it is
/// read.
const VERSIONS: u32 = 100;
/// Page size for other objects.
const PAGE: u32 = 250;

/// The objects that decisions are made on.
pub(crate) struct ClusterCache {
    pub(crate) subscriptions: KindCache<Subscription>,
    /// Without the fields that only a plan in progress needs. Those that are not over have the key
    /// [`OPEN_PLANS`].
    pub(crate) plans: KindCache<InstallPlan>,
    /// Without the copies that OLM v0 left in other namespaces, and without unused fields ([`olm_engine::restore_annotations`] has
    /// all annotations). Keyed by the CRDs and APIServices that they own or need.
    pub(crate) csvs: KindCache<ClusterServiceVersion>,
    pub(crate) groups: KindCache<OperatorGroup>,
    pub(crate) conditions: KindCache<OperatorCondition>,
    /// Keyed by the labels of their OperatorGroups and Operators.
    pub(crate) namespaces: KindCache<PartialObjectMeta<Namespace>>,
    pub(crate) policies: KindCache<InstallPolicy>,
}

impl Default for ClusterCache {
    fn default() -> Self {
        let everything = || Config::default().page_size(PAGE);
        let originals =
            Config::default().labels(&format!("!{}", names::LABEL_COPIED_FROM)).page_size(VERSIONS);
        Self {
            subscriptions: KindCache::new(
                everything(),
                |subscription| trim::tools(&mut subscription.metadata),
                |_| Vec::new(),
            ),
            plans: KindCache::new(everything(), trim::plan, open),
            csvs: KindCache::new(originals, trim::csv, apis),
            groups: KindCache::new(everything(), |group| trim::tools(&mut group.metadata), |_| Vec::new()),
            conditions: KindCache::new(everything(), trim::condition, |_| Vec::new()),
            namespaces: KindCache::new(
                everything(),
                |namespace| namespace.metadata.annotations = None,
                memberships,
            ),
            policies: KindCache::new(
                everything(),
                |policy: &mut InstallPolicy| trim::tools(&mut policy.metadata),
                |_| Vec::new(),
            )
            .optional(),
        }
    }
}

impl ClusterCache {
    /// The watches that keep the cache current while they are polled. Reading a page of a list takes time:
    /// each belongs in its own task.
    pub(crate) fn watches(self: &Arc<Self>, client: &Client) -> [BoxFuture<'static, ()>; 7] {
        fn watch<K: Cached>(
            cache: &Arc<ClusterCache>,
            kind: fn(&ClusterCache) -> &KindCache<K>,
            api: Api<K>,
        ) -> BoxFuture<'static, ()> {
            let cache = Arc::clone(cache);
            async move { kind(&cache).follow(api).await }.boxed()
        }
        let client = &lists(client.clone());
        let lean = metadata_only(client.clone());
        [
            watch(self, |cache| &cache.subscriptions, Api::all(client.clone())),
            watch(self, |cache| &cache.plans, Api::all(client.clone())),
            watch(self, |cache| &cache.csvs, Api::all(client.clone())),
            watch(self, |cache| &cache.groups, Api::all(client.clone())),
            watch(self, |cache| &cache.conditions, Api::all(client.clone())),
            watch(self, |cache| &cache.namespaces, Api::all(lean)),
            watch(self, |cache| &cache.policies, Api::all(client.clone())),
        ]
    }

    /// Stores the response of a write; other kinds are ignored.
    pub(crate) fn store_written<K: Any>(&self, object: K) {
        fn of<K: Cached>(kind: &KindCache<K>, object: Box<dyn Any>) -> Result<(), Box<dyn Any>> {
            object.downcast::<K>().map(|object| kind.store_written(*object))
        }
        // An error returns the object: it is of another kind.
        let _ = of(&self.subscriptions, Box::new(object))
            .or_else(|object| of(&self.plans, object))
            .or_else(|object| of(&self.csvs, object))
            .or_else(|object| of(&self.groups, object))
            .or_else(|object| of(&self.conditions, object))
            .or_else(|object| of(&self.namespaces, object));
    }

    /// Returns when all kinds have read the cluster once.
    pub(crate) async fn synced(&self) {
        tokio::join!(
            self.subscriptions.synced(),
            self.plans.synced(),
            self.csvs.synced(),
            self.groups.synced(),
            self.conditions.synced(),
            self.namespaces.synced(),
            self.policies.synced(),
        );
    }

    /// The objects of a namespace for a decision. They may lag behind the cluster.
    pub(crate) async fn snapshot(&self, resources: &Resources, namespace: &str) -> Snapshot {
        let objects = Watched {
            csvs: self.csvs.in_namespace(namespace),
            groups: self.groups.in_namespace(namespace),
            conditions: self.conditions.in_namespace(namespace),
            subscriptions: self.subscriptions.in_namespace(namespace),
            policies: self.policies_in(namespace),
        };
        Snapshot::watched(resources, objects).await
    }

    /// The policies that apply in a namespace.
    pub(crate) fn policies_in(&self, namespace: &str) -> Policies {
        let all = self.policies.all();
        if all.is_empty() {
            return Policies::default();
        }
        let namespace = self.namespaces.get("", namespace);
        Policies::of(all, namespace.as_ref().map(|namespace| namespace.labels()))
    }
}

fn open(plan: &InstallPlan) -> Vec<String> {
    if plan.is_over() { Vec::new() } else { vec![OPEN_PLANS.to_owned()] }
}

fn memberships(namespace: &PartialObjectMeta<Namespace>) -> Vec<String> {
    let of = [names::LABEL_OPERATOR_GROUP_PREFIX, names::LABEL_COMPONENT_PREFIX];
    let keys = namespace.labels().keys().filter(|key| of.iter().any(|prefix| key.starts_with(prefix)));
    keys.cloned().collect()
}

/// The CRDs and the APIServices that a version owns or needs.
fn apis(csv: &ClusterServiceVersion) -> Vec<String> {
    let crds = csv.spec.owned_crds().iter().chain(csv.spec.required_crds()).map(|crd| crd.name.clone());
    let definitions = csv.spec.api_service_definitions.iter();
    let services = definitions.flat_map(|apis| apis.owned.iter().chain(&apis.required));
    crds.chain(services.map(|api| format!("{}.{}", api.version, api.group))).collect()
}
