//! Members with different data while members join, leave or are lost, and alarms.

use super::super::*;
use super::corrupt::{followers, found, name_of_leader, removes_corrupt};
use super::model::World;
use super::{kinds, running};

/// A cluster of this size with an added learner that does not catch up before the comparison, and its name.
fn growing(size: usize) -> (World, String) {
    let mut world = running(size);
    world.goal.size = size + 1;
    while !world.members.iter().any(|m| m.is_learner) {
        world.step();
    }
    world.step();
    let learner = world.members.iter().find(|m| m.is_learner).unwrap().pod.clone().unwrap();
    world.pods.get_mut(&learner).unwrap().slow = 19_999;
    (world, learner)
}

#[test]
fn a_learner_is_taken_out_when_members_differ_and_gets_no_vote_afterwards() {
    for leads in [false, true] {
        let (mut world, learner) = growing(3);
        let victim = if leads { name_of_leader(&world) } else { followers(&world).remove(0) };
        world.spoil(&victim);
        let next = found(&mut world);
        assert!(
            matches!(&next.action, Some(Action::RemoveMember { name, why: Removal::Learner(_), .. }) if *name == learner),
            "{next:?}"
        );
        assert_eq!(next.blocked, Some("Corrupt"));
        assert!(world.converge(300), "{:?}", world.log);
        assert!(!world.pods.contains_key(&learner) && !world.pods.contains_key(&victim), "{:?}", world.log);
    }
}

#[test]
fn a_learner_of_members_of_whom_a_person_took_the_wrong_one_out_gets_no_vote() {
    let (mut world, learner) = growing(2);
    let victim = name_of_leader(&world);
    world.spoil(&victim);
    let next = found(&mut world);
    assert_eq!((&next.action, next.blocked), (&None, Some("Corrupt")), "the correct data is unknown");
    world.members.retain(|m| m.pod.as_ref() != Some(&victim));
    let next = world.step_past_service();
    assert!(matches!(&next.action, Some(Action::RemoveMember { name, .. }) if *name == learner), "{next:?}");
    assert!(world.converge(300), "{:?}", world.log);
}

#[test]
fn before_a_member_is_added_those_there_are_are_compared() {
    let mut world = running(3);
    world.now += SignedDuration::from_secs(400);
    world.settle();
    let victim = name_of_leader(&world);
    world.spoil(&victim);
    world.goal.size = 4;
    world.log.clear();
    while !world.log.iter().any(Action::changes_membership) {
        world.step();
    }
    assert!(removes_corrupt(world.log.last()), "{:?}", world.log);
}

#[test]
fn before_a_member_is_removed_for_the_size_the_members_are_compared_and_corrupt_ones_go_first() {
    for leads in [false, true] {
        let mut world = running(6);
        world.now += SignedDuration::from_secs(10);
        let others = followers(&world);
        let second = if leads { name_of_leader(&world) } else { others[1].clone() };
        let wrong = [others[0].clone(), second];
        wrong.iter().for_each(|name| world.spoil(name));
        world.goal.size = 1;
        world.log.clear();
        while world.voters() > 4 {
            let decision = world.step();
            assert_ne!(decision.progress, Progress::ScalingDown, "{decision:?}");
        }
        assert!(world.members.iter().all(|m| !wrong.contains(m.pod.as_ref().unwrap())), "{:?}", world.log);
        assert!(world.converge(300), "{:?}", world.log);
    }
}

#[test]
fn members_without_a_majority_that_agrees_are_not_removed_for_the_size() {
    let mut world = running(4);
    followers(&world)[..2].iter().for_each(|name| world.spoil(name));
    world.goal.size = 1;
    world.log.clear();
    for _ in 0..50 {
        world.step();
    }
    let reported = world.step();
    assert_eq!((reported.progress, reported.blocked), (Progress::Stuck, Some("Corrupt")));
    assert!(!world.log.iter().any(Action::changes_membership), "{:?}", world.log);
}

#[test]
fn a_member_that_cannot_be_compared_is_removed_first_for_the_size_also_when_it_leads() {
    let mut world = running(5);
    let mute = name_of_leader(&world);
    world.pods.get_mut(&mute).unwrap().mute = true;
    world.goal.size = 4;
    world.log.clear();
    assert!(world.converge(100), "{:?}", world.log);
    assert_eq!(kinds(&world), ["MoveLeader", "RemoveMember", "DeletePod"]);
    assert!(!world.pods.contains_key(&mute));
}

#[test]
fn a_scale_down_waits_for_enough_data_hashes_and_names_the_members_without_one() {
    let mut world = running(4);
    let mute = followers(&world)[..2].to_vec();
    for name in &mute {
        world.pods.get_mut(name).unwrap().mute = true;
    }
    world.goal.size = 1;
    world.log.clear();
    for _ in 0..50 {
        world.step();
    }
    let reported = world.step();
    assert_eq!((reported.progress, reported.blocked), (Progress::ScalingDown, Some("ComparisonIncomplete")));
    let names = format!("(no data hash from {})", mute.join(", "));
    for words in [names.as_str(), "fewer than 3 of 4 members", "hint: `etcdctl endpoint hashkv --cluster`"] {
        assert!(reported.message.contains(words), "{words}: {}", reported.message);
    }
    assert!(world.log.is_empty(), "{:?}", world.log);
    // One of them returns its hash again: now the other is removed, and then the size is reached.
    world.pods.get_mut(&mute[0]).unwrap().mute = false;
    assert!(world.converge(300), "{:?}", world.log);
    let first = world.log.iter().find(|action| action.kind() == "RemoveMember");
    assert!(matches!(first, Some(Action::RemoveMember { name, .. }) if *name == mute[1]), "{:?}", world.log);
}

#[test]
fn before_a_lost_member_is_removed_those_that_remain_are_compared() {
    // given two that differ undetected, and a third that is unreachable although its data is sound
    let mut world = running(3);
    let names = followers(&world);
    world.spoil(&names[0]);
    world.pods.get_mut(&names[1]).unwrap().stopped = true;
    world.now += SignedDuration::from_secs(400);
    world.settle();
    world.log.clear();
    // then it is not removed: it is needed to determine which of the two is wrong
    for _ in 0..50 {
        world.step();
    }
    assert_eq!(world.step().blocked, Some("Corrupt"));
    assert!(!world.log.iter().any(Action::changes_membership), "{:?}", world.log);
    world.pods.get_mut(&names[1]).unwrap().stopped = false;
    assert!(world.converge(400), "{:?}", world.log);
    assert!(world.pods.contains_key(&names[1]) && !world.pods.contains_key(&names[0]));
}

#[test]
fn a_member_without_a_hash_blocks_nothing_and_is_reported() {
    let mut world = running(3);
    let mute = world.nth_pod(0).unwrap();
    world.pods.get_mut(&mute).unwrap().mute = true;
    let lost = world.nth_pod(1).unwrap();
    world.pods.remove(&lost);
    world.goal.size = 5;
    assert!(world.converge(400), "{:?}", world.log);
    for _ in 0..200 {
        let reported = world.step();
        assert_eq!((reported.progress, reported.blocked), (Progress::Steady, None));
    }
    let reported = world.step().message;
    assert!(reported.contains(&format!("the data of {mute} is unverified")), "{reported}");
}

#[test]
fn a_lost_one_that_was_never_compared_goes_when_a_majority_agrees() {
    // given two of five that differ from each other, found while the others return no hashes
    let mut world = running(5);
    let names = followers(&world);
    world.spoil(&names[0]);
    for name in &names[1..] {
        world.pods.get_mut(name).unwrap().mute = true;
    }
    found(&mut world);
    // when a user removes the wrong one, and another is lost before it was compared
    world.members.retain(|m| m.pod.as_ref() != Some(&names[0]));
    world.pods.remove(&names[1]);
    world.log.clear();
    for _ in 0..50 {
        assert_eq!(world.step().blocked, Some("Corrupt"));
    }
    assert!(!world.log.iter().any(Action::changes_membership), "{:?}", world.log);
    // then it is removed as soon as the remaining members can be compared
    for pod in world.pods.values_mut() {
        pod.mute = false;
    }
    assert!(world.converge(400), "{:?}", world.log);
    assert!(!world.pods.contains_key(&names[1]));
}

#[test]
fn of_two_that_are_wrong_and_away_one_goes_after_the_other() {
    let mut world = running(5);
    let names = followers(&world);
    for name in &names[..2] {
        world.spoil(name);
    }
    world.pods.get_mut(&names[2]).unwrap().slow = 9000;
    found(&mut world);
    world.pods.get_mut(&names[2]).unwrap().slow = 0;
    for name in &names[..2] {
        world.pods.get_mut(name).unwrap().stopped = true;
    }
    world.log.clear();
    for _ in 0..5 {
        world.step();
    }
    let gone: Vec<_> = world.log.iter().filter(|action| removes_corrupt(Some(action))).collect();
    assert_eq!(gone.len(), 2, "{:?}", world.log);
    assert!(world.converge(400), "{:?}", world.log);
}

#[test]
fn a_wrong_member_does_not_count_among_the_remaining_ones() {
    // given one of three that is sound, and two that are known to be wrong: a user removed two others
    let mut world = running(5);
    let names = followers(&world);
    for name in &names[..2] {
        world.spoil(name);
    }
    world.pods.get_mut(&names[2]).unwrap().slow = 9000;
    found(&mut world);
    world.members.retain(|m| m.pod.as_ref().is_none_or(|name| !names[2..].contains(name)));
    world.log.clear();
    // then none of these is removed: the other one would decide with the sound one
    for _ in 0..50 {
        assert_eq!(world.step().blocked, Some("Corrupt"));
    }
    assert!(!world.log.iter().any(Action::changes_membership), "{:?}", world.log);
}

#[test]
fn of_three_one_lost_and_one_wrong_a_person_takes_the_lost_one_out_and_the_operator_the_other() {
    for restarts in [false, true] {
        let mut world = running(3);
        let names = followers(&world);
        world.spoil(&names[0]);
        world.pods.get_mut(&names[1]).unwrap().slow = 9000;
        found(&mut world);
        world.pods.remove(&names[1]);
        let id = world.members.iter().find(|m| m.pod.as_ref() == Some(&names[1])).unwrap().id;
        let reported = world.step();
        assert_eq!((&reported.action, reported.blocked), (&None, Some("Corrupt")));
        assert!(
            reported.message.contains(&format!("remove it first: `etcdctl member remove {id:x}`")),
            "{}",
            reported.message
        );
        // when the user removed it
        world.members.retain(|m| m.id != id);
        if restarts {
            world.another_operator();
        }
        world.log.clear();
        assert!(world.converge(300), "{:?}", world.log);
        let removed = world.log.iter().find(|action| action.changes_membership());
        assert!(removes_corrupt(removed), "{:?}", world.log);
        assert!(!world.pods.contains_key(&names[0]));
    }
}

// ---- the alarm ----

/// An observation with an alarm CORRUPT of a member.
fn alarmed(world: &mut World, id: u64) -> Observed {
    let mut observed = world.observe();
    for endpoint in observed.endpoints.values_mut() {
        endpoint.errors = vec![format!("memberID:{id} alarm:CORRUPT ")];
    }
    observed
}

fn compared(size: usize) -> World {
    let mut world = running(size);
    for _ in 0..20 {
        world.step();
    }
    world
}

#[test]
fn the_alarm_of_a_member_that_is_gone_is_disarmed_when_all_hold_the_same() {
    for size in [1, 3] {
        let mut world = compared(size);
        let observed = alarmed(&mut world, 4711);
        let decision = plan(&world.goal, &world.memory, &observed);
        let Some(Action::Maintain(step)) = &decision.action else { panic!("{decision:?}") };
        assert!(matches!(step, crate::maintenance::Step::DisarmCorrupt { member: 4711, .. }), "{step:?}");
        assert_eq!(decision.blocked, Some("Corrupt"));
    }
}

#[test]
fn an_alarm_that_needs_a_decision_is_left_and_the_commands_are_reported() {
    let mut world = compared(3);
    let member = world.members[0].id;
    for (id, who) in [(0, "without a member".to_owned()), (member, format!("({member:x})"))] {
        let observed = alarmed(&mut world, id);
        let reported = plan(&world.goal, &world.memory, &observed);
        assert_eq!((reported.action, reported.blocked), (None, Some("Corrupt")));
        for words in [who.as_str(), "the data hashes of all members are equal", "`etcdctl alarm disarm`"] {
            assert!(reported.message.contains(words), "{words}: {}", reported.message);
        }
    }
    // Not all were compared: the alarm may be right about a remaining member.
    let observed = Observed { hashes: Default::default(), ..alarmed(&mut world, 4711) };
    let reported = plan(&world.goal, &world.memory, &observed);
    assert_eq!((reported.action, reported.blocked), (None, Some("Corrupt")));
    assert!(reported.message.contains("do not identify the corrupt member"), "{}", reported.message);
}

#[test]
fn resources_of_removed_members_are_deleted_despite_unresolved_corruption() {
    let mut world = World::new(3).with_volumes(true);
    assert!(world.converge(300));
    let gone = followers(&world).remove(0);
    let wrong = followers(&world).remove(1);
    world.spoil(&wrong);
    world.members.retain(|m| m.pod.as_ref() != Some(&gone));
    world.goal.size = 5;
    found(&mut world);
    for _ in 0..5 {
        assert_eq!(world.step().blocked, Some("Corrupt"));
    }
    assert!(!world.pods.contains_key(&gone) && !world.claims.contains_key(&gone), "{:?}", world.log);
    assert_eq!(world.pods.len(), 2);
    // The same under an alarm.
    let mut world = compared(3);
    let gone = followers(&world).remove(0);
    let member = world.leader;
    world.members.retain(|m| m.pod.as_ref() != Some(&gone));
    let observed = alarmed(&mut world, member);
    let decision = plan(&world.goal, &world.memory, &observed);
    assert!(
        matches!(&decision.action, Some(Action::DeletePod { name, .. }) if *name == gone),
        "{decision:?}"
    );
}
