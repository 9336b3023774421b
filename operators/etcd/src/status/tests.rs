//! The status after observations and decisions.

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

fn decide(cluster: &Validated, status: &EtcdClusterStatus, observed: &Observed) -> Decision {
    crate::plan::plan(&cluster.goal, &memory(status), observed)
}

#[test]
fn a_new_cluster_is_being_created() {
    let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
    let old = EtcdClusterStatus::default();
    let observed = nothing_seen();
    let new = status(&old, &cluster, &observed, &decide(&cluster, &old, &observed));
    assert_eq!((new.phase.as_str(), new.service_name.as_str()), ("Creating", "orders-client"));
    assert_eq!(new.condition("Available").unwrap().reason, "Creating");
    assert_eq!(new.condition("Progressing").unwrap().status, "True");
    assert_eq!(new.observed_generation, Some(4));
}

#[test]
fn lost_data_reports_the_next_command_and_nothing_is_done() {
    let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
    let old = EtcdClusterStatus {
        cluster_id: Some("abc".into()),
        size: 3,
        current_version: "3.4.23".into(),
        ..EtcdClusterStatus::default()
    };
    let observed = nothing_seen();
    let decision = decide(&cluster, &old, &observed);
    assert_eq!(decision.action, None);
    let new = status(&old, &cluster, &observed, &decision);
    assert_eq!(new.phase, "Failed");
    let available = new.condition("Available").unwrap();
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "DataLost"));
    assert!(available.message.contains("kubectl -n shop delete etcdcluster orders"), "{}", available.message);
    for other in ["Progressing", "Degraded"] {
        assert_eq!(new.condition(other).unwrap().message, "see the message of condition Available");
    }
    assert_eq!(new.cluster_id.as_deref(), Some("abc"));

    // With a known backup, the command names it.
    let source = serde_json::json!({ "backupStorageType": "Local", "local": { "path": "a/b" } });
    let backup = crate::observed::BackupView { source: Some(source), ..Default::default() };
    let observed = Observed { backup: Some(backup), ..observed };
    let reported = status(&old, &cluster, &observed, &decision).reason;
    assert!(reported.contains(r#""backupStorageType":"Local","local":{"path":"a/b"}"#), "{reported}");
    assert!(!reported.contains("fromClaim"), "{reported}");

    // With the claim of a surviving member, that comes first.
    let claim = crate::observed::ClaimView { name: "orders-a".into(), ..Default::default() };
    let observed = Observed { claims: vec![claim], ..observed };
    let reported = status(&old, &cluster, &observed, &decision).reason;
    let (first, backup) = (reported.find(r#""fromClaim":"orders-a""#), reported.find("backupStorageType"));
    assert!(first.is_some() && first < backup, "{reported}");
}

#[test]
fn what_kubernetes_refuses_reaches_the_status_once() {
    let old = EtcdClusterStatus::default();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let new = unprepared(&old, "failed to create Service orders-client: denied", Some(4), now);
    assert_eq!((new.phase.as_str(), new.observed_generation), ("Creating", Some(4)));
    let degraded = new.condition("Degraded").unwrap();
    assert_eq!((degraded.status.as_str(), degraded.reason.as_str()), ("True", "ActionFailed"));
    let again = unprepared(&new, &degraded.message, Some(4), now + jiff::SignedDuration::from_secs(9));
    assert_eq!(new, again);
}

#[test]
fn data_in_pods_for_lack_of_a_default_class_is_noted() {
    let noted = |spec: serde_json::Value, observed: Observed| {
        let (cluster, old) = (validate(&cluster(spec)).unwrap(), EtcdClusterStatus::default());
        let new = status(&old, &cluster, &observed, &decide(&cluster, &old, &observed));
        new.condition("SpecAccepted").unwrap().message.clone()
    };
    let (size, mode) = (
        serde_json::json!({ "size": 3 }),
        |mode: &str| serde_json::json!({ "size": 3, "storage": { "mode": mode } }),
    );
    let unknown = noted(size.clone(), nothing_seen());
    assert!(unknown.contains("spec.storage: the operator has no list of StorageClasses"), "{unknown}");
    let none = || Observed { storage_classes: Some(["fast".to_owned()].into()), ..nothing_seen() };
    let text = noted(size.clone(), none());
    assert!(text.contains("spec.storage: Kubernetes has no default StorageClass, so new members"), "{text}");
    for (spec, observed) in [
        (size, Observed { volumes: true, ..none() }),
        (mode("Pod"), none()),
        (mode("Volume"), Observed { volumes: true, ..none() }),
    ] {
        let text = noted(spec, observed);
        assert!(!text.contains("spec.storage"), "{text}");
    }
}

#[test]
fn the_same_observation_twice_gives_the_same_status() {
    let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
    let observed = nothing_seen();
    let old = EtcdClusterStatus::default();
    let first = status(&old, &cluster, &observed, &decide(&cluster, &old, &observed));
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
    let observed = nothing_seen();
    let new = status(&old, &cluster, &observed, &decide(&cluster, &old, &observed));
    assert_eq!((new.current_version.as_str(), new.target_version.as_str()), ("3.4.23", "3.6.4"));
    let upgrading = new.condition("Upgrading").unwrap();
    assert_eq!((upgrading.status.as_str(), upgrading.reason.as_str()), ("False", "UnsupportedVersionSkew"));
}

#[test]
fn without_a_quorum_it_is_not_available_and_the_member_list_is_kept() {
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
    let observed = Observed { claims: vec![claim("orders-a"), claim("orders-b")], ..nothing_seen() };
    let decision = decide(&cluster, &old, &observed);
    assert!(matches!(&decision.action, Some(Action::CreateMember { name, .. }) if name == "orders-a"));
    let new = status(&old, &cluster, &observed, &decision);
    assert_eq!(new.condition("Available").unwrap().reason, "QuorumLost");
    assert_eq!(new.condition("Recovering").unwrap().status, "True");
    assert_eq!(new.phase, "Running");
    assert!(new.member_list.len() == 3 && new.member_list.iter().all(|m| !m.healthy));

    // Members that require authentication are identified by their pods.
    let pod =
        |name: &str, ready| PodView { name: name.into(), ready, ever_started: true, ..PodView::default() };
    let silent = ["orders-a", "orders-b"].map(String::from).into();
    let observed =
        Observed { pods: vec![pod("orders-a", true), pod("orders-b", false)], silent, ..nothing_seen() };
    let decision = decide(&cluster, &old, &observed);
    let new = status(&old, &cluster, &observed, &decision);
    assert_eq!(new.condition("Available").unwrap().status, "True");
    assert_eq!(new.condition("Degraded").unwrap().reason, "AuthenticationRequired");
    assert_eq!((new.members.ready, new.members.unready), (vec!["orders-a".into()], vec!["orders-b".into()]));
    let healthy: Vec<bool> = new.member_list.iter().map(|m| m.healthy).collect();
    assert_eq!(healthy, [true, false, false]);
    let none_ready = Observed { pods: vec![pod("orders-a", false)], ..observed };
    let new = status(&old, &cluster, &none_ready, &decision);
    assert_eq!(new.condition("Available").unwrap().status, "False");
}

#[test]
fn recorded_corruption_survives_other_status_reports() {
    let object = |paused: bool| cluster(serde_json::json!({ "size": 3, "paused": paused }));
    let (valid, paused) = (validate(&object(false)).unwrap(), validate(&object(true)).unwrap());
    let corruption = |members: &[&str]| CorruptionStatus {
        cluster_id: "abc".into(),
        members: members.iter().map(|name| (*name).to_owned()).collect(),
    };
    for known in [corruption(&[]), corruption(&["orders-a", "orders-b"])] {
        // given a status with a difference, written and read again
        let old = EtcdClusterStatus {
            cluster_id: Some("abc".into()),
            corruption: Some(known.clone()),
            ..EtcdClusterStatus::default()
        };
        let old: EtcdClusterStatus = serde_json::from_value(serde_json::to_value(&old).unwrap()).unwrap();
        let remembered = memory(&old);
        assert!(remembered.corruption.as_ref().is_some_and(|it| it.wrong.len() == known.members.len()));
        // when the status reports another cause: no quorum, a pause, a failed action, an invalid spec, a
        // wrong Secret
        let observed = nothing_seen();
        let failed = Decision::blocked(Progress::Stuck, "ActionFailed", "a quota");
        let secret = crate::tls::Insecure::Foreign("orders-peer-tls".into());
        let later = [
            status(&old, &valid, &observed, &decide(&valid, &old, &observed)),
            status(&old, &paused, &observed, &decide(&paused, &old, &observed)),
            status(&old, &valid, &observed, &failed),
            refused(&old, &InvalidSpec(vec!["spec.size: no".into()]), Some(7), observed.now),
            crate::tls::insecure(&old, &secret, Some(7), observed.now),
        ];
        // then it stays recorded
        for new in later {
            assert_eq!((new.corruption.as_ref(), memory(&new)), (Some(&known), remembered.clone()));
        }
    }
    // and is removed when the decision clears it: the patch deletes the field
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
    // the corruption stays recorded, without names of members
    let open = EtcdClusterStatus { corruption: Some(corruption(&[])), ..old.clone() };
    let patch = crate::controller::differences(&old, &open);
    assert_eq!(patch["corruption"], serde_json::json!({ "members": null }));
}

#[test]
fn claims_that_are_being_deleted_degrade_the_cluster_also_while_it_is_paused() {
    let old = EtcdClusterStatus { cluster_id: Some("abc".into()), size: 3, ..EtcdClusterStatus::default() };
    let names = ["orders-a", "orders-b", "orders-c"];
    let pods = names.map(|name| PodView { name: name.into(), volume: true, ..PodView::default() }).to_vec();
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
            let observed = Observed { pods: pods.to_vec(), claims: claims(deleting), ..nothing_seen() };
            let new = status(&old, &cluster, &observed, &decision);
            let reported = |type_: &str| {
                let condition = new.condition(type_).unwrap();
                (format!("{} {}", condition.status, condition.reason), condition.message.clone())
            };
            (reported("Degraded"), reported("DataAtRisk"))
        };
        let calm = || Decision::wait(progress, "all members are healthy");
        let (degraded, at_risk) = look(&[], &pods, calm());
        assert_eq!((degraded.0.as_str(), at_risk.0.as_str()), ("False AsExpected", "False AsExpected"));
        let (degraded, at_risk) = look(&["orders-a", "orders-c"], &pods, calm());
        assert_eq!((degraded.0.as_str(), at_risk.0.as_str()), ("True VolumeDeleting", "True VolumeDeleting"));
        assert!(degraded.1.contains("orders-a, orders-c.") && degraded.1 == at_risk.1, "{}", degraded.1);
        // Another reason takes precedence, and the claims are still reported.
        let other = Decision::blocked(progress, "NoSpace", "the database is full");
        let (degraded, at_risk) = look(&["orders-a"], &pods, other);
        assert_eq!((degraded.0.as_str(), at_risk.0.as_str()), ("True NoSpace", "True VolumeDeleting"));
        // The claim of a removed member is deleted after its pod.
        let (degraded, _) = look(&["orders-c"], &pods[..2], calm());
        assert_eq!(degraded.0, "False AsExpected");
    }
}

#[test]
fn a_nearly_full_disk_is_reported_by_condition_event_and_metric() {
    let cluster = validate(&cluster(serde_json::json!({ "size": 1 }))).unwrap();
    let look = |old: &EtcdClusterStatus, mebibytes: u64| {
        let claim = crate::observed::ClaimView {
            name: "orders-a".into(),
            capacity: Some(1000 << 20),
            ..Default::default()
        };
        let endpoint = crate::observed::Endpoint { db_size: mebibytes << 20, ..Default::default() };
        let endpoints = [("orders-a".to_owned(), endpoint)].into();
        let observed = Observed { claims: vec![claim], endpoints, ..nothing_seen() };
        let new = status(old, &cluster, &observed, &decide(&cluster, old, &observed));
        let events = crate::events::of_status(old, &new);
        let events: Vec<_> = events.into_iter().filter(|note| note.reason == "DiskNearlyFull").collect();
        let metrics = crate::metrics::Metrics::default();
        metrics.observed("shop/orders", &observed, None);
        let name = "etcd_operator_cluster_disks_nearly_full{ClusterName=\"shop/orders\"} ";
        let text = metrics.render();
        let metric = text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        (new, events, metric.unwrap_or_default())
    };
    // The database and two log files of 64 MiB use 79.9 percent.
    let (before, events, metric) = look(&EtcdClusterStatus::default(), 671);
    assert_eq!(before.condition("DiskNearlyFull").unwrap().status, "False");
    assert_eq!((events.len(), metric.as_str()), (0, "0"));

    let (full, events, metric) = look(&before, 672);
    let condition = full.condition("DiskNearlyFull").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "DiskNearlyFull"));
    assert!(
        condition.message.starts_with("orders-a uses at least 800 of 1000 MiB."),
        "{}",
        condition.message
    );
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert!(event.warning && event.text == condition.message, "{event:?}");
    assert_eq!(metric, "1");

    // Reported once.
    let (_, events, _) = look(&full, 673);
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn backups_are_reported() {
    let cluster = validate(&cluster(serde_json::json!({ "size": 1 }))).unwrap();
    let at = |text: &str| Some(text.parse().unwrap());
    let reported = |backup: Option<crate::observed::BackupView>| {
        let (old, observed) = (EtcdClusterStatus::default(), Observed { backup, ..nothing_seen() });
        let new = status(&old, &cluster, &observed, &decide(&cluster, &old, &observed));
        let condition = new.condition("BackedUp").unwrap();
        format!("{} {}", condition.status, condition.reason)
    };
    let view = crate::observed::BackupView::default;
    assert_eq!(reported(None), "False NoBackup");
    assert_eq!(reported(Some(view())), "False NoBackupYet");
    let done = crate::observed::BackupView { last_success: at("2025-12-31T00:00:00Z"), ..view() };
    assert_eq!(reported(Some(done.clone())), "True BackedUp");
    let late = crate::observed::BackupView { overdue_since: at("2025-12-31T12:00:00Z"), ..done };
    assert_eq!(reported(Some(late.clone())), "False BackupOverdue");

    // Before the first list the state is unknown, and the condition stays.
    let unknown = Observed { backups_unknown: true, ..nothing_seen() };
    let look = |old: &EtcdClusterStatus, observed: &Observed| {
        status(old, &cluster, observed, &decide(&cluster, old, observed))
    };
    let first = look(&EtcdClusterStatus::default(), &unknown);
    assert_eq!(first.condition("BackedUp").unwrap().reason, "Unknown");
    let reported = look(&first, &Observed { backup: Some(late), ..nothing_seen() });
    assert_eq!(look(&reported, &unknown).condition("BackedUp"), reported.condition("BackedUp"));
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
    // A corrected spec clears it.
    let cluster = validate(&cluster(serde_json::json!({ "size": 3 }))).unwrap();
    let healed = status(&new, &cluster, &nothing_seen(), &decide(&cluster, &new, &nothing_seen()));
    assert_eq!((healed.phase.as_str(), healed.reason.as_str()), ("Creating", ""));
}
