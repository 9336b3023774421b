//! `kill -9` of the manager at every write, before and after it is applied.
//!
//! A dead manager leaves its completed writes, so a death between two reads is equivalent to one after the
//! previous write: these two per write are all possible states. Before a write is nearly after the previous
//! one, so the normal run takes every fourth of those; `make test-long` takes all, and kills the manager at
//! every single call.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Call, Fault, Manager, Snapshot, World};

use super::{ask, catalog, made_once, same, settled};
use crate::run;

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Writes.
    Writes,
    Calls,
}

impl At {
    fn counts(self, call: &Call) -> bool {
        !call.is_lease() && (self == Self::Calls || call.is_write())
    }
}

/// The work during which the manager dies.
#[derive(Clone, Copy)]
enum Work {
    Install,
    Upgrade,
}

impl Work {
    const fn csv(self) -> &'static str {
        match self {
            Self::Install => "a.v1.0.0",
            Self::Upgrade => "a.v2.0.0",
        }
    }

    /// Up to the call from which calls are counted.
    async fn prepare(self, world: &World) -> Result<Option<Manager>> {
        ask(world).await?;
        match self {
            Self::Install => Ok(None),
            Self::Upgrade => {
                let manager = world.manager("manager-0")?;
                world.installed("ns", "a", "a.v1.0.0").await?;
                world.quiet().await?;
                Ok(Some(manager))
            }
        }
    }

    async fn begin(self, world: &World, manager: Option<Manager>) -> Result<Manager> {
        match (self, manager) {
            (Self::Upgrade, Some(manager)) => {
                world.publish("catalog", &catalog(2)).await?;
                Ok(manager)
            }
            _ => world.manager("manager-0"),
        }
    }
}

/// The undisturbed run: its final objects, and the number of counted calls.
async fn undisturbed(work: Work, at: At) -> Result<(Snapshot, usize)> {
    let world = World::bare().await?;
    let manager = work.prepare(&world).await?;
    let from = world.faults.count();
    let _manager = work.begin(&world, manager).await?;
    let left = settled(&world, work.csv()).await?;
    let calls = world.faults.calls().split_off(from);
    made_once(&calls)?;
    Ok((left, calls.iter().filter(|call| at.counts(call)).count()))
}

/// Killed at the n-th counted call; `false` when there was no such call.
async fn killed(work: Work, at: At, fault: Fault, n: usize, left: &Snapshot) -> Result<bool> {
    let world = World::bare().await?;
    let manager = work.prepare(&world).await?;
    let seen = Arc::new(AtomicUsize::new(0));
    let from = world.faults.count();
    world.faults.add(fault, 1, move |call| {
        call.number >= from && at.counts(call) && seen.fetch_add(1, Ordering::Relaxed) == n
    });
    let manager = work.begin(&world, manager).await?;
    let done = settled(&world, work.csv());
    let died = tokio::select! {
        () = manager.killed() => true,
        done = done => {
            done?;
            false
        }
    };
    if !died {
        return Ok(false);
    }
    manager.kill();
    world.faults.heal();
    let at_call =
        world.faults.calls().into_iter().filter(|call| call.number >= from && at.counts(call)).nth(n);
    let when = format!("killed {fault:?} {}", at_call.map(|call| call.to_string()).unwrap_or_default());
    // when another one continues
    let _next = world.manager("manager-1")?;
    let now = settled(&world, work.csv()).await.with_context(|| when.clone())?;
    same(left, &now, &when)?;
    made_once(&world.faults.calls()).with_context(|| when)?;
    Ok(true)
}

/// Number of undisturbed runs that are counted in the long test. The manager reconciles after a change, once
/// for several changes: an upgrade of the same operator takes 87 calls in one run and 106 in the next, with
/// the same writes.
const COUNTED: usize = 5;
/// After this many consecutive runs that ended before their call, there is no such call.
const ENDED: usize = 3;

fn at_every_call(work: Work, fault: Fault) {
    let long = std::env::var_os("OLM_TEST_LONG").is_some();
    let at = if long { At::Calls } else { At::Writes };
    run(async move {
        let (left, mut calls) = undisturbed(work, at).await?;
        if at == At::Calls {
            for _ in 1..COUNTED {
                calls = calls.min(undisturbed(work, at).await?.1);
            }
        }
        let mut wrong = Vec::new();
        let (mut deaths, mut ended) = (0, 0);
        let step = if long || fault == Fault::KillAfter { 1 } else { 4 };
        for n in (0..).step_by(step) {
            // The number of writes is constant; that of all calls varies.
            if n >= calls && (at == At::Writes || ended >= ENDED) {
                break;
            }
            let died = match killed(work, at, fault, n, &left).await {
                Ok(died) => died,
                Err(error) => {
                    println!("{error:#}");
                    wrong.push(format!("{error:#}"));
                    n < calls
                }
            };
            deaths += usize::from(died);
            ended = if died { 0 } else { ended + 1 };
        }
        println!("killed {deaths} times, of {calls} calls at least");
        ensure!(
            wrong.is_empty(),
            "{} of {deaths} deaths left something wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        // Calls are concurrent, so that a run may have one more or less than another.
        let tried = calls.div_ceil(step);
        ensure!(deaths + 3 >= tried, "died {deaths} times only, in {tried} runs");
        Ok(())
    });
}

#[test]
fn killed_before_each_write_of_an_install() {
    at_every_call(Work::Install, Fault::KillBefore);
}

#[test]
fn killed_after_each_write_of_an_install() {
    at_every_call(Work::Install, Fault::KillAfter);
}

#[test]
fn killed_before_each_write_of_an_upgrade() {
    at_every_call(Work::Upgrade, Fault::KillBefore);
}

#[test]
fn killed_after_each_write_of_an_upgrade() {
    at_every_call(Work::Upgrade, Fault::KillAfter);
}
