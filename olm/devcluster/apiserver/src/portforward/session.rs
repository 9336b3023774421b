//! One SPDY session over any byte stream.
//!
//! kubectl opens two streams for each connection: `error`, then `data`. Their `requestid` pairs them.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    forward::{self, INBOUND, OUTBOUND, Output, Target},
    frame::{self, Decoder, Event, PIECE, Reset},
    headers::{EmptyBlocks, Headers},
};

/// Limit of open streams; a connection has two.
pub(super) const MAX_STREAMS: usize = 1000;
/// Timeout for the second stream of a connection, as in the kubelet.
pub(super) const PAIRING: Duration = Duration::from_secs(30);
/// Timeout for the last frames of a session.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves a client until it ends the session or violates the protocol. `pairing` limits the wait for the
/// second stream of a connection.
pub(super) async fn serve(transport: impl AsyncRead + AsyncWrite, target: Arc<Target>, pairing: Duration) {
    let (input, output) = tokio::io::split(transport);
    let (queue, frames) = mpsc::channel(OUTBOUND);
    let mut writing = pin!(write(output, frames));
    tokio::select! {
        () = &mut writing => {}
        () = Session::new(queue, target, pairing).run(input) => {
            let _ = timeout(DRAIN, writing).await;
        }
    }
}

/// Writes until the session ends or the client disconnects.
async fn write(mut output: impl AsyncWrite + Unpin, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if output.write_all(&frame).await.is_err() || (frames.is_empty() && output.flush().await.is_err()) {
            return;
        }
    }
    let _ = output.shutdown().await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Data,
}

/// The client's direction of an open stream.
struct OpenStream {
    /// `None` on error streams, and after the client's end of data.
    sender: Option<mpsc::Sender<Bytes>>,
    reset: CancellationToken,
}

/// A stream without the other one of its connection.
struct UnpairedStream {
    request: String,
    stream: u32,
    kind: Kind,
    port: u16,
    inbound: mpsc::Receiver<Bytes>,
    deadline: Instant,
}

struct Session {
    queue: mpsc::Sender<Vec<u8>>,
    target: Arc<Target>,
    pairing: Duration,
    blocks: EmptyBlocks,
    /// The latest stream that the client opened.
    last: u32,
    streams: HashMap<u32, OpenStream>,
    /// In the order of their deadlines.
    unpaired: Vec<UnpairedStream>,
    /// Connections; each returns the numbers of its streams.
    forwards: JoinSet<[u32; 2]>,
}

/// The session's queue is closed.
struct Closed;

impl Session {
    fn new(queue: mpsc::Sender<Vec<u8>>, target: Arc<Target>, pairing: Duration) -> Self {
        Self {
            queue,
            target,
            pairing,
            blocks: EmptyBlocks::default(),
            last: 0,
            streams: HashMap::new(),
            unpaired: Vec::new(),
            forwards: JoinSet::new(),
        }
    }

    async fn run(mut self, mut input: impl AsyncRead + Unpin) {
        let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::new());
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(Event::GoAway)) => return,
                Ok(Some(event)) => match self.handle(event).await {
                    Ok(()) => continue,
                    Err(Closed) => return,
                },
                Ok(None) => {}
                Err(violation) => {
                    tracing::debug!(%violation, "a port-forward session violated SPDY");
                    let _ = self.send(frame::go_away(self.last)).await;
                    return;
                }
            }
            buffer.reserve(PIECE);
            let deadline = self.unpaired.first().map(|stream| stream.deadline);
            tokio::select! {
                read = input.read_buf(&mut buffer) => {
                    if !read.is_ok_and(|length| length > 0) {
                        return;
                    }
                }
                Some(ended) = self.forwards.join_next() => {
                    ended.into_iter().flatten().for_each(|stream| drop(self.streams.remove(&stream)));
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    if self.expire().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn send(&self, frame: Vec<u8>) -> Result<(), Closed> {
        self.queue.send(frame).await.map_err(|_| Closed)
    }

    async fn handle(&mut self, event: Event) -> Result<(), Closed> {
        match event {
            Event::Open { stream, fin, headers } => self.open(stream, fin, &headers).await,
            Event::Data { stream, bytes, fin } => self.data(stream, bytes, fin).await,
            Event::Reset { stream } => {
                self.reset(stream);
                Ok(())
            }
            // Even numbers would be replies to pings of the server.
            Event::Ping { id } if id % 2 == 1 => self.send(frame::ping(id)).await,
            Event::Ping { .. } | Event::GoAway | Event::Other => Ok(()),
        }
    }

    async fn open(&mut self, stream: u32, fin: bool, headers: &Headers) -> Result<(), Closed> {
        if stream.is_multiple_of(2) || stream <= self.last {
            return self.send(frame::reset(stream, Reset::Protocol)).await;
        }
        self.last = stream;
        while let Some(ended) = self.forwards.try_join_next() {
            ended.into_iter().flatten().for_each(|stream| drop(self.streams.remove(&stream)));
        }
        let Some((kind, port)) = purpose(headers).filter(|_| self.streams.len() < MAX_STREAMS) else {
            return self.send(frame::reset(stream, Reset::Refused)).await;
        };
        let request = match headers.get("requestid") {
            Some(request) => request.clone(),
            // Clients before Kubernetes 1.2 send no `requestid` and open the streams of a connection in
            // sequence.
            None if kind == Kind::Error => stream.to_string(),
            None => stream.saturating_sub(2).to_string(),
        };
        let (sender, inbound) = mpsc::channel(INBOUND);
        let new =
            UnpairedStream { request, stream, kind, port, inbound, deadline: Instant::now() + self.pairing };
        let other = self.unpaired.iter().position(|other| other.request == new.request);
        if other.is_some_and(|index| self.unpaired[index].kind == kind) {
            return self.send(frame::reset(stream, Reset::Refused)).await;
        }
        let sender = (kind == Kind::Data && !fin).then_some(sender);
        self.streams.insert(stream, OpenStream { sender, reset: CancellationToken::new() });
        let reply = frame::reply(stream, self.blocks.next());
        self.send(reply).await?;
        match other {
            None => self.unpaired.push(new),
            Some(index) => {
                let other = self.unpaired.remove(index);
                let (error, data) = if kind == Kind::Data { (other, new) } else { (new, other) };
                self.forward(error.stream, data);
            }
        }
        Ok(())
    }

    fn forward(&mut self, error: u32, data: UnpairedStream) {
        let Some(reset) = self.streams.get(&data.stream).map(|open| open.reset.clone()) else { return };
        let (queue, target) = (self.queue.clone(), Arc::clone(&self.target));
        self.forwards.spawn(async move {
            let output = Output { queue: queue.clone(), id: data.stream, encode: frame::data };
            let outcome = tokio::select! {
                () = reset.cancelled() => Ok(()),
                outcome = forward::run(&target, data.port, data.inbound, &output) => outcome,
            };
            // A session that has ended takes no frames.
            match outcome {
                Ok(()) => drop(queue.send(frame::data(error, b"")).await),
                Err(message) => {
                    let _ = queue.send(frame::data(error, message.as_bytes())).await;
                    let _ = queue.send(frame::data(error, b"")).await;
                    let _ = queue.send(frame::reset(data.stream, Reset::Cancel)).await;
                }
            }
            [error, data.stream]
        });
    }

    async fn data(&mut self, stream: u32, bytes: Bytes, fin: bool) -> Result<(), Closed> {
        // Frames of a closed stream may still arrive; input on error streams is ignored.
        let Some(open) = self.streams.get_mut(&stream) else { return Ok(()) };
        let Some(sender) = &open.sender else { return Ok(()) };
        let waits = self.unpaired.iter().any(|other| other.stream == stream);
        let taken = match () {
            () if bytes.is_empty() => true,
            // Waiting here would deadlock: only a later frame can start the connection.
            () if waits => sender.try_send(bytes).is_ok(),
            () => sender.send(bytes).await.is_ok(),
        };
        if fin || !taken {
            open.sender = None;
        }
        if waits && !taken {
            self.reset(stream);
            return self.send(frame::reset(stream, Reset::Refused)).await;
        }
        Ok(())
    }

    /// Closes the stream, and for a data stream its connection.
    fn reset(&mut self, stream: u32) {
        if let Some(index) = self.unpaired.iter().position(|other| other.stream == stream) {
            self.unpaired.remove(index);
            self.streams.remove(&stream);
        } else if let Some(open) = self.streams.get_mut(&stream) {
            open.sender = None;
            open.reset.cancel();
        }
    }

    /// Resets the stream with the longest wait for the other one of its connection.
    async fn expire(&mut self) -> Result<(), Closed> {
        let UnpairedStream { stream, kind, request, .. } = self.unpaired.remove(0);
        self.streams.remove(&stream);
        if kind == Kind::Error {
            let message = format!("(request={request}) timed out waiting for streams");
            self.send(frame::data(stream, message.as_bytes())).await?;
            self.send(frame::data(stream, b"")).await?;
        }
        self.send(frame::reset(stream, Reset::Cancel)).await
    }
}

/// Kind and port from the headers of a stream.
fn purpose(headers: &Headers) -> Option<(Kind, u16)> {
    let kind = match headers.get("streamtype")?.as_str() {
        "error" => Kind::Error,
        "data" => Kind::Data,
        _ => return None,
    };
    let port = headers.get("port")?.parse().ok().filter(|port| *port > 0)?;
    Some((kind, port))
}
