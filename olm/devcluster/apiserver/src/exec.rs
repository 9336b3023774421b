//! `pods/exec` over WebSocket: `v5.channel.k8s.io` and `v4.channel.k8s.io`.
//!
//! Each message begins with the number of its channel. In v5 the client can close a single channel, which
//! signals the end of standard input to the process.

use std::sync::Arc;

use axum::response::Response;
use futures::{SinkExt, StreamExt, stream::SplitStream};
use http::{header, request::Parts};
use olm_devcluster_machinery::backend::ExecSession;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    nodes,
    request::{Info, Query},
    state::Server,
    status::{ApiError, ApiResult},
    websocket::{Upgrade, WebSocket, closing},
};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;
const CHUNK: usize = 16 << 10;

/// Starts the command and connects it to the WebSocket.
pub(crate) async fn serve(
    server: &Arc<Server>,
    parts: &mut Parts,
    info: &Info,
    query: &Query,
) -> ApiResult<Response> {
    let command: Vec<String> = query.all("command").map(str::to_owned).collect();
    if command.is_empty() {
        return Err(ApiError::bad_request(
            "you must specify at least 1 container, stdin, stdout, or stderr and a command",
        ));
    }
    if query.flag("tty") {
        return Err(ApiError::not_implemented("pods/exec with a TTY (kubectl exec -t)"));
    }
    let upgrade = parts.headers.get(header::UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if upgrade.to_ascii_lowercase().starts_with("spdy") {
        return Err(ApiError::bad_request(
            "SPDY is not supported by the dev cluster: use a WebSocket client (kubectl 1.31 or later)",
        ));
    }
    if !upgrade.eq_ignore_ascii_case("websocket") {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    let (_, container) = nodes::pod_and_container(server, info, query.get("container"))?;
    let backend = nodes::backend(server, "pods/exec")?;
    let upgrade = Upgrade::of(parts, &["v5.channel.k8s.io", "v4.channel.k8s.io"])?;
    let stdin = query.flag("stdin");
    let session = backend
        .exec(&info.namespace, &info.name, Some(&container), command, stdin)
        .await
        .map_err(|error| nodes::backend_error(&error))?;
    let wanted = (query.flag("stdout"), query.flag("stderr"));
    let v5 = upgrade.protocol().starts_with("v5");
    let shutdown = server.shutdown.clone();
    Ok(upgrade.accept(move |socket| async move {
        tokio::select! {
            () = run(socket, session, wanted, v5) => {}
            () = shutdown.cancelled() => {}
        }
    }))
}

/// Copies in all directions until the process has exited and its output is sent.
async fn run(socket: WebSocket, session: ExecSession, (stdout, stderr): (bool, bool), v5: bool) {
    let ExecSession { stdin, stdout: out, stderr: err, exit } = session;
    let (mut sink, stream) = socket.split();
    // One writer, so that messages of both outputs and the status are sent in order.
    let (sender, mut receiver) = mpsc::channel::<Message>(16);
    let outputs = async {
        tokio::join!(
            pump(STDOUT, out, stdout.then(|| sender.clone())),
            pump(STDERR, err, stderr.then(|| sender.clone())),
        );
        let status = status_of(exit).await;
        let _ = sender.send(message(STATUS, status.to_string().as_bytes())).await;
        drop(sender);
    };
    let (gone, is_gone) = oneshot::channel();
    let input = tokio::spawn(async move {
        feed(stream, stdin, v5).await;
        let _ = gone.send(());
    });
    let write = async {
        while let Some(message) = receiver.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.send(closing()).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(outputs, write) } => {}
        // The client disconnected: dropping the session ends the process.
        _ = is_gone => {}
    }
    input.abort();
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut framed = Vec::with_capacity(bytes.len() + 1);
    framed.push(channel);
    framed.extend_from_slice(bytes);
    Message::Binary(framed.into())
}

/// Sends the output of a process. Output that was not requested is read and dropped, so that the process does
/// not block.
async fn pump(
    channel: u8,
    mut output: Box<dyn AsyncRead + Send + Unpin>,
    sender: Option<mpsc::Sender<Message>>,
) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match output.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if let Some(sender) = &sender
                    && sender.send(message(channel, &buffer[..count])).await.is_err()
                {
                    return;
                }
            }
        }
    }
}

/// Forwards the client's input until it closes the connection.
async fn feed(
    mut stream: SplitStream<WebSocket>,
    mut stdin: Option<Box<dyn tokio::io::AsyncWrite + Send + Unpin>>,
    v5: bool,
) {
    while let Some(Ok(received)) = stream.next().await {
        let bytes = match received {
            Message::Binary(bytes) => bytes,
            Message::Close(_) => return,
            _ => continue,
        };
        match bytes.first() {
            Some(&STDIN) => {
                let broken = match stdin.as_mut() {
                    Some(pipe) => pipe.write_all(&bytes[1..]).await.is_err() || pipe.flush().await.is_err(),
                    None => false,
                };
                if broken {
                    stdin = None;
                }
            }
            Some(&CLOSE) if v5 && bytes.get(1) == Some(&STDIN) => {
                if let Some(mut pipe) = stdin.take() {
                    let _ = pipe.shutdown().await;
                }
            }
            _ => {}
        }
    }
}

/// Exit status of the command, in the form that kubectl reads.
async fn status_of(exit: oneshot::Receiver<i32>) -> Value {
    match exit.await {
        Ok(0) => json!({ "metadata": {}, "status": "Success" }),
        Ok(code) => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
        }),
        Err(_) => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": "the node did not report the exit status of the command",
        }),
    }
}
