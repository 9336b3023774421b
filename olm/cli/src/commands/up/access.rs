//! Access to the console from 127.0.0.1 of the host.

use std::net::SocketAddr;

use olm_devcluster::DevCluster;
use tokio::net::TcpListener;

use crate::{
    commands::login,
    exit::{Code, Failure},
};

/// Address of the console on this host.
pub struct ConsoleAccess {
    base: String,
    _forward: Option<tokio::task::AbortHandle>,
}

impl Drop for ConsoleAccess {
    fn drop(&mut self) {
        if let Some(forward) = &self._forward {
            forward.abort();
        }
    }
}

impl ConsoleAccess {
    /// Forwards an address of this host to the console's Service.
    pub async fn in_cluster(cluster: &DevCluster, listen: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(listen).await.map_err(|e| {
            Failure::new(Code::Unexpected, format!("failed to listen on {listen} for the console: {e}"))
                .hint("choose another address, such as --console 127.0.0.1:0")
        })?;
        let local = listener.local_addr()?;
        let service = cluster
            .service_address(olm_engine::site::manager_namespace(), olm_engine::site::CONSOLE)
            .await
            .map_err(|e| Failure::new(Code::Unexpected, e))?;
        let backend =
            cluster.backend().ok_or_else(|| Failure::new(Code::Unexpected, "pods are not available"))?;
        let forward = tokio::spawn(async move {
            loop {
                let Ok((mut inbound, _)) = listener.accept().await else { continue };
                let backend = backend.clone();
                tokio::spawn(async move {
                    match backend.dial(service).await {
                        Ok(mut outbound) => {
                            // Either side may close the connection, which is not an error.
                            let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
                        }
                        Err(error) => tracing::debug!(%error, "the console does not respond"),
                    }
                });
            }
        });
        Ok(Self { base: format!("http://{local}"), _forward: Some(forward.abort_handle()) })
    }

    /// A console that listens on this host without forwarding.
    pub fn at(url: String) -> Self {
        Self { base: url.trim_end_matches('/').to_string(), _forward: None }
    }

    pub fn url(&self) -> String {
        self.base.clone()
    }

    /// A one-time link that signs in the user of the token.
    pub async fn login_link(&self, token: &str) -> Result<String, Failure> {
        login::link(&self.base, token).await
    }
}
