//! More members lost than a cluster tolerates.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use etcd_client::GetOptions;
use olm_tests::etcd_stage::{Handle, condition, facts};

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    made, scenario,
};

/// While there is no quorum: it is reported, and nothing is changed.
async fn nothing_is_touched(cluster: &Handle<'_>, from: usize, reason: &str) -> Result<()> {
    let stage = cluster.stage;
    let reported = cluster.condition("Available", "False", reason).await?;
    let message = reported["message"].as_str().unwrap_or_default().to_owned();
    ensure!(message.contains("kubectl"), "the next command is missing: {message}");
    // Repeated observations still change nothing.
    let pods: BTreeSet<String> = cluster.names().await?;
    for _ in 0..3 {
        let seen = stage.faults[0].count();
        cluster.reconcile_now().await?;
        stage
            .eventually("one more look", async || {
                let calls = stage.faults[0].calls();
                let mut looks = calls.iter().skip(seen);
                ensure!(looks.any(|call| call.path.ends_with("/pods") && call.method == "GET"), "not yet");
                Ok(())
            })
            .await?;
    }
    let changes: Vec<String> =
        stage.audit.log().iter().skip(from).map(olm_tests::etcd_stage::Rpc::brief).collect();
    ensure!(changes.is_empty(), "etcd was asked for changes: {changes:?}");
    // Deleted ones may still disappear; none may be created.
    let now = cluster.names().await?;
    ensure!(now.is_subset(&pods), "the pods were {pods:?} and are {now:?}");
    Ok(())
}

/// S10: two of three processes are down, with their data: nothing is changed, and work continues when they
/// run again.
#[test]
fn s10_two_of_three_away_come_back_with_their_data() {
    scenario("S10", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 10);
        let from = stage.audit.count();
        let away: Vec<String> = cluster.names().await?.into_iter().take(2).collect();
        for name in &away {
            stage.kubelet.down(name)?;
        }
        nothing_is_touched(&cluster, from, "QuorumLost").await?;
        for name in &away {
            stage.kubelet.up(name)?;
        }
        judge(&cluster, clients, Guarantee::of(3).outage(60)).await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "{changes:?}");
        Ok(())
    });
}

/// S11, up to the restore: two of three lose their data. Nothing is destroyed, no member bootstraps a new
/// cluster, and the data of the third stays readable for a rescue.
#[test]
fn s11_two_of_three_without_their_data_are_for_a_person_to_decide() {
    scenario("S11", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let leader = cluster.leader().await?;
        let mut client = facts::client(stage.net.inside(&leader)).await?;
        client.put("precious", "data", None).await?;
        let names = cluster.names().await?;
        let survivor = names.last().context("a member")?.clone();
        let id = cluster.object().await?["status"]["clusterID"].clone();
        let from = stage.audit.count();
        cluster.lose(names.iter().filter(|name| **name != survivor)).await?;
        nothing_is_touched(&cluster, from, "DataLost").await?;
        let object = cluster.object().await?;
        ensure!(object["status"]["phase"] == "Failed", "{}", object["status"]);
        ensure!(object["status"]["clusterID"] == id, "the id was forgotten: {}", object["status"]);
        ensure!(condition(&object, "Degraded")["status"] == "True", "{}", object["status"]);
        ensure!(cluster.names().await?.contains(&survivor), "{:?}", cluster.names().await?);
        let mut client = facts::client(stage.net.inside(&survivor)).await?;
        let options = GetOptions::new().with_serializable();
        let got = client.get("precious", Some(options)).await?;
        ensure!(got.kvs().first().is_some_and(|pair| pair.value() == b"data"), "the survivor's data is gone");
        Ok(())
    });
}

/// S12: all three processes die at once. With their data the cluster recovers; without it no data is
/// invented.
#[test]
fn s12_all_members_die_at_once() {
    scenario("S12", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 12);
        let from = stage.audit.count();
        let all = cluster.names().await?;
        for name in &all {
            stage.kubelet.down(name)?;
        }
        nothing_is_touched(&cluster, from, "QuorumLost").await?;
        for name in &all {
            stage.kubelet.up(name)?;
        }
        judge(&cluster, clients, Guarantee::of(3).outage(60)).await?;
        ensure!(stage.audit.membership_since(from).is_empty(), "membership was changed");
        // And now with all their data.
        let from = stage.audit.count();
        cluster.lose(&all).await?;
        nothing_is_touched(&cluster, from, "DataLost").await?;
        stage
            .eventually("the pods to be gone", async || {
                ensure!(cluster.names().await?.is_empty(), "{:?}", cluster.names().await?);
                Ok(())
            })
            .await
    });
}
