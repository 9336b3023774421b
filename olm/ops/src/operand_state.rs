//! The state that a custom resource reports: conditions first, then the phase. Pure.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// How long a problem counts as progress while the object reports progress.
const PROGRESS: SignedDuration = SignedDuration::from_mins(5);
/// How long a new object that does not report progress may take to become ready.
const COMING_UP: SignedDuration = SignedDuration::from_secs(60);

/// The conditions that report a problem, with the status that does.
const PROBLEMS: [(&str, &str); 3] = [("Degraded", "True"), ("Available", "False"), ("Ready", "False")];

/// Fields of the status that name the state, by convention.
const PHASES: [&str; 3] = ["/status/phase", "/status/state", "/status/status"];

/// A rating of the reported state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// It serves.
    Good,
    /// It is being created or changed.
    Progressing,
    /// It serves with reduced capacity.
    Degraded,
    /// It does not serve.
    Bad,
    /// No known condition or phase rates it.
    Unknown,
}

/// The state of an object in one word, with its rating.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperandState {
    /// The reason of the condition that reports a problem, else the phase, else the conditions that are true;
    /// empty if nothing is reported.
    pub word: String,
    pub health: Health,
}

impl OperandState {
    /// The state of an object. A condition outranks a phase: the phase of many operators names a stage, and
    /// stays when the object fails later.
    #[must_use]
    pub fn of(object: &Value, created: Option<Timestamp>, now: Timestamp) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        if let Some(health) = problem_health(conditions, created, now) {
            return Self { word: problem_word(conditions, health), health };
        }
        let serves = ["Available", "Ready"].into_iter().find(|type_| has(conditions, type_, "True"));
        let text = |pointer: &&str| object.pointer(pointer)?.as_str().filter(|text| !text.is_empty());
        if let Some(phase) = PHASES.iter().find_map(text) {
            let health = match rate(phase) {
                Health::Unknown if serves.is_some() => Health::Good,
                rated => rated,
            };
            return Self { word: phase.to_owned(), health };
        }
        if let Some(type_) = serves {
            return Self { word: type_.to_owned(), health: Health::Good };
        }
        let names = conditions.iter().filter(|c| c["status"] == "True").filter_map(|c| c["type"].as_str());
        let word = names.collect::<Vec<_>>().join(", ");
        Self { health: rate(&word), word }
    }
}

/// The rating of a phase.
fn rate(phase: &str) -> Health {
    let lower = phase.to_lowercase();
    let good = ["running", "ready", "available", "healthy", "succeeded", "complete", "completed"];
    if lower.contains("fail") || lower.contains("error") {
        Health::Bad
    } else if lower.split(", ").any(|word| good.contains(&word)) {
        Health::Good
    } else {
        Health::Unknown
    }
}

/// The rating of an object whose conditions report a problem; `None` where none does.
pub(super) fn problem_health(
    conditions: &[Value],
    created: Option<Timestamp>,
    now: Timestamp,
) -> Option<Health> {
    let since = problems(conditions).map(|(condition, _)| {
        let changed = condition["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
        created.max(changed)
    });
    let since: Option<Timestamp> = since.max()?;
    let within = |time: Option<Timestamp>, limit| time.is_some_and(|time| now.duration_since(time) < limit);
    let is = |type_: &str, status: &str| has(conditions, type_, status);
    let serves = is("Available", "True") || is("Ready", "True");
    Some(if is("Degraded", "True") {
        if serves { Health::Degraded } else { Health::Bad }
    } else if is("Progressing", "True") && within(since, PROGRESS) || within(created, COMING_UP) {
        Health::Progressing
    } else {
        Health::Bad
    })
}

/// The reason of the first condition that does not hold, or what does not.
fn problem_word(conditions: &[Value], health: Health) -> String {
    if health == Health::Degraded {
        return "Degraded".to_owned();
    }
    let unavailable = problems(conditions).find(|(condition, _)| condition["status"] == "False");
    let Some((condition, _)) = unavailable else { return "Degraded".to_owned() };
    let reason = condition["reason"].as_str().filter(|reason| !reason.is_empty());
    let plain = if condition["type"] == "Ready" { "Not ready" } else { "Not available" };
    reason.unwrap_or(plain).to_owned()
}

/// The conditions that report a problem, the most general first, each as `Type=Status`.
pub(super) fn problems(conditions: &[Value]) -> impl Iterator<Item = (&Value, String)> {
    PROBLEMS.into_iter().flat_map(move |(type_, status)| {
        conditions
            .iter()
            .filter(move |condition| condition["type"] == type_ && condition["status"] == status)
            .map(move |condition| (condition, format!("{type_}={status}")))
    })
}

fn has(conditions: &[Value], type_: &str, status: &str) -> bool {
    conditions.iter().any(|condition| condition["type"] == type_ && condition["status"] == status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: Value) -> (String, Health) {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let object = json!({ "status": status });
        let created = Some(time("2026-01-01T10:00:00Z"));
        let state = OperandState::of(&object, created, time("2026-01-01T12:00:00Z"));
        (state.word, state.health)
    }

    #[test]
    fn a_cluster_without_quorum_is_not_running() {
        let lost = json!({ "phase": "Running", "conditions": [
            { "type": "Available", "status": "False", "reason": "QuorumLost" },
            { "type": "Progressing", "status": "False", "reason": "QuorumLost" },
            { "type": "Degraded", "status": "False", "reason": "AsExpected" }] });
        assert_eq!(of(lost), ("QuorumLost".into(), Health::Bad));
        let reduced = json!({ "phase": "Running", "conditions": [
            { "type": "Available", "status": "True" }, { "type": "Degraded", "status": "True" }] });
        assert_eq!(of(reduced), ("Degraded".into(), Health::Degraded));
        let creating = json!({ "phase": "Creating", "conditions": [
            { "type": "Available", "status": "False", "reason": "Creating",
                "lastTransitionTime": "2026-01-01T11:59:00Z" },
            { "type": "Progressing", "status": "True" }] });
        assert_eq!(of(creating), ("Creating".into(), Health::Progressing));
    }

    #[test]
    fn without_a_problem_the_phase_names_the_state() {
        let serves = json!([{ "type": "Available", "status": "True" }]);
        assert_eq!(of(json!({ "phase": "Running", "conditions": serves })), ("Running".into(), Health::Good));
        assert_eq!(of(json!({ "phase": "Active", "conditions": serves })), ("Active".into(), Health::Good));
        assert_eq!(of(json!({ "phase": "Failed", "conditions": serves })), ("Failed".into(), Health::Bad));
        assert_eq!(of(json!({ "state": "Pending" })), ("Pending".into(), Health::Unknown));
    }

    #[test]
    fn without_a_phase_the_conditions_name_the_state() {
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        assert_eq!(of(ready), ("Ready".into(), Health::Good));
        let not = json!({ "conditions": [{ "type": "Ready", "status": "False" }] });
        assert_eq!(of(not), ("Not ready".into(), Health::Bad));
        let others = json!({ "conditions": [{ "type": "Accepted", "status": "True" },
            { "type": "Programmed", "status": "True" }, { "type": "Expired", "status": "False" }] });
        assert_eq!(of(others), ("Accepted, Programmed".into(), Health::Unknown));
        assert_eq!(of(json!({})), (String::new(), Health::Unknown));
        // authors use conditions in other ways than Kubernetes defines
        assert_eq!(of(json!({ "conditions": { "Ready": "False" } })), (String::new(), Health::Unknown));
    }
}
