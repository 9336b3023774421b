//! Manager processes: the API of a world at a port, and `olm manager` as cargo built it.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use axum::{Router, body::Body, response::IntoResponse as _};
use http::{Request, StatusCode, header};
use kube::Client;
use olm_devcluster::api::ApiServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::{faults::Faults, waiting::PATIENCE, world::OLM};
use crate::eventually;

/// Maximum request size of Kubernetes.
const LARGEST: usize = 3 << 20;
/// Path of the managers' Service in the API server's proxy.
const MANAGERS: &str = "/api/v1/namespaces/olm/services/https:olm-manager:8080/proxy";
/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);

/// The API of a world at a port of 127.0.0.1.
pub struct Served {
    /// Its identity is that of the manager: all calls at the port are the manager's.
    pub kubeconfig: PathBuf,
    folder: PathBuf,
    token: String,
}

impl Served {
    pub(super) fn start(server: &ApiServer, client: Client, faults: &Faults, folder: &Path) -> Result<Self> {
        Self::start_beside(server, client, faults, folder, None)
    }

    /// The same with a manager of this process as endpoint of the managers' Service: without a node the API
    /// server reaches none.
    pub(super) fn start_beside(
        server: &ApiServer,
        client: Client,
        faults: &Faults,
        folder: &Path,
        manager: Option<SocketAddr>,
    ) -> Result<Self> {
        let manager = match manager {
            Some(address) => Some(Client::try_from(kube::Config::new(format!("http://{address}").parse()?))?),
            None => None,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for the API")?;
        let address = listener.local_addr()?;
        let client = faults.client(client, CancellationToken::new());
        let router = Router::new().fallback(move |request: Request<Body>| {
            let (client, manager) = (client.clone(), manager.clone());
            async move {
                // Like a proxy without its server.
                let gone = |error: String| (StatusCode::BAD_GATEWAY, error).into_response();
                let (mut head, body) = request.into_parts();
                let body = match axum::body::to_bytes(body, LARGEST).await {
                    Ok(body) => body,
                    Err(error) => return gone(error.to_string()),
                };
                // The identity is fixed: the token only opens the port.
                head.headers.remove(header::AUTHORIZATION);
                let behind = head.uri.path_and_query().and_then(|all| all.as_str().split_once(MANAGERS));
                let behind = behind.and_then(|(_, tail)| tail.parse().ok());
                let client = match (manager, behind) {
                    (Some(manager), Some(tail)) => {
                        head.uri = tail;
                        manager
                    }
                    _ => client,
                };
                let request = Request::from_parts(head, body.to_vec().into());
                match client.send(request).await {
                    Ok(answer) => answer.map(Body::new),
                    Err(error) => gone(error.to_string()),
                }
            }
        });
        server.serve_router(router, listener)?;
        let kubeconfig = folder.join(format!("kubeconfig-{}", address.port()));
        std::fs::write(&kubeconfig, server.admin_kubeconfig(address))
            .with_context(|| format!("failed to write {}", kubeconfig.display()))?;
        let known: serde_json::Value = serde_yaml::from_str(&std::fs::read_to_string(&kubeconfig)?)?;
        let token = known.pointer("/users/0/user/token").and_then(|token| token.as_str());
        let token = token.context("the kubeconfig has no token")?.to_owned();
        Ok(Self { kubeconfig, folder: folder.to_owned(), token })
    }

    /// Runs a command of `olm` with this API: its standard output and standard error.
    /// # Errors
    /// When it cannot be started.
    pub async fn olm(&self, args: &[&str]) -> Result<(String, String)> {
        self.ran(args).await.map(|ran| (ran.out, ran.err))
    }

    /// The same with the exit code.
    /// # Errors
    /// When it cannot be started.
    pub async fn ran(&self, args: &[&str]) -> Result<Ran> {
        let mut command = crate::cluster::olm();
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        let out = tokio::task::spawn_blocking(move || crate::cluster::run(command, None)).await??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ran { code: out.status.code(), out: text(&out.stdout), err: text(&out.stderr) })
    }
}

/// The result of a command.
pub struct Ran {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A manager process, killed on drop.
pub struct Process {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    /// For its metrics.
    token: String,
}

impl Process {
    /// Starts `olm manager`; its output is in a file.
    /// # Errors
    /// When it cannot be started.
    pub fn start(served: &Served, identity: &str) -> Result<Self> {
        Self::start_with(served, identity, |_| {})
    }

    /// The same with a change to the command.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_with(served: &Served, identity: &str, change: impl FnOnce(&mut Command)) -> Result<Self> {
        // Free at this moment; no other code of this process requests ports in between.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = served.folder.join(format!("{identity}.log"));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command: Command = crate::cluster::olm();
        let command = command
            .arg("--kubeconfig")
            .arg(&served.kubeconfig)
            .args(["manager", "--listen", &address.to_string(), "--cache-dir"])
            .arg(served.folder.join(format!("{identity}-cache")))
            .env("POD_NAME", identity)
            .env("POD_NAMESPACE", OLM)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        change(command);
        let child = command.spawn().context("failed to start olm manager (are the binaries built?)")?;
        Ok(Self { child, address, log, token: served.token.clone() })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name without `SIG`.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status()?;
        ensure!(sent.success(), "kill -{name} failed; its output:\n{}", self.log_tail());
        Ok(())
    }

    /// Whether it runs.
    /// # Errors
    /// When the process is unknown to the kernel.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end; the code is `None` when a signal ended it.
    /// # Errors
    /// When it keeps running.
    pub async fn ended(&mut self) -> Result<Option<i32>> {
        let ended = eventually("the manager to end", PATIENCE, async || Ok(self.child.try_wait()?)).await;
        Ok(ended.with_context(|| format!("its output:\n{}", self.log_tail()))?.code())
    }

    /// The end of its output.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until it reports ready.
    /// # Errors
    /// When it ends, or on time-out.
    pub async fn ready(&mut self, patience: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            // Before it listens connections fail.
            if self.get("/readyz").await.is_ok_and(|(code, _)| code == 200) {
                return Ok(());
            }
            ensure!(self.runs()?, "the manager ended:\n{}", self.log_tail());
            if start.elapsed() > patience {
                bail!("the manager is not ready after {} s:\n{}", patience.as_secs(), self.log_tail());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A metric, summed over the series that have this in their labels.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metric(&self, name: &str, label: &str) -> Result<f64> {
        let [value] = self.metrics([(name, label)]).await?;
        Ok(value)
    }

    /// As [`Self::metric`], several from one moment.
    /// # Errors
    /// When it does not answer.
    pub async fn metrics<const N: usize>(&self, wanted: [(&str, &str); N]) -> Result<[f64; N]> {
        let (_, text) = self.get("/metrics").await?;
        Ok(wanted.map(|(name, label)| {
            let series = text.lines().filter(|line| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                    && line.contains(label)
            });
            series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        }))
    }

    /// Requests its port: code and body.
    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = tokio::net::TcpStream::connect(self.address).await?;
        // With HTTP/1.0: the answer ends with the connection.
        let token = &self.token;
        let request = format!("GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no HTTP answer")?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        Ok((code, body))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A terminated one is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
