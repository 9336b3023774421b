//! A cluster, a manager and the layer between them, for one scenario.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use olm_api::names;
use olm_devcluster::{
    api::Identity,
    controllers::{self, ControllerConfig},
};
use olm_manager::Options;
use olm_ops::manifests::{self, ManifestOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    catalog::Catalog, faults::Faults, kubelet::Kubelet, manager::Manager, operator::Operator, served::Served,
    server::Server, snapshot::Snapshot, waiting::text,
};

pub const OLM: &str = olm_engine::site::NAMESPACE;
pub const MANAGER: &str = olm_engine::site::MANAGER;
const NODE: &str = "olm-node";

/// The kinds that scenarios name, with group, version and plural.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("CatalogSource", "operators.coreos.com", "v1alpha1", "catalogsources"),
    ("Subscription", "operators.coreos.com", "v1alpha1", "subscriptions"),
    ("InstallPlan", "operators.coreos.com", "v1alpha1", "installplans"),
    ("ClusterServiceVersion", "operators.coreos.com", "v1alpha1", "clusterserviceversions"),
    ("OperatorGroup", "operators.coreos.com", "v1", "operatorgroups"),
    ("OperatorCondition", "operators.coreos.com", "v2", "operatorconditions"),
    ("Operator", "operators.coreos.com", "v1", "operators"),
    ("OLMConfig", "operators.coreos.com", "v1", "olmconfigs"),
    ("InstallPolicy", "operators.coreos.com", "v1alpha1", "installpolicies"),
    ("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    ("APIService", "apiregistration.k8s.io", "v1", "apiservices"),
    ("Deployment", "apps", "v1", "deployments"),
    ("MyApp", "example.com", "v1alpha1", "myapps"),
    ("Namespace", "", "v1", "namespaces"),
    ("ServiceAccount", "", "v1", "serviceaccounts"),
    ("Service", "", "v1", "services"),
    ("ConfigMap", "", "v1", "configmaps"),
    ("Secret", "", "v1", "secrets"),
    ("Pod", "", "v1", "pods"),
    ("Node", "", "v1", "nodes"),
    ("Event", "events.k8s.io", "v1", "events"),
    ("Role", "rbac.authorization.k8s.io", "v1", "roles"),
    ("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
    ("ClusterRole", "rbac.authorization.k8s.io", "v1", "clusterroles"),
    ("ClusterRoleBinding", "rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    ("Lease", "coordination.k8s.io", "v1", "leases"),
    ("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses"),
    ("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies"),
    (
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
    ),
    ("MutatingWebhookConfiguration", "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"),
    ("MutatingAdmissionPolicy", "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies"),
    (
        "MutatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io",
        "v1",
        "mutatingadmissionpolicybindings",
    ),
];

/// A cluster and the managers in it.
pub struct World {
    /// The administrator's.
    pub client: Client,
    /// API calls of the managers, and injected faults.
    pub faults: Faults,
    /// Simulated node.
    pub kubelet: Kubelet,
    server: Server,
    stop: CancellationToken,
    folder: TempDir,
    pub(super) written: AtomicUsize,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        self.server.shutdown();
    }
}

impl World {
    /// A cluster with olm's manifests, without a manager.
    /// # Errors
    /// Why it did not start.
    pub async fn bare() -> Result<Self> {
        let server = Server::start().await?;
        let stop = CancellationToken::new();
        let config = ControllerConfig {
            root_ca_pem: server.ca_pem().to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            node_name: NODE.to_owned(),
            volumes_dir: None,
        };
        if !server.has_controllers() {
            let identity = Identity::system("system:kube-controller-manager");
            controllers::spawn(server.client(identity)?, config, stop.child_token());
        }
        let client = server.client(Identity::admin())?;
        let kubelet = Kubelet::start(client.clone(), NODE, stop.child_token());
        let folder = tempfile::tempdir()?;
        let faults = Faults::new();
        let world = Self { client, faults, kubelet, server, stop, folder, written: AtomicUsize::new(0) };
        world.apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } })).await?;
        let room = json!({ "cpu": "100", "memory": "100Gi", "pods": "1000" });
        let ready = json!({ "status": { "capacity": room, "allocatable": room,
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        world.patch_status("Node", "", NODE, &ready).await?;
        // A real API server taints new nodes until a controller reports them ready; this one is.
        world.patch("Node", "", NODE, &json!({ "spec": { "taints": null } })).await?;
        // The manager's Deployment is not needed: it runs in this process.
        let options =
            ManifestOptions { console_image: None, shipped_catalog: false, ..ManifestOptions::default() };
        let objects = manifests::for_server(&world.client, manifests::manifests(&options)).await?;
        let objects: Vec<Value> = objects.into_iter().filter(|o| o["kind"] != "Deployment").collect();
        manifests::apply(&world.client, &objects).await.context("olm's own manifests")?;
        if world.server.has_controllers() {
            world.until_approvals_are_recorded().await?;
        }
        Ok(world)
    }

    /// A real API server applies a new admission policy a moment after its creation. One without policies is
    /// not waited for.
    async fn until_approvals_are_recorded(&self) -> Result<()> {
        let plan = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": { "name": "probe", "namespace": "default" },
            "spec": { "approval": "Automatic", "approved": true, "clusterServiceVersionNames": [] } });
        let (api, plan) = (self.api("InstallPlan", "default")?, serde_json::from_value(plan)?);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        for _ in 0..100 {
            let made = api.create(&dry, &plan).await;
            if made.is_ok_and(|made| made.annotations().contains_key(names::ANNOTATION_APPROVED_BY)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// A Service with the manager's address as endpoint: here the manager is not a pod, and listens at an
    /// address of this machine.
    /// # Errors
    /// The API's rejection.
    pub async fn route(&self, service: &Value, address: SocketAddr) -> Result<()> {
        let (mut service, port) = (service.clone(), &service["spec"]["ports"][0]["name"]);
        let name = text(&service, "/metadata/name").to_owned();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": format!("{name}-here"), "namespace": text(&service, "/metadata/namespace"),
                "labels": { "kubernetes.io/service-name": name } },
            "addressType": "IPv4", "ports": [{ "name": port, "port": address.port(), "protocol": "TCP" }],
            "endpoints": [{ "addresses": [address.ip().to_string()], "conditions": { "ready": true } }],
        });
        if let Some(spec) = service["spec"].as_object_mut() {
            spec.remove("selector");
        }
        self.apply(&service).await?;
        self.apply(&slice).await.map(drop)
    }

    /// A cluster with a manager.
    /// # Errors
    /// Why it did not start.
    pub async fn start() -> Result<(Self, Manager)> {
        let world = Self::bare().await?;
        let manager = world.manager("manager-0")?;
        Ok((world, manager))
    }

    /// Options of a manager; without the lease, which has its own scenario.
    #[must_use]
    pub fn options(&self, identity: &str) -> Options {
        Options {
            listen: None,
            leader_election: false,
            cache_dir: Some(self.folder.path().join("cache")),
            ..Options::new(identity)
        }
    }

    /// Starts a manager with the permissions of its manifests.
    /// # Errors
    /// When the machine has no resources for it.
    pub fn manager(&self, identity: &str) -> Result<Manager> {
        self.manager_with(self.options(identity))
    }

    /// The same with other options.
    /// # Errors
    /// When the machine has no resources for it.
    pub fn manager_with(&self, options: Options) -> Result<Manager> {
        self.manager_behind(&self.faults, options)
    }

    /// The same with other faults, to record its calls separately.
    /// # Errors
    /// When the machine has no resources for it.
    pub fn manager_behind(&self, faults: &Faults, options: Options) -> Result<Manager> {
        Manager::start(self.client_of_manager(), faults, options)
    }

    /// Starts another program with the rights of an identity: `run` is called again when it ends with an error.
    /// # Errors
    /// When the machine has no resources for it.
    pub fn program<F, Fut>(&self, identity: Identity, run: F) -> Result<Manager>
    where
        F: Fn(Client, CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<()>> + Send,
    {
        Manager::start_program(self.client_of(identity), &self.faults, run)
    }

    /// A client of the manager's account, which alone may write certain fields of an InstallPlan.
    #[must_use]
    pub fn client_of_manager(&self) -> Client {
        self.client_of(Identity::service_account(OLM, MANAGER))
    }

    /// Serves the API at a port, for manager processes; their calls go through `faults`.
    /// # Errors
    /// When no port is available.
    pub fn serve(&self, faults: &Faults) -> Result<Served> {
        let identity = Identity::service_account(OLM, MANAGER);
        Served::start(self.server.door(), self.server.client(identity)?, faults, self.folder.path())
    }

    /// As [`Self::serve`], for a program with all rights.
    /// # Errors
    /// When no port is available.
    pub fn serve_as_admin(&self, faults: &Faults) -> Result<Served> {
        Served::start(self.server.door(), self.server.client(Identity::admin())?, faults, self.folder.path())
    }

    /// Serves the API at a port for a user's programs, with the manager at this address as endpoint of its
    /// Service.
    /// # Errors
    /// When no port is available.
    pub fn serve_to(&self, identity: Identity, manager: std::net::SocketAddr) -> Result<Served> {
        let client = self.server.client(identity)?;
        let folder = self.folder.path();
        Served::start_beside(self.server.door(), client, &Faults::new(), folder, Some(manager))
    }

    /// Stops the cluster's controllers and the kubelet. The API keeps running.
    pub fn freeze(&self) {
        self.stop.cancel();
        self.server.freeze();
    }

    #[must_use]
    pub fn client_of(&self, identity: Identity) -> Client {
        self.server.client(identity).expect("the address and the token are well formed")
    }

    /// A token of a ServiceAccount in the manager's namespace with a ClusterRole.
    /// # Errors
    /// The API's rejection.
    pub async fn token(&self, account: &str, role: &str) -> Result<String> {
        let of = json!({ "name": account, "namespace": OLM });
        self.apply(&json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": of })).await?;
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": account },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": OLM }],
        }))
        .await?;
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), OLM);
        let request = TokenRequest::default();
        let issued = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        issued.status.and_then(|status| status.token).context("the API server issued no token")
    }

    /// The scenario's own directory.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    // ---- objects ------------------------------------------------------------------------------------------------

    /// The API of a kind in [`KINDS`]; `namespace` is empty for all of them and for cluster-scoped kinds.
    fn api(&self, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        Self::api_as(&self.client, kind, namespace)
    }

    /// The same with the rights of another client.
    pub(super) fn api_as(client: &Client, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let found = KINDS.iter().find(|known| known.0 == kind);
        let (_, group, version, plural) =
            found.with_context(|| format!("kind {kind} is not in the table"))?;
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Ok(api_of(client, &resource, namespace))
    }

    /// Server-side apply by the administrator; unnamed fields stay.
    /// # Errors
    /// The API's rejection.
    pub async fn apply(&self, object: &Value) -> Result<Value> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let known = KINDS.iter().find(|known| known.0 == kind && known.1 == group);
        let resource = match known {
            Some((_, _, _, plural)) => ApiResource::from_gvk_with_plural(&gvk, plural),
            None => ApiResource::from_gvk(&gvk),
        };
        let api = api_of(&self.client, &resource, text("/metadata/namespace"));
        let params = PatchParams::apply("kubectl").force();
        let applied = api.patch(name, &params, &Patch::Apply(object)).await;
        let applied = applied.with_context(|| format!("failed to apply {kind} {name}"))?;
        Ok(serde_json::to_value(applied)?)
    }

    /// Creates an object, like `kubectl create`.
    /// # Errors
    /// The API's rejection.
    pub async fn create(&self, object: &Value) -> Result<Value> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let api = self.api(text("/kind"), text("/metadata/namespace"))?;
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        Ok(serde_json::to_value(api.create(&PostParams::default(), &object).await?)?)
    }

    /// An object; `None` when there is none.
    /// # Errors
    /// The API's rejection.
    pub async fn find(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let found = self.api(kind, namespace)?.get_opt(name).await?;
        found.map(|object| serde_json::to_value(object).map_err(Into::into)).transpose()
    }

    /// An existing object.
    /// # Errors
    /// When it is missing.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Value> {
        let found = self.find(kind, namespace, name).await?;
        found.with_context(|| format!("there is no {kind} {namespace}/{name}"))
    }

    /// All objects of a kind, in a namespace or everywhere (`""`).
    /// # Errors
    /// The API's rejection.
    pub async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>> {
        let list = self.api(kind, namespace)?.list(&ListParams::default()).await?;
        list.items.into_iter().map(|object| serde_json::to_value(object).map_err(Into::into)).collect()
    }

    /// Their names.
    /// # Errors
    /// The API's rejection.
    pub async fn names(&self, kind: &str, namespace: &str) -> Result<Vec<String>> {
        let objects = self.list(kind, namespace).await?;
        Ok(objects.iter().map(|o| text(o, "/metadata/name").to_owned()).collect())
    }

    /// A merge patch by the administrator.
    /// # Errors
    /// The API's rejection.
    pub async fn patch(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> Result<Value> {
        let api = self.api(kind, namespace)?;
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(serde_json::to_value(
            patched.with_context(|| format!("failed to patch {kind} {namespace}/{name}"))?,
        )?)
    }

    /// The same for the status.
    /// # Errors
    /// The API's rejection.
    pub async fn patch_status(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value> {
        let api = self.api(kind, namespace)?;
        let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(serde_json::to_value(
            patched.with_context(|| format!("failed to patch {kind} {namespace}/{name}"))?,
        )?)
    }

    /// A change without content that triggers watches.
    /// # Errors
    /// The API's rejection.
    pub async fn touch(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let patch = json!({ "metadata": { "annotations": { "tests/touched": number.to_string() } } });
        self.patch(kind, namespace, name, &patch).await.map(drop)
    }

    /// Deletes an object; a missing one is fine.
    /// # Errors
    /// The API's rejection.
    pub async fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<()> {
        match self.api(kind, namespace)?.delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Every object.
    /// # Errors
    /// When a list fails.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::read(&self.client).await
    }

    // ---- actions of users
    // ----------------------------------------------------------------------------------------

    /// Creates a namespace.
    /// # Errors
    /// The API's rejection.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        self.apply(&namespace).await.map(drop)
    }

    /// An OperatorGroup named `own`; without targets it is for all namespaces.
    /// # Errors
    /// The API's rejection.
    pub async fn group(&self, namespace: &str, targets: &[&str]) -> Result<()> {
        let mut group = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": "own", "namespace": namespace }, "spec": {} });
        if !targets.is_empty() {
            group["spec"]["targetNamespaces"] = json!(targets);
        }
        self.apply(&group).await.map(drop)
    }

    /// A namespace with an OperatorGroup for itself.
    /// # Errors
    /// The API's rejection.
    pub async fn home(&self, namespace: &str) -> Result<()> {
        self.namespace(namespace).await?;
        self.group(namespace, &[namespace]).await
    }

    /// Publishes a global catalog, again or for the first time. The directory differs each time, so that no
    /// poll is waited for.
    /// # Errors
    /// When writing fails.
    pub async fn publish(&self, name: &str, catalog: &Catalog) -> Result<()> {
        self.publish_with(name, catalog, |_| {}).await
    }

    /// The same with other settings.
    /// # Errors
    /// When writing fails.
    pub async fn publish_with(
        &self,
        name: &str,
        catalog: &Catalog,
        change: impl FnOnce(&mut Value),
    ) -> Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(format!("{name}-{number}"));
        catalog.write(&folder)?;
        let mut source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": name, "namespace": OLM },
            "spec": { "sourceType": "directory", "directory": folder },
        });
        change(&mut source);
        self.apply(&source).await.map(drop)
    }

    /// Publishes a namespace's own catalog, and waits until it is served: in a ConfigMap, because only global
    /// catalogs may be read from a disk. Each operator is its own package.
    /// # Errors
    /// When writing fails, or it is not served in time.
    pub async fn publish_in(&self, namespace: &str, name: &str, operators: &[&Operator]) -> Result<()> {
        let of = |kind: fn(&Operator) -> Vec<Value>| {
            serde_json::Value::from(operators.iter().flat_map(|one| kind(one)).collect::<Vec<_>>())
                .to_string()
        };
        let csv = |one: &Operator| {
            let mut csv = one.manifest("");
            csv["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
            vec![csv]
        };
        let package = |one: &Operator| {
            let channel = json!({ "name": "stable", "currentCSV": one.name });
            vec![json!({ "packageName": one.package, "defaultChannel": "stable", "channels": [channel] })]
        };
        let crds = |one: &Operator| {
            one.objects().iter().filter(|o| o["kind"] == "CustomResourceDefinition").cloned().collect()
        };
        self.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace },
            "data": { "packages": of(package), "clusterServiceVersions": of(csv), "customResourceDefinitions": of(crds) },
        }))
        .await?;
        self.apply(&json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "sourceType": "configmap", "configMap": name },
        }))
        .await?;
        let serves = |source: &Value| text(source, "/status/connectionState/lastObservedState") == "READY";
        self.until("CatalogSource", namespace, name, serves).await.map(drop)
    }

    /// A Subscription to a package of catalog `catalog`, under the package's name.
    #[must_use]
    pub fn subscription(namespace: &str, package: &str) -> Value {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": { "name": package, "namespace": namespace },
            "spec": { "name": package, "channel": "stable", "source": "catalog", "sourceNamespace": OLM },
        })
    }

    /// Subscribes.
    /// # Errors
    /// The API's rejection.
    pub async fn subscribe(&self, namespace: &str, package: &str) -> Result<()> {
        self.subscribe_with(namespace, package, |_| {}).await
    }

    /// The same with a change of `spec`.
    /// # Errors
    /// The API's rejection.
    pub async fn subscribe_with(
        &self,
        namespace: &str,
        package: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<()> {
        let mut subscription = Self::subscription(namespace, package);
        change(&mut subscription["spec"]);
        self.apply(&subscription).await.map(drop)
    }

    /// Approves a plan as OLM's users do with kubectl.
    /// # Errors
    /// The API's rejection.
    pub async fn approve(&self, namespace: &str, plan: &str) -> Result<()> {
        self.patch("InstallPlan", namespace, plan, &json!({ "spec": { "approved": true } })).await.map(drop)
    }
}

fn api_of(client: &Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    if namespace.is_empty() {
        Api::all_with(client.clone(), resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, resource)
    }
}
