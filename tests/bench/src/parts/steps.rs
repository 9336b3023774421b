//! Steps measured from outside, each as its own process. They print their results as JSON.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use olm_catalog::{Catalog, Filter, Severity, Store};
use serde::{Deserialize, Serialize};

use super::{measure, resolver};

/// The catalog's key in the store.
pub(crate) const KEY: &str = "bench/community";

/// Typical queries: names, parts of names, kinds, purposes, several words, and typing errors in all of them.
const QUERIES: [&str; 44] = [
    "etcd",
    "EtcdCluster",
    "etcdcluster",
    "ectd",
    "prometheus",
    "promethues",
    "postgres",
    "postgresql",
    "postgersql",
    "database",
    "databse",
    "kafka",
    "KafkaTopic",
    "strimzi",
    "argo",
    "argocd",
    "argo cd",
    "gitops",
    "grafana",
    "monitoring",
    "logging",
    "tracing jaeger",
    "machine learning",
    "storage",
    "backup restore",
    "certificates",
    "cert-manager",
    "vault secrets",
    "service mesh",
    "istio",
    "redis cluster",
    "mongo",
    "mongodb enterprise",
    "elasticsearch",
    "elastcsearch",
    "operator",
    "a",
    "k8s",
    "red hat",
    "full lifecycle database",
    "security scan",
    "nothing-like-it",
    "x y z",
    "kubernetes native object storage with replication and encryption",
];

/// Result of a load.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub packages: usize,
    pub errors: usize,
    pub warnings: usize,
}

/// Result of a refresh of the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub packages: usize,
    /// Packages that were read and checked.
    pub reread: usize,
    pub seconds: f64,
}

/// A start with a store that has the catalog.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Warm {
    pub packages: usize,
    pub milliseconds: f64,
    /// Of the whole process with the catalog open, in MiB.
    pub resident: f64,
}

/// Times in milliseconds, over all queries.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub count: usize,
    pub p50: f64,
    pub p99: f64,
    pub worst: f64,
    /// The slowest one.
    pub slowest: String,
}

/// Reading packages from the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pages {
    /// Until the first document is available.
    pub first: Spread,
    /// Until the whole package is parsed, for a page that shows its versions.
    pub whole: Spread,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Searched {
    /// The first search builds the index.
    pub first: f64,
    pub spread: Spread,
}

/// The universe of the catalog.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Universes {
    pub packages: usize,
    pub bundles: usize,
    /// Time to read and prepare it.
    pub milliseconds: f64,
    /// Additional resident memory compared with the open catalog, in MiB.
    pub grown: f64,
}

/// Runs the step named by the arguments after `--child`.
pub(crate) fn step(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["watch", program, ..] => measure::watch(program, &args[2..]),
        ["check", dir] => print(&check(Path::new(dir))),
        ["store", root, dir] => print(&store(Path::new(root), Path::new(dir))?),
        ["warm", root] => print(&warm(Path::new(root))?),
        ["pages", root] => print(&pages(open(Path::new(root))?.as_ref())?),
        ["search", root] => print(&search(open(Path::new(root))?.as_ref())?),
        ["universe", root] => print(&resolver::universe(open(Path::new(root))?.as_ref())?),
        _ => bail!("unknown step {words:?}"),
    }
}

fn print(value: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// Reads and checks a directory, as `olm catalog validate` does.
fn check(dir: &Path) -> Loaded {
    let catalog = Catalog::check(dir);
    let count = |severity| catalog.problems.iter().filter(|problem| problem.severity == severity).count();
    Loaded {
        packages: catalog.summaries().count(),
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
    }
}

fn store(root: &Path, dir: &Path) -> Result<Stored> {
    let store = Store::open(root)?;
    let start = Instant::now();
    let refreshed = store.refresh_dir(KEY, "bench", dir)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Stored { packages: refreshed.catalog.summaries().count(), reread: refreshed.reread, seconds })
}

/// The catalog that the step `store` wrote to a store.
pub(crate) fn open(root: &Path) -> Result<Arc<Catalog>> {
    Store::open(root)?.get(KEY)?.context("the store does not have the catalog")
}

fn warm(root: &Path) -> Result<Warm> {
    let start = Instant::now();
    let catalog = open(root)?;
    let packages = catalog.summaries().count();
    let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
    Ok(Warm { packages, milliseconds, resident: resident(std::process::id())? })
}

/// Resident memory of a process, in MiB.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    in_status(pid, "VmRSS:")
}

/// The process's own part of [`resident`]. The rest is pages of its program, of which the kernel maps those
/// around each touched page, as far as they are in the page cache: the same program in the same state varies
/// by a tenth in it.
pub(crate) fn anonymous(pid: u32) -> Result<f64> {
    in_status(pid, "RssAnon:")
}

fn in_status(pid: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kb =
        status.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok());
    kb.map(|kb: f64| kb / 1024.0).with_context(|| format!("no {field}"))
}

/// CPU seconds of a process so far, over all processors.
pub(crate) fn processor(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name, which may contain anything; user and system time are the 14th and 15th field of all.
    let fields = stat.rsplit_once(") ").context("no name")?.1.split(' ');
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.context("no clock ticks")?;
    Ok(ticks / hertz as f64)
}

/// Memory of a process in MiB, with its share of shared pages.
pub(crate) fn pss(pid: u32) -> Result<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kb =
        rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next()?.parse().ok());
    kb.map(|kb: f64| kb / 1024.0).context("no Pss")
}

fn pages(catalog: &Catalog) -> Result<Pages> {
    let names: Vec<String> = catalog.summaries().map(|summary| summary.name.clone()).collect();
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    for name in &names {
        let filter = Filter { package: Some(name.clone()), ..Filter::default() };
        let start = Instant::now();
        let document = catalog.documents(&filter).next().context("no document")??;
        first.push((start.elapsed(), name.as_str()));
        ensure!(!document.is_empty(), "{name}: an empty document");
        let start = Instant::now();
        let package = catalog.package(name)?.context("no package")?;
        whole.push((start.elapsed(), name.as_str()));
        ensure!(package.name == *name, "{name}: another package");
    }
    Ok(Pages { first: spread(first)?, whole: spread(whole)? })
}

fn search(catalog: &Catalog) -> Result<Searched> {
    let start = Instant::now();
    ensure!(!catalog.search("etcd").is_empty(), "etcd was not found");
    let first = start.elapsed().as_secs_f64() * 1000.0;
    // The best of three each: a search is so short that noise would dominate.
    let best = |query: &'static str| {
        let times = (0..3).map(|_| {
            let start = Instant::now();
            std::hint::black_box(catalog.search(query));
            start.elapsed()
        });
        (times.min().unwrap_or_default(), query)
    };
    Ok(Searched { first, spread: spread(QUERIES.into_iter().map(best).collect())? })
}

/// The distribution of times; the second part of each is its description.
pub(crate) fn spread(mut times: Vec<(Duration, &str)>) -> Result<Spread> {
    times.sort();
    let at = |share: f64| {
        let index = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1;
        times[index].0.as_secs_f64() * 1000.0
    };
    let (_, slowest) = times.last().context("nothing was measured")?;
    Ok(Spread {
        count: times.len(),
        p50: at(0.5),
        p99: at(0.99),
        worst: at(1.0),
        slowest: (*slowest).to_owned(),
    })
}
