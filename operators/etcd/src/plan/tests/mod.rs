//! Single steps of the plan. Random faults: `faults`; states without a history: `states`.

mod adoption;
mod compare;
mod corrupt;
mod corrupt_members;
mod faults;
mod hold;
mod model;
mod reports;
mod rules;
mod service;
mod states;
mod storage;
mod versions;

use self::model::World;
use super::*;
use crate::observed::Member;

fn running(size: usize) -> World {
    let mut world = World::new(size);
    assert!(world.converge(200), "no cluster of {size}: {:?}", world.log);
    world
}

/// The kinds of the actions, without those of the client Service: see `service`.
fn kinds(world: &World) -> Vec<&'static str> {
    world.log.iter().map(Action::kind).filter(|kind| !kind.ends_with("Service")).collect()
}

#[test]
fn a_cluster_starts_with_one_member_and_grows_by_learners() {
    let world = running(3);
    let one = ["Remember", "AddLearner", "CreateMember", "Promote", "Seal"];
    let expected: Vec<_> =
        ["CreateSeed", "Remember", "Seal"].iter().chain(&one).chain(&one).copied().collect();
    assert_eq!(kinds(&world), expected);
    assert_eq!(world.clusters_started, 1);
}

#[test]
fn every_size_is_reached_and_the_wait_for_etcd_is_no_longer_than_etcd_demands() {
    for size in [1, 3, 5, 7] {
        let world = running(size);
        let took = world.now.duration_since("2026-01-01T00:00:00Z".parse().unwrap());
        let floor = 5 * (size as i64 - 2).max(0);
        assert!(took.as_secs() <= floor + 4 * size as i64, "size {size} took {took:?}");
    }
}

#[test]
fn a_paused_cluster_is_left_alone() {
    let mut world = running(3);
    world.goal = Goal { size: 5, paused: true, ..world.goal };
    let lost = world.nth_pod(0).unwrap();
    world.pods.remove(&lost);
    let before = world.log.len();
    for _ in 0..20 {
        assert_eq!(world.step().progress, Progress::Paused);
    }
    assert_eq!(world.log.len(), before);
}

#[test]
fn a_member_without_its_pod_is_removed_and_then_replaced_under_a_new_name() {
    let mut world = running(3);
    let lost = world.nth_pod(1).unwrap();
    world.pods.remove(&lost);
    world.log.clear();
    assert!(world.converge(200));
    assert_eq!(kinds(&world), ["RemoveMember", "Remember", "AddLearner", "CreateMember", "Promote", "Seal"]);
    assert!(!world.pods.contains_key(&lost));
}

#[test]
fn a_member_that_merely_stands_still_is_given_five_minutes() {
    let mut world = running(3);
    let name = world.nth_pod(2).unwrap();
    world.pods.get_mut(&name).unwrap().stopped = true;
    world.log.clear();
    for _ in 0..500 {
        let decision = world.step();
        assert_eq!(
            (decision.action.clone(), decision.blocked),
            (None, Some("MembersUnhealthy")),
            "{decision:?}"
        );
    }
    world.pods.get_mut(&name).unwrap().stopped = false;
    assert!(world.converge(10) && world.log.is_empty());
    world.pods.get_mut(&name).unwrap().stopped = true;
    assert!(world.converge(2000), "after five minutes it is replaced");
    assert!(!world.pods.contains_key(&name));
}

#[test]
fn a_crash_looping_member_is_replaced_but_not_one_that_lacks_memory() {
    for out_of_memory in [false, true] {
        let mut world = running(3);
        let name = world.nth_pod(0).unwrap();
        let pod = world.pods.get_mut(&name).unwrap();
        (pod.stopped, pod.view.restarts) = (true, 5);
        pod.view.last_end = out_of_memory.then_some(End::OutOfMemory);
        pod.view.waiting = Some("CrashLoopBackOff: back-off 5m0s".into());
        (pod.view.ready, pod.view.ready_since) = (false, Some(world.now));
        world.log.clear();
        world.step();
        assert_eq!(kinds(&world).contains(&"RemoveMember"), !out_of_memory);
    }
}

#[test]
fn two_of_three_gone_is_lost_data_and_nothing_is_done() {
    let mut world = running(3);
    for _ in 0..2 {
        let name = world.nth_pod(0).unwrap();
        world.pods.remove(&name);
    }
    world.log.clear();
    for _ in 0..50 {
        assert_eq!(world.step().progress, Progress::DataLost);
    }
    assert!(world.log.is_empty());
}

#[test]
fn two_of_three_down_with_data_is_waited_for() {
    let mut world = running(3);
    for n in 0..2 {
        let name = world.nth_pod(n).unwrap();
        world.pods.get_mut(&name).unwrap().stopped = true;
    }
    world.log.clear();
    let decision = world.step();
    assert_eq!(decision.progress, Progress::QuorumLost);
    assert!(decision.message.contains("1 of 3 members respond, 2 are needed"), "{}", decision.message);
    for pod in world.pods.values_mut() {
        pod.stopped = false;
    }
    assert!(world.converge(10) && world.log.is_empty());
}

#[test]
fn members_that_require_authentication_are_not_changed_until_they_answer() {
    // given: a member of a recorded cluster, a first member, one that a restore creates
    let known = running(3);
    let mut first = World::new(1);
    while first.memory.cluster_id.is_none() && first.pods.values().all(|pod| !pod.up) {
        first.step();
    }
    first.memory.cluster_id = None;
    let mut restored = running(1);
    restored.goal.restoring = Some("uid".into());
    for (mut world, progress) in
        [(known, Progress::Stuck), (first, Progress::Stuck), (restored, Progress::Restoring)]
    {
        // when: their goal changes, and they require authentication
        world.locked = u8::MAX;
        world.goal.size += 1;
        world.goal.version = "3.4.30".into();
        world.log.clear();
        for _ in 0..50 {
            let decision = world.step();
            // then
            assert_eq!((decision.progress, decision.blocked), (progress, Some("AuthenticationRequired")));
            assert!(
                decision
                    .message
                    .contains("set spec.auth.rootSecret to the Secret with the password of user root"),
                "{decision:?}"
            );
        }
        assert!(world.log.is_empty(), "{:?}", world.log);
        world.locked = 0;
        world.goal.restoring = None;
        assert!(world.converge(400), "{:?}", world.log);
    }
}

#[test]
fn required_authentication_hides_no_data_loss_and_blocks_no_restart_from_a_volume() {
    let mut world = running(3);
    world.locked = u8::MAX;
    let name = world.nth_pod(0).unwrap();
    world.pods.remove(&name);
    assert_eq!(world.step().blocked, Some("AuthenticationRequired"));
    let name = world.nth_pod(0).unwrap();
    world.pods.remove(&name);
    assert_eq!(world.step().progress, Progress::DataLost);

    let mut world = World::new(3).with_volumes(true);
    assert!(world.converge(200));
    world.locked = u8::MAX;
    let name = world.nth_pod(0).unwrap();
    world.pods.remove(&name);
    world.log.clear();
    world.step();
    assert_eq!(kinds(&world), ["CreateMember"]);
    assert!(world.pods.contains_key(&name));
}

#[test]
fn members_that_became_silent_by_a_new_version_go_back() {
    for size in [1, 2] {
        let mut world = running(size);
        world.goal.version = "3.4.30".into();
        while world.pods.values().all(|pod| pod.view.version == "3.4.23") {
            world.step();
        }
        world.settle();
        let new = world.pods.iter().position(|(_, pod)| pod.view.version == "3.4.30").unwrap();
        world.locked = 1 << new;
        world.log.clear();
        assert!(world.step().message.contains("set spec.auth.rootSecret to the Secret"), "of {size}");
        assert!(world.log.is_empty(), "{:?}", world.log);
        world.goal.version = "3.4.23".into();
        world.step();
        assert_eq!(kinds(&world), ["SetVersion"], "of {size}");
        world.locked = 0;
        assert!(world.converge(200), "{:?}", world.log);
    }
}

#[test]
fn the_only_member_gone_never_becomes_an_empty_cluster() {
    let mut world = running(1);
    world.pods.clear();
    for _ in 0..50 {
        assert_eq!(world.step().progress, Progress::DataLost);
    }
    assert_eq!(world.clusters_started, 1);
}

#[test]
fn shrinking_takes_the_newest_that_does_not_lead() {
    let mut world = running(5);
    let leader = world.leader;
    world.goal.size = 3;
    world.log.clear();
    assert!(world.converge(100));
    assert_eq!(kinds(&world), ["RemoveMember", "DeletePod", "RemoveMember", "DeletePod"]);
    assert_eq!(world.leader, leader);
    world.goal.size = 1;
    assert!(world.converge(100));
}

#[test]
fn a_learner_that_is_not_wanted_any_more_goes() {
    let mut world = running(3);
    world.goal.size = 5;
    while !world.members.iter().any(|m| m.is_learner) {
        world.step();
    }
    world.goal.size = 3;
    assert!(world.converge(100));
}

#[test]
fn a_learner_that_never_starts_is_given_ten_minutes() {
    let mut world = running(3);
    world.goal.size = 4;
    while !world.members.iter().any(|m| m.is_learner) {
        world.step();
    }
    world.step();
    let name = world.members.iter().find(|m| m.is_learner).unwrap().pod.clone().unwrap();
    world.pods.get_mut(&name).unwrap().stopped = true;
    world.log.clear();
    for _ in 0..1300 {
        world.step();
        if !world.log.is_empty() {
            break;
        }
    }
    assert!(
        matches!(&world.log[0], Action::RemoveMember { why: Removal::LateLearner(_), .. }),
        "{:?}",
        world.log
    );
}

#[test]
fn an_operator_that_stops_between_any_two_steps_continues_where_it_was() {
    // Only the memory survives; a stop between the action and its record is the worst case.
    for stop_at in 0..12 {
        let mut world = World::new(3);
        for _ in 0..stop_at {
            world.step();
        }
        let kept = world.memory.clone();
        world.step();
        if kept.cluster_id == world.memory.cluster_id {
            world.memory = kept;
        }
        assert!(world.converge(200), "stopped at {stop_at}: {:?}", world.log);
        assert_eq!(world.clusters_started, 1);
    }
}

#[test]
fn members_of_others_are_reported_and_left_alone() {
    let mut world = running(3);
    world.members.push(Member {
        id: 99,
        pod: None,
        peer_url: "http://10.9.9.9:2380".into(),
        started: true,
        is_learner: true,
    });
    world.log.clear();
    let decision = world.step();
    assert_eq!((decision.action, decision.blocked), (None, Some("ForeignMember")));
    assert!(decision.message.contains("etcdctl member remove 63"));
}

#[test]
fn another_cluster_id_stops_everything() {
    let mut world = running(3);
    world.memory.cluster_id = Some("beef".into());
    let decision = world.step();
    assert_eq!((decision.action, decision.blocked), (None, Some("ClusterIDMismatch")));
}

#[test]
fn alarms_hold_up_what_they_must() {
    let mut world = running(3);
    let mut observed = world.observe();
    for endpoint in observed.endpoints.values_mut() {
        endpoint.errors = vec!["memberID:1 alarm:NOSPACE".into()];
    }
    let goal = Goal { size: 5, ..world.goal.clone() };
    // Maintenance comes first, and while it runs no member is added.
    for memory in
        [world.memory.clone(), Memory { pending: Some("c-0000000099".into()), ..world.memory.clone() }]
    {
        match plan(&goal, &memory, &observed).action {
            None | Some(Action::Maintain(_)) => {}
            Some(Action::Remember(noted)) => assert_eq!(noted.pending, memory.pending),
            other => panic!("{other:?}"),
        }
    }
    let steady = plan(&world.goal, &world.memory, &observed);
    assert_eq!(steady.progress, Progress::Steady, "{steady:?}");
    for endpoint in observed.endpoints.values_mut() {
        endpoint.errors = vec!["memberID:1 alarm:CORRUPT".into()];
    }
    assert_eq!(plan(&goal, &world.memory, &observed).blocked, Some("Corrupt"));
}

#[test]
fn members_that_disagree_are_waited_for() {
    let mut world = running(3);
    let mut observed = world.observe();
    let late = observed.endpoints.values_mut().find(|e| e.member_id != world.leader).unwrap();
    late.members.pop();
    assert_eq!(plan(&Goal { size: 5, ..world.goal.clone() }, &world.memory, &observed).action, None);
}

#[test]
fn a_seed_that_never_ran_gets_another_chance_with_another_version_only() {
    let mut world = World::new(3);
    world.step();
    let name = world.nth_pod(0).unwrap();
    let pod = world.pods.get_mut(&name).unwrap();
    (pod.up, pod.view.ever_started, pod.view.waiting) = (false, false, Some("ErrImagePull".into()));
    let observed = Observed { endpoints: Default::default(), ..world.observe() };
    let same = plan(&world.goal, &Memory::default(), &observed);
    assert!(same.action.is_none() && same.message.contains("ErrImagePull"), "{same:?}");
    let goal = Goal { version: "3.5.26".into(), ..world.goal.clone() };
    assert!(matches!(plan(&goal, &Memory::default(), &observed).action, Some(Action::DeletePod { .. })));
}

#[test]
fn after_a_learner_that_never_started_the_next_try_waits_or_follows_an_edit() {
    let mut world = running(3);
    world.goal = Goal { size: 4, generation: Some(7), ..world.goal };
    while !world.members.iter().any(|m| m.is_learner) {
        world.step();
    }
    world.step();
    let name = world.members.iter().find(|m| m.is_learner).unwrap().pod.clone().unwrap();
    world.pods.get_mut(&name).unwrap().stopped = true;
    while world.memory.failure.is_none() {
        world.step();
    }
    world.log.clear();
    let mut last = None;
    for _ in 0..20 {
        last = Some(world.step());
    }
    let last = last.unwrap();
    assert_eq!((last.progress, last.blocked), (Progress::ScalingUp, Some("LearnerFailed")));
    assert!(kinds(&world).iter().all(|kind| *kind == "DeletePod"), "{:?}", kinds(&world));
    let mut edited = world.clone();
    edited.goal.generation = Some(8);
    edited.step();
    assert_eq!(edited.log.last().map(Action::kind), Some("Remember"));
    assert!(world.converge(1000), "it tries again after a while");
}

#[test]
fn a_member_that_was_restarted_often_in_a_long_life_is_no_crash_loop() {
    let mut world = running(3);
    let name = world.nth_pod(0).unwrap();
    let pod = world.pods.get_mut(&name).unwrap();
    (pod.stopped, pod.view.restarts) = (true, 9);
    world.settle();
    world.log.clear();
    for _ in 0..100 {
        world.step();
    }
    assert!(world.log.is_empty(), "{:?}", world.log);
}

#[test]
fn two_members_become_one_and_the_leader_stays() {
    let mut world = running(2);
    let leader = world.leader;
    world.goal.size = 1;
    world.log.clear();
    assert!(world.converge(50));
    assert_eq!((world.leader, kinds(&world)), (leader, vec!["RemoveMember", "DeletePod"]));
}

#[test]
fn while_a_restore_works_nothing_is_touched() {
    let mut world = running(3);
    world.goal.restoring = Some("uid".into());
    world.pods.clear();
    world.log.clear();
    for _ in 0..10 {
        assert_eq!(world.step().progress, Progress::Restoring);
    }
    assert!(world.log.is_empty());
}
