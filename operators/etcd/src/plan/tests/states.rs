//! `plan` asked about states that no history made: whatever it is shown, its answer keeps the safety rules.

use proptest::prelude::*;

use super::super::rules::{Look, broken};
use super::super::*;
use crate::observed::{ClaimView, Endpoint, Hash, Member, Memory, Observed, PodView, Start};

/// What is true, or claimed, of one member.
#[derive(Clone, Debug)]
struct One {
    learner: bool,
    started: bool,
    foreign: bool,
    listed: bool,
    pod: Option<(bool, bool, bool, i32, usize)>,
    claim: Option<bool>,
    answers: Option<(usize, u64, bool, usize)>,
    hash: Option<u32>,
}

fn mostly() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.85)
}

fn seldom() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.12)
}

fn one() -> impl Strategy<Value = One> {
    let pod = (seldom(), seldom(), mostly(), 0..8i32, 0..3usize);
    let answers = (prop_oneof![9 => Just(0usize), 1 => 0..7usize], 0..12_000u64, mostly(), 0..3usize);
    (
        (seldom(), mostly(), prop::bool::weighted(0.04), mostly()),
        prop::option::weighted(0.85, pod),
        prop::option::weighted(0.4, seldom()),
        prop::option::weighted(0.85, answers),
        prop::option::weighted(0.3, 0..3u32),
    )
        .prop_map(|((learner, started, foreign, listed), pod, claim, answers, hash)| One {
            learner,
            started,
            foreign,
            listed,
            pod,
            claim,
            answers,
            hash,
        })
}

const VERSIONS: [&str; 3] = ["3.4.23", "3.5.30", "3.6.4"];

fn observed(ones: &[One], strange_list: bool) -> Observed {
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let ago = |seconds: i64| Some(now - SignedDuration::from_secs(seconds));
    let name = |n: usize| format!("c-{n:010}");
    let members: Vec<Member> = (0..)
        .zip(ones)
        .filter(|(_, one)| one.listed)
        .map(|(n, one)| Member {
            id: n as u64 + 1,
            pod: (!one.foreign).then(|| name(n)),
            peer_url: format!("http://{n}:2380"),
            started: one.started,
            is_learner: one.learner,
        })
        .collect();
    let pods = (0..).zip(ones).filter_map(|(n, one): (usize, &One)| {
        let (deleting, ended, ready, restarts, version) = one.pod?;
        Some(PodView {
            name: name(n),
            uid: format!("uid-{n}"),
            deleting,
            ends_by: ago(if restarts > 4 { 100 } else { 0 }).filter(|_| deleting),
            ended,
            ready,
            ready_since: ago(if restarts > 6 { 400 } else { 30 }),
            created: ago(700 + n as i64),
            started: ago(i64::from(restarts) * 4),
            ever_started: restarts < 6,
            restarts,
            version: VERSIONS[version].into(),
            volume: one.claim.is_some(),
            start: if restarts % 3 == 0 { Start::Empty } else { Start::Refused },
            ..PodView::default()
        })
    });
    let claims = (0..).zip(ones).filter_map(|(n, one): (usize, &One)| {
        let version = VERSIONS[0].into();
        one.claim.map(|deleting| ClaimView { name: name(n), deleting, version, ..ClaimView::default() })
    });
    let endpoints = (0..).zip(ones).filter_map(|(n, one): (usize, &One)| {
        let (leader, behind, linearizable, version) = one.answers?;
        let mut list = if one.learner { Vec::new() } else { members.clone() };
        if strange_list && n % 3 == 1 {
            list.pop();
        }
        let endpoint = Endpoint {
            member_id: n as u64 + 1,
            cluster_id: if behind % 11 == 0 { 8 } else { 7 },
            leader: leader as u64,
            raft_index: 20_000,
            applied: 20_000 - behind,
            is_learner: one.learner,
            version: VERSIONS[version].into(),
            linearizable: linearizable && !one.learner,
            members: list,
            ..Endpoint::default()
        };
        Some((name(n), endpoint))
    });
    let hashes = (0..).zip(ones).filter_map(|(n, one): (usize, &One)| {
        Some((name(n), Hash { hash: one.hash?, revision: 5, compacted: 1 }))
    });
    Observed {
        now,
        pods: pods.collect(),
        claims: claims.collect(),
        endpoints: endpoints.collect(),
        hashes: hashes.collect(),
        fresh_name: name(99),
        volumes: ones.len().is_multiple_of(2),
        backup: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_state_leads_to_an_action_that_breaks_a_rule(
        ones in prop::collection::vec(one(), 0..8),
        (size, paused, version) in (1..8usize, prop::bool::weighted(0.05), 0..3usize),
        (latched, pending, taken_over) in (prop::bool::weighted(0.9), prop::option::weighted(0.3, 0..9usize), seldom()),
        (strange_list, lead, ran) in (seldom(), 1..6u64, 0..3usize),
    ) {
        let goal = Goal { size, paused, version: VERSIONS[version].into(), ..Goal::default() };
        let mut seen = observed(&ones, strange_list);
        // Most of them follow somebody.
        for endpoint in seen.endpoints.values_mut().filter(|e| e.leader == 0) {
            endpoint.leader = lead;
        }
        let memory = Memory {
            cluster_id: latched.then(|| "7".into()),
            pending: pending.map(|n| format!("c-{n:010}")),
            version: VERSIONS[ran].into(),
            voters: ones.len(),
            members: seen.claims.iter().map(|c| c.name.clone()).collect(),
            taken_over: taken_over && !latched,
            ..Memory::default()
        };
        if let Some(action) = plan(&goal, &memory, &seen).action {
            let look = Look { goal: &goal, memory: &memory, seen: &seen };
            let broken = broken(&look, &action);
            prop_assert!(broken.is_empty(), "{:?} breaks {:?}", action, broken);
        }
    }
}

/// The test above would pass if `plan` never did anything: the states it is asked about lead to every kind of action.
#[test]
fn the_states_lead_to_all_kinds_of_actions() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut kinds = std::collections::BTreeSet::new();
    let strategy = (prop::collection::vec(one(), 0..8), 1..8usize, 0..3usize, 0..2u64);
    for _ in 0..6000 {
        let (ones, size, version, lead) = strategy.new_tree(&mut runner).unwrap().current();
        let mut seen = observed(&ones, false);
        seen.endpoints.values_mut().for_each(|e| {
            (e.leader, e.cluster_id) = (lead + 1, 7);
            e.applied = 19_990;
        });
        let goal = Goal { size, version: VERSIONS[version].into(), ..Goal::default() };
        let memory = Memory {
            cluster_id: Some("7".into()),
            pending: (size % 2 == 0).then(|| "c-0000000099".into()),
            version: VERSIONS[0].into(),
            ..Memory::default()
        };
        kinds.extend(plan(&goal, &memory, &seen).action.map(|action| action.kind()));
    }
    for kind in [
        "Remember",
        "AddLearner",
        "CreateMember",
        "Seal",
        "Promote",
        "MoveLeader",
        "RemoveMember",
        "SetVersion",
        "DeletePod",
        "ReleaseClaim",
    ] {
        assert!(kinds.contains(kind), "{kind} not in {kinds:?}");
    }
}
