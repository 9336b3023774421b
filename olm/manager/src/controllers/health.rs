//! The conditions by which tools that know nothing of ours see health (kstatus: Argo CD, Flux, `kubectl wait`): pure.

use jiff::Timestamp;
use olm_api::{Condition, condition, names};
use olm_engine::limits::truncate;

/// How an object stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// As it should be.
    Ready,
    /// On its way, or waiting: why, in a word and in words.
    Working(String, String),
    /// It does not get on without somebody: why, in a word and in words.
    Stalled(String, String),
}

/// Sets `Ready`, and `Reconciling` or `Stalled` where one of them holds.
pub(crate) fn conditions(
    conditions: &mut Vec<Condition>,
    health: &Health,
    generation: Option<i64>,
    now: Timestamp,
) {
    let (ready, reason, message) = match health {
        Health::Ready => (true, "Ready", ""),
        Health::Working(reason, message) | Health::Stalled(reason, message) => {
            (false, reason.as_str(), message.as_str())
        }
    };
    set(conditions, names::CONDITION_READY, (ready, reason, message), generation, now);
    trouble(conditions, health, generation, now);
}

/// Sets `Reconciling` or `Stalled` where one of them holds, and leaves `Ready` to the caller. As kstatus has it, these two
/// are only there when they are true.
pub(crate) fn trouble(
    conditions: &mut Vec<Condition>,
    health: &Health,
    generation: Option<i64>,
    now: Timestamp,
) {
    let (holds, not) = (names::CONDITION_RECONCILING, names::CONDITION_STALLED);
    let (holds, not, reason, message) = match health {
        Health::Ready => {
            condition::remove(conditions, holds);
            condition::remove(conditions, not);
            return;
        }
        Health::Working(reason, message) => (holds, not, reason, message),
        Health::Stalled(reason, message) => (not, holds, reason, message),
    };
    condition::remove(conditions, not);
    set(conditions, holds, (true, reason, message), generation, now);
}

fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    (holds, reason, message): (bool, &str, &str),
    generation: Option<i64>,
    now: Timestamp,
) {
    let mut new = Condition::new(type_, holds, reason, truncate(message, 1000));
    new.observed_generation = generation;
    condition::set(conditions, new, now);
}

#[cfg(test)]
pub(crate) mod judges;
