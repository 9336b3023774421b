//! The status of a cluster, a pure function of what was seen and decided. Conditions are set to False with their
//! reason, never silently dropped.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{self, Facts};
use crate::crd::{
    Condition, CorruptionStatus, EtcdClusterStatus, LearnerFailure, MemberStatus, MembersStatus,
};
use crate::names::{self, CLIENT_PORT};
use crate::observed::{Corruption, Failure, Memory, Observed};
use crate::plan::{Action, Decision, Goal, Health, Progress, Removal, Upgrade, assess, upgrade};
use crate::validate::{InvalidSpec, Validated};

const LEARNER: &str = "Learner";

/// What the operator remembers, read from the status.
#[must_use]
pub fn memory(status: &EtcdClusterStatus) -> Memory {
    let cluster_id = status.cluster_id.clone().filter(|id| !id.is_empty());
    let voters = usize::try_from(status.size).unwrap_or_default();
    let mut members: Vec<String> =
        status.member_list.iter().filter(|m| m.role != LEARNER).map(|m| m.name.clone()).collect();
    // The predecessor wrote names of pods, and no ids.
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
    if status.cluster_id.is_none() && status.phase != "Running" {
        // As the predecessor says it; a corrected spec heals it.
        (status.phase, status.reason) = ("Failed".into(), error.to_string());
    }
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
        memory = (**new).clone();
    }
    let health = assess(seen);
    if let Some(health) = &health {
        memory.voters = health.voters.len();
        memory.version = common_version(seen, health).unwrap_or(memory.version);
    }
    let goal = &cluster.goal;
    let upgrade = upgrade(goal, &memory, seen, health.as_ref());
    let message = message(cluster, decision, seen);
    let facts = Facts {
        cluster,
        memory: &memory,
        seen,
        health: health.as_ref(),
        upgrade: &upgrade,
        decision,
        message: &message,
    };
    let mut conditions =
        Conditions { old, generation: cluster.generation, now: seen.now, new: old.conditions.clone() };
    conditions::all(&facts, &mut conditions);

    let mut members = MembersStatus::default();
    for pod in seen.pods.iter().filter(|pod| !pod.ended) {
        let id = seen.endpoints.get(&pod.name).map(|e| e.member_id);
        let healthy = health.as_ref().zip(id).is_some_and(|(health, id)| health.is_healthy(id));
        let serves = healthy && pod.ready || seen.serves_silently(&pod.name);
        if serves { &mut members.ready } else { &mut members.unready }.push(pod.name.clone());
    }
    let failed = decision.progress == Progress::DataLost;
    let phase = match () {
        () if failed => "Failed",
        // One that does not say of which cluster it is holds data all the same: it is not started anew.
        () if memory.cluster_id.is_some() || memory.taken_over || !seen.silent.is_empty() => "Running",
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
        member_list: member_list(old, seen, health.as_ref()),
        service_name: names::client_service(&cluster.name),
        client_port: Some(CLIENT_PORT.into()),
        target_version: if refused || going { goal.version.clone() } else { String::new() },
        current_version: memory.version,
        cluster_id: memory.cluster_id,
        pending_member: memory.pending,
        learner_failure: learner_failure(old, seen, decision, goal, memory.voters),
        selector: names::cluster_selector(&cluster.name),
        conditions: conditions.new,
        // Written by those who know.
        tls: old.tls.clone(),
        maintenance: memory.maintenance.status(),
        auth_enabled: memory.auth_enabled,
        corruption: memory.corruption.map(|known| CorruptionStatus {
            cluster_id: known.cluster_id,
            members: known.wrong.into_iter().collect(),
        }),
    }
}

/// How many members without a vote there were, by the status.
pub(crate) fn learners(status: &EtcdClusterStatus) -> usize {
    status.member_list.iter().filter(|m| m.role == LEARNER).count()
}

/// The version that all members run; none while they differ or one of them does not answer.
fn common_version(seen: &Observed, health: &Health<'_>) -> Option<String> {
    let mut versions = health.voters.iter().map(|m| Some(&seen.endpoints.get(m.pod.as_deref()?)?.version));
    let first = versions.next()??;
    versions.all(|version| version == Some(first)).then(|| first.clone())
}

fn member_list(old: &EtcdClusterStatus, seen: &Observed, health: Option<&Health<'_>>) -> Vec<MemberStatus> {
    let Some(health) = health else {
        let unknown = |m: &MemberStatus| {
            let healthy = seen.serves_silently(&m.name);
            MemberStatus { healthy, version: String::new(), ..m.clone() }
        };
        return old.member_list.iter().map(unknown).collect();
    };
    let mut list: Vec<MemberStatus> = health
        .voters
        .iter()
        .chain(&health.learners)
        .map(|m| {
            let endpoint = m.pod.as_ref().and_then(|name| seen.endpoints.get(name));
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

/// A member that was added in vain is remembered until the size is reached.
fn learner_failure(
    old: &EtcdClusterStatus,
    seen: &Observed,
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
            time: Some(Time(seen.now)),
            generation: goal.generation,
        });
    }
    old.learner_failure.clone().filter(|_| voters < goal.size)
}

/// The words of the decision, with the commands that help where the object's name is needed for them.
fn message(cluster: &Validated, decision: &Decision, seen: &Observed) -> String {
    let (namespace, name, text) = (&cluster.namespace, &cluster.name, &decision.message);
    let hint = match decision.progress {
        Progress::DataLost => {
            let source = seen.backup.as_ref().and_then(|backup| backup.source.as_ref());
            format!(
                ". Nothing is changed, because what is left of the data may be all there is. To restore a backup: kubectl -n {namespace} create -f - <<<'{}'. \
                 To start again empty: kubectl -n {namespace} delete etcdcluster {name}, then apply its manifest again",
                restore_manifest(name, source)
            )
        }
        Progress::QuorumLost => {
            let selector = names::cluster_selector(name);
            format!(". Look: kubectl -n {namespace} describe pods -l {selector}")
        }
        _ => return text.clone(),
    };
    // What was told before and still holds has its hint.
    if text.ends_with(&hint) { text.clone() } else { format!("{text}{hint}") }
}

/// An EtcdRestore to copy: of the last backup that is known, else with words to replace.
fn restore_manifest(name: &str, source: Option<&serde_json::Value>) -> String {
    let unknown = || serde_json::json!({ "backupStorageType": "S3", "s3": { "path": "BUCKET/KEY", "awsSecret": "SECRET" } });
    let mut spec = source.cloned().unwrap_or_else(unknown);
    spec["etcdCluster"] = serde_json::json!({ "name": name });
    serde_json::json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdRestore",
        // A restore is done once: each has a name of its own.
        "metadata": { "generateName": format!("{name}-") }, "spec": spec,
    })
    .to_string()
}

/// Sets one condition of a status that is otherwise made.
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

/// Conditions that are being written over those of before.
pub(crate) struct Conditions<'a> {
    old: &'a EtcdClusterStatus,
    generation: Option<i64>,
    now: Timestamp,
    new: Vec<Condition>,
}

impl Conditions<'_> {
    /// Whether something was said of it, now or before.
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
mod tests {
    use super::*;
    use crate::observed::PodView;
    use crate::validate::{tests::cluster, validate};

    fn nothing_seen() -> Observed {
        Observed {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            fresh_name: "orders-bcdfghjklm".into(),
            ..Observed::default()
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

        // With a backup that is known, the command names it.
        let source = serde_json::json!({ "backupStorageType": "Local", "local": { "path": "a/b" } });
        let backup = crate::observed::BackupView { source: Some(source), ..Default::default() };
        let seen = Observed { backup: Some(backup), ..seen };
        let told = status(&old, &cluster, &seen, &decision).reason;
        assert!(told.contains(r#""backupStorageType":"Local","local":{"path":"a/b"}"#), "{told}");
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
    fn a_version_that_cannot_be_gone_to_is_refused_with_its_reason() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 1, "version": "3.6.4" }))).unwrap();
        let old = EtcdClusterStatus {
            cluster_id: Some("abc".into()),
            current_version: "3.4.23".into(),
            ..EtcdClusterStatus::default()
        };
        let seen = nothing_seen();
        let new = status(&old, &cluster, &seen, &decide(&cluster, &old, &seen));
        assert_eq!((new.current_version.as_str(), new.target_version.as_str()), ("3.4.23", "3.6.4"));
        let upgrading = new.condition("Upgrading").unwrap();
        assert_eq!(
            (upgrading.status.as_str(), upgrading.reason.as_str()),
            ("False", "UnsupportedVersionSkew")
        );
    }

    #[test]
    fn without_a_quorum_it_is_not_available_and_who_was_a_member_is_kept() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let member = |name: &str, role: &str| MemberStatus {
            name: name.into(),
            role: role.into(),
            healthy: true,
            ..MemberStatus::default()
        };
        let old = EtcdClusterStatus {
            cluster_id: Some("abc".into()),
            size: 2,
            member_list: vec![
                member("orders-a", "Leader"),
                member("orders-b", "Voter"),
                member("orders-c", LEARNER),
            ],
            ..EtcdClusterStatus::default()
        };
        assert_eq!(memory(&old).members, ["orders-a", "orders-b"]);
        let claim = |name: &str| crate::observed::ClaimView { name: name.into(), ..Default::default() };
        let seen = Observed { claims: vec![claim("orders-a"), claim("orders-b")], ..nothing_seen() };
        let decision = decide(&cluster, &old, &seen);
        assert!(matches!(&decision.action, Some(Action::CreateMember { name, .. }) if name == "orders-a"));
        let new = status(&old, &cluster, &seen, &decision);
        assert_eq!(new.condition("Available").unwrap().reason, "QuorumLost");
        assert_eq!(new.condition("Recovering").unwrap().status, "True");
        assert_eq!(new.phase, "Running");
        assert!(new.member_list.len() == 3 && new.member_list.iter().all(|m| !m.healthy));

        // Of members that say nothing it is known by their pods.
        let pod = |name: &str, ready| PodView {
            name: name.into(),
            ready,
            ever_started: true,
            ..PodView::default()
        };
        let silent = ["orders-a", "orders-b"].map(String::from).into();
        let seen =
            Observed { pods: vec![pod("orders-a", true), pod("orders-b", false)], silent, ..nothing_seen() };
        let decision = decide(&cluster, &old, &seen);
        let new = status(&old, &cluster, &seen, &decision);
        assert_eq!(new.condition("Available").unwrap().status, "True");
        assert_eq!(new.condition("Degraded").unwrap().reason, "AuthenticationRequired");
        assert_eq!(
            (new.members.ready, new.members.unready),
            (vec!["orders-a".into()], vec!["orders-b".into()])
        );
        let healthy: Vec<bool> = new.member_list.iter().map(|m| m.healthy).collect();
        assert_eq!(healthy, [true, false, false]);
        let none_ready = Observed { pods: vec![pod("orders-a", false)], ..seen };
        let new = status(&old, &cluster, &none_ready, &decision);
        assert_eq!(new.condition("Available").unwrap().status, "False");
    }

    #[test]
    fn that_members_differ_is_remembered_whatever_is_told_meanwhile() {
        let object = |paused: bool| cluster(serde_json::json!({ "size": 3, "paused": paused }));
        let (valid, paused) = (validate(&object(false)).unwrap(), validate(&object(true)).unwrap());
        let corruption = |members: &[&str]| CorruptionStatus {
            cluster_id: "abc".into(),
            members: members.iter().map(|name| (*name).to_owned()).collect(),
        };
        for known in [corruption(&[]), corruption(&["orders-a", "orders-b"])] {
            // given a status that says so, as it is written and read again
            let old = EtcdClusterStatus {
                cluster_id: Some("abc".into()),
                corruption: Some(known.clone()),
                ..EtcdClusterStatus::default()
            };
            let old: EtcdClusterStatus = serde_json::from_value(serde_json::to_value(&old).unwrap()).unwrap();
            let remembered = memory(&old);
            assert!(remembered.corruption.as_ref().is_some_and(|it| it.wrong.len() == known.members.len()));
            // when something else is told: no quorum, a pause, an action that failed, a spec that cannot be served, a Secret that is wrong
            let seen = nothing_seen();
            let failed = Decision::blocked(Progress::Stuck, "ActionFailed", "a quota");
            let secret = crate::tls::Insecure::Foreign("orders-peer-tls".into());
            let later = [
                status(&old, &valid, &seen, &decide(&valid, &old, &seen)),
                status(&old, &paused, &seen, &decide(&paused, &old, &seen)),
                status(&old, &valid, &seen, &failed),
                refused(&old, &InvalidSpec(vec!["spec.size: no".into()]), Some(7), seen.now),
                crate::tls::insecure(&old, &secret, Some(7), seen.now),
            ];
            // then it is remembered all the same
            for new in later {
                assert_eq!((new.corruption.as_ref(), memory(&new)), (Some(&known), remembered.clone()));
            }
        }
        // and forgotten when it is decided so: the patch takes it away
        let old = EtcdClusterStatus {
            cluster_id: Some("abc".into()),
            corruption: Some(corruption(&["orders-a"])),
            ..EtcdClusterStatus::default()
        };
        let forgotten = Memory { corruption: None, ..memory(&old) };
        let decision = Decision::act(Progress::Steady, Action::Remember(forgotten.into()), "the same again");
        let new = status(&old, &valid, &nothing_seen(), &decision);
        assert_eq!(new.corruption, None);
        let patch = crate::controller::differences(&old, &new);
        assert_eq!(patch.get("corruption"), Some(&serde_json::Value::Null));
        // nobody is named any more, and it is still known
        let open = EtcdClusterStatus { corruption: Some(corruption(&[])), ..old.clone() };
        let patch = crate::controller::differences(&old, &open);
        assert_eq!(patch["corruption"], serde_json::json!({ "members": null }));
    }

    #[test]
    fn claims_that_are_being_deleted_degrade_the_cluster_also_while_it_is_paused() {
        let old =
            EtcdClusterStatus { cluster_id: Some("abc".into()), size: 3, ..EtcdClusterStatus::default() };
        let names = ["orders-a", "orders-b", "orders-c"];
        let pods =
            names.map(|name| PodView { name: name.into(), volume: true, ..PodView::default() }).to_vec();
        let claims = |deleting: &[&str]| {
            let claim = |name: &str| crate::observed::ClaimView {
                name: name.into(),
                deleting: deleting.contains(&name),
                ..Default::default()
            };
            names.map(claim).to_vec()
        };
        for paused in [false, true] {
            let cluster = validate(&cluster(serde_json::json!({ "size": 3, "paused": paused }))).unwrap();
            let progress = if paused { Progress::Paused } else { Progress::Steady };
            let look = |deleting: &[&str], pods: &[PodView], decision: Decision| {
                let seen = Observed { pods: pods.to_vec(), claims: claims(deleting), ..nothing_seen() };
                let new = status(&old, &cluster, &seen, &decision);
                let told = |type_: &str| {
                    let condition = new.condition(type_).unwrap();
                    (format!("{} {}", condition.status, condition.reason), condition.message.clone())
                };
                (told("Degraded"), told("DataAtRisk"))
            };
            let calm = || Decision::wait(progress, "all members are healthy");
            let (degraded, at_risk) = look(&[], &pods, calm());
            assert_eq!((degraded.0.as_str(), at_risk.0.as_str()), ("False AsExpected", "False AsExpected"));
            let (degraded, at_risk) = look(&["orders-a", "orders-c"], &pods, calm());
            assert_eq!(
                (degraded.0.as_str(), at_risk.0.as_str()),
                ("True VolumeDeleting", "True VolumeDeleting")
            );
            assert!(degraded.1.contains("orders-a, orders-c.") && degraded.1 == at_risk.1, "{}", degraded.1);
            // Another reason keeps its place, and the claims are reported all the same.
            let other = Decision::blocked(progress, "NoSpace", "the database is full");
            let (degraded, at_risk) = look(&["orders-a"], &pods, other);
            assert_eq!((degraded.0.as_str(), at_risk.0.as_str()), ("True NoSpace", "True VolumeDeleting"));
            // The claim of a member that was removed goes after its pod.
            let (degraded, _) = look(&["orders-c"], &pods[..2], calm());
            assert_eq!(degraded.0, "False AsExpected");
        }
    }

    #[test]
    fn backups_are_told_of() {
        let cluster = validate(&cluster(serde_json::json!({ "size": 1 }))).unwrap();
        let at = |text: &str| Some(text.parse().unwrap());
        let told = |backup: Option<crate::observed::BackupView>| {
            let (old, seen) = (EtcdClusterStatus::default(), Observed { backup, ..nothing_seen() });
            let new = status(&old, &cluster, &seen, &decide(&cluster, &old, &seen));
            let condition = new.condition("BackedUp").unwrap();
            format!("{} {}", condition.status, condition.reason)
        };
        let view = crate::observed::BackupView::default;
        assert_eq!(told(None), "False NoBackup");
        assert_eq!(told(Some(view())), "False NoBackupYet");
        let done = crate::observed::BackupView { last_success: at("2025-12-31T00:00:00Z"), ..view() };
        assert_eq!(told(Some(done.clone())), "True BackedUp");
        let late = crate::observed::BackupView { overdue_since: at("2025-12-31T12:00:00Z"), ..done };
        assert_eq!(told(Some(late.clone())), "False BackupOverdue");

        // Before the first list nothing is known, and what was said stays.
        let unknown = Observed { backups_unknown: true, ..nothing_seen() };
        let look = |old: &EtcdClusterStatus, seen: &Observed| {
            status(old, &cluster, seen, &decide(&cluster, old, seen))
        };
        let first = look(&EtcdClusterStatus::default(), &unknown);
        assert_eq!(first.condition("BackedUp").unwrap().reason, "Unknown");
        let told = look(&first, &Observed { backup: Some(late), ..nothing_seen() });
        assert_eq!(look(&told, &unknown).condition("BackedUp"), told.condition("BackedUp"));
    }

    #[test]
    fn a_refused_spec_leaves_the_rest_of_the_status_alone() {
        let old = EtcdClusterStatus { phase: "Running".into(), size: 3, ..EtcdClusterStatus::default() };
        let error = InvalidSpec(vec!["spec.TLS: no".into()]);
        let new = refused(&old, &error, Some(7), nothing_seen().now);
        assert_eq!((new.phase.as_str(), new.size, new.observed_generation), ("Running", 3, Some(7)));
        assert_eq!(new.condition("SpecAccepted").unwrap().message, "spec.TLS: no");
        let new = refused(&EtcdClusterStatus::default(), &error, Some(1), nothing_seen().now);
        assert_eq!((new.phase.as_str(), new.reason.as_str()), ("Failed", "spec.TLS: no"));
        // A corrected spec heals it.
        let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
        let healed = status(&new, &cluster, &nothing_seen(), &decide(&cluster, &new, &nothing_seen()));
        assert_eq!((healed.phase.as_str(), healed.reason.as_str()), ("Creating", ""));
    }
}
