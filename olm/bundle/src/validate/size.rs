//! The size of a bundle.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Findings;
use crate::model::Bundle;
use crate::provenance::Origin;

/// Upstream stores a bundle, compressed, in one ConfigMap.
const LARGEST_COMPRESSED: u64 = 1 << 20;
/// Upstream warns beyond this percentage of it.
const NEAR_PERCENT: u64 = 85;

pub(super) fn check(bundle: &Bundle, findings: &mut Findings) {
    let size: u64 = bundle.provenance.texts().map(|text| text.len() as u64).sum();
    // A small bundle needs no compression to pass.
    if size <= LARGEST_COMPRESSED * NEAR_PERCENT / 100 {
        return;
    }
    let compressed = compressed(bundle);
    let numbers =
        format!("compressed, it has {compressed} of {LARGEST_COMPRESSED} bytes ({size} bytes as it is)");
    let fix = "shorten descriptions in the schemas, or shrink the icon";
    let mut findings = findings.of(Origin::Bundle);
    if compressed > LARGEST_COMPRESSED {
        let text = format!("{numbers}, which is too much for the ConfigMap that OLM v0 unpacks it to");
        findings.error("bundle-too-large", "", text, fix);
    } else if compressed * 100 > LARGEST_COMPRESSED * NEAR_PERCENT {
        findings.warn("bundle-nearly-too-large", "", numbers, fix);
    }
}

fn compressed(bundle: &Bundle) -> u64 {
    let mut encoder = GzEncoder::new(Count(0), Compression::default());
    for text in bundle.provenance.texts() {
        // Counting never fails.
        let _ = encoder.write_all(text.as_bytes());
    }
    encoder.finish().map_or(0, |count| count.0)
}

/// Counts the written bytes.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
