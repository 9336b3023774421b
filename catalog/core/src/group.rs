//! The documents of a package, as a catalog's index lists them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::problem::UnplacedProblem;
use crate::summary::Summary;

/// The documents of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Digest of the documents as read, to detect changes.
    pub source: String,
    /// Digest of the canonical text, in hex.
    pub digest: String,
    /// Length of the canonical text.
    pub bytes: u64,
    /// CRC-32 of the canonical text: sufficient to detect disk corruption, at a tenth of the digest's time.
    pub checksum: u32,
    /// The documents in the text, one a line: by schema, name and length without the line's end.
    pub documents: Vec<(String, Vec<(String, usize)>)>,
    /// `None` when the documents do not form an installable package.
    pub summary: Option<Summary>,
    /// Search text in addition to the summary.
    pub words: String,
    /// The names that its channels replace or skip, as `Package::replaced` computes them.
    pub replaced: Vec<u32>,
    #[serde(rename = "flaws")]
    pub problems: Vec<UnplacedProblem>,
}

impl Group {
    /// Schema, name and range of each document in the text.
    pub fn documents(&self) -> impl Iterator<Item = (&str, &str, Range<usize>)> {
        let mut start = 0;
        let all = self.documents.iter().flat_map(|(schema, named)| {
            named.iter().map(|(name, length)| (schema.as_str(), name.as_str(), *length))
        });
        all.map(move |(schema, name, length)| {
            let range = start..start + length;
            start = range.end + 1;
            (schema, name, range)
        })
    }
}
