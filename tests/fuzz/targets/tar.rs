//! Any bytes are an archive or are not; unpacking one writes nothing outside of its directory and no more
//! than the limit.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use olm_catalog_sources::{Limits, DirectorySelection, unpack_tar};

/// Output limit for a small input.
const MOST_BYTES: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let outer = tempfile::tempdir().expect("there is room for a folder");
    let inner = outer.path().join("unpacked");
    std::fs::create_dir(&inner).expect("a folder can be made");
    let limits = Limits { unpacked_bytes: MOST_BYTES, ..Limits::default() };
    let unpacked = unpack_tar(bytes, &DirectorySelection::everything(), &inner, &limits);
    let size = size_of(&inner);
    assert!(size <= MOST_BYTES, "{size} bytes were written: {unpacked:?}");
    let beside = std::fs::read_dir(outer.path()).expect("it can be read").count();
    assert_eq!(beside, 1, "something was written outside");
});

fn size_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("it can be read").map(|entry| entry.expect("it can be read"));
    entries
        .map(|entry| {
            let metadata = std::fs::symlink_metadata(entry.path()).expect("it is there");
            assert!(!metadata.is_symlink(), "a link was made: {}", entry.path().display());
            if metadata.is_dir() { size_of(&entry.path()) } else { metadata.len() }
        })
        .sum()
}
