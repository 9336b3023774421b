//! Kubernetes before 1.36 has no MutatingAdmissionPolicies: there, a webhook of the manager records authors
//! and approvers.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use olm_devcluster::api::Identity;
use olm_manager::Options;
use olm_ops::manifests::{ManifestOptions, manifests, served};
use olm_tests::inprocess::{Catalog, MANAGER, Manager, OLM, World, local_address, text};
use serde_json::{Value, json};

use crate::{op, run};

const REQUESTS: &str = "olm-requests";

/// A cluster like Kubernetes 1.35, with the address for calls to its manager.
async fn older() -> Result<(World, SocketAddr)> {
    let world = World::bare().await?;
    for name in ["olm-approvals", REQUESTS] {
        for kind in ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"] {
            world.delete(kind, "", name).await?;
        }
    }
    let address = std::net::TcpListener::bind((local_address(), 0))?.local_addr()?;
    for object in manifests(&ManifestOptions::default()) {
        if served(&object).contains(&35) && !served(&object).contains(&36) {
            match object["kind"] == "Service" {
                true => world.route(&object, address).await?,
                false => world.apply(&object).await.map(drop)?,
            }
        }
    }
    Ok((world, address))
}

fn manager(world: &World, address: SocketAddr) -> Result<Manager> {
    world.manager_with(Options { secure_listen: Some(address), ..world.options("manager-0") })
}

/// Waits until the API server calls the manager.
async fn answered(world: &World) -> Result<()> {
    world
        .eventually("requests to be recorded", async || {
            let made = world.create(&World::subscription("default", "probe")).await?;
            world.delete("Subscription", "default", "probe").await?;
            ensure!(!by(&made, "requestedBy").is_empty(), "{}", made["metadata"]);
            Ok(())
        })
        .await
}

fn by<'a>(object: &'a Value, key: &str) -> &'a str {
    text(object, &format!("/metadata/annotations/olm.{key}"))
}

/// The result of a write: the annotations that record users, or its rejection.
fn outcome(written: Result<Value>) -> Result<String> {
    match written {
        Ok(object) => Ok(["requestedBy", "requestedByGroups", "approvedBy", "approvedByGroups"]
            .map(|key| by(&object, key))
            .join("|")),
        Err(error) => match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                Ok("refused".to_owned())
            }
            _ => Err(error),
        },
    }
}

fn plan(name: &str, annotations: Value, spec: Value) -> Value {
    let mut plan = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": { "name": name, "namespace": "ns", "annotations": annotations },
        "spec": { "approval": "Manual", "approved": false, "clusterServiceVersionNames": ["a.v1"] } });
    for (key, value) in spec.as_object().into_iter().flatten() {
        plan["spec"][key] = value.clone();
    }
    plan
}

/// Writes of several users, and the result of each.
async fn script(world: &World) -> Result<Vec<String>> {
    world.namespace("ns").await?;
    let all = [json!({ "apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["*"] })];
    let mut users = Vec::new();
    for (user, groups) in [("jane", ["dev", "day"]), ("bob", ["ops", "night"])] {
        world.allow(user, "", &all).await?;
        users.push(world.client_of(Identity::user(user, groups)));
    }
    let [jane, bob] = &users[..] else { anyhow::bail!("two users") };
    let olm = &world.client_of(Identity::service_account(OLM, MANAGER));
    let mut out = Vec::new();
    let mut create = async |client: &Client, object: Value| -> Result<()> {
        let outcome = outcome(world.create_as(client, &object).await)?;
        out.push(format!("create {}: {outcome}", object["metadata"]));
        Ok(())
    };
    let mut forged = World::subscription("ns", "b");
    forged["metadata"]["annotations"] =
        json!({ "olm.requestedBy": "admin", "olm.requestedByGroups": "system:masters" });
    create(jane, World::subscription("ns", "a")).await?;
    create(jane, forged).await?;
    create(olm, World::subscription("ns", "c")).await?;
    create(
        jane,
        json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": { "name": "own", "namespace": "ns" } }),
    )
    .await?;
    create(jane, op("1.0.0").manifest("ns")).await?;
    create(
        jane,
        json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPolicy",
        "metadata": { "name": "own" }, "spec": {} }),
    )
    .await?;
    create(jane, plan("one", json!({}), json!({}))).await?;
    create(jane, plan("second", json!({ "olm.firstApproval": "bob" }), json!({}))).await?;
    create(jane, plan("digest", json!({ "olm.contentDigest": "d" }), json!({}))).await?;
    create(jane, plan("reviewed", json!({ "olm.planReview": "" }), json!({}))).await?;
    create(jane, plan("forged", json!({ "olm.approvedBy": "admin" }), json!({}))).await?;
    create(jane, plan("groups", json!({ "olm.approvedByGroups": "system:masters" }), json!({}))).await?;
    create(jane, plan("approved", json!({}), json!({ "approved": true }))).await?;
    create(jane, plan("both", json!({ "olm.approvedBy": "admin" }), json!({ "approved": true }))).await?;
    create(olm, plan("made", json!({ "olm.contentDigest": "d" }), json!({ "planDigest": "p" }))).await?;
    create(olm, plan("automatic", json!({ "olm.contentDigest": "d" }), json!({ "approved": true }))).await?;

    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let note =
        |key: &str, value: &str| json!({ "metadata": { "annotations": { format!("olm.{key}"): value } } });
    let approved = |approved: bool| json!({ "spec": { "approved": approved } });
    let (subscription, installplan) = ("Subscription", "InstallPlan");
    let changes = [
        (bob, subscription, "a", label.clone()),
        (bob, subscription, "a", note("other", "x")),
        (bob, subscription, "a", json!({ "spec": { "channel": "beta" } })),
        (jane, subscription, "a", note("requestedBy", "admin")),
        (bob, subscription, "a", note("requestedByGroups", "system:masters")),
        (jane, subscription, "a", note("approvedPlan", "p")),
        (bob, subscription, "a", note("rollbackTo", "r")),
        (olm, subscription, "a", json!({ "spec": { "channel": "alpha" } })),
        (olm, subscription, "a", note("requestedBy", "other")),
        (bob, installplan, "made", label),
        (bob, installplan, "made", note("approvedBy", "bob")),
        (bob, installplan, "made", note("contentDigest", "e")),
        (bob, installplan, "made", note("planReview", "nothing")),
        (bob, installplan, "made", note("approvalNeeded", "nothing")),
        (bob, installplan, "made", note("planReview", "")),
        (bob, installplan, "made", json!({ "spec": { "planDigest": "q" } })),
        (bob, installplan, "made", json!({ "spec": { "clusterServiceVersionNames": ["b.v1"] } })),
        (bob, installplan, "made", approved(true)),
        (jane, installplan, "made", note("approvedBy", "jane")),
        (jane, installplan, "made", note("approvedByGroups", "dev")),
        (jane, installplan, "made", approved(false)),
        (
            jane,
            installplan,
            "made",
            json!({ "metadata": { "annotations": { "olm.approvedBy": "admin" } }, "spec": { "approved": true } }),
        ),
        (
            olm,
            installplan,
            "made",
            json!({ "metadata": { "annotations": { "olm.approvedBy": null } }, "spec": { "approved": false } }),
        ),
        (olm, installplan, "made", approved(true)),
    ];
    for (client, kind, name, change) in changes {
        let outcome = outcome(world.patch_as(client, (kind, "ns", name), &change).await)?;
        out.push(format!("{kind} {name} {change}: {outcome}"));
    }
    Ok(out)
}

/// The webhook records and refuses what the policies of a newer API server do.
#[test]
fn t21_the_webhook_decides_as_the_policies_do() {
    run(async {
        let by_policies = script(&World::bare().await?).await?;
        for part in ["jane|dev\nday", "bob|ops\nnight", "refused", "system:serviceaccount:olm:olm-manager"] {
            ensure!(by_policies.iter().any(|line| line.contains(part)), "{part}: {by_policies:#?}");
        }
        // an empty annotation claims that there is nothing to review; an absent one does not
        let mut reviews = by_policies.iter().filter(|line| line.contains("olm.planReview"));
        ensure!(reviews.all(|line| line.ends_with("refused")), "{by_policies:#?}");
        let (world, address) = older().await?;
        let _manager = manager(&world, address)?;
        answered(&world).await?;
        let by_webhook = script(&world).await?;
        for (policies, webhook) in by_policies.iter().zip(&by_webhook) {
            ensure!(policies == webhook, "policies: {policies}\nwebhook: {webhook}");
        }
        ensure!(by_policies.len() == by_webhook.len());
        Ok(())
    });
}

#[test]
fn t04_a_plan_beyond_the_rights_of_its_author_waits_on_an_older_kubernetes_too() {
    run(async {
        // given a tenant who requests an operator that requests all rights
        let (world, address) = older().await?;
        let _manager = manager(&world, address)?;
        answered(&world).await?;
        let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] });
        let greedy = op("1.0.0").cluster_permission("a", all);
        world.publish("catalog", &Catalog::chain(&[&greedy])).await?;
        world.home("ns").await?;
        let own = [json!({ "apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["*"] })];
        world.allow("jane", "ns", &own).await?;
        let jane = world.client_of(Identity::user("jane", ["tenants"]));
        world.create_as(&jane, &World::subscription("ns", "a")).await?;

        // then the plan waits in the tenant's name, and is applied when an administrator approves it
        let waiting = world.waiting_plan("ns", &[]).await?;
        let name = text(&waiting, "/metadata/name").to_owned();
        let waits = |plan: &Value| by(plan, "approvalNeeded").contains("user jane does not hold");
        world.until("InstallPlan", "ns", &name, waits).await?;
        world.approve("ns", &name).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// While no manager answers, requests are rejected; finalizers are removed and objects deleted nevertheless.
#[test]
fn t21_no_request_goes_unrecorded_while_the_manager_is_away() {
    run(async {
        let (world, address) = older().await?;
        let first = manager(&world, address)?;
        answered(&world).await?;
        let mut held = World::subscription("default", "held");
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        world.create(&held).await?;
        first.stop().await?;

        let refused = world.create(&World::subscription("default", "late")).await;
        let refused = refused.err().context("it was recorded without an approver")?.to_string();
        ensure!(refused.contains("requests.olm.operators.coreos.com"), "{refused}");
        world.delete("Subscription", "default", "held").await?;
        world
            .patch("Subscription", "default", "held", &json!({ "metadata": { "finalizers": null } }))
            .await?;
        world.gone("Subscription", "default", "held").await?;

        // and the next manager serves the certificate that the API server already trusts
        let _second = manager(&world, address)?;
        answered(&world).await
    });
}
