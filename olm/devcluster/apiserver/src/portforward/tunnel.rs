//! A WebSocket as a byte stream: kubectl's SPDY in binary messages.

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::tungstenite::Message;

use crate::websocket::{WebSocket, closing};

/// Buffer size of each direction.
const BUFFER: usize = 64 << 10;

/// Runs a session over a WebSocket, and closes the WebSocket after it.
pub(super) async fn serve<F: Future<Output = ()>>(
    socket: WebSocket,
    session: impl FnOnce(DuplexStream) -> F,
) {
    let (bytes, ours) = tokio::io::duplex(BUFFER);
    let (mut from_session, mut to_session) = tokio::io::split(ours);
    let (mut sink, mut stream) = socket.split();
    let inbound = async {
        while let Some(Ok(message)) = stream.next().await {
            match message {
                Message::Binary(bytes) if to_session.write_all(&bytes).await.is_ok() => {}
                Message::Ping(_) | Message::Pong(_) => {}
                _ => break,
            }
        }
        // The session reads the end of the stream and ends too.
        let _ = to_session.shutdown().await;
        std::future::pending().await
    };
    let outbound = async {
        let mut buffer = vec![0; BUFFER];
        while let Ok(length @ 1..) = from_session.read(&mut buffer).await {
            if sink.send(Message::Binary(buffer[..length].to_vec().into())).await.is_err() {
                return;
            }
        }
        let _ = sink.send(closing()).await;
    };
    tokio::select! {
        () = inbound => {}
        ((), ()) = async { tokio::join!(session(bytes), outbound) } => {}
    }
}
