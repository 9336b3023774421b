//! Where no pods can run (no root and no user namespaces): the manager and the console as plain processes of this machine,
//! under the same ServiceAccounts and the same RBAC as their pods would have.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use olm_devcluster::DevCluster;
use olm_manager::manifests::{CONSOLE, MANAGER, NAMESPACE};
use tokio::process::{Child, Command};

use crate::exit::{Code, Failure};

/// The two processes; they end when this is dropped.
pub struct Processes(#[allow(dead_code, reason = "held for its drop")] Vec<Child>);

pub async fn start(
    cluster: &DevCluster,
    client: &Client,
    data_dir: &Path,
    console: SocketAddr,
) -> Result<(Processes, String), Failure> {
    let catalogs = free_address().await?;
    let console = if console.port() == 0 { free_address().await? } else { console };
    let mut children = Vec::new();
    for (name, command) in [
        (MANAGER, vec!["manager".to_string(), "--listen".into(), catalogs.to_string()]),
        (
            CONSOLE,
            vec![
                "console".to_string(),
                "--listen".into(),
                console.to_string(),
                "--catalogs".into(),
                format!("http://{catalogs}"),
            ],
        ),
    ] {
        let token = token(client, name).await?;
        let path = data_dir.join(format!("{name}.kubeconfig"));
        super::write_private(&path, cluster.kubeconfig_for(name, &token).as_bytes())?;
        let log = std::fs::File::create(data_dir.join(format!("{name}.log")))?;
        let exe = std::env::current_exe()?;
        let child = Command::new(exe)
            .args(&command)
            .arg("--kubeconfig")
            .arg(&path)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        children.push(child);
    }
    for address in [catalogs, console] {
        reachable(address).await?;
    }
    Ok((Processes(children), format!("http://{console}")))
}

async fn token(client: &Client, service_account: &str) -> Result<String, Failure> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
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
        .ok_or_else(|| Failure::new(Code::Unexpected, "the API server gave no token"))
}

/// An address that is free now; the process that gets it listens at once.
async fn free_address() -> Result<SocketAddr, Failure> {
    Ok(tokio::net::TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

async fn reachable(address: SocketAddr) -> Result<(), Failure> {
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Failure::new(
        Code::Timeout,
        format!("nothing answers on {address} after 10 s; see the .log files in the data directory"),
    ))
}
