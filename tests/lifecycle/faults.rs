//! What goes wrong between the manager and the API, or with either. After each: converged to the very objects of an
//! undisturbed run, or an exact diagnosis; nothing orphaned, nothing made twice.

mod kills;
mod outages;
mod stuck;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Call, Catalog, Operator, Snapshot, World};
use serde_json::json;

use crate::a_crd;

/// An operator with something of each phase: CRD, rights in the namespace and the cluster, configuration, a Deployment.
pub(super) fn rich(version: &str) -> Operator {
    let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a-settings" }, "data": { "version": version } });
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a-metrics" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "port": 8080 }] } });
    Operator::new("a", version)
        .owns(a_crd(&["v1"]))
        .cluster_permission(
            "a",
            json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"] }),
        )
        .object(settings)
        .object(service)
}

pub(super) fn catalog(versions: usize) -> Catalog {
    let all = [rich("1.0.0"), rich("2.0.0")];
    Catalog::chain(&all.iter().take(versions).collect::<Vec<_>>())
}

/// What is asked for, up to the point where the manager has to act.
pub(super) async fn ask(world: &World) -> Result<()> {
    world.publish("catalog", &catalog(1)).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await
}

/// What is there when all is done and nobody does anything any more.
pub(super) async fn settled(world: &World, csv: &str) -> Result<Snapshot> {
    world.installed("ns", "a", csv).await?;
    world
        .eventually("one ClusterServiceVersion", async || {
            let names = world.names("ClusterServiceVersion", "ns").await?;
            ensure!(names == [csv], "{names:?}");
            Ok(())
        })
        .await?;
    world.quiet().await?;
    world.snapshot().await
}

/// No object was made more than once. (That what is there was not changed more than once shows in its generation, which is in
/// the snapshot.)
pub(super) fn made_once(calls: &[Call]) -> Result<()> {
    let mut made: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.changed() && call.status == Some(201)) {
        // A POST does not name what it makes; each kind of them is made once here.
        made.entry(call.path.clone()).or_default().push(call.to_string());
    }
    let plans = |path: &str| path.ends_with("/installplans") || path.ends_with("/clusterserviceversions");
    let twice: Vec<&Vec<String>> =
        made.iter().filter(|(path, calls)| calls.len() > 1 && !plans(path)).map(|(_, calls)| calls).collect();
    ensure!(twice.is_empty(), "made more than once: {twice:#?}");
    Ok(())
}

/// The same objects as in the undisturbed run.
pub(super) fn same(undisturbed: &Snapshot, now: &Snapshot, when: &str) -> Result<()> {
    let differences = undisturbed.differences(now);
    ensure!(
        differences.is_empty(),
        "{when}: not what an undisturbed run leaves:\n  {}",
        differences.join("\n  ")
    );
    Ok(())
}
