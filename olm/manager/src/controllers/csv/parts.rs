//! The parts and requirements of ClusterServiceVersions, cached in reduced form, so that reconciling a
//! running version makes no request to the API server.
//!
//! The cache may lag behind the cluster. So an existing object is trusted, and its changes wake the version;
//! a missing one is read live.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt::Debug,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture, stream, stream::FuturesUnordered};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        core::v1::{Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client, Resource, ResourceExt, core::PartialObjectMeta, runtime::watcher};
use olm_api::names;
use olm_client::{lists, metadata_only};
use olm_engine::ownership::OwnerKey;
use olm_plan::Rule;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{facts::ApiService, workload::Workload};
use crate::{
    cache::field_cache::{FieldCache, ObjectChange, components},
    context::{Ctx, Error},
};

/// Number of recently cleaned-up versions that are kept: more than are deleted at a time. A version beyond it
/// causes a needless search.
const REMEMBERED: usize = 1_024;
/// Page size of a list: a page is held in memory until it is read.
const PAGE: u32 = 500;

/// An API server, above all one of several, serves a new kind some time after it has established the
/// CustomResourceDefinition, without another change of it.
const DISCOVERY_LAGS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// A ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedAccount {
    pub(super) uid: Box<str>,
    /// UID and name of the versions that own it.
    pub(super) owners: Box<[(Box<str>, Box<str>)]>,
}

impl CachedAccount {
    pub(super) fn of(account: &PartialObjectMeta<ServiceAccount>) -> Self {
        let owners = account.owner_references().iter().filter(|owner| owner.kind == "ClusterServiceVersion");
        Self {
            uid: account.metadata.uid.as_deref().unwrap_or_default().into(),
            owners: owners.map(|owner| (owner.uid.as_str().into(), owner.name.as_str().into())).collect(),
        }
    }
}

/// A CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CachedDefinition {
    version: Box<str>,
    components: Box<[String]>,
}

/// The rules of a role. Roles of one operator in many namespaces share equal rules.
pub(super) type Rules = Arc<Vec<Rule>>;

#[derive(Debug, Clone, PartialEq)]
struct CachedClusterRole {
    rules: Rules,
    /// Labels and aggregation of a role of an OperatorGroup.
    aggregates: Option<Arc<Value>>,
}

impl CachedClusterRole {
    fn of(role: &ClusterRole, rules: Rules) -> Self {
        let of_group = role.labels().get(names::LABEL_OWNER_KIND).is_some_and(|kind| kind == "OperatorGroup");
        let aggregates = of_group.then(|| {
            Arc::new(
                json!({ "metadata": { "labels": role.labels() }, "aggregationRule": role.aggregation_rule }),
            )
        });
        // Rules that Kubernetes aggregates are not needed here.
        let rules = if of_group { Rules::default() } else { rules };
        Self { rules, aggregates }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(super) deployments: FieldCache<Workload>,
    pub(super) accounts: FieldCache<CachedAccount>,
    roles: FieldCache<Rules>,
    cluster_roles: FieldCache<CachedClusterRole>,
    bindings: FieldCache<()>,
    cluster_bindings: FieldCache<()>,
    definitions: FieldCache<CachedDefinition>,
    api_services: FieldCache<(ApiService, Box<str>)>,
    /// Only their changes are used, as triggers.
    services: FieldCache<Box<str>>,
    validating: FieldCache<Box<str>>,
    mutating: FieldCache<Box<str>>,
    /// CustomResourceDefinitions that were read.
    read: Mutex<HashMap<String, Arc<CustomResourceDefinition>>>,
    /// Their relevant content when versions were last woken.
    notified: Mutex<HashMap<String, Value>>,
    rules: Mutex<HashMap<u64, Weak<Vec<Rule>>>>,
    cleaned: Mutex<VecDeque<Box<str>>>,
}

impl Parts {
    /// The watches that keep the parts current while they are polled. Reading a page of a list takes time:
    /// each belongs in its own task.
    pub(crate) fn watches(self: &Arc<Self>, client: &Client) -> Vec<BoxFuture<'static, ()>> {
        let managed = || labelled(&format!("{}=true,{}", names::LABEL_MANAGED, names::LABEL_OWNER));
        let owned = || labelled(names::LABEL_OWNER);
        let any = || watcher::Config::default().page_size(PAGE);
        let client = &lists(client.clone());
        let lean = &metadata_only(client.clone());
        vec![
            self.watch(
                client,
                managed(),
                |parts| &parts.deployments,
                |_, deployment| Workload::of(deployment),
            ),
            self.watch(lean, owned(), |parts| &parts.accounts, |_, account| CachedAccount::of(account)),
            self.watch(
                client,
                owned(),
                |parts| &parts.roles,
                |parts, role: &Role| parts.shared(role.rules.iter().flatten()),
            ),
            self.watch(
                client,
                owned(),
                |parts| &parts.cluster_roles,
                |parts, role: &ClusterRole| {
                    CachedClusterRole::of(role, parts.shared(role.rules.iter().flatten()))
                },
            ),
            self.watch(lean, owned(), |parts| &parts.bindings, |_, _: &PartialObjectMeta<RoleBinding>| ()),
            self.watch(
                lean,
                owned(),
                |parts| &parts.cluster_bindings,
                |_, _: &PartialObjectMeta<ClusterRoleBinding>| (),
            ),
            self.watch(
                lean,
                any(),
                |parts| &parts.definitions,
                |_, crd: &PartialObjectMeta<CustomResourceDefinition>| CachedDefinition {
                    version: version(crd),
                    components: components(&crd.metadata).into(),
                },
            ),
            self.watch(
                client,
                any(),
                |parts| &parts.api_services,
                |_, api: &APIService| (availability(api), version(api)),
            ),
            self.watch(
                lean,
                managed(),
                |parts| &parts.services,
                |_, service: &PartialObjectMeta<Service>| version(service),
            ),
            self.watch(
                lean,
                managed(),
                |parts| &parts.validating,
                |_, hooks: &PartialObjectMeta<ValidatingWebhookConfiguration>| version(hooks),
            ),
            self.watch(
                lean,
                managed(),
                |parts| &parts.mutating,
                |_, hooks: &PartialObjectMeta<MutatingWebhookConfiguration>| version(hooks),
            ),
        ]
    }

    fn watch<K, V>(
        self: &Arc<Self>,
        client: &Client,
        selected: watcher::Config,
        cache: fn(&Self) -> &FieldCache<V>,
        read: fn(&Self, &K) -> V,
    ) -> BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        V: Clone + PartialEq + Send + 'static,
    {
        let (parts, events) = (Arc::clone(self), watcher(Api::<K>::all(client.clone()), selected));
        async move { cache(&parts).follow(events, |object| read(&parts, object)).await }.boxed()
    }

    /// Returns when the cluster has been read once.
    pub(crate) async fn synced(&self) {
        tokio::join!(
            self.deployments.synced(),
            self.accounts.synced(),
            self.roles.synced(),
            self.cluster_roles.synced(),
            self.bindings.synced(),
            self.cluster_bindings.synced(),
            self.definitions.synced(),
            self.api_services.synced(),
            self.services.synced(),
            self.validating.synced(),
            self.mutating.synced(),
        );
    }

    /// The owners out of reach of garbage collection that labels of roles and bindings named in the first
    /// lists. Available once, after [`Self::synced`].
    pub(crate) fn unreachable_owners(&self) -> BTreeSet<OwnerKey> {
        let mut unreachable = self.roles.unreachable_owners();
        unreachable.append(&mut self.bindings.unreachable_owners());
        unreachable.append(&mut self.cluster_roles.unreachable_owners());
        unreachable.append(&mut self.cluster_bindings.unreachable_owners());
        unreachable
    }

    /// Changes of the objects that versions own, with the owner in their labels.
    pub(crate) fn owned(&self) -> impl Stream<Item = ObjectChange> + Send + 'static + use<> {
        let all: Vec<futures::stream::BoxStream<'static, ObjectChange>> = vec![
            Box::pin(self.deployments.changes()),
            Box::pin(self.accounts.changes()),
            Box::pin(self.roles.changes()),
            Box::pin(self.cluster_roles.changes()),
            Box::pin(self.bindings.changes()),
            Box::pin(self.cluster_bindings.changes()),
            Box::pin(self.services.changes()),
            Box::pin(self.validating.changes()),
            Box::pin(self.mutating.changes()),
        ];
        stream::select_all(all)
    }

    /// Relevant changes of the objects that versions name in their spec: CustomResourceDefinitions and
    /// APIServices.
    pub(super) fn named(ctx: &Arc<Ctx>) -> impl Stream<Item = ObjectChange> + Send + 'static + use<> {
        let reader = Arc::clone(ctx);
        let definitions = ctx.parts.definitions.changes().filter_map(move |change| {
            let ctx = Arc::clone(&reader);
            async move { ctx.parts.has_relevant_change(&change.name, &ctx).await.then_some(change) }
        });
        stream::select(definitions.boxed(), ctx.parts.api_services.changes().boxed())
    }

    /// The Operators of each CustomResourceDefinition.
    pub(crate) fn memberships(&self) -> Vec<(String, Vec<String>)> {
        let all = self.definitions.within("").into_iter();
        all.map(|(name, seen)| (name, seen.components.into_vec())).filter(|(_, of)| !of.is_empty()).collect()
    }

    /// Changes of CustomResourceDefinitions, each repeated after the [`DISCOVERY_LAGS`].
    pub(crate) fn definitions(&self) -> impl Stream<Item = ObjectChange> + Send + 'static + use<> {
        let repeated = self.definitions.changes().flat_map_unordered(None, |change| {
            let after = |lag| {
                let change = change.clone();
                async move {
                    tokio::time::sleep(lag).await;
                    change
                }
            };
            DISCOVERY_LAGS.map(after).into_iter().collect::<FuturesUnordered<_>>()
        });
        stream::select(self.definitions.changes(), repeated)
    }

    /// The live CustomResourceDefinition without its schemas; read again only when it has changed, or was not
    /// served yet.
    pub(super) async fn definition(
        &self,
        name: &str,
        ctx: &Ctx,
    ) -> Result<Option<Arc<CustomResourceDefinition>>, Error> {
        let seen = self.definitions.get("", name).map(|seen| seen.version);
        let same = |known: &Arc<CustomResourceDefinition>| {
            known.metadata.resource_version.as_deref() == seen.as_deref() && is_established(known)
        };
        match self.known(name).filter(same) {
            Some(known) => Ok(Some(known)),
            None => self.read_definition(name, ctx).await,
        }
    }

    /// Whether a relevant field of a CustomResourceDefinition changed. Every operator that shares it adds a
    /// label, which must not wake all the others.
    async fn has_relevant_change(&self, name: &str, ctx: &Ctx) -> bool {
        let before = self.known(name).map(|before| content(&before));
        let now = self.definition(name, ctx).await.ok().flatten().map(|now| content(&now));
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let last = match &now {
            Some(now) => notified.insert(name.to_owned(), now.clone()),
            None => notified.remove(name),
        };
        // One version may have read the change already; the others are still to be woken. Unknown content
        // counts as changed.
        now.is_none() || before != now || last != now
    }

    fn known(&self, name: &str) -> Option<Arc<CustomResourceDefinition>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    async fn read_definition(
        &self,
        name: &str,
        ctx: &Ctx,
    ) -> Result<Option<Arc<CustomResourceDefinition>>, Error> {
        let api = Api::<CustomResourceDefinition>::all(ctx.client.clone());
        let found = api.get_opt(name).await;
        let found = found.map_err(Error::kube(format!("get CustomResourceDefinition {name}")))?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut found) = found else {
            read.remove(name);
            return Ok(None);
        };
        found.metadata.managed_fields = None;
        found.metadata.annotations = None;
        found.metadata.labels = None;
        found.spec.versions.iter_mut().for_each(|version| version.schema = None);
        let found = Arc::new(found);
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        notified.entry(name.to_owned()).or_insert_with(|| content(&found));
        read.insert(name.to_owned(), Arc::clone(&found));
        Ok(Some(found))
    }

    /// The known state of an APIService.
    pub(super) fn api_service(&self, name: &str) -> ApiService {
        self.api_services.get("", name).map_or(ApiService::Absent, |(state, _)| state)
    }

    /// Whether a binding of a version is known to exist.
    pub(super) fn has_binding(&self, namespace: Option<&str>, name: &str) -> bool {
        match namespace {
            Some(namespace) => self.bindings.get(namespace, name),
            None => self.cluster_bindings.get("", name),
        }
        .is_some()
    }

    /// The rules of a role of a version, where it is known to exist.
    pub(super) fn rules(&self, namespace: Option<&str>, name: &str) -> Option<Rules> {
        match namespace {
            Some(namespace) => self.roles.get(namespace, name),
            None => self.cluster_roles.get("", name).map(|role| role.rules),
        }
    }

    /// Stores the response of a write.
    pub(super) fn store_written(&self, deployment: &Deployment) -> Workload {
        let workload = Workload::of(deployment);
        self.deployments.insert(&deployment.metadata, workload.clone());
        workload
    }

    /// Records before the deletion of a version that no object of it is left out of reach of garbage
    /// collection.
    pub(super) fn cleaned(&self, uid: &str) {
        let mut cleaned = self.cleaned.lock().unwrap_or_else(PoisonError::into_inner);
        cleaned.push_back(uid.into());
        if cleaned.len() > REMEMBERED {
            cleaned.pop_front();
        }
    }

    /// Whether a deleted version is known to have left no objects.
    pub(crate) fn left_nothing(&self, uid: &str) -> bool {
        self.cleaned.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|cleaned| **cleaned == *uid)
    }

    /// A group's ClusterRole, where it is known to exist.
    pub(crate) fn group_role(&self, name: &str) -> Option<Arc<Value>> {
        self.cluster_roles.get("", name)?.aggregates
    }

    /// The rules, shared by all roles with equal ones.
    fn shared<'a>(&self, rules: impl Iterator<Item = &'a PolicyRule>) -> Rules {
        let rules: Vec<Rule> = rules.map(rule).collect();
        let mut hasher = DefaultHasher::new();
        for rule in &rules {
            (&rule.verbs, &rule.groups, &rule.resources, &rule.names, &rule.urls).hash(&mut hasher);
        }
        let key = hasher.finish();
        let mut known = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.get(&key).and_then(Weak::upgrade).filter(|same| **same == rules) {
            return same;
        }
        known.retain(|_, rules| rules.strong_count() > 0);
        let rules = Arc::new(rules);
        known.insert(key, Arc::downgrade(&rules));
        rules
    }
}

fn rule(rule: &PolicyRule) -> Rule {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    Rule {
        verbs: rule.verbs.clone(),
        groups: list(&rule.api_groups),
        resources: list(&rule.resources),
        names: list(&rule.resource_names),
        urls: list(&rule.non_resource_urls),
    }
}

/// The rules of a role from the API server.
pub(super) fn rules_of(role: &Value) -> Rules {
    Arc::new(role["rules"].as_array().into_iter().flatten().map(Rule::of).collect())
}

fn labelled(selector: &str) -> watcher::Config {
    watcher::Config::default().labels(selector).page_size(PAGE)
}

fn version<K: Resource>(object: &K) -> Box<str> {
    object.meta().resource_version.as_deref().unwrap_or_default().into()
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Established" && c.status == "True")
}

/// The fields that versions depend on.
fn content(crd: &CustomResourceDefinition) -> Value {
    let versions: Vec<Value> = crd.spec.versions.iter().map(|v| json!([v.name, v.served])).collect();
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
    let conditions: Vec<Value> =
        conditions.into_iter().flatten().map(|c| json!([c.type_, c.status])).collect();
    json!([crd.metadata.uid, versions, crd.spec.conversion, conditions])
}

fn availability(api: &APIService) -> ApiService {
    let conditions = api.status.as_ref().and_then(|status| status.conditions.as_ref());
    let available = conditions.into_iter().flatten().any(|c| c.type_ == "Available" && c.status == "True");
    if available { ApiService::Available } else { ApiService::Unavailable }
}
