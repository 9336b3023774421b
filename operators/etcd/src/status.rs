//! The status of a cluster: a pure function of observation and decision. Conditions are set to False with
//! their reason, never silently dropped.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{self, Facts};
use crate::crd::{
    Condition, CorruptionStatus, EtcdClusterStatus, LearnerFailure, MemberStatus, MembersStatus,
};
use crate::names::{self, CLIENT_PORT};
use crate::observed::{Corruption, Failure, Memory, Observed};
use crate::plan::{Action, Decision, Goal, Health, Progress, Removal, Upgrade, assess, upgrade};
use crate::survivor;
use crate::validate::{InvalidSpec, Validated};

const LEARNER: &str = "Learner";

/// The operator's memory, read from the status.
#[must_use]
pub fn memory(status: &EtcdClusterStatus) -> Memory {
    let cluster_id = status.cluster_id.clone().filter(|id| !id.is_empty());
    let voters = usize::try_from(status.size).unwrap_or_default();
    let mut members: Vec<String> =
        status.member_list.iter().filter(|m| m.role != LEARNER).map(|m| m.name.clone()).collect();
    // coreos/etcd-operator wrote names of pods, and no ids.
    if status.member_list.is_empty() {
        members = status.members.ready.iter().chain(&status.members.unready).cloned().collect();
    }
    Memory {
        taken_over: cluster_id.is_none() && status.phase == "Running",
        cluster_id,
        pending: status.pending_member.clone().filter(|name| !name.is_empty()),
        version: status.current_version.clone(),
        voters,
        members,
        failure: status.learner_failure.as_ref().and_then(|failure| {
            let at = failure.time.as_ref()?.0;
            Some(Failure { at, generation: failure.generation, reason: failure.reason.clone() })
        }),
        maintenance: status.maintenance.as_ref().map(Into::into).unwrap_or_default(),
        auth_enabled: status.auth_enabled,
        corruption: status.corruption.as_ref().map(|known| Corruption {
            cluster_id: known.cluster_id.clone(),
            wrong: known.members.iter().cloned().collect(),
        }),
    }
}

/// The status of a cluster with an invalid spec. All other fields stay unchanged: the members keep running.
#[must_use]
pub fn refused(
    old: &EtcdClusterStatus,
    error: &InvalidSpec,
    generation: Option<i64>,
    now: Timestamp,
) -> EtcdClusterStatus {
    let mut status = old.clone();
    status.observed_generation = generation;
    if status.cluster_id.is_none() && status.phase != "Running" {
        // As coreos/etcd-operator reports it; a corrected spec clears it.
        (status.phase, status.reason) = ("Failed".into(), error.to_string());
    }
    let mut conditions = Conditions { old, generation, now, new: old.conditions.clone() };
    conditions.set("SpecAccepted", false, "InvalidSpec", &error.to_string());
    conditions.set(
        "Progressing",
        false,
        "InvalidSpec",
        "reconciliation is suspended until the spec is corrected",
    );
    status.conditions = conditions.new;
    status
}

/// The status of a cluster whose Services or claims Kubernetes rejects, or which may not be read. All other
/// fields stay unchanged.
pub(crate) fn unprepared(
    old: &EtcdClusterStatus,
    why: &str,
    generation: Option<i64>,
    now: Timestamp,
) -> EtcdClusterStatus {
    let mut status = old.clone();
    status.observed_generation = generation;
    if status.phase.is_empty() {
        status.phase = "Creating".into();
    }
    let mut conditions = Conditions { old, generation, now, new: old.conditions.clone() };
    conditions.set("Degraded", true, "ActionFailed", why);
    conditions.set("Progressing", false, "ActionFailed", "reconciliation is blocked; see condition Degraded");
    status.conditions = conditions.new;
    status
}

/// The status after an observation and a decision.
#[must_use]
pub fn status(
    old: &EtcdClusterStatus,
    cluster: &Validated,
    observed: &Observed,
    decision: &Decision,
) -> EtcdClusterStatus {
    let mut memory = memory(old);
    if let Some(Action::Remember(new)) = &decision.action {
        memory = (**new).clone();
    }
    let health = assess(observed);
    if let Some(health) = &health {
        memory.voters = health.voters.len();
        memory.version = common_version(observed, health).unwrap_or(memory.version);
    }
    let goal = &cluster.goal;
    let upgrade = upgrade(goal, &memory, observed, health.as_ref());
    let message = message(cluster, decision, &memory, observed);
    let facts = Facts {
        cluster,
        memory: &memory,
        observed,
        health: health.as_ref(),
        upgrade: &upgrade,
        decision,
        message: &message,
    };
    let mut conditions =
        Conditions { old, generation: cluster.generation, now: observed.now, new: old.conditions.clone() };
    conditions::all(&facts, &mut conditions);

    let mut members = MembersStatus::default();
    for pod in observed.pods.iter().filter(|pod| !pod.ended) {
        let id = observed.endpoints.get(&pod.name).map(|e| e.member_id);
        let healthy = health.as_ref().zip(id).is_some_and(|(health, id)| health.is_healthy(id));
        let serves = healthy && pod.ready || observed.serves_silently(&pod.name);
        if serves { &mut members.ready } else { &mut members.unready }.push(pod.name.clone());
    }
    let failed = decision.progress == Progress::DataLost;
    let phase = match () {
        () if failed => "Failed",
        // A cluster without a recorded id may hold data all the same: it is not bootstrapped again.
        () if memory.cluster_id.is_some() || memory.taken_over || !observed.silent.is_empty() => "Running",
        () => "Creating",
    };
    let refused = matches!(upgrade, Upgrade::Refused { .. });
    let going = matches!(upgrade, Upgrade::Going { .. });
    EtcdClusterStatus {
        phase: phase.into(),
        reason: if failed { message } else { String::new() },
        control_paused: goal.paused,
        observed_generation: cluster.generation,
        size: i64::try_from(memory.voters).unwrap_or(i64::MAX),
        ready_members: i64::try_from(members.ready.len()).unwrap_or(i64::MAX),
        members,
        member_list: member_list(old, observed, health.as_ref()),
        service_name: names::client_service(&cluster.name),
        client_port: Some(CLIENT_PORT.into()),
        target_version: if refused || going { goal.version.clone() } else { String::new() },
        current_version: memory.version,
        cluster_id: memory.cluster_id,
        pending_member: memory.pending,
        learner_failure: learner_failure(old, observed, decision, goal, memory.voters),
        selector: names::cluster_selector(&cluster.name),
        conditions: conditions.new,
        // Written by the `tls` module.
        tls: old.tls.clone(),
        maintenance: memory.maintenance.status(),
        auth_enabled: memory.auth_enabled,
        corruption: memory.corruption.map(|known| CorruptionStatus {
            cluster_id: known.cluster_id,
            members: known.wrong.into_iter().collect(),
        }),
    }
}

/// Number of learners, by the status.
pub(crate) fn learners(status: &EtcdClusterStatus) -> usize {
    status.member_list.iter().filter(|m| m.role == LEARNER).count()
}

/// The version that all members run; none while they differ or one of them does not answer.
fn common_version(observed: &Observed, health: &Health<'_>) -> Option<String> {
    let mut versions =
        health.voters.iter().map(|m| Some(&observed.endpoints.get(m.pod.as_deref()?)?.version));
    let first = versions.next()??;
    versions.all(|version| version == Some(first)).then(|| first.clone())
}

fn member_list(
    old: &EtcdClusterStatus,
    observed: &Observed,
    health: Option<&Health<'_>>,
) -> Vec<MemberStatus> {
    let Some(health) = health else {
        let unknown = |m: &MemberStatus| {
            let healthy = observed.serves_silently(&m.name);
            MemberStatus { healthy, version: String::new(), ..m.clone() }
        };
        return old.member_list.iter().map(unknown).collect();
    };
    let mut list: Vec<MemberStatus> = health
        .voters
        .iter()
        .chain(&health.learners)
        .map(|m| {
            let endpoint = m.pod.as_ref().and_then(|name| observed.endpoints.get(name));
            let role = if m.is_learner {
                LEARNER
            } else if m.id == health.leader {
                "Leader"
            } else {
                "Voter"
            };
            MemberStatus {
                name: m.pod.clone().unwrap_or_else(|| m.peer_url.clone()),
                id: format!("{:x}", m.id),
                role: role.into(),
                version: endpoint.map(|e| e.version.clone()).unwrap_or_default(),
                healthy: health.is_healthy(m.id) || (m.is_learner && endpoint.is_some()),
            }
        })
        .collect();
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

/// A member that did not join stays recorded until the size is reached.
fn learner_failure(
    old: &EtcdClusterStatus,
    observed: &Observed,
    decision: &Decision,
    goal: &Goal,
    voters: usize,
) -> Option<LearnerFailure> {
    if let Some(Action::RemoveMember { name, why: Removal::LateLearner(reason), .. }) = &decision.action
        && decision.blocked.is_none()
    {
        return Some(LearnerFailure {
            name: name.clone(),
            reason: reason.clone(),
            time: Some(Time(observed.now)),
            generation: goal.generation,
        });
    }
    old.learner_failure.clone().filter(|_| voters < goal.size)
}

/// The message of the decision, with the commands that help where they need the object's name.
fn message(cluster: &Validated, decision: &Decision, memory: &Memory, observed: &Observed) -> String {
    let (namespace, name, text) = (&cluster.namespace, &cluster.name, &decision.message);
    let hint = match decision.progress {
        Progress::DataLost => {
            let source = observed.backup.as_ref().and_then(|backup| backup.source.as_ref());
            let claim = survivor::newest(memory, observed).map(|survivor| {
                let source = serde_json::json!({ "fromClaim": survivor.name });
                let (found, manifest) = (survivor.describe(observed), restore_manifest(name, Some(&source)));
                format!(
                    " {found}. To restore from the claim: kubectl -n {namespace} create -f - <<<'{manifest}'."
                )
            });
            format!(
                ". The operator makes no changes, because the remaining data may be the only copy.{} To \
                 restore a backup: kubectl -n {namespace} create -f - <<<'{}'. To start with an empty \
                 cluster: kubectl -n {namespace} delete etcdcluster {name}, then apply its manifest again",
                claim.unwrap_or_default(),
                restore_manifest(name, source)
            )
        }
        Progress::QuorumLost => {
            let selector = names::cluster_selector(name);
            format!(". hint: kubectl -n {namespace} describe pods -l {selector}")
        }
        _ => return text.clone(),
    };
    // A repeated message already has its hint.
    if text.ends_with(&hint) { text.clone() } else { format!("{text}{hint}") }
}

/// An EtcdRestore to copy: of the last known backup, otherwise with placeholders.
fn restore_manifest(name: &str, source: Option<&serde_json::Value>) -> String {
    let unknown = || serde_json::json!({ "backupStorageType": "S3", "s3": { "path": "BUCKET/KEY", "awsSecret": "SECRET" } });
    let mut spec = source.cloned().unwrap_or_else(unknown);
    spec["etcdCluster"] = serde_json::json!({ "name": name });
    serde_json::json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore",
        // A restore runs once: each has a name of its own.
        "metadata": { "generateName": format!("{name}-") }, "spec": spec,
    })
    .to_string()
}

/// Sets one condition of a complete status.
pub(crate) fn set_condition(
    status: &mut EtcdClusterStatus,
    old: &EtcdClusterStatus,
    (generation, now): (Option<i64>, Timestamp),
    (type_, holds, reason, message): (&str, bool, &str, &str),
) {
    let new = std::mem::take(&mut status.conditions);
    let mut conditions = Conditions { old, generation, now, new };
    conditions.set(type_, holds, reason, message);
    status.conditions = conditions.new;
}

/// Conditions being written over the previous ones.
pub(crate) struct Conditions<'a> {
    old: &'a EtcdClusterStatus,
    generation: Option<i64>,
    now: Timestamp,
    new: Vec<Condition>,
}

impl Conditions<'_> {
    /// Whether the condition exists, from now or before.
    pub(crate) fn has(&self, type_: &str) -> bool {
        self.new.iter().any(|condition| condition.type_ == type_)
    }

    pub(crate) fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
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
mod tests;
