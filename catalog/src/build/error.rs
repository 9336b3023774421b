//! Why no catalog is made.

use std::path::PathBuf;

use crate::problem::Problem;

/// Why bundles do not make a catalog.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A folder cannot be read.
    #[error("failed to read {path}: {source}")]
    Read {
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("failed to write {path}: {source}")]
    Write {
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing in the folder that a catalog can be made of.
    #[error(
        "{path} contains no bundles, expected NAME/VERSION/manifests and NAME/VERSION/metadata in it or in \
         its directory operators/"
    )]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// Something is wrong, and the catalog was to be made of all or nothing.
    #[error("{}", list(.0))]
    Problems(
        /// Everything that is wrong, errors and warnings.
        Vec<Problem>,
    ),
}

/// How many problems a message lists; a person corrects the first ones first.
const LISTED: usize = 20;

fn list(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.severity == crate::problem::Severity::Error);
    let mut lines: Vec<String> = errors.map(ToString::to_string).collect();
    let more = lines.len().saturating_sub(LISTED);
    lines.truncate(LISTED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}
