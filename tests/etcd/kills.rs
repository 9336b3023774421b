//! S14: the operator is killed before and after every change that it makes, to Kubernetes and to etcd.
//!
//! What a dead operator leaves is what it did, so a death between two reads is the death after the change before. In the normal
//! run lives take turns: one dies right before its first change, the next right after it, so that one cluster sees a death on both
//! sides of every change. `make test-long` kills in addition at every single call, each time with a cluster of its own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{
    etcd_stage::{Handle, Operator, Stage},
    inprocess::{Call, Fault},
};
use serde_json::json;

use crate::{
    clients::Clients,
    judge::{Promise, judge},
    long, made, scenario, spec,
};

/// Lives are short; more of them would mean that nothing moves.
const MOST_LIVES: usize = 400;

/// Whether a death at a call tells something: leases and events are no part of what clusters are.
fn counts(call: &Call) -> bool {
    call.is_write() && !call.is_lease() && !call.is_event()
}

/// Lets short lives follow each other until the cluster is as wanted, and a last one tell that it is.
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

/// S14: a cluster is created, grows, and shrinks, in the hands of operators that all die at their first change.
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
        // The last word is that of an operator which lives.
        let _operator = stage.operator()?;
        judge(&cluster, clients, Promise::of(1).untold()).await?;
        let pods = stage.list("Pod", "ns").await?.len();
        ensure!(pods == 1, "{pods} pods");
        Ok(())
    });
}

/// What is done while the operator dies at one call.
#[derive(Clone, Copy, Debug)]
enum Work {
    Create,
    Grow,
    Shrink,
}

impl Work {
    async fn begin<'a>(self, stage: &'a Stage) -> Result<(Option<Operator>, Handle<'a>)> {
        Ok(match self {
            Self::Create => (None, stage.create("c", spec(2)).await?),
            Self::Grow | Self::Shrink => {
                let (operator, cluster) = made(stage, if matches!(self, Self::Grow) { 1 } else { 2 }).await?;
                (Some(operator), cluster)
            }
        })
    }

    const fn size(self) -> usize {
        if matches!(self, Self::Shrink) { 1 } else { 2 }
    }
}

/// Kills the operator at the n-th call of a piece of work; false when there was no such call.
async fn killed_at(stage: &Stage, work: Work, n: usize) -> Result<bool> {
    let (operator, cluster) = work.begin(stage).await?;
    let (from, seen) = (stage.faults[0].count(), Arc::new(AtomicUsize::new(0)));
    stage.faults[0].add(Fault::KillAfter, 1, move |call| {
        call.number >= from && !call.is_lease() && seen.fetch_add(1, Ordering::Relaxed) == n
    });
    let operator = match operator {
        Some(operator) => {
            cluster.spec(json!({ "size": work.size() })).await?;
            operator
        }
        None => stage.operator()?,
    };
    let died = tokio::select! {
        () = operator.killed() => true,
        done = cluster.steady(work.size()) => {
            done?;
            false
        }
    };
    operator.kill();
    stage.faults[0].heal();
    let _next = stage.operator()?;
    let clients = Clients::start(&cluster, 2, n as u64);
    judge(&cluster, clients, Promise::of(work.size()).untold()).await?;
    Ok(died)
}

/// S14, all of it: a cluster for each call. Only the long run has the time.
#[test]
fn s14_an_operator_that_dies_at_any_call_leaves_nothing_behind() {
    if !long() {
        olm_tests::skipped("S14 at every single call", "part of make test-long");
        return;
    }
    for work in [Work::Create, Work::Grow, Work::Shrink] {
        let died = Arc::new(AtomicUsize::new(0));
        for n in 0.. {
            let died = Arc::clone(&died);
            let before = died.load(Ordering::Relaxed);
            scenario(&format!("S14 {work:?} call {n}"), async |stage| {
                if killed_at(stage, work, n).await? {
                    died.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            if died.load(Ordering::Relaxed) == before {
                break;
            }
        }
        println!("{work:?}: killed at {} calls", died.load(Ordering::Relaxed));
        assert!(died.load(Ordering::Relaxed) > 10, "{work:?}");
    }
}
