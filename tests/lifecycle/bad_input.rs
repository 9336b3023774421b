//! Invalid input: a condition with a stable reason, an event, and the messages of `olm why` and `olm status`,
//! which name object, field and fix. Nothing is half applied.

use anyhow::{Context as _, Result, ensure};
use olm_devcluster::api::Identity;
use olm_tests::inprocess::{Catalog, Operator, Snapshot, World, condition, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario};

/// All objects except the Subscription and its events.
async fn others(world: &World) -> Result<Snapshot> {
    let reported = ["Subscription.", "InstallPlan.", "CatalogSource.", "OperatorGroup."];
    Ok(world.snapshot().await?.only(|key| !reported.iter().any(|kind| key.starts_with(kind))))
}

/// A Subscription to an invalid bundle: `names` are words that every message contains.
fn refused(operator: Operator, reason: &'static str, names: &'static [&'static str]) {
    scenario(async move |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&operator])).await?;
        world.home("ns").await?;
        world.quiet().await?;
        let before = others(&world).await?;
        world.subscribe("ns", "a").await?;
        let reported = world.condition("Subscription", "ns", "a", "ResolutionFailed", "").await?;
        ensure!(text(&reported, "/reason") == reason, "{reported}");
        names_all(text(&reported, "/message"), names)?;
        let event = world.event("ns", "a", "ResolutionFailed").await?;
        names_all(text(&event, "/note"), names)?;
        why(&world, names).await?;
        world.quiet().await?;
        let half = before.differences(&others(&world).await?);
        ensure!(half.is_empty(), "half applied: {half:?}");
        // and the fix
        world.publish("catalog", &Catalog::chain(&[&op("1.0.1")])).await?;
        world.installed("ns", "a", "a.v1.0.1").await
    });
}

fn names_all(message: &str, names: &[&str]) -> Result<()> {
    let missing: Vec<&&str> = names.iter().filter(|name| !message.contains(**name)).collect();
    ensure!(missing.is_empty(), "{missing:?} is not in: {message}");
    Ok(())
}

/// The message of `olm why`, `olm list` and `olm status`.
async fn why(world: &World, names: &[&str]) -> Result<()> {
    let installed = olm_ops::find_installed(&world.client, Some("ns"), "a").await?;
    names_all(&installed.reason, names)
}

/// An invalid right: without a verb.
#[test]
fn a_wrong_permission() {
    let wrong = op("1.0.0").permission("a", json!({ "apiGroups": [""], "resources": ["pods"], "verbs": [] }));
    refused(wrong, "BundleNotRenderable", &["verbs", "a.v1.0.0"]);
}

/// A webhook of a Deployment that the version does not have.
#[test]
fn a_missing_deployment() {
    let wrong = op("1.0.0")
        .owns(a_crd(&["v1"]))
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", json!([]))
        .csv(|csv| csv["spec"]["webhookdefinitions"][0]["deploymentName"] = "nobody".into());
    refused(wrong, "BundleNotRenderable", &["nobody", "webhookdefinitions[0].deploymentName"]);
}

/// A kind that bundles may not contain.
#[test]
fn an_unsupported_kind() {
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "a-job" }, "spec": {} });
    refused(op("1.0.0").object(job), "BundleNotRenderable", &["Job", "a-job"]);
}

/// Two webhooks of one name.
#[test]
fn a_duplicate_webhook_name() {
    let rules = json!([{ "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["as"] }]);
    let wrong = op("1.0.0")
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", rules.clone())
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", rules);
    refused(wrong, "BundleNotRenderable", &["check.a.example.com"]);
}

#[test]
fn an_invalid_version() {
    let wrong = op("1.0.0").csv(|csv| csv["spec"]["version"] = "one.two".into());
    refused(wrong, "BundleNotRenderable", &["one.two", "version"]);
}

/// An invalid range in the Subscription.
#[test]
fn an_invalid_range() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["version"] = "newest please".into()).await?;
        let names = &["spec.version", "newest"];
        let reported = world.condition("Subscription", "ns", "a", "ResolutionFailed", "").await?;
        names_all(text(&reported, "/message"), names)?;
        names_all(text(&world.event("ns", "a", "ResolutionFailed").await?, "/note"), names)?;
        why(&world, names).await?;
        world.patch("Subscription", "ns", "a", &json!({ "spec": { "version": "1.x" } })).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn two_operator_groups() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world
            .apply(&json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": { "name": "second", "namespace": "ns" }, "spec": {} }))
            .await?;
        world.quiet().await?;
        let before = others(&world).await?;
        world.subscribe("ns", "a").await?;
        let names = &["own", "second", "delete"];
        let reported =
            world.condition("Subscription", "ns", "a", "ResolutionFailed", "TooManyOperatorGroups").await?;
        names_all(text(&reported, "/message"), names)?;
        names_all(text(&world.event("ns", "a", "ResolutionFailed").await?, "/note"), names)?;
        why(&world, names).await?;
        world.quiet().await?;
        let half = before.differences(&others(&world).await?);
        ensure!(half.is_empty(), "half applied: {half:?}");
        world.delete("OperatorGroup", "ns", "second").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// A catalog that only serves namespace `elsewhere`.
pub(super) async fn elsewhere(world: &World) -> Result<()> {
    world.namespace("elsewhere").await?;
    world.publish_in("elsewhere", "catalog", &[&op("1.0.0")]).await
}

/// A Subscription to a package of another namespace's catalog.
#[test]
fn a_catalog_of_another_namespace() {
    scenario(async |world, _manager| {
        elsewhere(&world).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["sourceNamespace"] = "elsewhere".into()).await?;
        let names = &["elsewhere/catalog", "namespace ns", "olm"];
        let reported = world
            .condition("Subscription", "ns", "a", "CatalogSourcesUnhealthy", "CatalogOutOfSight")
            .await?;
        names_all(text(&reported, "/message"), names)?;
        names_all(text(&world.event("ns", "a", "CatalogSourcesUnhealthy").await?, "/note"), names)?;
        why(&world, names).await?;
        ensure!(world.list("InstallPlan", "ns").await?.is_empty(), "something was planned");
        Ok(())
    });
}

/// A plan approved by a user without permission: the API's error names the right.
#[test]
fn an_approval_without_the_right() {
    scenario(async |world, _manager| {
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let visitor = world.client_of(Identity::user("visitor", []));
        let refused = olm_ops::approve(&visitor, Some("ns"), "a", None).await;
        let error = refused.err().context("a visitor approved a plan")?;
        ensure!(error.kind() == olm_ops::Kind::Forbidden, "{error}");
        names_all(&error.to_string(), &["visitor"])?;
        // a user who may read, and not approve
        let view = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "looks" },
            "rules": [{ "apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["get", "list", "watch"] }] });
        let bound = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "looks", "namespace": "ns" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "visitor" }] });
        world.apply(&view).await?;
        world.apply(&bound).await?;
        let error = olm_ops::approve(&visitor, Some("ns"), "a", None)
            .await
            .err()
            .context("a visitor approved a plan")?;
        ensure!(error.kind() == olm_ops::Kind::Forbidden, "{error}");
        names_all(&error.to_string(), &["visitor", "installplans"])?;
        world.quiet().await?;
        let plan = world.get("InstallPlan", "ns", text(&plan, "/metadata/name")).await?;
        ensure!(
            plan["spec"]["approved"] == false && text(&plan, "/status/phase") == "RequiresApproval",
            "{plan}"
        );
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "installed all the same");
        Ok(())
    });
}

/// The same errors in a manually applied version: phase Failed, a reason, an event.
#[test]
fn a_version_applied_by_hand_that_is_wrong() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        type Change = fn(&mut Value);
        let wrong: [(&str, Change, &str); 2] = [
            (
                "b",
                |csv| csv["spec"]["installModes"] = json!([{ "type": "AllNamespaces", "supported": true }]),
                "AllNamespaces",
            ),
            ("c", |csv| csv["spec"]["install"]["strategy"] = "magic".into(), "magic"),
        ];
        for (package, change, names) in wrong {
            let operator = Operator::new(package, "1.0.0").csv(crate::csvs::no_rights).csv(change);
            world.apply(&operator.manifest("ns")).await?;
            let csv = world.csv("ns", &operator.name, "Failed").await?;
            names_all(text(&csv, "/status/message"), &[names])?;
            world.event("ns", &operator.name, text(&csv, "/status/reason")).await?;
            ensure!(world.find("Deployment", "ns", package).await?.is_none(), "half applied");
            ensure!(condition(&csv, "none").is_none());
        }
        Ok(())
    });
}
