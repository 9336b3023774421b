//! The rows of the table.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::{Catalog, graph::UpgradeGraph};
use serde::de::DeserializeOwned;

use super::{
    grow, measure, peer,
    steps::{Loaded, Pages, Searched, Stored, Warm},
    table::Row,
};

/// The full community catalog: 333 packages, 6,448 bundles, 87 MB of JSON lines.
const FULL: &str = "catalogs/community-full.json.zst";
pub(crate) const PACKAGES: usize = 333;

/// Minimum ratio compared with the peer.
const TIMES_FASTER: f64 = 20.0;
const TIMES_SMALLER: f64 = 10.0;

/// Maximum deviation of a larger catalog's cost from linear growth: caches and the disk have an influence,
/// too.
const BENT: f64 = 1.25;

/// The directory with the real catalogs and bundles, which are read in place.
pub(crate) fn shared_data() -> PathBuf {
    std::env::var_os("OLM_SHARED_DATA")
        .map_or_else(|| olm_tests::root().join("../shared/data"), PathBuf::from)
}

/// Unpacks the full catalog into a directory of its own, as a single file; `None` without the data.
pub(crate) fn full_catalog(dir: &Path) -> Result<Option<PathBuf>> {
    let packed = shared_data().join(FULL);
    if !packed.exists() {
        let why = format!("{} is not there (set OLM_SHARED_DATA)", packed.display());
        olm_tests::skipped("bench: the full catalog", &why);
        return Ok(None);
    }
    std::fs::create_dir(dir)?;
    let source = dir.join("catalog.json");
    unpack(&packed, &source)?;
    Ok(Some(source))
}

/// Measures catalogs, without a cluster.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let dir = tempfile::Builder::new().prefix("olm-bench-catalog-").tempdir()?;
    let full = dir.path().join("full");
    let Some(source) = full_catalog(&full)? else { return Ok(Vec::new()) };

    let mut rows = Vec::new();
    let once = cold(&full, &mut rows)?;
    let store = dir.path().join("store");
    stored(&store, &full, &mut rows)?;
    read(&store, &mut rows)?;
    refreshed(&store, &full, &once, &mut rows)?;
    cached(&source, dir.path(), &mut rows)?;
    drawn(&mut rows)?;
    linear(&source, dir.path(), &once, &mut rows)?;
    Ok(rows)
}

fn unpack(packed: &Path, target: &Path) -> Result<()> {
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(File::open(packed)?)
        .map_err(|error| anyhow::anyhow!("{} is not zstd: {error}", packed.display()))?;
    io::copy(&mut decoder, &mut File::create(target)?)?;
    Ok(())
}

/// Runs a step of this program several times: the median, and its output.
fn step<T: DeserializeOwned>(runs: usize, args: &[&str]) -> Result<(measure::Cost, T)> {
    let args: Vec<&str> = ["--child"].into_iter().chain(args.iter().copied()).collect();
    let cost = measure::median(runs, &std::env::current_exe()?, &args)?;
    let printed = serde_json::from_str(&cost.printed).context("the step printed something else")?;
    Ok((cost, printed))
}

/// `olm catalog validate`, if cargo built it with this program, otherwise the same as a step of this one.
fn check(dir: &Path, runs: usize, packages: usize) -> Result<measure::Cost> {
    let (olm, dir) = (olm_tests::bin_dir().join("olm"), dir.to_string_lossy());
    let cost = if olm.is_file() {
        measure::median(runs, &olm, &["catalog", "validate", &dir, "-o", "json"])?
    } else {
        measure::median(runs, &std::env::current_exe()?, &["--child", "check", &dir])?
    };
    let loaded: Loaded = serde_json::from_str(&cost.printed).context("validate printed something else")?;
    ensure!(loaded.packages == packages && loaded.errors == 0, "loaded {loaded:?}, not {packages} packages");
    Ok(cost)
}

/// Load and check, compared with the peer in the same run.
fn cold(full: &Path, rows: &mut Vec<Row>) -> Result<measure::Cost> {
    let ours = check(full, 5, PACKAGES)?;
    let theirs = peer::validate(full)?;
    rows.push(Row {
        what: "catalog of 333 packages, 87 MB: load and validate",
        measured: ours.wall,
        limit: theirs.wall / TIMES_FASTER,
        unit: "s",
        note: format!("{:.1} times faster than {}", theirs.wall / ours.wall, theirs.source),
    });
    rows.push(Row {
        what: "catalog: peak memory of load and validate",
        measured: ours.peak,
        limit: theirs.peak / TIMES_SMALLER,
        unit: "MB",
        note: format!("{:.1} times less; {:.2} s of CPU time", theirs.peak / ours.peak, ours.cpu),
    });
    Ok(ours)
}

/// Into the store, and a start from there.
fn stored(store: &Path, full: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let root = store.to_string_lossy();
    let first =
        measure::cost(&std::env::current_exe()?, &["--child", "store", &root, &full.to_string_lossy()])?;
    let filled: Stored = serde_json::from_str(&first.printed)?;
    ensure!(filled.packages == PACKAGES && filled.reread >= PACKAGES, "stored {filled:?}");
    let (_, warm) = step::<Warm>(11, &["warm", &root])?;
    ensure!(warm.packages == PACKAGES, "the store has {warm:?}");
    rows.push(Row {
        what: "catalog: warm start from the store",
        measured: warm.milliseconds,
        limit: 30.0,
        unit: "ms",
        note: format!("{:.0} MB resident; filling the store took {:.2} s", warm.resident, filled.seconds),
    });
    Ok(())
}

/// Pages and searches from the store.
fn read(store: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let root = store.to_string_lossy();
    let (_, Pages { first, whole }) = step::<Pages>(3, &["pages", &root])?;
    rows.push(Row {
        what: "catalog: first byte of a package from the store, p99",
        measured: first.p99,
        limit: 5.0,
        unit: "ms",
        note: format!(
            "{} packages, p50 {:.2}, worst {:.1} ({}); parsed whole p50 {:.2}, p99 {:.1}, worst {:.1} ({})",
            first.count,
            first.p50,
            first.worst,
            first.slowest,
            whole.p50,
            whole.p99,
            whole.worst,
            whole.slowest
        ),
    });
    let (_, Searched { first, spread }) = step::<Searched>(3, &["search", &root])?;
    rows.push(Row {
        what: "catalog: search, the worst",
        measured: spread.worst,
        limit: 5.0,
        unit: "ms",
        note: format!(
            "of {} queries, p50 {:.2} ({:?} is the worst); the first search of all {first:.1}",
            spread.count, spread.p50, spread.slowest
        ),
    });
    Ok(())
}

/// Commands of the command line that read the catalog from the user's cache, if cargo built it with this
/// program.
fn cached(source: &Path, dir: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let olm = olm_tests::bin_dir().join("olm");
    if !olm.is_file() {
        olm_tests::skipped("bench: commands with a cached catalog", "olm was not built");
        return Ok(());
    }
    let cache = format!("XDG_CACHE_HOME={}", dir.join("cache").display());
    let (olm, source) = (olm.to_string_lossy(), source.to_string_lossy());
    let mut costs = Vec::new();
    for [command, target] in
        [["search", "etcd"], ["show", "etcd"], ["versions", LARGE_PACKAGE], ["graph", LARGE_PACKAGE]]
    {
        let args = [&cache, &*olm, command, target, "--catalog-dir", &source];
        // The first run fills the cache; it is the uncounted one of the median.
        let cost = measure::median(5, Path::new("/usr/bin/env"), &args)?;
        ensure!(cost.printed.contains(target), "olm {command} {target} printed {}", cost.printed);
        costs.push((command, cost));
    }
    let notes: Vec<String> = costs
        .iter()
        .map(|(command, cost)| {
            format!(
                "{command} {:.0} ms, {:.0} ms of CPU time, {:.0} MB",
                cost.wall * 1e3,
                cost.cpu * 1e3,
                cost.peak
            )
        })
        .collect();
    rows.push(Row {
        what: "olm search, show, versions, graph: cached, the slowest",
        measured: costs.iter().map(|(_, cost)| cost.wall * 1e3).fold(0.0, f64::max),
        limit: 60.0,
        unit: "ms",
        note: notes.join("; "),
    });
    Ok(())
}

/// The package of the catalog with the longest channels.
pub(crate) const LARGE_PACKAGE: &str = "gitlab-operator-kubernetes";

/// A drawing of 222 versions in 38 channels, all of which the reader picked.
fn drawn(rows: &mut Vec<Row>) -> Result<()> {
    let mut text = String::from("{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c00\"}\n");
    for channel in 0..38 {
        let entry = |minor: usize| match minor {
            0 => "{\"name\":\"p.v1.0.0\"}".to_owned(),
            // A skipRange on each, as operators of Red Hat have it.
            _ => format!(
                "{{\"name\":\"p.v1.{minor}.0\",\"replaces\":\"p.v1.{}.0\",\"skipRange\":\">=1.0.0 <1.{minor}.0\"}}",
                minor - 1
            ),
        };
        let entries: Vec<String> = (0..222 - channel).map(entry).collect();
        text += &format!(
            "{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c{channel:02}\",\"entries\":[{}]}}\n",
            entries.join(",")
        );
    }
    for minor in 0..222 {
        text += &format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v1.{minor}.0\",\"image\":\"r.example/p:1\",\"properties\":\
             [{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"1.{minor}.0\"}}}}]}}\n"
        );
    }
    let package = Catalog::from_bytes("bench", text.as_bytes()).package("p")?.context("no package")?;
    let channels: Vec<String> = package.channels.keys().cloned().collect();
    // An installed version shortens the folded runs.
    let draw = || {
        let mut graph = UpgradeGraph::new(&package);
        graph.keep_drawn(&channels);
        graph.mark(&["p.v1.111.0"], &[]);
        graph.inline_svg(&|channel, bundle| {
            format!("/catalog/olm.community/p?channel={}&version={}", channel.name, bundle.name)
        })
    };
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..11 {
        let start = Instant::now();
        bytes = std::hint::black_box(draw()).len();
        times.push(start.elapsed());
    }
    times.sort();
    rows.push(Row {
        what: "upgrade graph of 222 versions, 38 channels: SVG",
        measured: times[times.len() / 2].as_secs_f64() * 1e3,
        limit: 15.0,
        unit: "ms",
        note: "model, layout and drawing; median of 11".into(),
    });
    rows.push(Row {
        what: "upgrade graph: size of the SVG",
        measured: bytes as f64 / 1e3,
        limit: 60.0,
        unit: "kB",
        note: String::new(),
    });
    Ok(())
}

/// One changed package.
fn refreshed(store: &Path, full: &Path, once: &measure::Cost, rows: &mut Vec<Row>) -> Result<()> {
    let changed = store.with_file_name("changed");
    std::fs::create_dir(&changed)?;
    let text = std::fs::read(full.join("catalog.json"))?;
    let at = find(&text, b"\"name\":\"etcd\",\"defaultChannel\"")
        .or_else(|| find(&text, b"\"name\": \"etcd\", \"defaultChannel\""))
        .context("the catalog has no package etcd in the form that is expected")?;
    let description = find(&text[at..], b"\"description\":").context("etcd has no description")? + at;
    let quote = find(&text[description + 14..], b"\"").context("no description")? + description + 15;
    let mut edited = text;
    edited.splice(quote..quote, *b"Changed. ");
    std::fs::write(changed.join("catalog.json"), edited)?;
    let cost = measure::cost(
        &std::env::current_exe()?,
        &["--child", "store", &store.to_string_lossy(), &changed.to_string_lossy()],
    )?;
    std::fs::remove_dir_all(&changed)?;
    let Stored { packages, reread, seconds } = serde_json::from_str(&cost.printed)?;
    ensure!(packages == PACKAGES, "{packages} packages");
    rows.push(Row {
        what: "catalog: refresh, one package changed: packages read anew",
        measured: reread as f64,
        limit: 1.0,
        unit: "",
        note: format!("of {packages}"),
    });
    rows.push(Row {
        what: "catalog: refresh, one package changed",
        measured: seconds,
        limit: once.wall,
        unit: "s",
        note: format!("the limit is that of a first load; peak {:.0} MB", cost.peak),
    });
    Ok(())
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Three and ten times the catalog cost three and ten times as much.
fn linear(source: &Path, temp: &Path, once: &measure::Cost, rows: &mut Vec<Row>) -> Result<()> {
    let mut points = vec![format!("1x {:.2} s {:.0} MB", once.wall, once.peak)];
    for (factor, runs, what) in [
        (3_u32, 3, "catalog 3 times as large: time, of 3 times that of one"),
        (10, 2, "catalog 10 times as large: time, of 10 times that of one"),
    ] {
        let dir = temp.join(format!("grown-{factor}"));
        std::fs::create_dir(&dir)?;
        let bytes = grow::grow(source, factor, &dir.join("catalog.json"))?;
        let cost = check(&dir, runs, PACKAGES * factor as usize)?;
        std::fs::remove_dir_all(&dir)?;
        points.push(format!("{factor}x ({} MB) {:.2} s {:.0} MB", bytes / 1_000_000, cost.wall, cost.peak));
        rows.push(Row {
            what,
            measured: cost.wall / (once.wall * f64::from(factor)),
            limit: BENT,
            unit: "x",
            note: points.join("; "),
        });
    }
    Ok(())
}
