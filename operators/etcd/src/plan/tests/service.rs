//! Pods leave the client Service before their etcd is removed or restarted, and come back.

use super::super::*;
use super::model::World;
use super::running;
use crate::observed::Serving;

fn all_kinds(world: &World) -> Vec<&'static str> {
    world.log.iter().map(Action::kind).collect()
}

/// Steps until a pod has left the client Service; its name.
fn until_left(world: &mut World) -> String {
    for _ in 0..100 {
        if let Some(Action::LeaveService { name, .. }) = world.step().action {
            return name;
        }
    }
    panic!("no pod leaves: {:?}", world.log);
}

#[test]
fn a_removed_member_has_left_the_service_for_five_seconds() {
    let mut world = running(5);
    world.goal.size = 3;
    world.log.clear();
    let name = until_left(&mut world);
    let left = world.now;
    let decision = world.step();
    assert_eq!((decision.progress, decision.blocked), (Progress::ScalingDown, None), "{decision:?}");
    assert!(decision.message.contains("has left the client Service"), "{}", decision.message);
    while !world
        .log
        .iter()
        .any(|action| matches!(action, Action::RemoveMember { name: gone, .. } if *gone == name))
    {
        world.step();
    }
    assert!(world.now.duration_since(left) >= SignedDuration::from_secs(5));
    assert!(world.converge(100), "{:?}", world.log);
    let one = ["LeaveService", "RemoveMember", "DeletePod"];
    assert_eq!(all_kinds(&world), [one, one].concat());
}

#[test]
fn an_upgraded_member_leaves_the_service_and_comes_back_before_the_next_one_leaves() {
    let mut world = running(3);
    world.goal.version = "3.5.30".into();
    world.log.clear();
    assert!(world.converge(500), "{:?}", world.log);
    let one = ["LeaveService", "SetVersion", "JoinService"];
    let expected = [&one[..], &one, &["MoveLeader"], &one].concat();
    assert_eq!(all_kinds(&world), expected);
}

#[test]
fn a_member_whose_removal_or_upgrade_is_reverted_rejoins() {
    for upgrade in [false, true] {
        let mut world = running(3);
        let goal = world.goal.clone();
        if upgrade {
            world.goal.version = "3.5.30".into();
        } else {
            world.goal.size = 1;
        }
        let name = until_left(&mut world);
        world.goal = goal;
        world.log.clear();
        let next = world.step();
        assert!(
            matches!(&next.action, Some(Action::JoinService { name: back, .. }) if *back == name),
            "{next:?}"
        );
        assert!(world.converge(10), "{:?}", world.log);
        assert_eq!(all_kinds(&world), ["JoinService"]);
    }
}

#[test]
fn another_operator_removes_the_member_that_has_left() {
    let mut world = running(5);
    world.goal.size = 4;
    world.log.clear();
    let name = until_left(&mut world);
    world.another_operator();
    assert!(world.converge(100), "{:?}", world.log);
    assert!(!world.pods.contains_key(&name));
    assert_eq!(all_kinds(&world), ["LeaveService", "RemoveMember", "DeletePod"]);
}

#[test]
fn a_departure_recorded_with_a_future_time_is_recorded_again() {
    let mut world = running(5);
    world.goal.size = 4;
    let name = until_left(&mut world);
    let ahead = world.now + SignedDuration::from_secs(3600);
    world.pods.get_mut(&name).unwrap().view.serving_since = Some(ahead);
    world.log.clear();
    assert_eq!(until_left(&mut world), name);
    assert!(world.converge(100), "{:?}", world.log);
    assert!(!world.pods.contains_key(&name));
    assert_eq!(all_kinds(&world), ["LeaveService", "RemoveMember", "DeletePod"]);
}

#[test]
fn a_member_that_has_left_comes_back_when_another_one_is_lost() {
    let mut world = running(5);
    world.goal.size = 4;
    let left = until_left(&mut world);
    let lost = world.pods.keys().find(|name| **name != left).unwrap().clone();
    world.pods.remove(&lost);
    world.log.clear();
    assert!(world.converge(100), "{:?}", world.log);
    assert!(world.pods.contains_key(&left) && !world.pods.contains_key(&lost), "{:?}", world.log);
    assert!(all_kinds(&world).contains(&"JoinService"), "{:?}", world.log);
}

#[test]
fn one_of_one_or_two_members_is_restarted_with_its_clients() {
    for size in [1, 2] {
        let mut world = running(size);
        world.goal.version = "3.5.30".into();
        world.log.clear();
        assert!(world.converge(300), "{:?}", world.log);
        assert!(!all_kinds(&world).contains(&"LeaveService"), "{:?}", world.log);
    }
}

#[test]
fn pods_of_an_older_operator_get_the_label_before_one_of_them_leaves() {
    let mut world = running(3);
    for pod in world.pods.values_mut() {
        (pod.view.serving, pod.view.serving_since) = (Serving::Unlabelled, None);
    }
    world.goal.size = 2;
    world.log.clear();
    until_left(&mut world);
    assert_eq!(all_kinds(&world), ["JoinService", "JoinService", "JoinService", "LeaveService"]);
    let labelled = world.pods.values().filter_map(|pod| pod.view.serving_since).min().unwrap();
    assert!(world.now.duration_since(labelled) >= SignedDuration::from_secs(5));
    assert!(world.converge(100), "{:?}", world.log);
}

#[test]
fn the_last_pod_that_serves_does_not_leave() {
    let mut world = running(3);
    world.goal.size = 2;
    let mut observed = world.observe();
    (observed.compared_now, observed.now) = (true, observed.now + SignedDuration::from_secs(60));
    let sum = crate::observed::Hash { hash: 1, revision: 7, compacted: 1 };
    observed.hashes = observed.pods.iter().map(|pod| (pod.name.clone(), sum)).collect();
    let leaves = plan(&world.goal, &world.memory, &observed);
    let Some(Action::LeaveService { name, .. }) = leaves.action else { panic!("{leaves:?}") };
    observed.pods.iter_mut().filter(|pod| pod.name != name).for_each(|pod| pod.ready = false);
    let waits = plan(&world.goal, &world.memory, &observed);
    assert_eq!((waits.action, waits.blocked), (None, Some("MembersUnhealthy")));
    assert!(waits.message.ends_with("when another member is ready for clients"), "{}", waits.message);
}
