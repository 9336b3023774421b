//! Each rule by itself, then all of them against random faults.

use proptest::prelude::*;

use super::model::World;
use super::*;

fn running(size: usize) -> World {
    let mut world = World::new(size);
    assert!(world.converge(200), "no cluster of {size}: {:?}", world.log);
    world
}

fn kinds(world: &World) -> Vec<&'static str> {
    world.log.iter().map(Action::kind).collect()
}

#[test]
fn a_cluster_starts_with_one_member_and_grows_by_learners() {
    let world = running(3);
    let one = ["Remember", "AddLearner", "CreateMember", "Promote"];
    let expected: Vec<_> = ["CreateSeed", "Remember"].iter().chain(&one).chain(&one).copied().collect();
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
    assert_eq!(kinds(&world), ["RemoveMember", "Remember", "AddLearner", "CreateMember", "Promote"]);
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
        (pod.stopped, pod.view.restarts, pod.view.out_of_memory) = (true, 5, out_of_memory);
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
    assert!(decision.message.contains("1 of 3 members answer, 2 are needed"), "{}", decision.message);
    for pod in world.pods.values_mut() {
        pod.stopped = false;
    }
    assert!(world.converge(10) && world.log.is_empty());
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
        matches!(&world.log[0], Action::RemoveMember { why: Removal::Learner(_), .. }),
        "{:?}",
        world.log
    );
}

#[test]
fn an_operator_that_stops_between_any_two_steps_goes_on_where_it_was() {
    // The memory is all that survives; a stop after the action and before the note of it is the worst case.
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
    let mut seen = world.observe();
    for endpoint in seen.endpoints.values_mut() {
        endpoint.errors = vec!["memberID:1 alarm:NOSPACE".into()];
    }
    let goal = Goal { size: 5, ..world.goal.clone() };
    assert_eq!(plan(&goal, &world.memory, &seen).blocked, Some("NoSpace"));
    assert_eq!(plan(&world.goal, &world.memory, &seen).progress, Progress::Steady);
    for endpoint in seen.endpoints.values_mut() {
        endpoint.errors = vec!["memberID:1 alarm:CORRUPT".into()];
    }
    assert_eq!(plan(&goal, &world.memory, &seen).blocked, Some("Corrupt"));
}

#[test]
fn members_that_disagree_are_waited_for() {
    let mut world = running(3);
    let mut seen = world.observe();
    let late = seen.endpoints.values_mut().find(|e| e.member_id != world.leader).unwrap();
    late.members.pop();
    assert_eq!(plan(&Goal { size: 5, ..world.goal.clone() }, &world.memory, &seen).action, None);
}

#[test]
fn a_seed_that_never_ran_gets_another_chance_with_another_version_only() {
    let mut world = World::new(3);
    world.step();
    let name = world.nth_pod(0).unwrap();
    let pod = world.pods.get_mut(&name).unwrap();
    (pod.up, pod.view.ever_started, pod.view.waiting) = (false, false, Some("ErrImagePull".into()));
    let seen = Observed { endpoints: Default::default(), ..world.observe() };
    let same = plan(&world.goal, &Memory::default(), &seen);
    assert!(same.action.is_none() && same.message.contains("ErrImagePull"), "{same:?}");
    let goal = Goal { version: "3.5.26".into(), ..world.goal.clone() };
    assert!(matches!(plan(&goal, &Memory::default(), &seen).action, Some(Action::DeletePod { .. })));
}

/// Things that happen.
#[derive(Clone, Debug)]
enum Fault {
    Looks(usize),
    Stop(usize),
    Continue(usize),
    Crash(usize),
    LosePod(usize),
    EndPod(usize),
    BeginDeletion(usize),
    Resize(usize),
    Pause(bool),
    ForgetLastNote,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => (1..12usize).prop_map(Fault::Looks),
        2 => (0..7usize).prop_map(Fault::Stop),
        3 => (0..7usize).prop_map(Fault::Continue),
        2 => (0..7usize).prop_map(Fault::Crash),
        2 => (0..7usize).prop_map(Fault::LosePod),
        1 => (0..7usize).prop_map(Fault::EndPod),
        1 => (0..7usize).prop_map(Fault::BeginDeletion),
        2 => (1..8usize).prop_map(Fault::Resize),
        1 => any::<bool>().prop_map(Fault::Pause),
        1 => Just(Fault::ForgetLastNote),
    ]
}

/// `gentle` faults leave a quorum with its data; others need not.
fn suffer(world: &mut World, fault: &Fault, gentle: bool) {
    let target = |world: &World, n: usize| {
        world.nth_pod(n).filter(|name| {
            !gentle
                || world.survives_loss_of(name)
                || !world.members.iter().any(|m| m.pod.as_deref() == Some(name) && !m.is_learner)
        })
    };
    match fault {
        Fault::Looks(n) => (0..*n).for_each(|_| drop(world.step())),
        Fault::Stop(n) => {
            if let Some(pod) = world.nth_pod(*n).and_then(|name| world.pods.get_mut(&name)) {
                pod.stopped = true;
            }
        }
        Fault::Continue(n) => {
            if let Some(pod) = world.nth_pod(*n).and_then(|name| world.pods.get_mut(&name)) {
                pod.stopped = false;
            }
        }
        Fault::Crash(n) => {
            if let Some(pod) = world.nth_pod(*n).and_then(|name| world.pods.get_mut(&name)) {
                pod.up = false;
                pod.view.restarts += 1;
            }
        }
        Fault::LosePod(n) => {
            if let Some(name) = target(world, *n) {
                world.pods.remove(&name);
            }
        }
        Fault::EndPod(n) => {
            if let Some(pod) = target(world, *n).and_then(|name| world.pods.get_mut(&name)) {
                (pod.up, pod.view.ended) = (false, true);
            }
        }
        Fault::BeginDeletion(n) => {
            let now = world.now;
            if let Some(pod) = target(world, *n).and_then(|name| world.pods.get_mut(&name)) {
                (pod.view.deleting, pod.view.ends_by) = (true, Some(now));
            }
        }
        Fault::Resize(size) => world.goal.size = *size,
        Fault::Pause(paused) => world.goal.paused = *paused,
        Fault::ForgetLastNote => {
            let kept = world.memory.clone();
            world.step();
            if kept.cluster_id.is_some() {
                world.memory = kept;
            }
        }
    }
}

fn calm(world: &mut World) {
    world.goal.paused = false;
    // Deletions that had begun come to their end.
    world.pods.retain(|_, pod| !pod.view.deleting);
    for pod in world.pods.values_mut() {
        pod.stopped = false;
    }
    world.settle();
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, no forbidden action (checked by the model), and never a second cluster.
    #[test]
    fn no_fault_leads_to_a_forbidden_action(size in 1..8usize, faults in prop::collection::vec(fault(), 1..60)) {
        let mut world = World::new(size);
        let mut latched = None;
        for fault in &faults {
            suffer(&mut world, fault, false);
            if world.memory.cluster_id.is_some() {
                let started = *latched.get_or_insert(world.clusters_started);
                prop_assert_eq!(world.clusters_started, started);
            }
        }
    }

    /// When a quorum kept its data and the faults stop, the cluster becomes what is wanted.
    #[test]
    fn faults_that_leave_a_quorum_are_recovered_from(size in 1..8usize, faults in prop::collection::vec(fault(), 1..40)) {
        let mut world = running(size);
        for fault in &faults {
            suffer(&mut world, fault, true);
        }
        calm(&mut world);
        let whole = world.members.iter().filter(|m| !m.is_learner && m.pod.as_ref().is_some_and(|p| world.pods.get(p).is_some_and(|p| !p.view.ended))).count();
        prop_assume!(whole >= crate::observed::quorum(world.voters()));
        prop_assert!(world.converge(3000), "goal {:?}, members {:?}, pods {:?}, last {:?}", world.goal, world.members, world.pods, world.log.last());
        prop_assert_eq!(world.clusters_started, 1);
    }
}
