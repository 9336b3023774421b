//! The parts of `make bench` that need no cluster: the full community catalog, loaded, stored, looked up and searched
//! ([`rows`]), and resolved ([`resolver`]).

mod grow;
mod lifecycle;
pub(crate) mod manager;
mod measure;
mod peer;
pub(crate) mod resolver;
mod rows;
mod steps;
mod table;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};

pub(crate) use rows::rows;
pub(crate) use table::{Row, report};

/// What this program does instead of the whole benchmark, when its arguments say so.
///
/// - `catalog`: the rows of the catalogs alone;
/// - `resolver`: the rows of the resolver and the plan engine alone;
/// - `lifecycle`: the rows of installing and upgrading, in one process with the API;
/// - `grow FACTOR FILE TARGET`: writes a catalog of JSON lines FACTOR times, with names of its own for each copy;
/// - `--child …`: a step that is measured from outside, as a process of its own.
pub(crate) fn sub_mode() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first()?.as_str() {
        "catalog" => rows().map(Some),
        "resolver" => resolver::rows().map(Some),
        "lifecycle" => lifecycle_rows().map(Some),
        "grow" => grown(&args[1..]).map(|()| None),
        "--child" => steps::step(&args[1..]).map(|()| None),
        other => Err(anyhow::anyhow!(
            "unknown argument {other:?}; known are catalog, resolver, lifecycle, grow, or none"
        )),
    };
    Some(match done {
        Ok(Some(rows)) => report(&rows),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// The rows of installing and upgrading, in a runtime of their own.
pub(crate) fn lifecycle_rows() -> Result<Vec<Row>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rows = runtime.block_on(lifecycle::rows());
    runtime.shutdown_background();
    rows
}

fn grown(args: &[String]) -> Result<()> {
    let [factor, source, target] = args else { bail!("usage: olm-bench grow FACTOR FILE TARGET") };
    let bytes = grow::grow(&PathBuf::from(source), factor.parse()?, &PathBuf::from(target))?;
    println!("{target}: {bytes} bytes");
    Ok(())
}
