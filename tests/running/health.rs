//! The health that Argo CD, Flux and `kstatus` compute, by the published rules for unknown kinds: they read
//! `metadata.deletionTimestamp`, `status.observedGeneration` and the conditions Reconciling, Stalled and
//! Ready.

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Catalog, Operator, World, condition};
use serde_json::Value;

use super::run;

/// The states of kstatus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Current,
    InProgress,
    Failed,
    Terminating,
}

/// The rules, in their order.
fn health(object: &Value) -> Health {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Health::Terminating;
    }
    let observed = object["status"]["observedGeneration"].as_i64();
    if observed.is_some() && observed != object["metadata"]["generation"].as_i64() {
        return Health::InProgress;
    }
    let is = |type_: &str, status: &str| condition(object, type_).is_some_and(|c| c["status"] == status);
    if is("Reconciling", "True") {
        return Health::InProgress;
    }
    if is("Stalled", "True") {
        return Health::Failed;
    }
    if is("Ready", "False") || is("Ready", "Unknown") {
        return Health::InProgress;
    }
    Health::Current
}

#[test]
fn tools_that_know_nothing_of_olm_see_health() {
    run(async {
        let (world, manager) = World::start().await?;
        let (good, slow) = (
            Operator::new("good", "1.0.0"),
            Operator::new("slow", "1.0.0").image("example.invalid/never-ready:1"),
        );
        world.publish("catalog", &Catalog::chain(&[&good]).and_chain(&[&slow])).await?;
        for namespace in ["good", "slow", "none"] {
            world.home(namespace).await?;
        }
        world.subscribe("good", "good").await?;
        world.subscribe("slow", "slow").await?;
        world.subscribe("none", "nowhere").await?;
        world.installed("good", "good", &good.name).await?;
        world.csv("slow", &slow.name, "Installing").await?;
        world.condition("Subscription", "none", "nowhere", "ResolutionFailed", "").await?;
        world.quiet().await?;

        let seen = async |kind: &str, namespace: &str, name: &str| -> Result<(Health, Value)> {
            let object = world.get(kind, namespace, name).await?;
            Ok((health(&object), object["status"].clone()))
        };
        for (kind, namespace, name, wanted) in [
            ("Subscription", "good", "good", Health::Current),
            ("ClusterServiceVersion", "good", good.name.as_str(), Health::Current),
            ("Subscription", "slow", "slow", Health::InProgress),
            ("ClusterServiceVersion", "slow", slow.name.as_str(), Health::InProgress),
            ("Subscription", "none", "nowhere", Health::Failed),
        ] {
            let (found, status) = seen(kind, namespace, name).await?;
            ensure!(found == wanted, "{kind} {namespace}/{name} is {found:?}, not {wanted:?}: {status}");
        }
        manager.stop().await
    });
}
