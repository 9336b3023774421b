//! Reserved objects that no bundle and no version may write: those of olm and of Kubernetes. The ids are
//! those of the threat model.

use anyhow::{Context as _, Result, ensure};
use olm_ops::{
    InstallRequest,
    doctor::{self, Code},
    manifests::{self, ManifestOptions},
};
use olm_tests::inprocess::{Catalog, OLM, Operator, World, crd, text};
use serde_json::{Value, json};

use crate::{csvs, op, run, scenario};

const RBAC: &str = "rbac.authorization.k8s.io";

fn other(version: &str) -> Operator {
    Operator::new("b", version)
}

/// Publishes a bundle, requests it with automatic approval, and waits until it is refused as reserved.
async fn refused(world: &World, bundle: &Operator) -> Result<String> {
    world.publish("catalog", &Catalog::chain(&[bundle])).await?;
    world.home("ns").await?;
    world.subscribe("ns", &bundle.package).await?;
    let condition =
        world.condition("Subscription", "ns", &bundle.package, "ResolutionFailed", "ReservedObject").await?;
    ensure!(world.list("InstallPlan", "ns").await?.is_empty(), "something was planned");
    Ok(text(&condition, "/message").to_owned())
}

/// T01: a bundle that "owns" a CustomResourceDefinition of olm is refused, and the others continue.
#[test]
fn t01_a_bundle_that_owns_an_api_of_olm_is_refused() {
    scenario(async |world, _manager| {
        let name = "installplans.operators.coreos.com";
        let before = world.get("CustomResourceDefinition", "", name).await?;
        let taken = crd("installplans", "operators.coreos.com", "InstallPlan", &["v1alpha1"]);
        let message = refused(&world, &op("1.0.0").owns(taken)).await?;
        ensure!(message.contains("group operators.coreos.com"), "{message}");
        let now = world.get("CustomResourceDefinition", "", name).await?;
        ensure!(now["spec"] == before["spec"], "it was changed: {}", now["spec"]);
        ensure!(now["spec"]["versions"][0]["subresources"]["status"].is_object(), "{}", now["spec"]);
        // and another tenant is not affected
        world.publish("others", &Catalog::chain(&[&other("1.0.0")])).await?;
        world.home("other").await?;
        world.subscribe_with("other", "b", |spec| spec["source"] = "others".into()).await?;
        world.installed("other", "b", "b.v1.0.0").await
    });
}

/// T01: doctor reports changes of the installation, and applying it, as `olm self upgrade` does, restores it.
#[test]
fn t01_what_was_changed_of_olm_is_reported_and_restored() {
    run(async {
        let world = World::bare().await?;
        let options =
            ManifestOptions { console_image: None, shipped_catalog: false, ..ManifestOptions::default() };
        let objects = manifests::for_server(&world.client, manifests::manifests(&options)).await?;
        let deployment = objects.iter().find(|o| o["kind"] == "Deployment").context("a manager")?;
        world.apply(deployment).await?;
        let reported = async || -> Vec<(Code, String)> {
            let report = doctor::examine(&world.client, None).await;
            let codes = [Code::CrdDiffers, Code::CrdOutdated, Code::InstallationDiffers];
            let found = report.problems.into_iter().filter(|a| codes.contains(&a.code));
            found.map(|a| (a.code, a.object.unwrap_or_default())).collect()
        };
        ensure!(reported().await.is_empty(), "as installed: {:?}", reported().await);
        // given a definition without its status, with a foreign conversion webhook, and roles with foreign labels, rules and subjects
        let name = "installplans.operators.coreos.com";
        let mut versions = world.get("CustomResourceDefinition", "", name).await?["spec"]["versions"].clone();
        versions[0].as_object_mut().context("a version")?.remove("subresources");
        let taken = json!({ "metadata": { "labels": { "operators.coreos.com/evil.ns": "" } }, "spec": { "versions": versions } });
        world.patch("CustomResourceDefinition", "", name, &taken).await?;
        let widened =
            json!({ "metadata": { "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" } } });
        world.patch("ClusterRole", "", "olm-manager", &widened).await?;
        let bound = json!({ "subjects": [{ "kind": "ServiceAccount", "name": "evil", "namespace": "ns" },
            { "kind": "ServiceAccount", "name": "olm-manager", "namespace": OLM }] });
        world.patch("ClusterRoleBinding", "", "olm-manager", &bound).await?;
        let aggregated =
            json!({ "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "evil": "true" } }] } });
        world.patch("ClusterRole", "", "olm-pull-secrets", &aggregated).await?;
        // then each is reported
        let expected = [
            (Code::CrdDiffers, format!("CustomResourceDefinition {name}")),
            (Code::InstallationDiffers, "ClusterRole olm-manager".to_owned()),
            (Code::InstallationDiffers, "ClusterRole olm-pull-secrets".to_owned()),
            (Code::InstallationDiffers, "ClusterRoleBinding olm-manager".to_owned()),
        ];
        let found = reported().await;
        ensure!(found == expected, "{found:?}");
        // and restored
        manifests::apply(&world.client, &objects).await?;
        ensure!(reported().await.is_empty(), "still: {:?}", reported().await);
        let now = world.get("CustomResourceDefinition", "", name).await?;
        ensure!(now["spec"]["versions"][0]["subresources"]["status"].is_object(), "{}", now["spec"]);
        ensure!(
            now["metadata"]["labels"].get("operators.coreos.com/evil.ns").is_none(),
            "{}",
            now["metadata"]
        );
        let role = world.get("ClusterRole", "", "olm-manager").await?;
        ensure!(
            role["metadata"]["labels"] == json!({ "app.kubernetes.io/part-of": "olm" }),
            "{}",
            role["metadata"]
        );
        Ok(())
    });
}

/// T06: an unbound ClusterRole that aggregates everything into `view` is HIGH in the plan, before anything is
/// applied.
#[test]
fn t06_a_role_that_adds_to_view_is_high_in_the_plan() {
    scenario(async |world, _manager| {
        let role = json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": { "name": "a-reader", "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
            "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] });
        let catalog = Catalog::chain(&[&op("1.0.0").object(role)]);
        world.publish("catalog", &catalog).await?;
        world.home("ns").await?;
        let request = InstallRequest::new("a", "ns");
        let plan =
            olm_ops::preview_install(&world.client, &[catalog.served_as(OLM, "catalog")], &request).await?;
        let first = plan.permissions.added.first().context("no right")?;
        ensure!(first.level == olm_plan::Level::High, "{:?}", plan.permissions.added);
        ensure!(first.rule == "* everything, for all subjects of ClusterRole view", "{first:?}");
        Ok(())
    });
}

/// T07: roles of Kubernetes and bindings of olm are not adopted, regardless of the approver.
#[test]
fn t07_roles_of_kubernetes_and_of_olm_are_not_taken_over() {
    scenario(async |world, _manager| {
        let view = json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": { "name": "view" },
            "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"] }] });
        let binding = json!({ "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": { "name": "olm-manager-instances" },
            "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": "a", "namespace": "ns" }] });
        let there = async || -> Result<[Option<Value>; 2]> {
            let without_version = |found: Option<Value>| {
                found.map(|object| json!([object["rules"], object["subjects"], object["metadata"]["labels"]]))
            };
            Ok([
                without_version(world.find("ClusterRole", "", "view").await?),
                without_version(world.find("ClusterRoleBinding", "", "olm-manager-instances").await?),
            ])
        };
        let before = there().await?;
        let message = refused(&world, &op("1.0.0").object(view).object(binding)).await?;
        ensure!(message.contains("is a role or binding of Kubernetes"), "{message}");
        ensure!(message.contains("has the name of an object of olm"), "{message}");
        ensure!(there().await? == before, "{before:?} became {:?}", there().await?);
        Ok(())
    });
}

/// T07, T01: a manually applied version writes no reserved object either.
#[test]
fn t07_a_version_made_by_hand_writes_no_reserved_object() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let api = |name: &str, group: &str| {
            Operator::named("a", "1.0.0", name).csv(csvs::no_rights).csv(|csv| {
                csv["spec"]["apiservicedefinitions"] = json!({ "owned": [{ "name": "things", "group": group,
                    "version": "v1", "kind": "Thing", "deploymentName": "a", "containerPort": 443 }] });
            })
        };
        let definition = crd("subscriptions", "operators.coreos.com", "Subscription", &["v1alpha1"]);
        let converter = Operator::named("a", "1.0.0", "converts.v1").csv(csvs::no_rights).owns(definition);
        let condition = Operator::named("a", "1.0.0", "olm-manager").csv(csvs::no_rights);
        for (operator, why) in [
            (api("apps.v1", "apps"), "serves group `apps`"),
            (api("own.v1", "operators.coreos.com"), "serves group `operators.coreos.com`"),
            (converter, "defines an API of olm"),
            (condition, "has the name of an object of olm"),
        ] {
            world.apply(&operator.manifest("ns")).await?;
            let csv = world
                .until("ClusterServiceVersion", "ns", &operator.name, |c| {
                    text(c, "/status/reason") == "ReservedObject"
                })
                .await?;
            ensure!(text(&csv, "/status/message").contains(why), "{}", csv["status"]);
            ensure!(world.find("Deployment", "ns", "a").await?.is_none(), "{} runs", operator.name);
            world.delete("ClusterServiceVersion", "ns", &operator.name).await?;
            world.gone("ClusterServiceVersion", "ns", &operator.name).await?;
        }
        for name in ["v1.apps", "v1.operators.coreos.com"] {
            let owner = |api: Value| api["metadata"]["labels"]["olm.owner"].clone();
            let found = world.find("APIService", "", name).await?.map(owner);
            ensure!(found.is_none_or(|owner| owner.is_null()), "{name} was taken over");
        }
        let crd = world.get("CustomResourceDefinition", "", "subscriptions.operators.coreos.com").await?;
        ensure!(crd["spec"]["conversion"]["strategy"] != "Webhook", "{}", crd["spec"]["conversion"]);
        Ok(())
    });
}
