//! A large cluster: 1,000 namespaces with 10 operators each, settled, and a manager process that starts on
//! it.

mod settled;
mod template;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, runtime::wait::await_condition};
use olm_tests::inprocess::{Call, Catalog, Faults, Operator, Process, World, crd};
use serde_json::json;

use super::{
    steps::{processor, pss, resident},
    table::Row,
};
pub(super) use settled::Settled;

/// Namespaces of the table.
pub(crate) const NAMESPACES: usize = 1_000;
const OPERATORS: usize = 10;

/// Time-out beyond any value, even on a busy machine.
const HANGS: Duration = Duration::from_secs(600);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(100);
/// CPU usage below which a process counts as idle.
const RESTS: f64 = 0.2;
/// A manager without reconciliations for this long has processed everything.
pub(super) const QUIET: Duration = Duration::from_secs(2);
/// During a full reconciliation, a single page of a list may take seconds.
const READING: Duration = Duration::from_secs(15);
/// Number of timed changes.
const CHANGES: usize = 10;

/// Size of descriptive fields: with it a version is as large as the median of the real ones
/// (shared/data/bundles: 18 KB as YAML).
const DESCRIPTION: usize = 6 << 10;
const ICON: usize = 4 << 10;
const EXAMPLES: usize = 2 << 10;

/// A typical operator: a CRD, rights in its namespace, one Deployment, a description and an icon.
fn operator(number: usize) -> Operator {
    let name = format!("scale-{number}");
    let (plural, kind) = (format!("scales{number}"), format!("Scale{number}"));
    let rule = |resources: &[&str]| json!({ "apiGroups": ["apps"], "resources": resources, "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"] });
    let environment: Vec<_> =
        (0..12).map(|n| json!({ "name": format!("RELATED_IMAGE_{n}"), "value": format!("example.invalid/{name}/part-{n}@sha256:{:064}", n) })).collect();
    let text =
        |size: usize| "What it does, and how it is used. ".chars().cycle().take(size).collect::<String>();
    Operator::new(&name, "1.0.0")
        .owns(crd(&plural, "scale.example.com", &kind, &["v1"]))
        .permission(&name, rule(&["deployments", "statefulsets", "daemonsets"]))
        .permission(&name, rule(&["replicasets"]))
        .csv(|csv| {
            csv["metadata"]["annotations"]["alm-examples"] = json!([{ "kind": kind, "text": text(EXAMPLES) }]).to_string().into();
            csv["spec"]["description"] = text(DESCRIPTION).into();
            csv["spec"]["icon"] = json!([{ "base64data": "AAAA".repeat(ICON / 4), "mediatype": "image/png" }]);
            csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["env"] = environment.into();
        })
}

/// The rows for this many namespaces.
pub(crate) async fn rows(namespaces: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let world = World::bare().await?;
    let start = Instant::now();
    let objects = settle(&world, namespaces).await?;
    eprintln!(
        "{} objects in {namespaces} namespaces were written in {:.0} s",
        objects * namespaces,
        start.elapsed().as_secs_f64()
    );

    let faults = Faults::new();
    let served = world.serve(&faults)?;
    let start = Instant::now();
    let mut manager = Process::start(&served, "scale")?;
    manager.ready(HANGS).await?;
    let ready = start.elapsed();
    let (took, reconciled) = looked(&mut manager, namespaces * OPERATORS, start).await?;
    let calls = faults.calls();
    // The catalog is polled again, and its source's status is written.
    let writes: Vec<&Call> =
        calls.iter().filter(|call| call.changed() && !call.path.contains("/catalogsources/")).collect();
    let reads: Vec<&Call> = calls.iter().filter(|call| !call.is_write() && !call.is_watch()).collect();
    if std::env::var_os("OLM_BENCH_CALLS").is_some() {
        calls.iter().for_each(|call| eprintln!("{call}"));
    }
    rows.push(Row {
        what: "1,000 × 10 operators: started → looked at all of it",
        measured: took.as_secs_f64(),
        limit: 10.0,
        unit: "s",
        note: format!(
            "ready after {:.1} s, {:.1} s of a processor, {reconciled} reconciliations, {} reads: {}",
            ready.as_secs_f64(),
            processor(manager.pid())?,
            reads.len(),
            most(&reads)
        ),
    });
    rows.push(Row {
        what: "1,000 × 10 operators: writes of that start",
        measured: writes.len() as f64,
        limit: 0.0,
        unit: "",
        note: most(&writes),
    });
    rows.push(drift(&world, &faults, namespaces).await?);
    rows.push(Row {
        what: "1,000 × 10 operators: manager's memory",
        measured: resident(manager.pid())?,
        limit: 150.0,
        unit: "MiB",
        note: format!("VmRSS; PSS {:.1}", pss(manager.pid())?),
    });
    Ok(rows)
}

/// The most frequent call: verb, kind, and number.
fn most(calls: &[&Call]) -> String {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for call in calls {
        // /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE
        let words: Vec<&str> =
            call.path.split('/').skip(if call.path.starts_with("/api/") { 3 } else { 4 }).collect();
        let words = match words.as_slice() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        let (plural, subresource) = (words.first().unwrap_or(&""), words.get(2).unwrap_or(&""));
        let one = if words.len() > 1 { "one of " } else { "" };
        *count
            .entry(format!("{} {one}{plural} {subresource}", call.method).trim_end().to_owned())
            .or_default() += 1;
    }
    let mut count: Vec<(String, usize)> = count.into_iter().collect();
    count.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    count.iter().take(8).map(|(what, n)| format!("{n} {what}")).collect::<Vec<_>>().join(", ")
}

fn home(number: usize) -> String {
    format!("tenant-{number:05}")
}

/// A settled cluster of this many namespaces; returns the number of objects in each.
async fn settle(world: &World, namespaces: usize) -> Result<usize> {
    let manager = world.manager("settle")?;
    let operators: Vec<Operator> = (0..OPERATORS).map(operator).collect();
    let catalog = operators.iter().fold(Catalog::new(), |catalog, one| catalog.and_chain(&[one]));
    world.publish("catalog", &catalog).await?;
    for number in 0..2 {
        let namespace = home(number);
        world.home(&namespace).await?;
        for operator in &operators {
            world.subscribe(&namespace, &operator.package).await?;
            world.installed(&namespace, &operator.package, &operator.name).await?;
        }
    }
    rested(world, QUIET).await?;
    manager.stop().await?;
    world.freeze();
    let settled = Settled::read(world, &home(0), &home(1)).await?;
    eprintln!("a namespace has {}", settled.census());
    let objects = settled.objects();
    settled.copy_to((2..namespaces).map(home).collect()).await?;
    look_through(world).await?;
    Ok(objects)
}

/// Lets a manager reconcile everything once: hashes that include a namespace's name are not copied correctly.
pub(super) async fn look_through(world: &World) -> Result<()> {
    let manager = world.manager("look-through")?;
    rested(world, READING).await?;
    manager.stop().await
}

/// Waits until the managers of this process have made no call for this long.
pub(super) async fn rested(world: &World, quiet: Duration) -> Result<()> {
    let start = Instant::now();
    let (mut last, mut at) = (world.faults.count(), Instant::now());
    while at.elapsed() < quiet {
        ensure!(start.elapsed() < HANGS, "the manager does not rest:\n{}", world.report().await);
        tokio::time::sleep(LOOK).await;
        let now = world.faults.count();
        if now > last {
            (last, at) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Waits until everything is reconciled, and the process is idle: the time from `start` on, and the number of
/// reconciliations.
/// Its metrics are only requested when it is idle: rendering a page of them is work in proportion to all
/// objects.
async fn looked(manager: &mut Process, least: usize, start: Instant) -> Result<(Duration, f64)> {
    let total = [("olm_reconcile_total", ""), ("olm_reconcile_total", "controller=\"csv\"")];
    let (mut used, mut window, mut at) = (processor(manager.pid())?, Instant::now(), Instant::now());
    let mut before = 0.0;
    loop {
        tokio::time::sleep(LOOK).await;
        ensure!(manager.runs()?, "the manager ended:\n{}", manager.log_tail());
        let now = processor(manager.pid())?;
        if now - used > RESTS * window.elapsed().as_secs_f64() {
            at = Instant::now();
        }
        (used, window) = (now, Instant::now());
        if at.elapsed() < QUIET {
            continue;
        }
        let [reconciled, csvs] = manager.metrics(total).await?;
        if csvs >= least as f64 && reconciled == before {
            return Ok((at.duration_since(start), reconciled));
        }
        ensure!(start.elapsed() < HANGS, "it has looked at {csvs} of {least} versions");
        // Once more, to check that nothing was reconciled since; the page itself was no reconciliation.
        before = reconciled;
        used = processor(manager.pid())?;
    }
}

/// A Deployment's image is changed manually; the change is handled when it is reverted.
async fn drift(world: &World, faults: &Faults, namespaces: usize) -> Result<Row> {
    let mut took = Vec::new();
    let from = faults.count();
    for number in 0..CHANGES {
        let (namespace, name) =
            (home(number * (namespaces / CHANGES)), format!("scale-{}", number % OPERATORS));
        let api = Api::<Deployment>::namespaced(world.client.clone(), &namespace);
        let image = |d: &Deployment| d.spec.template.spec.as_ref()?.containers.first()?.image.clone();
        let before = image(&api.get(&name).await?).context("a Deployment without an image")?;
        let patch = json!([{ "op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "example.invalid/drifted" }]);
        let patch: kube::api::Patch<()> = kube::api::Patch::Json(serde_json::from_value(patch)?);
        let start = Instant::now();
        api.patch(&name, &kube::api::PatchParams::default(), &patch).await?;
        let right =
            await_condition(api, &name, |d: Option<&Deployment>| d.and_then(image).as_ref() == Some(&before));
        tokio::time::timeout(HANGS, right)
            .await
            .with_context(|| format!("{namespace}/{name} stays as it is"))??;
        took.push(start.elapsed());
    }
    took.sort();
    let calls = faults.count() - from;
    Ok(Row {
        what: "1,000 × 10 operators: one change handled",
        measured: took[CHANGES - 1].as_secs_f64() * 1000.0,
        limit: 100.0,
        unit: "ms",
        note: format!(
            "a Deployment changed by hand → reverted; the worst of {CHANGES}, median {:.0}; {:.1} calls each",
            took[CHANGES / 2].as_secs_f64() * 1000.0,
            calls as f64 / CHANGES as f64
        ),
    })
}
