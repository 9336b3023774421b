//! Ownership: garbage collection by owner, and the Operator object with the components of an operator.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, PropagationPolicy},
    core::{ApiResource, GroupVersionKind},
};
use olm_tests::inprocess::{Catalog, Operator, World, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario, without_rights};

fn owner(object: &Value) -> Value {
    json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"], "uid": object["metadata"]["uid"] })
}

/// GC-1: a ClusterRole owned by a CRD is deleted with it; so are those that the manager creates for the API.
#[test]
fn roles_for_an_api_go_with_its_crd() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let crd = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        world
            .apply(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": "mine", "ownerReferences": [owner(&crd)] }, "rules": [] }))
            .await?;
        world.delete("Subscription", "ns", "a").await?;
        world.delete("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.delete("CustomResourceDefinition", "", "as.a.example.com").await?;
        world.gone("ClusterRole", "", "mine").await?;
        for role in ["admin", "edit", "view"] {
            world.gone("ClusterRole", "", &format!("as.a.example.com-v1-{role}")).await?;
        }
        Ok(())
    });
}

/// GC-2: an object of two versions is deleted with the second, in the foreground too.
#[test]
fn what_belongs_to_two_versions_goes_with_the_second() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let (a, b) = (without_rights("1.0.0"), Operator::new("b", "1.0.0").csv(crate::csvs::no_rights));
        let mut owners = Vec::new();
        for one in [&a, &b] {
            world.apply(&one.manifest("ns")).await?;
            owners.push(owner(&world.csv("ns", &one.name, "Succeeded").await?));
        }
        world
            .apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "both", "namespace": "ns", "ownerReferences": owners } }))
            .await?;
        let gvk = GroupVersionKind::gvk("operators.coreos.com", "v1alpha1", "ClusterServiceVersion");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "clusterserviceversions");
        let csvs = Api::<DynamicObject>::namespaced_with(world.client.clone(), "ns", &resource);
        let foreground = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        csvs.delete(&a.name, &foreground).await?;
        world.gone("ClusterServiceVersion", "ns", &a.name).await?;
        let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "ns");
        ensure!(maps.get_opt("both").await?.is_some(), "it went with the first");
        csvs.delete(&b.name, &foreground).await?;
        world.gone("ClusterServiceVersion", "ns", &b.name).await?;
        world.gone("ConfigMap", "ns", "both").await
    });
}

async fn parts(world: &World, operator: &str) -> Result<Vec<String>> {
    let found = world.get("Operator", "", operator).await?;
    let refs = found["status"]["components"]["refs"].as_array().cloned().unwrap_or_default();
    Ok(refs.iter().map(|r| format!("{} {}", text(r, "/kind"), text(r, "/name"))).collect())
}

/// OP-1: the Operator of a package and a namespace lists its components, adopts labelled objects, and is
/// deleted when they are.
#[test]
fn an_operator_object_lists_the_parts() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let lists = async |wanted: &[&str], there: bool| {
            world
                .eventually(&format!("{wanted:?} among the parts: {there}"), async || {
                    let parts = parts(&world, "a.ns").await?;
                    let has = wanted.iter().all(|w| parts.iter().any(|p| p == w));
                    ensure!(has == there, "{parts:?}");
                    Ok(())
                })
                .await
        };
        lists(
            &[
                "Subscription a",
                "ClusterServiceVersion a.v1.0.0",
                "CustomResourceDefinition as.a.example.com",
            ],
            true,
        )
        .await?;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "adopted", "labels": { "operators.coreos.com/a.ns": "" } } });
        world.apply(&namespace).await?;
        lists(&["Namespace adopted"], true).await?;
        world
            .patch(
                "Namespace",
                "",
                "adopted",
                &json!({ "metadata": { "labels": { "operators.coreos.com/a.ns": null } } }),
            )
            .await?;
        lists(&["Namespace adopted"], false).await
    });
}

/// A component that gets its label, or loses it, after the Operator was written is listed or dropped at once:
/// the Operator does not depend on the order of writes.
#[test]
fn an_operator_object_follows_parts_that_are_labelled_after_it_was_written() {
    scenario(async |world, _manager| {
        // given an Operator, with no pending work
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let lists = async |part: &str, there: bool| {
            let probe = async || {
                let parts = parts(&world, "a.ns").await?;
                ensure!(parts.iter().any(|p| p == part) == there, "{parts:?}");
                Ok(())
            };
            world.eventually(&format!("{part} among the parts: {there}"), probe).await
        };
        lists("ClusterServiceVersion a.v1.0.0", true).await?;
        world.quiet().await?;
        for kind in ["OperatorCondition", "InstallPlan"] {
            let name = world.names(kind, "ns").await?.pop().context("no such part")?;
            let part = format!("{kind} {name}");
            for label in [Value::Null, json!(""), Value::Null, json!("")] {
                // when the label of a part changes
                let there = !label.is_null();
                let patch = json!({ "metadata": { "labels": { "operators.coreos.com/a.ns": label } } });
                world.patch(kind, "ns", &name, &patch).await?;
                // then the Operator lists the part, or does not
                lists(&part, there).await?;
                world.quiet().await?;
            }
        }
        Ok(())
    });
}

/// Garbage collection deletes the components of an operator in any order: the Operator is deleted after the
/// last one and not with the next full reconciliation.
#[test]
fn an_operator_object_goes_after_the_last_of_its_parts() {
    for last in ["InstallPlan", "OperatorCondition"] {
        scenario(async move |world, _manager| {
            // given an operator with a component held by a foreign finalizer
            world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
            world.home("ns").await?;
            world.subscribe("ns", "a").await?;
            world.installed("ns", "a", "a.v1.0.0").await?;
            let name = world.names(last, "ns").await?.pop().context("nothing to hold")?;
            // As OLM labels conditions too.
            let held = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers, "labels": { "operators.coreos.com/a.ns": "" } } });
            world.patch(last, "ns", &name, &held(json!(["example.com/held"]))).await?;
            let part = format!("{last} {name}");
            let listed = async || {
                let parts = parts(&world, "a.ns").await?;
                ensure!(parts.contains(&part), "{parts:?}");
                Ok(())
            };
            world.eventually("the held part is listed", listed).await?;
            // when all of it is deleted, then the Operator stays with that component
            world.delete("Subscription", "ns", "a").await?;
            world.delete("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
            for kind in ["Subscription", "ClusterServiceVersion", "Deployment", "ServiceAccount", "Role"] {
                for name in world.names(kind, "ns").await? {
                    // The default account of every namespace is not a component.
                    if name != "default" {
                        world.gone(kind, "ns", &name).await?;
                    }
                }
            }
            for kind in ["InstallPlan", "OperatorCondition"] {
                for name in world.names(kind, "ns").await? {
                    world.delete(kind, "ns", &name).await?;
                }
            }
            world.quiet().await?;
            ensure!(parts(&world, "a.ns").await?.contains(&part), "it went too early");
            // and is deleted with it
            world.patch(last, "ns", &name, &held(Value::Null)).await?;
            world.gone(last, "ns", &name).await?;
            world.gone("Operator", "", "a.ns").await
        });
    }
}
