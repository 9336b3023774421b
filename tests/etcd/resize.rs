//! Clusters that grow and shrink.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use etcd_client::MemberAddOptions;
use olm_tests::etcd_stage::{Handle, audit::Change, facts};
use serde_json::json;

use crate::{
    clients::Clients,
    judge::{Promise, judge},
    made, scenario,
};

/// S03: 1 → 3 → 5 → 3 → 2 → 1, one member at a time, with clients that notice little of it.
#[test]
fn s03_sizes_change_one_member_at_a_time() {
    scenario("S03", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let clients = Clients::start(&cluster, 4, 3);
        for size in [3, 5, 3, 2, 1] {
            cluster.spec(json!({ "size": size })).await?;
            cluster.steady(size).await.with_context(|| format!("to {size}"))?;
        }
        judge(&cluster, clients, Promise::of(1)).await?;
        let removed =
            |rpc: &&olm_tests::etcd_stage::Rpc| matches!(rpc.change, Change::Remove(_)) && rpc.made();
        let removed = stage.audit.log().iter().filter(removed).count();
        ensure!(removed == 4, "{removed} members were removed, not 4");
        Ok(())
    });
}

/// A learner that etcd knows and whose pod waits.
async fn waiting_learner(cluster: &Handle<'_>) -> Result<String> {
    cluster
        .stage
        .eventually("a learner whose pod waits", async || {
            let learners = cluster.facts().await.learners();
            let learner = learners.first().context("there is no learner")?;
            ensure!(learner.name.is_empty(), "it started: {learner:?}");
            let running = cluster.stage.kubelet.running(&cluster.name);
            let pods = cluster.names().await?;
            pods.into_iter().find(|pod| !running.contains(pod)).context("it has no pod")
        })
        .await
}

/// S04: the next pod never starts: those with a vote go on, and when the size is taken back the learner goes.
#[test]
fn s04_a_new_member_that_never_starts_harms_nobody() {
    scenario("S04", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 3, 4);
        let known = cluster.names().await?;
        stage.kubelet.refuse(move |pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            (!known.contains(&name)).then(|| "0/1 nodes are available: 1 Insufficient cpu.".to_owned())
        });
        cluster.spec(json!({ "size": 5 })).await?;
        let learner = waiting_learner(&cluster).await?;
        let told = cluster.condition("Scaling", "True", "").await?;
        ensure!(told["message"].as_str().is_some_and(|text| text.contains('5')), "{told}");
        let voters = cluster.facts().await.voters();
        ensure!(voters.len() == 3, "{voters:?}");
        cluster.spec(json!({ "size": 3 })).await?;
        judge(&cluster, clients, Promise::of(3)).await?;
        ensure!(!cluster.names().await?.contains(&learner), "{learner} is still there");
        // Room again: the same change goes through.
        stage.kubelet.accept();
        cluster.spec(json!({ "size": 4 })).await?;
        cluster.steady(4).await
    });
}

/// S26: a learner that stands still again and again is not given its vote before it has caught up.
#[test]
fn s26_a_slow_learner_waits_for_its_vote() {
    scenario("S26", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let clients = Clients::start(&cluster, 3, 26);
        // Something to catch up with.
        let mut client = facts::client(stage.net.inside(&cluster.leader().await?)).await?;
        for n in 0..300 {
            client.put(format!("bulk/{n}"), vec![b'x'; 4000], None).await?;
        }
        let begin = stage.audit.count();
        let known = cluster.names().await?;
        cluster.spec(json!({ "size": 2 })).await?;
        let slow = stage
            .eventually("the process of the new member", async || {
                let running = stage.kubelet.running("c");
                running.into_iter().find(|name| !known.contains(name)).context("not yet")
            })
            .await?;
        stage.wires.slow(&slow, Duration::from_millis(30));
        for _ in 0..6 {
            // The pulse itself, not something that is waited for.
            stage.kubelet.pause(&slow)?;
            tokio::time::sleep(Duration::from_millis(400)).await;
            stage.kubelet.resume(&slow)?;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        stage.wires.heal();
        cluster.steady(2).await?;
        // Whether the operator asked too early the audit knows, even where it is excused from knowing.
        let early: Vec<String> = stage
            .audit
            .membership_since(begin)
            .into_iter()
            .filter(|rpc| matches!(rpc.change, Change::Promote(_)) && rpc.made() && !rpc.wrong.is_empty())
            .map(|rpc| rpc.wrong.join("; "))
            .collect();
        ensure!(early.is_empty(), "promoted too early: {}", early.join("\n"));
        judge(&cluster, clients, Promise::of(2)).await.map(drop)
    });
}

/// S27: a member that somebody else adds is told of and left alone; when it is gone all goes on.
#[test]
fn s27_members_of_somebody_else_are_left_alone() {
    scenario("S27", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 3, 27);
        let leader = cluster.leader().await?;
        let mut client = facts::client(stage.net.inside(&leader)).await?;
        let url = format!("http://{}:2380", stage.net.outside("somebody-else"));
        // etcd wants all members connected for five seconds.
        let id = stage
            .eventually("etcd to take a member", async || {
                let options = MemberAddOptions::new().with_is_learner();
                let mut client = client.clone();
                let added = client.member_add([url.clone()], Some(options)).await?;
                Ok(added.member().context("the member that was added")?.id())
            })
            .await?;
        let from = stage.audit.count();
        let told = cluster.condition("Degraded", "True", "ForeignMember").await?;
        ensure!(told["message"].as_str().is_some_and(|text| text.contains(&format!("{id:x}"))), "{told}");
        // Even when members are wanted.
        cluster.spec(json!({ "size": 5 })).await?;
        cluster
            .until("the new size to be seen", |object| {
                object["status"]["observedGeneration"] == object["metadata"]["generation"]
            })
            .await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "changed beside a member of somebody else: {changes:?}");
        cluster.spec(json!({ "size": 3 })).await?;
        client.member_remove(id).await?;
        judge(&cluster, clients, Promise::of(3)).await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "{changes:?}");
        Ok(())
    });
}
