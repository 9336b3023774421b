//! The manager as a process: its memory, and the time without a leader after its end.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use olm_tests::{
    DevCluster,
    inprocess::{Catalog, Faults, Process, Replicas, World, assets},
};

use super::{
    lifecycle::operator,
    rows::full_catalog,
    steps::{anonymous, pss, resident},
    table::Row,
};

/// By then, memory only needed for reading is released.
const CALM: Duration = Duration::from_secs(10);
/// Far longer than a start, even on a busy machine.
const HANGS: Duration = Duration::from_secs(120);

/// The rows that only need the API.
pub(crate) async fn rows() -> Result<Vec<Row>> {
    let mut rows = vec![small().await?];
    for (signal, what, limit) in [
        ("TERM", "leader gets SIGTERM → the other one's first change", 2.0),
        ("KILL", "leader gets SIGKILL → the other one's first change", 20.0),
    ] {
        let mut replicas = Replicas::start().await?;
        replicas.installed(&["1.0.0"]).await?;
        let took = replicas.hand_over(signal).await?;
        let note = "two managers, each a process of its own".to_owned();
        rows.push(Row { what, measured: took.as_secs_f64(), limit, unit: "s", note });
    }
    Ok(rows)
}

/// With a catalog of one package, which is installed.
async fn small() -> Result<Row> {
    let world = World::bare().await?;
    let served = world.serve(&Faults::new())?;
    let mut manager = Process::start(&served, "small")?;
    manager.ready(HANGS).await?;
    let operator = operator("bench", "1.0.0");
    world.publish("catalog", &Catalog::chain(&[&operator])).await?;
    world.home("bench").await?;
    world.subscribe("bench", "bench").await?;
    world.installed("bench", "bench", &operator.name).await?;
    tokio::time::sleep(CALM).await;
    let pid = manager.pid();
    Ok(Row {
        what: match assets() {
            Some(_) => "manager with one small catalog, real API server: resident memory",
            None => "manager with one small catalog: resident memory",
        },
        measured: resident(pid)?,
        limit: 40.0,
        unit: "MiB",
        note: format!(
            "VmRSS, {:.1} of it its own, the rest its program; one operator installed; PSS {:.1}; OLM v0: 224 MB in three processes",
            anonymous(pid)?,
            pss(pid)?
        ),
    })
}

/// Starts the cluster with the full catalog and measures its manager's memory; no row without the data.
/// `manager` finds the process below another.
pub(crate) fn memory(data: &Path, manager: impl Fn(u32) -> Result<Option<u32>>) -> Result<Option<Row>> {
    let dir = data.join("bench-catalog");
    let Some(source) = full_catalog(&dir)? else { return Ok(None) };
    let folder = source.parent().context("a file has a folder")?;
    let up = DevCluster::launch(data, &["--catalog", &format!("full={}", folder.display())])?;
    up.wait_for_line("✔ ready", Duration::from_secs(60))?;
    std::thread::sleep(CALM);
    let pid = manager(up.pid())?.context("no process `olm manager`")?;
    let (measured, share) = (resident(pid)?, pss(pid)?);
    up.stop()?;
    Ok(Some(Row {
        what: "manager with the full catalog: resident memory",
        measured,
        limit: 40.0,
        unit: "MiB",
        note: format!("VmRSS: with the pages of the program that are mapped; PSS {share:.1}"),
    }))
}
