//! Bounds of the objects that the manager writes: none is larger than 900 KB. Pure.
//!
//! | content | bound |
//! |---|---|
//! | objects of a bundle | finding `ObjectTooLarge`; a ClusterServiceVersion leaves room for its annotations and status ([`olm_plan::MOST_BYTES`]) |
//! | `olm.targetNamespaces`, OperatorGroup `status.namespaces` | [`TARGETS`]; beyond it none are written, condition `TooManyNamespaces` |
//! | ClusterServiceVersion `status.requirementStatus` | [`REQUIREMENTS`], unmet ones first |
//! | conditions | a fixed number of types; of a ClusterServiceVersion 20 phases; texts of [`TEXT`] |
//! | InstallPlan `status.plan`, annotations | 1,000 steps without manifests; 128 KiB of digests |
//! | Operator `status.components.refs` | [`COMPONENTS`]; `remainingItemCount` counts the rest |
//! | Subscription | one catalog, one plan, a fixed number of conditions |
//! | events | [`NOTE`] |
//! | revisions | InstallPlans, five and three of a Subscription; no other objects |
//!
//! Every write is also checked before it is sent ([`check`]).

use serde::Serialize;

/// Maximum bytes of a message of a condition or of a status.
pub const TEXT: usize = 2_000;

/// The API server accepts notes of events of at most 1,024 bytes.
pub const NOTE: usize = 1_000;

/// Maximum bytes of the names of target namespaces, joined by commas: operators read them from an environment
/// variable, and Linux starts no process with one longer than 128 KiB.
pub const TARGETS: usize = 120_000;

/// Approximate maximum bytes of `status.requirementStatus` of a version.
pub const REQUIREMENTS: usize = 60_000;

/// Approximate maximum bytes of `status.components.refs` of an Operator.
pub const COMPONENTS: usize = 400_000;

#[derive(Debug, thiserror::Error)]
#[error(
    "refused to write {} KB to {path}, expected at most {} KB",
    .bytes / 1000, olm_plan::MOST_BYTES / 1000
)]
pub struct TooLarge {
    path: String,
    bytes: u64,
}

/// Refuses a request that is too large.
pub fn check(path: &str, bytes: u64) -> Result<(), TooLarge> {
    if usize::try_from(bytes).is_ok_and(|bytes| bytes <= olm_plan::MOST_BYTES) {
        return Ok(());
    }
    Err(TooLarge { path: path.to_owned(), bytes })
}

/// Cuts a text to at most `max` bytes at a character boundary, and marks the cut.
pub fn truncate(text: &str, max: usize) -> String {
    const MORE: char = '…';
    if text.len() <= max {
        return text.to_owned();
    }
    let mut out = text[..text.floor_char_boundary(max.saturating_sub(MORE.len_utf8()))].to_owned();
    out.push(MORE);
    out
}

/// The longest prefix of a list with at most `max` bytes as JSON, and the number of the omitted items.
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

/// Whether the target namespaces fit into an environment variable of the operator.
pub fn fit(namespaces: &[String]) -> bool {
    namespaces.iter().map(|name| name.len() + 1).sum::<usize>() <= TARGETS
}

#[cfg(test)]
mod tests;
