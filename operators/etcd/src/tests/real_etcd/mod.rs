//! The whole decision loop with real etcd processes on loopback addresses.

mod runner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runner::{Runner, assert_all_there, installed, newer, writer};

use crate::addressing::Addressing;
use crate::observed::{Memory, Start};
use crate::plan::{Action, Progress};

/// Generous: the machine may be busy.
const LONG: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_lives_through_creation_crash_loss_and_resize() {
    let Some(etcd) = installed() else { return };
    let mut runner = Runner::new("life", 1, 3, &etcd);
    let took = runner.until_steady(LONG).await;
    eprintln!("size 3 from nothing: {took:?}");

    let stop = Arc::new(AtomicBool::new(false));
    let writes = writer(runner.addressing.clone(), stop.clone());

    // A crashed process returns as the same member: no action.
    let names: Vec<String> = runner.pods.keys().cloned().collect();
    let before = runner.log.len();
    runner.kill(&names[0]);
    for _ in 0..4 {
        runner.step().await;
    }
    runner.restart(&names[0]);
    runner.until_steady(LONG).await;
    assert!(runner.kinds_since(before).is_empty(), "{:?}", runner.log);

    // A deleted pod is replaced.
    let before = runner.log.len();
    runner.lose_pod(&names[1]);
    let took = runner.until_steady(LONG).await;
    eprintln!("lost member replaced: {took:?}");
    let replaced = ["RemoveMember", "Remember", "AddLearner", "CreateMember", "Promote", "Seal"];
    assert_eq!(runner.kinds_since(before), replaced, "{:?}", runner.log);

    runner.cluster.goal.size = 5;
    let took = runner.until_steady(LONG).await;
    eprintln!("3 to 5: {took:?}");
    runner.cluster.goal.size = 2;
    let took = runner.until_steady(LONG).await;
    eprintln!("5 to 2: {took:?}");
    runner.cluster.goal.size = 1;
    runner.until_steady(LONG).await;

    stop.store(true, Ordering::Relaxed);
    let (written, gap) = writes.await.unwrap();
    eprintln!("{written} writes, longest gap {gap:?}");
    assert!(written > 0);
    assert_all_there(&runner, written).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_touched_and_the_data_comes_back() {
    let Some(etcd) = installed() else { return };
    let mut runner = Runner::new("quorum", 2, 3, &etcd);
    runner.until_steady(LONG).await;
    runner.client().await.put("key/1", "value", None).await.unwrap();
    let names: Vec<String> = runner.pods.keys().cloned().collect();
    let before = runner.log.len();
    for name in &names[..2] {
        runner.kill(name);
    }
    let mut last = Progress::Steady;
    for _ in 0..6 {
        last = runner.step().await.0;
    }
    assert_eq!(last, Progress::QuorumLost);
    for name in &names[..2] {
        runner.restart(name);
    }
    runner.until_steady(LONG).await;
    assert!(runner.kinds_since(before).is_empty(), "{:?}", runner.log);
    assert_all_there(&runner, 1).await;

    // With the data of two gone the loss is only reported.
    for name in &names[..2] {
        runner.lose_pod(name);
    }
    for _ in 0..6 {
        last = runner.step().await.0;
    }
    assert_eq!(last, Progress::DataLost);
    assert_eq!(runner.log.len(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_a_volume_comes_back_as_itself_and_never_without_its_data() {
    let Some(etcd) = installed() else { return };
    let mut runner = Runner::new("volumes", 3, 3, &etcd).with_volumes();
    runner.until_steady(LONG).await;
    runner.client().await.put("key/1", "value", None).await.unwrap();
    let ids = |observed: &crate::observed::Observed| -> Vec<u64> {
        observed.endpoints.values().map(|e| e.member_id).collect()
    };
    let members = ids(&runner.observe().await);

    // All pods are lost at once: no member is removed, the same three return with their data.
    let names: Vec<String> = runner.pods.keys().cloned().collect();
    let before = runner.log.len();
    for name in &names {
        runner.lose_pod(name);
    }
    runner.until_steady(LONG).await;
    assert_eq!(runner.kinds_since(before), ["CreateMember"; 3], "{:?}", runner.log);
    assert_eq!(ids(&runner.observe().await), members);
    assert_all_there(&runner, 1).await;

    // The first member, which once bootstrapped the cluster, loses its data: it does not start at all.
    let Action::CreateSeed { name: seed, .. } = runner.log[0].1.clone() else { panic!("{:?}", runner.log) };
    runner.kill(&seed);
    runner.wipe(&seed);
    runner.restart(&seed);
    assert!(runner.ends(&seed, LONG).await, "it serves an empty keyspace");
    // The status of a kubelet after several such ends.
    let view = &mut runner.pods.get_mut(&seed).unwrap().view;
    (view.restarts, view.ready, view.waiting) = (5, false, Some("CrashLoopBackOff: back-off 1m20s".into()));
    let before = runner.log.len();
    runner.until_steady(LONG).await;
    let kinds = runner.kinds_since(before);
    let gone: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "MoveLeader").take(3).collect();
    assert_eq!(gone, ["RemoveMember", "DeletePod", "ReleaseClaim"], "{:?}", runner.log);
    assert!(!runner.claims.contains_key(&seed) && runner.claims.len() == 3);
    assert_all_there(&runner, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seed_whose_pod_keeps_its_data_apart_does_not_start_without_it_either() {
    let Some(etcd) = installed() else { return };
    let mut runner = Runner::new("seed", 4, 1, &etcd);
    runner.until_steady(LONG).await;
    while runner.log.last().is_none_or(|(_, action)| action.kind() != "Seal") {
        runner.step().await;
    }
    let seed = runner.pods.keys().next().unwrap().clone();
    runner.kill(&seed);
    runner.wipe(&seed);
    runner.restart(&seed);
    assert!(runner.ends(&seed, LONG).await, "it started a second cluster");
    let before = runner.log.len();
    for _ in 0..5 {
        runner.step().await;
    }
    assert_eq!(runner.log.len(), before, "the only member is not replaced by an empty one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_upgraded_one_by_one_under_writes() {
    let (Some(old), Some(new)) = (installed(), newer()) else { return };
    let mut runner = Runner::new("upgrade", 5, 3, &old).with_volumes();
    runner.add_version(&new);
    runner.until_steady(LONG).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writes = writer(runner.addressing.clone(), stop.clone());
    runner.cluster.goal.version.clone_from(&new.0);
    // A revert is possible as long as one member never ran the new version.
    let before = runner.log.len();
    while runner.kinds_since(before).is_empty() {
        runner.step().await;
    }
    runner.cluster.goal.version.clone_from(&old.0);
    runner.until_steady(LONG).await;
    assert_eq!(runner.kinds_since(before), ["SetVersion", "SetVersion"], "{:?}", runner.log);

    runner.cluster.goal.version.clone_from(&new.0);
    let before = runner.log.len();
    let took = runner.until_steady(LONG).await;
    eprintln!("{} to {}: {took:?}", old.0, new.0);
    assert_eq!(
        runner.kinds_since(before),
        ["SetVersion", "SetVersion", "MoveLeader", "SetVersion"],
        "{:?}",
        runner.log
    );
    // Afterwards it is not.
    runner.cluster.goal.version.clone_from(&old.0);
    let before = runner.log.len();
    for _ in 0..4 {
        assert_eq!(runner.step().await.0, Progress::Steady);
    }
    assert_eq!(runner.log.len(), before);
    stop.store(true, Ordering::Relaxed);
    let (written, gap) = writes.await.unwrap();
    eprintln!("{written} writes, longest gap {gap:?}");
    assert!(written > 0);
    assert_all_there(&runner, written).await;

    // A member of the new version lost its pod: it returns with that version.
    let lost = runner.pods.keys().next().unwrap().clone();
    runner.cluster.goal.version.clone_from(&new.0);
    runner.lose_pod(&lost);
    runner.until_steady(LONG).await;
    assert_eq!(runner.pods[&lost].view.version, new.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_compacted_up_to_their_newest_revision_are_compared_too() {
    let Some(etcd) = installed() else { return };
    let mut runner = Runner::new("compared", 7, 3, &etcd);
    runner.until_steady(LONG).await;
    let mut client = runner.client().await;
    let mut newest = 0;
    for n in 0..10 {
        let put = client.put("key", n.to_string(), None).await.unwrap();
        newest = put.header().unwrap().revision();
    }
    for compacted in [false, true] {
        if compacted {
            client.compact(newest, None).await.unwrap();
        }
        // Each of them soon has all writes and compacts what is due.
        let mut sums = BTreeMap::new();
        for _ in 0..50 {
            let observed = runner.observe().await;
            sums = runner.hashes(&observed).await;
            let all = sums.len() == 3
                && sums.values().all(|sum| sum.revision == newest && (sum.compacted == newest) == compacted);
            if all {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let first = *sums.values().next().unwrap();
        assert_eq!((first.revision, first.compacted == newest), (newest, compacted), "{sums:?}");
        assert!(sums.len() == 3 && sums.values().all(|sum| *sum == first), "{sums:?}");
    }
}

/// Members as coreos/etcd-operator started them: by arguments alone, one voter after the other.
async fn as_the_predecessor(runner: &mut Runner, version: &str, names: &[&str]) {
    for (n, name) in names.iter().enumerate() {
        let ip = runner.addressing.ip(name);
        let url = |name: &str| runner.addressing.peer_url(&runner.cluster, name);
        let cluster: Vec<String> = names[..=n].iter().map(|name| format!("{name}={}", url(name))).collect();
        if n > 0 {
            let peer = url(name);
            while runner.client().await.cluster_client().member_add(&[peer.clone()][..], None).await.is_err()
            {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
        let state = if n == 0 { "new" } else { "existing" };
        let command = [
            "/usr/local/bin/etcd".to_owned(),
            format!(
                "--data-dir={}",
                std::env::temp_dir()
                    .join(format!("etcd-operator-adopted-{}", std::process::id()))
                    .join(name)
                    .display()
            ),
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls=http://{ip}:2380"),
            format!("--listen-peer-urls=http://{ip}:2380"),
            format!("--listen-client-urls=http://{ip}:2379"),
            format!("--advertise-client-urls=http://{ip}:2379"),
            format!("--initial-cluster={}", cluster.join(",")),
            format!("--initial-cluster-state={state}"),
        ];
        runner.run(name, command.to_vec(), BTreeMap::new(), version, Start::Fixed, false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_predecessor_left_is_taken_over_without_restarting_a_member() {
    let Some(etcd) = installed() else { return };
    let mut runner = Runner::new("adopted", 6, 3, &etcd);
    let names = ["orders-4hkhz6bx2r", "orders-bcdfghjklm", "orders-zzzzzzzzzz"];
    as_the_predecessor(&mut runner, &etcd.0, &names).await;
    runner.memory = Memory {
        taken_over: true,
        version: etcd.0.clone(),
        voters: 3,
        members: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Memory::default()
    };
    let processes = |runner: &Runner| -> Vec<u32> { runner.pods.values().map(|p| p.child.id()).collect() };
    let before = processes(&runner);
    runner.until_steady(LONG).await;
    assert_eq!(runner.kinds_since(0), ["Remember"], "{:?}", runner.log);
    assert_eq!(processes(&runner), before);

    // Adopted from now on: a lost member is replaced as a learner.
    runner.lose_pod(names[1]);
    runner.until_steady(LONG).await;
    assert!(runner.kinds_since(1).contains(&"Promote"), "{:?}", runner.log);
}
