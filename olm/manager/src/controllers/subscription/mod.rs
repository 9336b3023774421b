//! Subscription: from the wish for a package to an InstallPlan that fulfils it.
//!
//! `dereference` the namespace → [`decide`] whether the engine is to be asked, and what its answer means (pure) →
//! apply (create and delete InstallPlans) → [`status`] (pure) → write it.

mod cleanup;
mod decide;
mod plan_object;
mod status;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{
        controller::Action,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use olm_api::{
    CatalogSource, ClusterServiceVersion, InstallPlan, OperatorCondition, OperatorGroup, Subscription, names,
};
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use crate::{
    catalogs::LoadedCatalog,
    context::{Ctx, Error, SAFETY_NET, drive},
    engine::{self, Outcome, Refusal, Snapshot},
    stores,
};
use decide::{Catalog, Hold, Next, Observed};
#[cfg(test)]
pub(crate) use plan_object::parts;
pub(crate) use plan_object::{SUMMARY, summary};

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let client = ctx.client.clone();
    let any = watcher::Config::default;
    let (controller, kept) = stores::controller(Api::<Subscription>::all(client.clone()), any());
    let store = kept.store.clone();
    ctx.stores.set_subscriptions(kept);
    let (csvs, groups, conditions) = (store.clone(), store.clone(), store);
    let controller = controller
        .owns(Api::<InstallPlan>::all(client.clone()), any())
        .watches(Api::<ClusterServiceVersion>::all(client.clone()), any(), move |csv| {
            in_namespace(&csvs, csv.namespace())
        })
        .watches(Api::<OperatorGroup>::all(client.clone()), any(), move |group| {
            in_namespace(&groups, group.namespace())
        })
        .watches(Api::<OperatorCondition>::all(client), any(), move |condition| {
            in_namespace(&conditions, condition.namespace())
        })
        .reconcile_all_on(futures::StreamExt::map(WatchStream::from_changes(ctx.catalogs.changes()), |_| ()));
    drive("subscription", controller, ctx, shutdown, reconcile).await;
}

fn in_namespace(store: &Store<Subscription>, namespace: Option<String>) -> Vec<ObjectRef<Subscription>> {
    let same = |s: &Arc<Subscription>| s.namespace() == namespace;
    store.state().into_iter().filter(same).map(|s| ObjectRef::from_obj(s.as_ref())).collect()
}

async fn reconcile(subscription: Arc<Subscription>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    ctx.metrics.synced(&subscription);
    if subscription.metadata.deletion_timestamp.is_some() {
        return cleanup::on_deletion(&subscription, &ctx).await;
    }
    cleanup::ensure_finalizer(&subscription, &ctx).await?;
    ensure_label(&subscription, &ctx).await?;

    let namespace = subscription.namespace().unwrap_or_default();
    let catalogs = ctx.catalogs.visible_from(&namespace, &ctx.namespace);
    let snapshot = Snapshot::read(&ctx.resources, &subscription).await?;
    let plans = plans_of(&subscription, &ctx).await?;
    let source = engine::source_of(&catalogs, &subscription).ok();
    let package = match source {
        Some(source) => engine::prepared(source, &subscription.spec.name).await?,
        None => None,
    };
    let observed = Observed {
        subscription: &subscription,
        catalog: catalog_state(&subscription, source, &ctx).await?,
        installed: snapshot.installed(&subscription, package.as_deref()),
        csvs: &snapshot.csvs,
        plans: &plans,
        now: Timestamp::now(),
    };

    if observed.catalog == Catalog::Loading {
        // A moment after the start of the manager: its arrival is announced, and until then nothing is known that
        // would be worth a word.
        return Ok(Action::requeue(Duration::from_secs(5)));
    }

    let hold = decide::hold(&observed);
    let answer = match &hold {
        Some(_) => None,
        None => {
            let asked = std::time::Instant::now();
            let answer = engine::evaluate(&ctx.resources, &catalogs, &subscription, &snapshot).await;
            let outcome = if answer.is_ok() { "succeeded" } else { "failed" };
            ctx.metrics.resolved(outcome, asked.elapsed());
            match answer {
                Err(refusal) if refusal.is_transient() => return Err(refusal.into()),
                Ok(Outcome::UpToDate(resolved)) => {
                    Some(completed(resolved, &observed, &catalogs, &snapshot, &ctx).await)
                }
                answer => Some(answer),
            }
        }
    };
    let retry = answer.as_ref().and_then(|answer| answer.as_ref().err()).and_then(Refusal::retry);
    let next = match (hold, answer) {
        (Some(hold), _) => Next::Hold(hold),
        (None, Some(answer)) => {
            let upgradeable = observed.installed.map_or(Ok(()), |csv| snapshot.upgradeable(&csv.name_any()));
            decide::next(&observed, answer, upgradeable)
        }
        // hold() and evaluate() cannot both be silent.
        (None, None) => return Ok(Action::requeue(Duration::from_secs(1))),
    };

    let current = apply(&observed, &next, &ctx).await?;
    let new = status::status(&observed, &next, current.as_ref());
    if status::is_passing(subscription.status.as_ref(), &new, current.as_ref(), observed.now) {
        return Ok(Action::requeue(status::PASSING.unsigned_abs()));
    }
    report(&subscription, &new, &ctx).await?;
    Ok(match next {
        Next::Hold(Hold::Settling { until }) => {
            let left = until.duration_since(observed.now).as_secs().clamp(1, 300);
            Action::requeue(Duration::from_secs(left.unsigned_abs()))
        }
        Next::Hold(Hold::Catalog) => Action::requeue(Duration::from_secs(30)),
        _ => Action::requeue(retry.unwrap_or(SAFETY_NET)),
    })
}

/// The label by which a Subscription is a component of its operator.
async fn ensure_label(subscription: &Subscription, ctx: &Ctx) -> Result<(), Error> {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let label = names::component_label(&subscription.spec.name, &namespace);
    if subscription.labels().contains_key(&label) || subscription.spec.name.is_empty() {
        return Ok(());
    }
    let patch = serde_json::json!({ "metadata": { "labels": { label: "" } } });
    Api::<Subscription>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("label Subscription {namespace}/{name}")))?;
    Ok(())
}

/// What is installed is what is wanted, unless the plan that brought it did not come to its end: then that is to be done.
async fn completed(
    resolved: Box<olm_resolver::Resolved>,
    observed: &Observed<'_>,
    catalogs: &[LoadedCatalog],
    snapshot: &Snapshot,
    ctx: &Ctx,
) -> Result<Outcome, Refusal> {
    let Some(csv) = decide::unfinished(observed).filter(|csv| csv.name_any() == resolved.chosen.name) else {
        return Ok(Outcome::UpToDate(resolved));
    };
    let (subscription, name) = (observed.subscription, csv.name_any());
    let change =
        engine::change_to(&ctx.resources, catalogs, subscription, snapshot, &name, Vec::new()).await?;
    Ok(Outcome::Change(Box::new(change)))
}

/// The plans that this Subscription owns, oldest first.
async fn plans_of(subscription: &Subscription, ctx: &Ctx) -> Result<Vec<InstallPlan>, Error> {
    let namespace = subscription.namespace().unwrap_or_default();
    let api = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace);
    let list = api
        .list(&ListParams::default())
        .await
        .map_err(Error::kube(format!("list InstallPlans in {namespace}")))?;
    let uid = subscription.uid();
    let ours = |plan: &InstallPlan| {
        plan.metadata.deletion_timestamp.is_none()
            && plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let mut plans: Vec<InstallPlan> = list.items.into_iter().filter(ours).collect();
    plans.sort_by_key(|plan| (plan.spec.generation, plan.name_any()));
    Ok(plans)
}

async fn catalog_state(
    subscription: &Subscription,
    source: Option<&LoadedCatalog>,
    ctx: &Ctx,
) -> Result<Catalog, Error> {
    let spec = &subscription.spec;
    let (namespace, name) = (&spec.source_namespace, &spec.source);
    let own = subscription.namespace().unwrap_or_default();
    if *namespace != own && *namespace != ctx.namespace {
        return Ok(Catalog::Missing(format!(
            "targeted catalogsource {namespace}/{name} cannot be used from namespace {own}: only catalogs of that \
             namespace and of {} are visible there",
            ctx.namespace
        )));
    }
    if let Some(entry) = ctx.catalogs.get(namespace, name) {
        return Ok(match (source, entry.problem) {
            (Some(_), _) => Catalog::Ready,
            (None, Some(problem)) => Catalog::Unreadable(format!(
                "targeted catalogsource {namespace}/{name} unhealthy: {}",
                problem.message
            )),
            (None, None) => Catalog::Loading,
        });
    }
    let api = Api::<CatalogSource>::namespaced(ctx.client.clone(), namespace);
    let found =
        api.get_opt(name).await.map_err(Error::kube(format!("get CatalogSource {namespace}/{name}")))?;
    Ok(match found {
        Some(_) => Catalog::Loading,
        None => Catalog::Missing(format!("targeted catalogsource {namespace}/{name} missing")),
    })
}

/// Creates the plan that is wanted and deletes those that are not; returns the one that counts now.
async fn apply(observed: &Observed<'_>, next: &Next, ctx: &Ctx) -> Result<Option<InstallPlan>, Error> {
    let namespace = observed.subscription.namespace().unwrap_or_default();
    let api = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace);
    for plan in decide::obsolete(observed, next) {
        let name = plan.name_any();
        // Only the plan that was looked at: one that somebody approved in the meantime stays.
        let params = DeleteParams::default()
            .preconditions(Preconditions { resource_version: plan.resource_version(), uid: plan.uid() });
        match api.delete(&name, &params).await {
            Ok(_) => tracing::info!(namespace, plan = name, "superseded"),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(Error::kube(format!("delete InstallPlan {namespace}/{name}"))(error)),
        }
    }
    match next {
        Next::Plan(change) => {
            let wanted = plan_object::plan_object(observed, change);
            let name = wanted.name_any();
            if let Some(existing) = observed.plans.iter().find(|p| p.name_any() == name)
                && !decide::is_finished(existing)
            {
                return Ok(Some(existing.clone()));
            }
            match api.create(&PostParams::default(), &wanted).await {
                Ok(created) => {
                    let note = created.annotations().get(plan_object::SUMMARY).cloned().unwrap_or_default();
                    ctx.event(observed.subscription, false, "InstallPlanCreated", &format!("{name}: {note}"))
                        .await;
                    Ok(Some(created))
                }
                Err(error) => Err(Error::kube(format!("create InstallPlan {namespace}/{name}"))(error)),
            }
        }
        Next::Hold(Hold::Installing { plan }) | Next::Keep { plan } => {
            Ok(observed.plans.iter().find(|p| p.name_any() == *plan).cloned())
        }
        Next::Hold(_)
        | Next::UpToDate { .. }
        | Next::Refused(_)
        | Next::Snoozed { .. }
        | Next::NotUpgradeable { .. } => {
            // The last plan is still the one that brought what is installed.
            Ok(observed.plans.last().cloned())
        }
    }
}

async fn report(
    subscription: &Subscription,
    new: &olm_api::SubscriptionStatus,
    ctx: &Ctx,
) -> Result<(), Error> {
    let old = subscription.status.as_ref();
    if !ctx.write_status(subscription, old, new).await? {
        return Ok(());
    }
    for type_ in [
        names::CONDITION_RESOLUTION_FAILED,
        names::CONDITION_CATALOG_SOURCES_UNHEALTHY,
        names::CONDITION_INSTALL_PLAN_FAILED,
    ] {
        let find = |status: &olm_api::SubscriptionStatus| {
            olm_api::condition::find(&status.conditions, type_).filter(|c| c.is_true()).cloned()
        };
        let before = old.and_then(find);
        if let Some(now) = find(new)
            && before.as_ref().map(|c| (&c.reason, &c.message)) != Some((&now.reason, &now.message))
        {
            ctx.event(subscription, true, type_, now.message.as_deref().unwrap_or_default()).await;
        }
    }
    Ok(())
}

/// Why the engine says no, as the conditions have it.
pub(super) fn resolution_reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unresolvable(_) | Refusal::UnknownCatalog { .. } | Refusal::Field { .. } => {
            "ConstraintsNotSatisfiable"
        }
        _ => "ErrorPreventedResolution",
    }
}

/// Tells the two answers of the engine apart without its payload.
pub(super) fn change_of(outcome: Outcome) -> Result<Box<engine::Change>, Box<olm_resolver::Resolved>> {
    match outcome {
        Outcome::Change(change) => Ok(change),
        Outcome::UpToDate(resolved) => Err(resolved),
    }
}
