//! The node's interface to the API server: logs, exec, faults, and connections into pods and the cluster
//! network.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use olm_devcluster_machinery::{
    backend::{BackendError, ExecSession, LogOptions, NodeBackend},
    fault::{CutFrom, Done, Fault, Order, Undo},
};
use tokio::{net::TcpStream, sync::oneshot};

use super::{
    context::Context,
    helper::wire::ProcessSpec,
    network::loopback,
    pod::worker::{ContainerHandle, FaultMessage, Handle, Message},
    sandbox::{SandboxError, pipes},
};

/// Implements [`NodeBackend`].
pub(crate) struct Backend(pub(crate) Arc<Context>);

impl Backend {
    fn handle(&self, namespace: &str, pod: &str) -> Result<Handle, BackendError> {
        let workers = self.0.workers();
        let found = workers.values().find(|handle| handle.namespace == namespace && handle.name == pod);
        found.cloned().ok_or_else(|| {
            BackendError::NotFound(format!(
                "pod {pod:?} in namespace {namespace:?} is not on node {:?}",
                super::NODE_NAME
            ))
        })
    }

    fn container(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
    ) -> Result<(String, ContainerHandle), BackendError> {
        let handle = self.handle(namespace, pod)?;
        let name = match container {
            Some(name) => name.to_owned(),
            None => handle.containers.first().cloned().unwrap_or_default(),
        };
        let containers = lock(&handle.live.containers);
        match containers.get(&name) {
            Some(found) => Ok((name, found.clone())),
            None if handle.containers.contains(&name) => Ok((name, ContainerHandle::default())),
            None => Err(BackendError::BadRequest(format!(
                "container {name} is not valid for pod {pod}, expected one of {}",
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
            |error: std::io::Error| BackendError::Internal(format!("failed to create pipes: {error}"));
        let (stdio, streams) = pipes(stdin).map_err(internal)?;
        let spec = ProcessSpec { argv: command, ..template };
        let mut running = process.run_in_root_of(spec, stdio).await.map_err(|error| match error {
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

    async fn fault(&self, order: Order) -> Result<Done, BackendError> {
        let handle = self.handle(&order.namespace, &order.pod)?;
        let mut peers = Vec::new();
        if let Fault::Cut(CutFrom::Named(names)) = &order.fault {
            for name in names {
                let (namespace, pod) = name.split_once('/').unwrap_or((&order.namespace, name));
                let ip = *lock(&self.handle(namespace, pod)?.live.ip);
                peers.push(ip.ok_or_else(|| {
                    BackendError::BadRequest(format!(
                        "pod {pod:?} in namespace {namespace:?} has no address yet"
                    ))
                })?);
            }
        }
        let (namespace, pod) = (order.namespace.clone(), order.pod.clone());
        let (reply, answer) = oneshot::channel();
        let _ = handle.messages.send(Message::Fault(FaultMessage::Put { order, peers, reply }));
        await_response(answer, &namespace, &pod).await
    }

    fn faults(&self) -> Vec<Done> {
        let mut all: Vec<Done> =
            self.0.workers().values().flat_map(|handle| lock(&handle.live.faults).clone()).collect();
        all.sort_by_key(|done| done.since);
        all
    }

    async fn undo(&self, which: Undo) -> Result<Vec<Done>, BackendError> {
        let fits =
            |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        let handles: Vec<_> = self
            .0
            .workers()
            .values()
            .filter(|handle| fits(&which.namespace, &handle.namespace) && fits(&which.pod, &handle.name))
            .filter(|handle| !lock(&handle.live.faults).is_empty())
            .cloned()
            .collect();
        let mut undone = Vec::new();
        for handle in handles {
            let (reply, answer) = oneshot::channel();
            let _ = handle.messages.send(Message::Fault(FaultMessage::Undo { kind: which.kind, reply }));
            undone.extend(await_response(answer, &handle.namespace, &handle.name).await?);
        }
        Ok(undone)
    }

    async fn forward(&self, namespace: &str, pod: &str, port: u16) -> Result<TcpStream, BackendError> {
        let handle = self.handle(namespace, pod)?;
        let inside = lock(&handle.live.network_namespace).clone();
        let inside = inside.ok_or_else(|| {
            BackendError::BadRequest(format!("pod {pod:?} in namespace {namespace:?} has no network yet"))
        })?;
        loopback::connect(&inside, port).await.map_err(BackendError::Internal)
    }

    async fn dial(&self, address: SocketAddr) -> Result<TcpStream, BackendError> {
        let connected = self.0.network.dial(address).await;
        connected.map_err(|error| BackendError::Internal(format!("failed to connect to {address}: {error}")))
    }
}

/// Response of a pod's worker to an order; an ended worker sends none.
async fn await_response<T>(
    answer: oneshot::Receiver<Result<T, String>>,
    namespace: &str,
    pod: &str,
) -> Result<T, BackendError> {
    let of_pod = format!("pod {pod:?} in namespace {namespace:?}");
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(why)) => Err(BackendError::BadRequest(format!("{of_pod}: {why}"))),
        Err(_) => Err(BackendError::NotFound(format!("{of_pod} was deleted"))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn state_text(state: &str) -> &str {
    if state.is_empty() { "is waiting to start: ContainerCreating" } else { state }
}
