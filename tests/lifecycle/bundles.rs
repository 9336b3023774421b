//! Real bundles: each package of data/bundles installs from the first version of each of its channels, goes up the whole channel and
//! is removed again, until the cluster is what it was, object for object. The run is summed up in a table.
//!
//! In the normal run these are a few packages chosen for variety; with `OLM_TEST_LONG` (`make test-long`) all of them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::{BundleEntry, Catalog, Channel, Package, build};
use olm_manager::ops::{Operands, UninstallOptions, uninstall};
use olm_tests::inprocess::{Fate, OLM, PATIENCE, Snapshot, World, condition, crd, text};
use serde_json::{Value, json};

use crate::run;

/// For the normal run: channels, skips, skipRange, webhooks, conversion, all-namespaces only, own-namespace only, native catalogs.
const SAMPLE: &[&str] = &[
    "etcd",
    "cockroachdb",
    "node-maintenance-operator",
    "oadp-operator",
    "kube-green",
    "skupper-operator",
    "cert-utils-operator",
    "pelorus-operator",
];

/// What is refused, and why that is right: package (or `*`), the finding's code, the reason.
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("*", "DependencyUnsatisfied", "needs a package or an API that this repository does not have"),
    ("*", "ConstraintsNotSatisfiable", "needs a package or an API that this repository does not have"),
    ("*", "RequiredApiMissing", "needs an API that this cluster does not have"),
    (
        "*",
        "CrdStoredVersionRemoved",
        "the bundle drops a version that objects are stored in; upstream refuses it too",
    ),
    ("*", "CrdScopeChanged", "the bundle changes the scope of a CRD; the API server refuses that"),
    ("*", "CrdBreakingChange", "the bundle tightens a CRD that has no conversion"),
    ("*", "ImmutableField", "the bundle changes the selector of a Deployment"),
    ("*", "PriorityClassMissing", "its pods name a PriorityClass that is not there"),
    ("*", "InstallModeRemoved", "the next version cannot watch what this one watches"),
    ("*", "UnsupportedInstallMode", "no install mode is supported by every version of the channel"),
    (
        "*",
        "Kubernetes 1.22 removed",
        "its CRDs are v1beta1, which no Kubernetes serves that is still supported",
    ),
    ("*", "KubernetesTooOld", "needs a newer Kubernetes"),
];

/// What became of one channel.
struct Row {
    package: String,
    channel: String,
    versions: usize,
    reached: usize,
    phase: String,
    refused: Option<String>,
    left: usize,
    seconds: f32,
}

fn operators() -> PathBuf {
    let data = std::env::var_os("OLM_SHARED_DATA").map(PathBuf::from);
    data.unwrap_or_else(|| olm_tests::root().join("../shared/data")).join("bundles/operators")
}

fn packages() -> Option<Vec<String>> {
    let folder = operators();
    let Ok(entries) = std::fs::read_dir(&folder) else {
        olm_tests::skipped("bundles", &format!("{} is not there", folder.display()));
        return None;
    };
    let mut names: Vec<String> =
        entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if std::env::var_os("OLM_TEST_LONG").is_none() {
        names.retain(|name| SAMPLE.contains(&name.as_str()));
    }
    Some(names)
}

/// From the first to the last: each is what the one after replaces, or skips.
fn road(package: &Package, channel: &Channel) -> Vec<String> {
    let replaced: Vec<&str> =
        channel.entries.iter().flat_map(|e| e.replaces.iter().chain(&e.skips).map(String::as_str)).collect();
    let head = channel.entries.iter().filter(|e| !replaced.contains(&e.name.as_str()));
    let head = head.max_by_key(|e| package.bundles.get(&e.name).and_then(|b| b.version.clone()));
    let mut road = Vec::new();
    let mut at = head.map(|e| e.name.clone());
    while let Some(name) = at {
        let Some(entry) = channel.entries.iter().find(|e| e.name == name) else { break };
        if !package.bundles.contains_key(&name) || road.contains(&name) {
            break;
        }
        at = entry.replaces.clone();
        road.push(name);
    }
    road.reverse();
    road
}

/// The install modes that every version of the road supports.
fn modes(package: &Package, road: &[String]) -> Vec<String> {
    let of = |bundle: &BundleEntry| -> Vec<String> {
        let csv = bundle.bundle().map(|b| b.csv_raw.clone()).unwrap_or_default();
        let modes = csv["spec"]["installModes"].as_array().cloned().unwrap_or_default();
        let supported = modes.iter().filter(|m| m["supported"] == true);
        supported.map(|m| text(m, "/type").to_owned()).collect()
    };
    let mut all: Option<Vec<String>> = None;
    for bundle in road.iter().filter_map(|name| package.bundles.get(name)) {
        let these = of(bundle);
        all = Some(match all {
            None => these,
            Some(before) => before.into_iter().filter(|m| these.contains(m)).collect(),
        });
    }
    all.unwrap_or_default()
}

/// Installs, goes up, removes.
async fn channel(world: &World, package: &Package, channel: &Channel, fate: Fate) -> Result<Row> {
    let start = Instant::now();
    let road = road(package, channel);
    let first = road.first().context("an empty channel")?;
    let before = world.snapshot().await?;
    let ns = "operator";
    world.namespace(ns).await?;
    let modes = modes(package, &road);
    let own = modes.iter().any(|m| m == "OwnNamespace");
    let targets: &[&str] = if own { &[ns] } else { &[] };
    world.group(ns, targets).await?;
    world
        .apply(&json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": { "name": package.name, "namespace": ns },
            "spec": { "name": package.name, "channel": channel.name, "source": "catalog", "sourceNamespace": OLM, "startingCSV": first },
        }))
        .await?;
    let head = road.last().context("an empty channel")?;
    let wanted = if fate == Fate::Ready { head } else { first };
    let (refused, phase) = arrive(world, ns, &package.name, wanted, fate).await?;
    let plans = world.list("InstallPlan", ns).await?;
    let reached = plans.iter().filter(|p| p["status"]["phase"] == "Complete").count();
    let left = remove(world, ns, package, &before).await?;
    Ok(Row {
        package: package.name.clone(),
        channel: channel.name.clone(),
        versions: road.len(),
        reached,
        phase,
        refused,
        left: left.len(),
        seconds: start.elapsed().as_secs_f32(),
    })
}

/// Until the head is there, or something stands in the way: what does, and the phase.
async fn arrive(
    world: &World,
    ns: &str,
    package: &str,
    head: &str,
    fate: Fate,
) -> Result<(Option<String>, String)> {
    world
        .eventually(&format!("{package} to arrive at {head} or to be refused"), async || {
            let subscription = world.get("Subscription", ns, package).await?;
            let csv = world.find("ClusterServiceVersion", ns, head).await?.unwrap_or_default();
            let phase = text(&csv, "/status/phase").to_owned();
            let there = match fate {
                Fate::Ready => phase == "Succeeded",
                _ => phase == "Installing" && text(&csv, "/status/reason") == "InstallWaiting",
            };
            // A version without a Deployment runs at once.
            if there || phase == "Succeeded" {
                return Ok((None, phase));
            }
            let told = condition(&subscription, "ResolutionFailed").filter(|c| c["status"] == "True");
            let reason = told.map(|c| text(c, "/reason").to_owned());
            let reason = reason.with_context(|| format!("{phase}: {}", subscription["status"]))?;
            Ok((Some(format!("{reason}: {}", told.map(|c| text(c, "/message")).unwrap_or_default())), phase))
        })
        .await
}

/// Uninstalls as a user does, with the CRDs, and takes the namespace away: what is still left of it then.
async fn remove(world: &World, ns: &str, package: &Package, before: &Snapshot) -> Result<Vec<String>> {
    let options =
        UninstallOptions { operands: Operands::Keep, delete_crds: true, ..UninstallOptions::default() };
    uninstall(&world.client, Some(ns), &package.name, &options).await.context("uninstall")?;
    world.delete("Namespace", "", ns).await?;
    world.gone("Namespace", "", ns).await?;
    world
        .eventually("nothing to be left", async || {
            let left = before.differences(&world.snapshot().await?);
            ensure!(left.is_empty(), "{} {}: left:\n  {}", package.name, ns, left.join("\n  "));
            Ok(left)
        })
        .await
}

async fn package(name: &str, folder: &Path, fate: Fate) -> Result<Vec<Row>> {
    let (world, _manager) = World::start().await?;
    world.kubelet.set(move |_| fate);
    // As on most clusters, where the operator of Prometheus is.
    for (plural, kind) in [
        ("servicemonitors", "ServiceMonitor"),
        ("prometheusrules", "PrometheusRule"),
        ("podmonitors", "PodMonitor"),
    ] {
        world.apply(&crd(plural, "monitoring.coreos.com", kind, &["v1"])).await?;
    }
    let catalog: Catalog = build::load(folder)?;
    let package = catalog.package(name)?;
    let Some(package) = package else { return Ok(Vec::new()) };
    world
        .apply(&json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": { "name": "catalog", "namespace": OLM },
            "spec": { "sourceType": "directory", "directory": folder, "updateStrategy": { "registryPoll": { "interval": "60m" } } } }))
        .await?;
    let ready = |s: &Value| text(s, "/status/connectionState/lastObservedState") == "READY";
    world.until("CatalogSource", OLM, "catalog", ready).await?;
    world.quiet().await?;
    let mut rows = Vec::new();
    // The channels of one package differ in their last versions; three of strimzi's 38 say what all do.
    for one in package.channels.values().filter(|c| !road(&package, c).is_empty()).take(3) {
        rows.push(
            channel(&world, &package, one, fate)
                .await
                .with_context(|| format!("{name}, channel {}", one.name))?,
        );
    }
    Ok(rows)
}

fn table(rows: &[Row], wrong: &[String]) {
    println!(
        "{:<36} {:<24} {:>8} {:>8} {:<12} {:>5} {:>6}  refused",
        "package", "channel", "versions", "reached", "phase", "left", "s"
    );
    for row in rows {
        let refused: String = row.refused.iter().flat_map(|r| r.chars()).take(60).collect();
        println!(
            "{:<36} {:<24} {:>8} {:>8} {:<12} {:>5} {:>6.1}  {refused}",
            row.package, row.channel, row.versions, row.reached, row.phase, row.left, row.seconds
        );
    }
    let reached = rows.iter().filter(|r| r.refused.is_none()).count();
    println!(
        "{} channels: {reached} to their head, {} refused, {} with something unexplained",
        rows.len(),
        rows.len() - reached,
        wrong.len()
    );
}

fn every_bundle(fate: Fate) {
    let Some(names) = packages() else { return };
    run(async move {
        let (mut rows, mut wrong) = (Vec::new(), Vec::new());
        for name in names {
            match package(&name, &operators().join(&name), fate).await {
                Ok(more) => rows.extend(more),
                Err(error) => wrong.push(format!("{name}: {error:#}")),
            }
        }
        for row in &rows {
            if let Some(refused) = &row.refused {
                let known = |(package, code, _): &(&str, &str, &str)| {
                    (*package == "*" || *package == row.package) && refused.contains(code)
                };
                if !EXPLAINED.iter().any(known) {
                    wrong.push(format!("{} {}: not explained: {refused}", row.package, row.channel));
                }
            }
        }
        table(&rows, &wrong);
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &rows {
            *counted.entry(row.phase.as_str()).or_default() += 1;
        }
        println!("phases: {counted:?}; patience {PATIENCE:?}");
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        ensure!(!rows.is_empty(), "no channel was tried");
        Ok(())
    });
}

/// Every image runs: to the head of the channel.
#[test]
fn every_bundle_installs_upgrades_and_goes() {
    every_bundle(Fate::Ready);
}

/// No image can be pulled: all objects are there, and the version waits for its Deployment and says so.
#[test]
fn without_images_every_bundle_waits_for_them() {
    every_bundle(Fate::NoImage);
}
