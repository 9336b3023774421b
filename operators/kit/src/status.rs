//! The status of an object: what its plan reports, and the conditions `Ready` and `Stalled` of kstatus.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What a reconciliation reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report<'a> {
    pub(crate) ready: bool,
    pub(crate) stalled: bool,
    /// Reason of condition `Ready`, and of `Stalled` when it is true.
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Longest message of a condition in the API.
const LONGEST: usize = 32_768;

/// The next status. `planned` are the fields of the plan; conditions of others in the old status stay.
pub(crate) fn next(
    old: &Value,
    planned: Map<String, Value>,
    report: Report<'_>,
    generation: Option<i64>,
    now: Timestamp,
) -> Value {
    let mut conditions: Vec<Value> = old["conditions"].as_array().cloned().unwrap_or_default();
    let stalled = if report.stalled { (report.reason, report.message) } else { ("NotStalled", "") };
    set(&mut conditions, "Ready", report.ready, (report.reason, report.message), generation, now);
    set(&mut conditions, "Stalled", report.stalled, stalled, generation, now);
    let mut status = planned;
    if let Some(generation) = generation {
        status.insert("observedGeneration".to_owned(), generation.into());
    }
    status.insert("conditions".to_owned(), conditions.into());
    Value::Object(status)
}

/// The transition time changes with the status alone.
fn set(
    conditions: &mut Vec<Value>,
    kind: &str,
    holds: bool,
    (reason, message): (&str, &str),
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let at = conditions.iter().position(|condition| condition["type"] == kind);
    let since = at
        .map(|at| &conditions[at])
        .filter(|condition| condition["status"] == status)
        .and_then(|condition| condition["lastTransitionTime"].as_str())
        .map_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), str::to_owned);
    let mut condition = json!({
        "type": kind, "status": status, "reason": reason,
        "message": message.chars().take(LONGEST).collect::<String>(), "lastTransitionTime": since,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Status and reason of condition `Ready`; a change of them is an event.
pub(crate) fn readiness(status: &Value) -> Option<(&str, &str)> {
    let ready = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Ready")?;
    Some((ready["status"].as_str()?, ready["reason"].as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    const WAITING: Report<'_> =
        Report { ready: false, stalled: false, reason: "InProgress", message: "0 of 1" };

    #[test]
    fn a_transition_time_changes_with_the_status_alone() {
        let first = next(&Value::Null, Map::new(), WAITING, Some(1), at(0));
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        let second = next(&first, Map::new(), Report { message: "1 of 2", ..WAITING }, Some(2), at(60));
        assert_eq!(second["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(second["conditions"][0]["message"], "1 of 2");
        assert_eq!(second["observedGeneration"], 2);
        let third = next(&second, Map::new(), Report { ready: true, ..WAITING }, Some(2), at(60));
        assert_eq!(third["conditions"][0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(third["conditions"][1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn the_same_report_is_the_same_status_and_conditions_of_others_stay() {
        let other = json!({ "type": "Approved", "status": "True" });
        let old = next(&json!({ "conditions": [other] }), Map::new(), WAITING, Some(1), at(0));
        assert_eq!(next(&old, Map::new(), WAITING, Some(1), at(60)), old);
        assert_eq!(old["conditions"][0]["type"], "Approved");
        assert_eq!(readiness(&old), Some(("False", "InProgress")));
    }
}
