//! The console as a process, with the full community catalog and one operator: its pages, as a client without a proxy
//! gets them, and its memory.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use http::{StatusCode, header};
use http_body_util::BodyExt as _;
use olm_tests::{Cluster, DevCluster, browser, eventually, html::Page, processes, visitor::Visitor};
use serde_json::Value;

use super::{
    rows::{LARGE_PACKAGE, PACKAGES, full_catalog},
    steps::{pss, resident},
    table::Row,
};

/// Requests of a page, after those that fill caches.
const REQUESTS: usize = 60;
const UNCOUNTED: usize = 3;
/// Loads of a page in a browser.
const PAINTS: usize = 9;
/// The time of the largest paint so far, after the next frame.
const LARGEST_PAINT: &str = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>\
    new PerformanceObserver(list => done(list.getEntries().at(-1).startTime))\
    .observe({type: 'largest-contentful-paint', buffered: true}))))";
/// Streams, and the users that have them: the console limits those of one.
const STREAMS: usize = 500;
const USERS: usize = 25;
/// Addresses of this machine that open them: the console limits the connections of one.
const ADDRESSES: usize = 4;
/// By then every stream has rendered its page several times.
const CALM: Duration = Duration::from_secs(20);
/// Far longer than a start, even on a busy machine.
const HANGS: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "bench";
/// 40 and 100 MB in MiB.
const MEMORY: f64 = 40e6 / 1_048_576.0;
const MEMORY_OF_STREAMS: f64 = 100e6 / 1_048_576.0;

/// Its rows; none without the data.
pub(crate) async fn rows() -> Result<Vec<Row>> {
    let dir = tempfile::Builder::new().prefix("olm-bench-console-").tempdir()?;
    let full = dir.path().join("full");
    if full_catalog(&full)?.is_none() {
        return Ok(Vec::new());
    }
    // Manager and console are processes of this machine: nothing forwards their connections.
    let data = dir.path().join("data");
    let up = DevCluster::launch(&data, &["--no-pods", "--catalog", &format!("full={}", full.display())])?;
    up.wait_for_line("Ctrl-C", HANGS)?;
    let cluster = up.cluster();
    let pid = console(up.pid())?;
    let link = cluster.login_link().await?.context("no console")?;
    let mut visitor = Visitor::sign_in(&link).await?;
    let source = listed(&mut visitor).await?;
    cluster.olm_ok(&["install", "etcd", "-n", NAMESPACE, "--catalog", "community"])?;
    eventually("the operator to be installed", HANGS, async || {
        let page = visitor.get(&format!("/installed/{NAMESPACE}/etcd"), &[]).await?;
        let csvs = cluster.kubectl(&["get", "csv", "-n", NAMESPACE, "-o", "name"])?;
        Ok((page.status == StatusCode::OK && !csvs.trim().is_empty()).then_some(()))
    })
    .await?;

    let mut rows = vec![unchanged(&mut visitor).await?, first_byte(&mut visitor, &source).await?];
    rows.extend(catalog(&mut visitor).await?);
    rows.push(doctor(&mut visitor).await?);
    rows.push(Row {
        what: "console with the full catalog: resident memory",
        measured: resident(pid)?,
        limit: MEMORY,
        unit: "MiB",
        note: format!("VmRSS, after the pages above; PSS {:.1}", pss(pid)?),
    });
    rows.extend(paint(&cluster).await?);
    rows.push(streams(&cluster, &visitor, pid).await?);
    up.stop()?;
    Ok(rows)
}

/// The process of the console below `olm up`.
fn console(up: u32) -> Result<u32> {
    let all = processes::tree(up)?;
    let found = all.iter().find(|process| process.args.contains(" console --listen "));
    found.map(|process| process.pid).with_context(|| format!("no process `olm console` in {all:?}"))
}

/// The id of the full catalog, when the console lists it.
async fn listed(visitor: &mut Visitor) -> Result<String> {
    eventually("the console to list the full catalog", HANGS, async || {
        let answer = visitor.get("/catalog", &[("accept", "application/json")]).await?;
        let model: Value = serde_json::from_slice(&answer.body)?;
        let sources = model["sources"].as_array().cloned().unwrap_or_default();
        let full = sources.iter().find(|source| source["packages"] == PACKAGES);
        Ok(full.and_then(|source| source["name"].as_str()).map(|name| name.replacen('/', ".", 1)))
    })
    .await
}

/// The times to the first byte of a page in milliseconds, sorted.
async fn times(visitor: &mut Visitor, path: &str, tag: Option<&str>, status: StatusCode) -> Result<Vec<f64>> {
    let mut headers = vec![("accept", "text/html"), ("accept-encoding", "gzip")];
    headers.extend(tag.map(|tag| ("if-none-match", tag)));
    let mut times = Vec::new();
    for n in 0..REQUESTS + UNCOUNTED {
        let answer = visitor.get(path, &headers).await?;
        ensure!(answer.status == status, "{path}: {}", answer.status);
        if n >= UNCOUNTED {
            times.push(answer.first_byte.as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn p95(times: &[f64]) -> f64 {
    times[times.len() * 95 / 100]
}

fn p50(times: &[f64]) -> f64 {
    times[times.len() / 2]
}

/// A page that the browser has: the console reads the installed operators for it, and renders nothing.
async fn unchanged(visitor: &mut Visitor) -> Result<Row> {
    let page = visitor.get("/catalog", &[("accept", "text/html"), ("accept-encoding", "gzip")]).await?;
    let tag = page.header(header::ETAG).to_owned();
    let whole = times(visitor, "/catalog", None, StatusCode::OK).await?;
    let times = times(visitor, "/catalog", Some(&tag), StatusCode::NOT_MODIFIED).await?;
    Ok(Row {
        what: "console: catalog page unchanged (304), median",
        measured: p50(&times),
        limit: 1.0,
        unit: "ms",
        note: format!("p95 {:.2} of {REQUESTS}; with its content p50 {:.2}", p95(&times), p50(&whole)),
    })
}

/// All kinds of pages.
async fn first_byte(visitor: &mut Visitor, source: &str) -> Result<Row> {
    let package = format!("/catalog/{source}/{LARGE_PACKAGE}");
    let operator = format!("/installed/{NAMESPACE}/etcd");
    let mut paths: Vec<String> = [
        "/catalog",
        "/catalog?q=database",
        "/catalog?sort=newest",
        "/installed",
        "/updates",
        "/instances",
        "/activity",
    ]
    .map(str::to_owned)
    .into();
    paths.extend([package.clone(), format!("{package}/versions"), format!("{package}/graph")]);
    paths.extend([format!("/install/{source}/etcd"), operator.clone(), format!("{operator}/uninstall")]);
    for tab in ["updates", "instances", "workloads", "permissions", "history", "events", "yaml"] {
        paths.push(format!("{operator}/{tab}"));
    }
    let mut pages = Vec::new();
    for path in paths {
        let times = times(visitor, &path, None, StatusCode::OK).await.context("a page")?;
        pages.push((p95(&times), p50(&times), path));
    }
    pages.sort_by(|a, b| b.0.total_cmp(&a.0));
    let slow: Vec<String> =
        pages.iter().take(3).map(|(p95, p50, path)| format!("{path} {p95:.1}, p50 {p50:.1}")).collect();
    Ok(Row {
        what: "console: first byte of a page, p95, the slowest",
        measured: pages[0].0,
        limit: 20.0,
        unit: "ms",
        note: format!("{} pages, each {REQUESTS} times: {}", pages.len(), slow.join("; ")),
    })
}

/// Size and number of files of the catalog page.
async fn catalog(visitor: &mut Visitor) -> Result<Vec<Row>> {
    let packed = visitor.get("/catalog", &[("accept-encoding", "gzip")]).await?;
    ensure!(packed.header(header::CONTENT_ENCODING) == "gzip", "the catalog page is not compressed");
    let page = visitor.get("/catalog", &[]).await?;
    let text = page.text();
    let parsed = Page::parse(&text);
    let links = parsed.all("link").filter_map(|link| link.get("href"));
    let files = links.chain(
        ["script", "img"].into_iter().flat_map(|name| parsed.all(name)).filter_map(|one| one.get("src")),
    );
    let (icons, files): (BTreeSet<&str>, BTreeSet<&str>) =
        files.partition(|path| path.starts_with("/icons/"));
    Ok(vec![
        Row {
            what: "console: catalog page, gzip",
            measured: packed.body.len() as f64 / 1e3,
            limit: 60.0,
            unit: "kB",
            note: format!("{:.0} kB of HTML", text.len() as f64 / 1e3),
        },
        Row {
            what: "console: requests of the catalog page before icons",
            measured: (1 + files.len()) as f64,
            limit: 15.0,
            unit: "",
            note: format!("and {} icons", icons.len()),
        },
    ])
}

/// Until the largest part of the catalog page is painted, in a browser that has its files; none without Chromium.
async fn paint(cluster: &Cluster) -> Result<Option<Row>> {
    let what = "console: catalog page, largest paint, median";
    let Some(mut page) = browser::Page::open(1440, 900).await? else {
        olm_tests::skipped(what, "chromium is not installed");
        return Ok(None);
    };
    let link = cluster.login_link().await?.context("no console")?;
    page.goto(&link).await?;
    page.click("Sign in as").await?;
    page.wait_for("location.pathname === '/catalog' && document.readyState === 'complete'", HANGS).await?;
    let url = page.eval("location.href").await?.as_str().context("no address")?.to_owned();
    let mut times = Vec::new();
    for n in 0..PAINTS + UNCOUNTED {
        page.goto(&url).await?;
        let time = page.eval(LARGEST_PAINT).await?.as_f64().context("no time of the largest paint")?;
        if n >= UNCOUNTED {
            times.push(time);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Some(Row {
        what,
        measured: p50(&times),
        limit: 1_000.0,
        unit: "ms",
        note: format!("the slowest of {PAINTS} {:.0}", times[times.len() - 1]),
    }))
}

async fn doctor(visitor: &mut Visitor) -> Result<Row> {
    let times = times(visitor, "/doctor", None, StatusCode::OK).await?;
    Ok(Row {
        what: "console: doctor, median",
        measured: p50(&times),
        limit: 100.0,
        unit: "ms",
        note: format!("p95 {:.1}", p95(&times)),
    })
}

/// Live pages, half of them of the list and half of the operator.
async fn streams(cluster: &Cluster, visitor: &Visitor, pid: u32) -> Result<Row> {
    let before = resident(pid)?;
    let accounts = format!("--group=system:serviceaccounts:{NAMESPACE}");
    cluster.kubectl(&[
        "create",
        "clusterrolebinding",
        NAMESPACE,
        "--clusterrole=cluster-admin",
        &accounts,
    ])?;
    let mut tokens = Vec::new();
    for user in 0..USERS {
        let name = format!("user-{user}");
        cluster.kubectl(&["create", "serviceaccount", &name, "-n", NAMESPACE])?;
        tokens.push(cluster.kubectl(&["create", "token", &name, "-n", NAMESPACE])?.trim().to_owned());
    }
    let list = "/api/v1/events?installed=".to_owned();
    let topics = [list.clone(), format!("{list}{NAMESPACE}/etcd&tab=overview")];
    let mut open = tokio::task::JoinSet::new();
    for n in 0..STREAMS {
        let from = Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(n % ADDRESSES)?);
        let topic = &topics[n / USERS % topics.len()];
        let (sender, mut body) = visitor.stream(topic, &tokens[n % USERS], from).await?;
        open.spawn(async move {
            let _sender = sender;
            while let Some(Ok(_)) = body.frame().await {}
        });
    }
    tokio::time::sleep(CALM).await;
    let (measured, share) = (resident(pid)?, pss(pid)?);
    ensure!(open.try_join_next().is_none(), "a stream ended");
    Ok(Row {
        what: "console with 500 event streams: resident memory",
        measured,
        limit: MEMORY_OF_STREAMS,
        unit: "MiB",
        note: format!("VmRSS; {before:.1} without them; PSS {share:.1}; {USERS} users"),
    })
}
