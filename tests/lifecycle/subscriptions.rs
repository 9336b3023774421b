//! Subscriptions: the chosen version, its time, and the status.

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Catalog, OLM, Operator, World, condition, entry, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario, without_rights};

/// SUB-2, SUB-20
#[test]
fn a_subscription_becomes_a_running_operator() {
    scenario(async |world, _manager| {
        // given
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        // when
        world.subscribe("ns", "a").await?;
        // then
        world.installed("ns", "a", "a.v1.0.0").await?;
        let subscription = world.get("Subscription", "ns", "a").await?;
        for type_ in [
            "BundleUnpacking",
            "BundleUnpackFailed",
            "ResolutionFailed",
            "InstallPlanPending",
            "InstallPlanFailed",
        ] {
            ensure!(
                condition(&subscription, type_).is_none_or(|c| c["status"] != "True"),
                "{type_}: {subscription}"
            );
        }
        let plans = world.list("InstallPlan", "ns").await?;
        ensure!(plans.len() == 1 && plans[0]["status"]["phase"] == "Complete", "{plans:?}");
        Ok(())
    });
}

/// SUB-3
#[test]
fn a_version_that_is_there_already_is_upgraded() {
    scenario(async |world, _manager| {
        // given version 1, applied manually
        let (one, two) = (without_rights("1.0.0").owns(a_crd(&["v1"])), op("2.0.0").owns(a_crd(&["v1"])));
        world.home("ns").await?;
        by_hand(&world, "ns", &one).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        // when
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.subscribe("ns", "a").await?;
        // then
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        let csv = world.get("ClusterServiceVersion", "ns", "a.v2.0.0").await?;
        ensure!(text(&csv, "/spec/replaces") == "a.v1.0.0", "{}", csv["spec"]["replaces"]);
        Ok(())
    });
}

/// Manual installation without a catalog: the CRDs and the ClusterServiceVersion.
pub async fn by_hand(world: &World, namespace: &str, operator: &Operator) -> Result<()> {
    for object in operator.objects() {
        world.apply(object).await?;
    }
    world.apply(&operator.manifest(namespace)).await?;
    Ok(())
}

/// SUB-4
#[test]
fn a_skip_range_is_a_way_up() {
    scenario(async |world, _manager| {
        let (one, three) = (op("1.0.0"), op("3.0.0"));
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        // when the catalog has no edge but the range
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel("a", "stable", vec![entry(&three.name).skip_range(">=1.0.0 <3.0.0")])
            .bundle(&three);
        world.publish("catalog", &catalog).await?;
        // then
        world.installed("ns", "a", "a.v3.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await
    });
}

/// SUB-5
#[test]
fn a_manual_plan_waits_and_comes_again_when_it_is_deleted() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let pending =
            world.condition("Subscription", "ns", "a", "InstallPlanPending", "RequiresApproval").await?;
        ensure!(text(&pending, "/message").contains("approv"), "{pending}");
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "installed unasked");
        // when it is deleted
        world.delete("InstallPlan", "ns", text(&plan, "/metadata/name")).await?;
        // then it is recreated
        let again = world
            .eventually("a new plan", async || {
                let again = world.waiting_plan("ns", &[]).await?;
                ensure!(again["metadata"]["uid"] != plan["metadata"]["uid"], "the old one");
                Ok(again)
            })
            .await?;
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "installed unasked");
        world.approve("ns", text(&again, "/metadata/name")).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// SUB-6
#[test]
fn each_step_from_a_starting_version_is_a_separate_plan() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0").owns(a_crd(&["v1"])), op("2.0.0").owns(a_crd(&["v1"])));
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.home("ns").await?;
        world
            .subscribe_with("ns", "a", |spec| {
                spec["installPlanApproval"] = "Manual".into();
                spec["startingCSV"] = "a.v1.0.0".into();
            })
            .await?;
        // then one plan, for the first version alone
        let first = world.waiting_plan("ns", &[]).await?;
        ensure!(world.list("InstallPlan", "ns").await?.len() == 1);
        ensure!(first["spec"]["clusterServiceVersionNames"] == json!(["a.v1.0.0"]), "{}", first["spec"]);
        let planned = steps(&first);
        let kinds: Vec<&str> = planned.iter().map(|s| text(s, "/resource/kind")).collect();
        ensure!(
            kinds.contains(&"CustomResourceDefinition") && kinds.contains(&"ClusterServiceVersion"),
            "{kinds:?}"
        );
        let first = text(&first, "/metadata/name").to_owned();
        world.approve("ns", &first).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        // then the Subscription refers to the next one
        let second = world.waiting_plan("ns", &[&first]).await?;
        let second = text(&second, "/metadata/name").to_owned();
        world.until("Subscription", "ns", "a", |s| text(s, "/status/installPlanRef/name") == second).await?;
        world.approve("ns", &second).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let plans = world.names("InstallPlan", "ns").await?;
        ensure!(plans.len() == 2 && plans.contains(&first) && plans.contains(&second), "{plans:?}");
        Ok(())
    });
}

pub fn steps(plan: &Value) -> Vec<Value> {
    plan["status"]["plan"].as_array().cloned().unwrap_or_default()
}

/// SUB-7
#[test]
fn an_upgrade_goes_through_every_version_between() {
    scenario(async |world, _manager| {
        let versions: Vec<Operator> = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"].map(op).into();
        let all: Vec<&Operator> = versions.iter().collect();
        world.publish("catalog", &Catalog::chain(&all[..1])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&all)).await?;
        world.installed("ns", "a", "a.v1.3.0").await?;
        // then each in between had its plan, and all but the last are deleted
        for version in &versions[..3] {
            world.gone("ClusterServiceVersion", "ns", &version.name).await?;
        }
        let plans = world.list("InstallPlan", "ns").await?;
        let mut brought: Vec<&str> =
            plans.iter().map(|p| text(p, "/spec/clusterServiceVersionNames/0")).collect();
        brought.sort_unstable();
        ensure!(brought == ["a.v1.0.0", "a.v1.1.0", "a.v1.2.0", "a.v1.3.0"], "{brought:?}");
        Ok(())
    });
}

/// SUB-8: a manually created plan is refused, and the Subscription has its own with its own approval.
#[test]
fn a_plan_made_by_hand_is_not_carried_out() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.home("ns").await?;
        world
            .create(&json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
                "metadata": { "name": "install-mine", "namespace": "ns" },
                "spec": { "approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["a.v2.0.0"] },
            }))
            .await?;
        world
            .subscribe_with("ns", "a", |spec| {
                spec["installPlanApproval"] = "Manual".into();
                spec["startingCSV"] = "a.v1.0.0".into();
            })
            .await?;
        let mine = world
            .until("InstallPlan", "ns", "install-mine", |p| text(p, "/status/phase") == "Failed")
            .await?;
        let why = condition(&mine, "Installed").context("a condition")?;
        ensure!(why["reason"] == "PlanUnknown", "{why}");
        let plan = world.waiting_plan("ns", &[]).await?;
        world.approve("ns", text(&plan, "/metadata/name")).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let next = world.waiting_plan("ns", &[text(&plan, "/metadata/name")]).await?;
        ensure!(text(&next, "/spec/clusterServiceVersionNames/0") == "a.v2.0.0", "{}", next["spec"]);
        ensure!(next["spec"]["approved"] == false, "{}", next["spec"]);
        Ok(())
    });
}

/// SUB-9
#[test]
fn a_catalog_that_cannot_be_read_is_a_condition_and_no_state() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let source = |name: &str, spec: Value| {
            json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                    "metadata": { "name": name, "namespace": OLM }, "spec": spec })
        };
        world.apply(&source("odd", json!({ "sourceType": "floppy" }))).await?;
        world.apply(&source("grpc", json!({ "sourceType": "grpc" }))).await?;
        world.apply(&source("internal", json!({ "sourceType": "internal" }))).await?;
        world.apply(&source("configmap", json!({ "sourceType": "configmap", "configMap": "gone" }))).await?;
        for name in ["missing", "odd", "grpc", "internal", "configmap"] {
            let mut subscription = World::subscription("ns", "a");
            subscription["metadata"]["name"] = name.into();
            subscription["spec"]["source"] = name.into();
            subscription["spec"]["name"] = format!("package-{name}").into();
            world.apply(&subscription).await?;
        }
        for name in ["missing", "odd", "grpc", "internal", "configmap"] {
            let unhealthy =
                world.condition("Subscription", "ns", name, "CatalogSourcesUnhealthy", "").await?;
            ensure!(text(&unhealthy, "/message").contains(name), "{name}: {unhealthy}");
            let subscription = world.get("Subscription", "ns", name).await?;
            ensure!(text(&subscription, "/status/state").is_empty(), "{name}: {}", subscription["status"]);
        }
        Ok(())
    });
}

/// SUB-10: a plan's phase is derived from the existing objects, so a manually written one does not last; that
/// the Subscription shows the plan's phase is tested with plans in it.
#[test]
fn the_subscription_reports_the_state_of_its_plan() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let name = text(&plan, "/metadata/name");
        world.condition("Subscription", "ns", "a", "InstallPlanPending", "RequiresApproval").await?;
        // when the plan's status is set to failed, without conditions, then with one
        world
            .patch_status(
                "InstallPlan",
                "ns",
                name,
                &json!({ "status": { "phase": "Failed", "conditions": null } }),
            )
            .await?;
        // then it is applied again, since nothing blocks it
        world
            .eventually("the plan to wait again", async || {
                let now = world.waiting_plan("ns", &[]).await?;
                ensure!(now["metadata"]["uid"] != plan["metadata"]["uid"], "still the old one");
                Ok(())
            })
            .await?;
        world.condition("Subscription", "ns", "a", "InstallPlanPending", "RequiresApproval").await.map(drop)
    });
}

/// SUB-11
#[test]
fn the_subscriptions_settings_reach_the_deployment() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        let toleration = json!({ "key": "nice", "operator": "Exists" });
        let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] });
        let affinity = json!({ "nodeAffinity":
            { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": term }] } });
        world
            .subscribe_with("ns", "a", |spec| {
                spec["config"] = json!({
                    "env": [{ "name": "LEVEL", "value": "9" }],
                    "envFrom": [{ "configMapRef": { "name": "settings" } }],
                    "volumes": [{ "name": "extra", "emptyDir": {} }],
                    "volumeMounts": [{ "name": "extra", "mountPath": "/extra" }],
                    "tolerations": [toleration], "nodeSelector": { "kind": "fast" },
                    "resources": { "requests": { "cpu": "10m" } },
                    "annotations": { "note": "mine" }, "affinity": affinity,
                });
            })
            .await?;
        // No node has the label: the pod stays unscheduled, and only the Deployment is checked.
        let deployment =
            world.eventually("the Deployment", async || world.get("Deployment", "ns", "a").await).await?;
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let has = |list: &Value, wanted: &Value| list.as_array().is_some_and(|l| l.contains(wanted));
        ensure!(has(&container["env"], &json!({ "name": "LEVEL", "value": "9" })), "{container}");
        ensure!(
            has(&container["envFrom"], &json!({ "configMapRef": { "name": "settings" } })),
            "{container}"
        );
        ensure!(
            has(&container["volumeMounts"], &json!({ "name": "extra", "mountPath": "/extra" })),
            "{container}"
        );
        ensure!(container["resources"]["requests"]["cpu"] == "10m", "{container}");
        ensure!(has(&pod["tolerations"], &toleration) && pod["nodeSelector"]["kind"] == "fast", "{pod}");
        ensure!(pod["affinity"] == affinity, "{pod}");
        ensure!(pod["volumes"].as_array().is_some_and(|v| v.iter().any(|v| v["name"] == "extra")), "{pod}");
        ensure!(deployment["spec"]["template"]["metadata"]["annotations"]["note"] == "mine", "{deployment}");
        // when the selector is removed, it is installed
        world
            .patch("Subscription", "ns", "a", &json!({ "spec": { "config": { "nodeSelector": null } } }))
            .await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// SUB-17
#[test]
fn a_version_applied_by_hand_is_not_installed_twice() {
    scenario(async |world, _manager| {
        let a = without_rights("1.0.0").owns(a_crd(&["v1"]));
        world.home("ns").await?;
        by_hand(&world, "ns", &a).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let uid = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?["metadata"]["uid"].clone();
        world.publish("catalog", &Catalog::chain(&[&a])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let csvs = world.list("ClusterServiceVersion", "ns").await?;
        ensure!(csvs.len() == 1 && csvs[0]["metadata"]["uid"] == uid, "{}", csvs.len());
        Ok(())
    });
}

/// SUB-18
#[test]
fn without_a_channel_it_is_the_default_one() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0"), op("2.0.0"));
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel("a", "alpha", vec![entry(&two.name)])
            .channel("a", "stable", vec![entry(&one.name)])
            .bundle(&one)
            .bundle(&two);
        world.publish("catalog", &catalog).await?;
        world.home("ns").await?;
        world
            .subscribe_with("ns", "a", |spec| drop(spec.as_object_mut().map(|s| s.remove("channel"))))
            .await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// SUB-21, CAT-13: an invalid bundle is reported with the field, and the next catalog fixes it.
#[test]
fn an_invalid_bundle_is_reported_until_the_catalog_is_fixed() {
    scenario(async |world, _manager| {
        let broken = op("1.0.0").csv(|csv| drop(csv.as_object_mut().map(|c| c.remove("apiVersion"))));
        world.publish("catalog", &Catalog::chain(&[&broken])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let reported = world
            .eventually("a condition with the cause", async || {
                let subscription = world.get("Subscription", "ns", "a").await?;
                let conditions = subscription["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let matches =
                    |c: &&Value| c["status"] == "True" && text(c, "/message").contains("apiVersion");
                conditions.iter().find(matches).cloned().with_context(|| format!("{conditions:?}"))
            })
            .await?;
        ensure!(["BundleUnpackFailed", "ResolutionFailed"].contains(&text(&reported, "/type")), "{reported}");
        world.publish("catalog", &Catalog::chain(&[&op("1.0.1")])).await?;
        world.installed("ns", "a", "a.v1.0.1").await
    });
}

/// SUB-22: there is no time-out of a Job: the registry's answer is immediate.
#[test]
fn a_missing_image_is_reported() {
    scenario(async |world, _manager| {
        // A port without a listener.
        let bundle = json!({ "schema": "olm.bundle", "package": "a", "name": "a.v1.0.0", "image": "127.0.0.1:1/a/bundle:gone",
            "properties": [{ "type": "olm.package", "value": { "packageName": "a", "version": "1.0.0" } }] });
        let catalog = Catalog::new()
            .package("a", "stable")
            .channel("a", "stable", vec![entry("a.v1.0.0")])
            .document(bundle);
        world.publish("catalog", &catalog).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let reported = world
            .eventually("a condition that names the image", async || {
                let subscription = world.get("Subscription", "ns", "a").await?;
                let conditions = subscription["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let matches = |c: &&Value| {
                    c["status"] == "True" && text(c, "/message").contains("127.0.0.1:1/a/bundle:gone")
                };
                conditions.iter().find(matches).cloned().with_context(|| format!("{conditions:?}"))
            })
            .await?;
        ensure!(["BundleUnpackFailed", "ResolutionFailed"].contains(&text(&reported, "/type")), "{reported}");
        // when the catalog has the manifests themselves
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// SUB-23
#[test]
fn deprecations_are_conditions_and_go_when_they_are_lifted() {
    scenario(async |world, _manager| {
        let plain = Catalog::chain(&[&op("1.0.0")]);
        let deprecated = plain.clone().deprecated(
            "a",
            &[
                ("package", "use b"),
                ("channel stable", "use candidate"),
                ("bundle a.v1.0.0", "it has a hole"),
            ],
        );
        world.publish("catalog", &deprecated).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        for (type_, words) in [
            ("PackageDeprecated", "use b"),
            ("ChannelDeprecated", "use candidate"),
            ("BundleDeprecated", "it has a hole"),
        ] {
            let reported = world.condition("Subscription", "ns", "a", type_, "").await?;
            ensure!(text(&reported, "/message").contains(words), "{reported}");
        }
        world.condition("Subscription", "ns", "a", "Deprecated", "").await?;
        world.publish("catalog", &plain).await?;
        world
            .until("Subscription", "ns", "a", |s| {
                ["PackageDeprecated", "ChannelDeprecated", "BundleDeprecated", "Deprecated"]
                    .iter()
                    .all(|type_| condition(s, type_).is_none_or(|c| c["status"] != "True"))
            })
            .await
            .map(drop)
    });
}

/// SUB-25
#[test]
fn a_subscription_follows_a_package_under_its_new_name() {
    scenario(async |world, _manager| {
        let one = Operator::new("package1", "1.0.0").owns(a_crd(&["v1"]));
        let two = Operator::new("package2", "1.0.0")
            .owns(a_crd(&["v1"]))
            .csv(|csv| csv["spec"]["replaces"] = "package1.v1.0.0".into());
        let catalog = Catalog::chain(&[&one])
            .package("package2", "stable")
            .channel("package2", "stable", vec![entry(&two.name).replaces(&one.name)])
            .bundle(&two);
        world.publish("catalog", &catalog).await?;
        world.home("ns").await?;
        world.subscribe("ns", "package1").await?;
        world.installed("ns", "package1", "package1.v1.0.0").await?;
        world.patch("Subscription", "ns", "package1", &json!({ "spec": { "name": "package2" } })).await?;
        world.installed("ns", "package1", "package2.v1.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "package1.v1.0.0").await
    });
}
