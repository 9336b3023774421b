//! Decides which images are removed from the store. Pure.

use std::time::SystemTime;

/// Unused images may take this many bytes.
pub(super) const UNUSED_BYTES: u64 = 10 << 30;

/// An image in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
    /// Its names were not all moved to other images.
    pub(super) named: bool,
    /// A container runs it.
    pub(super) in_use: bool,
}

/// The images to remove of those that no container runs: all without a name, which are earlier builds or moved
/// tags, and the least recently used of the others until the rest fits into `most` bytes.
pub(super) fn unneeded(entries: &[Entry], most: u64) -> Vec<usize> {
    let mut unused: Vec<usize> = (0..entries.len()).filter(|index| !entries[*index].in_use).collect();
    unused.sort_by_key(|index| (entries[*index].named, entries[*index].used));
    let mut bytes: u64 = unused.iter().map(|index| entries[*index].bytes).sum();
    unused
        .into_iter()
        .take_while(|index| {
            let remove = !entries[*index].named || bytes > most;
            bytes = bytes.saturating_sub(entries[*index].bytes);
            remove
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_least_recently_used_images_are_removed_until_the_rest_fits() {
        let entry = |bytes, hours: u64, in_use| Entry {
            bytes,
            used: SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3600),
            named: true,
            in_use,
        };
        let mut entries = [entry(4, 3, false), entry(5, 1, false), entry(6, 2, false), entry(90, 0, true)];
        assert_eq!(unneeded(&entries, 15), Vec::<usize>::new());
        assert_eq!(unneeded(&entries, 14), [1]);
        assert_eq!(unneeded(&entries, 9), [1, 2]);
        assert_eq!(unneeded(&entries, 0), [1, 2, 0]);
        for index in [0, 3] {
            entries[index].named = false;
        }
        assert_eq!(unneeded(&entries, 15), [0]);
        assert_eq!(unneeded(&entries, 10), [0, 1]);
    }
}
