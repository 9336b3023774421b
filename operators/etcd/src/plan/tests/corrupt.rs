//! Members that do not hold the same data: found by a comparison, and not forgotten before another finds that all agree.

use super::super::model::World;
use super::super::*;
use super::{kinds, running};
use crate::observed::{Endpoint, Hash, Member, quorum};

/// Makes the data of a member wrong.
fn spoil(world: &mut World, name: &str) {
    world.data_mut(name).unwrap().as_mut().unwrap().corrupt = true;
}

fn name_of_leader(world: &World) -> String {
    world.members.iter().find(|m| m.id == world.leader).unwrap().pod.clone().unwrap()
}

/// Voters that do not lead.
fn followers(world: &World) -> Vec<String> {
    world.members.iter().filter(|m| m.id != world.leader).filter_map(|m| m.pod.clone()).collect()
}

/// Looks until a comparison finds that members differ; what is decided in that look. The model compares every 20th time.
fn found(world: &mut World) -> Decision {
    world.log.clear();
    let decisions = (0..20).map(|_| world.step()).find(|decision| decision.blocked == Some("Corrupt"));
    decisions.expect("a comparison finds it")
}

fn removes_corrupt(action: Option<&Action>) -> bool {
    matches!(action, Some(Action::RemoveMember { why: Removal::Corrupt(_), .. }))
}

#[test]
fn a_corrupt_leader_hands_over_and_goes_in_the_next_look() {
    let mut world = running(3);
    let leader = name_of_leader(&world);
    spoil(&mut world, &leader);
    let first = found(&mut world);
    assert!(matches!(first.action, Some(Action::MoveLeader { .. })), "{first:?}");
    let second = world.step();
    assert!(removes_corrupt(second.action.as_ref()) && second.blocked == Some("Corrupt"), "{second:?}");
    assert!(world.converge(200));
    assert!(!world.pods.contains_key(&leader));
}

#[test]
fn without_a_majority_it_is_told_as_long_as_it_lasts_and_nothing_is_done() {
    for restarts in [false, true] {
        let mut world = running(2);
        let name = world.nth_pod(0).unwrap();
        spoil(&mut world, &name);
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
            // The same words, or the status would be news in every look.
            assert_eq!(decision.message, first.message);
        }
        assert!(world.log.is_empty(), "{:?}", world.log);
        // A person decides who is right.
        world.dismiss_corrupt();
        assert!(world.converge(1000), "{:?}", world.log);
    }
}

#[test]
fn from_the_first_look_that_knows_of_it_nothing_is_done_but_what_mends_it() {
    for size in 3..=7 {
        for bad in 1..=size - quorum(size) {
            for (wanted, leads) in [(7, true), (7, false), (1, true), (1, false)] {
                let mut world = running(size);
                let others = followers(&world).into_iter().rev();
                let victims = leads.then(|| name_of_leader(&world)).into_iter().chain(others).take(bad);
                for victim in victims.collect::<Vec<_>>() {
                    spoil(&mut world, &victim);
                }
                let mut decision = found(&mut world);
                world.goal = Goal { size: wanted, version: "3.5.30".into(), ..world.goal };
                // One look for each that goes, and one for a leader to hand over.
                for _ in 0..bad + usize::from(leads) {
                    let action = decision.action.as_ref();
                    assert_eq!(decision.blocked, Some("Corrupt"), "{decision:?}");
                    let mends = matches!(action, Some(Action::MoveLeader { .. })) || removes_corrupt(action);
                    assert!(mends, "{decision:?}");
                    decision = world.step();
                }
                assert_ne!(decision.blocked, Some("Corrupt"), "{decision:?}");
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
    spoil(&mut world, &leader);
    found(&mut world);
    let away = followers(&world).into_iter().find(|name| *name != leader).unwrap();
    world.pods.get_mut(&away).unwrap().stopped = true;
    world.log.clear();
    // Longer than one that is away is waited for: without it and the corrupt one there would be nobody who can decide.
    for _ in 0..1000 {
        let decision = world.step();
        assert_eq!((decision.action, decision.blocked), (None, Some("Corrupt")), "{}", decision.message);
    }
    world.pods.get_mut(&away).unwrap().stopped = false;
    world.settle();
    assert!(removes_corrupt(world.step().action.as_ref()), "{:?}", world.log);
    assert!(world.converge(200));
    assert!(world.pods.contains_key(&away) && !world.pods.contains_key(&leader));
}

#[test]
fn who_was_away_when_it_was_compared_is_compared_when_it_is_back() {
    let mut world = running(3);
    let names = followers(&world);
    spoil(&mut world, &names[0]);
    world.pods.get_mut(&names[1]).unwrap().stopped = true;
    world.settle();
    // Of two that differ nobody knows who is right.
    found(&mut world);
    assert_eq!(world.step().action, None);
    world.pods.get_mut(&names[1]).unwrap().stopped = false;
    assert!(world.converge(400));
    assert!(!world.pods.contains_key(&names[0]) && world.pods.contains_key(&names[1]), "{:?}", world.log);
}

#[test]
fn a_lost_member_that_those_who_agree_can_spare_goes_before_the_corrupt_one() {
    let mut world = running(5);
    let leader = name_of_leader(&world);
    spoil(&mut world, &leader);
    found(&mut world);
    let lost = followers(&world).into_iter().find(|name| *name != leader).unwrap();
    world.pods.remove(&lost);
    let (first, second) = (world.step(), world.step());
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
    spoil(&mut world, &leader);
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

// ---- when it is compared ------------------------------------------------------------------------------------------------

/// A look after so many seconds, at members of which the one at the place has that sum and all others 1.
fn seen(seconds: i64, sums: &[u32]) -> Observed {
    let name = |n: usize| format!("c-{n}");
    let members: Vec<Member> = (0..sums.len())
        .map(|n| Member { id: n as u64 + 1, pod: Some(name(n)), started: true, ..Member::default() })
        .collect();
    let endpoint = |n: usize| Endpoint {
        member_id: n as u64 + 1,
        cluster_id: 7,
        leader: 1,
        linearizable: true,
        members: members.clone(),
        ..Endpoint::default()
    };
    // One whose sum is 0 does not answer.
    let answers = || sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
    Observed {
        now: start() + SignedDuration::from_secs(seconds),
        pods: (0..sums.len()).map(|n| PodView { name: name(n), ..PodView::default() }).collect(),
        endpoints: answers().map(|(n, _)| (name(n), endpoint(n))).collect(),
        hashes: answers().map(|(n, sum)| (name(n), Hash { hash: *sum, revision: 5, compacted: 1 })).collect(),
        ..Observed::default()
    }
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The first second from there on in which it is due, looked at like this.
fn due(compared: &Compared, from: i64, sums: &[u32]) -> Option<i64> {
    (from..from + 4000).find(|seconds| compared.due(&seen(*seconds, sums)))
}

/// The same after a comparison in that second.
fn after(compared: &Compared, seconds: i64, sums: &[u32]) -> Compared {
    let seen = seen(seconds, sums);
    compared.after(seen.now, &seen)
}

#[test]
fn the_first_comparison_is_soon_and_at_once_when_members_are_known_to_differ() {
    let first = |told, part, sums: &[u32]| due(&Compared::begin(start(), told, part), 0, sums);
    assert_eq!(first(false, 0.0, &[1, 1, 1]), Some(0));
    assert_eq!(first(false, 0.5, &[1, 1, 1]), Some(120));
    assert_eq!(first(true, 0.5, &[1, 1, 1]), Some(0));
    // There is nothing to compare one with, nor anybody who answers for all.
    assert_eq!(first(true, 0.5, &[1]), None);
    assert_eq!(first(true, 0.5, &[0, 0, 0]), None);
}

#[test]
fn it_is_compared_every_half_hour_and_while_members_differ_soon_and_then_ever_less_often() {
    let (well, ill) = ([1, 1, 1], [1, 1, 2]);
    let mut compared = after(&Compared::begin(start(), false, 0.0), 0, &well);
    assert_eq!(due(&compared, 0, &well), Some(1800));
    let (mut now, mut waits) = (1800, Vec::new());
    for _ in 0..8 {
        compared = after(&compared, now, &ill);
        assert_eq!(*compared.sums(), seen(now, &ill).hashes);
        let next = due(&compared, now, &ill).unwrap();
        waits.push(next - now);
        now = next;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 64, 64]);
    // One that does not answer makes nothing undone.
    compared = after(&compared, now, &[1, 1, 0]);
    assert_eq!(*compared.sums(), seen(now, &ill).hashes);
    compared = after(&compared, now, &well);
    assert!(compared.sums().is_empty());
    assert_eq!(due(&compared, now, &well), Some(now + 1800));
    // A clock that was set back says nothing.
    assert_eq!(due(&compared, 0, &well), Some(0));
}

#[test]
fn who_remains_is_compared_when_the_one_that_differed_is_gone() {
    let ill = after(&Compared::begin(start(), false, 0.0), 0, &[1, 1, 2]);
    assert!(!ill.due(&seen(1, &[1, 1, 2])));
    assert!(ill.due(&seen(1, &[1, 1])));
    // Once, if one of them does not answer; from then on as often as before.
    let open = after(&ill, 1, &[1, 0]);
    assert!(open.sums().is_empty());
    assert_eq!(due(&open, 1, &[1, 0]), Some(5));
    assert_eq!(due(&after(&open, 5, &[1, 1]), 5, &[1, 1]), Some(1805));
}

#[test]
fn an_alarm_has_them_compared_soon() {
    let mut alarmed = seen(100, &[1, 1, 1]);
    let compared = after(&Compared::begin(start(), false, 0.0), 0, &[1, 1, 1]);
    assert!(!compared.due(&alarmed));
    for endpoint in alarmed.endpoints.values_mut() {
        endpoint.errors = vec!["memberID:1 alarm:CORRUPT".into()];
    }
    assert!(compared.due(&alarmed));
    let compared = compared.after(alarmed.now, &alarmed);
    assert!(!compared.due(&alarmed), "not in every look");
    alarmed.now += SignedDuration::from_secs(2);
    assert!(compared.due(&alarmed));
}
