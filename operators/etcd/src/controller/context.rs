//! The context of the controller: clients and settings, and the state of each cluster between reconciliations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::runtime::events::Reporter;
use kube::{Client, ResourceExt};
use olm_client::events::Recorder;
use olm_client::lease::Elector;

use super::pace;
use crate::addressing::Addressing;
use crate::disruption;
use crate::etcd::Etcd;
use crate::metrics::Metrics;
use crate::names;
use crate::observe::{self, Classes, Environment};
use crate::observed::Memory;
use crate::plan::Compared;
use crate::tls;
use crate::validate::{Validated, Volumes};

/// Interval of listing StorageClasses.
const CLASS_KNOWN: Duration = Duration::from_secs(60);

/// Which clusters this operator manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Namespaces(Vec<String>),
    All,
    /// All with annotation `etcd.database.coreos.com/scope: clusterwide`; operators of single namespaces
    /// manage the others.
    Annotated,
}

impl Scope {
    pub(crate) fn includes(&self, object: &impl ResourceExt) -> bool {
        let clusterwide =
            object.annotations().get(names::ANNOTATION_SCOPE).is_some_and(|s| s == "clusterwide");
        match self {
            Self::Namespaces(_) => !clusterwide,
            Self::All => true,
            Self::Annotated => clusterwide,
        }
    }

    pub(crate) fn namespaces(&self) -> Vec<Option<String>> {
        match self {
            Self::Namespaces(list) => list.iter().cloned().map(Some).collect(),
            Self::All | Self::Annotated => vec![None],
        }
    }
}

/// Current time for decisions, replaceable in tests.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The state of a cluster between reconciliations; dropped with the cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    pub(super) uid: String,
    /// Consecutive failed reconciliations.
    pub(super) failures: u32,
    /// Consecutive reconciliations without an action and without a change.
    pub(super) unchanged: u32,
    /// Result of the last comparison of the members' data.
    pub(super) compared: Option<Compared>,
}

/// Shared by all reconciliations.
pub struct Context {
    pub client: Client,
    pub addressing: Arc<dyn Addressing>,
    /// Checked before every write.
    pub elector: Elector,
    pub metrics: Arc<Metrics>,
    pub scope: Scope,
    pub etcd: Etcd,
    /// Credentials of clusters with TLS.
    pub tls: Arc<tls::SecretCache>,
    pub budgets: disruption::Budgets,
    pub recorder: Recorder,
    /// Backup state of clusters.
    pub backups: Arc<crate::backup::BackupViews>,
    /// Whether stores without a Secret use the operator's own cloud identity.
    pub(crate) ambient_credentials: bool,
    clock: Clock,
    /// By namespace and name of a cluster.
    states: Mutex<HashMap<String, ClusterState>>,
    /// The StorageClasses, and when they were listed.
    classes: tokio::sync::Mutex<Option<(Instant, Option<Classes>)>>,
}

impl Context {
    #[must_use]
    pub fn new(
        client: Client,
        addressing: Arc<dyn Addressing>,
        elector: Elector,
        metrics: Arc<Metrics>,
        scope: Scope,
        instance: Option<String>,
    ) -> Self {
        let recorder =
            Recorder::new(client.clone(), Reporter { controller: names::MANAGER.into(), instance });
        Self {
            client,
            addressing,
            elector,
            metrics,
            scope,
            etcd: Etcd::default(),
            tls: Arc::default(),
            budgets: disruption::Budgets::default(),
            recorder,
            backups: Arc::default(),
            ambient_credentials: false,
            clock: Arc::new(Timestamp::now),
            states: Mutex::default(),
            classes: tokio::sync::Mutex::default(),
        }
    }

    /// A context for a controller behind another lease, with the same connections, Secrets and metrics.
    #[must_use]
    pub fn with_elector(&self, elector: Elector) -> Self {
        let (client, addressing) = (self.client.clone(), self.addressing.clone());
        Self {
            etcd: self.etcd.clone(),
            tls: self.tls.clone(),
            recorder: self.recorder.clone(),
            backups: self.backups.clone(),
            ambient_credentials: self.ambient_credentials,
            clock: self.clock.clone(),
            ..Self::new(client, addressing, elector, self.metrics.clone(), self.scope.clone(), None)
        }
    }

    /// Allows the operator's own cloud identity for stores without a Secret.
    #[must_use]
    pub fn with_ambient_credentials(mut self, allowed: bool) -> Self {
        self.ambient_credentials = allowed;
        self
    }

    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(super) fn keep<T>(&self, key: &str, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        // The map is consistent after every change, also when a holder of the lock panicked.
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        change(states.entry(key.to_owned()).or_default())
    }

    /// Drops the state of a deleted cluster; the garbage collector deletes its pods and Services, which have
    /// owners.
    pub(super) fn forget(&self, key: &str) {
        self.metrics.gone(key);
        let state = self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if let Some(ClusterState { uid, .. }) = state {
            self.tls.forget(&uid);
            self.budgets.forget(&uid);
        }
    }

    /// Inputs of an observation besides the members.
    pub(crate) async fn environment(&self, cluster: &Validated) -> Environment {
        let needs_classes = cluster.storage.when != Volumes::Never;
        let backup = self.backups.view(&cluster.namespace, &cluster.name, self.now());
        Environment {
            now: self.now(),
            classes: if needs_classes { self.classes().await } else { None },
            backups_unknown: backup.is_err(),
            backup: backup.ok().flatten(),
        }
    }

    /// Delay until the next reconciliation. `new`: this one observed or made a change; `again`: delay
    /// requested by the plan.
    pub(super) fn pace(&self, key: &str, new: bool, again: Option<Duration>) -> Duration {
        let unchanged = self.keep(key, |state| {
            state.unchanged = if new { 0 } else { state.unchanged.saturating_add(1) };
            state.unchanged
        });
        pace::next(unchanged, again)
    }

    pub(crate) async fn classes(&self) -> Option<Classes> {
        let mut known = self.classes.lock().await;
        match &*known {
            Some((at, found)) if at.elapsed() < CLASS_KNOWN => found.clone(),
            _ => {
                let found = observe::classes(&self.client).await;
                *known = Some((Instant::now(), found.clone()));
                found
            }
        }
    }

    /// Result of the last comparison of the members' data.
    pub(super) fn compared(&self, key: &str, memory: &Memory) -> Compared {
        let now = self.now();
        self.keep(key, |state| {
            let compared = Compared::of(state.compared.take(), memory, now, rand::random());
            state.compared.insert(compared).clone()
        })
    }
}
