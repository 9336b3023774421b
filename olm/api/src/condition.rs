//! Conditions, in one format for the status of every kind.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::{empty_as_none, null_as_default, string_enum};

string_enum! {
    /// Status of a condition.
    ConditionStatus {
        /// The condition holds.
        True = "True",
        /// The condition does not hold.
        False = "False",
        /// The status is not known.
        Unknown = "Unknown",
    }
    default Unknown, unknown Unknown, schema open
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type of the condition.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ConditionStatus,
    /// Machine-readable reason.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message.
    #[serde(deserialize_with = "empty_as_none", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The observed generation of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When any field of the condition last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the condition was last confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
}

impl Condition {
    /// A condition without times; [`set`] fills them in.
    pub fn new(
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()).filter(|r| !r.is_empty()),
            message: Some(message.into()).filter(|m| !m.is_empty()),
            ..Self::default()
        }
    }

    /// Whether the condition holds.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Inserts a condition, or replaces the one of the same type. The transition time is retained while the
/// status is unchanged. Returns whether anything but times changed, so that the caller can skip a redundant
/// write.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Timestamp) -> bool {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) => {
            let same = old.status == new.status
                && old.reason == new.reason
                && old.message == new.message
                && old.observed_generation == new.observed_generation;
            if same {
                return false;
            }
            if new.last_transition_time.is_none() {
                new.last_transition_time = match (&old.last_transition_time, old.status == new.status) {
                    (Some(time), true) => Some(time.clone()),
                    _ => Some(Time(now)),
                };
            }
            *old = new;
            true
        }
        None => {
            new.last_transition_time.get_or_insert(Time(now));
            conditions.push(new);
            true
        }
    }
}

/// Removes the condition of a type; returns whether it existed.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|c| c.type_ != type_);
    conditions.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_is_kept_while_the_status_stays() {
        // given a condition set at second 1
        let mut list = vec![];
        assert!(set(&mut list, Condition::new("Resolved", true, "Ok", ""), at(1)));
        // when the reason changes but not the status
        assert!(set(&mut list, Condition::new("Resolved", true, "StillOk", "fine"), at(2)));
        // then the transition time is the first one
        assert_eq!(find(&list, "Resolved").unwrap().last_transition_time, Some(Time(at(1))));
        // when nothing changes
        assert!(!set(&mut list, Condition::new("Resolved", true, "StillOk", "fine"), at(3)));
        // when the status changes
        assert!(set(&mut list, Condition::new("Resolved", false, "Broken", ""), at(4)));
        assert_eq!(list[0].last_transition_time, Some(Time(at(4))));
        assert!(remove(&mut list, "Resolved"));
        assert!(list.is_empty());
    }
}
