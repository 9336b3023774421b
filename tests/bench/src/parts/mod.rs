//! The parts of `make bench` that need no nodes: the full community catalog, loaded, stored, looked up and
//! searched ([`rows`](mod@rows)), and resolved ([`resolver`]); installing and upgrading ([`lifecycle`]), with
//! checks of the author's rights ([`authority`]), also in many namespaces ([`many`], [`scale`]); the etcd
//! operator ([`etcd`]); the console ([`console`]); the manager's memory, and the time without a leader ([`manager`]).

mod authority;
mod backup;
mod console;
mod etcd;
mod grow;
mod lifecycle;
pub(crate) mod manager;
mod many;
mod measure;
mod peer;
pub(crate) mod resolver;
mod rows;
mod scale;
pub(crate) mod signatures;
mod steps;
mod table;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};

pub(crate) use rows::rows;
pub(crate) use table::{Row, report};

/// Runs one part instead of the complete benchmark, selected by the arguments.
///
/// - `catalog`: the rows of the catalogs;
/// - `signatures`: the row of signature verification;
/// - `resolver`: the rows of the resolver and the plan engine;
/// - `lifecycle [PART [NAMESPACES]]`: the rows of installing and upgrading, of the manager's process and of a large cluster;
/// - `etcd [PART]`: the rows of the etcd operator;
/// - `console`: the rows of the console;
/// - `grow FACTOR FILE TARGET`: writes a catalog of JSON lines FACTOR times, with different names for each copy;
/// - `--child …`: a step measured from outside, as a separate process.
pub(crate) fn sub_mode() -> Option<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first()?.as_str() {
        "catalog" => rows().map(Some),
        "signatures" => signatures::rows().map(Some),
        "resolver" => resolver::rows().map(Some),
        "etcd" => etcd_rows(args.get(1).map(String::as_str)).map(Some),
        "console" => console_rows().map(Some),
        "lifecycle" => lifecycle_rows(args.get(1).map(String::as_str), args.get(2)).map(Some),
        "grow" => grown(&args[1..]).map(|()| None),
        "--child" => steps::step(&args[1..]).map(|()| None),
        other => Err(anyhow::anyhow!(
            "unknown argument {other:?}; known are catalog, signatures, resolver, lifecycle, etcd, console, grow, or none"
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

/// The cost of installing and upgrading operators: time, calls, memory. Only one part when it is named, with
/// this many namespaces where relevant.
pub(crate) fn lifecycle_rows(part: Option<&str>, namespaces: Option<&String>) -> Result<Vec<Row>> {
    let namespaces = namespaces.map_or(Ok(scale::NAMESPACES), |text| text.parse())?;
    let mut rows = Vec::new();
    for name in parts(&["install", "authority", "many", "manager", "scale"], part)? {
        let new = match name {
            "install" => in_runtime(lifecycle::rows()),
            "authority" => in_runtime(async { Ok(vec![authority::row().await?]) }),
            "many" => in_runtime(many::rows()),
            "manager" => in_runtime(manager::rows()),
            _ => in_runtime(scale::rows(namespaces)),
        }?;
        for row in &new {
            // The next part takes minutes; print this now.
            eprintln!("{}: {:.2} {} ({})", row.what, row.measured, row.unit, row.note);
        }
        rows.extend(new);
    }
    Ok(rows)
}

/// The etcd operator's overhead compared with etcd itself, its resources, and the speed of backups. Only one
/// part when it is named.
pub(crate) fn etcd_rows(part: Option<&str>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in parts(&["members", "idle", "backup"], part)? {
        rows.extend(match name {
            "members" => in_runtime(etcd::members()),
            "idle" => in_runtime(etcd::idle::rows()),
            _ => in_runtime(backup::rows()),
        }?);
    }
    Ok(rows)
}

/// The pages and the memory of the console.
pub(crate) fn console_rows() -> Result<Vec<Row>> {
    in_runtime(console::rows())
}

/// All known parts, or the requested one.
fn parts<'a>(known: &[&'a str], part: Option<&str>) -> Result<Vec<&'a str>> {
    let asked: Vec<&str> =
        known.iter().copied().filter(|name| part.is_none_or(|part| part == *name)).collect();
    match (part, asked.is_empty()) {
        (Some(unknown), true) => bail!("unknown part {unknown:?}; known are {}", known.join(", ")),
        _ => Ok(asked),
    }
}

/// In its own runtime, whose end stops everything in it.
fn in_runtime<T>(body: impl Future<Output = Result<T>>) -> Result<T> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(body);
    runtime.shutdown_background();
    done
}

fn grown(args: &[String]) -> Result<()> {
    let [factor, source, target] = args else { bail!("usage: olm-bench grow FACTOR FILE TARGET") };
    let bytes = grow::grow(&PathBuf::from(source), factor.parse()?, &PathBuf::from(target))?;
    println!("{target}: {bytes} bytes");
    Ok(())
}
