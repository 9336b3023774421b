//! Reads a whole snapshot, as the later restore does, and returns its metadata.

use std::time::Duration;

use futures::StreamExt;

use crate::crd::restore::SnapshotStatus;
use crate::storage::{Failure, LABEL_CLUSTER, LABEL_REVISION, LABEL_VERSION, Snapshot, Store};

/// Reads the snapshot; no progress for `stall` is a failure.
/// # Errors
/// [`Failure::Damaged`] when it is not whole; other failures may be temporary.
pub(crate) async fn verify(store: &Store, key: &str, stall: Duration) -> Result<SnapshotStatus, Failure> {
    let stalled = |bytes: u64| Failure::Stalled { what: "the store", bytes, after: stall };
    let found = tokio::time::timeout(stall, store.get(key)).await;
    let mut found = found.map_err(|_| stalled(0))??;
    let mut snapshot = Snapshot::default();
    loop {
        let next = tokio::time::timeout(stall, found.pieces.next()).await;
        match next.map_err(|_| stalled(snapshot.size()))? {
            Some(piece) => snapshot.push(&piece?),
            None => break,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::tests::{Fault, S3, fake_snapshot};

    #[tokio::test]
    async fn a_broken_or_silent_store_is_distinguished_from_a_damaged_snapshot() {
        let s3 = S3::start().await;
        let (store, stall) = (s3.open("bucket/etcd"), crate::storage::STALL);
        let whole = fake_snapshot(1 << 20, 3);
        let file = s3.dir.path().join("bucket/etcd");
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(verify(&store, "etcd", stall).await.unwrap().size_bytes, whole.len() as i64);

        s3.fail(Some(Fault::Cut));
        let broken = verify(&store, "etcd", stall).await.unwrap_err();
        assert!(matches!(broken, Failure::Source(_)), "it may be whole the next time: {broken:?}");
        s3.fail(Some(Fault::Mute));
        let short = Duration::from_millis(300);
        let mute = verify(&store, "etcd", short).await.unwrap_err();
        assert_eq!(mute, Failure::Stalled { what: "the store", bytes: 0, after: short });
        s3.fail(None);
        // The object itself is short: a permanent failure.
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(verify(&store, "etcd", stall).await, Err(Failure::Damaged(_))));
    }
}
