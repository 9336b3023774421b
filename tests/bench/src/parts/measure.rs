//! Time and memory of a whole process, as accounted by the kernel.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// Resources used by a process from start to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Seconds.
    pub wall: f64,
    /// Seconds on all processors together.
    pub cpu: f64,
    /// Peak of resident memory, in MiB.
    pub peak: f64,
    pub printed: String,
}

/// Runs a command that must succeed; returns its cost.
/// The kernel reports to a process the peak of the largest child it ever waited for, so each run is watched
/// by a separate process: this program again.
pub(crate) fn cost(program: &Path, args: &[&str]) -> Result<Cost> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", "watch"]).arg(program).args(args);
    let out = command.stderr(Stdio::inherit()).output()?;
    ensure!(out.status.success(), "{} {} failed", program.display(), args.join(" "));
    serde_json::from_slice(&out.stdout).context("the watching process printed something else")
}

/// The median of several runs, by wall time; an uncounted run before them fills the page cache.
pub(crate) fn median(runs: usize, program: &Path, args: &[&str]) -> Result<Cost> {
    cost(program, args)?;
    let mut costs = (0..runs).map(|_| cost(program, args)).collect::<Result<Vec<_>>>()?;
    costs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    let peak = costs.iter().map(|cost| cost.peak).fold(0.0, f64::max);
    // Memory has little noise: its largest value counts.
    Ok(Cost { peak, ..costs.swap_remove(runs / 2) })
}

/// The watching process: starts the command, waits for it, prints its cost.
pub(crate) fn watch(program: &str, args: &[String]) -> Result<()> {
    let start = Instant::now();
    let out = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to start {program}"))?;
    let wall = start.elapsed().as_secs_f64();
    ensure!(out.status.success(), "{program} ended with {}", out.status);
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cost = Cost {
        wall,
        cpu: seconds(usage.user_time()) + seconds(usage.system_time()),
        peak: usage.max_rss() as f64 / 1024.0,
        printed: String::from_utf8_lossy(&out.stdout).into_owned(),
    };
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}
