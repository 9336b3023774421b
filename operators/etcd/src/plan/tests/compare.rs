//! Schedule of comparisons, and the meaning of their hashes.

use std::collections::BTreeSet;

use super::super::compare::{disputed, holds_same, known};
use super::super::*;
use crate::observed::{Corruption, Endpoint, Hash, Member};

fn name(n: usize) -> String {
    format!("c-{n}")
}

/// An observation after this many seconds, with these hashes by position. A member with hash 0 does not
/// answer.
fn observed(seconds: i64, sums: &[u32]) -> Observed {
    let members: Vec<Member> = (0..sums.len())
        .map(|n| Member { id: n as u64 + 1, pod: Some(name(n)), started: true, ..Member::default() })
        .collect();
    let endpoint = |n: usize| Endpoint {
        member_id: n as u64 + 1,
        cluster_id: 7,
        leader: 1,
        linearizable: true,
        revision: 5,
        members: members.clone(),
        ..Endpoint::default()
    };
    let answers = || sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
    Observed {
        now: start() + SignedDuration::from_secs(seconds),
        pods: (0..sums.len()).map(|n| PodView { name: name(n), ..PodView::default() }).collect(),
        endpoints: answers().map(|(n, _)| (name(n), endpoint(n))).collect(),
        hashes: answers().map(|(n, sum)| (name(n), hash(*sum))).collect(),
        ..Observed::default()
    }
}

fn hash(sum: u32) -> Hash {
    Hash { hash: sum, revision: 5, compacted: 1 }
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn goal(size: usize) -> Goal {
    Goal { size, ..Goal::default() }
}

/// A memory; whether members are known to differ.
fn memory(known: bool) -> Memory {
    let corruption = known.then(|| Corruption { cluster_id: "7".into(), wrong: BTreeSet::new() });
    Memory { cluster_id: Some("7".into()), corruption, ..Memory::default() }
}

fn begin(part: f64) -> Compared {
    Compared::of(None, &memory(false), start(), part)
}

/// The first second from there on in which a comparison is due.
fn due(compared: &Compared, known: bool, from: i64, sums: &[u32]) -> Option<i64> {
    let due = |seconds: &i64| compared.due(&goal(sums.len()), &memory(known), &observed(*seconds, sums));
    (from..from + 4000).find(due)
}

/// The state after a comparison that ended in that second.
fn after(compared: &Compared, seconds: i64, sums: &[u32]) -> Compared {
    took(compared, (0, seconds), sums)
}

/// The state after a comparison with this duration.
fn took(compared: &Compared, (took, seconds): (i64, i64), sums: &[u32]) -> Compared {
    let observed = observed(seconds, sums);
    compared.after((SignedDuration::from_secs(took), observed.now), &observed, observed.hashes.clone())
}

#[test]
fn the_first_comparison_is_soon_and_at_once_when_members_are_known_to_differ() {
    let first = |known, part, sums: &[u32]| due(&begin(part), known, 0, sums);
    assert_eq!(first(false, 0.0, &[1, 1, 1]), Some(0));
    assert_eq!(first(false, 0.5, &[1, 1, 1]), Some(120));
    assert_eq!(first(true, 0.5, &[1, 1, 1]), Some(0));
    // A single member has no peer to compare with.
    assert_eq!(first(true, 0.5, &[1]), None);
    assert_eq!(first(true, 0.5, &[0, 0, 0]), None);
    // Without a proved quorum there is no comparison.
    let all = observed(0, &[1, 1, 1]);
    for held in [Goal { paused: true, ..goal(3) }, Goal { restoring: Some("uid".into()), ..goal(3) }] {
        assert!(!begin(0.0).due(&held, &memory(true), &all));
    }
}

#[test]
fn it_is_compared_every_half_hour_and_while_members_differ_soon_and_then_ever_less_often() {
    let (equal, differing) = ([1, 1, 1], [1, 1, 2]);
    let mut compared = after(&begin(0.0), 0, &equal);
    assert_eq!(due(&compared, false, 0, &equal), Some(1800));
    let (mut now, mut waits) = (1800, Vec::new());
    for _ in 0..8 {
        compared = after(&compared, now, &differing);
        let next = due(&compared, true, now, &differing).unwrap();
        waits.push(next - now);
        now = next;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 64, 64]);
    compared = after(&compared, now, &equal);
    assert_eq!(due(&compared, false, now, &equal), Some(now + 1800));
    // A clock that was set back proves nothing.
    assert_eq!(due(&compared, false, 0, &equal), Some(0));
}

#[test]
fn one_that_takes_long_is_made_again_the_later() {
    let differing = [1, 1, 2];
    let slow = took(&begin(0.0), (5, 100), &differing);
    assert_eq!(due(&slow, true, 100, &differing), Some(200));
    let slower = took(&begin(0.0), (120, 100), &differing);
    assert_eq!(due(&slower, true, 100, &differing), Some(1900));
    // Nor for a flapping member; but at once after a change of voters.
    let away = took(&begin(0.0), (5, 100), &[1, 1, 0]);
    assert_eq!(due(&away, true, 101, &differing), Some(200));
    assert_eq!(due(&slower, true, 101, &[1, 1]), Some(101));
    assert_eq!(due(&slower, true, 101, &[1, 1, 2, 1]), Some(101));
}

#[test]
fn an_incomplete_comparison_is_retried_with_backoff_and_then_reported() {
    let part = [1, 1, 0];
    let mut compared = begin(0.0);
    let (mut now, mut waits, mut reported) = (0, Vec::new(), Vec::new());
    for _ in 0..12 {
        compared = after(&compared, now, &part);
        reported.push(compared.uncompared().to_vec());
        let next = due(&compared, false, now, &part).unwrap();
        waits.push(next - now);
        now = next;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1800, 1800]);
    assert!(reported[..2].iter().all(Vec::is_empty), "{reported:?}");
    assert!(reported[2..].iter().all(|names| *names == [name(2)]), "{reported:?}");
    // It is compared as soon as it is back, and the failure is cleared.
    assert_eq!(due(&compared, false, now - 1700, &[1, 1, 1]), Some(now - 1700));
    assert!(after(&compared, now, &[1, 1, 1]).uncompared().is_empty());
}

#[test]
fn a_voter_new_since_the_last_comparison_is_compared_at_once() {
    let compared = after(&begin(0.5), 130, &[1, 1, 1]);
    assert_eq!(due(&compared, false, 131, &[1, 1, 1]), Some(1930));
    assert_eq!(due(&compared, false, 131, &[1, 1, 1, 1]), Some(131));
    // A member that does not answer yet is waited for; a removed one is not.
    assert_eq!(due(&compared, false, 131, &[1, 1, 1, 0]), Some(1930));
    assert_eq!(due(&compared, false, 131, &[1, 1]), Some(1930));
    // Before the first comparison a cluster is being created.
    assert_eq!(due(&begin(0.5), false, 0, &[1, 1, 1, 1]), Some(120));
}

#[test]
fn before_a_member_is_added_a_comparison_is_no_older_than_five_minutes() {
    let adding = |compared: &Compared, seconds: i64| {
        let memory = Memory { pending: Some("c-9".into()), ..memory(false) };
        compared.due(&goal(3), &memory, &observed(seconds, &[1, 1]))
    };
    let compared = after(&begin(0.5), 0, &[1, 1]);
    assert!(!adding(&compared, 299) && adding(&compared, 300));
    // Complete or not.
    let compared = (0..12).fold(begin(0.5), |compared, n| {
        let observed = observed(n, &[1, 1]);
        let sums = [(name(0), hash(1))].into();
        compared.after((SignedDuration::ZERO, observed.now), &observed, sums)
    });
    assert!(!adding(&compared, 11 + 299) && adding(&compared, 11 + 300));
    assert!(adding(&begin(0.5), 0), "there was none yet");
    let alone = Memory { pending: Some("c-9".into()), ..memory(false) };
    assert!(!begin(0.5).due(&goal(3), &alone, &observed(0, &[1])), "there is nothing to compare");
}

#[test]
fn before_a_member_is_removed_a_comparison_is_made_in_the_same_observation() {
    let removing = |compared: &Compared, seconds: i64, sums: &[u32]| {
        compared.due(&goal(1), &memory(false), &observed(seconds, sums))
    };
    let compared = after(&begin(0.5), 0, &[1, 1, 1]);
    assert!(removing(&compared, 0, &[1, 1, 1]), "however new the last one is");
    // A slow comparison is not repeated without a pause, but at once for fewer voters.
    let slow = took(&begin(0.5), (20, 100), &[1, 1, 1]);
    assert!(!removing(&slow, 119, &[1, 1, 1]) && removing(&slow, 120, &[1, 1, 1]));
    assert!(removing(&slow, 101, &[1, 1]));
    // An incomplete one is repeated less often.
    let part = took(&begin(0.5), (20, 100), &[1, 1, 0]);
    assert!(!removing(&part, 179, &[1, 1, 0]) && removing(&part, 180, &[1, 1, 0]));
}

#[test]
fn the_rest_is_compared_once_the_differing_member_is_removed() {
    let differing = after(&begin(0.0), 0, &[1, 1, 1, 2]);
    assert_eq!(due(&differing, true, 1, &[1, 1, 1, 2]), Some(2));
    assert_eq!(due(&differing, true, 1, &[1, 1, 1]), Some(1));
    // Hashes of the former voters do not apply.
    let mut look = observed(1, &[1, 1, 1]);
    differing.show(&mut look);
    assert!(look.hashes.is_empty());
    // Repeatedly, if one of them does not answer.
    let open = after(&differing, 1, &[1, 1, 0]);
    assert_eq!(due(&open, true, 1, &[1, 1, 0]), Some(5));
    assert_eq!(due(&after(&open, 5, &[1, 1, 1]), false, 5, &[1, 1, 1]), Some(1805));
}

#[test]
fn an_alarm_has_them_compared_soon() {
    let mut alarmed = observed(100, &[1, 1, 1]);
    let compared = after(&begin(0.0), 0, &[1, 1, 1]);
    let due = |compared: &Compared, observed: &Observed| compared.due(&goal(3), &memory(false), observed);
    assert!(!due(&compared, &alarmed));
    for endpoint in alarmed.endpoints.values_mut() {
        endpoint.errors = vec!["memberID:1 alarm:CORRUPT".into()];
    }
    assert!(due(&compared, &alarmed));
    let compared = compared.after((SignedDuration::ZERO, alarmed.now), &alarmed, alarmed.hashes.clone());
    assert!(!due(&compared, &alarmed), "not in every look");
    alarmed.now += SignedDuration::from_secs(2);
    assert!(due(&compared, &alarmed));
}

#[test]
fn what_came_of_comparisons_of_another_etcd_cluster_is_dropped() {
    let compared = after(&begin(0.0), 0, &[1, 1, 2]);
    assert_eq!(Compared::of(Some(compared.clone()), &memory(false), start(), 0.5), compared);
    let restored = Memory { cluster_id: Some("8".into()), ..memory(false) };
    let dropped = Compared::of(Some(compared), &restored, start(), 0.5);
    assert_eq!(dropped, Compared::of(None, &restored, start(), 0.5));
}

// ---- meaning of hashes ----

/// The recorded difference after these hashes, given these wrong members; and whether the correct data is
/// unknown.
fn reported(before: Option<&[usize]>, sums: &[Option<Hash>]) -> Option<(Vec<usize>, bool)> {
    let members: Vec<Member> = (0..sums.len())
        .map(|n| Member { id: n as u64 + 1, pod: Some(name(n)), ..Member::default() })
        .collect();
    let voters: Vec<&Member> = members.iter().collect();
    let sums = (0..).zip(sums).filter_map(|(n, sum)| Some((name(n), (*sum)?))).collect();
    let corruption = before
        .map(|wrong| Corruption { cluster_id: "7".into(), wrong: wrong.iter().copied().map(name).collect() });
    let wrong = known(&Memory { corruption, ..memory(false) }, &voters, &sums)?.wrong;
    let open = disputed(&wrong, &voters, &sums);
    Some(((0..members.len()).filter(|n| wrong.contains(&name(*n))).collect(), open))
}

#[test]
fn only_a_comparison_of_all_members_proves_that_there_is_no_difference() {
    let (one, two, none) = (Some(hash(1)), Some(hash(2)), None);
    let apart = Some(Hash { compacted: 4, ..hash(1) });
    // No difference.
    assert_eq!(reported(None, &[one, one, one]), None);
    assert_eq!(reported(None, &[one, one, none]), None);
    assert_eq!(reported(None, &[one, one, apart]), None);
    assert_eq!(reported(None, &[none, none, none]), None);
    // A difference is found.
    assert_eq!(reported(None, &[one, one, two]), Some((vec![2], false)));
    assert_eq!(reported(None, &[one, two, none]), Some((vec![], true)));
    assert_eq!(reported(None, &[one, one, two, two]), Some((vec![], true)));
    assert_eq!(reported(None, &[one, one, one, two, apart]), Some((vec![3], false)));
    // It stays recorded.
    for sums in [[one, one, none], [one, one, apart], [none, none, none]] {
        assert_eq!(reported(Some(&[]), &sums), Some((vec![], false)));
    }
    assert_eq!(reported(Some(&[2]), &[one, one, none]), Some((vec![2], false)));
    assert_eq!(reported(Some(&[2]), &[none, none, none]), Some((vec![2], false)));
    assert_eq!(reported(Some(&[]), &[one, one, one]), None);
    assert_eq!(reported(Some(&[2]), &[one, one, one]), None);
    assert_eq!(reported(Some(&[0]), &[one]), None, "of a single one");
}

#[test]
fn a_known_wrong_member_does_not_identify_the_right_ones() {
    let (one, two, three, none) = (Some(hash(1)), Some(hash(2)), Some(hash(3)), None);
    // Of three one was lost: the sound one is no majority of two, and known to be sound.
    assert_eq!(reported(Some(&[1]), &[one, two]), Some((vec![1], false)));
    // One received its data from the wrong one by a log snapshot: two against the only correct one.
    assert_eq!(reported(Some(&[2]), &[two, one, two]), Some((vec![0, 2], false)));
    assert_eq!(reported(Some(&[2]), &[two, none, two]), Some((vec![0, 2], false)));
    // A majority of the sound members is right, also about one that counted as wrong.
    assert_eq!(reported(Some(&[4]), &[one, one, one, none, one]), Some((vec![], false)));
    assert_eq!(reported(Some(&[4]), &[one, one, one, two, one]), Some((vec![3], false)));
    // The others do not agree any more.
    assert_eq!(reported(Some(&[2]), &[one, three, two]), Some((vec![2], true)));
}

#[test]
fn all_are_the_same_when_each_of_ours_was_compared_with_each_other() {
    let same = |pods: &[Option<usize>], sums: &[(usize, Hash)]| {
        let member =
            |(id, pod): (u64, &Option<usize>)| Member { id, pod: pod.map(name), ..Member::default() };
        let members: Vec<Member> = (1..).zip(pods).map(member).collect();
        let sums = sums.iter().map(|(n, sum)| (name(*n), *sum)).collect();
        holds_same(&members.iter().collect::<Vec<_>>(), &sums)
    };
    let (two, ours) = ([(0, hash(1)), (1, hash(1))], [Some(0), Some(1)]);
    assert!(same(&ours, &two));
    assert!(same(&[Some(0), Some(1), None], &two), "a foreign member");
    assert!(!same(&[Some(0), Some(1), Some(2)], &two));
    assert!(!same(&ours, &[(0, hash(1)), (1, hash(2))]));
    assert!(!same(&ours, &[]));
    assert!(same(&[Some(0)], &[]), "one alone");
}
