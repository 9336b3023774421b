//! Controller of clusters: observe, validate, decide, apply, report; once per cluster on every change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action as Requeue, Config, Error as ControllerError};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::apply::{Applier, ApplyError, why};
use crate::crd::backup::EtcdBackup;
use crate::crd::{EtcdCluster, EtcdClusterStatus};
use crate::disruption;
use crate::etcd::{ChangeError, Etcd};
use crate::events;
use crate::lease::UNLED;
use crate::maintenance;
use crate::observe::{self, ObserveError};
use crate::observed::Observed;
use crate::plan::{Action, Decision, assess, plan};
use crate::status;
use crate::tls::{self, Secured};
use crate::validate::{Validated, validate};
use crate::watch;

mod context;
mod pace;
mod patch;

pub use context::{Clock, Context, Scope};
pub(crate) use patch::differences;

/// Clusters reconciled concurrently.
const CONCURRENCY: u16 = 64;
/// First delay after a failure; it doubles up to the interval of a healthy cluster: where an API server
/// rejects every third call, longer delays would add up to minutes without healing.
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = pace::STEADY;
/// Interval of rereading invalid Secrets of a cluster.
const INSECURE: Duration = Duration::from_secs(5);
/// Consecutive failures after which one is reported that can be transient.
const REPEATED: u32 = 3;
/// Minimum interval between reports of the same failure.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Why a reconciliation failed.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error("failed to parse the object: {0}")]
    Unreadable(String),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("failed to reread the cluster: {}", why(.0))]
    Reread(#[source] Box<kube::Error>),
    #[error("failed to write the status: {}", why(.0))]
    Status(#[source] Box<kube::Error>),
}

impl ReconcileError {
    /// Whether Kubernetes rejects the request until a user fixes the cause.
    fn is_refusal(&self) -> bool {
        match self {
            Self::Observe(error) => error.is_refusal(),
            Self::Apply(error) => error.is_refusal(),
            Self::Unreadable(_) | Self::Reread(_) | Self::Status(_) => false,
        }
    }

    const fn category(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "Unreadable",
            Self::Observe(_) => "Look",
            Self::Apply(error) => error.category(),
            Self::Reread(_) => "Reread",
            Self::Status(_) => "Status",
        }
    }
}

/// Runs until shutdown, then finishes the reconciliations in progress.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let controllers = context.scope.namespaces().into_iter().map(|namespace| {
        let (context, shutdown) = (context.clone(), shutdown.clone());
        async move {
            let client = context.client.clone();
            let config = Config::default().concurrency(CONCURRENCY);
            let stop = async move { shutdown.cancelled().await };
            let ours = watcher::Config::default().labels("app=etcd");
            let backups = api::<DeserializeGuard<EtcdBackup>>(&client, namespace.as_deref());
            let backups = context.backups.follow(backups, namespace.as_deref());
            let pods = watch::events(api::<Pod>(&client, namespace.as_deref()), ours.clone());
            let claims =
                watch::events(api::<PersistentVolumeClaim>(&client, namespace.as_deref()), ours.clone());
            let services = watch::events(api::<Service>(&client, namespace.as_deref()), ours);
            watch::controller(api::<DeserializeGuard<EtcdCluster>>(&client, namespace.as_deref()))
                .owns_stream(pods.touched_objects())
                .owns_stream(claims.touched_objects())
                .owns_stream(services.touched_objects())
                .watches_stream(backups, crate::backup::of_backup)
                .with_config(config)
                .graceful_shutdown_on(stop)
                .run(reconcile, error_policy, context.clone())
                .for_each(|result| {
                    match result {
                        // An event of a pod or a timer of a deleted cluster.
                        Err(ControllerError::ObjectNotFound(gone)) => {
                            context.forget(&key_of(gone.namespace.as_deref(), &gone.name));
                        }
                        Err(error) => tracing::debug!(%error, "reconciliation failed"),
                        Ok(_) => {}
                    }
                    std::future::ready(())
                })
                .await;
        }
    });
    futures::future::join_all(controllers).await;
}

pub(crate) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

pub(crate) fn key<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    key_of(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

fn key_of(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

fn error_policy(
    object: Arc<DeserializeGuard<EtcdCluster>>,
    error: &ReconcileError,
    context: Arc<Context>,
) -> Requeue {
    let key = key(&*object);
    context.metrics.reconcile_failed(error.category());
    if matches!(error, ReconcileError::Unreadable(_)) {
        tracing::error!(cluster = key, %error, "reconciliation is suspended until the cluster changes");
        return Requeue::await_change();
    }
    let failures = context.keep(&key, |state| {
        state.failures = state.failures.saturating_add(1);
        state.failures
    });
    let wait = BACKOFF.saturating_mul(1 << (failures - 1).min(10)).min(BACKOFF_MAX);
    tracing::warn!(cluster = key, %error, ?wait, "reconciliation failed, will retry");
    Requeue::requeue(wait)
}

async fn reconcile(
    object: Arc<DeserializeGuard<EtcdCluster>>,
    context: Arc<Context>,
) -> Result<Requeue, ReconcileError> {
    let key = key(&*object);
    let cluster = object.0.as_ref().map_err(|error| ReconcileError::Unreadable(error.error.clone()))?;
    if cluster.metadata.deletion_timestamp.is_some() {
        context.forget(&key);
        return Ok(Requeue::await_change());
    }
    if !context.scope.includes(cluster) {
        return Ok(Requeue::await_change());
    }
    if !context.elector.leads() {
        return Ok(Requeue::requeue(UNLED));
    }
    let (begin, uid) = (Instant::now(), cluster.uid().unwrap_or_default());
    // A later object of the same name: the cached state does not belong to it.
    if context.keep(&key, |state| !state.uid.is_empty() && state.uid != uid) {
        context.forget(&key);
    }
    context.keep(&key, |state| state.uid = uid);
    let requeue = Reconciliation::new(&context).run(cluster.clone()).await?;
    context.metrics.reconciled(&key, cluster.metadata.generation, begin.elapsed());
    context.keep(&key, |state| state.failures = 0);
    Ok(requeue)
}

/// One reconciliation of one cluster.
struct Reconciliation<'a> {
    context: &'a Context,
    /// Connections with the credentials of the cluster.
    etcd: Etcd,
    secured: Arc<Secured>,
}

impl<'a> Reconciliation<'a> {
    fn new(context: &'a Context) -> Self {
        Self { context, etcd: context.etcd.clone(), secured: Arc::new(Secured::plain()) }
    }

    async fn run(mut self, cluster: EtcdCluster) -> Result<Requeue, ReconcileError> {
        let mut valid = match validate(&cluster) {
            Ok(valid) => valid,
            Err(error) => {
                let old = cluster.status.clone().unwrap_or_default();
                let new = status::refused(&old, &error, cluster.metadata.generation, self.context.now());
                self.report(&cluster, &old, &new).await?;
                return Ok(Requeue::await_change());
            }
        };
        self.secured = match self.context.tls.secure(&self.context.client, &valid).await {
            Ok(secured) => secured,
            Err(error) => {
                tracing::warn!(cluster = key(&cluster), %error, "no access to the members");
                let old = cluster.status.clone().unwrap_or_default();
                let now = self.context.now();
                let new = tls::insecure(&old, &error, cluster.metadata.generation, now);
                self.report(&cluster, &old, &new).await?;
                return Ok(Requeue::requeue(INSECURE));
            }
        };
        self.etcd = self.context.etcd.with(self.secured.access.clone());
        valid.goal.restart_before = self.secured.restart_before;
        let observed = match self.prepare(&cluster, &valid).await {
            Ok(observed) => observed,
            Err(error) => {
                let failures = self.context.keep(&key(&cluster), |state| state.failures);
                if error.is_refusal() || failures >= REPEATED {
                    let old = cluster.status.clone().unwrap_or_default();
                    let text = recent_failure(&old, self.context.now()).unwrap_or_else(|| error.to_string());
                    let new =
                        status::unprepared(&old, &text, cluster.metadata.generation, self.context.now());
                    // The first error is the cause; while the API server is unreachable both fail.
                    if let Err(failed) = self.report(&cluster, &old, &new).await {
                        tracing::warn!(cluster = key(&cluster), error = %failed, "failed to report a failure");
                    }
                }
                return Err(error);
            }
        };
        if let Some(secret) = &valid.root_secret
            && !observed.refused.is_empty()
        {
            self.secured = Arc::new(self.secured.refused(secret));
        }
        let old = cluster.status.clone().unwrap_or_default();
        let decision = plan(&valid.goal, &status::memory(&old), &observed);
        if decision.action.is_none() {
            return self.finish(&cluster, &valid, &old, &observed, decision).await;
        }
        // The object comes from a cache. No action relies on a cache: decide again with the current object.
        let api: Api<EtcdCluster> = Api::namespaced(self.context.client.clone(), &valid.namespace);
        let fresh = match api.get_opt(&valid.name).await.map_err(|e| ReconcileError::Reread(Box::new(e)))? {
            Some(fresh) if fresh.uid() == cluster.uid() && fresh.metadata.deletion_timestamp.is_none() => {
                fresh
            }
            _ => return Ok(Requeue::await_change()),
        };
        let Ok(mut valid) = validate(&fresh) else { return Ok(Requeue::requeue(Duration::ZERO)) };
        valid.goal.restart_before = self.secured.restart_before;
        let old = fresh.status.clone().unwrap_or_default();
        let decision = plan(&valid.goal, &status::memory(&old), &observed);
        self.finish(&fresh, &valid, &old, &observed, decision).await
    }

    /// Observes, and applies the Services and the owners of claims.
    async fn prepare(&self, cluster: &EtcdCluster, valid: &Validated) -> Result<Observed, ReconcileError> {
        let applier = self.applier(valid);
        let observed = self.observe_and_compare(cluster, valid).await?;
        self.context.tls.noticed(valid, &observed);
        if !valid.goal.paused {
            applier.services(&observed).await?;
            applier.claims(&observed).await?;
        }
        Ok(observed)
    }

    /// A complete observation. When a comparison is due, the data of the members is compared; that takes
    /// time, so everything else is observed again.
    async fn observe_and_compare(
        &self,
        cluster: &EtcdCluster,
        valid: &Validated,
    ) -> Result<Observed, ObserveError> {
        let (key, memory) = (key(cluster), cluster.status.as_ref().map(status::memory).unwrap_or_default());
        let mut observed = self.observe(valid).await?;
        let mut compared = self.context.compared(&key, &memory);
        compared.show(&mut observed);
        if compared.due(&valid.goal, &memory, &observed) {
            let (begin, known) = (Instant::now(), memory.corruption.is_some());
            let (pods, addressing) = (&observed.pods, &*self.context.addressing);
            let sums = self.etcd.hashes(pods, &observed.endpoints, addressing, known).await;
            let took = SignedDuration::try_from(begin.elapsed()).unwrap_or(SignedDuration::MAX);
            tracing::debug!(cluster = key, ?sums, ?took, "compared the data of the members");
            compared = compared.after((took, self.context.now()), &observed, sums);
            if !compared.uncompared().is_empty() {
                let members = compared.uncompared();
                tracing::warn!(
                    cluster = key,
                    ?members,
                    "failed to compare the data of the members, will retry later"
                );
            }
            self.context.keep(&key, |state| state.compared = Some(compared.clone()));
            observed = self.observe(valid).await?;
            compared.show_new(&mut observed);
        }
        Ok(observed)
    }

    async fn observe(&self, valid: &Validated) -> Result<Observed, ObserveError> {
        let environment = self.context.environment(valid).await;
        let addressing = &*self.context.addressing;
        observe::observe(&self.context.client, &self.etcd, addressing, valid, &environment).await
    }

    fn applier<'b>(&'b self, cluster: &'b Validated) -> Applier<'b> {
        Applier {
            client: &self.context.client,
            etcd: &self.etcd,
            addressing: &*self.context.addressing,
            cluster,
        }
    }

    /// Updates the PodDisruptionBudget. A failure is reported and does not block.
    async fn budget(
        &self,
        valid: &Validated,
        old: &EtcdClusterStatus,
        observed: &Observed,
    ) -> Result<(), ApplyError> {
        if valid.goal.paused || valid.goal.restoring.is_some() || !self.context.elector.leads() {
            return Ok(());
        }
        let known = || (usize::try_from(old.size).unwrap_or_default(), status::learners(old));
        let (voters, learners) =
            assess(observed).map_or_else(known, |health| (health.voters.len(), health.learners.len()));
        let wanted = disruption::min_available(valid.goal.size, voters, learners).filter(|_| valid.budget);
        self.context.budgets.keep(&self.context.client, valid, wanted).await
    }

    async fn finish(
        &self,
        cluster: &EtcdCluster,
        valid: &Validated,
        old: &EtcdClusterStatus,
        observed: &Observed,
        mut decision: Decision,
    ) -> Result<Requeue, ReconcileError> {
        let budget = self.budget(valid, old, observed).await.err();
        let mut failure = None;
        if !self.secured.faults.is_empty() && !matches!(decision.action, Some(Action::Remember(_))) {
            // Actions with invalid Secrets would fail; running members are left running.
            decision.action = None;
            decision.blocked = Some("TLSNotReady");
            decision.message = tls::describe_faults(&self.secured.faults);
        }
        if let Some(action) = decision.action.clone() {
            if !self.context.elector.leads() {
                return Ok(Requeue::requeue(UNLED));
            }
            // Memory is written below, with the rest of the status, before anything relies on it.
            if !matches!(action, Action::Remember(_)) {
                failure = self.act(cluster, valid, observed, &action, &mut decision).await.err();
            }
        }
        let done = decision.action.clone().filter(|_| failure.is_none());
        let failure = failure.or(budget);
        if let Some(error) = &failure {
            // Users see the cause without reading the log: a quota, an admission webhook, a missing
            // permission.
            decision.blocked = Some("ActionFailed");
            decision.message = recent_failure(old, observed.now).unwrap_or_else(|| error.to_string());
        }
        let mut new = status::status(old, valid, observed, &decision);
        if let Some(Action::Maintain(step)) = &done {
            maintenance::done(&mut new, step);
        }
        tls::report(&mut new, old, valid, &self.secured, observed.now);
        let pod_seen = |name: &String| observed.pod(name).is_some();
        if !matches!(decision.action, Some(Action::Remember(_)))
            && new.pending_member.as_ref().is_some_and(pod_seen)
        {
            // The pod exists: if it is lost, its data is lost too, and it must not be recreated under this
            // name.
            new.pending_member = None;
        }
        self.report(cluster, old, &new).await?;
        let lost = new.phase == "Failed";
        let quorum = new.condition("Available").is_some_and(|c| c.status == "True");
        self.context.metrics.members(&key(cluster), new.size, new.ready_members, quorum, lost);
        let expires = self.secured.expires.map(Timestamp::as_second);
        self.context.metrics.observed(&key(cluster), observed, expires);
        match failure {
            Some(error) => Err(error.into()),
            None => {
                let news = *old != new || done.is_some();
                Ok(Requeue::requeue(self.context.pace(&key(cluster), news, decision.again)))
            }
        }
    }

    async fn act(
        &self,
        cluster: &EtcdCluster,
        valid: &Validated,
        observed: &Observed,
        action: &Action,
        decision: &mut Decision,
    ) -> Result<(), ApplyError> {
        let applier = self.applier(valid);
        let begin = Instant::now();
        match applier.act(action, observed).await {
            Ok(done) => {
                tracing::info!(cluster = key(cluster), action = ?action, ?done, took = ?begin.elapsed(), "done");
                self.context.metrics.action(action.kind());
                events::send(
                    &self.context.recorder,
                    &cluster.object_ref(&()),
                    &events::of_action(action, done),
                )
                .await;
                Ok(())
            }
            Err(ApplyError::Etcd(ChangeError::NotYet(reason))) => {
                tracing::debug!(cluster = key(cluster), action = action.kind(), reason, "not yet");
                postpone(decision, &reason);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a changed status and emits its events.
    async fn report(
        &self,
        cluster: &EtcdCluster,
        old: &EtcdClusterStatus,
        new: &EtcdClusterStatus,
    ) -> Result<(), ReconcileError> {
        // An operator that was frozen until another took over must not report any more.
        if old == new || !self.context.elector.leads() {
            return Ok(());
        }
        let api: Api<EtcdCluster> =
            Api::namespaced(self.context.client.clone(), &cluster.namespace().unwrap_or_default());
        // The uid makes the server reject the patch for a later object of the same name; nulls remove fields.
        let mut patch = json!({ "metadata": { "uid": cluster.uid() }, "status": differences(old, new) });
        // Memory is only written over the version that was read. A conflict means a newer object, which
        // triggers a reconciliation.
        if status::memory(old) != status::memory(new) {
            patch["metadata"]["resourceVersion"] = json!(cluster.resource_version());
        }
        match api.patch_status(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => return Ok(()),
            Err(error) => return Err(ReconcileError::Status(Box::new(error))),
        }
        events::send(&self.context.recorder, &cluster.object_ref(&()), &events::of_status(old, new)).await;
        Ok(())
    }
}

/// etcd does not accept the change yet: the action counts as not done, and nothing follows from it.
fn postpone(decision: &mut Decision, reason: &str) {
    decision.action = None;
    decision.again = Some(pace::TRY);
    decision.message = format!("{}; {reason}", decision.message);
}

/// The recently reported failure. Messages of one failure differ with each attempt, by the name of a new pod;
/// reporting each would trigger reconciliation by our own status update and defeat the backoff.
fn recent_failure(old: &EtcdClusterStatus, now: Timestamp) -> Option<String> {
    let reported = old.condition("Degraded").filter(|c| c.status == "True" && c.reason == "ActionFailed")?;
    let since = Duration::try_from(now.duration_since(reported.last_update_time.as_ref()?.0)).ok()?;
    (since < REPORT_INTERVAL).then(|| reported.message.clone())
}

#[cfg(test)]
pub(crate) mod tests;
