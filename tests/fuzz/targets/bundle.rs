//! Any files are a bundle or are not; validating one never fails.
//!
//! The input is split into files at lines that start with `@`, which contain the path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_bundle::Bundle;

fuzz_target!(|bytes: &[u8]| {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"@") {
            Some(path) => files.push((String::from_utf8_lossy(path).trim().to_owned(), Vec::new())),
            None => match files.last_mut() {
                Some((_, content)) => content.extend_from_slice(line),
                None => files.push(("manifests/csv.yaml".to_owned(), line.to_vec())),
            },
        }
    }
    if let Ok(bundle) = Bundle::from_files("fuzz", files) {
        bundle.validate();
    }
});
