//! Conditions of a cluster: a pure function of observation and decision. No condition is ever dropped; one
//! that does not hold is False, with its reason.

use crate::disk;
use crate::observed::{Memory, Observed};
use crate::plan::{Decision, Health, Progress, Upgrade};
use crate::status::Conditions;
use crate::validate::{Validated, Volumes};

/// Inputs of the conditions.
pub(crate) struct Facts<'a> {
    pub(crate) cluster: &'a Validated,
    pub(crate) memory: &'a Memory,
    pub(crate) observed: &'a Observed,
    pub(crate) health: Option<&'a Health<'a>>,
    pub(crate) upgrade: &'a Upgrade,
    pub(crate) decision: &'a Decision,
    pub(crate) message: &'a str,
}

/// The text about lost data is long, and `Available` has it.
const SEE_AVAILABLE: &str = "see the message of condition Available";

pub(crate) fn all(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    available(facts, conditions);
    let brief = Facts { message: SEE_AVAILABLE, ..*facts };
    let facts = if facts.decision.progress == Progress::DataLost { &brief } else { facts };
    progressing(facts, conditions);
    let deleting = deleting_volumes(facts);
    degraded(facts, deleting.as_deref(), conditions);
    match &deleting {
        Some(text) => conditions.set("DataAtRisk", true, "VolumeDeleting", text),
        None => conditions.set("DataAtRisk", false, "AsExpected", ""),
    }
    disks(facts, conditions);
    scaling(facts, conditions);
    upgrading(facts, conditions);
    recovering(facts, conditions);
    backed_up(facts, conditions);
    let notes: Vec<String> = facts.cluster.notes.iter().cloned().chain(data_in_pods(facts)).collect();
    let notes = notes.join("; ");
    let reason = if notes.is_empty() { "Valid" } else { "ValidWithNotes" };
    conditions.set("SpecAccepted", true, reason, &notes);
}

/// A note where only the lack of a default StorageClass puts the data of members into their pods.
fn data_in_pods(facts: &Facts<'_>) -> Option<String> {
    let by_default = facts.cluster.storage.when == Volumes::WithDefaultClass && !facts.observed.volumes;
    let why = match facts.observed.storage_classes {
        Some(_) => "Kubernetes has no default StorageClass",
        None => "the operator has no list of StorageClasses",
    };
    by_default.then(|| {
        format!(
            "spec.storage: {why}, so new members lose their data with their pods; set \
             spec.storage.storageClassName, or spec.storage.mode to Pod to accept that"
        )
    })
}

/// Whether the cluster is progressing, and the reason.
const fn standing(progress: Progress) -> (bool, &'static str) {
    match progress {
        Progress::Creating => (true, "Creating"),
        Progress::ScalingUp => (true, "ScalingUp"),
        Progress::ScalingDown => (true, "ScalingDown"),
        Progress::Healing => (true, "Recovering"),
        Progress::Upgrading => (true, "Upgrading"),
        Progress::Restoring => (true, "Restoring"),
        Progress::Paused => (false, "Paused"),
        Progress::Steady => (false, "AsDesired"),
        Progress::QuorumLost => (false, "QuorumLost"),
        Progress::DataLost => (false, "DataLost"),
        Progress::Stuck => (false, "Stuck"),
    }
}

/// Clients are served: a linearizable read was answered in this observation, or members that require
/// authentication are ready.
fn available(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    let known = facts.memory.cluster_id.is_some();
    match (facts.health, facts.decision.progress) {
        (Some(health), _) if known => {
            let text = format!("{} of {} members are healthy", health.healthy(), health.voters.len());
            conditions.set("Available", true, "ClusterAvailable", &text);
        }
        (_, Progress::Restoring) => conditions.set("Available", false, "Restoring", facts.message),
        _ if facts.observed.silent.iter().any(|name| facts.observed.serves_silently(name)) => {
            let text = "members are ready, but report no details";
            conditions.set("Available", true, "ClusterAvailable", text);
        }
        (_, Progress::DataLost) => conditions.set("Available", false, "DataLost", facts.message),
        _ if !known && !facts.memory.taken_over => {
            conditions.set("Available", false, "Creating", facts.message);
        }
        _ => conditions.set("Available", false, "QuorumLost", facts.message),
    }
}

fn progressing(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    let (active, reason) = standing(facts.decision.progress);
    let reason = facts.decision.blocked.filter(|_| active).unwrap_or(reason);
    conditions.set("Progressing", active, reason, facts.message);
}

fn degraded(facts: &Facts<'_>, deleting: Option<&str>, conditions: &mut Conditions<'_>) {
    let lost = (facts.decision.progress == Progress::Healing).then_some("MemberLost");
    match (facts.decision.blocked.or(lost), deleting) {
        (Some(reason), _) => conditions.set("Degraded", true, reason, facts.message),
        (None, Some(text)) => conditions.set("Degraded", true, "VolumeDeleting", text),
        (None, None) => conditions.set("Degraded", false, "AsExpected", ""),
    }
}

/// Which volumes are lost when a pod ends, and how to keep the data. A function of the observation alone: it
/// also holds while the cluster is paused.
fn deleting_volumes(facts: &Facts<'_>) -> Option<String> {
    let names = facts.observed.deleting_volumes();
    let (namespace, name) = (&facts.cluster.namespace, &facts.cluster.name);
    let goal = &facts.cluster.goal;
    let next = if goal.size < 3 {
        format!(
            "hint: do not delete these pods; take an EtcdBackup of cluster {namespace}/{name}, then set spec.size to 3: \
             the operator replaces such members in clusters of three or more"
        )
    } else if goal.paused {
        "hint: do not delete these pods; set spec.paused to false: the operator then replaces these members one at a time".into()
    } else {
        format!(
            "The operator replaces these members one at a time while all others are healthy. \
             hint: do not delete these pods; take an EtcdBackup of cluster {namespace}/{name}"
        )
    };
    (!names.is_empty()).then(|| {
        format!(
            "PersistentVolumeClaims of members are being deleted: {}. Each volume is lost when the pod of \
             the same name terminates. {next}",
            names.join(", ")
        )
    })
}

fn disks(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    let full = disk::nearly_full(facts.observed);
    if full.is_empty() {
        return conditions.set("DiskNearlyFull", false, "AsExpected", "");
    }
    let members = full.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let text = format!(
        "{members}. etcd stops when its disk is full. hint: expand the PersistentVolumeClaims, if their \
         StorageClass allows it; or shrink the database with spec.maintenance.autoCompaction, \
         spec.maintenance.defragmentation and a quota below the size of the volume"
    );
    conditions.set("DiskNearlyFull", true, "DiskNearlyFull", &text);
}

fn scaling(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    let (now, wanted) = (facts.memory.voters, facts.cluster.goal.size);
    let size = format!("Current cluster size: {now}, desired cluster size: {wanted}");
    let (_, reason) = standing(facts.decision.progress);
    match (facts.decision.progress, facts.decision.blocked) {
        (Progress::ScalingUp, Some("LearnerFailed")) => {
            let text = format!("{size}; {}", facts.message);
            conditions.set("Scaling", false, "LearnerFailed", &text);
        }
        (Progress::ScalingUp | Progress::ScalingDown, _) => conditions.set("Scaling", true, reason, &size),
        _ if now == wanted => conditions.set("Scaling", false, "SizeReached", &size),
        _ => conditions.set("Scaling", false, reason, &size),
    }
}

fn upgrading(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    match facts.upgrade {
        Upgrade::AsDesired => conditions.set("Upgrading", false, "VersionAsDesired", ""),
        Upgrade::Refused { reason, text } => conditions.set("Upgrading", false, reason, text),
        Upgrade::Going { from, done, of } => {
            let to = &facts.cluster.goal.version;
            let text = format!("upgrading to {to}: {done} of {of} members run it, the others run {from}");
            match facts.decision.blocked {
                Some("UpgradeStalled") => {
                    let text = format!("{text}; {}", facts.message);
                    conditions.set("Upgrading", false, "UpgradeStalled", &text);
                }
                _ if facts.cluster.goal.paused => conditions.set("Upgrading", false, "Paused", &text),
                _ => conditions.set("Upgrading", true, "ClusterUpgrading", &text),
            }
        }
    }
}

fn recovering(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    match facts.decision.progress {
        Progress::Healing => conditions.set("Recovering", true, "ReplacingDeadMember", facts.message),
        Progress::Restoring => conditions.set("Recovering", true, "Restoring", facts.message),
        Progress::QuorumLost => conditions.set("Recovering", true, "WaitingForMembers", facts.message),
        _ => conditions.set("Recovering", false, "NothingLost", ""),
    }
}

/// True while the data of one backup interval ago can be restored.
fn backed_up(facts: &Facts<'_>, conditions: &mut Conditions<'_>) {
    if facts.observed.backups_unknown {
        // An operator that just started has less information than the previous one: the condition stays.
        if !conditions.has("BackedUp") {
            let text = "EtcdBackups not listed: the list is pending or permission is missing";
            conditions.set("BackedUp", false, "Unknown", text);
        }
        return;
    }
    let Some(backup) = &facts.observed.backup else {
        return conditions.set("BackedUp", false, "NoBackup", "no EtcdBackup names this cluster");
    };
    let failing = backup.failing.as_deref();
    match (backup.last_success, backup.overdue_since) {
        (None, _) => conditions.set("BackedUp", false, "NoBackupYet", failing.unwrap_or_default()),
        (Some(last), Some(since)) => {
            let text = format!("last backup at {last}, next backup was due at {since}");
            let text = failing.map_or(text.clone(), |why| format!("{text}: {why}"));
            conditions.set("BackedUp", false, "BackupOverdue", &text);
        }
        (Some(last), None) => {
            let text = format!("last backup at {last}");
            let text = failing.map_or(text.clone(), |why| format!("{text}; a later backup failed: {why}"));
            conditions.set("BackedUp", true, "BackedUp", &text);
        }
    }
}
