//! OperatorGroups: watched namespaces, and the rights of an installation.

use anyhow::{Context as _, Result, ensure};
use olm_ops::{Error, InstallRequest, InstallResult, WatchScope};
use olm_tests::inprocess::{Call, Catalog, Fault, OLM, World, condition, crd, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario, without_rights};

async fn labelled(world: &World, name: &str, label: &str) -> Result<()> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": { label: "yes" } } });
    world.apply(&namespace).await.map(drop)
}

fn group(namespace: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": name, "namespace": namespace }, "spec": spec })
}

async fn targets(world: &World, wanted: &str) -> Result<()> {
    world
        .until("Deployment", "ns", "a", |d| {
            text(d, "/spec/template/metadata/annotations/olm.targetNamespaces") == wanted
                && d["status"]["availableReplicas"] == 1
        })
        .await
        .map(drop)
}

/// OG-1: namespaces by label, in the status, on the pods, and with rights in each.
#[test]
fn a_group_selects_namespaces_by_label() {
    scenario(async |world, _manager| {
        for name in ["one", "two"] {
            labelled(&world, name, "team").await?;
        }
        world.namespace("ns").await?;
        world.apply(&group("ns", "own", json!({ "selector": { "matchLabels": { "team": "yes" } } }))).await?;
        world
            .until("OperatorGroup", "ns", "own", |g| g["status"]["namespaces"] == json!(["one", "two"]))
            .await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        targets(&world, "one,two").await?;
        for name in ["one", "two"] {
            let roles = world.list("RoleBinding", name).await?;
            let bound = |r: &&Value| r["subjects"][0]["name"] == "a" && r["subjects"][0]["namespace"] == "ns";
            ensure!(roles.iter().any(|r| bound(&r)), "no rights in {name}: {roles:?}");
        }
        let csv = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        ensure!(csv["metadata"]["annotations"]["olm.targetNamespaces"] == "one,two", "{}", csv["metadata"]);
        // No copies: they burden users.
        ensure!(world.list("ClusterServiceVersion", "one").await?.is_empty());
        // when the version is removed, its rights are deleted everywhere
        world.delete("Subscription", "ns", "a").await?;
        world.delete("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        for name in ["one", "two"] {
            world
                .eventually("the rights to be gone", async || {
                    let left = world.list("RoleBinding", name).await?;
                    let ours: Vec<&Value> = left.iter().filter(|r| r["subjects"][0]["name"] == "a").collect();
                    ensure!(ours.is_empty(), "{ours:?}");
                    Ok(())
                })
                .await?;
        }
        Ok(())
    });
}

/// OG-2: roles for admins, editors and viewers of each API that operators provide.
#[test]
fn apis_are_in_the_roles_of_admins_editors_and_viewers() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        for (role, verb) in [("admin", "*"), ("edit", "create"), ("view", "get")] {
            let name = format!("as.a.example.com-v1-{role}");
            let found = world.eventually(&name, async || world.get("ClusterRole", "", &name).await).await?;
            let rules = found["rules"].to_string();
            ensure!(rules.contains("a.example.com") && rules.contains(verb), "{name}: {rules}");
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
            ensure!(found["metadata"]["labels"][label.as_str()] == "true", "{}", found["metadata"]["labels"]);
        }
        Ok(())
    });
}

/// OG-3: an unsupported install mode is reported, and cleared when group or version change.
#[test]
fn an_unsupported_install_mode_is_reported() {
    scenario(async |world, _manager| {
        world.namespace("ns").await?;
        world.namespace("other").await?;
        world.group("ns", &["ns"]).await?;
        let a = without_rights("1.0.0").modes(&["AllNamespaces"]);
        world.apply(&a.manifest("ns")).await?;
        let reported = |c: &Value| {
            text(c, "/status/phase") == "Failed" && text(c, "/status/reason") == "UnsupportedOperatorGroup"
        };
        let csv = world.until("ClusterServiceVersion", "ns", "a.v1.0.0", reported).await?;
        ensure!(text(&csv, "/status/message").contains("supports AllNamespaces"), "{}", csv["status"]);
        // the group changes
        world.patch("OperatorGroup", "ns", "own", &json!({ "spec": { "targetNamespaces": null } })).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        // and reverted, and several
        world
            .patch("OperatorGroup", "ns", "own", &json!({ "spec": { "targetNamespaces": ["ns", "other"] } }))
            .await?;
        let csv = world.until("ClusterServiceVersion", "ns", "a.v1.0.0", reported).await?;
        ensure!(text(&csv, "/status/message").contains("supports AllNamespaces"), "{}", csv["status"]);
        // the version changes
        let wide = without_rights("1.0.0").manifest("ns");
        world
            .patch(
                "ClusterServiceVersion",
                "ns",
                "a.v1.0.0",
                &json!({ "spec": { "installModes": wide["spec"]["installModes"] } }),
            )
            .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// The same for a Subscription: the plan is refused before anything is done.
#[test]
fn a_plan_for_an_unsupported_install_mode_is_refused() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").modes(&["AllNamespaces"])])).await?;
        world.subscribe("ns", "a").await?;
        let failed =
            world.condition("Subscription", "ns", "a", "ResolutionFailed", "UnsupportedInstallMode").await?;
        ensure!(text(&failed, "/message").contains("own"), "{failed}");
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty());
        world.patch("OperatorGroup", "ns", "own", &json!({ "spec": { "targetNamespaces": null } })).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// OG-4: two operators that provide the same API to the same namespaces.
#[test]
fn two_groups_that_meet_with_the_same_api_conflict() {
    scenario(async |world, _manager| {
        for name in ["one", "two"] {
            world.namespace(name).await?;
        }
        world.group("one", &["one", "two"]).await?;
        world.group("two", &["two"]).await?;
        world.apply(&a_crd(&["v1"])).await?;
        let first = without_rights("1.0.0").owns(a_crd(&["v1"]));
        world.apply(&first.manifest("one")).await?;
        world.csv("one", "a.v1.0.0", "Succeeded").await?;
        world
            .until("OperatorGroup", "one", "own", |g| {
                text(g, "/metadata/annotations/olm.providedAPIs") == "A.v1.a.example.com"
            })
            .await?;
        world.apply(&first.manifest("two")).await?;
        world
            .until("ClusterServiceVersion", "two", "a.v1.0.0", |c| {
                text(c, "/status/phase") == "Failed"
                    && text(c, "/status/reason") == "InterOperatorGroupOwnerConflict"
            })
            .await?;
        // when the first is removed
        world.delete("ClusterServiceVersion", "one", "a.v1.0.0").await?;
        world.csv("two", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// OG-5
#[test]
fn a_static_group_takes_no_new_apis() {
    scenario(async |world, _manager| {
        world.namespace("ns").await?;
        world
            .apply(&group("ns", "own", json!({ "targetNamespaces": ["ns"], "staticProvidedAPIs": true })))
            .await?;
        world.apply(&a_crd(&["v1"])).await?;
        world.apply(&without_rights("1.0.0").owns(a_crd(&["v1"])).manifest("ns")).await?;
        world
            .until("ClusterServiceVersion", "ns", "a.v1.0.0", |c| {
                text(c, "/status/phase") == "Failed"
                    && text(c, "/status/reason") == "CannotModifyStaticOperatorGroupProvidedAPIs"
            })
            .await?;
        world
            .patch("OperatorGroup", "ns", "own", &json!({ "spec": { "staticProvidedAPIs": false } }))
            .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// OG-6: all namespaces need cluster-wide rights; a smaller group revokes them.
#[test]
fn all_namespaces_are_rights_of_the_cluster_until_the_group_is_smaller() {
    scenario(async |world, _manager| {
        world.namespace("ns").await?;
        world.group("ns", &[]).await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        targets(&world, "").await?;
        let bound = async |kind: &str, namespace: &str| -> Result<usize> {
            let all = world.list(kind, namespace).await?;
            let ours = |b: &&Value| {
                b["subjects"][0]["name"] == "a"
                    && b["metadata"]["labels"]["olm.owner"] == "a.v1.0.0"
                    && b["metadata"]["name"] != "a.v1.0.0"
            };
            Ok(all.iter().filter(ours).count())
        };
        ensure!(bound("ClusterRoleBinding", "").await? > 0, "no right of the cluster");
        world.patch("OperatorGroup", "ns", "own", &json!({ "spec": { "targetNamespaces": ["ns"] } })).await?;
        targets(&world, "ns").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world
            .eventually("the rights to be those of the namespace", async || {
                let (cluster, own) =
                    (bound("ClusterRoleBinding", "").await?, bound("RoleBinding", "ns").await?);
                ensure!(cluster == 0 && own > 0, "{cluster} in the cluster, {own} in the namespace");
                Ok(())
            })
            .await
    });
}

/// OG-8: a wrong annotation on a foreign version is corrected.
#[test]
fn a_wrong_annotation_of_the_group_is_corrected() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let a = without_rights("1.0.0").csv(|csv| {
            csv["metadata"]["annotations"] =
                json!({ "olm.operatorNamespace": "elsewhere", "olm.operatorGroup": "other" });
        });
        world.create(&a.manifest("ns")).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world
            .until("ClusterServiceVersion", "ns", "a.v1.0.0", |c| {
                text(c, "/metadata/annotations/olm.operatorNamespace") == "ns"
                    && text(c, "/metadata/annotations/olm.operatorGroup") == "own"
            })
            .await
            .map(drop)
    });
}

/// OG-9
#[test]
fn namespaces_are_labelled_by_the_groups_that_watch_them() {
    scenario(async |world, _manager| {
        labelled(&world, "one", "team").await?;
        world.namespace("two").await?;
        world.namespace("ns").await?;
        world.apply(&group("ns", "own", json!({ "selector": { "matchLabels": { "team": "yes" } } }))).await?;
        let found = world.get("OperatorGroup", "ns", "own").await?;
        let label = format!("olm.operatorgroup.uid/{}", text(&found, "/metadata/uid"));
        let has = |n: &Value| n["metadata"]["labels"].get(label.as_str()).is_some();
        world.until("Namespace", "", "one", has).await?;
        world
            .patch(
                "OperatorGroup",
                "ns",
                "own",
                &json!({ "spec": { "selector": null, "targetNamespaces": ["two"] } }),
            )
            .await?;
        world.until("Namespace", "", "two", has).await?;
        world.until("Namespace", "", "one", |n| !has(n)).await?;
        world.delete("OperatorGroup", "ns", "own").await?;
        world.until("Namespace", "", "two", |n| !has(n)).await.map(drop)
    });
}

async fn group_labels(world: &World, namespace: &str) -> Result<Vec<String>> {
    let namespace = world.get("Namespace", "", namespace).await?;
    let labels = namespace["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    Ok(labels
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| key.starts_with("olm.operatorgroup.uid/"))
        .collect())
}

/// OG-9: a group deleted while the label is on its way to a namespace, or while there is no manager, leaves
/// no label behind.
#[test]
fn a_group_that_goes_in_the_meantime_leaves_no_label() {
    scenario(async |world, manager| {
        let labels = |call: &Call| call.method == "PATCH" && call.path == "/api/v1/namespaces/two";
        world.namespace("two").await?;
        world.namespace("ns").await?;
        // given a label on its way
        world.faults.add(Fault::Held, 1, labels);
        world.group("ns", &["two"]).await?;
        world
            .eventually("the label to be on its way", async || {
                ensure!(world.faults.calls().iter().any(labels));
                Ok(())
            })
            .await?;
        // when its group is deleted, and the cleanup has found no label
        let from = world.faults.count();
        world.delete("OperatorGroup", "ns", "own").await?;
        world
            .eventually("a look for labels", async || {
                let calls = world.faults.calls();
                // For the labels of this group, or, where its watch started after that, for those of all.
                let looked = |call: &Call| {
                    call.path == "/api/v1/namespaces"
                        && (call.query.is_empty() || call.query.contains("olm.operatorgroup.uid"))
                        && call.status == Some(200)
                };
                ensure!(calls.iter().skip(from).any(looked));
                Ok(())
            })
            .await?;
        world.faults.release();
        // then the label is removed as well
        world
            .eventually("the label to have been put on and taken off", async || {
                let patched = world.faults.calls().into_iter().filter(labels).count();
                ensure!(patched >= 2, "{patched}");
                Ok(())
            })
            .await?;
        world.quiet().await?;
        let left = group_labels(&world, "two").await?;
        ensure!(left.is_empty(), "{left:?}");

        // when it is deleted without a running manager
        world.group("ns", &["two"]).await?;
        world
            .eventually("the label", async || {
                ensure!(!group_labels(&world, "two").await?.is_empty());
                Ok(())
            })
            .await?;
        manager.kill();
        world.delete("OperatorGroup", "ns", "own").await?;
        let _next = world.manager("manager-1")?;
        world
            .eventually("no label", async || {
                let left = group_labels(&world, "two").await?;
                ensure!(left.is_empty(), "{left:?}");
                Ok(())
            })
            .await
    });
}

/// IP-16: a namespace without a group is not a dead end; the plan creates one.
#[test]
fn without_a_group_the_plan_makes_one() {
    scenario(async |world, _manager| {
        world.namespace("ns").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        ensure!(world.list("OperatorGroup", "ns").await?.len() == 1);
        Ok(())
    });
}

/// Table 9.2: no group, then two, then one again.
#[test]
fn none_or_two_groups_fail_a_version_until_there_is_one() {
    scenario(async |world, _manager| {
        world.namespace("ns").await?;
        world.apply(&without_rights("1.0.0").manifest("ns")).await?;
        let reason = |wanted: &'static str| {
            move |c: &Value| text(c, "/status/phase") == "Failed" && text(c, "/status/reason") == wanted
        };
        world.until("ClusterServiceVersion", "ns", "a.v1.0.0", reason("NoOperatorGroup")).await?;
        world.group("ns", &["ns"]).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.apply(&group("ns", "second", json!({}))).await?;
        world.until("ClusterServiceVersion", "ns", "a.v1.0.0", reason("TooManyOperatorGroups")).await?;
        for name in ["own", "second"] {
            world.condition("OperatorGroup", "ns", name, "MultipleOperatorGroup", "").await?;
        }
        world.delete("OperatorGroup", "ns", "second").await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        let gone = |g: &Value| condition(g, "MultipleOperatorGroup").is_none_or(|c| c["status"] != "True");
        world.until("OperatorGroup", "ns", "own", gone).await.map(drop)
    });
}

/// Two versions of one package with a CRD each do not conflict.
#[test]
fn different_apis_in_the_same_namespaces_do_not_conflict() {
    scenario(async |world, _manager| {
        let b = crd("bs", "b.example.com", "B", &["v1"]);
        world.namespace("one").await?;
        world.namespace("two").await?;
        world.group("one", &["one", "two"]).await?;
        world.group("two", &["two"]).await?;
        world.apply(&a_crd(&["v1"])).await?;
        world.apply(&b).await?;
        world.apply(&without_rights("1.0.0").owns(a_crd(&["v1"])).manifest("one")).await?;
        world.apply(&without_rights("1.0.0").owns(b).manifest("two")).await?;
        world.csv("one", "a.v1.0.0", "Succeeded").await?;
        world.csv("two", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

async fn install_watching(
    world: &World,
    catalog: &Catalog,
    namespace: &str,
    watch: WatchScope,
) -> Result<InstallResult, Error> {
    let request =
        InstallRequest { create_namespace: true, watch: Some(watch), ..InstallRequest::new("a", namespace) };
    olm_ops::install(&world.client, &[catalog.served_as(OLM, "catalog")], &request).await
}

/// The namespaces requested at the installation become the OperatorGroup, the annotation that the pods read, and
/// the plan that the manager applies.
#[test]
fn an_installation_watches_the_requested_namespaces() {
    scenario(async |world, _manager| {
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let catalog = Catalog::chain(&[&op("1.0.0").modes(&modes)]);
        world.publish("catalog", &catalog).await?;
        for name in ["one", "two"] {
            world.namespace(name).await?;
        }
        let cases = [
            ("own", WatchScope::OwnNamespace, json!(["own"]), "own"),
            ("single", WatchScope::SingleNamespace("one".into()), json!(["one"]), "one"),
            (
                "multi",
                WatchScope::MultiNamespace(vec!["one".into(), "two".into()]),
                json!(["one", "two"]),
                "one,two",
            ),
            ("all", WatchScope::AllNamespaces, Value::Null, ""),
        ];
        for (namespace, watch, targets, annotation) in cases {
            let done = install_watching(&world, &catalog, namespace, watch.clone()).await?;
            ensure!(done.created.contains(&"OperatorGroup olm-operators".to_owned()), "{:?}", done.created);
            world.installed(namespace, "a", "a.v1.0.0").await?;
            let group = world.get("OperatorGroup", namespace, "olm-operators").await?;
            ensure!(group["spec"]["targetNamespaces"] == targets, "{namespace}: {}", group["spec"]);
            ensure!(world.list("OperatorGroup", namespace).await?.len() == 1, "{namespace}");
            world
                .until("Deployment", namespace, "a", |d| {
                    text(d, "/spec/template/metadata/annotations/olm.targetNamespaces") == annotation
                })
                .await?;
            // the manager applied the previewed plan
            let plans = world.list("InstallPlan", namespace).await?;
            let plan = plans.first().context("no plan")?;
            ensure!(plan["spec"]["planDigest"] == done.plan.digest.as_str(), "{namespace}: {}", plan["spec"]);
            // a repeated request changes nothing
            let again = install_watching(&world, &catalog, namespace, watch).await?;
            ensure!(!again.changed, "{namespace}: {:?}", again.created);
            // one operator at a time: two that provide the same API to one namespace conflict
            world.delete("Subscription", namespace, "a").await?;
            world.delete("ClusterServiceVersion", namespace, "a.v1.0.0").await?;
            world.gone("ClusterServiceVersion", namespace, "a.v1.0.0").await?;
        }
        Ok(())
    });
}

/// Nothing is written when the requested namespaces are not those of the existing group, or do not exist.
#[test]
fn an_installation_does_not_change_an_operator_group() {
    scenario(async |world, _manager| {
        let catalog = Catalog::chain(&[&op("1.0.0").modes(&["OwnNamespace", "SingleNamespace"])]);
        world.publish("catalog", &catalog).await?;
        world.home("ns").await?;
        let before = world.get("OperatorGroup", "ns", "own").await?;
        let refusal = async |namespace: &str, watch: WatchScope| match install_watching(
            &world, &catalog, namespace, watch,
        )
        .await
        {
            Err(Error::Refused { code, text, .. }) => Ok((code, text)),
            other => anyhow::bail!("{other:?}"),
        };
        let (code, text) = refusal("ns", WatchScope::SingleNamespace("olm".into())).await?;
        ensure!(code == "OperatorGroupDiffers" && text.contains("OperatorGroup ns/own watches ns"), "{text}");
        let (code, text) = refusal("ns", WatchScope::AllNamespaces).await?;
        ensure!(code == "UnsupportedInstallMode", "{text}");
        let (code, text) = refusal("fresh", WatchScope::SingleNamespace("absent".into())).await?;
        ensure!(code == "WatchedNamespaceMissing" && text.contains("absent"), "{text}");
        ensure!(
            world.find("Namespace", "", "fresh").await?.is_none(),
            "a refused installation made a namespace"
        );
        ensure!(world.list("Subscription", "ns").await?.is_empty());
        let after = world.get("OperatorGroup", "ns", "own").await?;
        ensure!(after["spec"] == before["spec"], "{}", after["spec"]);
        // and the same targets are kept
        install_watching(&world, &catalog, "ns", WatchScope::OwnNamespace).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        ensure!(world.list("OperatorGroup", "ns").await?.len() == 1);
        Ok(())
    });
}
