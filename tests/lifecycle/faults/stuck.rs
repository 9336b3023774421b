//! Stuck objects: a CRD that is not established, a Deployment that is not ready, a namespace being deleted.

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Catalog, Fate, Fault, World, condition, crd, text};
use serde_json::json;

use super::{ask, rich};
use crate::{op, run, scenario};

/// Another CRD of the group has the kind already, so the operator's never gets its names.
#[test]
fn a_crd_that_is_never_established() {
    scenario(async |world, _manager| {
        let first = crd("others", "a.example.com", "A", &["v1"]);
        world.apply(&first).await?;
        world
            .until("CustomResourceDefinition", "", "others.a.example.com", |c| {
                condition(c, "Established").is_some_and(|c| c["status"] == "True")
            })
            .await?;
        world.publish("catalog", &Catalog::chain(&[&rich("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        // then a condition names the CRD and the cause
        let reported = world
            .eventually("a message that names the CRD", async || {
                let subscription = world.get("Subscription", "ns", "a").await?;
                let plans = world.list("InstallPlan", "ns").await?;
                let all: Vec<_> = std::iter::once(&subscription).chain(&plans).collect();
                let conditions = all
                    .iter()
                    .flat_map(|o| o["status"]["conditions"].as_array().cloned().unwrap_or_default());
                let names = |c: &serde_json::Value| text(c, "/message").contains("as.a.example.com");
                conditions.into_iter().find(names).context("no condition names it")
            })
            .await?;
        println!("{}", reported["message"]);
        ensure!(world.find("Deployment", "ns", "a").await?.is_none(), "half installed");
        // when the names are free
        world.delete("CustomResourceDefinition", "", "others.a.example.com").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// It waits indefinitely, reports for what, and succeeds when the pods are ready.
#[test]
fn a_deployment_that_is_never_ready() {
    scenario(async |world, _manager| {
        let slow = op("1.0.0").image("example.invalid/never-ready:1");
        world.publish("catalog", &Catalog::chain(&[&slow])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let csv = world
            .until("ClusterServiceVersion", "ns", "a.v1.0.0", |c| {
                text(c, "/status/phase") == "Installing" && text(c, "/status/reason") == "InstallWaiting"
            })
            .await?;
        let message = text(&csv, "/status/message");
        ensure!(message.contains("deployment a"), "{message}");
        world.kubelet.set(|_| Fate::Ready);
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// The old version serves until the new one does, and a still newer one supersedes one that never does.
#[test]
fn an_upgrade_that_never_is_ready_is_superseded() {
    scenario(async |world, _manager| {
        let one = op("1.0.0");
        // It has a second to start; without its own deadline a version has five minutes.
        let two = op("2.0.0").image("example.invalid/never-ready:2").csv(|csv| {
            csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["progressDeadlineSeconds"] = 1.into();
        });
        let three = op("3.0.0");
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.csv("ns", "a.v2.0.0", "Failed").await?;
        world.csv("ns", "a.v1.0.0", "Replacing").await?;
        // The rollout keeps the old pod until the new one is ready.
        let deployment = world.get("Deployment", "ns", "a").await?;
        ensure!(deployment["status"]["availableReplicas"] == 1, "{}", deployment["status"]);
        // when the catalog has a version that skips it
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel(
                "a",
                "stable",
                vec![olm_tests::inprocess::entry("a.v3.0.0").replaces("a.v1.0.0").skips(&["a.v2.0.0"])],
            )
            .bundle(&three);
        world.publish("catalog", &catalog).await?;
        world.installed("ns", "a", "a.v3.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v2.0.0").await
    });
}

/// The namespace is deleted in the middle of an install, at every object that the install writes: nothing is
/// left of it except its CRD, the roles over that, and the APIService that the API server creates for it.
#[test]
fn a_namespace_that_goes_in_the_middle_of_an_install() {
    run(async {
        let before = {
            let world = World::bare().await?;
            world.publish("catalog", &Catalog::chain(&[&rich("1.0.0")])).await?;
            let _manager = world.manager("manager-0")?;
            world
                .until("CatalogSource", "olm", "catalog", |s| {
                    text(s, "/status/connectionState/lastObservedState") == "READY"
                })
                .await?;
            world.quiet().await?;
            world.snapshot().await?
        };
        let mut wrong = Vec::new();
        for object in [
            "/installplans",
            "/customresourcedefinitions/",
            "/clusterserviceversions",
            "/serviceaccounts/",
            "/clusterroles/",
            "/clusterrolebindings/",
            "/configmaps/",
            "/deployments/",
        ] {
            let begun = std::time::Instant::now();
            let gone = gone_at(object, &before).await;
            println!("{object}: {:?} {gone:?}", begun.elapsed());
            if let Err(error) = gone {
                wrong.push(format!("{object}: {error:#}"));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    });
}

async fn gone_at(object: &'static str, before: &olm_tests::inprocess::Snapshot) -> Result<()> {
    let world = World::bare().await?;
    ask(&world).await?;
    world.faults.add(Fault::KillAfter, 1, move |call| call.is_write() && call.path.contains(object));
    let manager = world.manager("manager-0")?;
    tokio::time::timeout(olm_tests::inprocess::PATIENCE, manager.killed())
        .await
        .context("it was never written")?;
    manager.kill();
    world.faults.heal();
    world.delete("Namespace", "", "ns").await?;
    let _next = world.manager("manager-1")?;
    world.gone("Namespace", "", "ns").await?;
    world.quiet().await?;
    let left = world
        .eventually("nothing to be left", async || {
            let now = world.snapshot().await?.only(|key| !key.contains("a.example.com"));
            let left: Vec<String> = before
                .differences(&now)
                .into_iter()
                .filter(|difference| difference.starts_with("+ "))
                .collect();
            ensure!(left.is_empty(), "left: {left:?}");
            Ok(())
        })
        .await;
    left.with_context(|| json!(object).to_string())
}
