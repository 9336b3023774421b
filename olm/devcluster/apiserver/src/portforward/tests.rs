//! A session with a client that behaves differently from kubectl.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    task::JoinHandle,
};

use super::{
    forward::{INBOUND, Target},
    frame::{self, Reset, tests::open},
    headers::tests::StoredBlocks,
    session,
};
use crate::tests::kubectl::FakeNode;

#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Reply(u32),
    Data(u32, String),
    End(u32),
    Reset(u32, u32),
    Pong(u32),
    GoAway(u32),
}

struct Client {
    stream: DuplexStream,
    blocks: StoredBlocks,
    session: JoinHandle<()>,
}

impl Client {
    fn start() -> Self {
        Self::start_with(session::PAIRING)
    }

    fn start_with(pairing: Duration) -> Self {
        let (stream, theirs) = tokio::io::duplex(1 << 20);
        let target = Target {
            backend: Arc::new(FakeNode),
            namespace: "default".to_owned(),
            pod: "a".to_owned(),
            uid: "1".to_owned(),
        };
        let session = tokio::spawn(session::serve(theirs, Arc::new(target), pairing));
        Self { stream, blocks: StoredBlocks::default(), session }
    }

    async fn send(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).await.unwrap();
    }

    async fn open(&mut self, stream: u32, kind: &str, port: &str, request: &str) {
        let headers = [("streamtype", kind), ("port", port), ("requestid", request)];
        let frame = open(&mut self.blocks, stream, &headers);
        self.send(&frame).await;
    }

    /// The next frame; `None` at the end of the session.
    async fn next(&mut self) -> Option<Frame> {
        let first = self.stream.read_u32().await.ok()?;
        let second = self.stream.read_u32().await.unwrap();
        let mut payload = vec![0; usize::try_from(second & 0x00ff_ffff).unwrap()];
        self.stream.read_exact(&mut payload).await.unwrap();
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        Some(match first {
            0x8003_0002 => Frame::Reply(number(0)),
            0x8003_0003 => Frame::Reset(number(0), number(4)),
            0x8003_0006 => Frame::Pong(number(0)),
            0x8003_0007 => Frame::GoAway(number(4)),
            stream if second >> 24 == 1 => Frame::End(stream),
            stream => Frame::Data(stream, String::from_utf8(payload).unwrap()),
        })
    }

    async fn expect(&mut self, frames: impl IntoIterator<Item = Frame>) {
        for frame in frames {
            assert_eq!(self.next().await, Some(frame));
        }
    }

    async fn ends(mut self) {
        assert_eq!(self.next().await, None);
        self.session.await.unwrap();
    }
}

#[tokio::test]
async fn streams_of_a_connection_find_each_other() {
    let mut client = Client::start();
    // given streams in the other order, and those of a client without request ids
    client.open(1, "data", "80", "x").await;
    client.open(3, "error", "80", "x").await;
    for (stream, kind) in [(5, "error"), (7, "data")] {
        let frame = open(&mut client.blocks, stream, &[("streamtype", kind), ("port", "80")]);
        client.send(&frame).await;
    }
    client.expect([1, 3, 5, 7].map(Frame::Reply)).await;
    for stream in [1, 7] {
        client.send(&frame::data(stream, b"hello\n")).await;
        client.expect([Frame::Data(stream, "HELLO\n".to_owned())]).await;
    }
    // when the client ends one, then it ends in order; when it resets the other one, then only its error
    // stream is left to end
    client.send(&frame::data(1, b"")).await;
    client.expect([Frame::Data(1, "BYE\n".to_owned()), Frame::End(1), Frame::End(3)]).await;
    client.send(&frame::reset(7, Reset::Cancel)).await;
    client.expect([Frame::End(5)]).await;
    client.send(&frame::ping(9)).await;
    client.expect([Frame::Pong(9)]).await;
    client.stream.shutdown().await.unwrap();
    client.ends().await;
}

#[tokio::test]
async fn a_pod_that_refuses_is_reported_on_the_error_stream() {
    let mut client = Client::start();
    client.open(1, "error", "81", "0").await;
    client.open(3, "data", "81", "0").await;
    let error =
        "error forwarding port 81 to pod a, uid 1: failed to connect to localhost:81: connection refused";
    client
        .expect([
            Frame::Reply(1),
            Frame::Reply(3),
            Frame::Data(1, error.to_owned()),
            Frame::End(1),
            Frame::Reset(3, 5),
        ])
        .await;
}

#[tokio::test]
async fn invalid_streams_are_refused() {
    let mut client = Client::start();
    client.open(2, "error", "80", "0").await;
    client.expect([Frame::Reset(2, 1)]).await;
    client.open(3, "error", "80", "0").await;
    client.expect([Frame::Reply(3)]).await;
    client.open(3, "data", "80", "0").await;
    client.expect([Frame::Reset(3, 1)]).await;
    for (stream, kind, port) in
        [(5, "stdin", "80"), (7, "data", "0"), (9, "data", "70000"), (11, "error", "80")]
    {
        client.open(stream, kind, port, "0").await;
        client.expect([Frame::Reset(stream, 3)]).await;
    }
    // Frames of unknown streams have no effect.
    client.send(&frame::data(99, b"x")).await;
    client.send(&frame::reset(99, Reset::Cancel)).await;
    client.send(&frame::ping(1)).await;
    client.expect([Frame::Pong(1)]).await;
}

#[tokio::test]
async fn streams_and_their_queues_are_limited() {
    let mut client = Client::start();
    let limit = u32::try_from(session::MAX_STREAMS).unwrap();
    for index in 0..limit {
        client.open(2 * index + 1, "data", "80", &index.to_string()).await;
        client.expect([Frame::Reply(2 * index + 1)]).await;
    }
    client.open(2 * limit + 1, "data", "80", "too many").await;
    client.expect([Frame::Reset(2 * limit + 1, 3)]).await;
    // when an unpaired stream is full, then it is reset and makes room
    for _ in 0..=INBOUND {
        client.send(&frame::data(1, b"x")).await;
    }
    client.expect([Frame::Reset(1, 3)]).await;
    client.open(2 * limit + 3, "data", "80", "fits").await;
    client.expect([Frame::Reply(2 * limit + 3)]).await;
}

#[tokio::test]
async fn an_unpaired_stream_expires() {
    let mut client = Client::start_with(Duration::from_millis(50));
    client.open(1, "error", "80", "7").await;
    client.expect([Frame::Reply(1)]).await;
    let expired = "(request=7) timed out waiting for streams";
    let end = [Frame::Data(1, expired.to_owned()), Frame::End(1), Frame::Reset(1, 5)];
    client.expect(end).await;
}

#[tokio::test]
async fn a_violation_ends_the_session() {
    for hostile in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff]] {
        let mut client = Client::start();
        client.send(hostile).await;
        // The first one resembles the beginning of a long DATA frame, which the end of the input cuts off.
        client.stream.shutdown().await.unwrap();
        match client.next().await {
            None | Some(Frame::GoAway(1)) => {}
            other => panic!("{other:?}"),
        }
        client.ends().await;
    }
}
