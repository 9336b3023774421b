//! `plan` in states that no history made: its result satisfies the safety rules for every input.

use std::fmt;

use proptest::prelude::*;

use super::super::*;
use super::hold::hold;
use super::rules::{DataComparison, RuleInput, broken};
use crate::maintenance::{Cause, Record};
use crate::observed::{
    ClaimView, Corruption, Endpoint, Failure, Hash, Member, Memory, Observed, PodView, Serving, Start,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pod {
    deleting: bool,
    ended: bool,
    ready: bool,
    /// Also the age (four seconds each); from six on it never ran, from seven on it is not ready for long.
    restarts: i32,
    version: usize,
    /// Its volume exists although its claim does not.
    unbound: bool,
    serving: Serving,
    /// Seconds since that changed.
    since: i64,
}

/// The answer of its etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    /// The member that it follows; 0 for the common leader.
    leader: u64,
    behind: u64,
    elsewhere: bool,
    linearizable: bool,
    version: usize,
}

/// One member, or a similar object.
#[derive(Clone, PartialEq, Eq)]
struct One {
    learner: bool,
    started: bool,
    foreign: bool,
    listed: bool,
    pod: Option<Pod>,
    /// A claim, and whether it is being deleted.
    claim: Option<bool>,
    answers: Option<Answer>,
    hash: Option<u32>,
}

const POD: Pod = Pod {
    deleting: false,
    ended: false,
    ready: true,
    restarts: 1,
    version: 0,
    unbound: false,
    serving: Serving::In,
    since: 60,
};
const ANSWER: Answer = Answer { leader: 0, behind: 10, elsewhere: false, linearizable: true, version: 0 };
/// A healthy voter with its data in its pod.
const WELL: One = One {
    learner: false,
    started: true,
    foreign: false,
    listed: true,
    pod: Some(POD),
    claim: None,
    answers: Some(ANSWER),
    hash: None,
};

/// Prints the difference from a healthy member as Rust code.
impl fmt::Debug for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |differs: bool, text: String| parts.extend(differs.then_some(text));
        part(self.learner, "learner: true".into());
        part(!self.started, "started: false".into());
        part(self.foreign, "foreign: true".into());
        part(!self.listed, "listed: false".into());
        part(self.pod != WELL.pod, format!("pod: {:?}", self.pod));
        part(self.claim != WELL.claim, format!("claim: {:?}", self.claim));
        part(self.answers != WELL.answers, format!("answers: {:?}", self.answers));
        part(self.hash != WELL.hash, format!("hash: {:?}", self.hash));
        if parts.is_empty() {
            f.write_str("WELL")
        } else {
            write!(f, "One {{ {}, ..WELL }}", parts.join(", "))
        }
    }
}

/// All inputs of `plan`.
#[derive(Clone, Debug)]
struct Case {
    ones: Vec<One>,
    size: usize,
    version: usize,
    /// The last version that all ran.
    ran: usize,
    /// The member that most follow.
    lead: u64,
    latched: bool,
    taken_over: bool,
    paused: bool,
    pending: Option<usize>,
    /// Some report another member list.
    strange_list: bool,
    /// Members started more than this many seconds ago must be restarted.
    renew: Option<i64>,
    auth: bool,
    full: bool,
    /// A maintenance run for a full database is in progress, with this many completed members.
    housekeeping: Option<usize>,
    /// A learner failed this many seconds ago.
    failed: Option<i64>,
    /// Members are known to differ, these to be wrong.
    wrong: Option<Vec<usize>>,
    /// An alarm CORRUPT of a member.
    alarm: Option<u64>,
    /// A comparison was made in this observation: a member without other data holds the same as the others,
    /// one with hash 2 returned none.
    compared: bool,
}

/// Three healthy members, nothing to do.
const QUIET: Case = Case {
    ones: Vec::new(),
    size: 3,
    version: 0,
    ran: 0,
    lead: 1,
    latched: true,
    taken_over: false,
    paused: false,
    pending: None,
    strange_list: false,
    renew: None,
    auth: false,
    full: false,
    housekeeping: None,
    failed: None,
    wrong: None,
    alarm: None,
    compared: true,
};

fn mostly() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.85)
}

fn seldom() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.12)
}

fn one() -> impl Strategy<Value = One> {
    let serving =
        prop_oneof![40 => Just(Serving::In), 4 => Just(Serving::Out), 1 => Just(Serving::Unlabelled)];
    let since = prop_oneof![8 => Just(60), 1 => -2..12i64];
    let pod = (seldom(), seldom(), mostly(), 0..8i32, 0..3usize, seldom(), serving, since).prop_map(
        |(deleting, ended, ready, restarts, version, unbound, serving, since)| Pod {
            deleting,
            ended,
            ready,
            restarts,
            version,
            unbound,
            serving,
            since,
        },
    );
    let leader = prop_oneof![9 => Just(0u64), 1 => 0..7u64];
    let behind = prop_oneof![3 => 0..1200u64, 1 => 0..12_000u64];
    let answers = (leader, behind, prop::bool::weighted(0.04), mostly(), 0..3usize).prop_map(
        |(leader, behind, elsewhere, linearizable, version)| Answer {
            leader,
            behind,
            elsewhere,
            linearizable,
            version,
        },
    );
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

fn case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec(one(), 0..8),
        (1..8usize, 0..3usize, 0..3usize, 1..6u64),
        (prop::bool::weighted(0.9), seldom(), prop::bool::weighted(0.05), seldom()),
        prop::option::weighted(0.3, 0..9usize),
        (prop::option::weighted(0.2, 0..30i64), seldom(), seldom()),
        (prop::option::weighted(0.1, 0..4usize), prop::option::weighted(0.1, 0..200i64)),
        (
            prop::option::weighted(0.3, prop::collection::vec(0..8usize, 0..4)),
            prop::option::weighted(0.1, 0..10u64),
            prop::bool::weighted(0.7),
        ),
    )
        .prop_map(
            |(
                ones,
                (size, version, ran, lead),
                (latched, taken_over, paused, strange_list),
                pending,
                (renew, auth, full),
                (housekeeping, failed),
                (wrong, alarm, compared),
            )| Case {
                ones,
                size,
                version,
                ran,
                lead,
                latched,
                taken_over,
                paused,
                pending,
                strange_list,
                renew,
                auth,
                full,
                housekeeping,
                failed,
                wrong,
                alarm,
                compared,
            },
        )
}

const VERSIONS: [&str; 3] = ["3.4.23", "3.5.30", "3.6.4"];

fn name(n: usize) -> String {
    format!("c-{n:010}")
}

impl Case {
    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn goal(&self) -> Goal {
        Goal {
            size: self.size,
            paused: self.paused,
            version: VERSIONS[self.version].into(),
            auth: self.auth,
            restart_before: self.renew.map(|seconds| Self::now() - SignedDuration::from_secs(seconds)),
            ..Goal::default()
        }
    }

    fn memory(&self) -> Memory {
        let claimed = (0..).zip(&self.ones).filter(|(_, one)| one.claim.is_some());
        let record = self.housekeeping.map(|done| Record {
            started: Some(Self::now()),
            cause: Some(Cause::NoSpace),
            compacted: (done > 0).then_some(3),
            done: (0..done).map(name).collect(),
            finished: None,
        });
        Memory {
            cluster_id: self.latched.then(|| "7".into()),
            pending: self.pending.map(name),
            version: VERSIONS[self.ran].into(),
            voters: self.ones.len(),
            members: claimed.map(|(n, _)| name(n)).collect(),
            taken_over: self.taken_over && !self.latched,
            maintenance: record.unwrap_or_default(),
            failure: self.failed.map(|seconds| Failure {
                at: Self::now() - SignedDuration::from_secs(seconds),
                generation: None,
                reason: "it was slow".into(),
            }),
            corruption: self.wrong.as_ref().map(|wrong| Corruption {
                cluster_id: "7".into(),
                wrong: wrong.iter().copied().map(name).collect(),
            }),
            ..Memory::default()
        }
    }

    fn observed(&self) -> Observed {
        let now = Self::now();
        let ago = |seconds: i64| Some(now - SignedDuration::from_secs(seconds));
        let ones = || (0..).zip(&self.ones);
        let members: Vec<Member> = ones()
            .filter(|(_, one)| one.listed)
            .map(|(n, one): (usize, &One)| Member {
                id: n as u64 + 1,
                pod: (!one.foreign).then(|| name(n)),
                peer_url: format!("http://{n}:2380"),
                started: one.started,
                is_learner: one.learner,
            })
            .collect();
        let pods = ones().filter_map(|(n, one)| {
            let Pod { deleting, ended, ready, restarts, version, unbound, serving, since } = one.pod?;
            Some(PodView {
                name: name(n),
                uid: format!("uid-{n}"),
                deleting,
                ends_by: ago(if restarts > 4 { 100 } else { 0 }).filter(|_| deleting),
                ended,
                ready,
                ready_since: ago(if restarts > 6 { 400 } else { 30 }),
                created: ago(700 + n as i64),
                started: ago(i64::from(restarts) * 4).filter(|_| restarts < 6 || one.answers.is_some()),
                ever_started: restarts < 6,
                restarts,
                version: VERSIONS[version].into(),
                volume: one.claim.is_some() || unbound,
                start: if restarts % 3 == 0 { Start::Empty } else { Start::Refused },
                serving,
                serving_since: ago(since),
                ..PodView::default()
            })
        });
        let claims = ones().filter_map(|(n, one)| {
            let version = VERSIONS[0].into();
            one.claim.map(|deleting| ClaimView { name: name(n), deleting, version, ..ClaimView::default() })
        });
        let full = self.full.then(|| "memberID:1 alarm:NOSPACE".to_owned());
        let corrupt = self.alarm.map(|of| format!("memberID:{of} alarm:CORRUPT "));
        let alarms: Vec<String> = full.into_iter().chain(corrupt).collect();
        let endpoints = ones().filter_map(|(n, one)| {
            let Answer { leader, behind, elsewhere, linearizable, version } = one.answers?;
            let mut list = if one.learner { Vec::new() } else { members.clone() };
            if self.strange_list && n % 3 == 1 {
                list.pop();
            }
            let endpoint = Endpoint {
                member_id: n as u64 + 1,
                cluster_id: if elsewhere { 8 } else { 7 },
                leader: if leader == 0 { self.lead } else { leader },
                raft_index: 20_000,
                applied: 20_000 - behind,
                is_learner: one.learner,
                version: VERSIONS[version].into(),
                errors: alarms.clone(),
                linearizable: linearizable && !one.learner,
                revision: 5,
                members: list,
                ..Endpoint::default()
            };
            Some((name(n), endpoint))
        });
        let sum =
            |one: &One| if self.compared { one.hash.or(Some(0)).filter(|sum| *sum != 2) } else { one.hash };
        let hashes = ones()
            .filter_map(|(n, one)| Some((name(n), Hash { hash: sum(one)?, revision: 5, compacted: 1 })));
        Observed {
            now,
            pods: pods.collect(),
            claims: claims.collect(),
            endpoints: endpoints.collect(),
            hashes: hashes.collect(),
            compared_now: self.compared,
            fresh_name: name(99),
            volumes: self.ones.len().is_multiple_of(2),
            ..Observed::default()
        }
    }

    /// The same when clients left the pod that an action takes out of the client Service.
    fn after(mut self, action: Option<&Action>) -> Option<Self> {
        let Some(Action::LeaveService { name: left, .. }) = action else { return None };
        let pods = (0..).zip(&mut self.ones).filter(|(n, _)| name(*n) == *left);
        pods.filter_map(|(_, one)| one.pod.as_mut())
            .for_each(|pod| (pod.serving, pod.since) = (Serving::Out, 5));
        Some(self)
    }

    fn decision(&self) -> Decision {
        plan(&self.goal(), &self.memory(), &self.observed())
    }

    /// The action of `plan`, or the violated rule.
    fn action(&self) -> Result<Option<Action>, String> {
        let (goal, memory, observed) = (self.goal(), self.memory(), self.observed());
        let Some(action) = plan(&goal, &memory, &observed).action else { return Ok(None) };
        let data = DataComparison::of(&goal, &memory, &observed);
        let input = RuleInput { goal: &goal, memory: &memory, observed: &observed, data: &data };
        let broken = broken(&input, &action);
        if broken.is_empty() { Ok(Some(action)) } else { Err(format!("{action:?} breaks {broken:?}")) }
    }
}

#[test]
fn no_state_leads_to_an_action_that_breaks_a_rule() {
    hold(20_000, &case(), |case| {
        let action = case.action().map_err(TestCaseError::fail)?;
        let after = case.after(action.as_ref());
        after.map_or(Ok(()), |after| after.action().map(drop).map_err(TestCaseError::fail))
    });
}

/// The test above would pass if `plan` never acted: its states lead to every kind of action.
#[test]
fn the_states_lead_to_all_kinds_of_actions() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut kinds = std::collections::BTreeSet::new();
    let all = case();
    for n in 0..12_000u64 {
        let mut case = all.new_tree(&mut runner).unwrap().current();
        // Raises the share of states with a quorum.
        (case.latched, case.paused, case.lead, case.strange_list) = (true, false, n % 2 + 1, false);
        for answer in case.ones.iter_mut().filter_map(|one| one.answers.as_mut()) {
            (answer.leader, answer.elsewhere, answer.behind) = (0, false, 10);
        }
        if n % 3 == 0 {
            case.pending = Some(99);
        }
        // And some are healthy except for their volumes, so that maintenance has its turn.
        if n % 4 == 0 {
            for one in &mut case.ones {
                let Pod { serving, since, .. } = one.pod.unwrap_or(POD);
                *one = One { claim: one.claim, pod: Some(Pod { serving, since, ..POD }), ..WELL };
            }
            (case.size, case.version, case.ran, case.pending) = (case.ones.len().max(1), 0, 0, None);
        }
        // And some are only larger than wanted.
        if n % 8 == 1 {
            case = Case { ones: vec![WELL; case.ones.len()], size: 1, ..QUIET };
        }
        let mut actions = vec![case.action().unwrap()];
        actions.extend(case.after(actions[0].as_ref()).map(|after| after.action().unwrap()));
        kinds.extend(actions.into_iter().flatten().map(|action| match &action {
            Action::RemoveMember { why, .. } => {
                let why = format!("{why:?}");
                format!("RemoveMember {}", why.split('(').next().unwrap_or_default())
            }
            other => other.kind().to_owned(),
        }));
    }
    for kind in [
        "Remember",
        "AddLearner",
        "CreateMember",
        "Seal",
        "Promote",
        "MoveLeader",
        "LeaveService",
        "JoinService",
        "RemoveMember ScaleDown",
        "RemoveMember Renewed",
        "RemoveMember Dead",
        "RemoveMember Corrupt",
        "RemoveMember Learner",
        "SetVersion",
        "Restart",
        "DeletePod",
        "ReleaseClaim",
        "Compact",
        "Defragment",
        "Disarm",
        "DisarmCorrupt",
        "EnableAuth",
    ] {
        assert!(kinds.contains(kind), "{kind} not in {kinds:?}");
    }
}

// ---- states that once led to a forbidden action, and similar ones ----

/// A voter that is down, its pod restarted and not yet given up.
const DOWN: One = One { answers: None, pod: Some(Pod { ready: false, ..POD }), ..WELL };
/// A voter that follows far behind.
const BEHIND: One = One { answers: Some(Answer { behind: 9000, ..ANSWER }), ..WELL };

#[test]
fn no_member_is_removed_for_the_size_while_a_voter_has_no_name() {
    let nameless = One { started: false, ..DOWN };
    let case = Case { ones: vec![WELL, WELL, nameless], size: 2, ..QUIET };
    let decision = case.decision();
    assert_eq!((decision.action, decision.progress), (None, Progress::ScalingDown), "{}", decision.message);
    assert!(decision.message.contains("published its name"), "{}", decision.message);
    // With its name known it may be removed.
    let case = Case { ones: vec![WELL, WELL, DOWN], size: 2, ..QUIET };
    assert!(matches!(case.action(), Ok(Some(Action::RemoveMember { id: 3, why: Removal::ScaleDown, .. }))));
}

#[test]
fn a_member_that_follows_far_behind_is_not_given_up_however_often_it_ended() {
    let often = Some(Pod { ready: false, restarts: 7, ..POD });
    let case = Case { ones: vec![WELL, WELL, One { pod: often, ..BEHIND }], ..QUIET };
    let decision = case.decision();
    assert_eq!((decision.action, decision.blocked), (None, Some("MembersUnhealthy")));
    assert!(decision.message.contains("c-0000000002 is catching up"), "{}", decision.message);
    let down = Case { ones: vec![WELL, WELL, One { pod: often, ..DOWN }], ..QUIET };
    assert!(matches!(down.action(), Ok(Some(Action::RemoveMember { id: 3, why: Removal::Dead(_), .. }))));
}

#[test]
fn of_two_that_are_not_healthy_the_one_that_does_not_answer_goes_first() {
    let case = Case { ones: vec![WELL, WELL, WELL, BEHIND, DOWN], ..QUIET };
    assert!(matches!(case.action(), Ok(Some(Action::RemoveMember { id: 5, .. }))), "{:?}", case.action());
    let case = Case { ones: vec![WELL, WELL, WELL, DOWN, BEHIND], ..QUIET };
    assert!(matches!(case.action(), Ok(Some(Action::RemoveMember { id: 4, .. }))), "{:?}", case.action());
}

#[test]
fn of_two_that_are_wrong_the_one_that_does_not_answer_goes_before_one_that_is_behind() {
    for (ones, gone) in [(vec![WELL, BEHIND, WELL, WELL, DOWN], 5), (vec![WELL, DOWN, WELL, WELL, BEHIND], 2)]
    {
        let case = Case { ones, size: 5, wrong: Some(vec![1, 4]), compared: false, ..QUIET };
        let action = case.action();
        let goes = |action: &Action| matches!(action, Action::RemoveMember { id, why: Removal::Corrupt(_), .. } if *id == gone);
        assert!(action.as_ref().is_ok_and(|action| action.as_ref().is_some_and(goes)), "{action:?}");
    }
}

#[test]
fn a_member_is_not_upgraded_before_the_previous_one_runs_its_version() {
    // Back from 3.5 to 3.4: the second has the new version set and still runs 3.5, the third catches up.
    let assigned = One { answers: Some(Answer { version: 1, ..ANSWER }), ..WELL };
    let newer = Some(Pod { version: 1, ..POD });
    let behind = One { pod: newer, answers: Some(Answer { behind: 9000, version: 1, ..ANSWER }), ..WELL };
    let case = Case { ones: vec![WELL, assigned, behind], ..QUIET };
    assert_eq!(case.action(), Ok(None), "{:?}", case.decision());
}

#[test]
fn a_volume_that_is_being_deleted_is_no_place_for_data_that_must_outlive_its_pod() {
    let renewed = |ones: Vec<One>, size| Case { ones, size, renew: Some(0), lead: 1, ..QUIET };
    let kept = One { claim: Some(false), ..WELL };
    let doomed = One { claim: Some(true), ..WELL };
    assert!(matches!(
        renewed(vec![doomed.clone(), kept.clone(), kept.clone()], 3).action(),
        Ok(Some(Action::MoveLeader { .. }))
    ));
    let left = One { pod: Some(Pod { serving: Serving::Out, since: 5, ..POD }), ..doomed.clone() };
    assert!(matches!(
        renewed(vec![kept.clone(), left, kept], 3).action(),
        Ok(Some(Action::RemoveMember { id: 2, why: Removal::Renewed(_), .. }))
    ));
    let two = renewed(vec![doomed.clone(), doomed], 2).decision();
    assert_eq!((two.action, two.blocked), (None, Some("DataInPod")));
}

#[test]
fn a_pod_that_ended_with_its_volume_on_the_way_out_is_no_member_any_more() {
    let ended = Some(Pod { ended: true, ready: false, ..POD });
    let lost = One { answers: None, pod: ended, claim: Some(true), ..WELL };
    let case = Case { ones: vec![WELL, WELL, lost.clone()], ..QUIET };
    assert!(matches!(case.action(), Ok(Some(Action::RemoveMember { id: 3, why: Removal::Dead(_), .. }))));
    let kept = Case { ones: vec![WELL, WELL, One { claim: Some(false), ..lost }], ..QUIET };
    assert!(matches!(kept.action(), Ok(Some(Action::DeletePod { .. }))), "{:?}", kept.action());
}

#[test]
fn the_member_list_is_not_taken_from_the_most_advanced_learner() {
    // The leader is unreachable; of the reachable members, the learner has applied most.
    let learner = One { learner: true, answers: Some(Answer { behind: 0, ..ANSWER }), ..WELL };
    let case = Case { ones: vec![One { answers: None, ..WELL }, WELL, WELL, learner], ..QUIET };
    let decision = case.decision();
    assert_ne!(decision.progress, Progress::QuorumLost, "{}", decision.message);
}
