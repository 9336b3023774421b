//! The controllers' view of the cluster: one watch per kind, shared by all of them.
//!
//! Decisions are made on this state, which may lag behind the cluster. So every write is conditional on the
//! state that it was decided on (server-side apply, creation under a name derived from the decision, a
//! resourceVersion), and what cannot be undone is decided on a live read.

mod cached;
mod compress;
mod kind;
pub(crate) mod ledger;
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
pub(crate) use kind::Kind;

/// A ClusterServiceVersion as it is kept in memory.
pub(crate) type Version = ClusterServiceVersion;

/// Key of the InstallPlans that are not over.
pub(crate) const OPEN_PLANS: &str = "open";

/// Page size for ClusterServiceVersions: they are large, and a page is held in memory as received until it is
/// read.
const VERSIONS: u32 = 100;
/// Page size for other objects.
const PAGE: u32 = 250;

/// The objects that decisions are made on.
pub(crate) struct Stores {
    pub(crate) subscriptions: Kind<Subscription>,
    /// Without the fields that only a plan in progress needs. Those that are not over have the key
    /// [`OPEN_PLANS`].
    pub(crate) plans: Kind<InstallPlan>,
    /// Without the copies that OLM v0 left in other namespaces, and without unused fields ([`olm_engine::restore_annotations`] has
    /// all annotations). Keyed by the CRDs and APIServices that they own or need.
    pub(crate) versions: Kind<Version>,
    pub(crate) groups: Kind<OperatorGroup>,
    pub(crate) conditions: Kind<OperatorCondition>,
    /// Keyed by the labels of their OperatorGroups and Operators.
    pub(crate) namespaces: Kind<PartialObjectMeta<Namespace>>,
    pub(crate) policies: Kind<InstallPolicy>,
}

impl Default for Stores {
    fn default() -> Self {
        let everything = || Config::default().page_size(PAGE);
        let originals =
            Config::default().labels(&format!("!{}", names::LABEL_COPIED_FROM)).page_size(VERSIONS);
        Self {
            subscriptions: Kind::new(
                everything(),
                |subscription| trim::tools(&mut subscription.metadata),
                |_| Vec::new(),
            ),
            plans: Kind::new(everything(), trim::plan, open),
            versions: Kind::new(originals, trim::version, apis),
            groups: Kind::new(everything(), |group| trim::tools(&mut group.metadata), |_| Vec::new()),
            conditions: Kind::new(everything(), trim::condition, |_| Vec::new()),
            namespaces: Kind::new(
                everything(),
                |namespace| namespace.metadata.annotations = None,
                memberships,
            ),
            policies: Kind::new(
                everything(),
                |policy: &mut InstallPolicy| trim::tools(&mut policy.metadata),
                |_| Vec::new(),
            )
            .optional(),
        }
    }
}

impl Stores {
    /// The watches that keep the stores current while they are polled. Reading a page of a list takes time:
    /// each belongs in its own task.
    pub(crate) fn feeds(self: &Arc<Self>, client: &Client) -> [BoxFuture<'static, ()>; 7] {
        fn feed<K: Cached>(
            stores: &Arc<Stores>,
            kind: fn(&Stores) -> &Kind<K>,
            api: Api<K>,
        ) -> BoxFuture<'static, ()> {
            let stores = Arc::clone(stores);
            async move { kind(&stores).follow(api).await }.boxed()
        }
        let client = &lists(client.clone());
        let lean = metadata_only(client.clone());
        [
            feed(self, |stores| &stores.subscriptions, Api::all(client.clone())),
            feed(self, |stores| &stores.plans, Api::all(client.clone())),
            feed(self, |stores| &stores.versions, Api::all(client.clone())),
            feed(self, |stores| &stores.groups, Api::all(client.clone())),
            feed(self, |stores| &stores.conditions, Api::all(client.clone())),
            feed(self, |stores| &stores.namespaces, Api::all(lean)),
            feed(self, |stores| &stores.policies, Api::all(client.clone())),
        ]
    }

    /// Stores the response of a write; kinds without a store are ignored.
    pub(crate) fn wrote<K: Any>(&self, object: K) {
        fn of<K: Cached>(kind: &Kind<K>, object: Box<dyn Any>) -> Result<(), Box<dyn Any>> {
            object.downcast::<K>().map(|object| kind.wrote(*object))
        }
        // An error returns the object: it is of another kind.
        let _ = of(&self.subscriptions, Box::new(object))
            .or_else(|object| of(&self.plans, object))
            .or_else(|object| of(&self.versions, object))
            .or_else(|object| of(&self.groups, object))
            .or_else(|object| of(&self.conditions, object))
            .or_else(|object| of(&self.namespaces, object));
    }

    /// Returns when all stores have read the cluster once.
    pub(crate) async fn synced(&self) {
        tokio::join!(
            self.subscriptions.filled(),
            self.plans.filled(),
            self.versions.filled(),
            self.groups.filled(),
            self.conditions.filled(),
            self.namespaces.filled(),
            self.policies.filled(),
        );
    }

    /// The objects of a namespace for a decision. They may lag behind the cluster.
    pub(crate) async fn snapshot(&self, resources: &Resources, namespace: &str) -> Snapshot {
        let objects = Watched {
            csvs: self.versions.in_namespace(namespace),
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
fn apis(csv: &Version) -> Vec<String> {
    let crds = csv.spec.owned_crds().iter().chain(csv.spec.required_crds()).map(|crd| crd.name.clone());
    let definitions = csv.spec.api_service_definitions.iter();
    let services = definitions.flat_map(|apis| apis.owned.iter().chain(&apis.required));
    crds.chain(services.map(|api| format!("{}.{}", api.version, api.group))).collect()
}
