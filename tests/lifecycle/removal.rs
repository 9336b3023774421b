//! Removing operators: with kubectl in any order, by `deletionPolicy`, by an interrupted `olm uninstall`.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use olm_engine::site::MANAGER;
use olm_ops::{Operands, UninstallOptions};
use olm_tests::inprocess::{Catalog, Fault, Faults, OLM, Operator, World, condition, crd, text};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{a_crd, op, run, scenario};

/// Package `a` with a CRD, and with a cluster-wide right.
pub(super) fn wide() -> Operator {
    op("1.0.0")
        .owns(a_crd(&["v1"]))
        .cluster_permission("a", json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] }))
}

pub(super) async fn installed(world: &World, change: impl FnOnce(&mut Value)) -> Result<()> {
    world.publish("catalog", &Catalog::chain(&[&wide()])).await?;
    world.home("ns").await?;
    world.subscribe_with("ns", "a", change).await?;
    world.installed("ns", "a", "a.v1.0.0").await
}

pub(super) async fn instance(world: &World, finalizers: &[&str]) -> Result<()> {
    let object = json!({ "apiVersion": "a.example.com/v1", "kind": "A",
        "metadata": { "name": "one", "namespace": "ns", "finalizers": finalizers } });
    let api = instances(world);
    api.create(&Default::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

pub(super) fn instances(world: &World) -> kube::Api<kube::api::DynamicObject> {
    let gvk = kube::core::GroupVersionKind::gvk("a.example.com", "v1", "A");
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, "as");
    kube::Api::namespaced_with(world.client.clone(), "ns", &resource)
}

/// Retained objects of an operator: its CRD, the roles over that, and the APIService that the API server
/// creates for it.
fn may_stay(key: &str) -> bool {
    key.contains("a.example.com") || key.starts_with("CatalogSource.")
}

/// GC-1, and objects that garbage collection does not reach.
#[test]
fn deletions_in_any_order_end_clean() {
    let kinds = ["Subscription", "ClusterServiceVersion", "InstallPlan", "OperatorGroup", "Namespace"];
    // Each one first once, each one last once; all 120 orders are a property of the model in olm-manager.
    for turn in 0..kinds.len() {
        let mut order = kinds.to_vec();
        order.rotate_left(turn);
        scenario(async move |world, _manager| {
            let before = world.snapshot().await?;
            installed(&world, |_| {}).await?;
            let plan = world.names("InstallPlan", "ns").await?.pop().context("a plan")?;
            for kind in &order {
                let (namespace, name) = match *kind {
                    "Subscription" => ("ns", "a"),
                    "ClusterServiceVersion" => ("ns", "a.v1.0.0"),
                    "InstallPlan" => ("ns", plan.as_str()),
                    "OperatorGroup" => ("ns", "own"),
                    _ => ("", "ns"),
                };
                world.delete(kind, namespace, name).await?;
            }
            world.gone("Namespace", "", "ns").await?;
            world
                .eventually(&format!("nothing to be left after {order:?}"), async || {
                    let now = world.snapshot().await?;
                    let known: Vec<&str> = before.keys().collect();
                    let left: Vec<&str> = now.keys().filter(|k| !known.contains(k) && !may_stay(k)).collect();
                    ensure!(left.is_empty(), "left: {left:?}");
                    Ok(())
                })
                .await
        });
    }
}

/// A deleted Subscription applies its policy, and is held while that is impossible.
#[test]
fn a_deletion_policy_is_carried_out() {
    scenario(async |world, _manager| {
        // given an operator that must not leave instances behind
        installed(&world, |spec| spec["deletionPolicy"] = json!({ "operands": "Abort" })).await?;
        instance(&world, &[]).await?;
        // when
        world.delete("Subscription", "ns", "a").await?;
        // then it is held, and reports it
        let held = world
            .until("Subscription", "ns", "a", |s| {
                condition(s, "DeletionHeld").is_some_and(|c| c["status"] == "True")
            })
            .await?;
        let why = condition(&held, "DeletionHeld").context("a condition")?;
        ensure!(why["reason"] == "OperandsPresent", "{why}");
        ensure!(
            why["message"].as_str().is_some_and(|m| m.contains("olm uninstall a -n ns --instances keep")),
            "{why}"
        );
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.event("ns", "a", "DeletionHeld").await?;
        // and when a user decides, it is deleted
        let patch = json!({ "spec": { "deletionPolicy": { "operands": "Orphan" } } });
        world.patch("Subscription", "ns", "a", &patch).await?;
        world.gone("Subscription", "ns", "a").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.gone("Deployment", "ns", "a").await?;
        ensure!(instances(&world).get_opt("one").await?.is_some(), "an instance that was to stay is gone");
        ensure!(
            world.find("CustomResourceDefinition", "", "as.a.example.com").await?.is_some(),
            "the CRD is gone"
        );
        Ok(())
    });
}

/// Instances are deleted first, when the manager has the right.
#[test]
fn instances_go_while_the_operator_runs() {
    scenario(async |world, _manager| {
        installed(&world, |spec| spec["deletionPolicy"] = json!({ "operands": "Delete" })).await?;
        instance(&world, &["tests/clean-up"]).await?;
        world.delete("Subscription", "ns", "a").await?;
        let held = world.until("Subscription", "ns", "a", |s| condition(s, "DeletionHeld").is_some()).await?;
        let why = condition(&held, "DeletionHeld").context("a condition")?.clone();
        // It may or may not count them: it never has the right to delete them.
        ensure!(["ManagerLacksRights", "OperandsPresent"].contains(&text(&why, "/reason")), "{why}");
        // when an administrator grants the right
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "delete-as" },
            "rules": [{ "apiGroups": ["a.example.com"], "resources": ["as"], "verbs": ["get", "list", "delete"] }] });
        world.apply(&role).await?;
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "delete-as" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "delete-as" },
            "subjects": [{ "kind": "ServiceAccount", "name": "olm-manager", "namespace": "olm" }] });
        world.apply(&binding).await?;
        world.touch("Subscription", "ns", "a").await?;
        // then the instance is deleted, and the operator stays while it cleans up after it
        world
            .eventually("the instance to be deleted", async || {
                let one = instances(&world).get("one").await?;
                ensure!(one.metadata.deletion_timestamp.is_some(), "not yet");
                Ok(())
            })
            .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        ensure!(
            world.find("Deployment", "ns", "a").await?.is_some(),
            "the operator went before its instance"
        );
        // when it is done
        let patch = kube::api::Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        instances(&world).patch("one", &Default::default(), &patch).await?;
        world.gone("Subscription", "ns", "a").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await
    });
}

/// Grants the manager a verb on CRDs.
pub(super) async fn allow_crds(world: &World, verb: &str) -> Result<()> {
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "crds" },
        "rules": [{ "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": [verb] }] });
    world.apply(&role).await?;
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "crds" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "crds" },
        "subjects": [{ "kind": "ServiceAccount", "name": "olm-manager", "namespace": OLM }] });
    world.apply(&binding).await.map(drop)
}

/// Waits until the manager may count the objects of the CRD: an aggregated role grants it.
pub(super) async fn may_count(world: &World) -> Result<()> {
    let who = format!("system:serviceaccount:{OLM}:{MANAGER}");
    let what = json!({ "group": "a.example.com", "resource": "as", "verb": "list" });
    let review: SubjectAccessReview = serde_json::from_value(
        json!({ "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview", "metadata": {}, "spec": { "user": who, "resourceAttributes": what } }),
    )?;
    let api = kube::Api::<SubjectAccessReview>::all(world.client.clone());
    world
        .eventually("the manager to be allowed to count", async || {
            let answer = api.create(&Default::default(), &review).await?;
            ensure!(answer.status.is_some_and(|status| status.allowed), "it may not list them");
            Ok(())
        })
        .await
}

/// CRDs are deleted where the policy requires it: last, never with a user's objects, and with a right that an
/// administrator grants.
#[test]
fn crds_are_removed_when_the_policy_requires_it() {
    scenario(async |world, _manager| {
        // given an operator whose CRDs are to be deleted, and an object in use
        installed(&world, |spec| spec["deletionPolicy"] = json!({ "operands": "Abort", "crds": "Delete" }))
            .await?;
        instance(&world, &[]).await?;
        may_count(&world).await?;
        // when
        world.delete("Subscription", "ns", "a").await?;
        // then it is held, and nothing is half done
        let why = world.condition("Subscription", "ns", "a", "DeletionHeld", "OperandsPresent").await?;
        ensure!(
            text(&why, "/message").contains("would be deleted with the CustomResourceDefinition"),
            "{why}"
        );
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        ensure!(instances(&world).get_opt("one").await?.is_some(), "the object is gone");
        // when there is no object any more
        instances(&world).delete("one", &Default::default()).await.map(drop)?;
        world.touch("Subscription", "ns", "a").await?;
        // then the operator is deleted, and the CRD waits for a right that the manager never has by default
        let why = world.condition("Subscription", "ns", "a", "DeletionHeld", "ManagerLacksRights").await?;
        ensure!(text(&why, "/message").contains("as.a.example.com"), "{why}");
        ensure!(
            world.find("ClusterServiceVersion", "ns", "a.v1.0.0").await?.is_none(),
            "CRDs before the operator that looks after them"
        );
        world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        // when it is granted, then that is deleted too, and with it the roles over its kind
        allow_crds(&world, "delete").await?;
        world.touch("Subscription", "ns", "a").await?;
        world.gone("CustomResourceDefinition", "", "as.a.example.com").await?;
        world.gone("Subscription", "ns", "a").await?;
        world.gone("Deployment", "ns", "a").await?;
        world.gone("ClusterRole", "", "as.a.example.com-v1-view").await
    });
}

/// By default they stay, although the manager could delete them.
#[test]
fn crds_stay_by_default() {
    scenario(async |world, _manager| {
        installed(&world, |spec| spec["deletionPolicy"] = json!({})).await?;
        allow_crds(&world, "delete").await?;
        world.quiet().await?;
        let before = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        world.delete("Subscription", "ns", "a").await?;
        for (kind, name) in
            [("Subscription", "a"), ("ClusterServiceVersion", "a.v1.0.0"), ("Deployment", "a")]
        {
            world.gone(kind, "ns", name).await?;
        }
        world.quiet().await?;
        let after = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        ensure!(after["metadata"]["uid"] == before["metadata"]["uid"], "it was made anew");
        ensure!(after["metadata"]["deletionTimestamp"].is_null(), "{}", after["metadata"]);
        Ok(())
    });
}

/// `olm uninstall` is killed at every write, and repeated.
#[test]
fn an_interrupted_uninstall_continues() {
    let options =
        || UninstallOptions { operands: Operands::Delete, delete_crds: true, ..UninstallOptions::default() };
    let mut at = 0;
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    while !ended.load(std::sync::atomic::Ordering::Relaxed) {
        let ended = std::sync::Arc::clone(&ended);
        run(async move {
            let (world, _manager) = World::start().await?;
            installed(&world, |spec| spec["deletionPolicy"] = json!({})).await?;
            instance(&world, &[]).await?;
            world.quiet().await?;
            // when it dies right after its write number `at`
            let (faults, dead) = (Faults::new(), CancellationToken::new());
            let seen = std::sync::atomic::AtomicUsize::new(0);
            faults.add(Fault::KillAfter, 1, move |call| {
                call.is_write() && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == at
            });
            let client = faults.client(world.client.clone(), dead.clone());
            let first = options();
            let done = tokio::select! {
                done = olm_ops::uninstall(&client, Some("ns"), "a", &first) => Some(done),
                () = dead.cancelled() => None,
            };
            if let Some(done) = done {
                // It died at every write.
                ended.store(true, std::sync::atomic::Ordering::Relaxed);
                done.map(drop).map_err(|error| anyhow::anyhow!("{error}"))?;
            } else {
                // then the same command continues
                match olm_ops::uninstall(&world.client, Some("ns"), "a", &options()).await {
                    Ok(_) | Err(olm_ops::Error::NotFound { .. }) => {}
                    Err(error) => bail!("after write {at}: {error}"),
                }
            }
            for (kind, name) in
                [("Subscription", "a"), ("ClusterServiceVersion", "a.v1.0.0"), ("Deployment", "a")]
            {
                world.gone(kind, "ns", name).await?;
            }
            world.gone("CustomResourceDefinition", "", "as.a.example.com").await
        });
        at += 1;
        assert!(at < 20, "it never ends");
    }
    assert!(at > 4, "it died {at} times: the calls are not counted");
}

/// A CRD of an earlier version is deleted with the others, in one call, counted beforehand; one adopted by
/// another package stays.
#[test]
fn crds_of_earlier_versions_go_too() {
    scenario(async |world, _manager| {
        // given an upgrade to a version with fewer CRDs, one of which another operator provides now
        let old = op("1.0.0")
            .owns(a_crd(&["v1"]))
            .owns(crd("olds", "a.example.com", "Old", &["v1"]))
            .owns(crd("moves", "a.example.com", "Move", &["v1"]));
        let new = op("2.0.0").owns(a_crd(&["v1"]));
        let heir = Operator::new("heir", "1.0.0").owns(crd("moves", "a.example.com", "Move", &["v1"]));
        world.publish("catalog", &Catalog::chain(&[&old])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&old, &new]).and_chain(&[&heir])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.subscribe("ns", "heir").await?;
        world.installed("ns", "heir", "heir.v1.0.0").await?;
        let left = json!({ "apiVersion": "a.example.com/v1", "kind": "Old", "metadata": { "name": "one", "namespace": "ns" } });
        world.apply(&left).await?;
        // then its objects block like those of the others
        let all = |operands| UninstallOptions { operands, delete_crds: true, ..UninstallOptions::default() };
        let refused = olm_ops::uninstall(&world.client, Some("ns"), "a", &all(Operands::Keep)).await;
        let error = refused.err().context("an object would have gone without a word")?;
        ensure!(error.to_string().contains("1 Old object"), "{error}");
        let options = all(Operands::Delete);
        let plan = olm_ops::preview_uninstall(&world.client, Some("ns"), "a", &options).await?;
        let counted: Vec<_> = plan.operands.iter().map(|o| (o.crd.as_str(), o.count)).collect();
        ensure!(counted == [("as.a.example.com", Some(0)), ("olds.a.example.com", Some(1))], "{counted:?}");
        let report = olm_ops::uninstall(&world.client, Some("ns"), "a", &options).await?;
        let crds: Vec<&String> = report.removed.iter().filter(|o| o.starts_with("CustomResource")).collect();
        ensure!(crds.len() == 2, "{crds:?}");
        world.gone("CustomResourceDefinition", "", "as.a.example.com").await?;
        world.gone("CustomResourceDefinition", "", "olds.a.example.com").await?;
        world.get("CustomResourceDefinition", "", "moves.a.example.com").await?;
        world.csv("ns", "heir.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// A CRD stays as long as another namespace has the operator, and is deleted with the last, even with labels
/// of former ones.
#[test]
fn crds_are_removed_with_their_last_user() {
    scenario(async |world, _manager| {
        // given
        world.publish("catalog", &Catalog::chain(&[&wide()])).await?;
        for ns in ["one", "two"] {
            world.home(ns).await?;
            world.subscribe(ns, "a").await?;
            world.installed(ns, "a", "a.v1.0.0").await?;
        }
        let options =
            UninstallOptions { operands: Operands::Keep, delete_crds: true, ..UninstallOptions::default() };
        // when the first is removed, then its CRD is needed in the other
        let report = olm_ops::uninstall(&world.client, Some("one"), "a", &options).await?;
        let kept: Vec<&String> =
            report.kept.iter().filter(|kept| kept.contains("as.a.example.com")).collect();
        ensure!(
            kept.iter().any(|kept| kept.contains("required by the same package in namespace two")),
            "{report:?}"
        );
        let crd = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        ensure!(crd["metadata"]["labels"].get("operators.coreos.com/a.one").is_some(), "{}", crd["metadata"]);
        // when the second is removed, then it is unneeded, whatever the label of the first
        let report = olm_ops::uninstall(&world.client, Some("two"), "a", &options).await?;
        ensure!(report.removed.iter().any(|gone| gone.contains("as.a.example.com")), "{report:?}");
        world.gone("CustomResourceDefinition", "", "as.a.example.com").await
    });
}

/// Leases that the operator's processes created are removed with it; those of others stay.
#[test]
fn leases_of_an_operator_go_with_it() {
    scenario(async |world, _manager| {
        // given a pod of the operator that leads
        installed(&world, |_| {}).await?;
        let pods = world.names("Pod", "ns").await?;
        let pod = pods.first().context("no pod of the operator")?;
        for (name, holder) in [("leader", format!("{pod}_0a1b2c3d")), ("another", "node-1".to_owned())] {
            let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": name, "namespace": "ns" }, "spec": { "holderIdentity": holder } });
            world.apply(&lease).await?;
        }
        // when
        let options = UninstallOptions::default();
        let plan = olm_ops::preview_uninstall(&world.client, Some("ns"), "a", &options).await?;
        let report = olm_ops::uninstall(&world.client, Some("ns"), "a", &options).await?;
        // then the plan and the report name it
        let planned = plan.objects.iter().filter(|object| object.reference.kind == "Lease");
        let planned: Vec<&str> = planned.map(|object| object.name.as_str()).collect();
        ensure!(planned == ["leader"], "{planned:?}");
        ensure!(report.removed.contains(&"Lease ns/leader".to_owned()), "{report:?}");
        world.gone("Lease", "ns", "leader").await?;
        world.get("Lease", "ns", "another").await.map(drop)
    });
}

/// A dependency is removed with its dependent, if requested and unneeded otherwise.
#[test]
fn what_was_installed_for_it_goes_with_it() {
    scenario(async |world, _manager| {
        let base = Operator::new("base", "1.0.0");
        world.publish("catalog", &Catalog::chain(&[&wide()]).and_chain(&[&base])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.subscribe("ns", "base").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.installed("ns", "base", "base.v1.0.0").await?;
        let made_for = json!({ "metadata": { "annotations": { "olm.requiredBy": "a" } } });
        world.patch("Subscription", "ns", "base", &made_for).await?;
        // when it is to stay, the plan shows it
        let plan =
            olm_ops::preview_uninstall(&world.client, Some("ns"), "a", &UninstallOptions::default()).await?;
        ensure!(
            plan.dependencies[0].satisfied_by.starts_with("retained, although no longer required"),
            "{:?}",
            plan.dependencies
        );
        // and when it is to be removed, it is
        let options = UninstallOptions { delete_dependencies: true, ..UninstallOptions::default() };
        olm_ops::uninstall(&world.client, Some("ns"), "a", &options).await?;
        world.gone("Subscription", "ns", "base").await?;
        world.gone("ClusterServiceVersion", "ns", "base.v1.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await
    });
}

/// The generated Subscription of `a`.
pub(super) fn along() -> String {
    format!("a-stable-catalog-{OLM}")
}

/// `a` in a catalog with these, each of which needs it; and each of these subscribed to, with a policy for
/// `a`.
pub(super) async fn brought_along(world: &World, packages: &[&str], policy: &Value) -> Result<()> {
    let operators: Vec<Operator> =
        packages.iter().map(|name| Operator::new(name, "1.0.0").needs_package("a", ">=1.0.0")).collect();
    let with = |catalog: Catalog, operator: &Operator| catalog.and_chain(&[operator]);
    let catalog = operators.iter().fold(Catalog::chain(&[&op("1.0.0")]), with);
    world.publish("catalog", &catalog).await?;
    world.home("ns").await?;
    for (at, name) in packages.iter().enumerate() {
        world.subscribe_with("ns", name, |spec| spec["deletionPolicy"] = policy.clone()).await?;
        world.installed("ns", name, &format!("{name}.v1.0.0")).await?;
        world.installed("ns", &along(), "a.v1.0.0").await?;
        // The plans record their dependents, that of the plan that created it and those that found it.
        let by = packages[..=at].join(",");
        world
            .until("Subscription", "ns", &along(), |s| text(s, "/metadata/annotations/olm.requiredBy") == by)
            .await?;
    }
    world.quiet().await
}

/// Whether `a` is unchanged.
async fn stays(world: &World) -> Result<()> {
    world.quiet().await?;
    let subscription = world.get("Subscription", "ns", &along()).await?;
    ensure!(subscription["metadata"]["deletionTimestamp"].is_null(), "{}", subscription["metadata"]);
    let csv = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
    ensure!(
        text(&csv, "/status/phase") == "Succeeded" && csv["metadata"]["deletionTimestamp"].is_null(),
        "{csv}"
    );
    world.get("Deployment", "ns", "a").await.map(drop)
}

pub(super) async fn all_gone(world: &World, subscription: &str, package: &str) -> Result<()> {
    world.gone("Subscription", "ns", subscription).await?;
    world.gone("ClusterServiceVersion", "ns", &format!("{package}.v1.0.0")).await?;
    world.gone("Deployment", "ns", package).await
}

/// A dependency is deleted with its dependent Subscription, by `kubectl delete` and the policy alone.
#[test]
fn what_came_along_goes_along() {
    scenario(async |world, _manager| {
        brought_along(&world, &["b"], &json!({ "dependencies": "Delete" })).await?;
        world.delete("Subscription", "ns", "b").await?;
        all_gone(&world, "b", "b").await?;
        all_gone(&world, &along(), "a").await
    });
}

/// It stays as long as another one needs it, and is deleted with the last.
#[test]
fn what_came_along_stays_until_the_last_goes() {
    scenario(async |world, _manager| {
        brought_along(&world, &["b", "c"], &json!({ "dependencies": "Delete" })).await?;
        // when one of the two is removed, then the other still has its dependency
        world.delete("Subscription", "ns", "b").await?;
        all_gone(&world, "b", "b").await?;
        stays(&world).await?;
        world.csv("ns", "c.v1.0.0", "Succeeded").await?;
        // when that is removed too
        world.delete("Subscription", "ns", "c").await?;
        all_gone(&world, "c", "c").await?;
        all_gone(&world, &along(), "a").await
    });
}

/// By default it stays, whatever needs it.
#[test]
fn dependencies_stay_by_default() {
    scenario(async |world, _manager| {
        brought_along(&world, &["b"], &json!({})).await?;
        world.delete("Subscription", "ns", "b").await?;
        all_gone(&world, "b", "b").await?;
        stays(&world).await
    });
}
