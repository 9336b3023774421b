//! The operator itself: two at once, paused, and with a faulty API server; and deleted clusters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{bail, ensure};
use olm_tests::inprocess::Fault;
use serde_json::json;

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    made, scenario, spec,
};

/// S15: two operators. The second does nothing while the first leads; the first is frozen in the middle of
/// its work, the second takes over, and the first, when it resumes, completes nothing that it had started.
#[test]
fn s15_of_two_operators_one_works() {
    scenario("S15", async |stage| {
        let (first, cluster) = made(stage, 1).await?;
        let clients = Clients::start(&cluster, 3, 15);
        let second = stage.operator_in(1)?;
        cluster.spec(json!({ "size": 2 })).await?;
        cluster.steady(2).await?;
        ensure!(second.elected() == 0, "the second took the lease of one that lives");
        ensure!(stage.audit.log().iter().all(|rpc| rpc.slot == 0), "the second did something");
        // The first is frozen with pending work.
        cluster.spec(json!({ "size": 3 })).await?;
        first.freeze().await;
        let frozen = Instant::now();
        cluster.steady(3).await?;
        ensure!(second.elected() == 1, "who did this?");
        let writes = stage.faults[0].count();
        first.thaw();
        cluster.spec(json!({ "size": 2 })).await?;
        cluster.steady(2).await?;
        let late: Vec<String> = stage
            .audit
            .log()
            .iter()
            .filter(|rpc| rpc.slot == 0 && rpc.at > frozen)
            .map(olm_tests::etcd_stage::Rpc::brief)
            .collect();
        ensure!(late.is_empty(), "the first went on after its lease was gone: {late:?}");
        // A request in flight when it was frozen arrives when it resumes: a status at most, which the other
        // one's next reconciliation corrects.
        let mut written = stage.faults[0].writes_since(writes);
        if written.first().is_some_and(|call| call.path.ends_with("/status")) {
            written.remove(0);
        }
        let written: Vec<String> = written.iter().map(ToString::to_string).collect();
        ensure!(written.is_empty(), "the first wrote after its lease was gone: {written:?}");
        judge(&cluster, clients, Guarantee::of(2).unreported()).await?;
        // On shutdown the second hands over at once.
        second.stop().await;
        cluster.spec(json!({ "size": 1 })).await?;
        cluster.steady(1).await?;
        ensure!(first.elected() == 2, "the first has the lease for the {}th time", first.elected());
        Ok(())
    });
}

/// S16: a paused cluster is left unchanged, whatever happens to it; then everything is caught up.
#[test]
fn s16_a_paused_cluster_is_left_alone() {
    scenario("S16", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 3, 16);
        cluster.spec(json!({ "paused": true })).await?;
        cluster.until("controlPaused", |object| object["status"]["controlPaused"] == true).await?;
        let (from, calls) = (stage.audit.count(), stage.faults[0].count());
        let lost = cluster.followers().await?.remove(0);
        stage.delete("Pod", "ns", &lost).await?;
        cluster.spec(json!({ "size": 4 })).await?;
        // It observes all of it.
        cluster
            .until("the lost member and the new size to be seen", |object| {
                object["status"]["observedGeneration"] == object["metadata"]["generation"]
                    && object["status"]["readyMembers"] == 2
            })
            .await?;
        let gone = async || {
            let names = cluster.names().await?;
            ensure!(!names.contains(&lost), "{names:?}");
            Ok(())
        };
        stage.eventually("the pod to be gone", gone).await?;
        ensure!(stage.audit.count() == from, "etcd was asked for a change");
        let made: Vec<String> = stage.faults[0]
            .writes_since(calls)
            .iter()
            .filter(|call| !call.path.ends_with("/status"))
            .map(ToString::to_string)
            .collect();
        ensure!(made.is_empty(), "something was done: {made:?}");
        let names = cluster.names().await?;
        ensure!(names.len() == 2, "{names:?}");
        cluster.spec(json!({ "paused": false })).await?;
        judge(&cluster, clients, Guarantee::of(4)).await.map(drop)
    });
}

/// S28: conflicts, expired watches, errors and lost answers, at every third call, while a cluster is created
/// and resized.
#[test]
fn s28_an_api_server_that_is_not_well_changes_nothing() {
    scenario("S28", async |stage| {
        let faults = &stage.faults[0];
        let storm = || {
            let kinds = [
                Fault::Status(409),
                Fault::Status(500),
                Fault::Status(429),
                Fault::LostAnswer,
                Fault::Broken,
            ];
            for (nth, fault) in kinds.into_iter().enumerate() {
                let count = Arc::new(AtomicUsize::new(0));
                faults.add(fault, usize::MAX, move |call| {
                    // The lease has its own scenario.
                    !call.is_lease()
                        && (call.is_write() || matches!(fault, Fault::Status(500) | Fault::Broken))
                        && count.fetch_add(1, Ordering::Relaxed) % 15 == nth * 3
                });
            }
            let count = Arc::new(AtomicUsize::new(0));
            faults.add(Fault::Status(410), usize::MAX, move |call| {
                call.is_watch() && count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
            });
        };
        storm();
        let _operator = stage.operator()?;
        let cluster = stage.create("c", spec(1)).await?;
        cluster.steady(1).await?;
        let clients = Clients::start(&cluster, 3, 28);
        cluster.spec(json!({ "size": 3 })).await?;
        faults.drop_watches();
        cluster.steady(3).await?;
        faults.drop_watches();
        let lost = cluster.followers().await?.remove(0);
        stage.delete("Pod", "ns", &lost).await?;
        stage
            .eventually("the loss to be made good", async || {
                ensure!(!cluster.facts().await.members().iter().any(|m| m.name == lost), "still a member");
                Ok(())
            })
            .await?;
        cluster.steady(3).await?;
        faults.heal();
        let failed = faults.calls().iter().filter(|call| call.status.is_none_or(|code| code >= 400)).count();
        ensure!(failed > 10, "only {failed} calls went wrong");
        judge(&cluster, clients, Guarantee::of(3).unreported()).await.map(drop)
    });
}

/// S25: clusters deleted at an awkward moment leave nothing behind, and the next of that name is a different
/// one.
#[test]
fn s25_a_cluster_deleted_in_the_middle_of_something_leaves_nothing() {
    scenario("S25", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let id = cluster.object().await?["status"]["clusterID"].clone();
        cluster.spec(json!({ "size": 5 })).await?;
        stage
            .eventually("a learner", async || {
                ensure!(!cluster.facts().await.learners().is_empty(), "none yet");
                Ok(())
            })
            .await?;
        stage.delete("EtcdCluster", "ns", "c").await?;
        stage
            .eventually("all of it to be gone", async || {
                for kind in ["Pod", "Service", "PodDisruptionBudget", "EtcdCluster"] {
                    let left = stage.list(kind, "ns").await?;
                    let names: Vec<&str> =
                        left.iter().filter_map(|o| o["metadata"]["name"].as_str()).collect();
                    ensure!(names.is_empty(), "{kind}: {names:?}");
                }
                Ok(())
            })
            .await?;
        // The same name again is a new cluster, and the operator is healthy.
        let again = stage.create("c", spec(1)).await?;
        again.steady(1).await?;
        if again.object().await?["status"]["clusterID"] == id {
            bail!("the new cluster has the id of the old one: {id}");
        }
        let clients = Clients::start(&again, 2, 25);
        // Members of the old one are no longer queried.
        let facts = again.facts().await;
        ensure!(facts.0.len() == 1, "{}", facts.brief());
        let _ = clients.finish(&again).await?;
        Ok(())
    });
}
