//! The manager with the full catalog.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use olm_tests::DevCluster;

use super::{rows::full_catalog, steps::resident, table::Row};

/// What was only needed for reading is given back by then.
const CALM: Duration = Duration::from_secs(10);

/// Starts the cluster with the full catalog and looks at its manager's memory; no row where the data is not there.
/// `manager` finds the process below another.
pub(crate) fn memory(data: &Path, manager: impl Fn(u32) -> Result<Option<u32>>) -> Result<Option<Row>> {
    let dir = data.join("bench-catalog");
    let Some(source) = full_catalog(&dir)? else { return Ok(None) };
    let folder = source.parent().context("a file has a folder")?;
    let up = DevCluster::launch(data, &["--catalog", &format!("full={}", folder.display())])?;
    up.wait_for_line("✔ ready", Duration::from_secs(60))?;
    std::thread::sleep(CALM);
    let measured = resident(manager(up.pid())?.context("no process `olm manager`")?)?;
    up.stop()?;
    Ok(Some(Row {
        what: "manager with the full catalog: resident memory",
        measured,
        limit: 40.0,
        unit: "MiB",
        note: "VmRSS: with the pages of the program that are mapped".into(),
    }))
}
