//! Synthetic catalogs of up to 200,000 bundles.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::Store;
use olm_resolver::Request;
use serde_json::json;

use super::{
    super::{
        steps::{KEY, open},
        table::Row,
    },
    median, ms,
    world::{World, request},
};

/// Bundles of each package.
const VERSIONS: usize = 20;

/// Every n-th package needs the one before it and an API of the one before that.
const NEEDY: usize = 10;

const SIZES: [usize; 3] = [10_000, 50_000, 200_000];

/// Maximum cost ratio of a bundle between the largest and the smallest.
const BENT: f64 = 1.5;

/// Maximum cost ratio of an install: in the range of microseconds, so that caches and other load have an
/// influence.
const CONSTANT: f64 = 2.0;

/// Number of preparations of a catalog; the fastest counts, because of other load.
const PREPARED: usize = 3;

/// Number of requested packages.
const ASKED: usize = 200;

struct Point {
    bundles: usize,
    prepared: Duration,
    /// The median of many packages, requested one after the other.
    alone: Duration,
    /// The one with the longest time.
    worst: Duration,
}

pub(super) fn rows(temp: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let mut points = Vec::new();
    let mut many = None;
    for bundles in SIZES {
        let dir = temp.join(format!("synthetic-{bundles}"));
        let source = dir.join("catalog");
        std::fs::create_dir_all(&source)?;
        write(&source.join("catalog.json"), bundles / VERSIONS)?;
        let store = dir.join("store");
        drop(Store::open(&store)?.refresh_dir(KEY, "synthetic", &source)?);
        let (mut prepared, mut world) = prepare(&store)?;
        for _ in 1..PREPARED {
            drop(world);
            let time;
            (time, world) = prepare(&store)?;
            prepared = prepared.min(time);
        }
        ensure!(world.packages().len() == bundles / VERSIONS, "{} packages", world.packages().len());
        points.push(point(&world, bundles, prepared)?);
        many = Some(namespaces(&world)?);
        drop(world);
        std::fs::remove_dir_all(&dir)?;
    }
    let (first, last) = (&points[0], &points[points.len() - 1]);
    let texts = points.iter().map(|it| {
        let each = it.prepared.as_secs_f64() * 1e6 / it.bundles as f64;
        format!("{}: {:.0} ms, {each:.1} µs each", it.bundles, ms(it.prepared))
    });
    let each = |it: &Point| it.prepared.as_secs_f64() / it.bundles as f64;
    rows.push(Row {
        what: "resolver: 200,000 bundles: preparing each, of 10,000's",
        measured: each(last) / each(first),
        limit: BENT,
        unit: "x",
        note: format!("read from the store and prepared; {}", texts.collect::<Vec<_>>().join("; ")),
    });
    let texts =
        points.iter().map(|it| format!("{}: {:.3} ms, worst {:.3}", it.bundles, ms(it.alone), ms(it.worst)));
    rows.push(Row {
        what: "resolver: 200,000 bundles: one install, of 10,000's",
        measured: last.alone.as_secs_f64() / first.alone.as_secs_f64(),
        limit: CONSTANT,
        unit: "x",
        note: format!("median of {ASKED}; {}", texts.collect::<Vec<_>>().join("; ")),
    });
    rows.extend(many.map(|time| Row {
        what: "resolver: 10,000 Subscriptions to 10,000 packages",
        measured: time.as_secs_f64(),
        limit: 1.0,
        unit: "s",
        note: "over 1,000 namespaces, from 200,000 bundles, in one call".into(),
    }));
    Ok(())
}

/// Reads and prepares a catalog, and resolves a package with dependencies: that needs the index of providers
/// of the whole catalog.
fn prepare(store: &Path) -> Result<(Duration, World)> {
    // reopened: a catalog caches requested packages
    let catalog = open(store)?;
    let start = Instant::now();
    let world = World::load(&catalog)?;
    alone(&world, NEEDY * 2)?;
    Ok((start.elapsed(), world))
}

/// Writes a catalog: every package has a chain of versions in `stable`, the newer half of them in `fast` as
/// well, and its own API in each version.
fn write(target: &Path, packages: usize) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(target)?);
    let mut line = |document: serde_json::Value| -> Result<()> {
        serde_json::to_writer(&mut out, &document)?;
        Ok(out.write_all(b"\n")?)
    };
    for at in 0..packages {
        let package = name(at);
        line(json!({ "schema": "olm.package", "name": package, "defaultChannel": "stable" }))?;
        for (channel, versions) in [("stable", 0..VERSIONS), ("fast", VERSIONS / 2..VERSIONS)] {
            let first = versions.start;
            let entries = versions.map(|minor| {
                let mut entry = json!({ "name": bundle(at, minor) });
                if minor > first {
                    entry["replaces"] = bundle(at, minor - 1).into();
                }
                entry
            });
            let entries: Vec<_> = entries.collect();
            line(
                json!({ "schema": "olm.channel", "package": package, "name": channel, "entries": entries }),
            )?;
        }
        for minor in 0..VERSIONS {
            let mut properties = vec![
                json!({ "type": "olm.package", "value": { "packageName": package, "version": format!("1.{minor}.0") } }),
                json!({ "type": "olm.gvk", "value": gvk(at) }),
            ];
            if is_needy(at) {
                let package = json!({ "packageName": name(at - 1), "versionRange": ">=1.1.0" });
                properties.push(json!({ "type": "olm.package.required", "value": package }));
                properties.push(json!({ "type": "olm.gvk.required", "value": gvk(at - 2) }));
            }
            let image = format!("registry.example.com/{package}@sha256:{at:032x}{minor:032x}");
            line(
                json!({ "schema": "olm.bundle", "name": bundle(at, minor), "package": package, "image": image,
                         "properties": properties }),
            )?;
        }
    }
    Ok(out.flush()?)
}

fn name(at: usize) -> String {
    format!("package-{at:05}")
}

fn bundle(at: usize, minor: usize) -> String {
    format!("package-{at:05}.v1.{minor}.0")
}

fn gvk(at: usize) -> serde_json::Value {
    json!({ "group": format!("g{at}.example.com"), "version": "v1", "kind": format!("Kind{at}") })
}

fn is_needy(at: usize) -> bool {
    at > 1 && at.is_multiple_of(NEEDY)
}

/// Resolves one package: its newest version, and its dependencies.
fn alone(world: &World, at: usize) -> Result<Request> {
    let request = request("bench", &name(at), "stable");
    let answer = world.resolve(std::slice::from_ref(&request)).items.pop().context("no answer")?;
    let resolved = answer.map_err(|why| anyhow::anyhow!("{}: {}", name(at), why.summary))?;
    expect(at, &resolved)?;
    Ok(request)
}

fn expect(at: usize, resolved: &olm_resolver::Resolved) -> Result<()> {
    ensure!(resolved.chosen.name == bundle(at, VERSIONS - 1), "{} was chosen", resolved.chosen.name);
    let needed: BTreeSet<&str> = resolved.dependencies.iter().map(|it| it.required_by.as_str()).collect();
    ensure!(needed.contains(resolved.chosen.name.as_str()) == is_needy(at), "{needed:?} need something");
    ensure!(resolved.dependencies.len() == if is_needy(at) { 2 } else { 0 }, "{:?}", resolved.dependencies);
    Ok(())
}

fn point(world: &World, bundles: usize, prepared: Duration) -> Result<Point> {
    let packages = bundles / VERSIONS;
    let mut times = Vec::new();
    for place in 0..ASKED {
        // every tenth of these has dependencies
        let at = place * (packages / ASKED - 1) + place % 2;
        let request = alone(world, at)?;
        // so short that noise would dominate: the best of several
        let time = (0..15).map(|_| median(1, || world.resolve(std::slice::from_ref(&request)))).min();
        times.extend(time);
    }
    times.sort();
    Ok(Point { bundles, prepared, alone: times[ASKED / 2], worst: times[ASKED - 1] })
}

/// As many packages as there are, but at most 10,000, over 1,000 namespaces.
fn namespaces(world: &World) -> Result<Duration> {
    let count = world.packages().len().min(10_000);
    let requests: Vec<Request> =
        (0..count).map(|at| request(&format!("team-{}", at % 1_000), &name(at), "stable")).collect();
    for (at, item) in world.resolve(&requests).items.iter().enumerate() {
        let resolved = item.as_ref().map_err(|why| anyhow::anyhow!("{}: {}", name(at), why.summary))?;
        expect(at, resolved)?;
    }
    Ok(median(3, || world.resolve(&requests)))
}
