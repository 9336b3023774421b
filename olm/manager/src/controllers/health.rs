//! The conditions by which tools that know nothing of ours see health (kstatus: Argo CD, Flux, `kubectl wait`): pure.

use jiff::Timestamp;
use olm_api::{Condition, condition, names};

use crate::context::truncate;

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

/// Sets `Ready`, and `Reconciling` or `Stalled` where one of them holds: these two are only there when they are true, as
/// kstatus has it.
pub(crate) fn conditions(
    conditions: &mut Vec<Condition>,
    health: &Health,
    generation: Option<i64>,
    now: Timestamp,
) {
    let mut set = |type_: &str, wanted: Option<(bool, &str, &str)>| match wanted {
        Some((holds, reason, message)) => {
            let mut new = Condition::new(type_, holds, reason, truncate(message, 1000));
            new.observed_generation = generation;
            condition::set(conditions, new, now);
        }
        None => drop(condition::remove(conditions, type_)),
    };
    let (ready, reconciling, stalled) = match health {
        Health::Ready => ((true, "Ready", ""), None, None),
        Health::Working(reason, message) => {
            let it = (reason.as_str(), message.as_str());
            ((false, it.0, it.1), Some((true, it.0, it.1)), None)
        }
        Health::Stalled(reason, message) => {
            let it = (reason.as_str(), message.as_str());
            ((false, it.0, it.1), None, Some((true, it.0, it.1)))
        }
    };
    set(names::CONDITION_READY, Some(ready));
    set(names::CONDITION_RECONCILING, reconciling);
    set(names::CONDITION_STALLED, stalled);
}
