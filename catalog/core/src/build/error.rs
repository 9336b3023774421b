//! Errors of a catalog build.

use std::path::PathBuf;

use crate::problem::Problem;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("failed to read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("failed to write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    /// The directory contains nothing to build a catalog from.
    #[error(
        "{path} contains no bundles, expected NAME/VERSION/manifests and NAME/VERSION/metadata in it or in \
         its directory operators/"
    )]
    Nothing { path: PathBuf },
    /// Problems in a strict build.
    #[error("{}", list(.0))]
    Problems(
        /// All problems, errors and warnings.
        Vec<Problem>,
    ),
}

/// Maximum number of problems in a message.
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
