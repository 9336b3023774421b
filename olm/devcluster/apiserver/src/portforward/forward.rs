//! One connection: connects a client's stream to a port of a pod.

use std::sync::Arc;

use bytes::Bytes;
use olm_devcluster_machinery::backend::NodeBackend;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};

use super::frame::PIECE;

/// Queue length towards a pod. A full queue blocks the whole session of the client, as in the kubelet.
pub(super) const INBOUND: usize = 4;
/// Queue length of frames towards a client.
pub(super) const OUTBOUND: usize = 32;

/// The pod to connect to.
pub(crate) struct Target {
    pub(super) backend: Arc<dyn NodeBackend>,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) uid: String,
}

/// Output of one connection: encoded frames for the queue of its session.
pub(super) struct Output {
    pub(super) queue: mpsc::Sender<Vec<u8>>,
    pub(super) id: u32,
    /// Encodes a piece; an empty one is the end.
    pub(super) encode: fn(u32, &[u8]) -> Vec<u8>,
}

impl Output {
    /// Fails when the session has ended.
    async fn send(&self, bytes: &[u8]) -> Result<(), CloseCause> {
        self.queue.send((self.encode)(self.id, bytes)).await.map_err(|_| CloseCause::Session)
    }
}

/// Cause of an early end of a connection.
enum CloseCause {
    Session,
    Pod(std::io::Error),
}

/// Connects and copies until both directions have ended.
///
/// # Errors
/// The failure between node and pod, in the wording of the kubelet.
pub(super) async fn run(
    target: &Target,
    port: u16,
    mut inbound: mpsc::Receiver<Bytes>,
    output: &Output,
) -> Result<(), String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("error forwarding port {port} to pod {}, uid {}: {why}", target.pod, target.uid)
    };
    let connected = target.backend.forward(&target.namespace, &target.pod, port).await;
    let mut stream = connected.map_err(|error| failed(&error))?;
    let (mut from_pod, mut to_pod) = stream.split();
    let upload = async move {
        while let Some(bytes) = inbound.recv().await {
            // A pod that closed its reading side may still send data.
            if to_pod.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to_pod.shutdown().await;
        Ok(())
    };
    let download = async {
        let mut buffer = vec![0; PIECE];
        loop {
            let length = from_pod.read(&mut buffer).await.map_err(CloseCause::Pod)?;
            output.send(&buffer[..length]).await?;
            if length == 0 {
                return Ok(());
            }
        }
    };
    match tokio::try_join!(upload, download) {
        Ok(_) | Err(CloseCause::Session) => Ok(()),
        Err(CloseCause::Pod(error)) => Err(failed(&error)),
    }
}
