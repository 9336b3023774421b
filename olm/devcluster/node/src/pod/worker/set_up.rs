//! Prerequisites of a pod's containers: network, sandbox, volumes.

use std::{net::Ipv4Addr, os::fd::AsFd as _, sync::Arc, time::Instant};

use super::{Message, Worker, lock};
use crate::{env::PodFacts, network::NODE_IP, pod::launch, sandbox::Sandbox, volumes::Subject};

impl Worker {
    /// Creates or updates network, sandbox and volumes.
    pub(super) async fn set_up(&mut self) -> Result<(), (&'static str, String)> {
        let sandbox_failed = |error: String| ("FailedCreatePodSandBox", error);
        if self.network.is_none() {
            for dir in ["root", "termination", "volumes", "logs"] {
                let dir = self.dir.join(dir);
                std::fs::create_dir_all(&dir).map_err(|error| {
                    sandbox_failed(format!("failed to create {}: {error}", dir.display()))
                })?;
            }
            let network = self.cx.network.attach_pod().await;
            let network = network.map_err(|error| sandbox_failed(error.to_string()))?;
            *lock(&self.live.ip) = Some(network.ip);
            *lock(&self.live.network_namespace) = Some(Arc::clone(&network.namespace));
            self.network = Some(network);
        }
        if self.sandbox.is_none()
            && let Some(network) = &self.network
        {
            let metadata = &self.pod.metadata;
            let label = format!(
                "{}/{}",
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default()
            );
            let hostname = launch::hostname(&self.pod);
            let sandbox = Sandbox::start(&self.cx.helper, label, hostname, network.namespace.as_fd()).await;
            let sandbox = sandbox.map_err(|error| sandbox_failed(error.to_string()))?;
            let (mut ended, messages) = (sandbox.ended(), self.messages.clone());
            tokio::spawn(async move {
                let _ = ended.wait_for(|ended| *ended).await;
                let _ = messages.send(Message::SandboxEnded);
            });
            self.sandbox = Some(sandbox);
        }
        let renewal = self.volumes.renewal().is_some_and(|time| time <= Instant::now());
        if !self.volumes_ready || self.refresh || renewal {
            let facts = self.facts();
            let subject = Subject {
                client: &self.cx.client,
                pod: &self.pod,
                facts: &facts,
                one_user: self.cx.one_user,
            };
            match self.volumes.sync(&subject).await {
                Ok(()) => self.volumes_ready = true,
                Err(error) if !self.volumes_ready => return Err(("FailedMount", error.to_string())),
                // A running pod continues with the old content.
                Err(error) => tracing::debug!(%error, "failed to update a volume"),
            }
            self.refresh = false;
        }
        Ok(())
    }

    pub(super) async fn close_sandbox(&mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.destroy().await;
        }
        self.network = None;
        *lock(&self.live.ip) = None;
        *lock(&self.live.network_namespace) = None;
        // The faults ended with the processes and the network.
        lock(&self.live.faults).clear();
    }

    pub(super) fn pod_ip(&self) -> Ipv4Addr {
        self.network.as_ref().map_or(Ipv4Addr::UNSPECIFIED, |network| network.ip)
    }

    pub(super) fn facts(&self) -> PodFacts {
        PodFacts { pod_ip: self.pod_ip().to_string(), host_ip: NODE_IP.to_string() }
    }
}
