//! Operator: a cluster-wide summary of the objects of one package in one namespace.
//!
//! The object `<package>.<namespace>` is made with a Subscription, and deleted when only
//! CustomResourceDefinitions are left of its components. It is written when a version has settled, not at
//! each step of an installation, and its components are read again only when the controllers' caches differ
//! from its status.

mod summary;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{StreamExt, stream};
use k8s_openapi::{
    api::core::v1::Namespace,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams},
    core::{DynamicObject, GroupVersionKind, PartialObjectMeta},
    runtime::{reflector::ObjectRef, watcher},
};
use olm_api::{
    ClusterServiceVersion, Condition, InstallPlan, Operator, OperatorCondition, OperatorStatus, Subscription,
    csv::CsvPhase,
    names,
    operator::{Components, RichReference},
};
use olm_client::lists;
use olm_engine::limits::{COMPONENTS, within};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::summary::{Summary, digest, is_compared};
use super::ledger::components;
use crate::{
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
    stores::{Cached, Kind, is_over},
};

/// Kinds of components that are listed from the API server, and whether they are in the namespace of the
/// operator. The other kinds come from the stores. Secrets are not included: the manager reads none.
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("apps", "v1", "Deployment", "deployments", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", false),
];

/// Page size of a list of Operators: each lists all of its components.
const PAGE: u32 = 100;

/// Operators to be read again whatever their status.
type Doubtful = Arc<Mutex<BTreeSet<String>>>;

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let operators =
        Arc::new(Kind::<Summary>::new(watcher::Config::default().page_size(PAGE), |_| {}, Summary::keys));
    let doubtful = Doubtful::default();
    let (definitions, homes) = (Arc::<Members>::default(), Arc::<Members>::default());
    let stores = Arc::clone(&ctx.stores);
    let controller = operators
        .controller()
        .reconcile_on(
            stores
                .subscriptions
                .wakes(|subscription: &Subscription| Some(ObjectRef::new(&name_for(subscription)))),
        )
        .reconcile_on(stores.versions.wakes({
            let stores = Arc::clone(&stores);
            move |csv: &ClusterServiceVersion| {
                let there = stores.versions.has(&csv.namespace().unwrap_or_default(), &csv.name_any());
                let rests = !there || csv.metadata.deletion_timestamp.is_some() || at_rest(csv);
                references(components(&csv.metadata).into_iter().filter(|_| rests))
            }
        }))
        .reconcile_on(stores.namespaces.wakes({
            let members = Arc::clone(&homes);
            move |namespace: &PartialObjectMeta<Namespace>| {
                references(members.changed(&namespace.name_any(), components(&namespace.metadata)))
            }
        }))
        .reconcile_on(stores.plans.wakes(of_its_namespace(&operators)))
        .reconcile_on(stores.conditions.wakes(of_its_namespace(&operators)))
        .reconcile_on(
            ctx.parts.owned().filter(gone).flat_map(|touched| stream::iter(references(touched.components))),
        )
        .reconcile_on(ctx.parts.definitions().flat_map({
            let (definitions, doubtful) = (Arc::clone(&definitions), Arc::clone(&doubtful));
            move |touched| {
                let changed = definitions.changed(&touched.name, touched.components);
                let mut doubtful = doubtful.lock().unwrap_or_else(PoisonError::into_inner);
                doubtful.extend(changed.iter().cloned());
                stream::iter(references(changed))
            }
        }));
    // The object is made with the Subscription that requests the operator.
    let makers = stores.subscriptions.controller();
    let known = async { tokio::join!(stores.synced(), ctx.parts.filled(), operators.filled()) };
    let made = Arc::clone(&operators);
    let work = async {
        tokio::select! {
            _ = known => {}
            () = shutdown.cancelled() => return,
        }
        definitions.seed(ctx.parts.memberships());
        let all = ctx.stores.namespaces.all();
        homes.seed(all.iter().map(|n| (n.name_any(), components(&n.metadata))).collect());
        tokio::join!(
            drive("operator", controller, Arc::clone(&ctx), shutdown.clone(), move |operator, ctx| {
                reconcile(operator, ctx, Arc::clone(&doubtful))
            }),
            drive(
                "operator_of_subscription",
                makers,
                Arc::clone(&ctx),
                shutdown.clone(),
                move |subscription, ctx| { make(subscription, ctx, Arc::clone(&made)) }
            ),
        );
    };
    tokio::select! {
        () = work => {}
        () = operators.follow(Api::all(lists(ctx.client.clone()))) => {}
    }
}

/// The Operators of each object of a kind.
#[derive(Default)]
struct Members(Mutex<HashMap<String, Vec<String>>>);

impl Members {
    fn seed(&self, all: Vec<(String, Vec<String>)>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
    }

    /// Stores the current Operators of an object, and returns those that were added or removed.
    fn changed(&self, object: &str, now: Vec<String>) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.remove(object).unwrap_or_default();
        let changed =
            before.iter().filter(|o| !now.contains(o)).chain(now.iter().filter(|o| !before.contains(o)));
        let changed = changed.cloned().collect();
        if !now.is_empty() {
            all.insert(object.to_owned(), now);
        }
        changed
    }
}

fn gone(touched: &super::ledger::Touched) -> std::future::Ready<bool> {
    std::future::ready(touched.gone)
}

/// All Operators of the namespace of an object. Its labels may name another Operator than before, or none,
/// and the object may be gone: each Operator compares its status with its components.
fn of_its_namespace<K: Cached>(
    operators: &Arc<Kind<Summary>>,
) -> impl Fn(&K) -> Vec<ObjectRef<Summary>> + Send + 'static + use<K> {
    let operators = Arc::clone(operators);
    move |object| operators.references_keyed(&object.namespace().unwrap_or_default())
}

fn references(names: impl IntoIterator<Item = String>) -> Vec<ObjectRef<Summary>> {
    names.into_iter().map(|name| ObjectRef::new(&name)).collect()
}

/// The names are the keys of the component label, so that each can be derived from the other.
fn name_for(subscription: &Subscription) -> String {
    let label =
        names::component_label(&subscription.spec.name, &subscription.namespace().unwrap_or_default());
    label.trim_start_matches(names::LABEL_COMPONENT_PREFIX).to_owned()
}

/// Whether a version is in a settled phase.
fn at_rest(csv: &ClusterServiceVersion) -> bool {
    csv.status.as_ref().is_some_and(|s| matches!(s.phase, CsvPhase::Succeeded | CsvPhase::Failed))
}

async fn make(
    subscription: Arc<Subscription>,
    ctx: Arc<Ctx>,
    operators: Arc<Kind<Summary>>,
) -> Result<Action, Error> {
    let installed = subscription.status.as_ref().is_some_and(|s| s.installed_csv.is_some());
    let name = name_for(&subscription);
    // Before an operator has components, there is no summary.
    if subscription.metadata.deletion_timestamp.is_none() && installed && !operators.has("", &name) {
        let operator = json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": { "name": name }, "spec": {}
        });
        let made = ctx.resources.apply(&operator).await?;
        if let Ok(made) = serde_json::from_value(made) {
            operators.wrote(made);
        }
    }
    Ok(Action::await_change())
}

async fn reconcile(operator: Arc<Summary>, ctx: Arc<Ctx>, doubtful: Doubtful) -> Result<Action, Error> {
    if operator.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = operator.name_any();
    // Names of packages may contain dots, names of namespaces do not.
    let Some((package, namespace)) = name.rsplit_once('.') else { return Ok(Action::await_change()) };
    let key = names::component_label(package, namespace);
    let known = known(&key, &name, namespace, &ctx);
    // Written when a version has settled; then an event arrives.
    let moving = |component: &RichReference| {
        let conditions = &component.conditions;
        let csv = component.kind.as_deref() == Some("ClusterServiceVersion");
        csv && !conditions.iter().any(|c| c.type_ == "Succeeded" || c.type_ == "Failed")
    };
    if known.iter().any(moving) {
        return Ok(Action::await_change());
    }
    let doubted = doubtful.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
    let lives = known.iter().any(keeps_alive);
    if lives && operator.digest == digest(&bounded(known.clone()).0) && !doubted {
        return Ok(Action::await_change());
    }
    let mut refs = asked(&key, namespace, &ctx).await?;
    refs.extend(known);
    let api = Api::<Operator>::all(ctx.client.clone());
    if refs.iter().all(|component| component.kind.as_deref() == Some("CustomResourceDefinition")) {
        return match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => Ok(Action::await_change()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
            Err(error) => Err(Error::kube(format!("delete Operator {name}"))(error)),
        };
    }
    let new = status(&key, refs);
    let found = api.get_opt(&name).await.map_err(Error::kube(format!("get Operator {name}")))?;
    if found.is_some_and(|found| found.status.as_ref() != Some(&new)) {
        let patch = json!({ "status": new });
        let written = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(Error::kube(format!("write the status of Operator {name}")))?;
    }
    // The remains of a removed operator disappear gradually, not all with an event.
    Ok(if lives { Action::await_change() } else { Action::requeue(SAFETY_NET) })
}

/// The components of the kinds that the stores contain; the status is compared with them.
fn known(key: &str, operator: &str, namespace: &str, ctx: &Ctx) -> Vec<RichReference> {
    let mut refs = Vec::new();
    for csv in ctx.stores.versions.in_namespace(namespace) {
        if csv.labels().contains_key(key) {
            let conditions = phase(&csv).into_iter().collect();
            refs.push(RichReference { conditions, ..reference::<ClusterServiceVersion>(&csv.metadata) });
        }
    }
    // Users make them, without the label.
    for subscription in ctx.stores.subscriptions.in_namespace(namespace) {
        if name_for(&subscription) == operator {
            refs.push(reference::<Subscription>(&subscription.metadata));
        }
    }
    let namespaces = ctx.stores.namespaces.keyed(key);
    refs.extend(namespaces.iter().map(|namespace| reference::<Namespace>(&namespace.metadata)));
    for plan in ctx.stores.plans.in_namespace(namespace) {
        if plan.labels().contains_key(key) && !at_work(&plan) {
            refs.push(reference::<InstallPlan>(&plan.metadata));
        }
    }
    for condition in ctx.stores.conditions.in_namespace(namespace) {
        if condition.labels().contains_key(key) {
            refs.push(reference::<OperatorCondition>(&condition.metadata));
        }
    }
    refs
}

/// Whether a plan is being executed. A plan is listed once it is complete or failed.
fn at_work(plan: &InstallPlan) -> bool {
    plan.spec.approved && !is_over(plan) && plan.metadata.deletion_timestamp.is_none()
}

/// Whether an operator with this component is more than leftovers. Leftovers are also of kinds that are not
/// watched.
fn keeps_alive(component: &RichReference) -> bool {
    let kind = component.kind.as_deref();
    kind.is_some_and(|kind| ["ClusterServiceVersion", "Subscription", "Namespace"].contains(&kind))
}

fn reference<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> RichReference {
    RichReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        ..RichReference::default()
    }
}

/// All objects of the other kinds with the label, by their metadata.
async fn asked(key: &str, namespace: &str, ctx: &Ctx) -> Result<Vec<RichReference>, Error> {
    let params = ListParams::default().labels(key);
    let mut refs = Vec::new();
    for (group, version, kind, plural, namespaced) in KINDS.iter().copied() {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api = if namespaced {
            Api::<DynamicObject>::namespaced_with(ctx.client.clone(), namespace, &resource)
        } else {
            Api::all_with(ctx.client.clone(), &resource)
        };
        let list = match api.list_metadata(&params).await {
            Ok(list) => list,
            // A cluster without the kind, or an administrator revoked the right.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_forbidden() => continue,
            Err(error) => return Err(Error::kube(format!("list {plural} of {key}"))(error)),
        };
        refs.extend(list.into_iter().map(|found| RichReference {
            api_version: Some(gvk.api_version()),
            kind: Some(kind.to_owned()),
            namespace: found.namespace(),
            name: found.metadata.name,
            ..RichReference::default()
        }));
    }
    Ok(refs)
}

/// The phase of a version as a condition, in upstream's form. Pure.
fn phase(csv: &ClusterServiceVersion) -> Option<Condition> {
    let status = csv.status.as_ref()?;
    let mut condition = Condition::new(
        status.phase.as_str(),
        true,
        status.reason.clone().unwrap_or_default(),
        status.message.clone().unwrap_or_default(),
    );
    condition.last_update_time.clone_from(&status.last_update_time);
    condition.last_transition_time.clone_from(&status.last_transition_time);
    Some(condition)
}

/// As many components as the object has room for, in a fixed order, and the number of the omitted ones.
/// Compared kinds come first, so that the comparison stays defined when not all fit. Pure.
fn bounded(refs: Vec<RichReference>) -> (Vec<RichReference>, usize) {
    let sorted: BTreeMap<_, _> =
        refs.into_iter().map(|r| ((r.kind.clone(), r.namespace.clone(), r.name.clone()), r)).collect();
    let mut refs: Vec<RichReference> = sorted.into_values().collect();
    if within(refs.clone(), COMPONENTS).1 > 0 {
        refs.sort_by_key(|reference| !is_compared(reference));
    }
    within(refs, COMPONENTS)
}

/// Equal components give an equal status. Pure.
fn status(key: &str, refs: Vec<RichReference>) -> OperatorStatus {
    let (refs, more) = bounded(refs);
    let exists = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "Exists".into(),
        ..LabelSelectorRequirement::default()
    };
    let label_selector = LabelSelector { match_expressions: Some(vec![exists]), ..LabelSelector::default() };
    let remaining_item_count = i64::try_from(more).ok().filter(|more| *more > 0);
    OperatorStatus { components: Some(Components { label_selector, refs, remaining_item_count }) }
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionStatus;

    use super::*;

    #[test]
    fn only_operators_to_which_something_came_or_went_are_told() {
        let members = Members::default();
        let of = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        members.seed(vec![("crd".into(), of(&["a.one", "a.two"]))]);
        assert_eq!(members.changed("crd", of(&["a.one", "a.two"])), of(&[]));
        assert_eq!(members.changed("crd", of(&["a.two", "a.three"])), of(&["a.one", "a.three"]));
        assert_eq!(members.changed("crd", of(&[])), of(&["a.two", "a.three"]));
    }

    #[test]
    fn the_name_is_that_of_the_label() {
        let mut subscription = Subscription::default();
        subscription.spec.name = "etcd".into();
        subscription.metadata.namespace = Some("db".into());
        assert_eq!(name_for(&subscription), "etcd.db");
        assert_eq!(names::component_label("etcd", "db"), "operators.coreos.com/etcd.db");
    }

    #[test]
    fn the_status_has_upstreams_form_and_a_fixed_order() {
        let reference = |kind: &str, name: &str| RichReference {
            kind: Some(kind.into()),
            name: Some(name.into()),
            ..Default::default()
        };
        let refs = vec![reference("Subscription", "s"), reference("ClusterRole", "r")];
        let once = status("operators.coreos.com/etcd.db", refs.clone());
        assert_eq!(once, status("operators.coreos.com/etcd.db", refs.into_iter().rev().collect()));
        let value = serde_json::to_value(once).unwrap();
        assert_eq!(value["components"]["labelSelector"]["matchExpressions"][0]["operator"], "Exists");
        assert_eq!(value["components"]["refs"][0]["kind"], "ClusterRole");
    }

    /// Thousands of namespaces with the label of an operator, and a few thousand roles.
    #[test]
    fn an_operator_of_thousands_of_components_is_no_large_object_and_says_how_many_are_left_out() {
        let reference = |kind: &str, number: usize| RichReference {
            kind: Some(kind.into()),
            name: Some(format!("{kind}-{number:060}")),
            ..Default::default()
        };
        for namespaces in [10, 5_000] {
            let known: Vec<_> = (0..namespaces).map(|number| reference("Namespace", number)).collect();
            let roles = (0..5_000).map(|number| reference("ClusterRole", number));
            let refs: Vec<_> = roles.chain(known.clone()).collect();
            let components = status("operators.coreos.com/etcd.db", refs.clone()).components.unwrap();
            let left = components.remaining_item_count.unwrap();
            assert_eq!(components.refs.len() + usize::try_from(left).unwrap(), refs.len());
            assert!(serde_json::to_vec(&components).unwrap().len() < COMPONENTS + 1_000);
            // it is not written again for components without room
            assert_eq!(digest(&components.refs), digest(&bounded(known).0));
        }
    }

    #[test]
    fn a_version_is_shown_with_its_phase_once_it_rests() {
        let mut csv = ClusterServiceVersion::default();
        assert!(!at_rest(&csv) && phase(&csv).is_none());
        csv.status = Some(ClusterServiceVersionStatus {
            phase: CsvPhase::Succeeded,
            reason: Some("InstallSucceeded".into()),
            ..Default::default()
        });
        assert!(at_rest(&csv));
        let condition = phase(&csv).unwrap();
        assert_eq!(
            (condition.type_.as_str(), condition.reason.as_deref()),
            ("Succeeded", Some("InstallSucceeded"))
        );
    }
}
