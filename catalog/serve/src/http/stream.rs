//! A catalog's documents as a response body, generated while it is sent, never in memory as a whole.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use olm_catalog::Catalog;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use super::conditional::Encoding;
use super::documents::DocumentFilter;
use super::text;

/// Chunk size in bytes; a larger document is sent in one chunk.
const PART: usize = 64 * 1024;
/// Chunks buffered ahead of the client.
const AHEAD: usize = 4;
/// Timeout for a client that reads nothing: it holds a thread.
const STALLED: Duration = Duration::from_secs(60);

enum Part {
    Bytes(Bytes),
    Failed(String),
    /// The stream is complete. Without this marker the body is cut off, so that the client detects the
    /// truncation.
    End,
}

/// The documents as JSON lines.
/// An error before the first chunk is returned as an answer; a later one breaks the connection.
pub(super) async fn body(
    catalog: Arc<Catalog>,
    selection: DocumentFilter,
    encoding: Encoding,
    streams: Arc<Semaphore>,
) -> Result<Body, Response> {
    let failed = |message: &str| text(StatusCode::INTERNAL_SERVER_ERROR, message);
    let permit = streams.acquire_owned().await.map_err(|_| failed("the server is shutting down"))?;
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        // The error means that the receiver is gone.
        _ = make(&catalog, &selection, encoding, |part| {
            let sent = handle.block_on(async { tokio::time::timeout(STALLED, sender.send(part)).await });
            matches!(sent, Ok(Ok(()))).then_some(()).ok_or(ReceiverClosed)
        });
    });
    let first = match receiver.recv().await {
        Some(Part::Bytes(bytes)) => bytes,
        Some(Part::End) => return Ok(Body::empty()),
        Some(Part::Failed(message)) => return Err(failed(&message)),
        None => return Err(failed("failed to read the catalog")),
    };
    let rest = futures::stream::unfold(Some(receiver), |receiver| async {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Part::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Part::End) => None,
            Some(Part::Failed(message)) => Some((Err(io::Error::other(message)), None)),
            None => Some((Err(io::Error::other("the remainder of the catalog was not read")), None)),
        }
    });
    Ok(Body::from_stream(futures::StreamExt::chain(futures::stream::iter([Ok(first)]), rest)))
}

/// The receiver is gone.
struct ReceiverClosed;

fn make(
    catalog: &Catalog,
    selection: &DocumentFilter,
    encoding: Encoding,
    mut send: impl FnMut(Part) -> Result<(), ReceiverClosed>,
) -> Result<(), ReceiverClosed> {
    let mut lines = Lines::new(encoding);
    for document in catalog.documents(&selection.filter) {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                tracing::error!(catalog = catalog.origin, %error, "failed to serve a catalog");
                return send(Part::Failed(format!("failed to read the catalog: {error}")));
            }
        };
        if selection.has(&document) {
            lines.push(&document);
        }
        if let Some(part) = lines.take(PART) {
            send(Part::Bytes(part))?;
        }
    }
    if let Some(part) = lines.end() {
        send(Part::Bytes(part))?;
    }
    send(Part::End)
}

/// Buffered lines, plain or compressed.
enum Lines {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Lines {
    fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Identity => Self::Plain(Vec::new()),
            // Compressed for every request: half the size for a tenth of the work is sufficient.
            Encoding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
        }
    }

    fn push(&mut self, document: &[u8]) {
        match self {
            Self::Plain(out) => {
                out.extend_from_slice(document);
                out.push(b'\n');
            }
            Self::Gzip(encoder) => {
                let written = encoder.write_all(document).and_then(|()| encoder.write_all(b"\n"));
                written.expect("a Vec takes every byte");
            }
        }
    }

    /// The buffered bytes, if they reach `enough`.
    fn take(&mut self, enough: usize) -> Option<Bytes> {
        let out = match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.get_mut(),
        };
        (out.len() >= enough).then(|| std::mem::take(out).into())
    }

    /// The rest.
    fn end(self) -> Option<Bytes> {
        let rest = match self {
            Self::Plain(out) => out,
            Self::Gzip(encoder) => encoder.finish().expect("a Vec takes every byte"),
        };
        (!rest.is_empty()).then(|| rest.into())
    }
}
