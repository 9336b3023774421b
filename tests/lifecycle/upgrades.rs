//! Fixing forward, rolling back, skipping, pausing: choices of versions.

use anyhow::ensure;
use olm_tests::inprocess::{Call, Catalog, Fault, OLM, Operator, condition, crd, entry, text};
use serde_json::{Value, json};

use crate::{op, scenario};

/// A version that requires a missing kind is not installed, until the kind exists: without any other event.
#[test]
fn an_upgrade_comes_with_the_kind_that_it_needs() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0"), op("2.0.0").needs("zs", "z.example.com", "Z", "v1"));
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["startingCSV"] = "a.v1.0.0".into()).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.quiet().await?;
        ensure!(
            world.find("ClusterServiceVersion", "ns", "a.v2.0.0").await?.is_none(),
            "it has not what it needs"
        );
        world.apply(&crd("zs", "z.example.com", "Z", &["v1"])).await?;
        world.installed("ns", "a", "a.v2.0.0").await
    });
}

/// A real API server serves a kind some time after its CustomResourceDefinition is established.
#[test]
fn an_upgrade_comes_with_a_kind_that_is_served_late() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0"), op("2.0.0").needs("zs", "z.example.com", "Z", "v1"));
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["startingCSV"] = "a.v1.0.0".into()).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.quiet().await?;
        let from = world.faults.count();
        let discovery = |call: &Call| call.path == "/apis/z.example.com/v1";
        world.faults.add(Fault::Status(404), usize::MAX, discovery);
        world.apply(&crd("zs", "z.example.com", "Z", &["v1"])).await?;
        world
            .eventually("a look for the new kind", async || {
                let asked = world.faults.calls().split_off(from).iter().any(discovery);
                ensure!(asked, "discovery was not read");
                Ok(())
            })
            .await?;
        world.quiet().await?;
        world.faults.heal();
        world.installed("ns", "a", "a.v2.0.0").await
    });
}

/// A version whose ClusterServiceVersion the API server rejects: its name is invalid.
fn invalid(version: &str) -> Operator {
    Operator::named("a", version, &format!("a.v{version}&invalid"))
}

/// FF-1: versions that cannot even be applied are superseded by newer ones, however many.
#[test]
fn broken_versions_are_superseded() {
    scenario(async |world, _manager| {
        let (one, two, better, three) = (op("0.1.0"), invalid("0.2.0"), invalid("0.2.1"), op("0.3.0"));
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v0.1.0").await?;
        let reported = |name: &str| {
            let name = name.to_owned();
            move |s: &Value| s["status"].to_string().contains(&name)
        };
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.until("Subscription", "ns", "a", reported("a.v0.2.0&invalid")).await?;
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel("a", "stable", vec![entry(&better.name).skips(&[&one.name, &two.name])])
            .bundle(&better);
        world.publish("catalog", &catalog).await?;
        world.until("Subscription", "ns", "a", reported("a.v0.2.1&invalid")).await?;
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel("a", "stable", vec![entry(&three.name).skips(&[&one.name, &two.name, &better.name])])
            .bundle(&three);
        world.publish("catalog", &catalog).await?;
        world.installed("ns", "a", "a.v0.3.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v0.1.0").await
    });
}

/// FF-2, FF-3: the same by range and by skips.
#[test]
fn a_broken_version_is_superseded_by_range() {
    scenario(async |world, _manager| {
        let (one, two, three) = (op("0.1.0"), invalid("0.2.0"), op("0.3.0"));
        for (namespace, by) in [
            ("range", entry(&three.name).skip_range(">=0.1.0 <0.3.0")),
            ("skips", entry(&three.name).skips(&[&one.name, &two.name])),
        ] {
            let before =
                world.find("CatalogSource", OLM, "catalog").await?.map(|c| c["status"]["digest"].clone());
            world.publish("catalog", &Catalog::chain(&[&one])).await?;
            // A Subscription created before the content is read gets the old content, and the generation is
            // observed by then.
            world
                .until("CatalogSource", OLM, "catalog", |source| {
                    let digest = source["status"].get("digest");
                    digest.is_some() && digest != before.as_ref()
                })
                .await?;
            world.home(namespace).await?;
            world.subscribe(namespace, "a").await?;
            world.installed(namespace, "a", "a.v0.1.0").await?;
            world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
            world
                .until("Subscription", namespace, "a", |s| {
                    s["status"].to_string().contains("a.v0.2.0&invalid")
                })
                .await?;
            let catalog =
                Catalog::new().package("a", "stable").channel("a", "stable", vec![by]).bundle(&three);
            world.publish("catalog", &catalog).await?;
            world.installed(namespace, "a", "a.v0.3.0").await?;
            // Reset for the next one: this namespace's is removed.
            world.delete("Subscription", namespace, "a").await?;
        }
        Ok(())
    });
}

/// FF-4: a version that replaces the broken one, which never was on the cluster, is not reachable; the
/// operator stays unchanged, and that is reported.
#[test]
fn a_way_through_a_version_that_never_ran_is_none() {
    scenario(async |world, _manager| {
        let (one, two, three) = (op("0.1.0"), invalid("0.2.0"), op("0.3.0"));
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v0.1.0").await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two, &three])).await?;
        world
            .until("Subscription", "ns", "a", |s| s["status"].to_string().contains("a.v0.2.0&invalid"))
            .await?;
        world.quiet().await?;
        ensure!(world.find("ClusterServiceVersion", "ns", "a.v0.3.0").await?.is_none());
        world.csv("ns", "a.v0.1.0", "Succeeded").await.map(drop)
    });
}

/// FF-5, FF-6, FF-7: a version whose Deployment never comes up is superseded by range, by skips, and by
/// replaces.
#[test]
fn a_version_that_does_not_come_up_is_superseded() {
    for way in ["range", "skips", "replaces"] {
        scenario(async move |world, _manager| {
            let one = op("0.1.0");
            // Kubernetes rejects a Deployment whose selector does not match its template, and that is
            // detected beforehand. For FF-7 the version must reach the cluster: only there the Deployment is
            // rejected.
            let two = op("0.2.0").csv(|csv| {
                let deployment = &mut csv["spec"]["install"]["spec"]["deployments"][0];
                deployment["name"] = "a-other".into();
                if way != "replaces" {
                    deployment["spec"]["selector"]["matchLabels"] = json!({ "app": "other" });
                }
            });
            if way == "replaces" {
                let of_two = |c: &Call| c.is_write() && c.path.ends_with("/deployments/a-other");
                world.faults.add(Fault::Status(422), usize::MAX, of_two);
            }
            let three = op("0.3.0");
            world.publish("catalog", &Catalog::chain(&[&one])).await?;
            world.home("ns").await?;
            world.subscribe("ns", "a").await?;
            world.installed("ns", "a", "a.v0.1.0").await?;
            world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
            // Refused beforehand or failed afterwards: reported in both cases.
            world
                .eventually("the problem to be reported", async || {
                    let subscription = world.get("Subscription", "ns", "a").await?;
                    let refused =
                        condition(&subscription, "ResolutionFailed").is_some_and(|c| c["status"] == "True");
                    let csv = world.find("ClusterServiceVersion", "ns", "a.v0.2.0").await?;
                    let failed = csv.as_ref().is_some_and(|c| text(c, "/status/phase") == "Failed");
                    ensure!(
                        refused || failed,
                        "{} {}",
                        subscription["status"],
                        csv.unwrap_or_default()["status"]
                    );
                    Ok(())
                })
                .await?;
            let there = world.find("ClusterServiceVersion", "ns", "a.v0.2.0").await?.is_some();
            let last = entry(&three.name);
            let last = match way {
                "range" => last.skip_range(">=0.1.0 <0.3.0"),
                "skips" => last.skips(&[&one.name, &two.name]),
                _ => {
                    ensure!(there, "a version that was never on the cluster is not an upgrade path (FF-4)");
                    last.replaces(&two.name)
                }
            };
            let mut entries = vec![last];
            if way == "replaces" {
                entries.extend([entry(&one.name), entry(&two.name).replaces(&one.name)]);
            }
            let catalog = Catalog::new().package("a", "stable").channel("a", "stable", entries);
            let catalog = catalog.bundle(&one).bundle(&two).bundle(&three);
            world.publish("catalog", &catalog).await?;
            world.installed("ns", "a", "a.v0.3.0").await?;
            world.gone("ClusterServiceVersion", "ns", "a.v0.1.0").await?;
            world.gone("ClusterServiceVersion", "ns", "a.v0.2.0").await
        });
    }
}

/// Paused, nothing is changed; the newer version is installed after the pause.
#[test]
fn a_paused_subscription_stays_where_it_is() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.patch("Subscription", "ns", "a", &json!({ "spec": { "paused": true } })).await?;
        world.until("Subscription", "ns", "a", |s| text(s, "/status/reason") == "Paused").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.quiet().await?;
        ensure!(
            world.find("ClusterServiceVersion", "ns", "a.v2.0.0").await?.is_none(),
            "upgraded though paused"
        );
        world.patch("Subscription", "ns", "a", &json!({ "spec": { "paused": false } })).await?;
        world.installed("ns", "a", "a.v2.0.0").await
    });
}

/// A skipped version is not installed.
#[test]
fn a_skipped_version_is_not_installed() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["skipVersions"] = json!(["2.0.0"])).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.quiet().await?;
        ensure!(
            world.find("ClusterServiceVersion", "ns", "a.v2.0.0").await?.is_none(),
            "installed though skipped"
        );
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel("a", "stable", vec![entry("a.v3.0.0").replaces("a.v1.0.0").skips(&["a.v2.0.0"])])
            .bundle(&op("3.0.0"));
        world.publish("catalog", &catalog).await?;
        world.installed("ns", "a", "a.v3.0.0").await
    });
}

/// Rollback to the previous version: requested in the spec, applied by a plan, and pinned.
#[test]
fn a_version_is_taken_back() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0"), op("2.0.0"));
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let back = json!({ "spec": { "version": "=1.0.0", "upgradeConstraintPolicy": "SelfCertified" } });
        world.patch("Subscription", "ns", "a", &back).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v2.0.0").await?;
        world
            .until("Deployment", "ns", "a", |d| {
                text(d, "/spec/template/spec/containers/0/image") == "example.invalid/a:1.0.0"
            })
            .await?;
        world.quiet().await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}
