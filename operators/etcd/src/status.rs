//! The status of a cluster, a pure function of what was seen and decided. Conditions are set to False with their
//! reason, never silently dropped.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::crd::{Condition, EtcdClusterStatus, MembersStatus};
use crate::names::{self, CLIENT_PORT};
use crate::observed::{Memory, Observed};
use crate::plan::{Action, Decision, Progress, assess};
use crate::validate::{InvalidSpec, Validated};

/// What the operator remembers, read from the status.
#[must_use]
pub fn memory(status: &EtcdClusterStatus) -> Memory {
    Memory {
        cluster_id: status.cluster_id.clone().filter(|id| !id.is_empty()),
        pending: status.pending_member.clone().filter(|name| !name.is_empty()),
        version: status.current_version.clone(),
        voters: usize::try_from(status.size).unwrap_or_default(),
    }
}

/// The status of a cluster whose spec cannot be served. Everything else stays as it was: the members keep running.
#[must_use]
pub fn refused(
    old: &EtcdClusterStatus,
    error: &InvalidSpec,
    generation: Option<i64>,
    now: Timestamp,
) -> EtcdClusterStatus {
    let mut status = old.clone();
    status.observed_generation = generation;
    let mut conditions = Conditions { old, generation, now, new: old.conditions.clone() };
    conditions.set("SpecAccepted", false, "InvalidSpec", &error.to_string());
    conditions.set("Progressing", false, "InvalidSpec", "nothing is done until the spec is corrected");
    status.conditions = conditions.new;
    status
}

/// The status after a look and a decision.
#[must_use]
pub fn status(
    old: &EtcdClusterStatus,
    cluster: &Validated,
    seen: &Observed,
    decision: &Decision,
) -> EtcdClusterStatus {
    let mut memory = memory(old);
    if let Some(Action::Remember(new)) = &decision.action {
        memory = new.clone();
    }
    let health = assess(seen);
    if let Some(health) = &health {
        memory.voters = health.voters.len();
    }
    let goal = &cluster.goal;
    // Before there is a cluster, what the first pod was made for is what is wanted.
    let running = if memory.version.is_empty() { String::new() } else { memory.version.clone() };
    let upgrade = !running.is_empty() && running != goal.version;

    let mut members = MembersStatus::default();
    for pod in seen.pods.iter().filter(|pod| !pod.ended) {
        let id = seen.endpoints.get(&pod.name).map(|e| e.member_id);
        let serves = health.as_ref().zip(id).is_some_and(|(health, id)| health.is_healthy(id)) && pod.ready;
        if serves { &mut members.ready } else { &mut members.unready }.push(pod.name.clone());
    }

    let failed = decision.progress == Progress::DataLost;
    let phase = if failed {
        "Failed"
    } else if memory.cluster_id.is_some() {
        "Running"
    } else {
        "Creating"
    };
    let mut conditions =
        Conditions { old, generation: cluster.generation, now: seen.now, new: old.conditions.clone() };
    let message = message(cluster, decision);
    let size = format!("Current cluster size: {}, desired cluster size: {}", memory.voters, goal.size);
    let summary =
        health.as_ref().map(|h| format!("{} of {} members are healthy", h.healthy(), h.voters.len()));

    match (&summary, decision.progress.clone()) {
        (Some(text), _) if memory.cluster_id.is_some() => {
            conditions.set("Available", true, "ClusterAvailable", text)
        }
        (_, Progress::DataLost) => conditions.set("Available", false, "DataLost", &message),
        _ if memory.cluster_id.is_none() => conditions.set("Available", false, "Creating", &message),
        _ => conditions.set("Available", false, "QuorumLost", &message),
    }
    let (active, reason) = match decision.progress {
        Progress::Creating => (true, "Creating"),
        Progress::ScalingUp => (true, "ScalingUp"),
        Progress::ScalingDown => (true, "ScalingDown"),
        Progress::Healing => (true, "Recovering"),
        Progress::Paused => (false, "Paused"),
        Progress::Steady => (false, "AsDesired"),
        Progress::QuorumLost => (false, "QuorumLost"),
        Progress::DataLost => (false, "DataLost"),
        Progress::Stuck => (false, "Stuck"),
    };
    conditions.set("Progressing", active, decision.blocked.filter(|_| active).unwrap_or(reason), &message);
    let degraded = decision.blocked.or(match decision.progress {
        Progress::Healing => Some("MemberLost"),
        _ => None,
    });
    conditions.set(
        "Degraded",
        degraded.is_some(),
        degraded.unwrap_or("AsExpected"),
        if degraded.is_some() { &message } else { "" },
    );
    match decision.progress {
        Progress::ScalingUp => conditions.set("Scaling", true, "ScalingUp", &size),
        Progress::ScalingDown => conditions.set("Scaling", true, "ScalingDown", &size),
        _ if memory.voters == goal.size => conditions.set("Scaling", false, "SizeReached", &size),
        _ => conditions.set("Scaling", false, reason, &size),
    }
    let healing = decision.progress == Progress::Healing;
    let (why, text) = if healing { ("ReplacingDeadMember", message.as_str()) } else { ("NothingLost", "") };
    conditions.set("Recovering", healing, why, text);
    if upgrade {
        let text = format!(
            "the members run etcd {running} and go on doing so: this release does not change the version of a running cluster, a later one will. \
             Set spec.version back to {running}"
        );
        conditions.set("Upgrading", false, "UpgradeNotSupported", &text);
    } else {
        conditions.set("Upgrading", false, "VersionAsDesired", "");
    }
    if cluster.notes.is_empty() {
        conditions.set("SpecAccepted", true, "Valid", "");
    } else {
        conditions.set("SpecAccepted", true, "ValidWithNotes", &cluster.notes.join("; "));
    }

    EtcdClusterStatus {
        phase: phase.into(),
        reason: if failed { message } else { String::new() },
        control_paused: goal.paused,
        observed_generation: cluster.generation,
        size: i64::try_from(memory.voters).unwrap_or(i64::MAX),
        ready_members: i64::try_from(members.ready.len()).unwrap_or(i64::MAX),
        members,
        service_name: names::client_service(&cluster.name),
        client_port: Some(CLIENT_PORT.into()),
        target_version: if upgrade { goal.version.clone() } else { String::new() },
        current_version: running,
        cluster_id: memory.cluster_id,
        pending_member: memory.pending,
        selector: names::cluster_selector(&cluster.name),
        conditions: conditions.new,
    }
}

/// The words of the decision, with the commands that help where the object's name is needed for them.
fn message(cluster: &Validated, decision: &Decision) -> String {
    let (namespace, name, text) = (&cluster.namespace, &cluster.name, &decision.message);
    let hint = match decision.progress {
        Progress::DataLost => format!(
            ". The data of the majority is lost, and this release cannot restore a backup (EtcdRestore comes with a later one). \
             To start again empty: kubectl -n {namespace} delete etcdcluster {name}, then apply its manifest again"
        ),
        Progress::QuorumLost => {
            let selector = names::cluster_selector(name);
            format!(". Look: kubectl -n {namespace} describe pods -l {selector}")
        }
        _ => return text.clone(),
    };
    // What was told before and still holds has its hint.
    if text.ends_with(&hint) { text.clone() } else { format!("{text}{hint}") }
}

struct Conditions<'a> {
    old: &'a EtcdClusterStatus,
    generation: Option<i64>,
    now: Timestamp,
    new: Vec<Condition>,
}

impl Conditions<'_> {
    fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { "True" } else { "False" };
        let old = self.old.condition(type_);
        let same_status = old.filter(|c| c.status == status);
        let same = same_status.filter(|c| c.reason == reason && c.message == message);
        let condition = Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: same_status
                .and_then(|c| c.last_transition_time.clone())
                .or(Some(Time(self.now))),
            last_update_time: same.and_then(|c| c.last_update_time.clone()).or(Some(Time(self.now))),
            observed_generation: self.generation,
        };
        match self.new.iter_mut().find(|c| c.type_ == type_) {
            Some(place) => *place = condition,
            None => self.new.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::validate::{tests::cluster, validate};

    fn nothing_seen() -> Observed {
        Observed {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            pods: Vec::new(),
            endpoints: BTreeMap::new(),
            fresh_name: "orders-bcdfghjklm".into(),
        }
    }

    fn decide(cluster: &Validated, status: &EtcdClusterStatus, seen: &Observed) -> Decision {
        crate::plan::plan(&cluster.goal, &memory(status), seen)
    }

    #[test]
    fn a_new_cluster_is_being_created() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let old = EtcdClusterStatus::default();
        let seen = nothing_seen();
        let new = status(&old, &cluster, &seen, &decide(&cluster, &old, &seen));
        assert_eq!((new.phase.as_str(), new.service_name.as_str()), ("Creating", "orders-client"));
        assert_eq!(new.condition("Available").unwrap().reason, "Creating");
        assert_eq!(new.condition("Progressing").unwrap().status, "True");
        assert_eq!(new.observed_generation, Some(4));
    }

    #[test]
    fn lost_data_tells_the_next_command_and_nothing_is_done() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let old = EtcdClusterStatus {
            cluster_id: Some("abc".into()),
            size: 3,
            current_version: "3.4.23".into(),
            ..EtcdClusterStatus::default()
        };
        let seen = nothing_seen();
        let decision = decide(&cluster, &old, &seen);
        assert_eq!(decision.action, None);
        let new = status(&old, &cluster, &seen, &decision);
        assert_eq!(new.phase, "Failed");
        let available = new.condition("Available").unwrap();
        assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "DataLost"));
        assert!(
            available.message.contains("kubectl -n shop delete etcdcluster orders"),
            "{}",
            available.message
        );
        assert_eq!(new.cluster_id.as_deref(), Some("abc"));
    }

    #[test]
    fn the_same_look_twice_is_the_same_status() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let seen = nothing_seen();
        let old = EtcdClusterStatus::default();
        let first = status(&old, &cluster, &seen, &decide(&cluster, &old, &seen));
        let later = Observed { now: "2026-01-01T01:00:00Z".parse().unwrap(), ..nothing_seen() };
        let second = status(&first, &cluster, &later, &decide(&cluster, &first, &later));
        assert_eq!(first, second);
    }

    #[test]
    fn another_version_is_reported_and_not_acted_on() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 1, "version": "3.5.26" }))).unwrap();
        let old = EtcdClusterStatus {
            cluster_id: Some("abc".into()),
            current_version: "3.4.23".into(),
            ..EtcdClusterStatus::default()
        };
        let seen = nothing_seen();
        let new = status(&old, &cluster, &seen, &decide(&cluster, &old, &seen));
        assert_eq!((new.current_version.as_str(), new.target_version.as_str()), ("3.4.23", "3.5.26"));
        assert_eq!(new.condition("Upgrading").unwrap().reason, "UpgradeNotSupported");
    }

    #[test]
    fn a_refused_spec_leaves_the_rest_of_the_status_alone() {
        let old = EtcdClusterStatus { phase: "Running".into(), size: 3, ..EtcdClusterStatus::default() };
        let error = InvalidSpec(vec!["spec.TLS: no".into()]);
        let new = refused(&old, &error, Some(7), nothing_seen().now);
        assert_eq!((new.phase.as_str(), new.size, new.observed_generation), ("Running", 3, Some(7)));
        assert_eq!(new.condition("SpecAccepted").unwrap().message, "spec.TLS: no");
    }
}
