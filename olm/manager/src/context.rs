//! The shared context of all controllers, and their reconcile loop.

use std::{fmt::Debug, sync::Arc, time::Instant};

use futures::Future;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        events::{Event, EventType, Reporter},
        reflector::ObjectRef,
    },
};
use olm_api::OperatorGroup;
use olm_catalog::Catalog;
use olm_client::{events::Recorder, lease::Fence};
use olm_engine::{
    ChangeCache, Refusal,
    accounts::{self, AccountError},
    catalogs::{BundleImages, CacheDir, CacheDirError, LoadedCatalogs, Refresh, Registries, SignatureCache},
    limits::{NOTE, truncate},
    resources::{ResourceError, Resources, short},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    adoption::Standby,
    authority::Authorities,
    backoff::Backoff,
    cache::ClusterCache,
    controllers::{catalog_source::Jobs, csv},
    fenced_client::fenced,
    health::Health,
    metrics::Metrics,
    reviews::Reviews,
    run::Options,
    runner::{Action, Controller},
};

/// Concurrent reconciliations per kind.
const CONCURRENCY: usize = 8;
/// How long controllers that could start wait for the others.
const TOGETHER: std::time::Duration = std::time::Duration::from_secs(10);
/// Divisor of the back-off after a conflict.
const CONFLICT: u32 = 20;
/// Watches report every change; this covers missed ones.
pub(crate) const SAFETY_NET: std::time::Duration = std::time::Duration::from_secs(600);

/// The shared context of all controllers.
#[derive(Clone)]
pub(crate) struct Ctx {
    pub(crate) client: Client,
    pub(crate) resources: Resources,
    pub(crate) reviews: Arc<Reviews>,
    pub(crate) recorder: Recorder,
    pub(crate) authorities: Arc<Authorities>,
    pub(crate) catalogs: Arc<LoadedCatalogs>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) images: Arc<BundleImages>,
    pub(crate) signatures: Arc<SignatureCache>,
    pub(crate) refresh: Arc<Refresh>,
    pub(crate) registries: Registries,
    /// The catalog that is built in, with the images of this installation.
    pub(crate) shipped: Arc<Catalog>,
    pub(crate) backoff: Arc<Backoff>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) cache: Arc<ClusterCache>,
    pub(crate) change_cache: Arc<ChangeCache>,
    /// The parts and requirements of ClusterServiceVersions.
    pub(crate) parts: Arc<csv::Parts>,
    pub(crate) health: Arc<Health>,
    pub(crate) fence: Arc<Fence>,
    pub(crate) standby: Arc<Standby>,
    /// The manager's namespace: catalogs in it are visible from every namespace.
    pub(crate) namespace: String,
}

/// A reconciliation failed; it is retried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to {what}: {}", short(.source))]
    Kube { what: String, source: Box<kube::Error> },
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Account(Box<AccountError>),
    #[error("failed to read the bundle {name}: {text}")]
    Bundle { name: String, text: String },
    /// The object was written, and does not become ready.
    #[error("{object} {text}")]
    NotReady { object: String, text: String },
    /// The authority lacks the rights.
    #[error("{0}")]
    NotPermitted(String),
    #[error("failed to serve the webhook or the aggregated API: {0}")]
    Secure(String),
}

impl Error {
    pub(crate) fn kube(what: impl std::fmt::Display) -> impl FnOnce(kube::Error) -> Self {
        let what = what.to_string();
        move |source| Self::Kube { what, source: Box::new(source) }
    }

    /// A concurrent write won; the next reconciliation reads its result.
    fn is_conflict(&self) -> bool {
        let source = match self {
            Self::Kube { source, .. } | Self::Resource(ResourceError::Api { source, .. }) => source,
            _ => return false,
        };
        matches!(&**source, kube::Error::Api(status) if status.is_conflict() || status.is_not_found())
    }
}

impl From<AccountError> for Error {
    fn from(error: AccountError) -> Self {
        Self::Account(Box::new(error))
    }
}

impl Ctx {
    /// Access with the permissions for plans of the group's namespace: the manager's own, or those of the
    /// ServiceAccount that the group names.
    pub(crate) async fn resources_for(
        &self,
        group: Option<&OperatorGroup>,
    ) -> Result<Resources, AccountError> {
        match accounts::account(group, &self.client).await? {
            None => Ok(self.resources.clone()),
            Some(user) => Ok(self.resources.acting_with(accounts::acting_as(self.client.clone(), user))),
        }
    }

    pub(crate) fn new(client: Client, options: &Options) -> Result<Self, CacheDirError> {
        let Options { namespace, identity, .. } = options;
        let cache_dir = Arc::new(CacheDir::open(options.cache_dir.as_deref())?);
        let (refresh, metrics) = (Arc::<Refresh>::default(), Arc::<Metrics>::default());
        let fence = Arc::<Fence>::default();
        let client = fenced(client, Arc::clone(&fence), Arc::clone(&metrics));
        let reporter = Reporter { controller: "olm-manager".into(), instance: Some(identity.to_owned()) };
        Ok(Self {
            resources: Resources::new(client.clone()),
            reviews: Arc::new(Reviews::new(client.clone())),
            recorder: Recorder::new(client.clone(), reporter),
            authorities: Arc::new(Authorities::new(client.clone())),
            client,
            catalogs: Arc::default(),
            images: BundleImages::new(cache_dir.bundles()),
            signatures: Arc::default(),
            jobs: Arc::new(Jobs::new(cache_dir, Arc::clone(&refresh), Arc::clone(&metrics))),
            refresh,
            registries: options.registries.clone(),
            shipped: olm_catalog::relocated(&options.relocation),
            backoff: Arc::default(),
            metrics,
            cache: Arc::default(),
            change_cache: Arc::default(),
            parts: Arc::default(),
            health: Arc::default(),
            fence,
            standby: Arc::default(),
            namespace: namespace.clone(),
        })
    }

    /// Whether this replica may write. Followers load catalogs, to be ready, and do not report them.
    pub(crate) fn leads(&self) -> bool {
        // While another OLM runs, no replica writes.
        self.fence.leads() && self.standby.reason().is_none()
    }

    /// Records an event. Best effort: a lost event must not stop the reconciliation.
    pub(crate) async fn event<K>(&self, object: &K, warning: bool, reason: &str, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        if !self.leads() {
            return;
        }
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(truncate(note, NOTE)),
            action: "Reconcile".into(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &object.object_ref(&())).await {
            tracing::debug!(reason, error = short(&error), "failed to record an event");
        }
    }

    /// Returns when the cluster has been read once. A decision about a namespace reads all of it, and the
    /// controllers share opened namespaces: they start together, so those that need no parts of versions wait
    /// for them too, at most [`TOGETHER`].
    pub(crate) async fn synced(&self) {
        self.cache.synced().await;
        let _ = tokio::time::timeout(TOGETHER, self.parts.synced()).await;
    }

    /// Writes a changed status; an unchanged one is not written, since a write would wake every watcher.
    ///
    /// The merge patch names removed fields as null.
    pub(crate) async fn write_status<K, S>(&self, object: &K, old: Option<&S>, new: &S) -> Result<bool, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + 'static,
        S: Serialize + PartialEq,
    {
        self.write_status_at(object, old, new, None).await
    }

    /// As [`Self::write_status`], conditional on a version of the object, if there is one.
    pub(crate) async fn write_status_at<K, S>(
        &self,
        object: &K,
        old: Option<&S>,
        new: &S,
        version: Option<String>,
    ) -> Result<bool, Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + 'static,
        S: Serialize + PartialEq,
    {
        if old == Some(new) || !self.leads() {
            return Ok(false);
        }
        let name = object.name_any();
        let api = Api::<K>::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let old = old.map(|s| serde_json::to_value(s).unwrap_or_default()).unwrap_or_default();
        let new = serde_json::to_value(new).unwrap_or_default();
        let mut patch = serde_json::json!({ "status": merge_patch(&old, &new) });
        if let Some(version) = version {
            patch["metadata"] = serde_json::json!({ "resourceVersion": version });
        }
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::kube(format!("write the status of {} {name}", K::kind(&()))))?;
        self.cache.store_written(written);
        Ok(true)
    }
}

/// The merge patch from `old` to `new`, one level of objects at a time.
fn merge_patch(old: &serde_json::Value, new: &serde_json::Value) -> serde_json::Value {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return new.clone() };
    let mut patch = serde_json::Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(key.clone(), merge_patch(before, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), serde_json::Value::Null);
    }
    patch.into()
}

/// Runs a controller until shutdown. Errors are logged, counted and retried with back-off, without limit.
pub(crate) async fn drive<K, F, Fut>(
    name: &'static str,
    controller: Controller<K>,
    ctx: Arc<Ctx>,
    shutdown: CancellationToken,
    reconcile: F,
) where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
    F: Fn(Arc<K>, Arc<Ctx>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let look = move |object: Arc<K>| {
        let ctx = Arc::clone(&ctx);
        let reference = ObjectRef::from_obj(object.as_ref());
        let reconciled = reconcile(object, Arc::clone(&ctx));
        async move {
            let started = Instant::now();
            let key = format!("{name}/{reference}");
            let _running = ctx.health.begin(key.clone());
            // One id for all log lines of one reconciliation, from all modules.
            let span = tracing::info_span!(
                "reconcile",
                controller = name,
                object = %reference,
                trace_id = format_args!("{:016x}", rand::random::<u64>()),
            );
            let result = reconciled.instrument(span).await;
            let label = if result.is_ok() { "ok" } else { "error" };
            ctx.metrics.reconciled(name, label, started.elapsed());
            tracing::debug!(
                controller = name,
                object = %reference,
                millis = started.elapsed().as_millis() as u64,
                result = label,
                "reconciled"
            );
            match result {
                Ok(action) => {
                    ctx.backoff.succeeded(&key);
                    action
                }
                Err(error) => {
                    let wait = ctx.backoff.failed(&key);
                    // The conflicting change arrives by the watch in a moment.
                    let wait = if error.is_conflict() { wait / CONFLICT } else { wait };
                    if error.is_conflict() {
                        tracing::debug!(controller = name, object = %reference, %error, "retrying");
                    } else {
                        tracing::warn!(controller = name, object = %reference, %error, retry_in = ?wait, "failed");
                    }
                    Action::requeue(wait)
                }
            }
        }
    };
    controller.run(CONCURRENCY, shutdown, look).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_patch_names_what_changed_and_what_is_gone() {
        let old = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "gone": true });
        let new = json!({ "a": 1, "b": { "c": 9, "d": 2 }, "new": [1] });
        assert_eq!(merge_patch(&old, &new), json!({ "b": { "c": 9 }, "new": [1], "gone": null }));
    }
}
