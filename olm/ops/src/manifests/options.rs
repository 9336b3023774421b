use std::collections::BTreeMap;

use olm_engine::site::NAMESPACE;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of this program, and of everything that it installs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Prefix of the product's images before they are in a registry.
pub const LOCAL_IMAGES: &str = "localhost/olm/";

/// Options of an installation of `olm`. They are stored on the manager's Deployment, so that an upgrade keeps
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ManifestOptions {
    pub namespace: String,
    /// Image of the manager; its entry point is the `olm` binary.
    pub image: String,
    /// Image of the console; `None` omits the console.
    pub console_image: Option<String>,
    /// Extra arguments of the console.
    pub console_args: Vec<String>,
    /// Whether the console serves TLS, with the certificate of Secret `olm-console-tls`.
    pub console_tls: bool,
    /// The registry, with an optional prefix, that the images were taken from; an upgrade takes those of its
    /// version from there.
    pub registry: Option<String>,
    /// Images that operators of the shipped catalog run, by the names in the catalog.
    pub shipped_images: BTreeMap<String, String>,
    /// Pull secrets of the manager and the console, in their namespace; operators of the shipped catalog use
    /// those of the same names in theirs.
    pub pull_secrets: Vec<String>,
    /// `imagePullPolicy` of both Deployments.
    pub image_pull_policy: String,
    /// Replicas of the manager. One of them leads, the others have the catalogs loaded and wait for its
    /// Lease.
    pub replicas: u32,
    /// `resources` of the manager's container.
    pub resources: Value,
    /// Whether NetworkPolicies restrict ingress to the pods and egress of the console.
    pub network_policy: bool,
    /// Ports at which the console may reach the API server, which no selector can name.
    pub api_server_ports: Vec<u16>,
    /// Whether to create a ServiceMonitor; its kind must be on the cluster.
    pub service_monitor: bool,
    /// Whether the manager serves PackageManifests, as an aggregated API.
    pub package_manifests: bool,
    /// Whether every authenticated user may read the catalogs of the namespace.
    pub public_catalogs: bool,
    /// Whether the shipped catalog is installed as CatalogSource `community`.
    pub shipped_catalog: bool,
    /// Extra objects, applied last (CatalogSources of the site).
    pub extra_catalogs: Vec<Value>,
    /// Extra environment of the manager and the console, for example log levels and proxies. Not of
    /// [`OWN_VARIABLES`](super::OWN_VARIABLES).
    pub env: Vec<(String, String)>,
}

impl Default for ManifestOptions {
    fn default() -> Self {
        let image = format!("{LOCAL_IMAGES}olm:{VERSION}");
        Self {
            namespace: NAMESPACE.into(),
            console_image: Some(image.clone()),
            console_args: Vec::new(),
            console_tls: false,
            image,
            registry: None,
            shipped_images: BTreeMap::new(),
            pull_secrets: Vec::new(),
            image_pull_policy: "IfNotPresent".into(),
            replicas: 1,
            resources: json!({ "requests": { "cpu": "10m", "memory": "32Mi" } }),
            network_policy: true,
            // The ports of kube-apiserver, kubeadm, minikube and MicroK8s.
            api_server_ports: vec![443, 6443, 8443, 16443],
            service_monitor: false,
            package_manifests: false,
            public_catalogs: true,
            shipped_catalog: true,
            extra_catalogs: Vec::new(),
            env: Vec::new(),
        }
    }
}
