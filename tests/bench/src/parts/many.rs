//! The cost of an upgrade in many namespaces depends on these, and not on the total number.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Catalog, Operator, World};

use super::{
    lifecycle::{operator, succeeded},
    scale::{QUIET, Settled, look_through, rested},
    table::Row,
};

/// Namespaces with the upgraded operator.
const UPGRADED: usize = 500;
/// Additional namespaces of the larger cluster, with another operator.
const OTHERS: usize = 500;

/// Maximum ratio of calls per upgraded namespace with twice as many namespaces.
const MORE: f64 = 1.2;

pub(crate) async fn rows() -> Result<Vec<Row>> {
    let (alone, took) = upgraded(0).await?;
    let (among, _) = upgraded(OTHERS).await?;
    let (alone, among) = (alone as f64 / UPGRADED as f64, among as f64 / UPGRADED as f64);
    Ok(vec![Row {
        what: "upgrade in 500 of 1,000 namespaces: API calls for each",
        measured: among,
        limit: alone * MORE,
        unit: "",
        note: format!(
            "in 500 of 500 namespaces {alone:.1} each; all are through after {:.1} s",
            took.as_secs_f64()
        ),
    }])
}

/// The calls of an upgrade in [`UPGRADED`] namespaces with `others` in addition, without watches and the
/// lease, and its duration.
async fn upgraded(others: usize) -> Result<(usize, Duration)> {
    let world = World::bare().await?;
    let (first, second) = (operator("bench", "1.0.0"), operator("bench", "1.1.0"));
    let still = Operator::new("still", "1.0.0");
    let manager = world.manager("settle")?;
    world.publish("catalog", &Catalog::chain(&[&first]).and_chain(&[&still])).await?;
    let names =
        |what: &str, count: usize| -> Vec<String> { (0..count).map(|n| format!("{what}-{n:05}")).collect() };
    let (moving, resting) = (names("moving", UPGRADED), names("resting", others));
    for (homes, operator) in [(&moving, &first), (&resting, &still)] {
        for home in homes.iter().take(2) {
            world.home(home).await?;
            world.subscribe(home, &operator.package).await?;
            world.installed(home, &operator.package, &operator.name).await?;
        }
    }
    rested(&world, QUIET).await?;
    manager.stop().await?;
    for homes in [&moving, &resting] {
        if let [one, two, rest @ ..] = homes.as_slice() {
            Settled::read(&world, one, two).await?.copy_to(rest.to_vec()).await?;
        }
    }
    look_through(&world).await?;
    let manager = world.manager("upgrade")?;
    rested(&world, QUIET).await?;

    let from = world.faults.count();
    let start = Instant::now();
    world.publish("catalog", &Catalog::chain(&[&first, &second]).and_chain(&[&still])).await?;
    for home in &moving {
        succeeded(&world, home, &second.name).await?;
    }
    let took = start.elapsed();
    rested(&world, QUIET).await?;
    let calls = world.faults.calls();
    let calls = calls.iter().skip(from).filter(|call| !call.is_watch() && !call.is_lease()).count();
    ensure!(calls > 0, "the upgrade made no calls");
    manager.stop().await?;
    Ok((calls, took))
}
