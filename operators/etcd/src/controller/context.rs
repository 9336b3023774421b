//! The context of the controller: clients and settings, and the state of each cluster between reconciliations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::runtime::events::Reporter;
use kube::{Client, ResourceExt};
use olm_client::events::Recorder;

use super::pace;
use crate::addressing::Addressing;
use crate::dereference::{self, Classes, Environment};
use crate::disruption;
use crate::etcd::Etcd;
use crate::lease::Elector;
use crate::metrics::Metrics;
use crate::names;
use crate::observed::Memory;
use crate::plan::Compared;
use crate::tls;
use crate::validate::{Validated, Volumes};

/// StorageClasses are listed this often.
const CLASS_KNOWN: Duration = Duration::from_secs(60);

/// Which clusters are looked after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those in some namespaces.
    Namespaces(Vec<String>),
    /// All of them.
    All,
    /// All that carry the annotation `etcd.database.coreos.com/scope: clusterwide`; the others belong to operators of their namespaces.
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

/// Says what time it is, where decisions depend on it. Tests have clocks of their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The state of a cluster between reconciliations; dropped with the cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    pub(super) uid: String,
    /// Consecutive failed reconciliations.
    pub(super) failures: u32,
    /// How many in a row found nothing to do and nothing new.
    pub(super) quiet: u32,
    /// What the last comparison of the data of its members came to.
    pub(super) compared: Option<Compared>,
}

/// What every look needs.
pub struct Context {
    /// Kubernetes.
    pub client: Client,
    /// Where members are.
    pub addressing: Arc<dyn Addressing>,
    /// The fence.
    pub elector: Elector,
    /// Numbers.
    pub metrics: Arc<Metrics>,
    /// Which clusters.
    pub scope: Scope,
    /// Connections to members.
    pub etcd: Etcd,
    /// How clusters with TLS are entered.
    pub tls: Arc<tls::Keeper>,
    pub budgets: disruption::Budgets,
    /// Who tells events.
    pub recorder: Recorder,
    /// What backups have to say to clusters.
    pub backups: Arc<crate::backup::Board>,
    /// Whether stores without a Secret are opened with the operator's own cloud identity.
    pub(crate) ambient_credentials: bool,
    clock: Clock,
    /// By namespace and name of a cluster.
    states: Mutex<HashMap<String, ClusterState>>,
    /// The StorageClasses, and when they were listed.
    classes: tokio::sync::Mutex<Option<(Instant, Option<Classes>)>>,
}

impl Context {
    /// Everything in one place.
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

    /// The same, for a controller behind another fence: with the same connections, Secrets and numbers.
    #[must_use]
    pub fn behind(&self, elector: Elector) -> Self {
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

    /// The same, with the operator's own cloud identity for stores without a Secret, if an administrator allows it.
    #[must_use]
    pub fn with_ambient_credentials(mut self, allowed: bool) -> Self {
        self.ambient_credentials = allowed;
        self
    }

    /// The same by another clock.
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

    /// A cluster is gone: pods and Services have owners and are taken by the garbage collector, the rest goes here.
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
        let asks = cluster.storage.when != Volumes::Never;
        let backup = self.backups.view(&cluster.namespace, &cluster.name, self.now());
        Environment {
            now: self.now(),
            classes: if asks { self.classes().await } else { None },
            backups_unknown: backup.is_err(),
            backup: backup.ok().flatten(),
        }
    }

    /// When a cluster is looked at again. `new`: this look found or did something; `again`: what the plan asks for.
    pub(super) fn pace(&self, key: &str, new: bool, again: Option<Duration>) -> Duration {
        let looks = self.keep(key, |state| {
            state.quiet = if new { 0 } else { state.quiet.saturating_add(1) };
            state.quiet
        });
        pace::next(looks, again)
    }

    pub(crate) async fn classes(&self) -> Option<Classes> {
        let mut known = self.classes.lock().await;
        match &*known {
            Some((at, found)) if at.elapsed() < CLASS_KNOWN => found.clone(),
            _ => {
                let found = dereference::classes(&self.client).await;
                *known = Some((Instant::now(), found.clone()));
                found
            }
        }
    }

    /// What the last comparison of the data of a cluster's members came to.
    pub(super) fn compared(&self, key: &str, memory: &Memory) -> Compared {
        let now = self.now();
        self.keep(key, |state| {
            let compared = Compared::of(state.compared.take(), memory, now, rand::random());
            state.compared.insert(compared).clone()
        })
    }
}
