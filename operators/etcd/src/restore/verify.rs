//! Reads a snapshot whole, as it will be read again later, and says what it is.

use futures::StreamExt;

use crate::crd::restore::SnapshotStatus;
use crate::storage::{Failure, LABEL_CLUSTER, LABEL_REVISION, LABEL_VERSION, STALL, Snapshot, Store};

/// Reads it.
///
/// # Errors
/// [`Failure::Damaged`] when it is not whole; anything else may be better later.
pub(crate) async fn verify(store: &Store, key: &str) -> Result<SnapshotStatus, Failure> {
    let mut found = store.get(key).await?;
    let mut snapshot = Snapshot::default();
    loop {
        let next = tokio::time::timeout(STALL, found.pieces.next()).await;
        let stalled = Failure::Stalled { what: "the store", bytes: snapshot.size(), after: STALL };
        match next.map_err(|_| stalled)? {
            Some(piece) => snapshot.push(&piece.map_err(Failure::Source)?),
            None => break,
        }
    }
    if snapshot.size() < found.stored.size {
        // The connection ended early; the object itself may be whole.
        let text = format!("{} of {} bytes came", snapshot.size(), found.stored.size);
        return Err(Failure::Source(text));
    }
    let whole = snapshot.finish()?;
    let label = |name: &str| found.stored.labels.get(name).cloned();
    Ok(SnapshotStatus {
        size_bytes: i64::try_from(whole.size).unwrap_or(i64::MAX),
        sha256: whole.sha256,
        revision: label(LABEL_REVISION).and_then(|text| text.parse().ok()),
        etcd_version: label(LABEL_VERSION).unwrap_or_default(),
        cluster_id: label(LABEL_CLUSTER).unwrap_or_default(),
    })
}
