//! A single unhealthy member.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Handle, Rpc, audit::Change, condition};

use crate::{
    clients::Clients,
    damage::damage,
    judge::{Guarantee, judge},
    made, scenario,
};

/// Accepted membership changes among the requested ones.
pub(crate) fn kinds(changes: &[Rpc]) -> Vec<&'static str> {
    changes
        .iter()
        .filter(|rpc| rpc.made())
        .map(|rpc| match rpc.change {
            Change::Add { .. } => "add",
            Change::Remove(_) => "remove",
            Change::Promote(_) => "promote",
            Change::Update(_) => "update",
            Change::MoveLeader(_) | Change::Other(_) => "other",
        })
        .collect()
}

/// S05: killed processes, of followers and the leader, return as the same members.
#[test]
fn s05_a_killed_process_comes_back_as_the_same_member() {
    scenario("S05", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 5);
        let (before, from) = (cluster.ids().await?, stage.audit.count());
        let follower = cluster.followers().await?.remove(0);
        for name in [follower, cluster.leader().await?] {
            stage.kubelet.kill(&name)?;
            restarted(&cluster, &name, 1).await?;
            cluster.steady(3).await?;
        }
        judge(&cluster, clients, Guarantee::of(3)).await?;
        let after = cluster.ids().await?;
        ensure!(after == before, "the members were {before:?} and are {after:?}");
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        Ok(())
    });
}

/// Waits until the process of a pod was restarted this many times.
async fn restarted(cluster: &Handle<'_>, name: &str, times: i64) -> Result<()> {
    cluster
        .stage
        .eventually("the process to be started again", async || {
            let pod = cluster.stage.get("Pod", "ns", name).await?;
            let count = pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or_default();
            ensure!(count >= times, "{count} restarts");
            Ok(())
        })
        .await
}

/// S06: pods deleted with their data are replaced: a follower's, and the leader's.
#[test]
fn s06_a_member_that_lost_its_data_is_replaced() {
    scenario("S06", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 6);
        let follower = cluster.followers().await?.remove(0);
        for (lost, how) in [(follower, "follower"), (cluster.leader().await?, "leader")] {
            let from = stage.audit.count();
            stage.delete("Pod", "ns", &lost).await?;
            replaced(&cluster, &lost).await.context(how)?;
            cluster.steady(3).await?;
            let changes = stage.audit.membership_since(from);
            ensure!(kinds(&changes) == ["remove", "add", "promote"], "{how}: {changes:?}");
        }
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}

/// Waits until a member is removed from etcd.
pub(crate) async fn replaced(cluster: &Handle<'_>, name: &str) -> Result<()> {
    let what = format!("{name} to be out of etcd");
    cluster
        .stage
        .eventually(&what, async || {
            let members = cluster.facts().await.members();
            ensure!(!members.is_empty() && members.iter().all(|m| m.name != name), "{members:?}");
            Ok(())
        })
        .await
}

/// S07: the member that bootstrapped the cluster loses its data. It must not bootstrap it again: no client
/// may read an empty cluster.
#[test]
fn s07_the_first_member_without_its_data_does_not_begin_again() {
    scenario("S07", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let seed = cluster.leader().await?;
        cluster.spec(serde_json::json!({ "size": 3 })).await?;
        cluster.steady(3).await?;
        let clients = Clients::start(&cluster, 4, 7);
        // Its pod stays, so it starts with the original command.
        stage.kubelet.wipe(&seed)?;
        replaced(&cluster, &seed).await?;
        // The first start without data reports why it ended; a second one may begin before the member is
        // removed.
        let starts = stage.kubelet.starts();
        let empty =
            starts.iter().filter(|start| start.pod == seed && start.empty && start.state == "existing");
        let empty = empty.count();
        ensure!((1..=3).contains(&empty), "{empty} starts without data before it was replaced");
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}

/// S08: a member with damaged files crashes repeatedly, and is replaced, because the others have the quorum.
#[test]
fn s08_a_member_with_damaged_files_is_replaced() {
    scenario("S08", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 8);
        let victim = cluster.followers().await?.remove(0);
        let data = stage.kubelet.data(&victim)?;
        stage.kubelet.down(&victim)?;
        let damaged = damage(&data)?;
        ensure!(damaged > 0, "nothing to damage in {}", data.display());
        stage.kubelet.up(&victim)?;
        replaced(&cluster, &victim).await?;
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}

/// S09: a paused member, with all its connections open, is reported, and not replaced before its grace
/// period.
#[test]
fn s09_a_member_that_stands_still_is_given_time() {
    scenario("S09", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 9);
        let (before, from) = (cluster.ids().await?, stage.audit.count());
        let still = cluster.leader().await?;
        stage.kubelet.pause(&still)?;
        // On a busy machine another one may be reported first, for a moment.
        cluster
            .until("Degraded to name the member that stands still", |object| {
                let reported = condition(object, "Degraded");
                reported["status"] == "True"
                    && reported["message"].as_str().is_some_and(|text| text.contains(&still))
            })
            .await?;
        // Clients find the new leader.
        stage
            .eventually("a new leader", async || {
                let leader = cluster.leads().await?;
                ensure!(leader != still, "{leader}");
                Ok(())
            })
            .await?;
        stage.kubelet.resume(&still)?;
        judge(&cluster, clients, Guarantee::of(3).outage(12)).await?;
        let after = cluster.ids().await?;
        ensure!(after == before, "the members were {before:?} and are {after:?}");
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        Ok(())
    });
}

/// A leader isolated from the others, while clients and the operator reach it, is detected as one without the
/// quorum.
#[test]
fn a_leader_that_is_cut_off_does_not_answer_with_old_data() {
    scenario("partition", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 5, 29);
        let (before, from) = (cluster.ids().await?, stage.audit.count());
        for round in 0..2 {
            let leader = cluster.leader().await?;
            let others: Vec<&String> = before.keys().filter(|name| **name != leader).collect();
            stage.audit.disturb();
            for other in &others {
                stage.wires.cut(before[&leader], other);
                stage.wires.cut(before[*other], &leader);
            }
            stage
                .eventually("the others to have a leader of their own", async || {
                    let facts = cluster.facts().await;
                    let leader_of = |name: &String| facts.0.get(name).map_or(0, |report| report.leader);
                    let theirs = leader_of(others[0]);
                    ensure!(
                        theirs != 0 && theirs == leader_of(others[1]) && theirs != before[&leader],
                        "{}",
                        facts.brief()
                    );
                    Ok(())
                })
                .await
                .with_context(|| format!("round {round}"))?;
            // Both sides stay isolated for a while: in this time stale data could be read.
            tokio::time::sleep(Duration::from_secs(2)).await;
            stage.audit.disturb();
            stage.wires.heal();
            cluster.steady(3).await?;
        }
        judge(&cluster, clients, Guarantee::of(3).outage(12)).await?;
        let after = cluster.ids().await?;
        ensure!(after == before, "the members were {before:?} and are {after:?}");
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        Ok(())
    });
}
