//! Installing and upgrading, in one process with the API: only the manager's own work is measured, with its
//! calls counted. Pods are ready at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, runtime::wait::await_condition};
use olm_api::{ClusterServiceVersion, csv::CsvPhase};
use olm_tests::inprocess::{Call, Catalog, Operator, World, assets, crd, objects};
use serde_json::json;

use super::table::Row;

/// Time-out beyond any value, even for the last of many on a busy machine.
const HANGS: Duration = Duration::from_secs(600);

/// Number of installs; the median counts.
const TURNS: usize = 5;

/// Idle time while calls are counted.
const IDLE: Duration = Duration::from_secs(15);

/// A usual operator: a CRD, rights in its namespace, one Deployment.
pub(super) fn operator(package: &str, version: &str) -> Operator {
    let rule = json!({ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create", "update"] });
    Operator::new(package, version)
        .owns(crd("benches", "bench.example.com", "Bench", &["v1"]))
        .permission(package, rule)
}

/// Waits without polling until a version runs.
pub(super) async fn succeeded(world: &World, namespace: &str, name: &str) -> Result<()> {
    let api = Api::<ClusterServiceVersion>::namespaced(world.client.clone(), namespace);
    let wait = await_condition(api, name, |csv: Option<&ClusterServiceVersion>| {
        csv.and_then(|csv| csv.status.as_ref()).is_some_and(|status| status.phase == CsvPhase::Succeeded)
    });
    match tokio::time::timeout(HANGS, wait).await {
        Ok(found) => drop(found?),
        Err(_) => bail!("{namespace}/{name} does not run:\n{}", world.report().await),
    }
    Ok(())
}

/// Latency of a call to an API server, with the network and its own work.
const CALL: Duration = Duration::from_millis(5);

/// The time from a Subscription to its operator's Deployment; the manager's calls meanwhile are printed when
/// `OLM_BENCH_CALLS` is set.
async fn until_deployed(world: &World, namespace: &str, package: &str) -> Result<(Duration, usize)> {
    let api = Api::<Deployment>::namespaced(world.client.clone(), namespace);
    let (from, start) = (world.faults.count(), Instant::now());
    let there = await_condition(api, package, |d: Option<&Deployment>| d.is_some());
    let (subscribed, there) =
        tokio::join!(world.subscribe(namespace, package), tokio::time::timeout(HANGS, there));
    subscribed?;
    if there.is_err() {
        bail!("{namespace}/{package} has no Deployment:\n{}", world.report().await);
    }
    let took = start.elapsed();
    let calls: Vec<Call> =
        world.faults.calls().into_iter().skip(from).filter(|c| c.at < start + took).collect();
    if std::env::var_os("OLM_BENCH_CALLS").is_some() {
        for call in &calls {
            let took = call.took.map_or(-1.0, |took| took.as_secs_f64() * 1000.0);
            eprintln!("{:7.1} ms {took:6.1} ms {call}", (call.at - start).as_secs_f64() * 1000.0);
        }
        eprintln!("{:7.1} ms the Deployment exists", took.as_secs_f64() * 1000.0);
    }
    Ok((took, calls.iter().filter(|call| !call.is_watch()).count()))
}

fn operator_with_own_kind(number: usize) -> Operator {
    let package = format!("far-{number}");
    let rule = json!({ "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create", "update"] });
    Operator::new(&package, "1.0.0")
        .owns(crd("fars", &format!("far{number}.example.com"), "Far", &["v1"]))
        .permission(&package, rule)
}

/// An install with the latency of a network, or on a real API server, where one is used.
async fn far() -> Result<Row> {
    let world = World::bare().await?;
    let manager = world.manager("bench")?;
    // Each with its own CustomResourceDefinition to establish.
    let operators: Vec<Operator> = (0..=TURNS).map(operator_with_own_kind).collect();
    let catalog = operators.iter().fold(Catalog::new(), |catalog, one| catalog.and_chain(&[one]));
    world.publish("catalog", &catalog).await?;
    let (warm, operators) = operators.split_first().context("an operator")?;
    world.home(&warm.package).await?;
    world.subscribe(&warm.package, &warm.package).await?;
    succeeded(&world, &warm.package, &warm.name).await?;
    let real = assets().is_some();
    if !real {
        world.faults.set_latency(CALL);
    }
    let mut measured = Vec::new();
    for operator in operators {
        let package = &operator.package;
        world.home(package).await?;
        world.quiet().await?;
        measured.push(until_deployed(&world, package, package).await?);
        succeeded(&world, package, &operator.name).await?;
    }
    manager.stop().await?;
    measured.sort_unstable();
    let (median, calls) = measured[TURNS / 2];
    let (what, how) = match real {
        true => ("Subscription created → Deployment exists, real API server", "its own latency".to_owned()),
        false => (
            "Subscription created → Deployment exists, 5 ms per call",
            format!("{} ms per API call", CALL.as_millis()),
        ),
    };
    let slowest = measured.last().map_or(0.0, |(took, _)| took.as_secs_f64());
    Ok(Row {
        what,
        measured: median.as_secs_f64(),
        limit: 0.15,
        unit: "s",
        note: format!("{how}; median of {TURNS}, slowest {slowest:.2} s; {calls} API calls"),
    })
}

pub(crate) async fn rows() -> Result<Vec<Row>> {
    let mut rows = vec![far().await?];
    let world = World::bare().await?;
    let manager =
        world.manager_with(olm_manager::Options { leader_election: true, ..world.options("bench") })?;
    let (first, second, third) =
        (operator("bench", "1.0.0"), operator("bench", "1.1.0"), operator("bench", "1.2.0"));
    world.publish("catalog", &Catalog::chain(&[&first])).await?;
    world.home("bench").await?;
    // The first of a process fills the caches that all others use.
    world.home("warm").await?;
    world.subscribe("warm", "bench").await?;
    succeeded(&world, "warm", &first.name).await?;
    world.quiet().await?;

    let from = world.faults.count();
    let start = Instant::now();
    world.subscribe("bench", "bench").await?;
    succeeded(&world, "bench", &first.name).await?;
    let took = start.elapsed();
    world.quiet().await?;
    let writes = world.faults.writes_since(from);
    if std::env::var_os("OLM_BENCH_CALLS").is_some() {
        for call in world.faults.calls().iter().skip(from) {
            eprintln!("{call}");
        }
    }
    let all = world.faults.count() - from;
    rows.push(Row {
        what: "Subscription created → Succeeded, pods ready at once",
        measured: took.as_secs_f64(),
        limit: 0.3,
        unit: "s",
        note: format!("{all} API calls, {} of them writes; OLM v0 on a real API server: 2.2 s", writes.len()),
    });
    let count = objects(&writes);
    rows.push(Row {
        what: match assets() {
            Some(_) => "API writes of that install, real API server",
            None => "API writes of that install",
        },
        measured: writes.len() as f64,
        limit: count as f64 + 6.0,
        unit: "",
        note: format!("{count} objects, and 6"),
    });

    let start = Instant::now();
    world.publish("catalog", &Catalog::chain(&[&first, &second, &third])).await?;
    succeeded(&world, "bench", &third.name).await?;
    rows.push(Row {
        what: "chain of 3: catalog published → third version Succeeded",
        measured: start.elapsed().as_secs_f64(),
        limit: 1.0,
        unit: "s",
        note: "two upgrades; OLM v0 on a real API server: 12.5 s".into(),
    });

    world.quiet().await?;
    let from = world.faults.count();
    tokio::time::sleep(IDLE).await;
    let calls = world.faults.calls();
    let idle: Vec<String> =
        calls.iter().skip(from).filter(|c| !c.is_watch() && !c.is_lease()).map(ToString::to_string).collect();
    rows.push(Row {
        what: "idle: API calls beside watches and the lease",
        measured: idle.len() as f64,
        limit: 0.0,
        unit: "",
        note: format!("in {} s {}", IDLE.as_secs(), idle.join(", ")),
    });
    manager.stop().await?;
    Ok(rows)
}
