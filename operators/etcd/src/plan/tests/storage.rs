//! Members with volumes.

use super::super::*;
use super::kinds;
use super::model::World;
use crate::observed::Start;

fn running(size: usize) -> World {
    let mut world = World::new(size).with_volumes(true);
    assert!(world.converge(200), "no cluster of {size}: {:?}", world.log);
    world
}

#[test]
fn a_lost_pod_comes_back_as_the_same_member_and_no_member_is_removed() {
    let mut world = running(3);
    let before = world.members.clone();
    let lost = world.nth_pod(1).unwrap();
    world.pods.remove(&lost);
    world.log.clear();
    assert!(world.converge(50));
    assert_eq!(kinds(&world), ["CreateMember"]);
    assert!(matches!(&world.log[0], Action::CreateMember { start: Start::Refused, volume: true, .. }));
    assert_eq!(world.members, before);
}

#[test]
fn an_evicted_pod_is_deleted_and_made_again_with_its_volume() {
    let mut world = running(3);
    let name = world.nth_pod(0).unwrap();
    let pod = world.pods.get_mut(&name).unwrap();
    (pod.up, pod.view.ended) = (false, true);
    world.log.clear();
    assert!(world.converge(50));
    assert_eq!(kinds(&world), ["DeletePod", "CreateMember"]);
}

#[test]
fn all_pods_gone_with_their_volumes_there_come_back_by_themselves() {
    let mut world = running(3);
    world.pods.clear();
    world.log.clear();
    assert_eq!(world.step().progress, Progress::QuorumLost);
    assert!(world.converge(50));
    assert_eq!(kinds(&world), ["CreateMember"; 3]);
    assert_eq!(world.clusters_started, 1);
}

#[test]
fn a_lost_volume_is_a_lost_member_and_its_claim_goes_after_it() {
    let mut world = running(3);
    let lost = world.nth_pod(2).unwrap();
    world.pods.remove(&lost);
    world.claims.remove(&lost);
    world.log.clear();
    assert!(world.converge(200));
    assert_eq!(kinds(&world)[0], "RemoveMember");

    world.goal.size = 1;
    world.log.clear();
    assert!(world.converge(100));
    let one = ["RemoveMember", "DeletePod", "ReleaseClaim"];
    let removed: Vec<_> = kinds(&world).into_iter().filter(|kind| *kind != "MoveLeader").collect();
    assert_eq!(removed, [one, one].concat());
}

#[test]
fn a_member_with_a_wiped_volume_is_replaced_and_starts_no_second_cluster() {
    let mut world = running(3);
    // The very first member, which once bootstrapped a new cluster.
    let seed = match &world.log[0] {
        Action::CreateSeed { name, .. } => name.clone(),
        other => panic!("{other:?}"),
    };
    *world.data_mut(&seed).unwrap() = None;
    world.pods.get_mut(&seed).unwrap().up = false;
    world.log.clear();
    // Its first termination proves that its data is gone: only the comparison of the others and another
    // leader are waited for.
    for _ in 0..5 {
        world.step();
    }
    assert!(kinds(&world).contains(&"RemoveMember"), "{:?}", world.log);
    assert!(world.converge(300), "{:?}", world.log);
    assert!(kinds(&world).contains(&"RemoveMember") && !world.pods.contains_key(&seed));
    assert_eq!(world.clusters_started, 1);
}

#[test]
fn members_whose_volumes_are_empty_do_not_count_as_having_data() {
    let mut world = running(3);
    for n in 0..2 {
        let name = world.nth_pod(n).unwrap();
        *world.data_mut(&name).unwrap() = None;
        world.pods.get_mut(&name).unwrap().up = false;
    }
    world.log.clear();
    world.step();
    for _ in 0..50 {
        assert_eq!(world.step().progress, Progress::DataLost);
    }
    assert!(world.log.is_empty(), "{:?}", world.log);
}

#[test]
fn quorum_lost_with_wiped_volumes_is_left_to_people() {
    let mut world = running(3);
    for n in 0..2 {
        let name = world.nth_pod(n).unwrap();
        world.pods.get_mut(&name).unwrap().stopped = true;
        world.claims.remove(&name);
    }
    let lost: Vec<String> = (0..2).map(|n| world.nth_pod(n).unwrap()).collect();
    lost.iter().for_each(|name| drop(world.pods.remove(name)));
    world.log.clear();
    for _ in 0..50 {
        assert_eq!(world.step().progress, Progress::DataLost);
    }
    assert!(world.log.is_empty());
}

#[test]
fn a_seed_that_was_lost_before_its_id_was_known_is_found_again_by_its_claim() {
    let mut world = World::new(3).with_volumes(true);
    world.interrupted_step(1);
    assert!(world.pods.is_empty() && world.claims.len() == 1);
    let name = world.claims.keys().next().unwrap().clone();
    assert!(world.converge(200));
    assert!(world.pods.contains_key(&name));
    assert_eq!(world.clusters_started, 1);
}

fn delete_claims(world: &mut World) {
    world.claims.values_mut().for_each(|claim| claim.view.deleting = true);
    world.log.clear();
}

#[test]
fn members_whose_claims_are_being_deleted_are_replaced_one_by_one() {
    for size in [3, 4, 5] {
        let mut world = running(size);
        let before: Vec<u64> = world.members.iter().map(|m| m.id).collect();
        delete_claims(&mut world);
        assert!(world.converge(600), "{:?}", world.log);
        let mut changes = kinds(&world);
        changes.retain(|kind| ["RemoveMember", "Promote", "Restart"].contains(kind));
        assert_eq!(changes, ["RemoveMember", "Promote"].repeat(size));
        let renewed = |action: &Action| match action {
            Action::RemoveMember { why, .. } => matches!(why, Removal::Renewed(_)),
            _ => true,
        };
        assert!(world.log.iter().all(renewed), "{:?}", world.log);
        assert!(world.members.iter().all(|m| !before.contains(&m.id)));
        assert_eq!(world.clusters_started, 1);
    }
}

#[test]
fn of_one_or_two_members_none_is_replaced_for_its_claim_until_the_size_is_three() {
    for size in [1, 2] {
        let mut world = running(size);
        let before: Vec<u64> = world.members.iter().map(|m| m.id).collect();
        delete_claims(&mut world);
        for _ in 0..50 {
            assert_eq!(world.step().progress, Progress::Steady);
        }
        assert!(world.log.is_empty(), "{:?}", world.log);
        world.goal.size = 3;
        assert!(world.converge(600), "{:?}", world.log);
        assert!(world.members.iter().all(|m| !before.contains(&m.id)));
    }
}

#[test]
fn no_member_is_replaced_for_its_claim_while_another_one_is_not_healthy() {
    let mut world = running(3);
    let away = world.nth_pod(0).unwrap();
    world.pods.get_mut(&away).unwrap().stopped = true;
    delete_claims(&mut world);
    world.claims.get_mut(&away).unwrap().view.deleting = false;
    for _ in 0..50 {
        world.step();
    }
    assert!(world.log.is_empty(), "{:?}", world.log);
    world.pods.get_mut(&away).unwrap().stopped = false;
    assert!(world.converge(600), "{:?}", world.log);
    assert_eq!(kinds(&world).iter().filter(|kind| **kind == "RemoveMember").count(), 2);
    assert!(world.pods.contains_key(&away));
}

#[test]
fn no_member_is_replaced_for_its_claim_while_too_few_others_can_be_compared() {
    let mut world = running(3);
    let mute = world.nth_pod(0).unwrap();
    world.pods.get_mut(&mute).unwrap().mute = true;
    let deleting = world.nth_pod(1).unwrap();
    world.claims.get_mut(&deleting).unwrap().view.deleting = true;
    world.log.clear();
    for _ in 0..200 {
        world.step();
    }
    assert!(!kinds(&world).contains(&"RemoveMember"), "{:?}", world.log);
    world.pods.get_mut(&mute).unwrap().mute = false;
    world.now += SignedDuration::from_secs(3600);
    assert!(world.converge(600), "{:?}", world.log);
    assert!(!world.pods.contains_key(&deleting) && world.pods.contains_key(&mute));
}

#[test]
fn a_member_whose_claim_is_being_deleted_goes_first_for_the_size() {
    let mut world = running(5);
    let followers = world.members.iter().filter(|m| m.id != world.leader);
    let oldest = followers.min_by_key(|m| m.id).and_then(|m| m.pod.clone()).unwrap();
    world.claims.get_mut(&oldest).unwrap().view.deleting = true;
    world.goal.size = 4;
    world.log.clear();
    assert!(world.converge(200), "{:?}", world.log);
    let first = world.log.iter().find(|action| action.kind() == "RemoveMember");
    assert!(matches!(first, Some(Action::RemoveMember { name, .. }) if *name == oldest), "{first:?}");
}
