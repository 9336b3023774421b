//! Subscription: from the request for a package to its InstallPlan.
//!
//! Observe the namespace → [`decide`] whether the engine resolves the request, and what its result means
//! (pure) → apply (create and delete InstallPlans) → [`status`] (pure) → write it.

mod authority;
mod cleanup;
mod decide;
mod live;
mod plan_object;
mod settled;
mod sources;
mod status;

use std::{sync::Arc, time::Duration};

use decide::{Catalog, HoldReason, Next, Observed};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::reflector::ObjectRef,
};
use olm_api::{InstallPlan, Subscription, names};
use olm_engine::{
    Basis, Outcome, Refusal, Snapshot, Snapshots,
    catalogs::{CatalogVisibility, LoadedCatalog},
};
use olm_plan::Severity;
use olm_resolver::Code;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;

use crate::{
    audit,
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
    stores::Stores,
};
#[cfg(test)]
pub(crate) use plan_object::parts;
pub(crate) use plan_object::summary;
use settled::Settled;
use sources::Sources;

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let stores = Arc::clone(&ctx.stores);
    let others = |stores: &Arc<Stores>| {
        let stores = Arc::clone(stores);
        move |namespace: Option<String>| in_namespace(&stores, namespace)
    };
    let (csvs, groups, conditions) = (others(&stores), others(&stores), others(&stores));
    // A deleted Subscription may wait for another one that is deleted with it.
    let there = Arc::clone(&stores);
    let leaving = move |namespace: Option<String>| {
        let mut all = there.subscriptions.in_namespace(&namespace.unwrap_or_default());
        all.retain(|subscription| subscription.metadata.deletion_timestamp.is_some());
        all.into_iter().map(|subscription| ObjectRef::from_obj(subscription.as_ref())).collect::<Vec<_>>()
    };
    // A change of a policy, or of the labels by which policies select a namespace.
    let (all, labels) = (Arc::clone(&stores), Arc::clone(&stores));
    let held = move |namespace: String| match labels.policies.is_empty() {
        true => Vec::new(),
        false => labels.subscriptions.references_in(&namespace),
    };
    let memory = Arc::<Memory>::default();
    // A kind that was missing may be served now.
    let (waiting, known, resources) = (Arc::clone(&memory), Arc::clone(&stores), ctx.resources.clone());
    let kinds = ctx.parts.definitions().flat_map(move |_| {
        resources.forget_missing();
        let there = |namespace: &str, name: &str| known.subscriptions.has(namespace, name);
        stream::iter(waiting.settled.wake_those_in_need(there))
    });
    let controller = stores
        .subscriptions
        .controller()
        .reconcile_on(kinds)
        .reconcile_on(stores.plans.wakes(owners))
        .reconcile_on(stores.subscriptions.wakes(move |subscription| leaving(subscription.namespace())))
        .reconcile_on(stores.versions.wakes(move |csv| csvs(csv.namespace())))
        .reconcile_on(stores.groups.wakes(move |group| groups(group.namespace())))
        .reconcile_on(stores.conditions.wakes(move |condition| conditions(condition.namespace())))
        .reconcile_on(stores.policies.wakes(move |_| all.subscriptions.references()))
        .reconcile_on(stores.namespaces.wakes(move |namespace| held(namespace.name_any())))
        // Unaffected Subscriptions end early, without a resolution.
        .reconcile_all_on(WatchStream::from_changes(ctx.catalogs.changes()).map(|_| ()));
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = ctx.seen() => {}
    }
    drive("subscription", controller, ctx, shutdown, move |subscription, ctx| {
        let memory = Arc::clone(&memory);
        async move { reconcile(subscription, ctx, memory).await }
    })
    .await;
}

fn in_namespace(stores: &Stores, namespace: Option<String>) -> Vec<ObjectRef<Subscription>> {
    stores.subscriptions.references_in(&namespace.unwrap_or_default())
}

fn owners(plan: &InstallPlan) -> Vec<ObjectRef<Subscription>> {
    let (namespace, kind) = (plan.namespace().unwrap_or_default(), Subscription::kind(&()));
    let ours = plan.owner_references().iter().filter(|owner| owner.kind == kind);
    ours.map(|owner| ObjectRef::new(&owner.name).within(&namespace)).collect()
}

/// The state of this controller outside the stores.
#[derive(Default)]
struct Memory {
    settled: Settled,
    sources: Sources,
    snapshots: Snapshots,
}

/// When to retry after a decision on an outdated state. A watch event wakes it before.
const OUTDATED_INTERVAL: Duration = Duration::from_secs(1);

async fn reconcile(
    subscription: Arc<Subscription>,
    ctx: Arc<Ctx>,
    memory: Arc<Memory>,
) -> Result<Action, Error> {
    ctx.metrics.synced(&subscription);
    if subscription.metadata.deletion_timestamp.is_some() {
        memory.settled.forget(&subscription);
        return cleanup::on_deletion(&subscription, &ctx).await;
    }
    cleanup::ensure_finalizer(&subscription, &ctx).await?;
    // The label is for the Operator's controller: this decision does not depend on it.
    let (labelled, action) =
        tokio::join!(ensure_label(&subscription, &ctx), decide_and_act(&subscription, &ctx, &memory));
    labelled.and(action)
}

/// Decides the next action for the Subscription, applies and reports it.
async fn decide_and_act(
    subscription: &Arc<Subscription>,
    ctx: &Ctx,
    memory: &Memory,
) -> Result<Action, Error> {
    let settled = &memory.settled;
    let namespace = subscription.namespace().unwrap_or_default();
    let snapshot = memory.snapshots.share(ctx.stores.snapshot(&ctx.resources, &namespace).await);
    let visibility = CatalogVisibility::of(&namespace, &ctx.namespace, &snapshot.groups);
    let catalogs = ctx.catalogs.within(&visibility);
    let plans = plans_of(subscription, &ctx.stores);
    let basis = Basis::of(subscription, &snapshot, &catalogs);
    // With the plans and the status of the Subscription.
    let whole = basis.and(&plans).and(std::slice::from_ref(subscription));
    if settled.holds(subscription, whole, &catalogs, &snapshot).await {
        return Ok(Action::requeue(SAFETY_NET));
    }
    let source = olm_engine::source_of(&catalogs, subscription).ok();
    let package = match source {
        Some(source) => olm_engine::prepared(source, &subscription.spec.name).await?,
        None => None,
    };
    let observed = Observed {
        subscription,
        catalog: catalog_state(subscription, source, &visibility, &memory.sources, ctx).await?,
        installed: snapshot.installed(subscription, package.as_deref()),
        csvs: &snapshot.csvs,
        plans: &plans,
        now: Timestamp::now(),
    };

    if observed.catalog == Catalog::Loading {
        // A new CatalogSource, or the start of the manager: the first read of the catalog wakes the
        // Subscription, and until then there is nothing to report.
        return Ok(Action::requeue(Duration::from_secs(5)));
    }

    let hold = decide::hold(&observed);
    let upgradeable = observed.installed.map_or(Ok(()), |csv| snapshot.upgradeable(&csv.name_any()));
    let answer = match &hold {
        Some(_) => None,
        None => {
            let asked = std::time::Instant::now();
            let chosen = olm_engine::choose(&ctx.resources, &catalogs, subscription, &snapshot).await;
            let answer = match chosen {
                Ok(resolved) => match decide::at_work(&observed, &resolved, &upgradeable) {
                    // Its change was computed and reported before.
                    Some(plan) => return follow(&observed, plan, ctx).await,
                    None => {
                        olm_engine::build_outcome(
                            &ctx.resources,
                            &catalogs,
                            subscription,
                            &snapshot,
                            resolved,
                        )
                        .await
                    }
                },
                Err(refusal) => Err(refusal),
            };
            let outcome = if answer.is_ok() { "succeeded" } else { "failed" };
            ctx.metrics.resolved(outcome, asked.elapsed());
            match answer {
                Err(refusal) if refusal.is_transient() => return Err(refusal.into()),
                Ok(Outcome::UpToDate(resolved)) => {
                    Some(completed(resolved, &observed, &catalogs, &snapshot, ctx).await)
                }
                answer => Some(answer),
            }
        }
    };
    settled.need(subscription, answer.as_ref().is_some_and(needs_kinds));
    let retry = answer.as_ref().and_then(|answer| answer.as_ref().err()).and_then(Refusal::retry);
    let next = match (hold, answer) {
        (Some(hold), _) => Next::Hold(hold),
        (None, Some(answer)) => decide::next(&observed, answer, upgradeable),
        // Either `hold` is set, or there is a result of `choose` and `build_outcome`.
        (None, None) => return Ok(Action::requeue(Duration::from_secs(1))),
    };

    // The stores may lag, and a second plan for the same version could not be undone: the live objects decide.
    if let Next::Plan(change) = &next
        && !live::is_current(&observed, &change.resolved.chosen.name, ctx).await?
    {
        return Ok(Action::requeue(OUTDATED_INTERVAL));
    }
    if let Next::Plan(change) = &next {
        // Before the plan is created: its controller starts at once.
        ctx.change_cache.put(basis, Arc::clone(change));
    }
    let current = apply(&observed, &next, ctx).await?;
    let said = tell(&observed, &next, current.as_deref(), ctx).await?;
    Ok(match next {
        _ if said == Said::Later => Action::requeue(status::PASSING.unsigned_abs()),
        Next::Hold(HoldReason::Settling { until }) => {
            let left = until.duration_since(observed.now).as_secs().clamp(1, 300);
            Action::requeue(Duration::from_secs(left.unsigned_abs()))
        }
        Next::UpToDate { .. } => {
            // A status that was just written changes the basis: the Subscription is reconciled once more.
            if said == Said::Already {
                settled.note(subscription, whole, &catalogs, &snapshot).await;
            }
            Action::requeue(SAFETY_NET)
        }
        Next::Refused(refused) if UNWATCHED.contains(&refused.reason.as_str()) => {
            Action::requeue(UNWATCHED_INTERVAL)
        }
        // Rights are not watched.
        Next::Plan(_) if current.as_deref().is_some_and(authority::waits) => {
            Action::requeue(authority::RETRY_INTERVAL)
        }
        _ => Action::requeue(retry.unwrap_or(SAFETY_NET)),
    })
}

/// Whether a new kind may change the result: there is no result, or a version was rejected for a dependency.
fn needs_kinds(answer: &Result<Outcome, Refusal>) -> bool {
    match answer {
        Err(_) => true,
        Ok(Outcome::UpToDate(resolved)) => {
            resolved.rejected.iter().any(|rejected| rejected.code == Code::DependencyUnsatisfied)
        }
        // The plan may be blocked by a missing kind of one of its objects.
        Ok(Outcome::Change(change)) => {
            change.plan.findings.iter().any(|finding| finding.severity == Severity::Block)
        }
    }
}

/// Refusals for causes that are not watched: webhooks and their Services, rights, quotas, foreign objects,
/// registries.
const UNWATCHED: [&str; 8] = [
    "WebhookUnavailable",
    "InstallerLacksRights",
    "InstallerCannotGrant",
    "QuotaExceeded",
    "PriorityClassMissing",
    "NameCollision",
    "ImageNotSigned",
    "SignatureUnknown",
];
/// Retry interval of such a refusal. Each retry costs a read for each object of the bundle.
const UNWATCHED_INTERVAL: Duration = Duration::from_secs(15);

/// An approved plan for the chosen version is about to be applied.
async fn follow(observed: &Observed<'_>, plan: String, ctx: &Ctx) -> Result<Action, Error> {
    let next = Next::Keep { plan };
    let current = apply(observed, &next, ctx).await?;
    Ok(match tell(observed, &next, current.as_deref(), ctx).await? {
        Said::Later => Action::requeue(status::PASSING.unsigned_abs()),
        Said::Now | Said::Already => Action::requeue(SAFETY_NET),
    })
}

/// The result of reporting a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Now,
    Already,
    /// The status is about to change.
    Later,
}

async fn tell(
    observed: &Observed<'_>,
    next: &Next,
    current: Option<&InstallPlan>,
    ctx: &Ctx,
) -> Result<Said, Error> {
    let subscription = observed.subscription;
    let new = status::status(observed, next, current);
    if status::is_passing(observed, next, &new, current) {
        return Ok(Said::Later);
    }
    Ok(if report(subscription, &new, ctx).await? { Said::Now } else { Said::Already })
}

/// The label by which a Subscription is a component of its operator.
async fn ensure_label(subscription: &Subscription, ctx: &Ctx) -> Result<(), Error> {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let label = names::component_label(&subscription.spec.name, &namespace);
    if subscription.labels().contains_key(&label) || subscription.spec.name.is_empty() {
        return Ok(());
    }
    let patch = serde_json::json!({ "metadata": { "labels": { label: "" } } });
    let labelled = Api::<Subscription>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("label Subscription {namespace}/{name}")))?;
    ctx.stores.subscriptions.wrote(labelled);
    Ok(())
}

/// Up to date, unless the plan of the installed version did not complete: then it is resumed.
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
        olm_engine::resume_change(&ctx.resources, catalogs, subscription, snapshot, &name, Vec::new())
            .await?;
    Ok(Outcome::Change(Box::new(change)))
}

/// The plans that this Subscription owns, oldest first.
fn plans_of(subscription: &Subscription, stores: &Stores) -> Vec<Arc<InstallPlan>> {
    let uid = subscription.uid();
    let ours = |plan: &Arc<InstallPlan>| {
        plan.metadata.deletion_timestamp.is_none()
            && plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let mut plans = stores.plans.in_namespace(&subscription.namespace().unwrap_or_default());
    plans.retain(ours);
    plans.sort_by_key(|plan| (plan.spec.generation, plan.name_any()));
    plans
}

async fn catalog_state(
    subscription: &Subscription,
    source: Option<&LoadedCatalog>,
    visibility: &CatalogVisibility<'_>,
    sources: &Sources,
    ctx: &Ctx,
) -> Result<Catalog, Error> {
    let spec = &subscription.spec;
    let (namespace, name) = (&spec.source_namespace, &spec.source);
    if let Some((text, fix)) = visibility.refuses(namespace, name) {
        return Ok(Catalog::OutOfSight(format!("targeted {text}; {fix}")));
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
    Ok(match sources.exists(namespace, name, ctx).await? {
        true => Catalog::Loading,
        false => Catalog::Missing(format!("targeted catalogsource {namespace}/{name} missing")),
    })
}

/// Deletes the plan that was observed: one that was approved in the meantime stays.
async fn delete(api: &Api<InstallPlan>, plan: &InstallPlan, why: &str) -> Result<(), Error> {
    let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
    let params = DeleteParams::default()
        .preconditions(Preconditions { resource_version: plan.resource_version(), uid: plan.uid() });
    match api.delete(&name, &params).await {
        Ok(_) => tracing::info!(namespace, plan = name, "{why}"),
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(Error::kube(format!("delete InstallPlan {namespace}/{name}"))(error)),
    }
    Ok(())
}

/// Deletes the plans that would install again what is being removed; returns whether there were any.
async fn stop_plans(subscription: &Subscription, ctx: &Ctx) -> Result<bool, Error> {
    let mut plans = plans_of(subscription, &ctx.stores);
    plans.retain(|plan| !decide::is_finished(plan));
    let api =
        Api::<InstallPlan>::namespaced(ctx.client.clone(), &subscription.namespace().unwrap_or_default());
    for plan in &plans {
        delete(&api, plan, "its Subscription is being deleted").await?;
    }
    Ok(!plans.is_empty())
}

/// Creates the chosen plan and deletes obsolete ones; returns the current one.
async fn apply(observed: &Observed<'_>, next: &Next, ctx: &Ctx) -> Result<Option<Arc<InstallPlan>>, Error> {
    let namespace = observed.subscription.namespace().unwrap_or_default();
    let api = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace);
    for plan in decide::obsolete(observed, next) {
        delete(&api, plan, "superseded").await?;
    }
    match next {
        Next::Plan(change) => {
            let needed = authority::needed(observed, &change.plan, ctx).await?;
            let name = plan_object::name(&change.plan.digest);
            if let Some(existing) = observed.plans.iter().find(|p| p.name_any() == name)
                && !decide::is_finished(existing)
            {
                let requested = plan_object::is_requested(observed, &change.plan);
                return authority::follow(existing, requested, needed, ctx).await.map(Some);
            }
            let wanted = plan_object::plan_object(observed, change, needed);
            match api.create(&PostParams::default(), &wanted).await {
                Ok(created) => {
                    ctx.stores.plans.wrote(created.clone());
                    let author = olm_ops::authority::Authority::requested(observed.subscription);
                    let needed = created.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
                    audit::planned(&created, author.as_ref(), needed.map(String::as_str));
                    let note = created
                        .annotations()
                        .get(names::ANNOTATION_PLAN_SUMMARY)
                        .cloned()
                        .unwrap_or_default();
                    ctx.event(observed.subscription, false, "InstallPlanCreated", &format!("{name}: {note}"))
                        .await;
                    Ok(Some(Arc::new(created)))
                }
                Err(error) => Err(Error::kube(format!("create InstallPlan {namespace}/{name}"))(error)),
            }
        }
        Next::Hold(HoldReason::Installing { plan }) | Next::Keep { plan } => {
            Ok(observed.plans.iter().find(|p| p.name_any() == *plan).cloned())
        }
        Next::Hold(_)
        | Next::UpToDate { .. }
        | Next::Refused(_)
        | Next::Snoozed { .. }
        | Next::NotUpgradeable { .. } => Ok(decide::current_plan(observed, next)),
    }
}

/// Writes the status if it changed; returns whether it did.
async fn report(
    subscription: &Subscription,
    new: &olm_api::SubscriptionStatus,
    ctx: &Ctx,
) -> Result<bool, Error> {
    let old = subscription.status.as_ref();
    if !ctx.write_status(subscription, old, new).await? {
        return Ok(false);
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
    Ok(true)
}

/// The reason of a refusal, for the conditions.
pub(super) fn resolution_reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unresolvable(_)
        | Refusal::UnknownCatalog { .. }
        | Refusal::CatalogOutOfSight { .. }
        | Refusal::Field { .. } => "ConstraintsNotSatisfiable",
        _ => "ErrorPreventedResolution",
    }
}

/// Separates the two results of the engine.
pub(super) fn change_of(outcome: Outcome) -> Result<Box<olm_engine::Change>, Box<olm_resolver::Resolved>> {
    match outcome {
        Outcome::Change(change) => Ok(change),
        Outcome::UpToDate(resolved) => Err(resolved),
    }
}
