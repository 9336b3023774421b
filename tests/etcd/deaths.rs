//! Work in which the operator dies: a run for each of its calls to Kubernetes and to etcd, on a stage of its
//! own.
//!
//! A dead operator leaves its completed calls, so a death right after a call is equivalent to one right
//! before the next.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use anyhow::Result;
use olm_tests::{
    etcd_stage::{Handle, Operator, Stage},
    inprocess::Fault,
};

use crate::{AT_ONCE, long, scenario};

/// Work takes fewer calls than this; more indicate a loop.
const MOST_CALLS: usize = 400;

/// Work of an operator that another one completes after its death.
pub(crate) trait Work: Sync {
    /// A short name.
    fn name(&self) -> String;

    /// Calls (counted from 0, without leases) at which the normal run kills. `make test-long` takes all of
    /// them.
    fn sample(&self) -> &[usize];

    /// Creates the initial state, with the operator that did it; none when the work starts with the operator.
    /// # Errors
    /// When it cannot be created.
    async fn before<'a>(&self, stage: &'a Stage) -> Result<(Option<Operator>, Handle<'a>)>;

    /// Requests the work without waiting: from here on calls are counted.
    /// # Errors
    /// The API's rejection.
    async fn begin(&self, cluster: &Handle<'_>) -> Result<()>;

    /// Waits for its completion: then calls are no longer counted.
    /// # Errors
    /// The pending part.
    async fn done(&self, cluster: &Handle<'_>) -> Result<()>;

    /// Conditions of the final state, with a running operator.
    /// # Errors
    /// The violated one.
    async fn judge(&self, cluster: &Handle<'_>) -> Result<()>;
}

/// One run, in which the operator dies right after its n-th call; false when there was no such call.
async fn killed_at(stage: &Stage, work: &impl Work, n: usize) -> Result<bool> {
    let (operator, cluster) = work.before(stage).await?;
    let (from, seen) = (stage.faults[0].count(), AtomicUsize::new(0));
    stage.faults[0].add(Fault::KillAfter, 1, move |call| {
        call.number >= from && !call.is_lease() && seen.fetch_add(1, Ordering::Relaxed) == n
    });
    work.begin(&cluster).await?;
    let operator = match operator {
        Some(operator) => operator,
        None => stage.operator()?,
    };
    let died = tokio::select! {
        () = operator.killed() => true,
        done = work.done(&cluster) => {
            done?;
            false
        }
    };
    if died
        && let Some(call) =
            stage.faults[0].calls().iter().filter(|call| call.number >= from && !call.is_lease()).nth(n)
    {
        println!("died after {call}");
    }
    stage.audit.disturb();
    operator.kill();
    stage.faults[0].heal();
    let _next = stage.operator()?;
    work.judge(&cluster).await?;
    Ok(died)
}

/// Kills at the sampled calls, or in the long test at every call, a few runs concurrently.
///
/// # Panics
/// When a run fails, or a call of the sample does not happen.
pub(crate) fn at_every_call(work: &impl Work) {
    if olm_tests::etcd::version().is_none() {
        olm_tests::skipped(&work.name(), "etcd is not installed");
        return;
    }
    let sample = (!long()).then(|| work.sample());
    let (next, over, died) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let one_after_the_other = || {
        while !over.load(Ordering::Relaxed) {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(n) = sample.map_or(Some(turn), |sample| sample.get(turn).copied()) else { return };
            assert!(n < MOST_CALLS, "{}: {n} calls and no end", work.name());
            let killed = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&killed);
            scenario(&format!("{}, dead at call {n}", work.name()), async |stage| {
                flag.store(killed_at(stage, work, n).await?, Ordering::Relaxed);
                Ok(())
            });
            if killed.load(Ordering::Relaxed) {
                died.fetch_add(1, Ordering::Relaxed);
            } else {
                over.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one_after_the_other)).collect();
        for run in runs {
            if let Err(why) = run.join() {
                std::panic::resume_unwind(why);
            }
        }
    });
    let died = died.into_inner();
    println!("{}: killed at {died} calls", work.name());
    let expected = sample.map_or(10, <[usize]>::len);
    assert!(died >= expected, "{}: killed at {died} calls, {expected} were expected", work.name());
}
