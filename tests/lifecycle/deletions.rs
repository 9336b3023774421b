//! Deleted Subscriptions that are held by their policy: changes meanwhile, and interactions.

use anyhow::{Context as _, Result, ensure};
use olm_ops::{Operands, UninstallOptions};
use olm_tests::inprocess::{Catalog, OLM, Operator, World, condition, text};
use serde_json::{Value, json};

use super::removal::{
    all_gone, allow_crds, along, brought_along, installed, instance, instances, may_count, wide,
};
use crate::{op, scenario};

/// The generated Subscription of a package.
fn along_of(package: &str) -> String {
    format!("{package}-stable-catalog-{OLM}")
}

/// The command that `DeletionHeld` names.
async fn uninstall(world: &World, options: &UninstallOptions) -> Result<Vec<String>> {
    let report = olm_ops::uninstall(&world.client, Some("ns"), "a", options).await;
    Ok(report.map_err(|error| anyhow::anyhow!("{error}"))?.removed)
}

/// Instances block a deletion, and `olm uninstall --instances keep` completes it.
#[test]
fn a_deletion_that_is_held_by_instances_is_finished_by_an_uninstall() {
    scenario(async |world, _manager| {
        // given
        installed(&world, |spec| spec["deletionPolicy"] = json!({ "operands": "Abort" })).await?;
        instance(&world, &[]).await?;
        world.delete("Subscription", "ns", "a").await?;
        world.condition("Subscription", "ns", "a", "DeletionHeld", "OperandsPresent").await?;
        // when
        let removed =
            uninstall(&world, &UninstallOptions { operands: Operands::Keep, ..Default::default() }).await?;
        // then
        ensure!(removed.iter().any(|one| one == "Subscription ns/a"), "{removed:?}");
        all_gone(&world, "a", "a").await?;
        ensure!(instances(&world).get_opt("one").await?.is_some(), "an instance that was to stay is gone");
        world.get("CustomResourceDefinition", "", "as.a.example.com").await.map(drop)
    });
}

/// The manager may not delete CRDs; a user with permission runs the named command.
#[test]
fn a_deletion_that_lacks_rights_is_finished_by_an_uninstall() {
    scenario(async |world, _manager| {
        // given
        installed(&world, |spec| spec["deletionPolicy"] = json!({ "crds": "Delete" })).await?;
        may_count(&world).await?;
        world.delete("Subscription", "ns", "a").await?;
        let why = world.condition("Subscription", "ns", "a", "DeletionHeld", "ManagerLacksRights").await?;
        ensure!(text(&why, "/message").contains("`olm uninstall a -n ns --delete-crds`"), "{why}");
        // when
        let removed =
            uninstall(&world, &UninstallOptions { delete_crds: true, ..Default::default() }).await?;
        // then
        ensure!(removed.iter().any(|one| one.contains("as.a.example.com")), "{removed:?}");
        world.gone("CustomResourceDefinition", "", "as.a.example.com").await?;
        all_gone(&world, "a", "a").await
    });
}

/// Two operators that need each other came along with a third, stayed after its removal, and are deleted
/// together.
#[test]
fn a_ring_of_dependencies_goes() {
    scenario(async |world, _manager| {
        // given
        let needs = |name: &str, other: &str| Operator::new(name, "1.0.0").needs_package(other, ">=1.0.0");
        let (x, one, two) = (needs("x", "one"), needs("one", "two"), needs("two", "one"));
        world.publish("catalog", &Catalog::chain(&[&x]).and_chain(&[&one]).and_chain(&[&two])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "x", |spec| spec["deletionPolicy"] = json!({})).await?;
        world.installed("ns", "x", "x.v1.0.0").await?;
        let (one, two) = (along_of("one"), along_of("two"));
        world.installed("ns", &one, "one.v1.0.0").await?;
        world.installed("ns", &two, "two.v1.0.0").await?;
        for (of, by) in [(&one, format!("{two},x")), (&two, one.clone())] {
            let made_for = |s: &Value| {
                let list = text(s, "/metadata/annotations/olm.requiredBy");
                let mut list: Vec<&str> = list.split(',').collect();
                list.sort_unstable();
                list.join(",") == by
            };
            world.until("Subscription", "ns", of, made_for).await?;
        }
        world.delete("Subscription", "ns", "x").await?;
        all_gone(&world, "x", "x").await?;
        world.quiet().await?;
        // when
        let along = json!({ "spec": { "deletionPolicy": { "dependencies": "Delete" } } });
        world.patch("Subscription", "ns", &one, &along).await?;
        world
            .until("Subscription", "ns", &one, |s| {
                s["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
            })
            .await?;
        world.delete("Subscription", "ns", &one).await?;
        // then
        all_gone(&world, &one, "one").await?;
        all_gone(&world, &two, "two").await
    });
}

/// Both dependents of an operator are deleted at the same moment: neither leaves it to the other.
#[test]
fn two_that_are_deleted_at_once_take_along_what_both_needed() {
    scenario(async |world, _manager| {
        brought_along(&world, &["b", "c"], &json!({ "dependencies": "Delete" })).await?;
        tokio::try_join!(world.delete("Subscription", "ns", "b"), world.delete("Subscription", "ns", "c"))?;
        all_gone(&world, "b", "b").await?;
        all_gone(&world, "c", "c").await?;
        all_gone(&world, &along(), "a").await
    });
}

/// A blocker of a dependency is reported on the Subscription whose deletion started it.
#[test]
fn a_held_dependency_is_reported_in_the_deleted_subscription() {
    scenario(async |world, _manager| {
        // given an operator that brought one with a CRD along, which the manager may not delete
        let b = Operator::new("b", "1.0.0").needs_package("a", ">=1.0.0");
        world.publish("catalog", &Catalog::chain(&[&wide()]).and_chain(&[&b])).await?;
        world.home("ns").await?;
        let policy = json!({ "crds": "Delete", "dependencies": "Delete" });
        world.subscribe_with("ns", "b", |spec| spec["deletionPolicy"] = policy).await?;
        world.installed("ns", "b", "b.v1.0.0").await?;
        world.installed("ns", &along(), "a.v1.0.0").await?;
        may_count(&world).await?;
        // when
        world.delete("Subscription", "ns", "b").await?;
        // then
        let why = world.condition("Subscription", "ns", "b", "DeletionHeld", "ManagerLacksRights").await?;
        let message = text(&why, "/message");
        for part in [
            format!("the deletion of dependency Subscription ns/{} is held: ", along()),
            "as.a.example.com".to_owned(),
            format!(
                "set spec.deletionPolicy to null in Subscription ns/{} and in Subscription ns/b",
                along()
            ),
        ] {
            ensure!(message.contains(&part), "no `{part}` in: {message}");
        }
        // when the right is granted, then both are deleted, the waiting one as soon as the other is gone
        allow_crds(&world, "delete").await?;
        world.touch("Subscription", "ns", &along()).await?;
        all_gone(&world, &along(), "a").await?;
        all_gone(&world, "b", "b").await?;
        world.gone("CustomResourceDefinition", "", "as.a.example.com").await
    });
}

/// A version that waits for approval is not installed any more when its Subscription is deleted, however long
/// that is held.
#[test]
fn a_plan_goes_before_what_it_would_make_again() {
    scenario(async |world, _manager| {
        // given
        world.publish("catalog", &Catalog::chain(&[&wide()])).await?;
        world.home("ns").await?;
        let manual = |spec: &mut Value| {
            spec["installPlanApproval"] = "Manual".into();
            spec["deletionPolicy"] = json!({ "operands": "Abort" });
        };
        world.subscribe_with("ns", "a", manual).await?;
        let first = world.waiting_plan("ns", &[]).await?;
        let first = text(&first, "/metadata/name");
        world.approve("ns", first).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        instance(&world, &[]).await?;
        world.publish("catalog", &Catalog::chain(&[&wide(), &op("2.0.0")])).await?;
        let second = world.waiting_plan("ns", &[first]).await?;
        // when
        world.delete("Subscription", "ns", "a").await?;
        world.condition("Subscription", "ns", "a", "DeletionHeld", "OperandsPresent").await?;
        // then it cannot be approved, and the plan of the installed version stays on record
        world.gone("InstallPlan", "ns", text(&second, "/metadata/name")).await?;
        world.get("InstallPlan", "ns", first).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// The same where another finalizer holds the Subscription.
#[test]
fn nothing_is_done_for_a_subscription_that_is_deleted() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        let mut subscription = World::subscription("ns", "a");
        subscription["metadata"]["finalizers"] = json!(["tests/hold"]);
        subscription["spec"]["installPlanApproval"] = "Manual".into();
        world.apply(&subscription).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let plan = text(&plan, "/metadata/name");
        world.delete("Subscription", "ns", "a").await?;
        // when
        world.approve("ns", plan).await?;
        // then
        let reported = world
            .until("InstallPlan", "ns", plan, |p| {
                condition(p, "Installed").is_some_and(|c| c["reason"] == "SubscriptionDeleted")
            })
            .await?;
        let reported = condition(&reported, "Installed").context("a condition")?;
        ensure!(text(reported, "/message") == "its Subscription is being deleted", "{reported}");
        world.quiet().await?;
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "it was carried out");
        let free = json!({ "metadata": { "finalizers": null } });
        world.patch("Subscription", "ns", "a", &free).await?;
        world.gone("InstallPlan", "ns", plan).await
    });
}
