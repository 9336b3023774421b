//! Events of actions: the messages of coreos/etcd-operator under reasons of one word. Pure except for
//! sending.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use olm_client::events::Recorder;

use crate::apply::Done;
use crate::crd::EtcdClusterStatus;
use crate::etcd::Changed;
use crate::maintenance::Step;
use crate::observed::Start;
use crate::plan::{Action, Removal};

/// An event to emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) text: String,
    /// The affected pod, which also keeps events about different members apart.
    pub(crate) pod: Option<String>,
}

impl Note {
    fn about(pod: &str, reason: &'static str, text: String) -> Self {
        Self { warning: false, reason, text, pod: Some(pod.to_owned()) }
    }
}

/// Events of an applied action.
pub(crate) fn of_action(action: &Action, done: Done) -> Vec<Note> {
    if done.changed == Changed::Before {
        return Vec::new();
    }
    match action {
        Action::Remember(_) | Action::DeletePod { .. } | Action::Seal { .. } => Vec::new(),
        Action::AddLearner { .. } | Action::LeaveService { .. } | Action::JoinService { .. } => Vec::new(),
        Action::CreateMember { name, id, start: Start::Refused, .. } => {
            let text = format!("Restarting member {} with its volume", with_id(name, *id));
            vec![Note::about(name, "MemberRecreated", text)]
        }
        Action::SetVersion { name, from, to, .. } => {
            let member = with_id(name, done.member);
            let text = format!("Upgrading member {member} from {from} to {to}: restarting its container");
            vec![Note::about(name, "MemberUpgraded", text)]
        }
        Action::Maintain(step) => vec![of_maintenance(step, done.member)],
        Action::Restart { name, why, .. } => {
            let text = format!("Restarting member {}: {why}", with_id(name, done.member));
            vec![Note::about(name, "MemberRestarted", text)]
        }
        // Its id was reported on removal and is not available any more.
        Action::ReleaseClaim { name, .. } => {
            let text = format!("Released the volume of member {name}: the member was removed");
            vec![Note::about(name, "VolumeReleased", text)]
        }
        // Its id is reported once it is up, with that of the cluster.
        Action::CreateSeed { name, .. } => {
            vec![Note::about(name, "MemberAdded", format!("New member {name} added to cluster"))]
        }
        Action::CreateMember { name, id, .. } => {
            let text = format!("New member {} added to cluster", with_id(name, *id));
            vec![Note::about(name, "MemberAdded", text)]
        }
        Action::Promote { id, name, .. } => {
            vec![Note::about(
                name,
                "LearnerPromoted",
                format!("Member {name} ({id:x}) is in sync and was promoted to voter"),
            )]
        }
        Action::MoveLeader { id, name, .. } => {
            vec![Note::about(name, "LeaderMoved", format!("Member {name} ({id:x}) is now the leader"))]
        }
        Action::RemoveMember { id, name, why, .. } => {
            let removed = Note::about(
                name,
                "MemberRemoved",
                format!("Existing member {name} ({id:x}) removed from the cluster"),
            );
            match why {
                Removal::ScaleDown => vec![removed],
                Removal::Renewed(why) => {
                    let text = format!("Replacing member {name} ({id:x}): {why}");
                    vec![Note::about(name, "ReplacingMember", text), removed]
                }
                Removal::Dead(why) => {
                    let text = format!("Replacing dead member {name} ({id:x}): {why}");
                    vec![Note::about(name, "ReplacingDeadMember", text), removed]
                }
                Removal::Corrupt(why) => {
                    let text = format!("Replacing corrupt member {name} ({id:x}): {why}");
                    vec![Note { warning: true, ..Note::about(name, "ReplacingCorruptMember", text) }, removed]
                }
                Removal::Learner(why) | Removal::LateLearner(why) => {
                    let text = format!("Member {name} ({id:x}) did not join: {why}");
                    vec![Note { warning: true, ..Note::about(name, "LearnerRemoved", text) }, removed]
                }
            }
        }
    }
}

fn with_id(name: &str, id: Option<u64>) -> String {
    id.map_or_else(|| name.to_owned(), |id| format!("{name} ({id:x})"))
}

fn of_maintenance(step: &Step, member: Option<u64>) -> Note {
    match step {
        Step::Compact { revision, .. } => Note {
            warning: true,
            reason: "DatabaseCompacted",
            text: format!("Database full: compacted all revisions before {revision}"),
            pod: None,
        },
        Step::Defragment { name, .. } => {
            let text = format!("Defragmented member {}", with_id(name, member));
            Note::about(name, "MemberDefragmented", text)
        }
        Step::Disarm { .. } => Note {
            warning: false,
            reason: "AlarmDisarmed",
            text: "Database below its quota: alarm NOSPACE disarmed".into(),
            pod: None,
        },
        Step::DisarmCorrupt { member, .. } => Note {
            warning: false,
            reason: "AlarmDisarmed",
            text: format!(
                "All members hold the same data: alarm CORRUPT of removed member {member:x} disarmed"
            ),
            pod: None,
        },
        Step::EnableAuth { .. } => Note {
            warning: false,
            reason: "AuthEnabled",
            text: "Authentication enabled: clients must authenticate".into(),
            pod: None,
        },
    }
}

/// Events of changed conditions.
pub(crate) fn of_status(old: &EtcdClusterStatus, new: &EtcdClusterStatus) -> Vec<Note> {
    let reason = |status: &EtcdClusterStatus, type_: &str| status.condition(type_).map(|c| c.reason.clone());
    let text = |type_: &str| new.condition(type_).map(|c| c.message.clone()).unwrap_or_default();
    let mut notes = Vec::new();
    let mut add = |type_: &str, trigger: &str, warning: bool, reason_word: &'static str| {
        if reason(old, type_) != reason(new, type_) && reason(new, type_).as_deref() == Some(trigger) {
            notes.push(Note { warning, reason: reason_word, text: text(type_), pod: None });
        }
    };
    add("Available", "QuorumLost", true, "QuorumLost");
    add("Available", "DataLost", true, "DataLost");
    add("SpecAccepted", "InvalidSpec", true, "InvalidSpec");
    add("Scaling", "LearnerFailed", true, "ScaleBlocked");
    for trigger in
        ["UnsupportedVersionSkew", "KnownBadVersion", "AuthEnabled", "UpgradePatchFirst", "UpgradeStalled"]
    {
        add("Upgrading", trigger, true, "UpgradeBlocked");
    }
    add("BackedUp", "BackupOverdue", true, "BackupOverdue");
    add("DataAtRisk", "VolumeDeleting", true, "VolumeDeleting");
    add("DiskNearlyFull", "DiskNearlyFull", true, "DiskNearlyFull");
    for trigger in [
        "MemberNotStarting",
        "ForeignMember",
        "SplitBootstrap",
        "Corrupt",
        "ClusterIDMismatch",
        "ActionFailed",
        "TooFewHealthyMembers",
        "NoSpace",
        "UnsupportedVersion",
        "AuthenticationRequired",
    ] {
        add("Degraded", trigger, true, "Blocked");
    }
    if old.condition("Available").is_some_and(|c| c.status == "False" && c.reason != "Creating") {
        add("Available", "ClusterAvailable", false, "QuorumRecovered");
    }
    if let (None, Some(id)) = (&old.cluster_id, &new.cluster_id) {
        let members = new.member_list.iter().map(|m| format!("{} ({})", m.name, m.id)).collect::<Vec<_>>();
        let text = format!("etcd cluster {id} is available; members: {}", members.join(", "));
        notes.push(Note { warning: false, reason: "ClusterCreated", text, pod: None });
    }
    if upgraded(old, new) {
        let text =
            format!("All members upgraded to etcd {} from {}", new.current_version, old.current_version);
        notes.push(Note { warning: false, reason: "ClusterUpgraded", text, pod: None });
    }
    notes
}

fn upgraded(old: &EtcdClusterStatus, new: &EtcdClusterStatus) -> bool {
    let (before, after) = (&old.current_version, &new.current_version);
    !before.is_empty() && !after.is_empty() && before != after
}

/// Emits events. A failure is logged: it must not block the reported work.
pub(crate) async fn send(recorder: &Recorder, regarding: &ObjectReference, notes: &[Note]) {
    for note in notes {
        let event = Event {
            type_: if note.warning { EventType::Warning } else { EventType::Normal },
            reason: note.reason.into(),
            note: Some(note.text.chars().take(1000).collect()),
            action: note.reason.into(),
            secondary: note.pod.as_ref().map(|pod| ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(pod.clone()),
                namespace: regarding.namespace.clone(),
                ..ObjectReference::default()
            }),
        };
        if let Err(error) = recorder.publish(&event, regarding).await {
            tracing::warn!(reason = note.reason, %error, "failed to publish an event");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(changed: Changed, member: Option<u64>) -> Done {
        Done { changed, member }
    }

    #[test]
    fn upgraded_restarted_and_defragmented_members_are_reported_with_their_ids() {
        // given the actions on a member that stays one
        let (name, uid) = ("orders-a".to_owned(), "u".to_owned());
        let (from, to) = ("3.4.23".to_owned(), "3.5.30".to_owned());
        let upgrade = Action::SetVersion { name: name.clone(), uid: uid.clone(), from, to, volume: false };
        let restart = Action::Restart { name: name.clone(), uid, why: "because".into() };
        let defragment = Action::Maintain(Step::Defragment { name: name.clone() });
        for (action, expected) in [
            (upgrade, "Upgrading member orders-a (ff) from 3.4.23 to 3.5.30: restarting its container"),
            (restart, "Restarting member orders-a (ff): because"),
            (defragment, "Defragmented member orders-a (ff)"),
        ] {
            // when its id is known, then it is reported; otherwise the name is used
            assert_eq!(action.member(), Some(name.as_str()));
            assert_eq!(of_action(&action, done(Changed::Now, Some(255)))[0].text, expected);
            let unknown = of_action(&action, done(Changed::Now, None));
            assert_eq!(unknown[0].text, expected.replace(" (ff)", ""));
            assert_eq!(unknown[0].pod.as_deref(), Some("orders-a"));
        }
    }

    #[test]
    fn a_cluster_that_is_too_old_is_reported_once() {
        let condition = crate::crd::Condition {
            type_: "Degraded".into(),
            status: "True".into(),
            reason: "UnsupportedVersion".into(),
            message: "the members run etcd 3.2.13".into(),
            ..crate::crd::Condition::default()
        };
        let (old, mut new) = (EtcdClusterStatus::default(), EtcdClusterStatus::default());
        new.conditions = vec![condition];
        let reported = of_status(&old, &new);
        assert_eq!((reported.len(), reported[0].reason, reported[0].warning), (1, "Blocked", true));
        assert!(of_status(&new, &new).is_empty());
    }

    #[test]
    fn deleting_volumes_are_an_event_once_per_transition() {
        let status = |status: &str, reason: &str, message: &str| EtcdClusterStatus {
            conditions: vec![crate::crd::Condition {
                type_: "DataAtRisk".into(),
                status: status.into(),
                reason: reason.into(),
                message: message.into(),
                ..crate::crd::Condition::default()
            }],
            ..EtcdClusterStatus::default()
        };
        let (well, one) = (status("False", "AsExpected", ""), status("True", "VolumeDeleting", "orders-a"));
        let both = status("True", "VolumeDeleting", "orders-a, orders-b");
        let notes = of_status(&well, &one);
        assert_eq!((notes.len(), notes[0].reason, notes[0].warning), (1, "VolumeDeleting", true));
        assert_eq!(notes[0].text, "orders-a");
        assert!(of_status(&one, &both).is_empty() && of_status(&both, &well).is_empty());
        assert_eq!(of_status(&well, &both).len(), 1);
    }

    #[test]
    fn a_replaced_member_is_reported_in_the_words_of_the_predecessor() {
        let action = Action::RemoveMember {
            id: 255,
            name: "orders-a".into(),
            via: "orders-b".into(),
            why: Removal::Dead("its pod is gone".into()),
        };
        let reported = of_action(&action, done(Changed::Now, None));
        assert_eq!(reported[0].text, "Replacing dead member orders-a (ff): its pod is gone");
        assert_eq!(reported[1].text, "Existing member orders-a (ff) removed from the cluster");
        let before = of_action(&action, done(Changed::Before, None));
        assert!(before.is_empty(), "earlier actions were reported earlier");
    }
}
