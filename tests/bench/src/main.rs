//! `make bench`: speed and memory of the whole product, as a table with the project's limits. Exits with 1
//! when a limit is exceeded. Numbers are from this machine, in this run.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{Cluster, DevCluster, etcd, processes};

mod parts;

use parts::{Row, report};

/// As in the measured programs, some of which run in this process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if let Some(done) = parts::sub_mode() {
        return done;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run()).and_then(without_cluster) {
        Ok(rows) => report(&rows),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The rows of the catalogs, the resolver and the plan engine, after the others.
fn without_cluster(mut rows: Vec<Row>) -> Result<Vec<Row>> {
    rows.extend(parts::lifecycle_rows(None, None)?);
    rows.extend(parts::etcd_rows(None)?);
    rows.extend(parts::console_rows()?);
    rows.extend(parts::signatures::rows()?);
    rows.extend(parts::rows()?);
    rows.extend(parts::resolver::rows()?);
    Ok(rows)
}

async fn run() -> Result<Vec<Row>> {
    let version = etcd::version().context("etcd is not installed")?;
    let mut rows = Vec::new();
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");

    let start = Instant::now();
    let up = DevCluster::launch(&data, &[])?;
    up.wait_for_line("Kubernetes is ready", Duration::from_secs(60))?;
    rows.push(Row {
        what: "olm up: Kubernetes API and node ready",
        measured: secs(start),
        limit: 1.0,
        unit: "s",
        note: "empty data directory".into(),
    });
    up.wait_for_line("Ctrl-C", Duration::from_secs(60))?;
    let whole = secs(start);
    let cluster = up.cluster();

    let start = Instant::now();
    cluster.olm_ok(&["install", "etcd", "-n", "bench", "--wait", "--timeout", "60s"])?;
    rows.push(Row {
        what: "install, one command → CSV Succeeded",
        measured: secs(start),
        limit: 3.0,
        unit: "s",
        note: format!("manager and console were up {whole:.1} s after start"),
    });

    // etcd accepts another member only when its members have been connected to each other for 5 s. For each
    // of the two additions that is a floor of 10 s, and 1 s is the operator's; a single member has no
    // connections, so it can be less.
    let start = Instant::now();
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest("bench", "bench", 3, &version)))?;
    loop {
        if cluster.ready_members("bench", "bench").is_ok_and(|r| r.len() == 3) {
            break;
        }
        ensure!(start.elapsed() < Duration::from_secs(120), "no three members");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rows.push(Row {
        what: "EtcdCluster size 3 → three healthy members",
        measured: secs(start),
        limit: 11.0,
        unit: "s",
        note: format!("etcd {version}; its 5 s rule for each addition, and 1 s"),
    });

    tokio::time::sleep(Duration::from_secs(5)).await;
    let (before, at) = (cpu(up.pid())?, Instant::now());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (after, spent) = (cpu(up.pid())?, secs(at));
    let share = |pick: fn(&str) -> bool| -> f64 {
        let used: f64 = after
            .iter()
            .filter(|(_, (name, _))| pick(name))
            .map(|(pid, (_, ticks))| ticks - before.get(pid).map_or(0.0, |(_, b)| *b))
            .sum();
        used / spent * 100.0
    };
    let etcd_share = share(is_etcd);
    rows.push(Row {
        what: "idle CPU: dev cluster, manager, console, operator",
        measured: share(|n| !is_etcd(n)),
        limit: 2.0,
        unit: "%",
        note: format!("of one core; the three etcds take {etcd_share:.1} % more"),
    });

    let memory = memory(up.pid())?;
    let ours: f64 = memory.iter().filter(|(name, _)| !is_etcd(name)).map(|(_, mb)| mb).sum();
    let parts = memory
        .iter()
        .filter(|(n, _)| !is_etcd(n))
        .map(|(n, mb)| format!("{n} {mb:.0}"))
        .collect::<Vec<_>>()
        .join(", ");
    rows.push(Row {
        what: "memory (PSS): dev cluster, manager, console, operator",
        measured: ours,
        limit: 150.0,
        unit: "MB",
        note: parts,
    });

    scale(&cluster, &mut rows).await?;
    up.stop()?;

    let start = Instant::now();
    let again = DevCluster::launch(&data, &[])?;
    again.wait_for_line("Kubernetes is ready", Duration::from_secs(60))?;
    rows.push(Row {
        what: "olm up again: Kubernetes API and node ready",
        measured: secs(start),
        limit: 1.0,
        unit: "s",
        note: "on the data of the first".into(),
    });
    again.stop()?;
    let manager =
        |pid| Ok(tree(pid)?.into_iter().find(|(_, name)| name == "olm manager").map(|(pid, _)| pid));
    rows.extend(parts::manager::memory(&data, manager)?);
    Ok(rows)
}

/// A Deployment's pod deleted → its replacement available.
async fn scale(cluster: &Cluster, rows: &mut Vec<Row>) -> Result<()> {
    cluster.kubectl(&[
        "create",
        "deployment",
        "web",
        concat!("--image=localhost/olm/olm:", env!("CARGO_PKG_VERSION")),
        "-n",
        "bench",
        "--",
        "olm",
        "staticweb",
    ])?;
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", "bench", "--timeout=60s"])?;
    let start = Instant::now();
    cluster.kubectl(&["scale", "deployment/web", "--replicas=10", "-n", "bench"])?;
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", "bench", "--timeout=60s"])?;
    rows.push(Row {
        what: "Deployment scaled from 1 to 10 available pods",
        measured: secs(start),
        limit: 3.0,
        unit: "s",
        note: String::new(),
    });
    Ok(())
}

fn secs(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

fn is_etcd(name: &str) -> bool {
    name == "etcd"
}

/// Processes below `pid`, itself included: a short name by process id.
fn tree(pid: u32) -> Result<BTreeMap<u32, String>> {
    let name = |args: &str| {
        let mut words = args.split_whitespace();
        let program = words.next().and_then(|w| w.rsplit('/').next()).unwrap_or_default();
        match (program, words.next()) {
            ("olm" | "exe", Some(command)) => format!("olm {command}"),
            _ => program.to_string(),
        }
    };
    Ok(processes::tree(pid)?.into_iter().map(|p| (p.pid, name(&p.args))).collect())
}

/// CPU seconds used so far by each process of the tree.
fn cpu(pid: u32) -> Result<BTreeMap<u32, (String, f64)>> {
    let mut all = BTreeMap::new();
    for (pid, name) in tree(pid)? {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
        // utime and stime, in the usual 100 ticks a second.
        all.insert(pid, (name, (ticks(11) + ticks(12)) / 100.0));
    }
    Ok(all)
}

/// Proportional memory of each program of the tree, in MB, summed by name.
fn memory(pid: u32) -> Result<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for (pid, name) in tree(pid)? {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let kb = text
            .lines()
            .find_map(|l| l.strip_prefix("Pss:"))
            .and_then(|l| l.split_whitespace().next())
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0);
        *all.entry(name).or_insert(0.0) += kb / 1024.0;
    }
    Ok(all)
}
