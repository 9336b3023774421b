//! Members with different data: allowed and forbidden actions, from the comparison that finds the difference
//! to one that finds all equal. Schedule and meaning of hashes: `compare`.

use super::super::*;
use super::model::World;
use super::{kinds, running};
use crate::observed::{Corruption, quorum};

pub(super) fn name_of_leader(world: &World) -> String {
    world.members.iter().find(|m| m.id == world.leader).unwrap().pod.clone().unwrap()
}

pub(super) fn followers(world: &World) -> Vec<String> {
    world.members.iter().filter(|m| m.id != world.leader).filter_map(|m| m.pod.clone()).collect()
}

/// Observes until a comparison finds and records a difference; returns the next decision. The model compares
/// every 20th time.
pub(super) fn found(world: &mut World) -> Decision {
    let found = (0..20).map(|_| world.step()).find(|decision| decision.blocked == Some("Corrupt"));
    let found = found.expect("a comparison finds it");
    assert!(matches!(found.action, Some(Action::Remember(_))), "{found:?}");
    world.log.clear();
    world.step_past_service()
}

pub(super) fn removes_corrupt(action: Option<&Action>) -> bool {
    matches!(action, Some(Action::RemoveMember { why: Removal::Corrupt(_), .. }))
}

#[test]
fn a_corrupt_leader_hands_over_and_is_removed_in_the_next_step() {
    let mut world = running(3);
    let leader = name_of_leader(&world);
    world.spoil(&leader);
    let first = found(&mut world);
    assert!(matches!(first.action, Some(Action::MoveLeader { .. })), "{first:?}");
    let second = world.step_past_service();
    assert!(removes_corrupt(second.action.as_ref()) && second.blocked == Some("Corrupt"), "{second:?}");
    assert!(world.converge(200));
    assert!(!world.pods.contains_key(&leader));
}

#[test]
fn corruption_without_a_majority_is_reported_and_nothing_is_changed() {
    for restarts in [false, true] {
        let mut world = running(2);
        let name = world.nth_pod(0).unwrap();
        world.spoil(&name);
        let first = found(&mut world);
        world.goal = Goal { size: 5, version: "3.5.30".into(), ..world.goal };
        for look in 0..200 {
            if restarts && look % 7 == 0 {
                world.another_operator();
            }
            if look == 150 {
                world.now += SignedDuration::from_secs(3600);
            }
            let decision = world.step();
            assert_eq!((decision.progress, decision.blocked), (Progress::Stuck, Some("Corrupt")), "{look}");
            // The same message, or the status would change with every observation.
            assert_eq!(decision.message, first.message);
        }
        assert!(world.log.is_empty(), "{:?}", world.log);
        // A user decides which data is correct.
        world.dismiss_corrupt();
        assert!(world.converge(1000), "{:?}", world.log);
    }
}

#[test]
fn known_corruption_is_repaired_before_any_other_change() {
    for size in 3..=7 {
        for bad in 1..=size - quorum(size) {
            for (wanted, leads) in [(7, true), (7, false), (1, true), (1, false)] {
                let mut world = running(size);
                let others = followers(&world).into_iter().rev();
                let victims = leads.then(|| name_of_leader(&world)).into_iter().chain(others).take(bad);
                for victim in victims.collect::<Vec<_>>() {
                    world.spoil(&victim);
                }
                let mut decision = found(&mut world);
                world.goal = Goal { size: wanted, version: "3.5.30".into(), ..world.goal };
                // One observation for each removal, and one for a transfer of leadership; findings are
                // recorded in between.
                for _ in 0..2 * bad + usize::from(leads) {
                    if world.memory.corruption.is_none() {
                        break;
                    }
                    assert_eq!(decision.blocked, Some("Corrupt"), "{decision:?}");
                    let mends =
                        matches!(decision.action, Some(Action::MoveLeader { .. } | Action::Remember(_)))
                            || removes_corrupt(decision.action.as_ref());
                    assert!(mends, "{decision:?}");
                    decision = world.step_past_service();
                }
                assert_eq!((decision.blocked, world.memory.corruption.as_ref()), (None, None));
                assert!(!world.members.iter().any(|m| world.is_corrupt(m)), "{:?}", world.log);
                assert!(world.converge(2000), "{:?}", world.log);
            }
        }
    }
}

#[test]
fn a_corrupt_member_stays_until_one_that_is_away_is_back() {
    let mut world = running(3);
    let leader = name_of_leader(&world);
    world.spoil(&leader);
    found(&mut world);
    let away = followers(&world).into_iter().find(|name| *name != leader).unwrap();
    world.pods.get_mut(&away).unwrap().stopped = true;
    world.log.clear();
    // Longer than the grace period of an unreachable member: without it and the corrupt one there would be no
    // quorum.
    for _ in 0..1000 {
        let decision = world.step();
        assert_eq!((decision.action, decision.blocked), (None, Some("Corrupt")), "{}", decision.message);
    }
    world.pods.get_mut(&away).unwrap().stopped = false;
    world.settle();
    assert!(removes_corrupt(world.step_past_service().action.as_ref()), "{:?}", world.log);
    assert!(world.converge(200));
    assert!(world.pods.contains_key(&away) && !world.pods.contains_key(&leader));
}

#[test]
fn a_member_absent_from_a_comparison_is_compared_when_it_is_back() {
    let mut world = running(3);
    let names = followers(&world);
    world.spoil(&names[0]);
    world.pods.get_mut(&names[1]).unwrap().stopped = true;
    world.settle();
    // With two differing members the correct data is unknown.
    found(&mut world);
    assert_eq!(world.step().action, None);
    world.pods.get_mut(&names[1]).unwrap().stopped = false;
    assert!(world.converge(400));
    assert!(!world.pods.contains_key(&names[0]) && world.pods.contains_key(&names[1]), "{:?}", world.log);
}

#[test]
fn a_spare_lost_member_is_removed_before_the_corrupt_one() {
    let mut world = running(5);
    let leader = name_of_leader(&world);
    world.spoil(&leader);
    found(&mut world);
    let lost = followers(&world).into_iter().find(|name| *name != leader).unwrap();
    world.pods.remove(&lost);
    let (first, second) = (world.step(), world.step_past_service());
    assert!(
        matches!(&first.action, Some(Action::RemoveMember { name, why: Removal::Dead(_), .. }) if *name == lost),
        "{first:?}"
    );
    assert_eq!(first.blocked, Some("Corrupt"));
    assert!(removes_corrupt(second.action.as_ref()), "{second:?}");
    assert!(world.converge(300));
}

#[test]
fn a_member_whose_pod_is_lost_comes_back_with_its_volume_before_the_corrupt_one_goes() {
    let mut world = World::new(3).with_volumes(true);
    assert!(world.converge(200));
    let leader = name_of_leader(&world);
    world.spoil(&leader);
    found(&mut world);
    let lost = followers(&world).into_iter().find(|name| *name != leader).unwrap();
    world.pods.remove(&lost);
    world.log.clear();
    let first = world.step();
    assert!(matches!(&first.action, Some(Action::CreateMember { name, .. }) if *name == lost), "{first:?}");
    assert_eq!(first.blocked, Some("Corrupt"));
    assert!(world.converge(200));
    assert_eq!(kinds(&world)[..2], ["CreateMember", "RemoveMember"]);
    assert!(world.pods.contains_key(&lost) && !world.pods.contains_key(&leader));
}

#[test]
fn a_difference_is_known_until_all_are_compared_and_hold_the_same() {
    // given two that differ, found while the third is unreachable
    for restarts in [false, true] {
        let mut world = running(3);
        let names = followers(&world);
        world.spoil(&names[0]);
        world.pods.get_mut(&names[1]).unwrap().stopped = true;
        world.settle();
        found(&mut world);
        // when it is back and the wrong one returns no hash: the two others hold the same
        world.pods.get_mut(&names[1]).unwrap().stopped = false;
        world.pods.get_mut(&names[0]).unwrap().mute = true;
        world.goal.size = 1;
        world.settle();
        world.log.clear();
        let mut reported = None;
        for look in 0..200 {
            if restarts && look % 7 == 0 {
                world.another_operator();
            }
            reported = Some(world.step()).filter(|reported| reported.blocked == Some("Corrupt"));
            assert!(reported.is_some(), "forgotten in look {look}");
        }
        // then no member is removed by a scale-down, and the missing hash is reported
        assert!(world.log.is_empty(), "{:?}", world.log);
        let reported = reported.unwrap().message;
        assert!(restarts || reported.ends_with(&format!("no data hash from {}", names[0])), "{reported}");
        // and it is removed as soon as it is identified
        world.pods.get_mut(&names[0]).unwrap().mute = false;
        for _ in 0..300 {
            world.step();
            if world.memory.corruption.is_none() {
                break;
            }
        }
        assert!(removes_corrupt(world.log.iter().find(|action| action.changes_membership())));
        assert!(!world.members.iter().any(|m| m.pod.as_ref() == Some(&names[0])), "{:?}", world.log);
        assert!(world.converge(200), "{:?}", world.log);
    }
}

#[test]
fn an_absent_member_is_compared_as_soon_as_it_is_back() {
    let mut world = running(3);
    let names = followers(&world);
    world.spoil(&names[0]);
    world.pods.get_mut(&names[1]).unwrap().stopped = true;
    world.settle();
    found(&mut world);
    // when comparisons have become rare
    for _ in 0..200 {
        world.step();
    }
    world.pods.get_mut(&names[1]).unwrap().stopped = false;
    world.settle();
    // Not twice within two seconds.
    let mut next = (0..5).filter_map(|_| world.step().action);
    let first = next.next();
    let Some(Action::Remember(noted)) = &first else { panic!("{first:?}") };
    assert!(noted.corruption.as_ref().is_some_and(|known| known.wrong.contains(&names[0])), "{noted:?}");
    let second = world.step_past_service().action;
    assert!(removes_corrupt(second.as_ref()), "{second:?}");
}

#[test]
fn a_restarted_operator_restores_the_corrupt_member_from_the_status() {
    let mut world = running(3);
    let names = followers(&world);
    world.spoil(&names[0]);
    world.pods.get_mut(&names[1]).unwrap().slow = 9000;
    let first = found(&mut world);
    assert_eq!((first.action, first.blocked), (None, Some("Corrupt")), "one that is far behind is missing");
    // given no member that returns a hash
    for pod in world.pods.values_mut() {
        pod.mute = true;
    }
    world.another_operator();
    let next = world.step();
    assert_eq!((&next.action, next.blocked), (&None, Some("Corrupt")));
    assert!(
        next.message.starts_with(&format!("the data of {} differs from the majority", names[0])),
        "{}",
        next.message
    );
    world.pods.get_mut(&names[1]).unwrap().slow = 0;
    assert!(removes_corrupt(world.step_past_service().action.as_ref()), "{:?}", world.log);
}

#[test]
fn while_members_apply_a_change_nothing_is_repaired_and_all_is_reported() {
    let mut world = running(3);
    let names = followers(&world);
    world.spoil(&names[0]);
    world.pods.get_mut(&names[1]).unwrap().slow = 9000;
    let before = found(&mut world);
    world.pods.get_mut(&names[1]).unwrap().slow = 0;
    let mut observed = world.observe();
    observed.endpoints.get_mut(&names[1]).unwrap().members.pop();
    let decision = plan(&world.goal, &world.memory, &observed);
    assert_eq!((decision.action, decision.blocked), (None, Some("Corrupt")));
    assert_eq!(decision.message, before.message.split("; ").next().unwrap());
}

#[test]
fn a_single_voter_is_never_corrupt() {
    let mut world = running(2);
    let name = followers(&world).remove(0);
    world.spoil(&name);
    found(&mut world);
    world.goal.size = 1;
    world.dismiss_corrupt();
    let next = world.step();
    assert_eq!((next.blocked, &world.memory.corruption), (None, &None), "{next:?}");
    assert!(world.converge(100), "{:?}", world.log);
}

#[test]
fn what_was_known_of_another_etcd_cluster_is_forgotten() {
    let mut world = running(3);
    world.memory.corruption =
        Some(Corruption { cluster_id: "beef".into(), wrong: world.pods.keys().take(1).cloned().collect() });
    let next = world.step();
    assert_eq!((next.blocked, &world.memory.corruption), (None, &None), "{next:?}");
}
