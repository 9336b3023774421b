//! Real bundles: each package of data/bundles installs from the first version of each of its channels, is
//! upgraded through the whole channel and is removed again, until the cluster equals its initial state,
//! object for object.
//!
//! A table summarizes the run. In the normal run these are a few packages chosen for variety; with
//! `OLM_TEST_LONG` (`make test-long`) all of them, those in the package-manifest format too, and every bundle
//! of each: one that is on no upgrade path of a channel is installed alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use olm_catalog::{BundleEntry, Catalog, Channel, Package, build};
use olm_ops::{Operands, UninstallOptions, uninstall};
use olm_tests::inprocess::{Fate, OLM, PATIENCE, Snapshot, World, condition, crd, text};
use serde_json::{Value, json};

use crate::run;

/// For the normal run: channels, skips, skipRange, webhooks, conversion, all-namespaces only, own-namespace
/// only, native catalogs, package manifests.
const SAMPLE: &[&str] = &[
    "etcd",
    "cockroachdb",
    "node-maintenance-operator",
    "oadp-operator",
    "kube-green",
    "skupper-operator",
    "cert-utils-operator",
    "pelorus-operator",
    "enmasse",
];

/// Expected refusals, with the reason: package, bundle (`-` where the finding names none), code, reason. Any
/// other refusal fails the run.
const EXPLAINED: &str = include_str!("real_bundles.tsv");

/// Number of tested channels of one package in the normal run: they differ in their last versions.
const CHANNELS: usize = 3;

/// A refusal, as reported by the Subscription or the version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    bundle: String,
    code: String,
    text: String,
}

impl Refusal {
    fn of(package: &Package, code: &str, text: &str) -> Self {
        // The longest: `a.v1.0.1` is in `a.v1.0.10`.
        let named = package.bundles.keys().filter(|name| text.contains(name.as_str()));
        let bundle = named.max_by_key(|name| name.len()).map_or("-", String::as_str);
        Self { bundle: bundle.to_owned(), code: code.to_owned(), text: text.to_owned() }
    }
}

fn explained(package: &str, refusal: &Refusal) -> bool {
    let wanted = [package, &refusal.bundle, &refusal.code];
    EXPLAINED.lines().skip(1).any(|line| line.split('\t').take(3).eq(wanted))
}

/// Result for one channel.
struct Row {
    package: String,
    channel: String,
    versions: usize,
    reached: usize,
    phase: String,
    refused: Vec<Refusal>,
    left: usize,
    seconds: f32,
}

fn long() -> bool {
    std::env::var_os("OLM_TEST_LONG").is_some()
}

/// The directory of each package. Of one in both formats the newer is used in the normal run.
fn packages() -> Option<Vec<(String, PathBuf)>> {
    let mut all = Vec::new();
    for form in ["operators", "packagemanifests"] {
        let folder = olm_tests::data().join("bundles").join(form);
        let Ok(entries) = std::fs::read_dir(&folder) else {
            olm_tests::skipped("bundles", &format!("{} is not there", folder.display()));
            return None;
        };
        let mut these: Vec<(String, PathBuf)> =
            entries.flatten().map(|e| (e.file_name().to_string_lossy().into_owned(), e.path())).collect();
        these.sort();
        all.extend(these);
    }
    if !long() {
        let mut seen = BTreeSet::new();
        all.retain(|(name, _)| SAMPLE.contains(&name.as_str()) && seen.insert(name.clone()));
    }
    Some(all)
}

/// From the first to the last: each is replaced or skipped by the next.
fn upgrade_path(package: &Package, channel: &Channel) -> Vec<String> {
    let replaced: Vec<&str> =
        channel.entries.iter().flat_map(|e| e.replaces.iter().chain(&e.skips).map(String::as_str)).collect();
    let head = channel.entries.iter().filter(|e| !replaced.contains(&e.name.as_str()));
    let head = head.max_by_key(|e| package.bundles.get(&e.name).and_then(|b| b.version.clone()));
    let mut upgrade_path = Vec::new();
    let mut at = head.map(|e| e.name.clone());
    while let Some(name) = at {
        let Some(entry) = channel.entries.iter().find(|e| e.name == name) else { break };
        if !package.bundles.contains_key(&name) || upgrade_path.contains(&name) {
            break;
        }
        at = entry.replaces.clone();
        upgrade_path.push(name);
    }
    upgrade_path.reverse();
    upgrade_path
}

/// The install modes that every version of the path supports.
fn modes(package: &Package, upgrade_path: &[String]) -> Vec<String> {
    let of = |bundle: &BundleEntry| -> Vec<String> {
        let csv = bundle.bundle().map(|b| b.csv_raw.clone()).unwrap_or_default();
        let modes = csv["spec"]["installModes"].as_array().cloned().unwrap_or_default();
        let supported = modes.iter().filter(|m| m["supported"] == true);
        supported.map(|m| text(m, "/type").to_owned()).collect()
    };
    let mut all: Option<Vec<String>> = None;
    for bundle in upgrade_path.iter().filter_map(|name| package.bundles.get(name)) {
        let these = of(bundle);
        all = Some(match all {
            None => these,
            Some(before) => before.into_iter().filter(|m| these.contains(m)).collect(),
        });
    }
    all.unwrap_or_default()
}

/// Installs, upgrades, removes.
async fn channel(
    world: &World,
    package: &Package,
    channel: &Channel,
    way: &[String],
    fate: Fate,
) -> Result<Row> {
    let start = Instant::now();
    let before = world.snapshot().await?;
    let ns = "operator";
    world.namespace(ns).await?;
    let modes = modes(package, way);
    let own = modes.iter().any(|m| m == "OwnNamespace");
    let targets: &[&str] = if own { &[ns] } else { &[] };
    world.group(ns, targets).await?;
    let head = way.last().context("an empty channel")?;
    let (mut refused, mut phase) = (Vec::new(), String::new());
    // From the first version that a current cluster supports.
    for first in way {
        let mut subscription = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": { "name": package.name, "namespace": ns },
            "spec": { "name": package.name, "channel": channel.name, "source": "catalog", "sourceNamespace": OLM, "startingCSV": first },
        });
        // One off the upgrade path stays installed.
        if way != upgrade_path(package, channel) {
            let version = package.bundles.get(first).and_then(|bundle| bundle.version.as_ref());
            subscription["spec"]["version"] = format!("={}", version.context("no version")?).into();
        }
        world.apply(&subscription).await?;
        let wanted = if fate == Fate::Ready { head } else { first };
        let (refusal, reached) = arrive(world, ns, package, wanted, fate).await?;
        phase = reached;
        let installed =
            world.get("Subscription", ns, &package.name).await?["status"]["installedCSV"].is_string();
        let Some(refusal) = refusal else { break };
        refused.push(refusal);
        if installed || first == head || !phase.is_empty() {
            break;
        }
        world.delete("Subscription", ns, &package.name).await?;
        world.gone("Subscription", ns, &package.name).await?;
    }
    let plans = world.list("InstallPlan", ns).await?;
    let reached = plans.iter().filter(|p| p["status"]["phase"] == "Complete").count();
    let left = remove(world, ns, package, &before).await?;
    Ok(Row {
        package: package.name.clone(),
        channel: channel.name.clone(),
        versions: way.len(),
        reached,
        phase,
        refused,
        left: left.len(),
        seconds: start.elapsed().as_secs_f32(),
    })
}

/// Until the head is installed, or blocked: the blocker, and the phase.
async fn arrive(
    world: &World,
    ns: &str,
    package: &Package,
    head: &str,
    fate: Fate,
) -> Result<(Option<Refusal>, String)> {
    let what = format!("{} to arrive at {head} or to be refused", package.name);
    // A channel may be long: each of its versions has the whole time-out.
    let mut installed = String::new();
    loop {
        let found = world.eventually(&what, async || step(world, ns, package, head, fate, &installed).await);
        match found.await? {
            Step::Further(version) => installed = version,
            Step::There(refusal, phase) => return Ok((refusal, phase)),
        }
    }
}

/// Progress of a channel.
enum Step {
    Further(String),
    /// It is settled: the blocker, unless it is the head, and the phase.
    There(Option<Refusal>, String),
}

async fn step(
    world: &World,
    ns: &str,
    package: &Package,
    head: &str,
    fate: Fate,
    before: &str,
) -> Result<Step> {
    let subscription = world.get("Subscription", ns, &package.name).await?;
    let csv = world.find("ClusterServiceVersion", ns, head).await?.unwrap_or_default();
    let phase = text(&csv, "/status/phase").to_owned();
    let there = match fate {
        Fate::Ready => phase == "Succeeded",
        _ => phase == "Installing" && text(&csv, "/status/reason") == "InstallWaiting",
    };
    // A version without a Deployment succeeds at once.
    if there || phase == "Succeeded" {
        return Ok(Step::There(None, phase));
    }
    // A missing built-in API never appears.
    for csv in world.list("ClusterServiceVersion", ns).await? {
        let message = text(&csv, "/status/message");
        if text(&csv, "/status/reason") == "RequirementsNotMet" && message.contains("Native API") {
            let message = format!("{}: {message}", text(&csv, "/metadata/name"));
            let refusal = Refusal::of(package, "RequirementsNotMet", &message);
            return Ok(Step::There(Some(refusal), text(&csv, "/status/phase").to_owned()));
        }
    }
    let reported = condition(&subscription, "ResolutionFailed").filter(|c| c["status"] == "True");
    if let Some(reported) = reported {
        let refusal = Refusal::of(package, text(reported, "/reason"), text(reported, "/message"));
        return Ok(Step::There(Some(refusal), phase));
    }
    let installed = text(&subscription, "/status/installedCSV");
    ensure!(installed != before, "{phase}: {}", subscription["status"]);
    Ok(Step::Further(installed.to_owned()))
}

/// Uninstalls as a user does, with the CRDs, and deletes the namespace: returns what is left of it.
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
    // Labels from a kubelet, and of a control plane: Deployments select by them.
    let labels = json!({ "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
        "node-role.kubernetes.io/master": "", "node-role.kubernetes.io/control-plane": "" });
    for node in world.names("Node", "").await? {
        world.patch("Node", "", &node, &json!({ "metadata": { "labels": labels } })).await?;
    }
    // As on most clusters, with the operator of Prometheus; it contains them itself.
    for (plural, kind) in [
        ("servicemonitors", "ServiceMonitor"),
        ("prometheusrules", "PrometheusRule"),
        ("podmonitors", "PodMonitor"),
    ] {
        if name == "prometheus" {
            break;
        }
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
    let roads = package.channels.values().map(|one| (one, upgrade_path(&package, one)));
    let mut roads: Vec<_> = roads.filter(|(_, upgrade_path)| !upgrade_path.is_empty()).collect();
    if long() {
        let met: BTreeSet<String> = roads.iter().flat_map(|(_, upgrade_path)| upgrade_path.clone()).collect();
        for bundle in package.bundles.keys().filter(|bundle| !met.contains(*bundle)) {
            let of = package.channels.values().find(|one| one.entries.iter().any(|e| e.name == *bundle));
            roads.push((of.with_context(|| format!("{bundle} is in no channel"))?, vec![bundle.clone()]));
        }
    } else {
        roads.truncate(CHANNELS);
    }
    let mut rows = Vec::new();
    for (one, upgrade_path) in roads {
        let row = channel(&world, &package, one, &upgrade_path, fate).await;
        rows.push(row.with_context(|| format!("{name}, channel {}, {upgrade_path:?}", one.name))?);
    }
    Ok(rows)
}

fn table(rows: &[Row], wrong: &[String]) {
    println!(
        "{:<36} {:<24} {:>8} {:>8} {:<12} {:>5} {:>6}  refused",
        "package", "channel", "versions", "reached", "phase", "left", "s"
    );
    for row in rows {
        let refused: Vec<String> = row.refused.iter().map(|r| format!("{} {}", r.bundle, r.code)).collect();
        println!(
            "{:<36} {:<24} {:>8} {:>8} {:<12} {:>5} {:>6.1}  {}",
            row.package,
            row.channel,
            row.versions,
            row.reached,
            row.phase,
            row.left,
            row.seconds,
            refused.join(", ")
        );
    }
    let whole = rows.iter().filter(|r| r.refused.is_empty()).count();
    println!(
        "{} channels: {whole} without a refusal, {} with one, {} with something unexplained",
        rows.len(),
        rows.len() - whole,
        wrong.len()
    );
}

fn every_bundle(fate: Fate) {
    let Some(names) = packages() else { return };
    run(async move {
        let (mut rows, mut wrong) = (Vec::new(), Vec::new());
        for (name, folder) in names {
            match package(&name, &folder, fate).await {
                Ok(more) => rows.extend(more),
                Err(error) => wrong.push(format!("{name}: {error:#}")),
            }
        }
        for row in &rows {
            for refusal in row.refused.iter().filter(|refusal| !explained(&row.package, refusal)) {
                let Refusal { bundle, code, text } = refusal;
                wrong.push(format!("not explained: {}\t{bundle}\t{code}: {text}", row.package));
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

/// No image can be pulled: all objects exist, and the version waits for its Deployment and reports it.
#[test]
fn without_images_every_bundle_waits_for_them() {
    every_bundle(Fate::NoImage);
}
