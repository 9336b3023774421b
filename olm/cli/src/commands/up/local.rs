//! Without root and user namespaces no pods can run: the manager and the console run as processes of this
//! machine, with the ServiceAccounts and the RBAC of their pods.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use olm_devcluster::{DevCluster, node::tied_command};
use olm_engine::site::{CONSOLE, MANAGER, NAMESPACE_VARIABLE, manager_namespace};
use tokio::{
    process::{Child, Command},
    task::JoinSet,
};

use crate::exit::{Code, Failure};

/// Delay before a process is restarted.
const RESTART: Duration = Duration::from_secs(1);

/// Without pods, registries and catalog servers run on this machine.
const LOCAL_REGISTRIES: &str = "egress:\n  allow: [\"127.0.0.0/8\", \"::1\"]\n";

/// The two processes; they end when this is dropped, or with this process.
pub struct Processes(#[allow(dead_code, reason = "held for its drop")] JoinSet<()>);

pub async fn start(
    cluster: &DevCluster,
    client: &Client,
    data_dir: &Path,
    console: SocketAddr,
    console_args: &[String],
) -> Result<(Processes, String), Failure> {
    let catalogs = free_address(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let console = free_address(console)
        .await
        .map_err(|failure| failure.hint("choose another address, such as --console 127.0.0.1:0"))?;
    let registries = data_dir.join("registries.yaml");
    if !registries.exists() {
        super::write_private(&registries, LOCAL_REGISTRIES.as_bytes())?;
    }
    let registries = registries.display().to_string();
    let mut processes = JoinSet::new();
    for (name, arguments) in [
        (
            MANAGER,
            vec![
                "manager".to_string(),
                "--listen".into(),
                catalogs.to_string(),
                "--registries".into(),
                registries,
            ],
        ),
        (
            CONSOLE,
            [
                "console".to_string(),
                "--listen".into(),
                console.to_string(),
                "--catalogs".into(),
                format!("http://{catalogs}"),
            ]
            .into_iter()
            .chain(console_args.iter().cloned())
            .collect(),
        ),
    ] {
        let token = token(client, name).await?;
        let path = data_dir.join(format!("{name}.kubeconfig"));
        super::write_private(&path, cluster.kubeconfig_for(name, &token).as_bytes())?;
        let log = data_dir.join(format!("{name}.log"));
        super::write_private(&log, b"")?;
        let mut command = Command::from(tied_command()?);
        command
            .args(&arguments)
            .arg("--kubeconfig")
            .arg(&path)
            .env("POD_NAMESPACE", manager_namespace())
            .env(NAMESPACE_VARIABLE, manager_namespace())
            .env("POD_NAME", name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::OpenOptions::new().append(true).open(&log)?)
            .kill_on_drop(true);
        let child = command.spawn()?;
        processes.spawn(keep_running(name, command, child));
        let address = if name == MANAGER { catalogs } else { console };
        reachable(name, address, &log).await?;
    }
    Ok((Processes(processes), format!("http://{console}")))
}

/// Restarts a process whenever it ends, like the Deployment of a pod. Never returns.
async fn keep_running(name: &str, mut command: Command, mut child: Child) {
    loop {
        match child.wait().await {
            Ok(status) => eprintln!("warning: {name} exited ({status}); restarting"),
            Err(error) => eprintln!("warning: failed to wait for {name}: {error}"),
        }
        child = loop {
            tokio::time::sleep(RESTART).await;
            match command.spawn() {
                Ok(child) => break child,
                Err(error) => eprintln!("warning: failed to restart {name}: {error}"),
            }
        };
    }
}

async fn token(client: &Client, service_account: &str) -> Result<String, Failure> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), manager_namespace());
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(365 * 24 * 3600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = api.create_token_request(service_account, &PostParams::default(), &request).await?;
    answer
        .status
        .and_then(|s| s.token)
        .ok_or_else(|| Failure::new(Code::Unexpected, "the API server returned no token"))
}

/// The address if it is free, with a free port if it has none. The process has to listen on it immediately.
async fn free_address(wanted: SocketAddr) -> Result<SocketAddr, Failure> {
    let listener = tokio::net::TcpListener::bind(wanted)
        .await
        .map_err(|e| Failure::new(Code::Unexpected, format!("failed to listen on {wanted}: {e}")))?;
    Ok(listener.local_addr()?)
}

async fn reachable(name: &str, address: SocketAddr, log: &Path) -> Result<(), Failure> {
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Failure::new(Code::Timeout, format!("{name} does not respond on {address} after 10 s"))
        .hint(format!("see {}", log.display())))
}
