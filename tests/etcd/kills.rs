//! S14: the operator is killed before and after every change that it makes, to Kubernetes and to etcd.
//!
//! A dead operator leaves its completed calls, so a death between two reads is equivalent to one after the
//! previous change. In the normal run lives alternate: one dies right before its first change, the next right
//! after it, so that one cluster has a death on both sides of every change. In addition an operator is killed
//! at single calls ([`at_every_call`]): at a few of them, and in `make test-long` at each, every time with a
//! cluster of its own.

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    etcd::next_version,
    etcd_stage::{Handle, Operator, Stage},
    inprocess::{Call, Fault},
};
use serde_json::json;

use crate::{
    clients::Clients,
    deaths::{Work, at_every_call},
    judge::{Guarantee, judge},
    made, scenario, spec,
};

/// Lives are short; more of them mean a lack of progress.
const MOST_LIVES: usize = 400;

/// Whether a death at a call is relevant: leases and events are not part of the clusters' state.
fn counts(call: &Call) -> bool {
    call.is_write() && !call.is_lease() && !call.is_event()
}

/// Runs short lives until the cluster is as specified, and a last one that reports it.
async fn through_deaths(stage: &Stage, cluster: &Handle<'_>, size: usize) -> Result<usize> {
    let mut deaths = 0;
    loop {
        let fault = if deaths % 2 == 0 { Fault::KillBefore } else { Fault::KillAfter };
        stage.audit.disturb();
        stage.faults[0].heal();
        stage.faults[0].add(fault, 1, counts);
        let operator = stage.operator()?;
        tokio::select! {
            () = operator.killed() => deaths += 1,
            done = cluster.steady(size) => {
                done?;
                stage.faults[0].heal();
                operator.stop().await;
                return Ok(deaths);
            }
        }
        operator.kill();
        ensure!(deaths < MOST_LIVES, "after {deaths} deaths: {}", stage.report().await);
    }
}

/// S14: a cluster is created, grows, and shrinks, by operators that all die at their first change.
#[test]
fn s14_an_operator_that_dies_at_every_change_makes_progress() {
    scenario("S14", async |stage| {
        let cluster = stage.create("c", spec(1)).await?;
        let mut deaths = through_deaths(stage, &cluster, 1).await.context("create")?;
        let clients = Clients::start(&cluster, 3, 14);
        for size in [3, 1] {
            cluster.spec(json!({ "size": size })).await?;
            deaths += through_deaths(stage, &cluster, size).await.with_context(|| format!("to {size}"))?;
        }
        println!("{deaths} deaths, {} calls", stage.faults[0].count());
        ensure!(deaths > 20, "only {deaths} deaths");
        // The last operator keeps running.
        let _operator = stage.operator()?;
        judge(&cluster, clients, Guarantee::of(1).unreported()).await?;
        let pods = stage.list("Pod", "ns").await?.len();
        ensure!(pods == 1, "{pods} pods");
        Ok(())
    });
}

/// Work for a dying operator.
enum Asked {
    /// A cluster of two.
    Create,
    /// A second member.
    Grow,
    /// One member less, which is the leader where possible.
    Shrink,
    /// Another version, for two members.
    Upgrade(String),
}

impl Asked {
    const fn size(&self) -> usize {
        match self {
            Self::Create | Self::Grow | Self::Upgrade(_) => 2,
            Self::Shrink => 1,
        }
    }
}

impl Work for Asked {
    fn name(&self) -> String {
        let what = match self {
            Self::Create => "create",
            Self::Grow => "grow",
            Self::Shrink => "shrink",
            Self::Upgrade(_) => "upgrade",
        };
        format!("S14 {what}")
    }

    fn sample(&self) -> &[usize] {
        match self {
            Self::Create => &[7, 23],
            Self::Grow => &[9],
            Self::Shrink => &[5],
            Self::Upgrade(_) => &[4, 19],
        }
    }

    async fn before<'a>(&self, stage: &'a Stage) -> Result<(Option<Operator>, Handle<'a>)> {
        Ok(match self {
            Self::Create => (None, stage.create("c", spec(2)).await?),
            Self::Grow => made(stage, 1).await.map(|(operator, cluster)| (Some(operator), cluster))?,
            Self::Shrink | Self::Upgrade(_) => {
                made(stage, 2).await.map(|(operator, cluster)| (Some(operator), cluster))?
            }
        })
    }

    async fn begin(&self, cluster: &Handle<'_>) -> Result<()> {
        match self {
            Self::Create => Ok(()),
            Self::Grow | Self::Shrink => cluster.spec(json!({ "size": self.size() })).await,
            Self::Upgrade(version) => cluster.spec(json!({ "version": version })).await,
        }
    }

    async fn done(&self, cluster: &Handle<'_>) -> Result<()> {
        if let Self::Upgrade(version) = self {
            cluster
                .until("the new version", |object| object["status"]["currentVersion"] == **version)
                .await?;
        }
        cluster.steady(self.size()).await
    }

    async fn judge(&self, cluster: &Handle<'_>) -> Result<()> {
        self.done(cluster).await?;
        let clients = Clients::start(cluster, 2, 14);
        // Clusters of two are unavailable while one member changes its version.
        judge(cluster, clients, Guarantee::of(self.size()).unreported()).await?;
        let pods = cluster.stage.list("Pod", "ns").await?.len();
        ensure!(pods == self.size(), "{pods} pods");
        Ok(())
    }
}

/// S14, at single calls: creation of a cluster.
#[test]
fn s14_an_operator_dies_at_a_call_of_a_creation() {
    at_every_call(&Asked::Create);
}

/// S14, at single calls: scaling up and down.
#[test]
fn s14_an_operator_dies_at_a_call_of_a_change_of_size() {
    at_every_call(&Asked::Grow);
    at_every_call(&Asked::Shrink);
}

/// S14, at single calls: change of the version.
#[test]
fn s14_an_operator_dies_at_a_call_of_an_upgrade() {
    match next_version() {
        Ok(version) => at_every_call(&Asked::Upgrade(version)),
        Err(why) => olm_tests::skipped("S14 upgrade", &why),
    }
}
