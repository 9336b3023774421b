//! The node as the API server sees it: logs, exec, and connections into the cluster network.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::{net::TcpStream, sync::oneshot};

use super::{
    context::Context,
    helper::wire::ProcessSpec,
    pod::worker::LiveContainer,
    sandbox::{SandboxError, pipes},
};
use crate::backend::{BackendError, ExecSession, LogOptions, NodeBackend};

/// Implements [`NodeBackend`].
pub(crate) struct Backend(pub(crate) Arc<Context>);

impl Backend {
    fn container(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
    ) -> Result<(String, LiveContainer), BackendError> {
        let handle = {
            let workers = self.0.workers();
            workers.values().find(|handle| handle.namespace == namespace && handle.name == pod).cloned()
        };
        let handle = handle.ok_or_else(|| {
            BackendError::NotFound(format!(
                "pod {pod:?} in namespace {namespace:?} is not on node {:?}",
                super::NODE_NAME
            ))
        })?;
        let name = match container {
            Some(name) => name.to_owned(),
            None => handle.containers.first().cloned().unwrap_or_default(),
        };
        let containers = handle.live.containers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match containers.get(&name) {
            Some(found) => Ok((name, found.clone())),
            None if handle.containers.contains(&name) => Ok((name, LiveContainer::default())),
            None => Err(BackendError::BadRequest(format!(
                "container {name} is not valid for pod {pod}; it has {}",
                handle.containers.join(", ")
            ))),
        }
    }
}

#[async_trait]
impl NodeBackend for Backend {
    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        options: LogOptions,
    ) -> Result<BoxStream<'static, std::io::Result<Bytes>>, BackendError> {
        let (name, container) = self.container(namespace, pod, options.container.as_deref())?;
        let log = if options.previous { container.previous } else { container.log };
        let log = log.ok_or_else(|| {
            BackendError::BadRequest(if options.previous {
                format!("previous terminated container {name:?} in pod {pod:?} not found")
            } else {
                format!("container {name:?} in pod {pod:?} {}", state_text(&container.state))
            })
        })?;
        log.read(&options).map_err(|error| {
            BackendError::Internal(format!("failed to read the log of container {name:?}: {error}"))
        })
    }

    async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        command: Vec<String>,
        stdin: bool,
    ) -> Result<ExecSession, BackendError> {
        let (name, container) = self.container(namespace, pod, container)?;
        let (process, template) = container.running.ok_or_else(|| {
            BackendError::BadRequest(format!(
                "container {name:?} in pod {pod:?} {}",
                state_text(&container.state)
            ))
        })?;
        if command.is_empty() {
            return Err(BackendError::BadRequest(
                "you must specify at least one command for the container".to_owned(),
            ));
        }
        let internal =
            |error: std::io::Error| BackendError::Internal(format!("failed to make pipes: {error}"));
        let (stdio, streams) = pipes(stdin).map_err(internal)?;
        let spec = ProcessSpec { argv: command, ..template };
        let mut running = process.run_beside(spec, stdio).await.map_err(|error| match error {
            SandboxError::Start { message, .. } => {
                BackendError::BadRequest(format!("failed to exec in container {name:?}: {message}"))
            }
            other => BackendError::Internal(other.to_string()),
        })?;
        let (report, exit) = oneshot::channel();
        tokio::spawn(async move {
            let _ = report.send(running.wait().await.code);
        });
        Ok(ExecSession {
            stdin: streams.stdin.map(|pipe| Box::new(pipe) as _),
            stdout: Box::new(streams.stdout),
            stderr: Box::new(streams.stderr),
            exit,
        })
    }

    async fn dial(&self, address: SocketAddr) -> Result<TcpStream, BackendError> {
        let connected = self.0.network.dial(address).await;
        connected.map_err(|error| BackendError::Internal(format!("failed to connect to {address}: {error}")))
    }
}

fn state_text(state: &str) -> &str {
    if state.is_empty() { "is waiting to start: ContainerCreating" } else { state }
}
