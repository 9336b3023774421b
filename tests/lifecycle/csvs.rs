//! ClusterServiceVersions: their requirements, their Deployments, and upgrades from one to the next.

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Catalog, Operator, World, condition, crd, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario, without_rights};

fn requirement<'a>(csv: &'a Value, kind: &str, name: &str) -> Option<&'a Value> {
    let all = csv["status"]["requirementStatus"].as_array()?;
    all.iter().find(|r| r["kind"] == kind && r["name"] == name)
}

/// Waits for the status of a requirement of a version, and for its phase.
async fn unmet(world: &World, csv: &str, phase: &str, kind: &str, name: &str, status: &str) -> Result<Value> {
    world
        .until("ClusterServiceVersion", "ns", csv, |c| {
            text(c, "/status/phase") == phase
                && requirement(c, kind, name).is_some_and(|r| r["status"] == status)
        })
        .await
}

/// CSV-1: a preexisting CRD counts, owned or only required, of an operator of any namespace.
#[test]
fn a_crd_that_is_there_already_will_do() {
    scenario(async |world, _manager| {
        world.apply(&a_crd(&["v1"])).await?;
        world.home("ns").await?;
        world.apply(&without_rights("1.0.0").owns(a_crd(&["v1"])).manifest("ns")).await?;
        let user = Operator::new("b", "1.0.0").csv(no_rights).needs("as", "a.example.com", "A", "v1");
        world.apply(&user.manifest("ns")).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.csv("ns", "b.v1.0.0", "Succeeded").await?;
        // and in another namespace
        world.home("other").await?;
        world.apply(&user.manifest("other")).await?;
        world.csv("other", "b.v1.0.0", "Succeeded").await.map(drop)
    });
}

pub fn no_rights(csv: &mut Value) {
    csv["spec"]["install"]["spec"]["permissions"] = json!([]);
    for deployment in csv["spec"]["install"]["spec"]["deployments"].as_array_mut().into_iter().flatten() {
        if let Some(pod) = deployment["spec"]["template"]["spec"].as_object_mut() {
            pod.remove("serviceAccountName");
        }
    }
}

/// CSV-2
#[test]
fn one_pod_of_two_is_enough_where_one_may_be_missing() {
    scenario(async |world, _manager| {
        let a = op("1.0.0").csv(|csv| {
            let spec = &mut csv["spec"]["install"]["spec"]["deployments"][0]["spec"];
            spec["replicas"] = 2.into();
            spec["strategy"] =
                json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 1 } });
        });
        world.publish("catalog", &Catalog::chain(&[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        // when one pod is deleted and not replaced
        world.patch("Node", "", "olm-node", &json!({ "spec": { "unschedulable": true } })).await?;
        let pods = world.names("Pod", "ns").await?;
        world.delete("Pod", "ns", pods.first().context("a pod")?).await?;
        world.until("Deployment", "ns", "a", |d| d["status"]["availableReplicas"] == 1).await?;
        world.quiet().await?;
        let csv = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        ensure!(text(&csv, "/status/phase") == "Succeeded", "{}", csv["status"]);
        Ok(())
    });
}

/// CSV-4
#[test]
fn an_existing_service_account_is_used() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a", "namespace": "ns", "labels": { "mine": "yes" } } });
        world.apply(&account).await?;
        let uid = world.get("ServiceAccount", "ns", "a").await?["metadata"]["uid"].clone();
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let account = world.get("ServiceAccount", "ns", "a").await?;
        ensure!(
            account["metadata"]["uid"] == uid && account["metadata"]["labels"]["mine"] == "yes",
            "{account}"
        );
        Ok(())
    });
}

/// CSV-5: each missing requirement is named, and the version continues when it exists.
#[test]
fn what_is_missing_is_named_and_waited_for() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        // A CRD.
        let a = without_rights("1.0.0").owns(a_crd(&["v1"]));
        world.apply(&a.manifest("ns")).await?;
        unmet(&world, "a.v1.0.0", "Pending", "CustomResourceDefinition", "as.a.example.com", "NotPresent")
            .await?;
        world.event("ns", "a.v1.0.0", "RequirementsNotMet").await?;
        world.apply(&a_crd(&["v1"])).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        // An account and its rights, under any names.
        let b = Operator::new("b", "1.0.0");
        world.apply(&b.manifest("ns")).await?;
        unmet(&world, "b.v1.0.0", "Pending", "ServiceAccount", "b", "NotPresent").await?;
        world.apply(&json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "b", "namespace": "ns" } })).await?;
        unmet(&world, "b.v1.0.0", "Pending", "ServiceAccount", "b", "PresentNotSatisfied").await?;
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "mine", "namespace": "ns" },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }] });
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "mine", "namespace": "ns" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mine" },
            "subjects": [{ "kind": "ServiceAccount", "name": "b", "namespace": "ns" }] });
        world.apply(&role).await?;
        world.apply(&binding).await?;
        world.csv("ns", "b.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// CSV-5: a Kubernetes that is too old.
#[test]
fn a_kubernetes_that_is_too_old_is_named() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let a = without_rights("1.0.0").csv(|csv| csv["spec"]["minKubeVersion"] = "9.9.9".into());
        world.apply(&a.manifest("ns")).await?;
        let csv = world
            .until("ClusterServiceVersion", "ns", "a.v1.0.0", |c| {
                text(c, "/status/phase") == "Pending" && text(c, "/status/reason") == "RequirementsNotMet"
            })
            .await?;
        let all = csv["status"]["requirementStatus"].to_string();
        ensure!(all.contains("9.9.9"), "{all}");
        world
            .patch(
                "ClusterServiceVersion",
                "ns",
                "a.v1.0.0",
                &json!({ "spec": { "minKubeVersion": "1.0.0" } }),
            )
            .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// CSV-5: a native API that exists, and one that does not.
#[test]
fn a_native_api_that_is_missing_is_named() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let api = |group: &str, version: &str, kind: &str| json!([{ "group": group, "version": version, "kind": kind }]);
        let there =
            without_rights("1.0.0").csv(|csv| csv["spec"]["nativeAPIs"] = api("apps", "v1", "Deployment"));
        world.apply(&there.manifest("ns")).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let gone = Operator::new("b", "1.0.0")
            .csv(no_rights)
            .csv(|csv| csv["spec"]["nativeAPIs"] = api("kenobi.coreos.com", "v1", "Robe"));
        world.apply(&gone.manifest("ns")).await?;
        let csv = world.csv("ns", "b.v1.0.0", "Pending").await?;
        ensure!(csv["status"]["requirementStatus"].to_string().contains("Robe"), "{}", csv["status"]);
        Ok(())
    });
}

/// CSV-7
#[test]
fn the_versions_annotations_reach_the_pods() {
    scenario(async |world, _manager| {
        let a = op("1.0.0").csv(|csv| {
            csv["metadata"]["annotations"]["both"] = "csv".into();
            let template = &mut csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"];
            template["metadata"]["annotations"] = json!({ "both": "pod", "own": "pod" });
        });
        world.publish("catalog", &Catalog::chain(&[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let deployment = world.get("Deployment", "ns", "a").await?;
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        ensure!(annotations["both"] == "csv" && annotations["own"] == "pod", "{annotations}");
        for (key, value) in
            [("olm.operatorGroup", "own"), ("olm.operatorNamespace", "ns"), ("olm.targetNamespaces", "ns")]
        {
            ensure!(annotations[key] == value, "{key}: {annotations}");
        }
        Ok(())
    });
}

/// CSV-8
#[test]
fn deployments_have_the_labels_of_the_bundle_and_of_olm() {
    scenario(async |world, _manager| {
        let a = op("1.0.0").csv(|csv| {
            csv["spec"]["install"]["spec"]["deployments"][0]["label"] = json!({ "application": "nginx" })
        });
        world.publish("catalog", &Catalog::chain(&[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let deployment = world.get("Deployment", "ns", "a").await?;
        let labels = &deployment["metadata"]["labels"];
        let wanted = [
            ("application", "nginx"),
            ("olm.owner", "a.v1.0.0"),
            ("olm.owner.namespace", "ns"),
            ("olm.owner.kind", "ClusterServiceVersion"),
            ("olm.managed", "true"),
        ];
        for (key, value) in wanted {
            ensure!(labels[key] == value, "{key}: {labels}");
        }
        ensure!(labels["olm.deployment-spec-hash"].is_string(), "{labels}");
        let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
        ensure!(
            env.as_array().is_some_and(
                |e| e.contains(&json!({ "name": "OPERATOR_CONDITION_NAME", "value": "a.v1.0.0" }))
            ),
            "{env}"
        );
        Ok(())
    });
}

/// CSV-9: the same Deployment is changed in place; the old version is deleted only when the new one runs.
#[test]
fn an_upgrade_changes_the_deployment_in_place() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let before = world.get("Deployment", "ns", "a").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.quiet().await?;
        let after = world.get("Deployment", "ns", "a").await?;
        ensure!(before["metadata"]["uid"] == after["metadata"]["uid"], "it was made anew");
        let image = text(&after, "/spec/template/spec/containers/0/image");
        ensure!(image == "example.invalid/a:2.0.0", "{image}");
        let owners = after["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        ensure!(owners.len() == 1 && owners[0]["name"] == "a.v2.0.0", "{owners:?}");
        Ok(())
    });
}

/// CSV-9: a Deployment under another name replaces the old one.
#[test]
fn a_deployment_under_a_new_name_replaces_the_old_one() {
    scenario(async |world, _manager| {
        let two = op("2.0.0").deployment_name("a-renamed");
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("Deployment", "ns", "a").await?;
        ensure!(world.names("Deployment", "ns").await? == ["a-renamed"]);
        Ok(())
    });
}

/// CSV-9: an edit of the installed version itself is applied, a new image as well as a new name.
#[test]
fn an_edit_of_the_installed_version_is_carried_out() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let mut deployments = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?["spec"]["install"]
            ["spec"]["deployments"]
            .clone();
        deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"] =
            "example.invalid/a:hotfix".into();
        let patch = |deployments: &Value| json!({ "spec": { "install": { "spec": { "deployments": deployments } } } });
        world.patch("ClusterServiceVersion", "ns", "a.v1.0.0", &patch(&deployments)).await?;
        world
            .until("Deployment", "ns", "a", |d| {
                text(d, "/spec/template/spec/containers/0/image") == "example.invalid/a:hotfix"
                    && d["status"]["availableReplicas"] == 1
            })
            .await?;
        deployments[0]["name"] = "a-renamed".into();
        world.patch("ClusterServiceVersion", "ns", "a.v1.0.0", &patch(&deployments)).await?;
        world.until("Deployment", "ns", "a-renamed", |d| d["status"]["availableReplicas"] == 1).await?;
        world.gone("Deployment", "ns", "a").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// CSV-9: a CRD gets an additional version.
#[test]
fn an_upgrade_adds_a_version_to_its_crd() {
    scenario(async |world, _manager| {
        let (one, two) = (op("1.0.0").owns(a_crd(&["v1"])), op("2.0.0").owns(a_crd(&["v1", "v2"])));
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let crd = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        let served: Vec<&str> =
            crd["spec"]["versions"].as_array().into_iter().flatten().map(|v| text(v, "/name")).collect();
        ensure!(served == ["v1", "v2"], "{served:?}");
        Ok(())
    });
}

/// CSV-10
#[test]
fn the_steps_to_success_are_reported_in_events() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        world.apply(&without_rights("1.0.0").owns(a_crd(&["v1"])).manifest("ns")).await?;
        world.event("ns", "a.v1.0.0", "RequirementsNotMet").await?;
        world.apply(&a_crd(&["v1"])).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.event("ns", "a.v1.0.0", "InstallSucceeded").await?;
        world.event("ns", "a.v1.0.0", "AllRequirementsMet").await.map(drop)
    });
}

/// CSV-11
#[test]
fn a_version_that_cannot_run_reports_why() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let strange = without_rights("1.0.0").csv(|csv| csv["spec"]["install"]["strategy"] = "magic".into());
        world.apply(&strange.manifest("ns")).await?;
        let csv = world.csv("ns", "a.v1.0.0", "Failed").await?;
        ensure!(text(&csv, "/status/message").contains("magic"), "{}", csv["status"]);
        ensure!(text(&csv, "/status/reason") == "InvalidStrategy", "{}", csv["status"]);
        Ok(())
    });
}

/// A manual change of a Deployment is reverted, and a deleted one is recreated.
#[test]
fn drift_of_a_deployment_is_corrected() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.patch("Deployment", "ns", "a", &json!({ "spec": { "replicas": 3 } })).await?;
        world
            .until("Deployment", "ns", "a", |d| d["spec"]["replicas"] == 1 && d["status"]["replicas"] == 1)
            .await?;
        world.delete("Deployment", "ns", "a").await?;
        world.until("Deployment", "ns", "a", |d| d["status"]["availableReplicas"] == 1).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// Table 9.2: Succeeded → Failed when the CRD is deleted, and back when it exists again.
#[test]
fn a_version_whose_crd_goes_fails_until_it_is_back() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.delete("CustomResourceDefinition", "", "as.a.example.com").await?;
        unmet(&world, "a.v1.0.0", "Failed", "CustomResourceDefinition", "as.a.example.com", "NotPresent")
            .await?;
        world.apply(&a_crd(&["v1"])).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// OC-1
#[test]
fn an_operator_that_is_busy_is_not_replaced() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let upgradeable = |status: &str, generation: i64| {
            json!({ "spec": { "conditions": [{ "type": "Upgradeable", "status": status, "reason": "Busy", "message": "compacting",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation }] } })
        };
        let condition_of = "OperatorCondition";
        world.until(condition_of, "ns", "a.v1.0.0", |_| true).await?;
        // The operator reports for the generation that its own write creates.
        let generation =
            world.get(condition_of, "ns", "a.v1.0.0").await?["metadata"]["generation"].as_i64().unwrap_or(1);
        world.patch(condition_of, "ns", "a.v1.0.0", &upgradeable("False", generation + 1)).await?;
        world.quiet().await?;
        let snapshot = world.snapshot().await?;
        let owns_b = op("2.0.0").owns(crd("bs", "b.example.com", "B", &["v1"]));
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &owns_b])).await?;
        let reported = world
            .condition("Subscription", "ns", "a", "InstallPlanPending", "OperatorConditionNotUpgradeable")
            .await?;
        ensure!(text(&reported, "/message").contains("compacting"), "{reported}");
        world.quiet().await?;
        // then nothing was changed, not even CRDs
        let changed: Vec<String> = snapshot
            .differences(&world.snapshot().await?)
            .into_iter()
            .filter(|d| !d.contains("CatalogSource") && !d.contains("Subscription."))
            .collect();
        ensure!(changed.is_empty(), "{changed:?}");
        // a report for an older generation does not count
        world.patch(condition_of, "ns", "a.v1.0.0", &upgradeable("True", generation)).await?;
        world.quiet().await?;
        ensure!(
            world.find("ClusterServiceVersion", "ns", "a.v2.0.0").await?.is_none(),
            "an outdated yes was taken"
        );
        // the administrator's override counts
        let over = json!({ "spec": { "overrides": [{ "type": "Upgradeable", "status": "True", "reason": "Admin", "message": "now",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
        world.patch(condition_of, "ns", "a.v1.0.0", &over).await?;
        world.installed("ns", "a", "a.v2.0.0").await
    });
}

/// The version reports every phase in its conditions.
#[test]
fn kubectl_sees_phase_and_reason_of_each_step() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let csv = world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let phases: Vec<&str> =
            csv["status"]["conditions"].as_array().into_iter().flatten().map(|c| text(c, "/phase")).collect();
        ensure!(phases.contains(&"Installing") && phases.last() == Some(&"Succeeded"), "{phases:?}");
        ensure!(condition(&csv, "nothing").is_none());
        Ok(())
    });
}
