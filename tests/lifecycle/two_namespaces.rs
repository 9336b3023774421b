//! One operator in two namespaces: neither affects the other, installed, upgraded or removed.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use olm_tests::inprocess::{Catalog, Operator, World, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario};

/// Package `a`, with rights in the whole cluster and in the watched namespace, and a cluster-scoped object of
/// its own.
fn wide(version: &str) -> Operator {
    op(version)
        .owns(a_crd(&["v1"]))
        .cluster_permission("a", json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] }))
        .permission("a", json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }))
        .object(reader("metrics"))
}

/// As in the project scaffolding of many operators.
fn reader(path: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "a-metrics-reader" },
        "rules": [{ "nonResourceURLs": [format!("/{path}")], "verbs": ["get"] }] })
}

/// The ClusterRoleBindings of the operator's account in a namespace, each with its role, which must exist.
async fn bindings(world: &World, namespace: &str) -> Result<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    for binding in world.list("ClusterRoleBinding", "").await? {
        if text(&binding, "/subjects/0/name") == "a" && text(&binding, "/subjects/0/namespace") == namespace {
            let role = world.get("ClusterRole", "", text(&binding, "/roleRef/name")).await?;
            ensure!(role["rules"][0]["resources"] == json!(["nodes"]), "{role}");
            out.insert(text(&binding, "/metadata/name").to_owned());
        }
    }
    Ok(out)
}

async fn both(world: &World, versions: &[&str]) -> Result<()> {
    let operators: Vec<Operator> = versions.iter().map(|version| wide(version)).collect();
    world.publish("catalog", &Catalog::chain(&operators.iter().collect::<Vec<_>>())).await?;
    let last = versions.last().context("a version")?;
    for ns in ["one", "two"] {
        world.home(ns).await?;
        world.subscribe(ns, "a").await?;
        world.installed(ns, "a", &format!("a.v{last}")).await?;
    }
    Ok(())
}

/// The rights of the one stay when the other is removed, in any order; the last removes the shared objects.
#[test]
fn each_keeps_its_rights_when_the_other_goes() {
    for (goes, stays) in [("one", "two"), ("two", "one")] {
        scenario(async move |world, _manager| {
            // given
            both(&world, &["1.0.0"]).await?;
            let rights = bindings(&world, stays).await?;
            ensure!(rights.len() == 1, "{rights:?}");
            ensure!(rights.is_disjoint(&bindings(&world, goes).await?), "a binding of both: {rights:?}");
            // when
            world.delete("Subscription", goes, "a").await?;
            world.delete("ClusterServiceVersion", goes, "a.v1.0.0").await?;
            world.gone("ClusterServiceVersion", goes, "a.v1.0.0").await?;
            world.quiet().await?;
            // then
            let left = bindings(&world, goes).await?;
            ensure!(left.is_empty(), "left of what went: {left:?}");
            ensure!(bindings(&world, stays).await? == rights, "the other's rights changed");
            let shared = world.get("ClusterRole", "", "a-metrics-reader").await?;
            ensure!(text(&shared, "/metadata/labels/olm.owner.namespace") == stays, "{}", shared["metadata"]);
            let labels = &shared["metadata"]["labels"];
            ensure!(labels.get(format!("operators.coreos.com/a.{goes}")).is_none(), "{labels}");
            world.csv(stays, "a.v1.0.0", "Succeeded").await?;
            // and when the other is removed too
            world.delete("Subscription", stays, "a").await?;
            world.delete("ClusterServiceVersion", stays, "a.v1.0.0").await?;
            world.gone("ClusterRole", "", "a-metrics-reader").await?;
            ensure!(bindings(&world, stays).await?.is_empty(), "left: {:?}", bindings(&world, stays).await?);
            Ok(())
        });
    }
}

/// Each is upgraded separately.
#[test]
fn namespaces_upgrade_independently() {
    scenario(async |world, _manager| {
        // given the second of two pinned to its version
        both(&world, &["1.0.0"]).await?;
        world
            .patch("Subscription", "two", "a", &json!({ "spec": { "installPlanApproval": "Manual" } }))
            .await?;
        let rights = bindings(&world, "two").await?;
        // when
        world.publish("catalog", &Catalog::chain(&[&wide("1.0.0"), &wide("2.0.0")])).await?;
        world.installed("one", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "one", "a.v1.0.0").await?;
        // then nothing of the second was removed with the old version of the first
        let plan = world.waiting_plan("two", &[]).await?;
        ensure!(bindings(&world, "two").await? == rights, "{rights:?}");
        world.csv("two", "a.v1.0.0", "Succeeded").await?;
        // and it is upgraded when requested
        world.approve("two", text(&plan, "/metadata/name")).await?;
        world.installed("two", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "two", "a.v1.0.0").await?;
        world.get("ClusterRole", "", "a-metrics-reader").await?;
        for ns in ["one", "two"] {
            let rights = bindings(&world, ns).await?;
            ensure!(
                rights.len() == 1 && rights.iter().all(|name| name.starts_with("a.v2.0.0-a-")),
                "{rights:?}"
            );
        }
        Ok(())
    });
}

/// Roles under former names without the namespace are deleted with their version.
#[test]
fn roles_under_names_of_before_go_with_their_version() {
    scenario(async |world, _manager| {
        // given
        world.publish("catalog", &Catalog::chain(&[&wide("1.0.0")])).await?;
        world.home("one").await?;
        world.subscribe("one", "a").await?;
        world.installed("one", "a", "a.v1.0.0").await?;
        let rights = bindings(&world, "one").await?;
        let before = world.get("ClusterRole", "", rights.first().context("a binding")?).await?;
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            let mut object = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": { "name": "a.v1.0.0-a-without", "labels": before["metadata"]["labels"] } });
            match kind {
                "ClusterRole" => object["rules"] = before["rules"].clone(),
                _ => {
                    object["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a.v1.0.0-a-without" });
                    object["subjects"] =
                        json!([{ "kind": "ServiceAccount", "name": "a", "namespace": "one" }]);
                }
            }
            world.apply(&object).await?;
        }
        // when
        world.publish("catalog", &Catalog::chain(&[&wide("1.0.0"), &wide("2.0.0")])).await?;
        world.installed("one", "a", "a.v2.0.0").await?;
        // then
        world.gone("ClusterRoleBinding", "", "a.v1.0.0-a-without").await?;
        world.gone("ClusterRole", "", "a.v1.0.0-a-without").await?;
        ensure!(bindings(&world, "one").await?.len() == 1, "{:?}", bindings(&world, "one").await?);
        Ok(())
    });
}
