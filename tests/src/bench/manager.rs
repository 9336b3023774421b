//! The manager with the full catalog.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::Cluster;

use super::{rows::full_catalog, steps::resident, table::Row};

/// How long the manager may take to read the catalog.
const PATIENCE: Duration = Duration::from_secs(60);
/// What was only needed for reading is given back by then.
const CALM: Duration = Duration::from_secs(10);

/// Gives the manager of a cluster the full catalog and looks at its memory; no row where the data is not there.
pub(crate) fn memory(cluster: &Cluster, pid: u32, data: &Path) -> Result<Option<Row>> {
    let dir = data.join("bench-catalog");
    let Some(source) = full_catalog(&dir)? else { return Ok(None) };
    let before = resident(pid)?;
    let folder = source.parent().context("a file has a folder")?;
    let manifest = serde_json::json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "bench-community", "namespace": "olm"},
        "spec": {"sourceType": "directory", "directory": folder},
    });
    let start = Instant::now();
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&manifest.to_string()))?;
    let state = ["get", "catalogsource", "bench-community", "-n", "olm", "-o"];
    let path = ["jsonpath={.status.connectionState.lastObservedState}"];
    while cluster.kubectl(&[&state[..], &path].concat())? != "READY" {
        if start.elapsed() > PATIENCE {
            let status = cluster.kubectl(&[&state[..], &["jsonpath={.status}"]].concat())?;
            ensure!(false, "the manager did not read the full catalog: {status}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = start.elapsed().as_secs_f64();
    std::thread::sleep(CALM);
    let after = resident(pid)?;
    cluster.kubectl(&["delete", "catalogsource", "bench-community", "-n", "olm"])?;
    Ok(Some(Row {
        what: "manager with the full catalog: resident memory",
        measured: after,
        limit: 40.0,
        unit: "MB",
        note: format!("{before:.0} before it; the catalog was served {took:.2} s after it was applied"),
    }))
}
