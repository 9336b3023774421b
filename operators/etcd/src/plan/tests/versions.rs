//! Upgrades of the etcd version.

use super::super::*;
use super::model::{BROKEN, World};
use super::{kinds, running};
use crate::observed::Endpoint;

fn upgraded(world: &World) -> Vec<(String, String)> {
    let one = |action: &Action| match action {
        Action::SetVersion { name, to, .. } => Some((name.clone(), to.clone())),
        _ => None,
    };
    world.log.iter().filter_map(one).collect()
}

#[test]
fn followers_go_first_the_newest_of_them_at_the_start_and_the_leader_hands_over() {
    for volumes in [false, true] {
        let mut world = World::new(3).with_volumes(volumes);
        assert!(world.converge(200));
        let leader = world.members.iter().find(|m| m.id == world.leader).unwrap().pod.clone().unwrap();
        world.goal.version = "3.5.30".into();
        world.log.clear();
        assert!(world.converge(500), "{:?}", world.log);
        assert_eq!(kinds(&world), ["SetVersion", "SetVersion", "MoveLeader", "SetVersion"]);
        assert_eq!(upgraded(&world).last().unwrap().0, leader);
        assert_eq!(world.cluster_minor, 5);
        assert!(world.claims.values().all(|claim| claim.view.version == "3.5.30"));
    }
}

#[test]
fn clusters_of_one_and_two_are_upgraded_too_they_stand_still_meanwhile() {
    for size in [1, 2] {
        let mut world = running(size);
        world.goal.version = "3.5.30".into();
        world.log.clear();
        assert!(world.converge(300), "{:?}", world.log);
        assert_eq!(upgraded(&world).len(), size);
    }
}

#[test]
fn a_refused_version_changes_nothing_and_reports_the_reason() {
    for (version, auth, reason) in [
        ("3.6.4", false, "UnsupportedVersionSkew"),
        ("3.5.1", false, "KnownBadVersion"),
        ("3.5.30", true, "AuthEnabled"),
    ] {
        let mut world = running(3);
        world.goal = Goal { version: version.into(), auth, ..world.goal };
        world.memory.auth_enabled = auth;
        world.log.clear();
        for _ in 0..20 {
            assert_eq!(world.step().progress, Progress::Steady);
        }
        assert!(world.log.is_empty());
        let observed = world.observe();
        let state = upgrade(&world.goal, &world.memory, &observed, assess(&observed).as_ref());
        assert!(
            matches!(state, Upgrade::Refused { reason: why, .. } if why == reason),
            "{version}: {state:?}"
        );
    }
}

#[test]
fn authentication_reported_by_members_counts_too() {
    let mut world = running(3);
    world.goal.version = "3.5.30".into();
    let mut observed = world.observe();
    observed.endpoints.values_mut().for_each(|e: &mut Endpoint| e.auth = true);
    assert_eq!(plan(&world.goal, &world.memory, &observed).action, None);
}

#[test]
fn an_upgrade_stops_at_the_first_failing_member_and_can_be_reverted() {
    let mut world = running(3);
    world.goal.version = BROKEN.into();
    world.log.clear();
    let mut blocked = None;
    for _ in 0..1500 {
        blocked = world.step().blocked;
    }
    assert_eq!((upgraded(&world).len(), blocked), (1, Some("UpgradeStalled")), "{:?}", world.log);
    assert_eq!(kinds(&world), ["SetVersion"], "the member is not replaced for what the version does to it");
    world.goal.version = "3.4.23".into();
    assert!(world.converge(100), "{:?}", world.log);
    assert_eq!(kinds(&world), ["SetVersion", "SetVersion"]);
}

#[test]
fn the_only_member_goes_back_from_a_version_that_does_not_start() {
    let mut world = running(1);
    world.goal.version = BROKEN.into();
    for _ in 0..50 {
        world.step();
    }
    assert!(!world.has_quorum());
    world.goal.version = "3.4.23".into();
    assert!(world.converge(50), "{:?}", world.log);
}

#[test]
fn half_way_the_way_back_is_open_and_at_the_end_it_is_not() {
    let mut world = running(3);
    world.goal.version = "3.5.30".into();
    world.log.clear();
    while upgraded(&world).len() < 2 {
        world.step();
    }
    world.goal.version = "3.4.23".into();
    assert!(world.converge(200), "{:?}", world.log);
    assert_eq!(world.cluster_minor, 4);
    world.goal.version = "3.5.30".into();
    assert!(world.converge(500));
    world.goal.version = "3.4.23".into();
    world.log.clear();
    for _ in 0..20 {
        world.step();
    }
    assert!(world.log.is_empty());
}

#[test]
fn a_member_lost_half_way_is_replaced_by_one_that_all_understand() {
    let mut world = running(3);
    world.goal.version = "3.5.30".into();
    world.log.clear();
    while upgraded(&world).is_empty() {
        world.step();
    }
    let old = world.pods.values().find(|pod| pod.view.version == "3.4.23").unwrap().view.name.clone();
    world.settle();
    world.pods.remove(&old);
    let mut first = None;
    for _ in 0..100 {
        world.step();
        first = world.log.iter().find_map(|action| match action {
            Action::CreateMember { version, .. } => Some(version.clone()),
            _ => None,
        });
        if first.is_some() {
            break;
        }
    }
    assert_eq!(first.as_deref(), Some("3.4.23"));
    assert!(world.converge(800), "{:?}", world.log);
}
