//! The API server of a world: the dev cluster's, in this process; or a real one, from the directory in
//! `KUBEBUILDER_ASSETS`, as in tests of Kubernetes projects (`kube-apiserver` and `etcd`).
//!
//! Each world has its own real one, so scenarios are independent. With `kube-controller-manager` and
//! `kube-scheduler` in that directory these are used too; otherwise the dev cluster's controllers, which only
//! use a client. The kubelet is simulated in any case.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use olm_devcluster::api::{ApiServer, Config as DevConfig, Identity};
use serde_json::json;

use super::world::{MANAGER, OLM};
use crate::program;

/// Start timeout of a real API server; on a busy machine with two cores it takes seconds.
const START: Duration = Duration::from_secs(120);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(50);

/// The directory with the binaries of a real API server, if configured.
#[must_use]
pub fn assets() -> Option<&'static Path> {
    static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let folder = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty())?);
        folder.join("kube-apiserver").is_file().then_some(folder)
    });
    FOLDER.as_deref()
}

/// The address of servers in this process that the API server accepts for a pod. A real one rejects loopback
/// addresses.
#[must_use]
pub fn local_address() -> Ipv4Addr {
    static ADDRESS: LazyLock<Ipv4Addr> = LazyLock::new(|| {
        let address = || {
            // Nothing is sent: only the route is looked up.
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
            match socket.local_addr().ok()? {
                SocketAddr::V4(address) => Some(*address.ip()),
                SocketAddr::V6(_) => None,
            }
        };
        assets().and_then(|_| address()).unwrap_or(Ipv4Addr::LOCALHOST)
    });
    *ADDRESS
}

/// The API server of a world.
pub(super) enum Server {
    Dev(ApiServer),
    Real(Box<Real>),
}

impl Server {
    pub(super) async fn start() -> Result<Self> {
        Ok(match assets() {
            None => Self::Dev(ApiServer::open(DevConfig::default())?),
            Some(assets) => Self::Real(Box::new(Real::start(assets).await.context("a real API server")?)),
        })
    }

    /// Opens ports, for any content. With a real API server, an additional empty one does.
    pub(super) fn door(&self) -> &ApiServer {
        match self {
            Self::Dev(server) => server,
            Self::Real(real) => &real.door,
        }
    }

    pub(super) fn ca_pem(&self) -> &str {
        match self {
            Self::Dev(server) => server.ca_pem(),
            Self::Real(real) => &real.ca_pem,
        }
    }

    pub(super) fn client(&self, identity: Identity) -> Result<Client> {
        match self {
            Self::Dev(server) => Ok(server.client(identity)),
            Self::Real(real) => real.client(identity),
        }
    }

    /// Whether it has its own controllers and scheduler.
    pub(super) fn has_controllers(&self) -> bool {
        matches!(self, Self::Real(real) if !real.lock().is_empty())
    }

    /// Stops its controllers and scheduler.
    pub(super) fn freeze(&self) {
        if let Self::Real(real) = self {
            real.lock().drain(..).for_each(end);
        }
    }

    pub(super) fn shutdown(&self) {
        match self {
            Self::Dev(server) => server.shutdown(),
            Self::Real(real) => {
                real.door.shutdown();
                self.freeze();
            }
        }
    }
}

/// kube-apiserver and etcd as processes, stopped on drop.
pub(super) struct Real {
    processes: Vec<Child>,
    /// The controller manager and the scheduler.
    controllers: Mutex<Vec<Child>>,
    config: Config,
    ca_pem: String,
    door: ApiServer,
    folder: tempfile::TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        let controllers: Vec<Child> = self.lock().drain(..).collect();
        controllers.into_iter().chain(self.processes.drain(..).rev()).for_each(end);
    }
}

fn end(mut process: Child) {
    // A terminated one is fine.
    let _ = process.kill();
    let _ = process.wait();
}

/// Users with their own token, which is their name. Others are impersonated by the administrator; users that
/// impersonate others need their own.
const WITH_TOKEN: [&str; 2] = ["kubernetes-admin", "system:kube-controller-manager"];

impl Real {
    async fn start(assets: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("olm-apiserver-").tempdir()?;
        let path = |name: &str| folder.path().join(name).display().to_string();
        let [clients, peers, port] = ports()?;
        let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let own = assets.join("etcd");
        let etcd = if own.is_file() { own } else { program("etcd").context("etcd is not installed")? };
        let mut processes = vec![spawn(
            Command::new(etcd).args(["--data-dir", &path("etcd")]).args([
                "--listen-client-urls",
                &clients,
                "--advertise-client-urls",
                &clients,
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
                "--initial-cluster",
                &format!("default={peers}"),
            ]),
            &path("etcd.log"),
        )?];
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(path("sa.key"), key.serialize_pem())?;
        std::fs::write(path("sa.pub"), key.public_key_pem())?;
        let manager = format!("system:serviceaccount:{OLM}:{MANAGER}");
        let mut tokens: Vec<String> =
            WITH_TOKEN.iter().map(|name| format!("{name},{name},{name},\"system:masters\"")).collect();
        tokens.push(format!(
            "{manager},{manager},manager,\"system:serviceaccounts,system:serviceaccounts:{OLM}\""
        ));
        std::fs::write(path("tokens.csv"), tokens.join("\n"))?;
        let mut command = Command::new(assets.join("kube-apiserver"));
        command.args(["--etcd-servers", &clients, "--secure-port", &port.to_string()]);
        command.args(["--bind-address", "127.0.0.1", "--cert-dir", &path("certs")]);
        command.args(["--service-account-key-file", &path("sa.pub")]);
        command.args(["--service-account-signing-key-file", &path("sa.key")]);
        command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        command.args(["--token-auth-file", &path("tokens.csv"), "--authorization-mode", "RBAC"]);
        command.args(["--service-cluster-ip-range", "10.96.0.0/16", "--allow-privileged=true"]);
        // Services of webhooks and APIs are reached by their endpoints: this machine's own network has no
        // proxy.
        command.args([
            "--enable-aggregator-routing=true",
            "--advertise-address",
            &local_address().to_string(),
        ]);
        // Its credentials for servers of aggregated APIs, in the usual headers.
        front_proxy(folder.path())?;
        command.args(["--requestheader-client-ca-file", &path("front-ca.crt")]);
        command.args(["--proxy-client-cert-file", &path("front.crt")]);
        command.args(["--proxy-client-key-file", &path("front.key")]);
        command.args(["--requestheader-allowed-names", FRONT_PROXY]);
        command.args(["--requestheader-username-headers", "X-Remote-User"]);
        command.args(["--requestheader-group-headers", "X-Remote-Group"]);
        command.args(["--requestheader-extra-headers-prefix", "X-Remote-Extra-"]);
        processes.push(spawn(&mut command, &path("kube-apiserver.log"))?);
        let kubeconfig: Kubeconfig = serde_json::from_value(admins(port, WITH_TOKEN[0]))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let (controllers, door) = (Mutex::default(), ApiServer::open(DevConfig::default())?);
        let mut real = Self { processes, controllers, config, ca_pem: String::new(), door, folder };
        real.ready().await?;
        real.ca_pem = std::fs::read_to_string(real.path("certs/apiserver.crt"))?;
        let programs = ["kube-controller-manager", "kube-scheduler"].map(|name| assets.join(name));
        if programs.iter().all(|program| program.is_file()) {
            real.control(&programs, port)?;
        }
        Ok(real)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Child>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the controller manager and the scheduler.
    fn control(&self, [manager, scheduler]: &[PathBuf; 2], port: u16) -> Result<()> {
        let kubeconfig = self.path("kubeconfig");
        std::fs::write(&kubeconfig, admins(port, WITH_TOKEN[1]).to_string())?;
        let mut command = Command::new(manager);
        command.args(["--kubeconfig", &kubeconfig, "--leader-elect=false", "--secure-port=0"]);
        command.args(["--service-account-private-key-file", &self.path("sa.key")]);
        command.args(["--root-ca-file", &self.path("certs/apiserver.crt")]);
        // The node's kubelet is simulated and does not renew its lease. Scenarios wait for the rest, so
        // nothing delays it.
        command.args(["--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"]);
        command.args(["--kube-api-qps=1000", "--kube-api-burst=1000"]);
        let manager = spawn(&mut command, &self.path("kube-controller-manager.log"))?;
        self.lock().push(manager);
        let mut command = Command::new(scheduler);
        command.args(["--kubeconfig", &kubeconfig, "--leader-elect=false", "--secure-port=0"]);
        let scheduler = spawn(&mut command, &self.path("kube-scheduler.log"))?;
        self.lock().push(scheduler);
        Ok(())
    }

    /// Waits until it serves, with its default permissions.
    async fn ready(&mut self) -> Result<()> {
        let client = Client::try_from(self.config.clone())?;
        let start = Instant::now();
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let Err(error) = client.request_text(request).await else { return Ok(()) };
            let ended = self.processes.iter_mut().find_map(|process| process.try_wait().ok().flatten());
            if let Some(status) = ended {
                let log = std::fs::read_to_string(self.path("kube-apiserver.log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(5).collect();
                bail!("it ended with {status}: {}", tail.join("\n"));
            }
            ensure!(start.elapsed() < START, "it is not ready after {}s: {error}", START.as_secs());
            tokio::time::sleep(LOOK).await;
        }
    }

    fn client(&self, identity: Identity) -> Result<Client> {
        let mut config = self.config.clone();
        let manager = identity.user == format!("system:serviceaccount:{OLM}:{MANAGER}");
        config.auth_info = if manager || WITH_TOKEN.contains(&identity.user.as_str()) {
            AuthInfo { token: Some(identity.user.into()), ..AuthInfo::default() }
        } else {
            AuthInfo {
                token: Some(WITH_TOKEN[0].to_owned().into()),
                impersonate: Some(identity.user),
                impersonate_groups: Some(identity.groups),
                ..AuthInfo::default()
            }
        };
        Ok(olm_client::connect(config)?)
    }
}

/// The API server's identity for other servers.
const FRONT_PROXY: &str = "front-proxy-client";

/// Writes the API server's client certificate, and its authority.
fn front_proxy(folder: &Path) -> Result<()> {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "front-proxy-ca");
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(folder.join("front-ca.crt"), params.self_signed(&key)?.pem())?;
    let issuer = rcgen::Issuer::new(params, key);
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, FRONT_PROXY);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(folder.join("front.crt"), params.signed_by(&key, &issuer)?.pem())?;
    std::fs::write(folder.join("front.key"), key.serialize_pem())?;
    Ok(())
}

/// A kubeconfig.
fn admins(port: u16, token: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "c", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true } }],
        "users": [{ "name": "u", "user": { "token": token } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "c",
    })
}

fn spawn(command: &mut Command, log: &str) -> Result<Child> {
    let log = std::fs::File::create(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("failed to start {:?}", command.get_program()))
}

/// Different free ports.
fn ports() -> Result<[u16; 3]> {
    let listeners = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut out = [0; 3];
    for (port, listener) in out.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(out)
}
