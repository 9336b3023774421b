//! Members with a slow disk, and isolated members: they are unavailable for a while, and return with all
//! their data. Replacing them would make it worse.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Handle, condition};
use serde_json::Value;

use crate::{
    clients::Clients,
    judge::{Guarantee, judge},
    made, scenario,
};

/// How often and how long a disk stalls, and how long it works in between. Members of a scenario elect a new
/// leader after two to four seconds without a heartbeat: sometimes they do, sometimes the old one returns
/// before.
const PULSES: usize = 3;
const STILL: Duration = Duration::from_secs(3);
const WORKS: Duration = Duration::from_secs(1);

/// Events of added members; and of removed or restarted ones.
const CAME: &str = "MemberAdded";
const WENT: [&str; 6] = [
    "MemberRemoved",
    "ReplacingDeadMember",
    "ReplacingCorruptMember",
    "ReplacingMember",
    "MemberRecreated",
    "MemberRestarted",
];

/// State that must not change.
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

    /// The same members, each in the same process, and no event about another one.
    async fn holds(&self, cluster: &Handle<'_>) -> Result<()> {
        let stage = cluster.stage;
        let ids = cluster.ids().await?;
        ensure!(ids == self.ids, "the members were {:?} and are {ids:?}", self.ids);
        let changes = stage.audit.membership_since(self.changes);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        let starts = stage.kubelet.starts();
        ensure!(starts.len() == self.starts, "processes were started: {:?}", &starts[self.starts..]);
        let events = stage.list("Event", "ns").await?;
        let reported = |reason: &str| {
            let of =
                events.iter().filter(|e| e["regarding"]["name"] == *cluster.name && e["reason"] == reason);
            // A repetition is counted in the existing event.
            of.map(|e| e["series"]["count"].as_u64().unwrap_or(1)).sum::<u64>()
        };
        // All existing ones were added once: when the cluster was created.
        let (came, members) = (reported(CAME), ids.len());
        ensure!(came <= members as u64, "{came} times {CAME} for {members} members");
        for reason in WENT {
            ensure!(reported(reason) == 0, "{} times {reason}", reported(reason));
        }
        Ok(())
    }
}

/// Waits until the cluster reports a member as unhealthy. The operator is triggered: otherwise it may take
/// half a minute until it observes a quiet cluster, and Kubernetes sends no event while the pod is ready.
async fn until_unhealthy(cluster: &Handle<'_>, name: &str) -> Result<()> {
    cluster.reconcile_now().await?;
    // On a busy machine another one may be reported first, for a moment; and the lost quorum, until there is
    // a leader.
    let reported = |object: &Value| {
        let reported = condition(object, "Degraded");
        let names = reported["message"].as_str().is_some_and(|text| text.contains(name));
        reported["status"] == "True" && reported["reason"] == "MembersUnhealthy" && names
    };
    cluster.until(&format!("Degraded to name {name}"), reported).await.map(drop)
}

/// A disk that stalls for seconds, repeatedly, under a follower and then under the leader. etcd writes its
/// log in the loop that also serves its peers, so to them such a member is paused: as its process is here.
#[test]
fn a_member_with_a_slow_disk_stays_a_member() {
    scenario("slow disk", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 30);
        let before = Before::of(&cluster).await?;
        for leads in [false, true] {
            // given one of them, which may not lead any more after the first time: it is still the same disk
            let slow = if leads { cluster.leader().await? } else { cluster.followers().await?.remove(0) };
            for _ in 0..PULSES {
                stage.kubelet.pause(&slow)?;
                // The pulse itself, not a wait.
                tokio::time::sleep(STILL).await;
                stage.kubelet.resume(&slow)?;
                tokio::time::sleep(WORKS).await;
            }
            // when it is long enough to be observed, then it is reported, and nothing else happens
            stage.kubelet.pause(&slow)?;
            until_unhealthy(&cluster, &slow).await.with_context(|| format!("the leader's: {leads}"))?;
            stage.kubelet.resume(&slow)?;
            cluster.steady(3).await.with_context(|| format!("the leader's: {leads}"))?;
        }
        judge(&cluster, clients, Guarantee::of(3).outage(15)).await?;
        before.holds(&cluster).await
    });
}

/// A follower isolated from the others, while clients and the operator reach all: it is reported, its pod is
/// not ready, and when the connection is back it is the same member.
#[test]
fn a_follower_that_is_cut_off_comes_back_as_the_same_member() {
    scenario("follower cut off", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 4, 31);
        let before = Before::of(&cluster).await?;
        let away = cluster.followers().await?.remove(0);
        // when nothing passes between it and the others
        stage.audit.disturb();
        for other in before.ids.keys().filter(|name| **name != away) {
            stage.wires.cut(before.ids[&away], other);
            stage.wires.cut(before.ids[other], &away);
        }
        stage
            .eventually("it to miss its leader", async || {
                let facts = cluster.facts().await;
                let report = facts.0.get(&away).context("it does not answer")?;
                ensure!(report.leader == 0, "{}", facts.brief());
                Ok(())
            })
            .await?;
        // then it is reported, and the Service does not lead to it
        until_unhealthy(&cluster, &away).await?;
        stage
            .eventually("its pod not to be ready", async || {
                let ready = stage.kubelet.ready(&cluster.name);
                ensure!(ready.len() == 2 && ready.iter().all(|(name, _)| *name != away), "{ready:?}");
                Ok(())
            })
            .await?;
        // Both sides stay isolated for a while, long enough for a wrong replacement.
        tokio::time::sleep(STILL).await;
        before.holds(&cluster).await.context("while it is cut off")?;
        stage.audit.disturb();
        stage.wires.heal();
        judge(&cluster, clients, Guarantee::of(3).outage(12)).await?;
        before.holds(&cluster).await
    });
}
