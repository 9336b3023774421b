//! Members whose disk is slow, and members that the others do not hear: for a while they are as good as gone, and come back with all that
//! they had. Whoever took them for lost would make things worse.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Handle, condition};
use serde_json::Value;

use crate::{
    clients::Clients,
    judge::{Promise, judge},
    made, scenario,
};

/// How often a disk takes nothing, for how long, and how long it works in between. Members of a scenario want a new leader when they heard
/// nothing of theirs for two to four seconds: sometimes they do, sometimes the old one is back before.
const PULSES: usize = 3;
const STILL: Duration = Duration::from_secs(3);
const WORKS: Duration = Duration::from_secs(1);

/// Events of members that were added; and those of members that went, or were started anew by the operator.
const CAME: &str = "MemberAdded";
const WENT: [&str; 6] = [
    "MemberRemoved",
    "ReplacingDeadMember",
    "ReplacingCorruptMember",
    "ReplacingMember",
    "MemberRecreated",
    "MemberRestarted",
];

/// What must be the same afterwards.
struct Before {
    ids: BTreeMap<String, u64>,
    changes: usize,
    starts: usize,
}

impl Before {
    async fn of(cluster: &Handle<'_>) -> Result<Self> {
        let stage = cluster.stage;
        let (changes, starts) = (stage.audit.count(), stage.kubelet.starts().len());
        Ok(Self { ids: cluster.ids().await?, changes, starts })
    }

    /// The same members, each in the process in which it was, and nobody was told of another one.
    async fn holds(&self, cluster: &Handle<'_>) -> Result<()> {
        let stage = cluster.stage;
        let ids = cluster.ids().await?;
        ensure!(ids == self.ids, "the members were {:?} and are {ids:?}", self.ids);
        let changes = stage.audit.membership_since(self.changes);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        let starts = stage.kubelet.starts();
        ensure!(starts.len() == self.starts, "processes were started: {:?}", &starts[self.starts..]);
        let events = stage.list("Event", "ns").await?;
        let told = |reason: &str| {
            let of =
                events.iter().filter(|e| e["regarding"]["name"] == *cluster.name && e["reason"] == reason);
            // A repetition is counted in the event that was there.
            of.map(|e| e["series"]["count"].as_u64().unwrap_or(1)).sum::<u64>()
        };
        // All that there are were added once: when the cluster was made.
        let (came, members) = (told(CAME), ids.len());
        ensure!(came <= members as u64, "{came} times {CAME} for {members} members");
        for reason in WENT {
            ensure!(told(reason) == 0, "{} times {reason}", told(reason));
        }
        Ok(())
    }
}

/// Waits until the cluster says of a member that it is not healthy. The operator is asked to look: by itself it may take half a minute to
/// look at a cluster in which nothing happens, and Kubernetes has nothing to tell while the pod is ready.
async fn told_of(cluster: &Handle<'_>, name: &str) -> Result<()> {
    cluster.poke().await?;
    // On a busy machine another one may be told of first, for a moment; and until there is a leader, that there is no quorum.
    let told = |object: &Value| {
        let told = condition(object, "Degraded");
        let names = told["message"].as_str().is_some_and(|text| text.contains(name));
        told["status"] == "True" && told["reason"] == "MembersUnhealthy" && names
    };
    cluster.until(&format!("Degraded to name {name}"), told).await.map(drop)
}

/// A disk that takes nothing for seconds, again and again, under a follower and then under the leader. etcd writes its log in the loop in which
/// it speaks to the others, so that for them such a member stands still: which is what its process does here.
#[test]
fn a_member_with_a_slow_disk_stays_a_member() {
    scenario("slow disk", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 30);
        let before = Before::of(&cluster).await?;
        for leads in [false, true] {
            // given one of them, which may lead no longer after the first time: it is the same disk all the same
            let slow = if leads { cluster.leader().await? } else { cluster.followers().await?.remove(0) };
            for _ in 0..PULSES {
                stage.kubelet.pause(&slow)?;
                // The pulse itself, not something that is waited for.
                tokio::time::sleep(STILL).await;
                stage.kubelet.resume(&slow)?;
                tokio::time::sleep(WORKS).await;
            }
            // when it takes long enough to be seen, then it is told, and no more than that
            stage.kubelet.pause(&slow)?;
            told_of(&cluster, &slow).await.with_context(|| format!("the leader's: {leads}"))?;
            stage.kubelet.resume(&slow)?;
            cluster.steady(3).await.with_context(|| format!("the leader's: {leads}"))?;
        }
        judge(&cluster, clients, Promise::of(3).outage(15)).await?;
        before.holds(&cluster).await
    });
}

/// A follower that the others cannot reach, nor it them, while clients and the operator reach all: it is told of, its pod is not ready, and when
/// it is heard again it is the member that it was.
#[test]
fn a_follower_that_is_cut_off_comes_back_as_the_same_member() {
    scenario("follower cut off", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 31);
        let before = Before::of(&cluster).await?;
        let away = cluster.followers().await?.remove(0);
        // when nothing goes either way between it and the others
        stage.audit.disturb();
        for other in before.ids.keys().filter(|name| **name != away) {
            stage.wires.cut(before.ids[&away], other);
            stage.wires.cut(before.ids[other], &away);
        }
        stage
            .eventually("it to miss its leader", async || {
                let facts = cluster.facts().await;
                let said = facts.0.get(&away).context("it does not answer")?;
                ensure!(said.leader == 0, "{}", facts.brief());
                Ok(())
            })
            .await?;
        // then it is told, and whoever comes through the Service is not led to it
        told_of(&cluster, &away).await?;
        stage
            .eventually("its pod not to be ready", async || {
                let ready = stage.kubelet.ready(&cluster.name);
                ensure!(ready.len() == 2 && ready.iter().all(|(name, _)| *name != away), "{ready:?}");
                Ok(())
            })
            .await?;
        // Both sides stand for a while: the time in which it could be taken for lost.
        tokio::time::sleep(STILL).await;
        before.holds(&cluster).await.context("while it is cut off")?;
        stage.audit.disturb();
        stage.wires.heal();
        judge(&cluster, clients, Promise::of(3).outage(12)).await?;
        before.holds(&cluster).await
    });
}
