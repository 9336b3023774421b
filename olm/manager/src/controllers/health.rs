//! The conditions by which generic tools determine health (kstatus: Argo CD, Flux, `kubectl wait`). Pure.

use jiff::Timestamp;
use olm_api::{Condition, condition, names};
use olm_engine::limits::truncate;

/// The health of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    Ready,
    /// In progress or waiting: reason and message.
    Working(String, String),
    /// Blocked until a user acts: reason and message.
    Stalled(String, String),
}

/// Sets `Ready`, and `Reconciling` or `Stalled` where one of them is true.
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
    set_abnormal_conditions(conditions, health, generation, now);
}

/// Sets `Reconciling` or `Stalled` where one of them is true, and leaves `Ready` to the caller. As in
/// kstatus, these two exist only while they are true.
pub(crate) fn set_abnormal_conditions(
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
