//! Port forwarding in the channels of a WebSocket (`v4.channel.k8s.io`), as in kube-rs and the Python client.
//!
//! The port with index i has channel 2i for data and 2i + 1 for an error. The first message of each channel
//! is the port, as a little-endian number. A client ends its connections together, by closing the WebSocket.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_tungstenite::tungstenite::Message;

use super::forward::{self, INBOUND, OUTBOUND, Output, Target};
use crate::{
    request::Query,
    status::{ApiError, ApiResult},
    websocket::{WebSocket, closing},
};

/// Limit from channel numbers of one byte.
const MAX_PORTS: usize = 128;
/// Timeout of the closing handshake of the WebSocket.
const CLOSING: Duration = Duration::from_secs(5);

/// The ports of a request: `ports=80,443`, or the parameter repeated.
pub(super) fn ports(query: &Query) -> ApiResult<Vec<u16>> {
    let mut ports = Vec::new();
    for text in query.all("ports").flat_map(|list| list.split(',')) {
        let port = text.parse().ok().filter(|port| *port > 0);
        ports.push(port.ok_or_else(|| ApiError::bad_request(format!("unable to parse {text:?} as a port")))?);
    }
    match ports.len() {
        0 => Err(ApiError::bad_request("query parameter \"ports\" is required")),
        1..=MAX_PORTS => Ok(ports),
        _ => Err(ApiError::bad_request(format!("too many ports, expected at most {MAX_PORTS}"))),
    }
}

/// Serves until all connections have ended or the client closes the WebSocket.
pub(super) async fn serve(socket: WebSocket, ports: Vec<u16>, target: Arc<Target>) {
    let (mut sink, mut stream) = socket.split();
    let (queue, mut messages) = mpsc::channel::<Vec<u8>>(OUTBOUND);
    let (mut senders, mut forwards) = (Vec::new(), JoinSet::new());
    for (channel, port) in (0..).step_by(2).zip(ports) {
        let (sender, inbound) = mpsc::channel(INBOUND);
        senders.push(sender);
        forwards.spawn(forward(channel, port, inbound, queue.clone(), Arc::clone(&target)));
    }
    drop(queue);
    let reading = async {
        while let Some(Ok(message)) = stream.next().await {
            let mut bytes: Bytes = match message {
                Message::Binary(bytes) if !bytes.is_empty() => bytes,
                Message::Close(_) => return,
                _ => continue,
            };
            let channel = usize::from(bytes.split_to(1)[0]);
            // Input on error channels, and for connections that have ended, is ignored.
            if channel.is_multiple_of(2)
                && let Some(sender) = senders.get(channel / 2)
                && !bytes.is_empty()
            {
                let _ = sender.send(bytes).await;
            }
        }
    };
    let writing = async {
        while let Some(message) = messages.recv().await {
            if sink.send(Message::Binary(message.into())).await.is_err() {
                return;
            }
        }
        let _ = sink.send(closing()).await;
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
    // A client that has closed the WebSocket waits for the closing frame.
    let _ = tokio::time::timeout(CLOSING, sink.close()).await;
}

/// One connection, from the announcement of its port to its error.
async fn forward(
    channel: u32,
    port: u16,
    inbound: mpsc::Receiver<Bytes>,
    queue: mpsc::Sender<Vec<u8>>,
    target: Arc<Target>,
) {
    for id in [channel, channel + 1] {
        let _ = queue.send(message(id, &port.to_le_bytes())).await;
    }
    let output = Output { queue: queue.clone(), id: channel, encode: message };
    if let Err(error) = forward::run(&target, port, inbound, &output).await {
        let _ = queue.send(message(channel + 1, error.as_bytes())).await;
    }
}

fn message(channel: u32, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.extend(u8::try_from(channel));
    message.extend_from_slice(bytes);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_query() {
        let of = |query: &str| ports(&Query::parse(query)).map_err(|error| error.message().to_owned());
        assert_eq!(of("ports=80,443&ports=8080"), Ok(vec![80, 443, 8080]));
        for wrong in ["", "ports=", "ports=0", "ports=65536", "ports=a", "ports=80,"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let many = |count: usize| format!("ports={}", vec!["1"; count].join(","));
        assert!(of(&many(MAX_PORTS)).is_ok() && of(&many(MAX_PORTS + 1)).is_err());
    }
}
