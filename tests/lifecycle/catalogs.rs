//! CatalogSources: their changes reach Subscriptions, and their errors do not.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use olm_engine::catalogs::LoadedCatalog;
use olm_manager::Options;
use olm_ops::{InstallRequest, manifests::METRICS_READER_ROLE};
use olm_tests::inprocess::{Catalog, Fault, OLM, World, condition, objects, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario};

fn ready(source: &Value) -> bool {
    text(source, "/status/connectionState/lastObservedState") == "READY"
}

/// CAT-1: a restarted manager serves the stored content before it has polled.
#[test]
fn catalogs_survive_a_restart() {
    scenario(async |world, manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        let before = world.until("CatalogSource", OLM, "catalog", ready).await?;
        manager.stop().await?;
        // The source is gone meanwhile: only the stored copy is left.
        let folder = text(&before, "/spec/directory").to_owned();
        std::fs::remove_dir_all(&folder)?;
        let _again = world.manager("manager-1")?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// CAT-3, CAT-9, SUB-7: new content of a global catalog reaches Subscriptions of every namespace.
#[test]
fn a_catalogs_news_reach_every_namespace() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        for namespace in ["one", "two", "three"] {
            world.home(namespace).await?;
            world.subscribe(namespace, "a").await?;
        }
        for namespace in ["one", "two", "three"] {
            world.installed(namespace, "a", "a.v1.0.0").await?;
        }
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        for namespace in ["one", "two", "three"] {
            world.installed(namespace, "a", "a.v2.0.0").await?;
        }
        Ok(())
    });
}

/// CAT-4, MC-1: a catalog in a ConfigMap is read, read again when the CatalogSource names another, and
/// removed with it.
#[test]
fn a_catalog_in_a_config_map() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        for version in ["1.0.0", "2.0.0"] {
            let a = op(version);
            let csv = a.manifest("ns");
            let packages = format!(
                "- packageName: a\n  defaultChannel: stable\n  channels:\n  - name: stable\n    currentCSV: {}\n",
                a.name
            );
            let csv = {
                let mut csv = csv;
                if let Some(metadata) = csv["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
                if version == "2.0.0" {
                    csv["spec"]["replaces"] = "a.v1.0.0".into();
                }
                csv
            };
            let name = format!("packages-{}", version.split('.').next().unwrap_or_default());
            world
                .apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "ns" },
                    "data": { "packages": packages, "customResourceDefinitions": "", "clusterServiceVersions": json!([csv]).to_string() } }))
                .await?;
            world
                .apply(&json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                    "metadata": { "name": "own", "namespace": "ns" }, "spec": { "sourceType": "configmap", "configMap": name } }))
                .await?;
            if version == "1.0.0" {
                world
                    .subscribe_with("ns", "a", |spec| {
                        spec["source"] = "own".into();
                        spec["sourceNamespace"] = "ns".into();
                    })
                    .await?;
            }
            world.installed("ns", "a", &a.name).await?;
        }
        Ok(())
    });
}

/// CAT-10: a dependency's version has a `replaces`, so that it is an upgrade and not a second install.
#[test]
fn a_dependency_is_upgraded_like_any_operator() {
    scenario(async |world, _manager| {
        let b = olm_tests::inprocess::Operator::new("b", "1.0.0").needs_package("a", ">=1.0.0");
        world.publish("catalog", &Catalog::chain(&[&b]).and_chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "b").await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.publish("catalog", &Catalog::chain(&[&b]).and_chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        let csv = world.csv("ns", "a.v2.0.0", "Succeeded").await?;
        ensure!(text(&csv, "/spec/replaces") == "a.v1.0.0", "{}", csv["spec"]["replaces"]);
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await
    });
}

/// CAT-11: an invalid interval is reported, the default used, and the condition cleared when it is valid.
#[test]
fn an_invalid_interval_is_reported() {
    scenario(async |world, _manager| {
        let catalog = Catalog::chain(&[&op("1.0.0")]);
        let every = |text: &'static str| {
            move |s: &mut Value| s["spec"]["updateStrategy"] = json!({ "registryPoll": { "interval": text } })
        };
        world.publish_with("catalog", &catalog, every("soon")).await?;
        world
            .until("CatalogSource", OLM, "catalog", |s| {
                text(s, "/status/reason") == "InvalidIntervalError"
                    && text(s, "/status/message").contains("15m0s")
            })
            .await?;
        world.publish_with("catalog", &catalog, every("10m")).await?;
        world
            .until("CatalogSource", OLM, "catalog", |s| {
                ready(s) && text(s, "/status/reason") != "InvalidIntervalError"
            })
            .await
            .map(drop)
    });
}

/// CAT-15: installed operators keep running without their catalog, and an error of one catalog does not
/// affect others.
#[test]
fn operators_run_on_without_their_catalog() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world
            .publish("other", &Catalog::chain(&[&olm_tests::inprocess::Operator::new("b", "1.0.0")]))
            .await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.delete("CatalogSource", OLM, "catalog").await?;
        world.condition("Subscription", "ns", "a", "CatalogSourcesUnhealthy", "").await?;
        // drift is still corrected
        world.delete("Deployment", "ns", "a").await?;
        world.until("Deployment", "ns", "a", |d| d["status"]["availableReplicas"] == 1).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        // a broken catalog in addition
        world
            .apply(&json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                "metadata": { "name": "broken", "namespace": OLM }, "spec": { "sourceType": "directory", "directory": "/nonexistent" } }))
            .await?;
        world.subscribe_with("ns", "b", |spec| spec["source"] = "other".into()).await?;
        world.installed("ns", "b", "b.v1.0.0").await
    });
}

/// EX-1: an OperatorGroup excludes the global catalogs. Nothing is installed from them then, dependencies
/// neither, and their errors have no effect.
#[test]
fn a_group_shuts_out_the_catalogs_of_everybody() {
    scenario(async |world, _manager| {
        let shut_out = |value: Value| {
            let key = "olm.operatorframework.io/exclude-global-namespace-resolution";
            json!({ "metadata": { "annotations": { key: value } } })
        };
        world.home("ns").await?;
        let everybodys = Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))]);
        world.publish("catalog", &everybodys).await?;
        world.until("CatalogSource", OLM, "catalog", ready).await?;
        // The global one would come first.
        let (everybodys, own) =
            (everybodys.served_as(OLM, "catalog"), Catalog::chain(&[&op("1.0.0")]).served_as("ns", "ours"));
        let request = InstallRequest::new("a", "ns");
        let preview = async |catalogs: &[LoadedCatalog]| {
            let chosen = olm_ops::requested_subscription(&world.client, catalogs, &request)
                .await
                .map(|s| s.spec.source)?;
            olm_ops::preview_install(&world.client, catalogs, &request).await.map(|_| chosen)
        };
        let both = [everybodys.clone(), own];
        let only = std::slice::from_ref(&everybodys);
        ensure!(preview(only).await.is_ok_and(|chosen| chosen == "catalog"), "it may be used");
        ensure!(preview(&both).await.is_ok_and(|chosen| chosen == "catalog"), "the first may be used");
        world.patch("OperatorGroup", "ns", "own", &shut_out("true".into())).await?;
        // where the namespace has its own catalog with the package, that is chosen; where it has none, the
        // preview has the reason
        ensure!(preview(&both).await.is_ok_and(|chosen| chosen == "ours"), "its own may be used");
        let refused = preview(only).await.err().context("it was planned")?;
        ensure!(
            matches!(&refused, olm_ops::Error::Refused { code, .. } if code == "CatalogOutOfSight"),
            "{refused}"
        );
        let b = olm_tests::inprocess::Operator::new("b", "1.0.0").needs("as", "a.example.com", "A", "v1");
        world.publish_in("ns", "ours", &[&b]).await?;
        let from = |spec: &mut Value| {
            spec["source"] = "ours".into();
            spec["sourceNamespace"] = "ns".into();
        };
        world.subscribe_with("ns", "b", from).await?;
        let reported = world.condition("Subscription", "ns", "b", "ResolutionFailed", "").await?;
        ensure!(text(&reported, "/message").contains("a.example.com"), "{reported}");
        // a Subscription to such a catalog reports the cause
        world.subscribe("ns", "a").await?;
        let reported = world
            .condition("Subscription", "ns", "a", "CatalogSourcesUnhealthy", "CatalogOutOfSight")
            .await?;
        let message = text(&reported, "/message");
        ensure!(message.contains("exclude-global-namespace-resolution"), "{message}");
        world.delete("Subscription", "ns", "a").await?;
        ensure!(world.list("InstallPlan", "ns").await?.is_empty(), "something was planned");
        // and reverted
        world.patch("OperatorGroup", "ns", "own", &shut_out(Value::Null)).await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// A started plan completes, even if its catalog is excluded meanwhile.
#[test]
fn a_begun_plan_ends_though_its_catalog_is_shut_out() {
    crate::run(async {
        // given an interrupted plan
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&super::faults::rich("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        super::faults::interrupted(&world).await?;
        // when
        let key = "olm.operatorframework.io/exclude-global-namespace-resolution";
        let shut_out = json!({ "metadata": { "annotations": { key: "true" } } });
        world.patch("OperatorGroup", "ns", "own", &shut_out).await?;
        let _next = world.manager("manager-1")?;
        // then
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let plans = world.names("InstallPlan", "ns").await?;
        ensure!(plans.len() == 1, "{plans:?}");
        world.until("InstallPlan", "ns", &plans[0], |p| p["status"]["phase"] == "Complete").await?;
        // and nothing more is installed from there
        world
            .condition("Subscription", "ns", "a", "CatalogSourcesUnhealthy", "CatalogOutOfSight")
            .await
            .map(drop)
    });
}

/// An idle manager watches, and makes no other calls. Work for another namespace passes through the same queues, and
/// causes no calls for an installed operator.
#[test]
fn idle_there_are_no_calls() {
    scenario(async |world, _manager| {
        let b = olm_tests::inprocess::Operator::new("b", "1.0.0").needs("as", "a.example.com", "A", "v1");
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")]).and_chain(&[&b])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.quiet().await?;
        let calls = world.faults.count();
        // when a Subscription of another namespace is handled
        world.home("other").await?;
        world.subscribe("other", "b").await?;
        world.condition("Subscription", "other", "b", "ResolutionFailed", "").await?;
        // then
        let new = world.faults.calls().into_iter().skip(calls);
        let new: Vec<String> =
            new.filter(|call| call.path.contains("/namespaces/ns/")).map(|call| call.to_string()).collect();
        ensure!(new.is_empty(), "{new:#?}");
        Ok(())
    });
}

/// Phases of an installation: pending, ready to install, installing, done.
const PHASES: usize = 4;

/// An install writes each object that it creates or changes once. The status of Subscription, InstallPlan, ClusterServiceVersion and
/// Operator is written at most once for each phase; short phases are not reported, and `olm-bench lifecycle` holds their sum.
#[test]
fn an_install_writes_each_object_once() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&super::faults::rich("1.0.0")])).await?;
        world.until("CatalogSource", OLM, "catalog", ready).await?;
        for namespace in ["first", "second"] {
            world.home(namespace).await?;
            world.quiet().await?;
            let (from, before) = (world.faults.count(), world.snapshot().await?);
            world.subscribe(namespace, "a").await?;
            world.installed(namespace, "a", "a.v1.0.0").await?;
            world.quiet().await?;
            let writes = world.faults.writes_since(from);
            // Only the operator changed these in the meantime.
            for part in ["/deployments/", "/operatorconditions/"] {
                let of_part = writes.iter().filter(|call| call.path.contains(part));
                let of_part: Vec<String> = of_part.map(ToString::to_string).collect();
                ensure!(of_part.len() == 1, "{of_part:#?}");
            }
            let objects = objects(&writes);
            let differences = before.differences(&world.snapshot().await?);
            // The API server creates the APIService of a CRD.
            let made = differences
                .iter()
                .filter(|d| d.starts_with("+ ") && !d.contains(" v1.a.example.com"))
                .count();
            // In addition to the created objects the OperatorGroup is changed, and later the existing CRD.
            let changed = if namespace == "first" { 1 } else { 2 };
            ensure!(
                objects == made + changed,
                "{objects} objects, {made} are new:\n{}",
                differences.join("\n")
            );
            let mut reports = BTreeMap::<&str, usize>::new();
            for call in writes.iter().filter(|call| call.path.ends_with("/status")) {
                *reports.entry(&call.path).or_default() += 1;
            }
            let mut reporters: Vec<_> = reports.keys().filter_map(|path| path.rsplit('/').nth(2)).collect();
            reporters.sort_unstable();
            let expected = ["clusterserviceversions", "installplans", "operators", "subscriptions"];
            ensure!(reporters == expected, "{reports:#?}");
            ensure!(reports.values().all(|count| *count <= PHASES), "{reports:#?}");
            let once = writes.iter().filter(|call| !call.path.ends_with("/status"));
            let once: Vec<String> = once.map(ToString::to_string).collect();
            ensure!(
                once.len() == objects,
                "{} writes of {objects} objects:\n{}",
                once.len(),
                once.join("\n")
            );
        }
        Ok(())
    });
}

/// MET-1, MET-2, MET-3: metrics of catalogs, Subscriptions and versions.
#[test]
fn metrics_follow_the_objects() {
    crate::run(async {
        let world = World::bare().await?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        drop(listener);
        let _manager = world.manager_with(Options { listen: Some(address), ..world.options("manager-0") })?;
        let prometheus = world.token("prometheus", METRICS_READER_ROLE).await?;
        let metrics = async || -> Result<String> {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut stream = tokio::net::TcpStream::connect(address).await?;
            let request =
                format!("GET /metrics HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer {prometheus}\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        };
        let line = async |wanted: &[&str], there: bool| {
            world
                .eventually(&format!("metrics with {wanted:?}: {there}"), async || {
                    let text = metrics().await?;
                    let found =
                        text.lines().any(|l| !l.starts_with('#') && wanted.iter().all(|w| l.contains(w)));
                    let first = wanted.first().copied().unwrap_or_default();
                    let near: Vec<&str> = text.lines().filter(|l| l.contains(first)).collect();
                    ensure!(found == there, "{near:?}");
                    Ok(())
                })
                .await
        };
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        line(&["catalogsource_ready", "catalog", " 1"], true).await?;
        line(&["subscription_sync_total", "a.v1.0.0"], true).await?;
        line(&["csv_succeeded", "a.v1.0.0", " 1"], true).await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        line(&["subscription_sync_total", "a.v2.0.0"], true).await?;
        line(&["csv_succeeded", "a.v1.0.0"], false).await?;
        world.delete("CatalogSource", OLM, "catalog").await?;
        line(&["catalogsource_ready", "name=\"catalog\""], false).await?;
        world.delete("Subscription", "ns", "a").await?;
        line(&["subscription_sync_total", "name=\"a\""], false).await
    });
}

/// A conflict on the status of a CatalogSource does not affect Subscriptions.
#[test]
fn a_status_that_cannot_be_written_blocks_no_other_object() {
    scenario(async |world, _manager| {
        world.faults.add(Fault::Status(409), 3, |c| c.path.ends_with("/catalogsources/catalog/status"));
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let source = world.until("CatalogSource", OLM, "catalog", ready).await?;
        ensure!(condition(&source, "Ready").is_some_and(|c| c["status"] == "True"), "{}", source["status"]);
        Ok(())
    });
}
