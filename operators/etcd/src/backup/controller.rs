//! Controller of EtcdBackups: selects due objects, runs backups and reports the result.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action as Requeue, Config};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::run::{Attempt, CompletedBackup, Owner};
use super::schedule::{self, Next, Policy};
use super::source::{Entry, MemberClients, address};
use super::status;
use crate::apply::why;
use crate::controller::{Context as Base, api, differences, key};
use crate::crd::EtcdCluster;
use crate::crd::backup::{EtcdBackup, EtcdBackupStatus, Upload};
use crate::crd::stores::Encryption;
use crate::events::{self, Note};
use crate::lease::UNLED;
use crate::storage::{Keys, OnUploadStart, SecretData, Store, Target, UploadNotes};
use crate::{observe, validate, watch};

/// Concurrent backups per watched namespace; each needs at most 40 MiB.
const CONCURRENCY: u16 = 8;
/// Interval of progress updates in the status of a running backup.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a failed call to Kubernetes is retried.
const AGAIN: Duration = Duration::from_secs(5);
/// Grace period for the first member after the creation of a cluster.
const CREATION: SignedDuration = SignedDuration::from_mins(10);
/// Maximum time between reconciliations of a waiting backup, even if it is not due: clocks are adjusted.
const LOOK: Duration = Duration::from_secs(300);
/// Finalizer of periodic backups of coreos/etcd-operator. Without its removal the deletion of such an object
/// would hang.
const UPSTREAM_FINALIZER: &str = "backup-operator-periodic";

struct Context {
    base: Arc<Base>,
    /// Directory of local backups.
    folder: Option<PathBuf>,
    shutdown: CancellationToken,
}

/// Runs until shutdown; running backups are aborted then.
pub async fn run(base: Arc<Base>, folder: Option<PathBuf>, shutdown: CancellationToken) {
    let controllers = base.scope.namespaces().into_iter().map(|namespace| {
        let stop = shutdown.clone();
        let context =
            Arc::new(Context { base: base.clone(), folder: folder.clone(), shutdown: shutdown.clone() });
        async move {
            let backups = api::<DeserializeGuard<EtcdBackup>>(&context.base.client, namespace.as_deref());
            watch::controller(backups)
                .with_config(Config::default().concurrency(CONCURRENCY))
                .graceful_shutdown_on(async move { stop.cancelled().await })
                .run(reconcile, error_policy, context)
                .for_each(|result| async move {
                    if let Err(error) = result {
                        tracing::debug!(%error, "backup reconciliation failed");
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
    #[error("lease not held, nothing written")]
    Unled,
}

fn failed(verb: &'static str) -> impl FnOnce(kube::Error) -> ReconcileError {
    move |error| ReconcileError::Kubernetes { verb, source: Box::new(error) }
}

fn error_policy(
    object: Arc<DeserializeGuard<EtcdBackup>>,
    error: &ReconcileError,
    _: Arc<Context>,
) -> Requeue {
    tracing::warn!(backup = key(&*object), %error, "backup reconciliation failed");
    match error {
        ReconcileError::Unreadable(_) => Requeue::await_change(),
        ReconcileError::Kubernetes { .. } => Requeue::requeue(AGAIN),
        ReconcileError::Unled => Requeue::requeue(UNLED),
    }
}

async fn reconcile(
    object: Arc<DeserializeGuard<EtcdBackup>>,
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
    let (namespace, name) = (cached.namespace().unwrap_or_default(), cached.name_any());
    let api: Api<EtcdBackup> = Api::namespaced(base.client.clone(), &namespace);
    if cached.metadata.deletion_timestamp.is_some() {
        base.metrics.backups.gone(&key(cached));
        if cached.finalizers().iter().any(|finalizer| finalizer == UPSTREAM_FINALIZER) {
            release(&api, cached).await?;
        }
        return Ok(Requeue::await_change());
    }
    let known = cached.status.clone().unwrap_or_default();
    base.metrics.backups.known(&key(cached), known.last_success_date.map(|time| time.0), known.size_bytes);
    let turn = Reconciliation { context: &context, api: &api };
    match turn.due(cached) {
        Err(reason) => turn.refuse(cached, &reason).await,
        Ok((_, _, Next::Now)) => {
            // The object comes from a cache: read it again, so that a finished backup is not repeated.
            match api.get_opt(&name).await.map_err(failed("read the EtcdBackup again"))? {
                Some(fresh) if fresh.uid() == cached.uid() && fresh.metadata.deletion_timestamp.is_none() => {
                    match turn.due(&fresh) {
                        Ok((policy, target, Next::Now)) => match turn.not_begun(&fresh).await {
                            Some(reason) => turn.postpone(&fresh, &reason).await,
                            None => turn.back_up(&fresh, &policy, &target).await,
                        },
                        Ok((_, _, next)) => turn.wait(&fresh, next).await,
                        Err(reason) => turn.refuse(&fresh, &reason).await,
                    }
                }
                _ => Ok(Requeue::await_change()),
            }
        }
        Ok((_, _, next)) => turn.wait(cached, next).await,
    }
}

/// Removes upstream's finalizer from a deleted object.
async fn release(api: &Api<EtcdBackup>, backup: &EtcdBackup) -> Result<(), ReconcileError> {
    let rest: Vec<&String> = backup.finalizers().iter().filter(|f| *f != UPSTREAM_FINALIZER).collect();
    // The resourceVersion makes the server reject the patch when the list was changed meanwhile.
    let patch = json!({ "metadata": {
        "finalizers": rest, "uid": backup.uid(), "resourceVersion": backup.resource_version(),
    } });
    match api.patch(&backup.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(failed("remove the finalizer of coreos/etcd-operator from the EtcdBackup")(error)),
    }
}

/// One reconciliation of one object.
struct Reconciliation<'a> {
    context: &'a Context,
    api: &'a Api<EtcdBackup>,
}

impl Reconciliation<'_> {
    /// Policy and target of the backup and its next start.
    fn due(&self, backup: &EtcdBackup) -> Result<(Policy, Target, Next), String> {
        let spec = &backup.spec;
        if spec.etcd_endpoints.is_empty() == spec.cluster_name.is_none() {
            return Err("spec: expected exactly one source, etcdEndpoints or clusterName".into());
        }
        let namespace = backup.namespace().unwrap_or_default();
        for endpoint in &spec.etcd_endpoints {
            address(endpoint, &namespace).map_err(|why| format!("spec.etcdEndpoints: {why}"))?;
        }
        let policy = schedule::policy(spec)?;
        let target = Target::read("storageType", &spec.storage_type, &spec.stores)?;
        let status = backup.status.clone().unwrap_or_default();
        let now = Timestamp::now();
        let created = backup.creation_timestamp().map_or(now, |time| time.0);
        let next = schedule::next(&policy, &status, backup.metadata.generation, created, now);
        Ok((policy, target, next))
    }

    async fn refuse(&self, backup: &EtcdBackup, reason: &str) -> Result<Requeue, ReconcileError> {
        let old = backup.status.clone().unwrap_or_default();
        let new = status::refused(&old, reason, backup.metadata.generation);
        if old != new {
            self.write(backup, &old, &new).await?;
            self.emit(backup, true, "BackupFailed", reason).await;
        }
        Ok(Requeue::await_change())
    }

    /// The reason to wait if the EtcdCluster has no first member yet, such as one applied together with its
    /// backup: not a failure. A cluster that takes too long, or that cannot be read, is a failure that the
    /// backup reports.
    async fn not_begun(&self, backup: &EtcdBackup) -> Option<String> {
        let name = backup.spec.cluster_name.as_ref()?;
        let namespace = backup.namespace().unwrap_or_default();
        let clusters = Api::<EtcdCluster>::namespaced(self.context.base.client.clone(), &namespace);
        let cluster = clusters.get_opt(name).await.ok().flatten()?;
        let age = Timestamp::now().duration_since(cluster.creation_timestamp()?.0);
        let status = cluster.status.unwrap_or_default();
        let creating = status.cluster_id.is_none() && matches!(&*status.phase, "" | "Creating");
        (creating && cluster.spec.paused != Some(true) && age < CREATION)
            .then(|| format!("EtcdCluster {name} is being created: waiting for its first member"))
    }

    async fn postpone(&self, backup: &EtcdBackup, reason: &str) -> Result<Requeue, ReconcileError> {
        let old = backup.status.clone().unwrap_or_default();
        let new = status::postpone(&old, reason);
        if old != new {
            self.write(backup, &old, &new).await?;
        }
        Ok(Requeue::requeue(AGAIN))
    }

    async fn wait(&self, backup: &EtcdBackup, next: Next) -> Result<Requeue, ReconcileError> {
        let old = backup.status.clone().unwrap_or_default();
        let new = status::waiting(&old, next, backup.metadata.generation);
        if old != new {
            self.write(backup, &old, &new).await?;
        }
        Ok(self.requeue(next))
    }

    fn requeue(&self, next: Next) -> Requeue {
        match next {
            Next::Now => Requeue::requeue(Duration::ZERO),
            Next::Never => Requeue::await_change(),
            Next::At(time) => {
                let wait = Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default();
                Requeue::requeue(wait.min(LOOK))
            }
        }
    }

    async fn back_up(
        &self,
        backup: &EtcdBackup,
        policy: &Policy,
        target: &Target,
    ) -> Result<Requeue, ReconcileError> {
        let (begin, now) = (Instant::now(), Timestamp::now());
        let old = backup.status.clone().unwrap_or_default();
        let slot = schedule::slot(policy, &old, now);
        let new = status::running(&old, backup.metadata.generation, slot, now);
        if !self.write(backup, &old, &new).await? {
            return Ok(Requeue::await_change());
        }
        if let Some(text) = target.warning() {
            self.emit(backup, true, "InsecureEndpoint", &text).await;
        }
        let status = Mutex::new(new);
        let result = self.attempt(backup, policy, target, &status).await;
        let mut status = status.into_inner();
        let (key, old) = (key(backup), status.clone());
        match &result {
            Ok(good) => {
                let now = Timestamp::now();
                status = status::succeeded(&status, good, now);
                self.context.base.metrics.backups.succeeded(&key, now, good.whole.size, begin.elapsed());
                tracing::info!(backup = key, object = good.uri, bytes = good.whole.size, took = ?begin.elapsed(), "backed up");
            }
            Err(reason) => {
                if self.context.shutdown.is_cancelled() {
                    // The phase stays Running: the next operator aborts the upload and starts again.
                    return Ok(Requeue::await_change());
                }
                status = status::failed(&status, reason);
                self.context.base.metrics.backups.failed(&key);
                tracing::warn!(backup = key, reason, failures = status.failures, "backup failed");
            }
        }
        let created = backup.creation_timestamp().map_or(now, |time| time.0);
        let next = schedule::next(policy, &status, backup.metadata.generation, created, Timestamp::now());
        status = status::waiting(&status, next, backup.metadata.generation);
        self.write(backup, &old, &status).await?;
        match &result {
            Ok(good) => {
                let text =
                    format!("Backed up revision {} of etcd {} to {}", good.revision, good.version, good.uri);
                self.emit(backup, false, "BackupSucceeded", &text).await;
                if !good.retention.is_empty() {
                    let text = format!("Failed to delete old backups: {}", good.retention);
                    self.emit(backup, true, "RetentionFailed", &text).await;
                }
            }
            Err(reason) => self.emit(backup, true, "BackupFailed", reason).await,
        }
        Ok(self.requeue(next))
    }

    async fn attempt(
        &self,
        backup: &EtcdBackup,
        policy: &Policy,
        target: &Target,
        status: &Mutex<EtcdBackupStatus>,
    ) -> Result<CompletedBackup, String> {
        let namespace = backup.namespace().unwrap_or_default();
        let base = &self.context.base;
        let encryption = backup.spec.encryption.as_ref();
        let store = open(base, self.context.folder.as_deref(), &namespace, target, encryption).await?;
        self.abort_upload(backup, &store, status).await?;
        let notes = UploadNotes {
            cancel: self.context.shutdown.child_token(),
            timeout: policy.timeout,
            ..UploadNotes::default()
        };
        let owner = Owner { uid: backup.uid().unwrap_or_default(), name: key(backup) };
        let attempt = Attempt {
            store: &store,
            target,
            owner: &owner,
            periodic: policy.trigger.is_periodic(),
            keep: policy.keep,
            notes: &notes,
        };
        let on_start = |key: String, id: String| {
            let upload = Upload { key, id };
            self.change(backup, status, move |status| status.upload = Some(upload)).boxed()
        };
        let work = self.work(backup, &attempt, &on_start);
        let reported = async {
            loop {
                tokio::time::sleep(REPORT_INTERVAL).await;
                let bytes = i64::try_from(notes.progress.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
                if let Err(error) = self.change(backup, status, |status| status.progress_bytes = bytes).await
                {
                    tracing::debug!(error, "failed to report progress");
                }
            }
        };
        tokio::select! {
            result = work => result,
            () = reported => Err("unreachable: progress reports never end".into()),
        }
    }

    /// Surveys the members and runs the backup.
    async fn work(
        &self,
        backup: &EtcdBackup,
        attempt: &Attempt<'_>,
        on_start: OnUploadStart<'_>,
    ) -> Result<CompletedBackup, String> {
        let base = &self.context.base;
        let namespace = backup.namespace().unwrap_or_default();
        if let Some(name) = &backup.spec.cluster_name {
            let (etcd, endpoints) = members(base, &namespace, name).await?;
            let access = etcd.access().clone();
            let members_client = MemberClients { etcd: &base.etcd, entry: Entry::Known(&access) };
            let answers = members_client.query(&endpoints).await;
            return attempt.run_with(&members_client, &answers, on_start).await;
        }
        let mut endpoints = BTreeSet::new();
        let mut tls = false;
        for endpoint in &backup.spec.etcd_endpoints {
            let (secure, address, _) = address(endpoint, &namespace)?;
            tls |= secure;
            endpoints.insert(address);
        }
        let name = &backup.spec.client_tls_secret;
        if name.is_empty() {
            if tls {
                return Err("spec.clientTLSSecret: missing, expected for https endpoints".into());
            }
            return attempt
                .run(&MemberClients { etcd: &base.etcd, entry: Entry::Plain }, &endpoints, on_start)
                .await;
        }
        let secret = secret(base, &namespace, name).await?;
        let members_client = MemberClients { etcd: &base.etcd, entry: Entry::Secret(name, &secret) };
        attempt.run(&members_client, &endpoints, on_start).await
    }

    /// Aborts the upload that a former operator left unfinished in the store. A store that does not recognize
    /// the upload, with an error of its own, must not block backups; an unreachable store fails the backup
    /// anyway, and the upload stays recorded.
    async fn abort_upload(
        &self,
        backup: &EtcdBackup,
        store: &Store,
        status: &Mutex<EtcdBackupStatus>,
    ) -> Result<(), String> {
        let Some(upload) = status.lock().await.upload.clone() else { return Ok(()) };
        match store.abort(&upload.key, &upload.id).await {
            Ok(()) => self.change(backup, status, |status| status.upload = None).await,
            Err(failure) => {
                tracing::warn!(backup = key(backup), %failure, upload = upload.id, "failed to abort an \
                 unfinished upload");
                Ok(())
            }
        }
    }

    async fn change(
        &self,
        backup: &EtcdBackup,
        status: &Mutex<EtcdBackupStatus>,
        change: impl FnOnce(&mut EtcdBackupStatus) + Send,
    ) -> Result<(), String> {
        let mut status = status.lock().await;
        let old = status.clone();
        change(&mut status);
        match self.write(backup, &old, &status).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the EtcdBackup was deleted during the backup".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// False when the object is gone.
    async fn write(
        &self,
        backup: &EtcdBackup,
        old: &EtcdBackupStatus,
        new: &EtcdBackupStatus,
    ) -> Result<bool, ReconcileError> {
        if !self.context.base.elector.leads() {
            // Another process may work on the object by now, with newer state.
            return Err(ReconcileError::Unled);
        }
        // The uid makes the server reject the patch for a later object of the same name.
        let patch = json!({ "metadata": { "uid": backup.uid() }, "status": differences(old, new) });
        match self.api.patch_status(&backup.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await
        {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(false),
            Err(error) => Err(failed("write the status")(error)),
        }
    }

    async fn emit(&self, backup: &EtcdBackup, warning: bool, reason: &'static str, text: &str) {
        let note = Note { warning, reason, text: text.to_owned(), pod: None };
        events::send(&self.context.base.recorder, &backup.object_ref(&()), &[note]).await;
    }
}

/// Reads a Secret named by the user.
pub(crate) async fn secret(base: &Base, namespace: &str, name: &str) -> Result<Secret, String> {
    let api: Api<Secret> = Api::namespaced(base.client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(format!("Secret {name} does not exist in namespace {namespace}")),
        Err(error) => Err(format!("failed to read Secret {name}: {}", why(&error))),
    }
}

/// Data of a Secret named by the user.
async fn secret_data(base: &Base, namespace: &str, name: &str) -> Result<SecretData, String> {
    let data = secret(base, namespace, name).await?.data.unwrap_or_default();
    Ok(data.into_iter().map(|(key, value)| (key, value.0)).collect())
}

/// Opens the store of a target with its credentials and with the encryption keys of its objects.
pub(crate) async fn open(
    base: &Base,
    folder: Option<&std::path::Path>,
    namespace: &str,
    target: &Target,
    encryption: Option<&Encryption>,
) -> Result<Store, String> {
    target.check_identity(base.ambient_credentials)?;
    let data: Option<SecretData> = match &target.secret {
        Some(name) => Some(secret_data(base, namespace, name).await?),
        None => None,
    };
    // One directory per namespace: a path written by its users never leads into another one's.
    let folder = folder.map(|folder| folder.join(namespace));
    let store = Store::open(target, data.as_ref(), folder.as_deref())?;
    let Some(encryption) = encryption else { return Ok(store) };
    let data = secret_data(base, namespace, &encryption.secret).await;
    let data = data.map_err(|why| format!("spec.encryption: {why}"))?;
    let keys = Keys::read(&encryption.secret, encryption.key.as_deref(), &data);
    Ok(store.with_keys(keys.map_err(|fault| format!("spec.encryption: {fault}"))?))
}

/// Endpoints of the members of an EtcdCluster, and the access that they accept.
pub(crate) async fn members(
    base: &Base,
    namespace: &str,
    name: &str,
) -> Result<(crate::etcd::Etcd, BTreeSet<String>), String> {
    let api: Api<EtcdCluster> = Api::namespaced(base.client.clone(), namespace);
    let cluster = api
        .get_opt(name)
        .await
        .map_err(|error| format!("failed to read EtcdCluster {name}: {}", why(&error)))?;
    let cluster =
        cluster.ok_or_else(|| format!("EtcdCluster {name} does not exist in namespace {namespace}"))?;
    let valid = validate::validate(&cluster).map_err(|error| format!("EtcdCluster {name}: {error}"))?;
    let secured = base
        .tls
        .secure(&base.client, &valid)
        .await
        .map_err(|error| format!("EtcdCluster {name}: {error}"))?;
    let etcd = base.etcd.with(secured.access.clone());
    let environment = observe::Environment::default();
    let observed = observe::observe(&base.client, &etcd, &*base.addressing, &valid, &environment).await;
    let observed = observed.map_err(|error| error.to_string())?;
    let running = observed.pods.iter().filter(|pod| !pod.deleting && !pod.ended);
    let endpoints: BTreeSet<String> = running.filter_map(|pod| base.addressing.endpoint(pod)).collect();
    if endpoints.is_empty() {
        return Err(format!("EtcdCluster {name} has no running pod"));
    }
    Ok((etcd, endpoints))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_whose_turn_comes_while_the_lease_is_late_has_it_a_little_later() {
        let object: EtcdBackup = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "namespace": "shop", "uid": "u" },
            "spec": { "clusterName": "orders", "storageType": "Local", "local": { "path": "a/b" } },
        }))
        .unwrap();
        let base = Arc::new(crate::controller::tests::context("late"));
        let context = Context { base, folder: None, shutdown: CancellationToken::new() };
        let turn = reconcile(Arc::new(DeserializeGuard(Ok(object))), Arc::new(context)).await;
        assert_eq!(turn.unwrap(), Requeue::requeue(UNLED));
    }

    #[tokio::test]
    async fn t19_no_store_is_opened_with_the_operators_identity_unless_allowed() {
        let stores = serde_json::from_value(serde_json::json!({ "s3": { "path": "bucket/key" } })).unwrap();
        let target = Target::read("storageType", "S3", &stores).unwrap();
        let base = crate::controller::tests::context("ambient");
        let refused = open(&base, None, "shop", &target, None).await.err().unwrap_or_default();
        assert!(refused.contains("spec.s3.awsSecret"), "{refused}");
        let base = base.with_ambient_credentials(true);
        assert!(open(&base, None, "shop", &target, None).await.is_ok());
    }
}
