//! Operator: a cluster-wide summary of the objects of one package in one namespace.
//!
//! The object `<package>.<namespace>` is made with a Subscription, and deleted when only
//! CustomResourceDefinitions are left of its components. It is written when a version has settled, not at
//! each step of an installation, and its components are read again only when the controllers' caches differ
//! from its status.
//!
//! [`observe`] reads the components → the object is written or deleted → [`status`] derives the status (pure) and
//! writes it.

mod members;
mod observe;
mod status;
mod summary;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::DeleteParams,
    core::PartialObjectMeta,
    runtime::{reflector::ObjectRef, watcher},
};
use olm_api::{ClusterServiceVersion, Operator, Subscription, csv::CsvPhase, names, operator::RichReference};
use olm_client::lists;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::{
    members::Members,
    summary::{Summary, digest},
};
use crate::{
    cache::{Cached, KindCache, field_cache::components},
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
};

/// Page size of a list of Operators: each lists all of its components.
const PAGE: u32 = 100;

/// Operators to be read again whatever their status.
type Doubtful = Arc<Mutex<BTreeSet<String>>>;

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let operators = Arc::new(KindCache::<Summary>::new(
        watcher::Config::default().page_size(PAGE),
        |_| {},
        Summary::keys,
    ));
    let doubtful = Doubtful::default();
    let (definitions, homes) = (Arc::<Members>::default(), Arc::<Members>::default());
    let cache = Arc::clone(&ctx.cache);
    let controller = operators
        .controller()
        .reconcile_on(
            cache
                .subscriptions
                .wakes(|subscription: &Subscription| Some(ObjectRef::new(&name_for(subscription)))),
        )
        .reconcile_on(cache.csvs.wakes({
            let cache = Arc::clone(&cache);
            move |csv: &ClusterServiceVersion| {
                let there = cache.csvs.has(&csv.namespace().unwrap_or_default(), &csv.name_any());
                let is_final = !there || csv.metadata.deletion_timestamp.is_some() || is_settled(csv);
                references(components(&csv.metadata).into_iter().filter(|_| is_final))
            }
        }))
        .reconcile_on(cache.namespaces.wakes({
            let members = Arc::clone(&homes);
            move |namespace: &PartialObjectMeta<Namespace>| {
                references(members.changed(&namespace.name_any(), components(&namespace.metadata)))
            }
        }))
        .reconcile_on(cache.plans.wakes(of_its_namespace(&operators)))
        .reconcile_on(cache.conditions.wakes(of_its_namespace(&operators)))
        .reconcile_on(
            ctx.parts
                .owned()
                .filter(|change| std::future::ready(change.deleted))
                .flat_map(|change| stream::iter(references(change.components))),
        )
        .reconcile_on(ctx.parts.definitions().flat_map({
            let (definitions, doubtful) = (Arc::clone(&definitions), Arc::clone(&doubtful));
            move |change| {
                let changed = definitions.changed(&change.name, change.components);
                let mut doubtful = doubtful.lock().unwrap_or_else(PoisonError::into_inner);
                doubtful.extend(changed.iter().cloned());
                stream::iter(references(changed))
            }
        }));
    // The object is made with the Subscription that requests the operator.
    let makers = cache.subscriptions.controller();
    let known = async { tokio::join!(cache.synced(), ctx.parts.synced(), operators.synced()) };
    let made = Arc::clone(&operators);
    let work = async {
        tokio::select! {
            _ = known => {}
            () = shutdown.cancelled() => return,
        }
        definitions.seed(ctx.parts.memberships());
        let all = ctx.cache.namespaces.all();
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

/// All Operators of the namespace of an object. Its labels may name another Operator than before, or none,
/// and the object may be gone: each Operator compares its status with its components.
fn of_its_namespace<K: Cached>(
    operators: &Arc<KindCache<Summary>>,
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
fn is_settled(csv: &ClusterServiceVersion) -> bool {
    csv.status.as_ref().is_some_and(|s| matches!(s.phase, CsvPhase::Succeeded | CsvPhase::Failed))
}

async fn make(
    subscription: Arc<Subscription>,
    ctx: Arc<Ctx>,
    operators: Arc<KindCache<Summary>>,
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
            operators.store_written(made);
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
    let known = observe::stored(&key, &name, namespace, &ctx);
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
    if lives && operator.digest == digest(&status::bounded(known.clone()).0) && !doubted {
        return Ok(Action::await_change());
    }
    let mut refs = observe::listed(&key, namespace, &ctx).await?;
    refs.extend(known);
    let api = Api::<Operator>::all(ctx.client.clone());
    if refs.iter().all(|component| component.kind.as_deref() == Some("CustomResourceDefinition")) {
        return match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => Ok(Action::await_change()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
            Err(error) => Err(Error::kube(format!("delete Operator {name}"))(error)),
        };
    }
    status::report(&name, &key, refs, &ctx).await?;
    // The remains of a removed operator disappear gradually, not all with an event.
    Ok(if lives { Action::await_change() } else { Action::requeue(SAFETY_NET) })
}

/// Whether an operator with this component is more than leftovers. Leftovers are also of kinds that are not
/// watched.
fn keeps_alive(component: &RichReference) -> bool {
    let kind = component.kind.as_deref();
    kind.is_some_and(|kind| ["ClusterServiceVersion", "Subscription", "Namespace"].contains(&kind))
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionStatus;

    use super::*;

    #[test]
    fn a_version_is_settled_when_it_has_succeeded_or_failed() {
        let mut csv = ClusterServiceVersion::default();
        assert!(!is_settled(&csv));
        for (phase, settled) in
            [(CsvPhase::Installing, false), (CsvPhase::Succeeded, true), (CsvPhase::Failed, true)]
        {
            csv.status =
                Some(ClusterServiceVersionStatus { phase, ..ClusterServiceVersionStatus::default() });
            assert_eq!(is_settled(&csv), settled, "{phase}");
        }
    }

    #[test]
    fn the_name_is_that_of_the_label() {
        let mut subscription = Subscription::default();
        subscription.spec.name = "etcd".into();
        subscription.metadata.namespace = Some("db".into());
        assert_eq!(name_for(&subscription), "etcd.db");
        assert_eq!(names::component_label("etcd", "db"), "operators.coreos.com/etcd.db");
    }
}
