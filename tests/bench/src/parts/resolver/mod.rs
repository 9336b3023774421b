//! The resolver's and the plan engine's part of `make bench`: one process, the full community catalog loaded
//! once.
//! Every row checks its result before it counts: a wrong result fails the benchmark, however fast it was.
//! OLM's figures were recorded on the same catalog and machine (`data/README.md`).

mod alone;
mod instance;
mod plan;
mod refusal;
mod synthetic;
mod together;
mod unsolvable;
mod world;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::Store;
use world::World;

use super::{
    measure,
    rows::{PACKAGES, full_catalog},
    steps::{KEY, Universes, open},
    table::Row,
};

/// Size of OLM v0's snapshot of the same catalog, in MB.
const SNAPSHOT: f64 = 85.0;

/// Measures the resolver and the plan engine, without a cluster.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let dir = tempfile::Builder::new().prefix("olm-bench-resolver-").tempdir()?;
    let full = dir.path().join("full");
    if full_catalog(&full)?.is_none() {
        return Ok(Vec::new());
    }
    let root = dir.path().join("store");
    // a store belongs to one process at a time
    drop(Store::open(&root)?.refresh_dir(KEY, "bench", &full)?);
    std::fs::remove_dir_all(&full)?;

    let mut rows = vec![memory(&root.to_string_lossy())?];
    let world = World::load(open(&root)?.as_ref())?;
    let all = alone::resolve_all(&world)?;
    alone::rows(&world, &all, &mut rows)?;
    together::rows(&world, &all, &mut rows)?;
    rows.push(refusal::row(&world, &all)?);
    drop((all, world));
    instance::row(&mut rows)?;
    synthetic::rows(dir.path(), &mut rows)?;
    unsolvable::rows(&mut rows)?;
    plan::rows(&mut rows)?;
    Ok(rows)
}

/// Memory of the universe, in its own process.
fn memory(root: &str) -> Result<Row> {
    let cost = measure::cost(&std::env::current_exe()?, &["--child", "universe", root])?;
    let it: Universes = serde_json::from_str(&cost.printed).context("the step printed something else")?;
    ensure!(it.packages == PACKAGES && it.bundles == world::BUNDLES, "the universe has {it:?}");
    Ok(Row {
        what: "resolver: memory of the full catalog, prepared",
        measured: it.grown,
        limit: SNAPSHOT,
        unit: "MB",
        note: format!(
            "resident, more than before; {} bundles, {:.0} ms to read and prepare them; recorded: OLM v0's snapshot of it",
            it.bundles, it.milliseconds
        ),
    })
}

/// The step `universe` of [`memory`].
pub(crate) fn universe(catalog: &olm_catalog::Catalog) -> Result<Universes> {
    let before = super::steps::resident(std::process::id())?;
    let start = Instant::now();
    let world = World::load(catalog)?;
    world.warm()?;
    let milliseconds = ms(start.elapsed());
    let grown = super::steps::resident(std::process::id())? - before;
    let packages = world.packages();
    Ok(Universes {
        packages: packages.len(),
        bundles: packages.values().map(|package| package.bundles().len()).sum(),
        milliseconds,
        grown,
    })
}

/// The median duration of this many runs, without dropping the results.
fn median<T>(runs: usize, mut run: impl FnMut() -> T) -> Duration {
    let timed = |_| {
        let start = Instant::now();
        let out = std::hint::black_box(run());
        let time = start.elapsed();
        drop(out);
        time
    };
    let mut times: Vec<Duration> = (0..runs).map(timed).collect();
    times.sort();
    times[runs / 2]
}

/// In milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
