//! Format of a snapshot: a bolt database, then its SHA-256. etcd appends the hash; it is sufficient to detect
//! a truncated or changed snapshot.

use bytes::Bytes;
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

/// Pages of the database are multiples of this.
const SECTOR: u64 = 512;
/// Length of the header of the first page, before the magic number.
const MAGIC_AT: usize = 16;
/// bolt's magic number, as little-endian machines write it.
const MAGIC: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();

/// Verifies a snapshot as a stream; buffers only its end.
pub struct Snapshot {
    hash: Context,
    /// The last bytes, which may be the trailer; at most its length.
    tail: Vec<u8>,
    head: Vec<u8>,
    size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSnapshot {
    /// Size in bytes, with the trailer.
    pub size: u64,
    /// SHA-256 of the database.
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("not an etcd snapshot, or truncated: {0} bytes")]
    Size(u64),
    /// Not a database.
    #[error("not an etcd database (bolt's magic number is missing)")]
    Magic,
    #[error("SHA-256 is {found}, expected {expected} as written by etcd: truncated or modified")]
    Hash {
        /// Computed from the data.
        found: String,
        /// From etcd's trailer.
        expected: String,
    },
    /// The stored object was changed.
    #[error("decryption failed at byte {0}: modified, reordered or incomplete")]
    Changed(u64),
    /// The stored object is truncated.
    #[error("encrypted snapshot truncated after {0} bytes")]
    Unended(u64),
    /// The stored object is not encrypted although encryption is required.
    #[error(
        "not encrypted, expected an encrypted snapshot because spec.encryption is set; another writer may \
         have replaced it"
    )]
    Plain,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { hash: Context::new(&SHA256), tail: Vec::new(), head: Vec::new(), size: 0 }
    }
}

impl Snapshot {
    pub fn push(&mut self, piece: &Bytes) {
        self.size += piece.len() as u64;
        let wanted = (MAGIC_AT + MAGIC.len()).saturating_sub(self.head.len());
        self.head.extend(piece.iter().take(wanted));
        // All but the last 32 bytes received so far are certainly not the trailer.
        let all = self.tail.len() + piece.len();
        let sure = all.saturating_sub(SHA256_OUTPUT_LEN);
        let from_tail = sure.min(self.tail.len());
        self.hash.update(&self.tail[..from_tail]);
        self.tail.drain(..from_tail);
        self.hash.update(&piece[..sure - from_tail]);
        self.tail.extend_from_slice(&piece[sure - from_tail..]);
    }

    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Verifies the complete snapshot.
    /// # Errors
    /// When it is not a whole snapshot.
    pub fn finish(self) -> Result<VerifiedSnapshot, Damage> {
        let trailer = SHA256_OUTPUT_LEN as u64;
        if self.size < SECTOR + trailer || self.size % SECTOR != trailer {
            return Err(Damage::Size(self.size));
        }
        if self.head.get(MAGIC_AT..) != Some(&MAGIC[..]) {
            return Err(Damage::Magic);
        }
        let (found, expected) = (hex(self.hash.finish().as_ref()), hex(&self.tail));
        if found != expected {
            return Err(Damage::Hash { found, expected });
        }
        Ok(VerifiedSnapshot { size: self.size, sha256: found })
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake_snapshot;
    use super::*;
    use proptest::prelude::*;

    fn verified(bytes: &[u8], piece: usize) -> Result<VerifiedSnapshot, Damage> {
        let mut snapshot = Snapshot::default();
        for part in bytes.chunks(piece.max(1)) {
            snapshot.push(&Bytes::copy_from_slice(part));
        }
        snapshot.finish()
    }

    #[test]
    fn whole_truncated_and_changed_snapshots_are_distinguished() {
        let good = fake_snapshot(8192, 1);
        assert_eq!(verified(&good, 1000).unwrap().size, 8192 + 32);
        assert!(matches!(verified(&good[..good.len() - 32], 1000), Err(Damage::Size(8192))));
        assert!(matches!(verified(&good[..4096 + 32], 1000), Err(Damage::Hash { .. })));
        let mut changed = good.clone();
        changed[5000] ^= 1;
        assert!(matches!(verified(&changed, 1000), Err(Damage::Hash { .. })));
        let mut other = good;
        other[16] = 0;
        assert_eq!(verified(&other, 1000), Err(Damage::Magic));
        assert_eq!(verified(b"<html>", 3), Err(Damage::Size(6)));
        assert_eq!(verified(b"", 3), Err(Damage::Size(0)));
    }

    proptest! {
        #[test]
        fn how_it_is_cut_into_pieces_does_not_matter(piece in 1usize..5000) {
            let good = fake_snapshot(4096, 7);
            prop_assert_eq!(verified(&good, piece), verified(&good, good.len()));
        }

        #[test]
        fn any_changed_byte_is_found(at in 0usize..4128, flip in 1u8..) {
            let mut bytes = fake_snapshot(4096, 7);
            bytes[at] ^= flip;
            prop_assert!(verified(&bytes, 512).is_err());
        }
    }
}
