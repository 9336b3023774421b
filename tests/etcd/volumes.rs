//! Members with data on volumes, and full databases.

use anyhow::{Context as _, ensure};
use olm_tests::etcd_stage::facts;
use serde_json::json;

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    scenario, spec, with_volumes,
};

/// S06 with volumes: a deleted pod returns as the same member with its data; volumes of removed members are
/// deleted with them.
#[test]
fn s06_a_pod_with_a_volume_comes_back_as_the_same_member() {
    scenario("S06 with volumes", async |stage| {
        let _operator = stage.operator()?;
        let cluster = stage.create("c", with_volumes(3)).await?;
        cluster.steady(3).await?;
        let clients = Clients::start(&cluster, 4, 60);
        let before = cluster.ids().await?;
        let from = stage.audit.count();
        let follower = cluster.followers().await?.remove(0);
        for name in [follower, cluster.leader().await?] {
            let uid = stage.get("Pod", "ns", &name).await?["metadata"]["uid"].clone();
            stage.delete("Pod", "ns", &name).await?;
            stage
                .eventually("the pod to be made again", async || {
                    let pod = stage.get("Pod", "ns", &name).await?;
                    ensure!(pod["metadata"]["uid"] != uid, "it is the old one");
                    Ok(())
                })
                .await?;
            cluster.steady(3).await?;
        }
        let after = cluster.ids().await?;
        ensure!(before == after, "{before:?} became {after:?}");
        let changes: Vec<String> = stage.audit.membership_since(from).iter().map(|rpc| rpc.brief()).collect();
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        cluster.spec(json!({ "size": 1 })).await?;
        judge(&cluster, clients, Guarantee::of(1)).await?;
        stage
            .eventually("the volumes of those who left to be gone", async || {
                let claims = stage.list("PersistentVolumeClaim", "ns").await?.len();
                ensure!(claims == 1, "{claims} claims");
                Ok(())
            })
            .await
    });
}

/// S10 with volumes: all pods are deleted, as when every node is drained at once. All return with their data.
#[test]
fn s12_all_pods_with_volumes_are_deleted() {
    scenario("S12 with volumes", async |stage| {
        let _operator = stage.operator()?;
        let cluster = stage.create("c", with_volumes(3)).await?;
        cluster.steady(3).await?;
        let clients = Clients::start(&cluster, 3, 61);
        let from = stage.audit.count();
        for name in cluster.names().await? {
            stage.delete("Pod", "ns", &name).await?;
        }
        cluster.condition("Available", "False", "").await?;
        judge(&cluster, clients, Guarantee::of(3).outage(60)).await?;
        let changes: Vec<String> = stage.audit.membership_since(from).iter().map(|rpc| rpc.brief()).collect();
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        Ok(())
    });
}

/// S24: the database is full. It is compacted, followers are defragmented before the leader, and the alarm is
/// disarmed.
#[test]
fn s24_a_full_database_takes_writes_again() {
    scenario("S24", async |stage| {
        let _operator = stage.operator()?;
        let mut small = spec(3);
        // etcd accepts 16 MB and no less without a warning; the writes below fill them with one key's
        // history.
        small["maintenance"] = json!({ "quota": "16Mi" });
        let cluster = stage.create("c", small).await?;
        cluster.steady(3).await?;
        let leader = cluster.leader().await?;
        let mut client = facts::client(stage.net.inside(&leader)).await?;
        let mut full = false;
        for _ in 0..200 {
            if client.put("history", vec![b'x'; 200_000], None).await.is_err() {
                full = true;
                break;
            }
        }
        ensure!(full, "the database did not become full");
        let clients = Clients::start(&cluster, 2, 24);
        judge(&cluster, clients, Guarantee::of(3).outage(60)).await?;
        client.put("history", "and on", None).await.context("a write after room was made")?;
        Ok(())
    });
}
