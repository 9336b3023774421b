//! The stage.

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use etcd_operator::crd;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use olm_devcluster::{
    api::{ApiServer, Config, Identity},
    controllers::{self, ControllerConfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::{
    audit::Audit,
    clock::ClockOffset,
    entry::Entry,
    facts::Facts,
    handle::Handle,
    kubelet::Kubelet,
    net::{Net, View},
    operator::{Controllers, Needs, Operator},
    s3::S3,
    wire::Wires,
};
use crate::inprocess::Faults;

/// Timeout of a scenario's waits. Far longer than needed: only a failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(50);
const NODE: &str = "olm-node";
const OPERATORS: &str = "operators";
/// Maximum number of concurrent operators.
const SLOTS: u16 = 3;
/// Required space of a memory file system for the data of etcds, which take 128 MB each for their logs.
const ROOM: u64 = 4 << 30;

/// The kinds that scenarios name, with group, version and plural.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("EtcdCluster", "etcd.database.coreos.com", "v1beta2", "etcdclusters"),
    ("EtcdBackup", "etcd.database.coreos.com", "v1beta2", "etcdbackups"),
    ("EtcdRestore", "etcd.database.coreos.com", "v1beta2", "etcdrestores"),
    ("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    ("Namespace", "", "v1", "namespaces"),
    ("Service", "", "v1", "services"),
    ("ServiceAccount", "", "v1", "serviceaccounts"),
    ("Secret", "", "v1", "secrets"),
    ("ConfigMap", "", "v1", "configmaps"),
    ("Pod", "", "v1", "pods"),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    ("Node", "", "v1", "nodes"),
    ("Event", "events.k8s.io", "v1", "events"),
    ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
];

/// Everything for one scenario.
pub struct Stage {
    /// The administrator's.
    pub client: Client,
    /// Calls of the operators to Kubernetes and etcd by slot, and injected faults.
    pub faults: Vec<Faults>,
    /// Simulated node.
    pub kubelet: Kubelet,
    pub net: Arc<Net>,
    /// Connections between members.
    pub wires: Arc<Wires>,
    /// Changes of clusters by operators.
    pub audit: Arc<Audit>,
    /// Access of the test's own clients to members.
    pub entry: Entry,
    /// Clock of the operators.
    pub clock: ClockOffset,
    pub(super) s3: OnceCell<S3>,
    server: ApiServer,
    stop: CancellationToken,
    lives: AtomicUsize,
    controllers: Mutex<Controllers>,
    folder: TempDir,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
        self.kubelet.end();
        self.server.shutdown();
    }
}

/// A memory file system with enough space: etcd syncs to the disk at every write, and the test does not test
/// disks.
fn roomy() -> Option<PathBuf> {
    let path = Path::new("/dev/shm");
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    (stat.blocks_available() * stat.fragment_size() >= ROOM).then(|| path.to_owned())
}

impl Stage {
    /// A Kubernetes cluster with the CRDs of the operator, without an operator.
    /// # Errors
    /// Why it did not start.
    pub async fn start() -> Result<Self> {
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("etcd-stage-");
        let folder = roomy().map_or_else(|| folder.tempdir(), |room| folder.tempdir_in(room))?;
        let server = ApiServer::open(Config::default())?;
        let stop = CancellationToken::new();
        let config = ControllerConfig {
            root_ca_pem: server.ca_pem().to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            node_name: NODE.to_owned(),
            volumes_dir: Some(folder.path().join("volumes")),
        };
        let identity = Identity::system("system:kube-controller-manager");
        controllers::spawn(server.client(identity), config, stop.child_token());
        let client = server.client(Identity::admin());
        let (net, wires) = (Net::claim()?, Arc::new(Wires::default()));
        let faults: Vec<Faults> = (0..SLOTS).map(|_| Faults::new()).collect();
        let by_slot: BTreeMap<u16, Faults> = (0..).zip(faults.iter().cloned()).collect();
        let audit = Audit::new(Arc::clone(&net), Arc::clone(&wires), by_slot);
        let etcds = super::images::Etcds::find();
        let parts = (Arc::clone(&net), Arc::clone(&wires), Arc::clone(&audit));
        let kubelet = Kubelet::start(client.clone(), parts, etcds, folder.path(), NODE, stop.child_token());
        let (lives, s3, controllers) =
            (AtomicUsize::new(0), OnceCell::new(), Mutex::new(Controllers::CLUSTERS));
        let (entry, clock) = (Entry::default(), ClockOffset::default());
        let stage = Self {
            client,
            faults,
            kubelet,
            net,
            wires,
            audit,
            entry,
            clock,
            s3,
            server,
            stop,
            lives,
            controllers,
            folder,
        };
        stage.create_prerequisites().await?;
        Ok(stage)
    }

    async fn create_prerequisites(&self) -> Result<()> {
        self.apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } })).await?;
        let room = json!({ "cpu": "100", "memory": "100Gi", "pods": "1000" });
        let ready = json!({ "status": { "capacity": room, "allocatable": room,
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        let node = self.api("Node", "")?;
        node.patch_status(NODE, &PatchParams::default(), &Patch::Merge(&ready)).await?;
        for crd in [crd::crd(), crd::backup::crd(), crd::restore::crd()] {
            self.apply(&serde_json::to_value(crd)?).await?;
        }
        self.namespace(OPERATORS).await?;
        self.namespace("ns").await?;
        self.eventually("the API of EtcdClusters and their backups", async || {
            for kind in ["EtcdCluster", "EtcdBackup", "EtcdRestore"] {
                self.list(kind, "ns").await?;
            }
            Ok(())
        })
        .await
    }

    /// A namespace for pods.
    /// # Errors
    /// The API's rejection.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        self.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })).await?;
        self.eventually("the namespace's account", async || {
            self.get("ServiceAccount", name, "default").await.map(drop)
        })
        .await
    }

    /// The scenario's own directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets the controllers of operators started from now on. Default: clusters.
    pub fn set_controllers(&self, controllers: Controllers) {
        *self.controllers.lock().unwrap_or_else(PoisonError::into_inner) = controllers;
    }

    /// Starts an operator. A later life in the same slot has the same identity: it takes the lease of the
    /// previous one at once.
    /// # Errors
    /// When the machine has no resources for it.
    pub fn operator(&self) -> Result<Operator> {
        self.operator_in(0)
    }

    /// The same in its own slot: another identity, and separately recorded calls.
    /// # Errors
    /// When the machine has no resources for it.
    pub fn operator_in(&self, slot: u16) -> Result<Operator> {
        let controllers = *self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        self.lives.fetch_add(1, Ordering::Relaxed);
        let faults = self.faults.get(usize::from(slot)).context("there is no such slot")?.clone();
        let operator = Operator::start(Needs {
            client: self.server.client(Identity::admin()),
            faults,
            view: View { net: Arc::clone(&self.net), slot },
            namespace: OPERATORS,
            identity: format!("operator-{slot}"),
            controllers,
            clock: self.clock.clone(),
            folder: self.folder.path().join("backups"),
        })?;
        self.audit.lives(slot, operator.dead.clone());
        Ok(operator)
    }

    /// From now on the test uses the certificate of a Secret in namespace `ns`, and expects members to
    /// present one for the name `server`.
    pub fn enter_through(&self, secret: &str, server: &str) {
        self.entry.set(Api::namespaced(self.client.clone(), "ns"), secret, server);
    }

    /// From now on the test logs in as user root, where authentication is on.
    pub fn enter_as_root(&self, password: &str) {
        self.entry.set_root(password);
    }

    /// Number of lives of operators.
    #[must_use]
    pub fn lives(&self) -> usize {
        self.lives.load(Ordering::Relaxed)
    }

    /// Creates a cluster in namespace `ns`.
    /// # Errors
    /// The API's rejection.
    pub async fn create(&self, name: &str, spec: Value) -> Result<Handle<'_>> {
        self.create_with(name, spec, json!({})).await
    }

    /// The same with more metadata.
    /// # Errors
    /// The API's rejection.
    pub async fn create_with(&self, name: &str, spec: Value, mut metadata: Value) -> Result<Handle<'_>> {
        metadata["name"] = name.into();
        metadata["namespace"] = "ns".into();
        let object = json!({ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": metadata, "spec": spec });
        let object: DynamicObject = serde_json::from_value(object)?;
        self.api("EtcdCluster", "ns")?.create(&PostParams::default(), &object).await?;
        Ok(Handle { stage: self, name: name.to_owned() })
    }

    // ---- objects ----------------------------------------------------------------------------------------------------

    fn api(&self, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let found = KINDS.iter().find(|known| known.0 == kind);
        let (_, group, version, plural) =
            found.with_context(|| format!("kind {kind} is not in the table"))?;
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let scoped = !matches!(kind, "Namespace" | "Node" | "CustomResourceDefinition");
        Ok(if scoped && !namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        })
    }

    /// Server-side apply by the administrator.
    /// # Errors
    /// The API's rejection.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let api = self.api(text("/kind"), text("/metadata/namespace"))?;
        let params = PatchParams::apply("kubectl").force();
        let name = text("/metadata/name");
        api.patch(name, &params, &Patch::Apply(object)).await.with_context(|| format!("apply {name}"))?;
        Ok(())
    }

    /// An existing object.
    /// # Errors
    /// When it is missing.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Value> {
        let found = self.api(kind, namespace)?.get_opt(name).await?;
        let found = found.with_context(|| format!("there is no {kind} {namespace}/{name}"))?;
        Ok(serde_json::to_value(found)?)
    }

    /// All objects of a kind.
    /// # Errors
    /// The API's rejection.
    pub async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>> {
        let list = self.api(kind, namespace)?.list(&ListParams::default()).await?;
        list.items.into_iter().map(|object| serde_json::to_value(object).map_err(Into::into)).collect()
    }

    /// A merge patch by the administrator.
    /// # Errors
    /// The API's rejection.
    pub async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Result<()> {
        self.api(kind, namespace)?.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Deletes an object; a missing one is fine.
    /// # Errors
    /// The API's rejection.
    pub async fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        self.audit.disturb();
        match self.api(kind, namespace)?.delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    // ---- waiting ----------------------------------------------------------------------------------------------------

    /// Polls until `probe` succeeds. The error has its last result.
    /// # Errors
    /// On time-out.
    pub async fn eventually<T, F, Fut>(&self, what: &str, probe: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        self.within(PATIENCE, what, probe).await
    }

    /// The same for what takes longer.
    /// # Errors
    /// On time-out.
    pub async fn within<T, F, Fut>(&self, patience: Duration, what: &str, mut probe: F) -> Result<T>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let start = Instant::now();
        loop {
            match probe().await {
                Ok(found) => return Ok(found),
                Err(error) if start.elapsed() > patience => {
                    bail!("waited for {what}; last: {error:#}\n{}", self.report().await)
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// The complete state, for a failed scenario.
    pub async fn report(&self) -> String {
        let mut out = String::new();
        for cluster in self.list("EtcdCluster", "").await.unwrap_or_default() {
            out.push_str(&format!(
                "  {} spec {} status {}\n",
                cluster["metadata"]["name"], cluster["spec"], cluster["status"]
            ));
        }
        for kind in ["EtcdBackup", "EtcdRestore"] {
            for task in self.list(kind, "").await.unwrap_or_default() {
                out.push_str(&format!("  {kind} {} status {}\n", task["metadata"]["name"], task["status"]));
            }
        }
        for pod in self.list("Pod", "").await.unwrap_or_default() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let status = &pod["status"];
            let container = &status["containerStatuses"][0];
            out.push_str(&format!(
                "  pod {name} {}{} ready {} restarts {} state {}\n    {}\n",
                status["phase"],
                if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { " (ending)" },
                container["ready"],
                container["restartCount"],
                container["state"],
                self.kubelet.log_tail(name, 2).replace('\n', "\n    ")
            ));
        }
        let members = self.net.names().into_iter().map(|name| (name.clone(), self.net.inside(&name)));
        out.push_str(&format!("  etcd: {}\n", Facts::of(&self.entry, members).await.brief()));
        for rpc in self.audit.log().iter().rev().take(12).rev() {
            out.push_str(&format!("  {}\n", rpc.brief()));
        }
        for (slot, faults) in self.faults.iter().enumerate() {
            let calls = faults.calls();
            out.push_str(&format!("  operator {slot}: {} calls, the last:\n", calls.len()));
            let skip = calls.len().saturating_sub(12);
            for call in calls.iter().skip(skip) {
                out.push_str(&format!("    {call}\n"));
            }
        }
        out
    }
}
