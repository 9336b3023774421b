//! Upload of a snapshot: never buffered as a whole, never visible before it is verified as whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use object_store::multipart::PartId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::snapshot::{Damage, Snapshot, VerifiedSnapshot};
use super::store::{Labels, Store, Upload};

/// No progress for this long is a failure.
pub const STALL: Duration = Duration::from_secs(60);
/// Timeout for the abort of a failed upload; otherwise a later attempt aborts it.
const ABORT: Duration = Duration::from_secs(10);

/// Why a snapshot was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("failed to {verb} {what}: {message}")]
    Store {
        verb: &'static str,
        what: String,
        /// The store's own message.
        message: String,
        /// The object does not exist.
        missing: bool,
    },
    /// A key that every store rejects.
    #[error("unusable key {key:?}: {why}")]
    Key { key: String, why: String },
    /// The source broke off.
    #[error("failed to read the snapshot: {0}")]
    Source(String),
    /// It ended but is not whole.
    #[error("the snapshot is damaged: {0}")]
    Damaged(#[from] Damage),
    /// No progress.
    #[error("{what} stalled for {} seconds after {bytes} bytes", .after.as_secs())]
    Stalled {
        /// Source or store.
        what: &'static str,
        bytes: u64,
        after: Duration,
    },
    /// The user's deadline is exceeded.
    #[error("timed out after the {} seconds of spec.backupPolicy.timeoutInSecond", .0.as_secs())]
    Timeout(Duration),
    /// The stored size differs from the sent size.
    #[error("the store has {found} bytes of {what}, expected {sent}")]
    Size {
        what: String,
        /// In the store.
        found: u64,
        sent: u64,
    },
    /// The operator stops.
    #[error("the operator was stopped; the next instance restarts the backup")]
    Cancelled,
    /// The encryption or decryption key is missing.
    #[error("{0}")]
    Sealed(String),
    /// The upload could not be recorded, and an unrecorded upload does not start.
    #[error("{0}")]
    Note(String),
}

/// Receives key and id of an upload in parts before any part is sent, so that it can be aborted after a
/// crash.
pub type OnUploadStart<'a> = &'a (dyn Fn(String, String) -> BoxFuture<'a, Result<(), String>> + Send + Sync);

/// Progress, cancellation and limits of an upload.
#[derive(Debug, Clone)]
pub struct UploadNotes {
    /// Bytes read so far.
    pub progress: Arc<AtomicU64>,
    pub cancel: CancellationToken,
    /// The user's deadline.
    pub timeout: Option<Duration>,
    /// See [`STALL`].
    pub stall: Duration,
}

impl Default for UploadNotes {
    fn default() -> Self {
        Self { progress: Arc::default(), cancel: CancellationToken::new(), timeout: None, stall: STALL }
    }
}

/// Stores a snapshot under `key`.
/// # Errors
/// When it did not arrive whole; then the store has nothing of it.
pub async fn store_snapshot(
    store: &Store,
    key: &str,
    labels: &Labels,
    pieces: impl Stream<Item = Result<Bytes, String>> + Send,
    notes: &UploadNotes,
    on_start: OnUploadStart<'_>,
) -> Result<VerifiedSnapshot, Failure> {
    let mut upload = None;
    let work = UploadTask { store, key, labels, notes };
    let deadline = async {
        match notes.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = work.run(pieces, &mut upload, on_start) => result,
        () = notes.cancel.cancelled() => Err(Failure::Cancelled),
        () = deadline => Err(Failure::Timeout(notes.timeout.unwrap_or_default())),
    };
    let id = upload.and_then(|upload| upload.id().map(str::to_owned));
    if let (Err(_), Some(id)) = (&result, id) {
        match tokio::time::timeout(ABORT, store.abort(key, &id)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(key, %error, "failed to abort the upload, will retry"),
            Err(_) => tracing::warn!(key, "timed out aborting the upload, will retry"),
        }
    }
    result
}

struct UploadTask<'a> {
    store: &'a Store,
    key: &'a str,
    labels: &'a Labels,
    notes: &'a UploadNotes,
}

impl UploadTask<'_> {
    async fn run(
        &self,
        pieces: impl Stream<Item = Result<Bytes, String>> + Send,
        upload: &mut Option<Upload>,
        on_start: OnUploadStart<'_>,
    ) -> Result<VerifiedSnapshot, Failure> {
        let mut snapshot = Snapshot::default();
        let mut sealer = self.store.sealer()?;
        let parts = Parts { work: self, tasks: JoinSet::new(), done: Vec::new(), sent: 0 };
        let mut sink = PartWriter { work: self, upload, on_start, part: Part::default(), parts, bytes: 0 };
        futures::pin_mut!(pieces);
        while let Some(piece) = self.moves("the snapshot", snapshot.size(), pieces.next()).await? {
            let piece = piece.map_err(Failure::Source)?;
            snapshot.push(&piece);
            self.notes.progress.store(snapshot.size(), Ordering::Relaxed);
            match &mut sealer {
                Some(sealer) => sink.take_all(sealer.push(&piece)?).await?,
                None => sink.take(piece).await?,
            }
        }
        let whole = snapshot.finish()?;
        if let Some(sealer) = sealer {
            sink.take_all(sealer.finish()?).await?;
        }
        let sent = sink.finish().await?;
        let stored = self.moves("the store", sent, self.store.head(self.key)).await??;
        let found = stored.map_or(0, |stored| stored.size);
        if found != sent {
            return Err(Failure::Size { what: self.key.to_owned(), found, sent });
        }
        Ok(whole)
    }

    async fn moves<T>(
        &self,
        what: &'static str,
        bytes: u64,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let after = self.notes.stall;
        tokio::time::timeout(after, work).await.map_err(|_| Failure::Stalled { what, bytes, after })
    }
}

/// Fills parts from pieces and tracks the parts in transfer.
struct PartWriter<'a, 'b> {
    work: &'a UploadTask<'a>,
    upload: &'a mut Option<Upload>,
    on_start: OnUploadStart<'b>,
    part: Part,
    parts: Parts<'a>,
    /// Bytes received.
    bytes: u64,
}

impl PartWriter<'_, '_> {
    async fn take_all(&mut self, pieces: Vec<Bytes>) -> Result<(), Failure> {
        for piece in pieces {
            self.take(piece).await?;
        }
        Ok(())
    }

    async fn take(&mut self, mut piece: Bytes) -> Result<(), Failure> {
        self.bytes += piece.len() as u64;
        while !piece.is_empty() {
            let full = self.work.store.part();
            self.part.fill(&mut piece, full);
            if self.part.0.len() < full {
                continue;
            }
            let upload = match self.upload {
                Some(upload) => upload,
                None => {
                    let UploadTask { store, key, labels, .. } = *self.work;
                    let begun = self.work.moves("the store", self.bytes, store.begin(key, labels)).await??;
                    let upload = self.upload.insert(begun);
                    if let Some(id) = upload.id() {
                        (self.on_start)(key.to_owned(), id.to_owned()).await.map_err(Failure::Note)?;
                    }
                    upload
                }
            };
            self.parts.send(upload, std::mem::take(&mut self.part), self.bytes).await?;
        }
        Ok(())
    }

    /// Completes the object; returns its size.
    async fn finish(mut self) -> Result<u64, Failure> {
        let UploadTask { store, key, labels, .. } = *self.work;
        match self.upload {
            None => {
                let put = store.put(key, labels, self.part.0.into());
                self.work.moves("the store", self.bytes, put).await??;
            }
            Some(upload) => {
                if !self.part.0.is_empty() {
                    self.parts.spawn(upload, self.part);
                }
                let done = self.parts.finish(self.bytes).await?;
                let complete = store.complete(key, upload, labels, done);
                self.work.moves("the store", self.bytes, complete).await??;
            }
        }
        Ok(self.bytes)
    }
}

/// A part being filled. Pieces are copied into it while they are in the processor's cache, and their memory
/// is reused: that is faster than keeping them until the part is written.
#[derive(Default)]
struct Part(Vec<u8>);

impl Part {
    /// Copies what fits; all parts but the last have the same size, as some servers require.
    fn fill(&mut self, piece: &mut Bytes, full: usize) {
        if self.0.capacity() == 0 {
            self.0.reserve_exact(full);
        }
        let taken = piece.split_to(piece.len().min(full - self.0.len()));
        self.0.extend_from_slice(&taken);
    }
}

/// Parts in transfer.
struct Parts<'a> {
    work: &'a UploadTask<'a>,
    tasks: JoinSet<(usize, Result<PartId, Failure>)>,
    done: Vec<(usize, PartId)>,
    sent: usize,
}

impl Parts<'_> {
    fn spawn(&mut self, upload: &mut Upload, part: Part) {
        let UploadTask { store, key, .. } = *self.work;
        let index = self.sent;
        let offset = (index * store.part()) as u64;
        self.sent += 1;
        let sent = store.put_part(key, upload, index, offset, part.0.into());
        self.tasks.spawn(async move { (index, sent.await) });
    }

    async fn send(&mut self, upload: &mut Upload, part: Part, bytes: u64) -> Result<(), Failure> {
        while self.tasks.len() >= self.work.store.at_once() {
            self.one(bytes).await?;
        }
        self.spawn(upload, part);
        Ok(())
    }

    /// Waits for any part.
    async fn one(&mut self, bytes: u64) -> Result<(), Failure> {
        let Some(result) = self.work.moves("the store", bytes, self.tasks.join_next()).await? else {
            return Ok(());
        };
        let (index, part) = result.map_err(|error| Failure::Source(error.to_string()))?;
        self.done.push((index, part?));
        Ok(())
    }

    async fn finish(mut self, bytes: u64) -> Result<Vec<PartId>, Failure> {
        while !self.tasks.is_empty() {
            self.one(bytes).await?;
        }
        self.done.sort_by_key(|(index, _)| *index);
        Ok(self.done.into_iter().map(|(_, part)| part).collect())
    }
}
