//! Waits of an install where every call takes a while, as on a real cluster.

use std::time::Duration;

use anyhow::ensure;
use olm_tests::inprocess::{Catalog, Fault};

use super::{a_crd, op, scenario};

/// Latency of an API server on the network; long enough that the version is reconciled before its rights
/// exist.
const CALL: Duration = Duration::from_millis(20);

/// The plan of a version creates its rights. Until it completes no other binding of the cluster is read for
/// them: there are many, and each read is a round trip.
#[test]
fn rights_that_a_plan_is_making_are_not_looked_for_elsewhere() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        world.quiet().await?;
        world.faults.set_latency(CALL);
        let from = world.faults.count();
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let calls = world.faults.calls();
        let lists = calls.iter().skip(from).filter(|c| {
            !c.is_watch() && (c.path.ends_with("/clusterrolebindings") || c.path.ends_with("/rolebindings"))
        });
        let lists: Vec<String> =
            lists.filter(|c| !c.query.contains("labelSelector")).map(ToString::to_string).collect();
        ensure!(lists.is_empty(), "bindings were listed: {lists:#?}");
        Ok(())
    });
}

/// The OperatorCondition of a version, its role and its binding do not wait for each other.
#[test]
fn what_is_independent_is_written_at_once() {
    scenario(async |world, _manager| {
        world
            .faults
            .add(Fault::Held, 3, |c| c.is_write() && c.path.ends_with("s/a.v1.0.0") && c.method == "PATCH");
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world
            .eventually("three writes at once", async || {
                let calls = world.faults.calls();
                let held = calls.iter().filter(|c| c.method == "PATCH" && c.path.ends_with("s/a.v1.0.0"));
                let held: Vec<String> = held.map(|c| c.path.clone()).collect();
                for kind in ["operatorconditions", "roles", "rolebindings"] {
                    ensure!(held.iter().any(|path| path.contains(&format!("/{kind}/"))), "{held:?}");
                }
                Ok(())
            })
            .await?;
        world.faults.release();
        world.installed("ns", "a", "a.v1.0.0").await
    });
}
