//! Controller of restores: observe, decide, apply, report; one step at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action as Requeue, Config};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::apply::Applier;
use super::observe::{ObservedRestore, observe};
use super::place::Place;
use super::plan::{Step, next_step};
use super::verify::verify;
use crate::apply::why;
use crate::backup::run::{Attempt, Owner};
use crate::backup::source::{Entry, MemberClients};
use crate::controller::{Context as Base, api, differences, key};
use crate::crd::backup::Upload;
use crate::crd::restore::{EtcdRestore, EtcdRestoreStatus};
use crate::events::{self, Note};
use crate::lease::UNLED;
use crate::storage::{Failure, STALL, Target, UploadNotes};
use crate::watch;

/// Concurrent restores per watched namespace.
const CONCURRENCY: u16 = 8;
/// Delay after an applied step.
const SOON: Duration = Duration::from_millis(20);
/// Delay while members start and stop.
const WATCH: Duration = Duration::from_millis(500);
/// Delay while an external prerequisite is missing: a store, a Secret, an EtcdCluster.
const AGAIN: Duration = Duration::from_secs(10);

pub(crate) struct Context {
    pub(crate) base: Arc<Base>,
    folder: Option<PathBuf>,
    pub(crate) place: Arc<Place>,
    shutdown: CancellationToken,
}

pub async fn run(base: Arc<Base>, folder: Option<PathBuf>, place: Arc<Place>, shutdown: CancellationToken) {
    let controllers = base.scope.namespaces().into_iter().map(|namespace| {
        let stop = shutdown.clone();
        let context = Arc::new(Context {
            base: base.clone(),
            folder: folder.clone(),
            place: place.clone(),
            shutdown: shutdown.clone(),
        });
        async move {
            let restores = api::<DeserializeGuard<EtcdRestore>>(&context.base.client, namespace.as_deref());
            watch::controller(restores)
                .with_config(Config::default().concurrency(CONCURRENCY))
                .graceful_shutdown_on(async move { stop.cancelled().await })
                .run(reconcile, error_policy, context)
                .for_each(|result| async move {
                    if let Err(error) = result {
                        tracing::debug!(%error, "restore reconciliation failed");
                    }
                })
                .await;
        }
    });
    futures::future::join_all(controllers).await;
}

#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error("failed to parse the object: {0}")]
    Unreadable(String),
    #[error("failed to {verb}: {}", why(source))]
    Kubernetes { verb: &'static str, source: Box<kube::Error> },
    #[error("{0}")]
    Step(String),
}

fn error_policy(
    object: Arc<DeserializeGuard<EtcdRestore>>,
    error: &ReconcileError,
    _: Arc<Context>,
) -> Requeue {
    tracing::warn!(restore = key(&*object), %error, "restore reconciliation failed");
    match error {
        ReconcileError::Unreadable(_) => Requeue::await_change(),
        ReconcileError::Kubernetes { .. } | ReconcileError::Step(_) => {
            Requeue::requeue(Duration::from_secs(2))
        }
    }
}

async fn reconcile(
    object: Arc<DeserializeGuard<EtcdRestore>>,
    context: Arc<Context>,
) -> Result<Requeue, ReconcileError> {
    let cached = object.0.as_ref().map_err(|error| ReconcileError::Unreadable(error.error.clone()))?;
    let base = &context.base;
    if !base.scope.includes(cached) {
        return Ok(Requeue::await_change());
    }
    if !base.elector.leads() {
        return Ok(Requeue::requeue(UNLED));
    }
    // The latest record must be read: no decision relies on a cache.
    let api: Api<EtcdRestore> = Api::namespaced(base.client.clone(), &cached.namespace().unwrap_or_default());
    let fresh = api.get_opt(&cached.name_any()).await;
    let fresh = fresh.map_err(|source| ReconcileError::Kubernetes {
        verb: "read the EtcdRestore again",
        source: Box::new(source),
    })?;
    match fresh {
        Some(fresh) if fresh.uid() == cached.uid() => {
            Reconciliation { context: &context, api: &api, restore: &fresh }.run().await
        }
        _ => Ok(Requeue::await_change()),
    }
}

struct Reconciliation<'a> {
    context: &'a Context,
    api: &'a Api<EtcdRestore>,
    restore: &'a EtcdRestore,
}

impl Reconciliation<'_> {
    fn status(&self) -> EtcdRestoreStatus {
        self.restore.status.clone().unwrap_or_default()
    }

    async fn run(&self) -> Result<Requeue, ReconcileError> {
        let observation = match observe(self.context, self.restore).await {
            Ok(observation) => observation,
            Err(reason) => return self.wait(None, &reason, AGAIN).await,
        };
        let applier = Applier { context: self.context, restore: self.restore, observation: &observation };
        if self.restore.metadata.deletion_timestamp.is_some() {
            let held = observation
                .state
                .cluster
                .as_ref()
                .is_some_and(|c| c.holder.as_ref() == Some(&observation.state.uid));
            if held {
                applier.release().await.map_err(ReconcileError::Step)?;
            }
            applier.finalizer(false).await.map_err(ReconcileError::Step)?;
            return Ok(Requeue::await_change());
        }
        // The observation took a while.
        if !self.context.base.elector.leads() {
            return Ok(Requeue::requeue(UNLED));
        }
        let step = next_step(&observation.state);
        if !matches!(step, Step::Wait(..) | Step::Done | Step::Keep) {
            tracing::info!(restore = key(self.restore), ?step, "next");
        }
        let done = match &step {
            Step::Done => {
                applier.finalizer(false).await.map_err(ReconcileError::Step)?;
                return Ok(Requeue::await_change());
            }
            Step::Wait(phase, reason) => {
                let pace = if *phase == "Verified" { AGAIN } else { WATCH };
                return self.wait(Some(phase), reason, pace).await;
            }
            Step::Fail(reason) => return self.fail(reason).await,
            Step::Verify => return self.verify().await,
            Step::SafetyBackup => return self.safety(&observation).await,
            Step::Remember(status) => {
                let mut status = (**status).clone();
                status.observed_generation = self.restore.metadata.generation;
                status.start_time = status.start_time.or_else(|| Some(Time(Timestamp::now())));
                self.write(&status).await?;
                return Ok(Requeue::requeue(SOON));
            }
            Step::Succeed { revision } => return self.succeed(*revision).await,
            Step::CreateCluster => applier.create_cluster().await,
            Step::Hold => {
                let held = applier.hold().await;
                if held.is_ok() {
                    let text = format!(
                        "EtcdCluster {} is being restored; its members are stopped",
                        observation.state.name
                    );
                    self.emit(false, "RestoreStarted", &text).await;
                }
                held
            }
            Step::Release => applier.release().await,
            Step::Keep => return Ok(Requeue::await_change()),
            Step::DeletePod { name, uid } => applier.delete_pod(name, uid).await,
            Step::SetAside { name, uid } => applier.retain_claim(name, uid).await,
            Step::Recover { name } => applier.recover(name).await,
            Step::CreateSeed { name } => applier.create_seed(name).await,
            Step::HandOver => applier.hand_over().await,
        };
        match done {
            Ok(()) => Ok(Requeue::requeue(SOON)),
            Err(reason) => self.wait(None, &reason, Duration::from_secs(2)).await,
        }
    }

    /// Reads the whole snapshot. Temporary failures are retried.
    async fn verify(&self) -> Result<Requeue, ReconcileError> {
        let mut status = self.status();
        status.phase = "Downloading".into();
        status.observed_generation = self.restore.metadata.generation;
        status.start_time = status.start_time.or_else(|| Some(Time(Timestamp::now())));
        self.write(&status).await?;
        let target = match self.target() {
            Ok(target) => target,
            Err(reason) => return self.fail(&reason).await,
        };
        if let Some(text) = target.warning() {
            self.emit(true, "InsecureEndpoint", &text).await;
        }
        let namespace = self.restore.namespace().unwrap_or_default();
        let store = match crate::backup::open(
            &self.context.base,
            self.context.folder.as_deref(),
            &namespace,
            &target,
            self.restore.spec.encryption.as_ref(),
        )
        .await
        {
            Ok(store) => store,
            Err(reason) => return self.wait_from(&status, &reason, AGAIN).await,
        };
        let verified = tokio::select! {
            verified = verify(&store, &target.key, STALL) => verified,
            () = self.context.shutdown.cancelled() => return Ok(Requeue::await_change()),
        };
        match verified {
            Ok(snapshot) => {
                let new = EtcdRestoreStatus {
                    phase: "Verified".into(),
                    snapshot: Some(snapshot),
                    reason: String::new(),
                    ..status.clone()
                };
                self.write_over(&status, &new).await?;
                Ok(Requeue::requeue(SOON))
            }
            Err(Failure::Damaged(damage)) => self.fail(&format!("{}: {damage}", target.uri())).await,
            Err(other) => self.wait_from(&status, &other.to_string(), AGAIN).await,
        }
    }

    fn target(&self) -> Result<Target, String> {
        Target::read("backupStorageType", &self.restore.spec.backup_storage_type, &self.restore.spec.stores)
    }

    /// Backs up the current data of the cluster, next to the snapshot.
    async fn safety(&self, observation: &ObservedRestore) -> Result<Requeue, ReconcileError> {
        let status = self.status();
        match self.safety_backup(observation).await {
            Ok(uri) => {
                let old = self.read().await?.unwrap_or(status);
                let new = EtcdRestoreStatus {
                    safety_backup: uri,
                    upload: None,
                    reason: String::new(),
                    ..old.clone()
                };
                self.write_over(&old, &new).await?;
                Ok(Requeue::requeue(SOON))
            }
            Err(reason) => {
                let text = format!(
                    "failed to back up EtcdCluster {}, so it is not stopped (another EtcdRestore with \
                     spec.skipSafetyBackup skips the backup): {reason}",
                    observation.state.name
                );
                let old = self.read().await?.unwrap_or(status);
                self.wait_from(&old, &text, AGAIN).await
            }
        }
    }

    async fn safety_backup(&self, observation: &ObservedRestore) -> Result<String, String> {
        let (base, namespace) = (&self.context.base, self.restore.namespace().unwrap_or_default());
        let source = self.target()?;
        let uid = self.restore.uid().unwrap_or_default();
        let target = source.at(format!("{}_before-restore_{uid}", source.key));
        let (folder, encryption) = (self.context.folder.as_deref(), self.restore.spec.encryption.as_ref());
        let store = crate::backup::open(base, folder, &namespace, &target, encryption).await?;
        // A store that does not recognize the upload must not block the restore.
        if let Some(upload) = self.status().upload
            && let Err(failure) = store.abort(&upload.key, &upload.id).await
        {
            tracing::warn!(restore = key(self.restore), %failure, upload = upload.id, "failed to abort an \
             unfinished upload");
        }
        let observed = observation.observed.as_ref().ok_or("the EtcdCluster was not read")?;
        let endpoints = observed.pods.iter().filter_map(|pod| base.addressing.endpoint(pod)).collect();
        let access = observation.etcd.access().clone();
        let members_client = MemberClients { etcd: &base.etcd, entry: Entry::Known(&access) };
        let answers = members_client.query(&endpoints).await;
        let notes = UploadNotes { cancel: self.context.shutdown.child_token(), ..UploadNotes::default() };
        let owner = Owner { uid, name: key(self.restore) };
        let attempt = Attempt {
            store: &store,
            target: &target,
            owner: &owner,
            periodic: false,
            keep: 0,
            notes: &notes,
        };
        let on_start = |key: String, id: String| {
            let new = EtcdRestoreStatus { upload: Some(Upload { key, id }), ..self.status() };
            async move { self.write(&new).await.map_err(|error| error.to_string()) }.boxed()
        };
        Ok(attempt.run_with(&members_client, &answers, &on_start).await?.uri)
    }

    async fn read(&self) -> Result<Option<EtcdRestoreStatus>, ReconcileError> {
        let found = self.api.get_opt(&self.restore.name_any()).await;
        let found = found.map_err(|source| ReconcileError::Kubernetes {
            verb: "read the EtcdRestore again",
            source: Box::new(source),
        })?;
        Ok(found.and_then(|restore| restore.status))
    }

    async fn wait(
        &self,
        phase: Option<&str>,
        reason: &str,
        pace: Duration,
    ) -> Result<Requeue, ReconcileError> {
        let mut new = self.status();
        new.observed_generation = self.restore.metadata.generation;
        match phase {
            Some(phase) => new.phase = phase.into(),
            None if new.phase.is_empty() => new.phase = "Pending".into(),
            None => {}
        }
        new.reason = reason.to_owned();
        self.write(&new).await?;
        Ok(Requeue::requeue(pace))
    }

    async fn wait_from(
        &self,
        old: &EtcdRestoreStatus,
        reason: &str,
        pace: Duration,
    ) -> Result<Requeue, ReconcileError> {
        let new = EtcdRestoreStatus { reason: reason.to_owned(), ..old.clone() };
        if *old != new {
            self.write_over(old, &new).await?;
            self.emit(true, "RestoreWaiting", reason).await;
        }
        Ok(Requeue::requeue(pace))
    }

    async fn fail(&self, reason: &str) -> Result<Requeue, ReconcileError> {
        let mut new = self.status();
        (new.phase, new.succeeded, new.reason) = ("Failed".into(), false, reason.to_owned());
        new.observed_generation = self.restore.metadata.generation;
        new.completion_time = Some(Time(Timestamp::now()));
        self.write(&new).await?;
        tracing::warn!(restore = key(self.restore), reason, "restore failed");
        self.emit(true, "RestoreFailed", reason).await;
        Ok(Requeue::requeue(SOON))
    }

    async fn succeed(&self, revision: i64) -> Result<Requeue, ReconcileError> {
        let mut new = self.status();
        (new.phase, new.succeeded, new.reason) = ("Succeeded".into(), true, String::new());
        new.restored_revision = Some(revision);
        new.completion_time = Some(Time(Timestamp::now()));
        self.write(&new).await?;
        let data =
            new.claim.map_or("the snapshot".to_owned(), |claim| format!("the data of claim {}", claim.name));
        let text = format!(
            "All members of EtcdCluster {} serve {data}; revision {revision}",
            self.restore.spec.etcd_cluster.name
        );
        self.emit(false, "RestoreSucceeded", &text).await;
        Ok(Requeue::requeue(SOON))
    }

    async fn write(&self, new: &EtcdRestoreStatus) -> Result<(), ReconcileError> {
        self.write_over(&self.status(), new).await
    }

    async fn write_over(
        &self,
        old: &EtcdRestoreStatus,
        new: &EtcdRestoreStatus,
    ) -> Result<(), ReconcileError> {
        if old == new {
            return Ok(());
        }
        if !self.context.base.elector.leads() {
            return Err(ReconcileError::Step("lease not held, nothing written".into()));
        }
        // The uid makes the server reject the patch for a later object of the same name.
        let patch = json!({ "metadata": { "uid": self.restore.uid() }, "status": differences(old, new) });
        match self
            .api
            .patch_status(&self.restore.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(source) => {
                Err(ReconcileError::Kubernetes { verb: "write the status", source: Box::new(source) })
            }
        }
    }

    async fn emit(&self, warning: bool, reason: &'static str, text: &str) {
        let note = Note { warning, reason, text: text.to_owned(), pod: None };
        events::send(&self.context.base.recorder, &self.restore.object_ref(&()), &[note]).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_whose_turn_comes_while_the_lease_is_late_has_it_a_little_later() {
        let object: EtcdRestore = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "namespace": "shop", "uid": "u" },
            "spec": { "etcdCluster": { "name": "orders" }, "backupStorageType": "Local", "local": { "path": "a/b" } },
        }))
        .unwrap();
        let base = Arc::new(crate::controller::tests::context("late"));
        let context =
            Context { base, folder: None, place: Arc::default(), shutdown: CancellationToken::new() };
        let turn = reconcile(Arc::new(DeserializeGuard(Ok(object))), Arc::new(context)).await;
        assert_eq!(turn.unwrap(), Requeue::requeue(UNLED));
    }
}
