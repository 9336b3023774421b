//! Interface of the API server to the node that runs the pods.
//!
//! The API server owns objects; everything that touches a running process (logs, exec, a connection into a
//! pod or the cluster network) goes through this trait, so that the API can be served without a node agent:
//! then these subresources respond with a proper `Status`.

use std::net::SocketAddr;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use crate::fault::{Done, Order, Undo};

/// A failed operation of the node.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The pod, container or endpoint does not exist on this node.
    #[error("{0}")]
    NotFound(String),
    /// It exists, but its state does not allow the operation (for example: container is waiting to start).
    #[error("{0}")]
    BadRequest(String),
    /// The node failed.
    #[error("{0}")]
    Internal(String),
}

/// Options of `GET pods/NAME/log`.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Container; `None` means the only one.
    pub container: Option<String>,
    /// Keep the stream open and send later lines.
    pub follow: bool,
    /// Logs of the previous instance of the container.
    pub previous: bool,
    /// Only the last N lines.
    pub tail_lines: Option<usize>,
    /// Prefix each line with its time.
    pub timestamps: bool,
    /// Only lines younger than this many seconds.
    pub since_seconds: Option<i64>,
    /// Stop after this many bytes.
    pub limit_bytes: Option<usize>,
}

/// A process started by `exec`: its pipes and its exit code.
pub struct ExecSession {
    /// Standard input, if requested.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Standard error.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Exit code of the process.
    pub exit: tokio::sync::oneshot::Receiver<i32>,
}

/// The node, as the API server sees it.
#[async_trait]
pub trait NodeBackend: Send + Sync + 'static {
    /// Streams a container's log.
    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        options: LogOptions,
    ) -> Result<BoxStream<'static, std::io::Result<Bytes>>, BackendError>;

    /// Starts a command in a running container.
    async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        command: Vec<String>,
        stdin: bool,
    ) -> Result<ExecSession, BackendError>;

    /// Applies a fault to a pod; it is in force on return.
    async fn fault(&self, order: Order) -> Result<Done, BackendError>;

    /// The faults in force.
    fn faults(&self) -> Vec<Done>;

    /// Reverts faults; returns those that were in force.
    async fn undo(&self, which: Undo) -> Result<Vec<Done>, BackendError>;

    /// Opens a TCP connection to a port of localhost, as the pod sees it.
    async fn forward(&self, namespace: &str, pod: &str, port: u16) -> Result<TcpStream, BackendError>;

    /// Opens a TCP connection from inside the cluster network (to a pod IP or a Service's cluster IP).
    async fn dial(&self, address: SocketAddr) -> Result<TcpStream, BackendError>;
}
