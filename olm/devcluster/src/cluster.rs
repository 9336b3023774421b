//! Assembles the parts: network, API server, controllers, node.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
    runtime::wait,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{ApiServer, Config, Identity, OpenError, TokenAuthenticator},
    backend::NodeBackend,
    controllers::{self, ControllerConfig},
    node::{self, Capability, ImageSource, Network, NetworkError, NodeAgent, NodeConfig, NodeError},
    private,
};

/// The API server's cluster IP, as pods see it.
const API_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The DNS server's cluster IP.
const DNS_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The cluster's DNS domain.
const DOMAIN: &str = "cluster.local";
/// Timeout for the controllers and the node to stop.
const STOP: Duration = Duration::from_secs(15);

/// Configuration of a dev cluster.
#[derive(Clone)]
pub struct DevClusterConfig {
    /// Directory of the cluster's state.
    pub data_dir: PathBuf,
    /// Listen address of the API on this machine; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Where images are pulled from; `None` for a cluster that runs only loaded images.
    pub image_source: Option<Arc<dyn ImageSource>>,
    /// Whether pods are run.
    pub pods: bool,
    /// Ports of 127.0.0.1 on the host that pods reach at [`NODE_IP`](node::NODE_IP), by the name
    /// `host.olm.internal`.
    pub host_ports: Vec<u16>,
}

/// A failed start of a dev cluster.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The listen address of the API is not available.
    #[error("failed to listen on {address} for the Kubernetes API: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The data directory is not usable.
    #[error("failed to use the data directory {}: {source}", path.display())]
    Data {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: OpenError,
    },
    /// The cluster network failed to start.
    #[error("failed to create the cluster network: {0}")]
    Network(#[from] NetworkError),
    /// The node failed to start.
    #[error("failed to start the node: {0}")]
    Node(#[from] NodeError),
    /// Another system call failed.
    #[error("failed to {what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

/// A running dev cluster.
pub struct DevCluster {
    server: ApiServer,
    address: SocketAddr,
    agent: Option<NodeAgent>,
    backend: Option<Arc<dyn NodeBackend>>,
    unavailable: Option<String>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    /// Listener tasks; they run until they are aborted.
    host_ports: Vec<JoinHandle<()>>,
}

impl DevCluster {
    /// Starts all parts; returns when the API responds and the node is ready. Resumes the state of an earlier
    /// run in the data directory, however that run ended.
    ///
    /// # Errors
    /// [`StartError`]; all parts are stopped then.
    pub async fn start(config: DevClusterConfig) -> Result<Self, StartError> {
        let listener = TcpListener::bind(config.listen)
            .map_err(|source| StartError::Listen { address: config.listen, source })?;
        let system = |what| move |source| StartError::System { what, source };
        let address = listener.local_addr().map_err(system("read the address of the API"))?;
        listener.set_nonblocking(true).map_err(system("listen for the API"))?;

        let server = ApiServer::open(Config {
            data: Some(config.data_dir.clone()),
            port: address.port(),
            names: Vec::new(),
            addresses: vec![address.ip(), IpAddr::V4(API_IP)],
        })
        .map_err(|source| StartError::Data { path: config.data_dir.clone(), source })?;
        let mut cluster = Self {
            server,
            address,
            agent: None,
            backend: None,
            unavailable: None,
            stop: CancellationToken::new(),
            tasks: Vec::new(),
            host_ports: Vec::new(),
        };
        match cluster.run(config, listener).await {
            Ok(()) => Ok(cluster),
            Err(error) => {
                cluster.shutdown().await;
                Err(error)
            }
        }
    }

    async fn run(&mut self, config: DevClusterConfig, listener: TcpListener) -> Result<(), StartError> {
        let serving = |source| StartError::System { what: "serve the API", source };
        self.tasks.push(self.server.serve(listener).map_err(serving)?);
        // Volumes keep their path permanently, whatever the working directory of the next start is.
        let volumes_dir = std::path::absolute(config.data_dir.join("volumes"))
            .map_err(|source| StartError::System { what: "resolve the volume directory", source })?;
        private::make_directory(&volumes_dir)
            .map_err(|source| StartError::System { what: "create the volume directory", source })?;
        let controllers = ControllerConfig {
            root_ca_pem: self.server.ca_pem().to_owned(),
            cluster_domain: DOMAIN.to_owned(),
            node_name: node::NODE_NAME.to_owned(),
            volumes_dir: Some(volumes_dir),
        };
        let client = self.client_of("system:kube-controller-manager");
        self.tasks.push(controllers::spawn(client, controllers, self.stop.child_token()));

        let client = self.client_of("system:node:olm-node");
        self.unavailable = if config.pods {
            match Capability::probe() {
                Capability::Root | Capability::UserNamespace => None,
                Capability::Nothing(advice) => Some(advice),
            }
        } else {
            Some("started with --no-pods".to_owned())
        };
        if let Some(advice) = self.unavailable.clone() {
            let stop = self.stop.clone();
            self.tasks.push(tokio::spawn(async move {
                stop.run_until_cancelled(node::unavailable(client, advice)).await;
            }));
            return Ok(());
        }
        let network = Network::start().await?;
        let inside = network.listen(SocketAddrV4::new(API_IP, 443)).await?;
        self.tasks.push(self.server.serve(inside).map_err(serving)?);
        for port in config.host_ports {
            self.host_ports.push(network.open_host_port(port).await?);
        }
        let helper_exe = std::env::current_exe()
            .map_err(|source| StartError::System { what: "locate the executable of this program", source })?;
        mark_not_ready(&client).await;
        let agent = NodeAgent::start(NodeConfig {
            client: client.clone(),
            network,
            data_dir: config.data_dir,
            image_source: config.image_source,
            helper_exe,
            cluster_domain: DOMAIN.to_owned(),
            dns_ip: DNS_IP,
        })
        .await?;
        let backend = agent.backend();
        self.server.set_backend(Arc::clone(&backend));
        self.backend = Some(backend);
        self.agent = Some(agent);
        // The agent has registered the node; readiness may take a moment longer.
        let nodes: Api<Node> = Api::all(client);
        let ready = wait::await_condition(nodes, node::NODE_NAME, |node: Option<&Node>| {
            let conditions = node.and_then(|n| n.status.as_ref()?.conditions.as_ref());
            conditions.is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
        });
        let _ = tokio::time::timeout(STOP, ready).await;
        Ok(())
    }

    fn client_of(&self, component: &str) -> Client {
        self.server.client(Identity::system(component))
    }

    /// URL of the API on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Accepts the tokens of another issuer from now on.
    pub fn set_authenticator(&self, authenticator: Arc<dyn TokenAuthenticator>) {
        self.server.set_authenticator(authenticator);
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.server.admin_kubeconfig(self.address)
    }

    /// A kubeconfig for another user, with a bearer token.
    #[must_use]
    pub fn kubeconfig_for(&self, user: &str, token: &str) -> String {
        let mut config: Value = serde_yaml::from_str(&self.kubeconfig()).unwrap_or_default();
        config["users"][0] = serde_json::json!({"name": user, "user": {"token": token}});
        config["contexts"][0]["context"]["user"] = user.into();
        config.to_string()
    }

    /// The administrator's bearer token.
    #[must_use]
    pub fn admin_token(&self) -> &str {
        self.server.admin_token()
    }

    /// The reason why pods cannot run on this machine, with the remedy; `None` when they can.
    #[must_use]
    pub fn pods_unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }

    /// Access to the cluster network; `None` where pods cannot run.
    #[must_use]
    pub fn backend(&self) -> Option<Arc<dyn NodeBackend>> {
        self.backend.clone()
    }

    /// Listens on a port of [`NODE_IP`](node::NODE_IP) in the cluster network, which pods reach by the name
    /// `host.olm.internal` and the host does not; `None` where pods cannot run.
    ///
    /// # Errors
    /// [`StartError::Network`]
    pub async fn listen_for_pods(&self, port: u16) -> Result<Option<TcpListener>, StartError> {
        let Some(agent) = &self.agent else { return Ok(None) };
        Ok(Some(agent.network().listen(SocketAddrV4::new(node::NODE_IP, port)).await?))
    }

    /// Cluster IP and first port of a Service.
    ///
    /// # Errors
    /// The missing object or field.
    pub async fn service_address(&self, namespace: &str, name: &str) -> Result<SocketAddr, String> {
        let api: Api<Service> = Api::namespaced(self.client_of("system:apiserver"), namespace);
        let service =
            api.get(name).await.map_err(|e| format!("failed to get Service {namespace}/{name}: {e}"))?;
        let ip = service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()?.parse::<IpAddr>().ok());
        let port = service.spec.as_ref().and_then(|s| u16::try_from(s.ports.as_ref()?.first()?.port).ok());
        match (ip, port) {
            (Some(ip), Some(port)) => Ok(SocketAddr::new(ip, port)),
            _ => Err(format!("Service {namespace}/{name} has no cluster IP or no port")),
        }
    }

    /// Stops pods, controllers and the API, in this order, and closes the data directory. Pod objects are not
    /// changed: the next start runs them again.
    pub async fn shutdown(mut self) {
        self.stop_all().await;
    }

    async fn stop_all(&mut self) {
        if let Some(agent) = self.agent.take() {
            let _ = tokio::time::timeout(STOP, agent.shutdown()).await;
        }
        self.host_ports.iter().for_each(JoinHandle::abort);
        self.stop.cancel();
        self.server.shutdown();
        for task in self.tasks.drain(..) {
            if tokio::time::timeout(Duration::from_secs(2), task).await.is_err() {
                tracing::debug!("timed out stopping a task of the dev cluster");
            }
        }
    }
}

/// Marks the pods of an earlier run as not ready until their containers run again. Otherwise Services would
/// send connections to unassigned addresses, and clients would find the pods ready too early.
async fn mark_not_ready(client: &Client) {
    let Ok(pods) = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await else { return };
    for pod in pods {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        if !conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
            continue;
        }
        let not_yet = |type_: &str| {
            json!({"type": type_, "status": "False", "reason": "NodeRestarted",
                "message": "the node restarted", "lastTransitionTime": jiff::Timestamp::now()})
        };
        let patch = json!({"status": {"conditions": [not_yet("Ready"), not_yet("ContainersReady")]}});
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        // Conditions merge by type. The agent corrects failed patches a moment later.
        if let Err(error) =
            api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&patch)).await
        {
            tracing::debug!(%error, pod = pod.name_any(), "failed to mark a pod as not ready");
        }
    }
}
