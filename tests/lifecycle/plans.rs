//! InstallPlans: their effect on existing objects.

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Catalog, Fault, Operator, World, condition, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario, subscriptions::steps};

async fn install(world: &World, operators: &[&Operator]) -> Result<()> {
    world.publish("catalog", &Catalog::chain(operators)).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await?;
    let last = operators.last().map(|o| o.name.clone()).unwrap_or_default();
    world.installed("ns", "a", &last).await
}

/// IP-1: warnings of the API server are reported.
#[test]
fn warnings_of_the_api_are_events() {
    scenario(async |world, _manager| {
        // A CRD with an unknown format: the API server warns about it.
        let mut crd = a_crd(&["v1"]);
        crd["spec"]["versions"][0]["deprecated"] = true.into();
        let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "a" },
            "spec": { "selector": { "matchLabels": {} }, "minAvailable": 1, "unknownField": 1 } });
        install(&world, &[&op("1.0.0").owns(crd).object(budget)]).await?;
        let plans = world.names("InstallPlan", "ns").await?;
        let event = world.event("ns", plans.first().context("a plan")?, "AppliedWithWarnings").await?;
        ensure!(text(&event, "/note").contains("unknownField"), "{event}");
        Ok(())
    });
}

/// IP-2: a CRD records its versions.
#[test]
fn a_crd_is_annotated_with_each_version_that_brought_it() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0").owns(a_crd(&["v1"])), op("2.0.0").owns(a_crd(&["v1", "v2"])));
        install(&world, &[&one]).await?;
        let alongside = |crd: &Value| {
            let annotations = crd["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let ours = annotations
                .into_iter()
                .filter(|(key, _)| key.starts_with("operatorframework.io/installed-alongside-"));
            ours.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        world
            .until("CustomResourceDefinition", "", "as.a.example.com", |c| alongside(c) == ["ns/a.v1.0.0"])
            .await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world
            .until("CustomResourceDefinition", "", "as.a.example.com", |c| {
                alongside(c).contains(&"ns/a.v2.0.0".to_owned())
            })
            .await
            .map(drop)
    });
}

/// IP-3: a failing step is reported, retried forever, and succeeds when possible.
#[test]
fn a_step_that_fails_is_tried_again() {
    scenario(async |world, _manager| {
        world.faults.add(Fault::Status(500), 2, |c| c.is_write() && c.path.ends_with("/serviceaccounts/a"));
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let plan = world
            .eventually("the failure to be reported", async || {
                let plans = world.list("InstallPlan", "ns").await?;
                let reported = |p: &&Value| {
                    condition(p, "Installed").is_some_and(|c| c["reason"] == "InstallComponentFailed")
                };
                plans.iter().find(reported).cloned().context("not reported")
            })
            .await?;
        ensure!(text(&plan, "/status/phase") == "Installing", "{}", plan["status"]);
        let message = text(condition(&plan, "Installed").context("reported")?, "/message");
        ensure!(message.contains("ServiceAccount") && message.contains("made to fail"), "{message}");
        world.installed("ns", "a", "a.v1.0.0").await?;
        let plan = world.get("InstallPlan", "ns", text(&plan, "/metadata/name")).await?;
        ensure!(text(&plan, "/status/phase") == "Complete", "{}", plan["status"]);
        ensure!(condition(&plan, "Installed").is_some_and(|c| c["status"] == "True"), "{}", plan["status"]);
        Ok(())
    });
}

/// IP-4: the ServiceAccount belongs to the new version, and additions of others stay.
#[test]
fn a_service_account_passes_from_version_to_version() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0"), op("2.0.0"));
        install(&world, &[&one]).await?;
        let uid = world.get("ServiceAccount", "ns", "a").await?["metadata"]["uid"].clone();
        world
            .patch("ServiceAccount", "ns", "a", &json!({ "imagePullSecrets": [{ "name": "mine" }], "metadata": { "annotations": { "mine": "yes" } } }))
            .await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.quiet().await?;
        let account = world.get("ServiceAccount", "ns", "a").await?;
        ensure!(account["metadata"]["uid"] == uid, "it was made anew");
        ensure!(
            account["imagePullSecrets"] == json!([{ "name": "mine" }])
                && account["metadata"]["annotations"]["mine"] == "yes",
            "{account}"
        );
        let owners = account["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        ensure!(owners.iter().any(|o| o["name"] == "a.v2.0.0"), "{owners:?}");
        Ok(())
    });
}

/// IP-5
#[test]
fn a_service_keeps_its_address_through_an_upgrade() {
    scenario(async |world, _manager| {
        let service = |port: u16| {
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a-api" },
                    "spec": { "type": "ClusterIP", "selector": { "app": "a" }, "ports": [{ "name": "api", "port": port }] } })
        };
        let (one, two) = (op("1.0.0").object(service(80)), op("2.0.0").object(service(81)));
        install(&world, &[&one]).await?;
        let address = world.get("Service", "ns", "a-api").await?["spec"]["clusterIP"].clone();
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let service = world.get("Service", "ns", "a-api").await?;
        ensure!(service["spec"]["clusterIP"] == address && address.is_string(), "{}", service["spec"]);
        ensure!(
            service["spec"]["ports"].as_array().is_some_and(|p| p.len() == 1 && p[0]["port"] == 81),
            "{}",
            service["spec"]["ports"]
        );
        Ok(())
    });
}

/// IP-7: an existing dependency is not installed again, and cycles terminate.
#[test]
fn a_dependency_that_is_there_is_no_part_of_the_plan() {
    scenario(async |world, _manager| {
        let b = Operator::new("b", "1.0.0")
            .owns(olm_tests::inprocess::crd("bs", "b.example.com", "B", &["v1"]))
            .csv(crate::csvs::no_rights);
        let a = op("1.0.0").owns(a_crd(&["v1"])).needs("bs", "b.example.com", "B", "v1");
        world.home("ns").await?;
        crate::subscriptions::by_hand(&world, "ns", &b).await?;
        world.csv("ns", "b.v1.0.0", "Succeeded").await?;
        world.publish("catalog", &Catalog::chain(&[&a]).and_chain(&[&b])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let plans = world.list("InstallPlan", "ns").await?;
        ensure!(plans.len() == 1, "{plans:?}");
        let main = |s: &&Value| {
            matches!(text(s, "/resource/kind"), "CustomResourceDefinition" | "ClusterServiceVersion")
        };
        let planned = steps(&plans[0]);
        let mut names: Vec<&str> = planned.iter().filter(main).map(|s| text(s, "/resource/name")).collect();
        names.sort_unstable();
        ensure!(names == ["a.v1.0.0", "as.a.example.com"], "{names:?}");
        world.quiet().await?;
        let before = world.faults.count();
        world.quiet().await?;
        ensure!(world.faults.writes_since(before).is_empty(), "it writes with nothing to do");
        Ok(())
    });
}

/// A CRD whose version `v1` has this schema of `spec`.
fn with_schema(versions: &[(&str, bool, Value)]) -> Value {
    let mut crd = a_crd(&["v1"]);
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, (name, served, spec))| {
            json!({ "name": name, "served": served, "storage": at == 0,
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } } })
        })
        .collect();
    crd["spec"]["versions"] = versions.into();
    crd
}

/// IP-8, CRD-1, CRD-2, CRD-3: a table of changes of a CRD with objects, and the result of each.
#[test]
fn changes_of_a_crd_are_made_or_refused() {
    let sizes = |max: i64| json!({ "type": "object", "properties": { "size": { "type": "integer", "maximum": max } } });
    // (description, the CRD's next versions, the code of the refusal)
    let table: Vec<(&str, Value, Option<&str>)> = vec![
        ("a wider schema", with_schema(&[("v1", true, sizes(100))]), None),
        ("one that refuses what is there", with_schema(&[("v1", true, sizes(2))]), Some("Crd")),
        (
            "without the version that is stored",
            with_schema(&[("v2", true, sizes(10))]),
            Some("CrdStoredVersionRemoved"),
        ),
        (
            "an old version not served any more",
            with_schema(&[("v2", true, sizes(10)), ("v1", false, sizes(10))]),
            None,
        ),
    ];
    scenario(async move |world, _manager| {
        for (at, (what, next, refused)) in table.into_iter().enumerate() {
            // Each row has its own group, since CRDs are cluster-scoped.
            let own = |mut crd: Value| {
                let group = format!("row{at}.example.com");
                crd["spec"]["group"] = group.as_str().into();
                crd["metadata"]["name"] = format!("as.{group}").into();
                crd
            };
            let package = format!("row{at}");
            let one = Operator::new(&package, "1.0.0").owns(own(with_schema(&[("v1", true, sizes(10))])));
            let two = Operator::new(&package, "2.0.0").owns(own(next));
            world.publish("catalog", &Catalog::chain(&[&one])).await?;
            world.home(&package).await?;
            world.subscribe(&package, &package).await?;
            world.installed(&package, &package, &one.name).await?;
            world
                .apply(&json!({ "apiVersion": format!("row{at}.example.com/v1"), "kind": "A",
                    "metadata": { "name": "mine", "namespace": package }, "spec": { "size": 5 } }))
                .await?;
            world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
            match refused {
                None => world.installed(&package, &package, &two.name).await.with_context(|| what)?,
                Some(code) => {
                    let reported = world
                        .condition("Subscription", &package, &package, "ResolutionFailed", "")
                        .await
                        .with_context(|| what)?;
                    ensure!(text(&reported, "/reason").starts_with(code), "{what}: {reported}");
                    let crd =
                        world.get("CustomResourceDefinition", "", &format!("as.row{at}.example.com")).await?;
                    ensure!(
                        crd["spec"]["versions"].as_array().is_some_and(|v| v[0]["name"] == "v1"),
                        "{what}: {crd}"
                    );
                    ensure!(
                        world.find("ClusterServiceVersion", &package, &two.name).await?.is_none(),
                        "{what}: half done"
                    );
                }
            }
        }
        Ok(())
    });
}

/// IP-9: a version may be removed when nothing is stored in it any more.
#[test]
fn a_version_of_a_crd_goes_after_its_objects_were_migrated() {
    scenario(async |world, _manager| {
        let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let one = op("1.0.0").owns(with_schema(&[("v1", true, any.clone())]));
        let two = op("2.0.0").owns(with_schema(&[("v2", true, any.clone()), ("v1", true, any.clone())]));
        let three = op("3.0.0").owns(with_schema(&[("v2", true, any)]));
        install(&world, &[&one]).await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two, &three])).await?;
        world.condition("Subscription", "ns", "a", "ResolutionFailed", "CrdStoredVersionRemoved").await?;
        // when they are migrated
        world
            .patch_status(
                "CustomResourceDefinition",
                "",
                "as.a.example.com",
                &json!({ "status": { "storedVersions": ["v2"] } }),
            )
            .await?;
        world.touch("Subscription", "ns", "a").await?;
        world.installed("ns", "a", "a.v3.0.0").await
    });
}

/// IP-10: rights grow and shrink with the version, and old roles are deleted.
#[test]
fn rights_grow_and_shrink_with_the_version() {
    scenario(async |world, _manager| {
        let rule = |verbs: &[&str]| json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": verbs });
        let one = op("1.0.0").cluster_permission("a", rule(&["get"]));
        let two = op("2.0.0").cluster_permission("a", rule(&["get", "list", "delete"]));
        let three = op("3.0.0").cluster_permission("a", rule(&["list"]));
        let verbs = async |world: &World| -> Result<Vec<Value>> {
            let roles = world.list("ClusterRole", "").await?;
            let ours = roles.iter().filter(|r| {
                r["metadata"]["labels"]["olm.owner"].is_string() && r["rules"].to_string().contains("nodes")
            });
            Ok(ours.map(|r| r["rules"][0]["verbs"].clone()).collect())
        };
        install(&world, &[&one]).await?;
        ensure!(verbs(&world).await? == [json!(["get"])], "{:?}", verbs(&world).await?);
        for (chain, csv, wanted) in [
            (vec![&one, &two], "a.v2.0.0", json!(["get", "list", "delete"])),
            (vec![&one, &two, &three], "a.v3.0.0", json!(["list"])),
        ] {
            world.publish("catalog", &Catalog::chain(&chain)).await?;
            world.installed("ns", "a", csv).await?;
            world
                .eventually("the rights of the new version alone", async || {
                    let now = verbs(&world).await?;
                    ensure!(now == [wanted.clone()], "{now:?}");
                    Ok(())
                })
                .await?;
        }
        Ok(())
    });
}

/// IP-11: an edit of the installed version is applied, and the next version discards it.
#[test]
fn an_edit_lasts_until_the_next_version() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0"), op("2.0.0"));
        install(&world, &[&one]).await?;
        let mut deployments = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?["spec"]["install"]
            ["spec"]["deployments"]
            .clone();
        deployments[0]["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{ "name": "EDITED", "value": "yes" }]);
        let patch = json!({ "spec": { "install": { "spec": { "deployments": deployments } } } });
        world.patch("ClusterServiceVersion", "ns", "a.v1.0.0", &patch).await?;
        let edited =
            |d: &Value| d["spec"]["template"]["spec"]["containers"][0]["env"].to_string().contains("EDITED");
        world.until("Deployment", "ns", "a", edited).await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world
            .until("Deployment", "ns", "a", |d| !edited(d) && d["status"]["availableReplicas"] == 1)
            .await
            .map(drop)
    });
}

/// IP-12: a manually created CRD is adopted, and becomes the bundle's.
#[test]
fn a_crd_made_by_hand_becomes_the_bundles() {
    scenario(async |world, _manager| {
        let mut by_hand = a_crd(&["v1"]);
        by_hand["spec"]["names"]["shortNames"] = json!(["mine"]);
        world.apply(&by_hand).await?;
        install(&world, &[&op("1.0.0").owns(a_crd(&["v1", "v2"]))]).await?;
        let crd = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        let names: Vec<&str> =
            crd["spec"]["versions"].as_array().into_iter().flatten().map(|v| text(v, "/name")).collect();
        ensure!(names == ["v1", "v2"], "{names:?}");
        let plans = world.list("InstallPlan", "ns").await?;
        ensure!(plans.len() == 1 && plans[0]["status"]["phase"] == "Complete", "{plans:?}");
        Ok(())
    });
}

/// IP-13, GC-3: the objects of a version are deleted with it.
#[test]
fn everything_but_crds_goes_with_the_version() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        world.publish("catalog", &Catalog::new()).await?;
        world.quiet().await?;
        let before = world.snapshot().await?;
        let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a-settings" }, "data": { "a": "1" } });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a-secret" }, "stringData": { "a": "1" } });
        let a = op("1.0.0")
            .owns(a_crd(&["v1"]))
            .object(settings)
            .object(secret)
            .cluster_permission("a", json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] }));
        world.publish("catalog", &Catalog::chain(&[&a])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        for (kind, name) in [
            ("ServiceAccount", "a"),
            ("ConfigMap", "a-settings"),
            ("Secret", "a-secret"),
            ("Deployment", "a"),
        ] {
            world.get(kind, "ns", name).await?;
        }
        world.delete("Subscription", "ns", "a").await?;
        world.delete("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        clean(&world, &before).await
    });
}

/// CRDs stay, and so do the roles for their APIs and the roles that aggregate those.
fn goes_with_a_crd(difference: &str) -> bool {
    difference.contains("CustomResourceDefinition.")
        || difference.starts_with("+ APIService. ")
        || difference.contains("a.example.com")
        // Of the group, which stays.
        || difference.contains(" olm.og.")
        || difference.starts_with("~ ClusterRole.")
}

/// Waits until only CRDs and the roles for their APIs are left.
pub async fn clean(world: &World, before: &olm_tests::inprocess::Snapshot) -> Result<()> {
    world
        .eventually("nothing to be left", async || {
            let now = world.snapshot().await?;
            let left: Vec<String> = before
                .differences(&now)
                .into_iter()
                .filter(|d| !d.contains("CatalogSource.") && !goes_with_a_crd(d))
                .collect();
            ensure!(left.is_empty(), "left:\n  {}", left.join("\n  "));
            Ok(())
        })
        .await
}

/// IP-14, CRD-1: a CRD rejected by the API server is reported with its message.
#[test]
fn an_invalid_crd_is_reported() {
    scenario(async |world, _manager| {
        let mut bad = a_crd(&["v1"]);
        bad["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
            json!({ "type": "array" });
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(bad)])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let reported = world
            .eventually("a message that names the CRD", async || {
                let mut objects = world.list("InstallPlan", "ns").await?;
                objects.push(world.get("Subscription", "ns", "a").await?);
                let conditions = objects
                    .iter()
                    .flat_map(|o| o["status"]["conditions"].as_array().cloned().unwrap_or_default());
                let all: Vec<Value> = conditions.collect();
                let names = |c: &&Value| text(c, "/message").contains("as.a.example.com");
                all.iter().find(names).cloned().with_context(|| format!("{all:?}"))
            })
            .await?;
        ensure!(text(&reported, "/message").contains("items"), "{reported}");
        ensure!(world.find("ClusterServiceVersion", "ns", "a.v1.0.0").await?.is_none(), "half installed");
        world.publish("catalog", &Catalog::chain(&[&op("1.0.1").owns(a_crd(&["v1"]))])).await?;
        world.installed("ns", "a", "a.v1.0.1").await
    });
}

/// IP-15: generations count up however often the Subscription is recreated.
#[test]
fn generations_of_plans_count_up() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        for _ in 0..3 {
            world.subscribe("ns", "a").await?;
            world.installed("ns", "a", "a.v1.0.0").await?;
            let plans = world.list("InstallPlan", "ns").await?;
            let mut generations: Vec<i64> =
                plans.iter().filter_map(|p| p["spec"]["generation"].as_i64()).collect();
            generations.sort_unstable();
            generations.dedup();
            ensure!(generations.len() == plans.len(), "{generations:?}");
            world.delete("Subscription", "ns", "a").await?;
            world.gone("Subscription", "ns", "a").await?;
            world.delete("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
            world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        }
        Ok(())
    });
}

/// DEP-1, DYN-1: a missing kind is named; when it exists the install continues.
#[test]
fn a_kind_that_is_not_there_is_named() {
    scenario(async |world, _manager| {
        let monitor = json!({ "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": { "name": "a" },
            "spec": { "selector": {}, "endpoints": [] } });
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").object(monitor)])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world
            .eventually("a message that names the kind", async || {
                let mut objects = world.list("InstallPlan", "ns").await?;
                objects.push(world.get("Subscription", "ns", "a").await?);
                let all: Vec<Value> = objects.iter().map(|o| o["status"].clone()).collect();
                ensure!(all.iter().any(|s| s.to_string().contains("ServiceMonitor")), "{all:?}");
                Ok(())
            })
            .await?;
        world
            .apply(&olm_tests::inprocess::crd(
                "servicemonitors",
                "monitoring.coreos.com",
                "ServiceMonitor",
                &["v1"],
            ))
            .await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        Ok(())
    });
}

/// BUN-1
#[test]
fn bundles_bring_budgets_and_priority_classes() {
    scenario(async |world, _manager| {
        let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "a" },
            "spec": { "selector": { "matchLabels": { "app": "a" } }, "minAvailable": 1 } });
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "a-important" }, "value": 1000 });
        install(&world, &[&op("1.0.0").object(budget).object(class)]).await?;
        world.get("PodDisruptionBudget", "ns", "a").await?;
        world.get("PriorityClass", "", "a-important").await.map(drop)
    });
}

/// GC-4, GC-5: configuration is changed in place under the same name, and replaced under another.
#[test]
fn configuration_is_changed_in_place_or_replaced() {
    scenario(async |world, _manager| {
        let map = |name: &str, value: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": value } });
        let one = op("1.0.0").object(map("same", "1")).object(map("old", "1"));
        let two = op("2.0.0").object(map("same", "2")).object(map("new", "2"));
        install(&world, &[&one]).await?;
        let uid = world.get("ConfigMap", "ns", "same").await?["metadata"]["uid"].clone();
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("ConfigMap", "ns", "old").await?;
        world.quiet().await?;
        let same = world.get("ConfigMap", "ns", "same").await?;
        ensure!(same["metadata"]["uid"] == uid && same["data"]["a"] == "2", "{same}");
        world.get("ConfigMap", "ns", "new").await.map(drop)
    });
}
