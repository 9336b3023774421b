//! Reports about members that do not start, and about clusters without a leader.

use super::super::*;
use super::model::{BROKEN, World};
use super::running;
use crate::observed::{ClaimView, Member, Observed, PodView};

#[test]
fn a_first_member_that_does_not_start_is_reported() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let goal = Goal { size: 3, version: "3.4.23".into(), ..Goal::default() };
    let decide = |waiting: Option<&str>, age: i64, restarts: i32, last_end: Option<End>| {
        let pod = PodView {
            name: "orders-a".into(),
            created: Some(now - SignedDuration::from_secs(age)),
            waiting: waiting.map(Into::into),
            version: goal.version.clone(),
            restarts,
            last_end,
            ..PodView::default()
        };
        let claim =
            ClaimView { name: "orders-a".into(), pending_class: Some("fast".into()), ..ClaimView::default() };
        let observed = Observed {
            now,
            pods: vec![pod],
            claims: vec![claim],
            storage_classes: Some(["slow".to_owned()].into()),
            ..Observed::default()
        };
        plan(&goal, &Memory::default(), &observed)
    };
    for (waiting, age, restarts, blocked) in [
        (None, 5, 0, false),
        (None, 61, 0, true),
        (None, 5, 1, true),
        (Some("ContainerCreating"), 30, 0, false),
        (Some("ErrImagePull: no such image"), 5, 0, false),
        (Some("ErrImagePull: no such image"), 11, 0, true),
        (Some("0/1 nodes are available: 1 node(s) didn't match Pod's node selector"), 11, 0, true),
    ] {
        let decision = decide(waiting, age, restarts, None);
        let expected = blocked.then_some("MemberNotStarting");
        assert_eq!(
            (decision.progress, decision.blocked),
            (Progress::Creating, expected),
            "{waiting:?} {age}"
        );
        assert!(decision.message.contains(waiting.unwrap_or_default()), "{}", decision.message);
        assert!(decision.message.contains("StorageClass fast, which does not exist"), "{}", decision.message);
    }
    for (end, text) in [
        (None, "orders-a waits: CrashLoopBackOff; its claim"),
        (
            Some(End::DiskFull),
            "; its etcd last exited because its disk is full (no space left on device); its claim",
        ),
        (
            Some(End::OutOfMemory),
            "; its etcd last exited because it ran out of memory (OOMKilled); its claim",
        ),
        (Some(End::NoData), "; its etcd found no data in its data directory; its claim"),
    ] {
        let decision = decide(Some("CrashLoopBackOff"), 5, 1, end);
        assert_eq!(decision.blocked, Some("MemberNotStarting"));
        assert!(decision.message.contains(text), "{}", decision.message);
    }
}

#[test]
fn a_claim_that_no_storage_class_provisions_is_reported_with_the_next_step() {
    let goal = Goal { size: 1, version: "3.4.23".into(), ..Goal::default() };
    let pod = PodView {
        name: "orders-a".into(),
        waiting: Some("pod has unbound immediate PersistentVolumeClaims".into()),
        version: goal.version.clone(),
        ..PodView::default()
    };
    let claim =
        ClaimView { name: "orders-a".into(), pending_class: Some(String::new()), ..ClaimView::default() };
    let observed = Observed { pods: vec![pod], claims: vec![claim], ..Observed::default() };
    let decision = plan(&goal, &Memory::default(), &observed);
    let wanted =
        "its claim waits for a volume and names no StorageClass. hint: make a StorageClass the default";
    assert!(decision.message.contains(wanted), "{}", decision.message);
}

#[test]
fn a_voter_with_a_full_disk_is_reported_with_the_cause() {
    let mut world = running(3);
    let name = world.nth_pod(1).unwrap();
    let pod = world.pods.get_mut(&name).unwrap();
    (pod.stopped, pod.view.last_end) = (true, Some(End::DiskFull));
    (pod.view.ready, pod.view.ready_since) = (false, Some(world.now));
    let decision = world.step();
    assert_eq!((decision.action, decision.blocked), (None, Some("MembersUnhealthy")));
    assert!(decision.message.contains("disk is full (no space left on device)"), "{}", decision.message);
}

#[test]
fn a_first_member_that_ends_again_and_again_is_reported() {
    let mut world = World::new(3);
    world.goal.version = BROKEN.into();
    world.step();
    for _ in 0..20 {
        assert_eq!(world.step().blocked, Some("MemberNotStarting"));
    }
}

#[test]
fn a_member_that_starts_with_its_new_version_does_not_stall_the_upgrade() {
    let mut world = running(3);
    world.goal.version = "3.5.30".into();
    world.log.clear();
    let name = loop {
        if let Some(Action::SetVersion { name, .. }) = world.step().action {
            break name;
        }
    };
    world.pods.get_mut(&name).unwrap().stopped = true;
    for _ in 0..40 {
        let decision = world.step();
        assert_eq!(
            (decision.progress, decision.blocked),
            (Progress::Upgrading, None),
            "{}",
            decision.message
        );
    }
    for _ in 0..100 {
        world.step();
    }
    assert_eq!(world.step().blocked, Some("UpgradeStalled"));
}

#[test]
fn a_member_that_crashed_with_a_new_version_gets_another_chance_with_the_old_one() {
    let mut world = running(3);
    let members: Vec<u64> = world.members.iter().map(|m| m.id).collect();
    world.goal.version = BROKEN.into();
    world.log.clear();
    for _ in 0..60 {
        world.step();
    }
    assert!(world.pods.values().any(|pod| pod.view.restarts > CRASH_LOOP), "{:?}", world.log);
    world.goal.version = "3.4.23".into();
    assert!(world.converge(100), "{:?}", world.log);
    assert_eq!(world.members.iter().map(|m| m.id).collect::<Vec<_>>(), members, "{:?}", world.log);
}

#[test]
fn an_election_is_not_reported_as_too_few_members_that_answer() {
    let mut world = running(5);
    let mut observed = world.observe();
    for endpoint in observed.endpoints.values_mut() {
        (endpoint.leader, endpoint.linearizable) = (0, false);
    }
    let decision = plan(&world.goal, &world.memory, &observed);
    assert_eq!(decision.blocked, Some("QuorumLost"));
    let text = "5 of 5 members respond, but fewer than 3 of them follow a confirmed leader";
    assert!(decision.message.starts_with(text), "{}", decision.message);
    // With too few members that is reported instead.
    let names: Vec<String> = observed.endpoints.keys().take(3).cloned().collect();
    names.iter().for_each(|name| drop(observed.endpoints.remove(name)));
    let decision = plan(&world.goal, &world.memory, &observed);
    assert!(decision.message.starts_with("2 of 5 members respond, 3 are needed"), "{}", decision.message);
}

#[test]
fn a_voter_of_others_beside_a_single_member_is_named_with_the_command_that_removes_it() {
    let mut world = running(1);
    let mut observed = world.observe();
    let url = "http://10.9.9.9:2380".to_owned();
    let added = Member { id: 99, pod: None, peer_url: url, started: true, is_learner: false };
    observed.endpoints.values_mut().for_each(|endpoint| endpoint.members.push(added.clone()));
    // The operator observes one of two voters: no majority.
    let decision = plan(&world.goal, &world.memory, &observed);
    assert_eq!((decision.action, decision.blocked), (None, Some("MembersUnreachable")));
    assert!(decision.message.contains("etcdctl member remove 63"), "{}", decision.message);
}
