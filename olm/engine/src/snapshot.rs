//! What the engine reads from the cluster: the objects of one namespace, and single objects by name.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{
    ClusterServiceVersion, OperatorCondition, OperatorGroup, Subscription,
    csv::{ApiServiceDescription, CrdDescription},
    names,
};
use olm_plan::{Fact, Live, ObjectRef, Policies, installed_of};
use olm_resolver::{ApiFact, Facts, Gvk, Installed, Package, Request, Universe, Version};
use serde_json::{Value, json};

use crate::{
    cluster_facts::Caller,
    installed,
    resources::{Id, ResourceError, Resources},
};

/// Maximum number of packages whose dependencies are looked up on the cluster; beyond it, only those of the
/// requested packages: a constraint by label, `not` or CEL may match any bundle and adds whole catalogs.
const ASKING: usize = 100;

const READS: usize = 16;

/// State of the Subscription's namespace, read at one time.
#[derive(Default)]
pub struct Snapshot {
    pub csvs: Vec<Arc<ClusterServiceVersion>>,
    pub groups: Vec<Arc<OperatorGroup>>,
    pub conditions: Vec<Arc<OperatorCondition>>,
    pub subscriptions: Vec<Arc<Subscription>>,
    pub kubernetes: Option<Version>,
    /// The InstallPolicies that apply in the namespace.
    pub policies: Fact<Policies>,
    pub(super) caller: Caller,
    /// The installed versions as the resolver's input; equal for all Subscriptions of the namespace.
    pub(super) installed: OnceLock<Vec<Installed>>,
}

/// The objects of one namespace, and the InstallPolicies that apply there.
pub struct Watched {
    pub csvs: Vec<Arc<ClusterServiceVersion>>,
    pub groups: Vec<Arc<OperatorGroup>>,
    pub conditions: Vec<Arc<OperatorCondition>>,
    pub subscriptions: Vec<Arc<Subscription>>,
    pub policies: Policies,
}

/// Approximate number of namespaces that are evaluated concurrently.
const SHARED: usize = 4;

/// The most recent snapshots. The Subscriptions of a namespace are evaluated one after the other, mostly
/// without a change in between.
#[derive(Default)]
pub struct Snapshots(Mutex<VecDeque<Arc<Snapshot>>>);

impl Snapshots {
    /// The previous snapshot, where it is equal to the new one.
    pub fn share(&self, new: Snapshot) -> Arc<Snapshot> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = last.iter().find(|known| known.is_same(&new)) {
            return Arc::clone(same);
        }
        let new = Arc::new(new);
        last.truncate(SHARED - 1);
        last.push_front(Arc::clone(&new));
        new
    }
}

impl Snapshot {
    /// Whether both are of the same objects, by pointer.
    fn is_same(&self, other: &Self) -> bool {
        fn same<K>(one: &[Arc<K>], other: &[Arc<K>]) -> bool {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| Arc::ptr_eq(a, b))
        }
        same(&self.csvs, &other.csvs)
            && same(&self.groups, &other.groups)
            && same(&self.conditions, &other.conditions)
            && same(&self.subscriptions, &other.subscriptions)
            && self.kubernetes == other.kubernetes
            && self.policies == other.policies
    }

    /// The installed operators as the resolver's input.
    fn installed_facts(&self) -> &[Installed] {
        self.installed.get_or_init(|| {
            let stays = |csv: &&Arc<ClusterServiceVersion>| {
                csv.metadata.deletion_timestamp.is_none() && !is_replaced(csv, &self.csvs)
            };
            self.csvs.iter().filter(stays).map(|csv| fact(csv, &self.subscriptions)).collect()
        })
    }

    /// From objects that the caller watches, which may lag behind the cluster. Of the API server only its
    /// version is requested.
    pub async fn watched(resources: &Resources, objects: Watched) -> Self {
        let Watched { csvs, groups, conditions, subscriptions, policies } = objects;
        Self {
            csvs,
            groups,
            conditions,
            subscriptions,
            kubernetes: kubernetes(resources).await,
            policies: Fact::Known(policies),
            caller: Caller::Installer,
            installed: OnceLock::new(),
        }
    }

    /// From the cluster. `policies` are those that apply in the namespace, read after its objects.
    pub async fn read(
        resources: &Resources,
        namespace: &str,
        policies: impl Future<Output = Fact<Policies>>,
    ) -> Result<Self, ResourceError> {
        let everything = ListParams::default();
        // Copies that OLM v0 left belong to other namespaces.
        let originals = ListParams::default().labels(&format!("!{}", names::LABEL_COPIED_FROM));
        let (csvs, groups, conditions, subscriptions, kubernetes) = tokio::join!(
            list::<ClusterServiceVersion>(resources, namespace, &originals),
            list::<OperatorGroup>(resources, namespace, &everything),
            list::<OperatorCondition>(resources, namespace, &everything),
            list::<Subscription>(resources, namespace, &everything),
            kubernetes(resources),
        );
        Ok(Self {
            csvs: csvs?,
            groups: groups?,
            conditions: conditions?,
            subscriptions: subscriptions?,
            kubernetes,
            policies: policies.await,
            caller: Caller::Installer,
            installed: OnceLock::new(),
        })
    }

    /// Marks the snapshot as read for a preview by a user, who does not apply the plan.
    pub fn for_user(self) -> Self {
        Self { caller: Caller::User, ..self }
    }

    /// The version that the Subscription has installed.
    pub fn installed(
        &self,
        subscription: &Subscription,
        package: Option<&Package>,
    ) -> Option<&ClusterServiceVersion> {
        installed::installed(subscription, &self.csvs, |name| {
            package.is_some_and(|p| p.bundle(name).is_some())
        })
    }

    /// The version that was installed before `bundle`, which may exist already.
    pub(super) fn installed_before(
        &self,
        subscription: &Subscription,
        package: Option<&Package>,
        bundle: &str,
    ) -> Option<&ClusterServiceVersion> {
        if let Some(new) = self.csv(bundle) {
            return self.csv(new.spec.replaces.as_deref()?);
        }
        self.installed(subscription, package)
    }

    pub fn csv(&self, name: &str) -> Option<&ClusterServiceVersion> {
        let named = |csv: &&Arc<ClusterServiceVersion>| csv.metadata.name.as_deref() == Some(name);
        self.csvs.iter().find(named).map(AsRef::as_ref)
    }

    /// The operator's `Upgradeable` condition; `Ok` when it reports none.
    pub fn upgradeable(&self, csv: &str) -> Result<(), String> {
        let condition = self.conditions.iter().find(|c| c.metadata.name.as_deref() == Some(csv));
        condition.map_or(Ok(()), |condition| condition.upgradeable())
    }
}

async fn kubernetes(resources: &Resources) -> Option<Version> {
    // An unknown version rejects nothing; a caller without the right to read it still gets a plan.
    let mut version = olm_version::parse_lenient(&resources.kubernetes().await.ok()?).ok()?;
    version.pre = Default::default();
    Some(version)
}

async fn list<K>(
    resources: &Resources,
    namespace: &str,
    params: &ListParams,
) -> Result<Vec<Arc<K>>, ResourceError>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api = Api::<K>::namespaced(resources.client().clone(), namespace);
    let list = api.list(params).await.map_err(|source| ResourceError::Api {
        verb: "list",
        object: format!("{} in namespace {namespace}", K::plural(&())),
        source: Box::new(source),
    })?;
    Ok(list.items.into_iter().map(Arc::new).collect())
}

/// The resolver's facts: operators of the namespace, and which of the required APIs are served.
pub(super) async fn facts(
    resources: &Resources,
    universe: &Universe,
    requests: &[Request],
    snapshot: &Snapshot,
) -> Result<Facts, ResourceError> {
    let packages = universe.catalogs().values().flat_map(|catalog| catalog.packages.values());
    let asking: Vec<_> = match packages.clone().count() {
        count if count <= ASKING => packages.map(AsRef::as_ref).collect(),
        _ => requests.iter().filter_map(|r| universe.package(&r.catalog, &r.package)).collect(),
    };
    let mut bundles = asking.iter().flat_map(|package| package.bundles());
    let limited = bundles.any(|bundle| bundle.max_openshift_version.is_some());
    let needed: BTreeSet<&Gvk> = asking.into_iter().flat_map(|package| package.needs().1).collect();
    let mut apis = BTreeMap::new();
    for gvk in needed {
        let id = kube::core::GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        match resources.lookup(&id).await {
            Ok(_) => drop(apis.insert(gvk.clone(), ApiFact { owner: None })),
            Err(ResourceError::UnknownKind { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Facts {
        kubernetes: snapshot.kubernetes.clone(),
        apis,
        installed: snapshot.installed_facts().to_vec(),
        openshift: if limited { openshift(resources).await? } else { None },
        policy: Vec::new(),
        allow: snapshot.policies.known().map(Policies::allowlists).unwrap_or_default(),
    })
}

/// Whether another version replaces it. A replaced version is on its way out, even where the new one fails:
/// it must not block a newer one that fixes the failure.
fn is_replaced(csv: &ClusterServiceVersion, all: &[Arc<ClusterServiceVersion>]) -> bool {
    let name = csv.metadata.name.as_ref();
    let replaces = |other: &&Arc<ClusterServiceVersion>| {
        other.metadata.deletion_timestamp.is_none()
            && other.spec.replaces.as_ref() == name
            // of two that replace each other, neither is the old one
            && csv.spec.replaces.as_ref() != other.metadata.name.as_ref()
    };
    all.iter().any(|other| replaces(&other))
}

/// The version of OpenShift, where the cluster reports one.
async fn openshift(resources: &Resources) -> Result<Option<Version>, ResourceError> {
    let id = Id::new("config.openshift.io/v1", "ClusterVersion", None, "version");
    match resources.get(&id).await {
        Ok(found) => {
            let version = found.as_ref().and_then(|it| it.pointer("/status/desired/version")?.as_str());
            Ok(version.and_then(|text| olm_version::parse_lenient(text).ok()))
        }
        Err(ResourceError::UnknownKind { .. }) => Ok(None),
        Err(error) if error.is_forbidden() => Ok(None),
        Err(error) => Err(error),
    }
}

fn fact(csv: &ClusterServiceVersion, subscriptions: &[Arc<Subscription>]) -> Installed {
    let name = csv.name_any();
    let namespace = csv.namespace().unwrap_or_default();
    let by_status = |s: &&Arc<Subscription>| {
        s.status.as_ref().is_some_and(|status| {
            status.installed_csv.as_deref() == Some(&name) || status.current_csv.as_deref() == Some(&name)
        })
    };
    let by_label =
        |s: &&Arc<Subscription>| csv.labels().contains_key(&names::component_label(&s.spec.name, &namespace));
    let owner = subscriptions.iter().find(by_status).or_else(|| subscriptions.iter().find(by_label));
    let id = owner.map(|s| format!("{namespace}/{}", s.name_any()));
    let mut installed = installed_of(&resolver_properties(csv), id.as_deref());
    if let Some(owner) = owner {
        installed.package = Some(owner.spec.name.clone());
    }
    installed
}

/// The properties of an installed version that the resolver reads. Serialising all of it would be most of the
/// work of a decision.
fn resolver_properties(csv: &ClusterServiceVersion) -> Value {
    let crds = |list: &[CrdDescription]| -> Vec<Value> {
        list.iter().map(|c| json!({ "name": c.name, "version": c.version, "kind": c.kind })).collect()
    };
    let services = csv.spec.api_service_definitions.as_ref();
    let apis = |list: &[ApiServiceDescription]| -> Vec<Value> {
        list.iter().map(|a| json!({ "group": a.group, "version": a.version, "kind": a.kind })).collect()
    };
    json!({
        "metadata": csv.metadata,
        "spec": {
            "version": csv.spec.version,
            "customresourcedefinitions": {
                "owned": crds(csv.spec.owned_crds()), "required": crds(csv.spec.required_crds()),
            },
            "apiservicedefinitions": {
                "owned": services.map(|s| apis(&s.owned)), "required": services.map(|s| apis(&s.required)),
            },
        },
    })
}

/// The package of a ClusterServiceVersion, from its component label.
pub fn package_of(csv: &ClusterServiceVersion) -> Option<String> {
    let suffix = format!(".{}", csv.namespace().unwrap_or_default());
    csv.labels()
        .keys()
        .filter_map(|key| key.strip_prefix(names::LABEL_COMPONENT_PREFIX))
        .find_map(|component| component.strip_suffix(&suffix))
        .map(str::to_owned)
}

/// The live state of objects, and those that the caller may not read. These count as absent: the plan's
/// digest does not depend on live state.
pub async fn read_live(
    resources: &Resources,
    wanted: Vec<ObjectRef>,
) -> Result<(Live, BTreeSet<ObjectRef>), ResourceError> {
    let read = |reference: ObjectRef| async move {
        let id =
            Id::new(&reference.api_version, &reference.kind, reference.namespace.as_deref(), &reference.name);
        match resources.get(&id).await {
            Ok(found) => Ok((reference, Ok(found))),
            Err(error) if error.is_forbidden() => Ok((reference, Err(()))),
            Err(error) => Err(error),
        }
    };
    let answers: Vec<_> = stream::iter(wanted).map(read).buffer_unordered(READS).try_collect().await?;
    let (mut live, mut unreadable) = (Live::new(), BTreeSet::new());
    for (reference, answer) in answers {
        match answer {
            Ok(Some(object)) => drop(live.insert(reference, object)),
            Ok(None) => {}
            Err(()) => drop(unreadable.insert(reference)),
        }
    }
    Ok((live, unreadable))
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionSpec;

    use super::*;

    fn csv(name: &str, replaces: Option<&str>) -> Arc<ClusterServiceVersion> {
        let replaces = replaces.map(str::to_owned);
        let spec = ClusterServiceVersionSpec { replaces, ..Default::default() };
        Arc::new(ClusterServiceVersion::new(name, spec))
    }

    #[test]
    fn partial_facts_of_an_installed_version_match_the_whole() {
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "metadata": {
                "name": "a.v1.2.3", "namespace": "ns", "labels": { "operators.coreos.com/a.ns": "" },
                "annotations": { "operatorframework.io/properties": r#"{"properties":[{"type":"x","value":1}]}"# },
            },
            "spec": {
                "version": "1.2.3",
                "install": { "strategy": "deployment", "spec": { "deployments": [{ "name": "a", "spec": {} }] } },
                "customresourcedefinitions": {
                    "owned": [{ "name": "as.example.com", "version": "v1", "kind": "A", "description": "long" }],
                    "required": [{ "name": "bs.example.com", "version": "v2", "kind": "B" }],
                },
                "apiservicedefinitions": { "owned": [{ "name": "c", "group": "g", "version": "v1", "kind": "C" }] },
            },
        }))
        .unwrap();
        let whole = installed_of(&serde_json::to_value(&csv).unwrap(), Some("ns/a"));
        assert_eq!((whole.provides.len(), whole.requires.len(), whole.properties.len()), (2, 1, 1));
        assert_eq!(
            format!("{:?}", installed_of(&resolver_properties(&csv), Some("ns/a"))),
            format!("{whole:?}")
        );
    }

    #[test]
    fn a_snapshot_is_shared_as_long_as_nothing_is_different() {
        let taken =
            |csvs: &[Arc<ClusterServiceVersion>]| Snapshot { csvs: csvs.to_vec(), ..Snapshot::default() };
        let (all, snapshots) = ([csv("a.v1", None), csv("b.v1", None)], Snapshots::default());
        let first = snapshots.share(taken(&all));
        assert_eq!(first.installed_facts().len(), 2);
        assert!(Arc::ptr_eq(&first, &snapshots.share(taken(&all))));
        // equal content in another object
        let changed = [Arc::clone(&all[0]), csv("b.v1", None)];
        let second = snapshots.share(taken(&changed));
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&second, &snapshots.share(taken(&all[..1]))));
        assert!(Arc::ptr_eq(&first, &snapshots.share(taken(&all))));
    }

    #[test]
    fn a_version_that_is_replaced_counts_no_more() {
        let all =
            [csv("a.v1", None), csv("a.v2", Some("a.v1")), csv("a.v3", Some("a.v2")), csv("b.v1", None)];
        let left: Vec<String> =
            all.iter().filter(|csv| !is_replaced(csv, &all)).map(|csv| csv.name_any()).collect();
        assert_eq!(left, ["a.v3", "b.v1"]);
        let circle = [csv("a.v1", Some("a.v2")), csv("a.v2", Some("a.v1"))];
        assert!(circle.iter().all(|csv| !is_replaced(csv, &circle)));
    }
}
