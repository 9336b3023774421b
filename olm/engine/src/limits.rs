//! How large what the manager writes may get: no object of more than 900 KB. Pure.
//!
//! | what may grow | its bound |
//! |---|---|
//! | what a bundle brings | finding `ObjectTooLarge`; a ClusterServiceVersion leaves room for its annotations and status ([`olm_plan::MOST_BYTES`]) |
//! | `olm.targetNamespaces`, OperatorGroup `status.namespaces` | [`TARGETS`]: more are none, condition `TooManyNamespaces` |
//! | ClusterServiceVersion `status.requirementStatus` | [`REQUIREMENTS`], what is not met first |
//! | conditions | a fixed number of types; of a ClusterServiceVersion 20 phases; texts of [`TEXT`] |
//! | InstallPlan `status.plan`, annotations | 1,000 steps without manifests; 128 KiB of digests |
//! | Operator `status.components.refs` | [`COMPONENTS`]; `remainingItemCount` says how many more there are |
//! | Subscription | one catalog, one plan, a fixed number of conditions |
//! | events | [`NOTE`] |
//! | revisions | InstallPlans, five and three of a Subscription; nothing else is kept of them |
//!
//! What gets around all of that is stopped at the edge ([`check`]).

use serde::Serialize;

/// A message of a condition or of a status has at most this many bytes.
pub const TEXT: usize = 2_000;

/// The API server takes notes of events of 1,024 bytes.
pub const NOTE: usize = 1_000;

/// Names of target namespaces, with commas between them, have at most this many bytes: operators read them from a variable of their
/// environment, and Linux starts no process with a longer one than 128 KiB.
pub const TARGETS: usize = 120_000;

/// `status.requirementStatus` of a version has about as many bytes at most.
pub const REQUIREMENTS: usize = 60_000;

/// `status.components.refs` of an Operator has about as many bytes at most.
pub const COMPONENTS: usize = 400_000;

/// An object is not written.
#[derive(Debug, thiserror::Error)]
#[error(
    "refused to write {} KB to {path}, expected at most {} KB",
    .bytes / 1000, olm_plan::MOST_BYTES / 1000
)]
pub struct TooLarge {
    path: String,
    bytes: u64,
}

/// Whether a request of this size may be sent.
pub fn check(path: &str, bytes: u64) -> Result<(), TooLarge> {
    if usize::try_from(bytes).is_ok_and(|bytes| bytes <= olm_plan::MOST_BYTES) {
        return Ok(());
    }
    Err(TooLarge { path: path.to_owned(), bytes })
}

/// Cuts a text to at most `max` bytes, at a character, and says so.
pub fn truncate(text: &str, max: usize) -> String {
    const MORE: char = '…';
    if text.len() <= max {
        return text.to_owned();
    }
    let mut out = text[..text.floor_char_boundary(max.saturating_sub(MORE.len_utf8()))].to_owned();
    out.push(MORE);
    out
}

/// The first of a list that have at most `max` bytes as JSON, and how many more there are.
pub fn within<T: Serialize>(mut list: Vec<T>, max: usize) -> (Vec<T>, usize) {
    let mut bytes = 0;
    let kept = list
        .iter()
        .take_while(|item| {
            bytes += serde_json::to_vec(item).map_or(0, |json| json.len() + 1);
            bytes <= max
        })
        .count();
    let more = list.len() - kept;
    list.truncate(kept);
    (list, more)
}

/// Whether target namespaces can be told to an operator.
pub fn fit(namespaces: &[String]) -> bool {
    namespaces.iter().map(|name| name.len() + 1).sum::<usize>() <= TARGETS
}

#[cfg(test)]
mod tests;
