//! Rollbacks that would lose data: refused, and nothing is changed.

use anyhow::{Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use olm_tests::inprocess::{Catalog, World, condition, entry, text};
use serde_json::{Value, json};

use crate::{a_crd, manager_for_admin, op, run_with_olm, scenario};

fn objects(world: &World) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("a.example.com", "v2", "A");
    Api::namespaced_with(world.client.clone(), "ns", &ApiResource::from_gvk_with_plural(&gvk, "as"))
}

/// An operator upgraded to a version whose CRD stores a version that the previous one lacks, and an object
/// created since.
async fn upgraded(world: &World) -> Result<()> {
    let one = op("1.0.0").owns(a_crd(&["v1"]));
    // The first one is stored.
    let two = op("2.0.0").owns(a_crd(&["v2", "v1"]));
    world.publish("catalog", &Catalog::chain(&[&one])).await?;
    world.home("ns").await?;
    world.subscribe("ns", "a").await?;
    world.installed("ns", "a", "a.v1.0.0").await?;
    world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
    world.installed("ns", "a", "a.v2.0.0").await?;
    world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
    let object = json!({ "apiVersion": "a.example.com/v2", "kind": "A",
        "metadata": { "name": "one", "namespace": "ns" }, "spec": { "size": 3 } });
    // Its version is served a moment after it is in the CRD.
    world.eventually("the object to be taken", async || world.apply(&object).await).await?;
    world
        .until("CustomResourceDefinition", "", "as.a.example.com", |c| {
            c["status"]["storedVersions"].as_array().is_some_and(|all| all.contains(&json!("v2")))
        })
        .await?;
    world.quiet().await
}

/// The installed version and its data.
async fn state(world: &World) -> Result<Value> {
    let crd = world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
    let deployment = world.get("Deployment", "ns", "a").await?;
    let csv = world.get("ClusterServiceVersion", "ns", "a.v2.0.0").await?;
    Ok(json!({
        "crd": crd["spec"],
        "stored": crd["status"]["storedVersions"],
        "pods": deployment["spec"]["template"],
        "versions": world.names("ClusterServiceVersion", "ns").await?,
        "phase": csv["status"]["phase"],
        "plans": world.names("InstallPlan", "ns").await?,
        "object": objects(world).get("one").await?.data["spec"],
    }))
}

/// From a pipeline: the request is in the Subscription, the plan is refused, and the operator stays unchanged
/// until the request is reverted.
#[test]
fn a_way_back_that_would_lose_data_is_not_gone() {
    scenario(async |world, _manager| {
        upgraded(&world).await?;
        let before = state(&world).await?;
        // when
        let back = json!({ "spec": { "version": "=1.0.0", "upgradeConstraintPolicy": "SelfCertified" } });
        world.patch("Subscription", "ns", "a", &back).await?;
        // then the reason is reported
        let failed = world.condition("Subscription", "ns", "a", "ResolutionFailed", "").await?;
        ensure!(
            text(&failed, "/message").contains("a rollback to this version is not possible")
                && text(&failed, "/message").contains("as.a.example.com has objects stored in version v2"),
            "{failed}"
        );
        // and nothing is done
        world.quiet().await?;
        let after = state(&world).await?;
        ensure!(after == before, "before: {before}\nafter: {after}");
        // when it is not requested any more, then all is healthy
        let stay = json!({ "spec": { "version": null, "upgradeConstraintPolicy": null } });
        world.patch("Subscription", "ns", "a", &stay).await?;
        world
            .until("Subscription", "ns", "a", |s| {
                condition(s, "ResolutionFailed").is_none_or(|c| c["status"] != "True")
            })
            .await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.quiet().await?;
        let after = state(&world).await?;
        ensure!(after == before, "before: {before}\nafter: {after}");
        Ok(())
    });
}

/// `olm rollback` refuses before it writes anything.
#[test]
fn olm_rollback_refuses_to_lose_data() {
    run_with_olm("olm_rollback_refuses_to_lose_data", async {
        // given a manager that serves the administrator's programs
        let world = World::bare().await?;
        let (_manager, _, admin) = manager_for_admin(&world, world.options("manager-0"))?;
        upgraded(&world).await?;
        let wish = async || -> Result<Value> {
            let subscription = world.get("Subscription", "ns", "a").await?;
            Ok(json!([subscription["spec"], subscription["metadata"]["annotations"]]))
        };
        let (before, wished) = (state(&world).await?, wish().await?);
        // when
        let (out, error) = admin.olm(&["rollback", "a", "-n", "ns"]).await?;
        // then it names the refused version, and the version that objects are stored in
        ensure!(out.is_empty() && error.contains("error: failed to roll back to a.v1.0.0: "), "{out}{error}");
        ensure!(
            error.contains("a rollback to this version is not possible") && error.contains("version v2"),
            "{error}"
        );
        // and the plan has the finding, for programs
        let (plan, error) = admin.olm(&["plan", "rollback", "a", "-n", "ns", "-o", "json"]).await?;
        let plan: Value =
            serde_json::from_str(&plan).map_err(|why| anyhow::anyhow!("{why}: {plan}{error}"))?;
        let blocks = |f: &Value| f["code"] == "RollbackImpossible" && f["severity"] == "block";
        let findings = plan["findings"].as_array().cloned().unwrap_or_default();
        ensure!(plan["action"] == "rollback" && findings.iter().any(blocks), "{plan}");
        // and nothing is changed or requested
        world.quiet().await?;
        ensure!(wish().await? == wished, "the Subscription was written");
        let after = state(&world).await?;
        ensure!(after == before, "before: {before}\nafter: {after}");
        Ok(())
    });
}

/// `olm plan rollback` shows what `olm rollback` applies: the revision before, which is not the version that the
/// catalog names, and the operator's own namespace where none is given.
#[test]
fn a_planned_rollback_is_the_one_that_is_applied() {
    run_with_olm("a_planned_rollback_is_the_one_that_is_applied", async {
        let world = World::bare().await?;
        let (_manager, _, admin) = manager_for_admin(&world, world.options("manager-0"))?;
        // given an upgrade that passed over the version that the new one replaces
        let (one, two, three) = (op("1.0.0"), op("2.0.0"), op("3.0.0"));
        world.publish("catalog", &Catalog::chain(&[&one])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let entries = vec![
            entry(&three.name).replaces(&two.name).skip_range(">=1.0.0 <3.0.0"),
            entry(&two.name).replaces(&one.name),
            entry(&one.name),
        ];
        let catalog = Catalog::new().package("a", "stable").channel("a", "stable", entries);
        world.publish("catalog", &catalog.bundle(&one).bundle(&two).bundle(&three)).await?;
        world.installed("ns", "a", "a.v3.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        world.quiet().await?;
        // when
        let read = async |args: &[&str]| -> Result<Value> {
            let (out, error) = admin.olm(args).await?;
            serde_json::from_str(&out).map_err(|why| anyhow::anyhow!("{args:?}: {why}: {out}{error}"))
        };
        let planned = read(&["plan", "rollback", "a", "-o", "json"]).await?;
        let back = read(&["rollback", "a", "-o", "json"]).await?;
        // then
        ensure!(planned["namespace"] == "ns" && planned["to"] == "1.0.0", "{planned}");
        ensure!(back["plan"]["digest"] == planned["digest"], "{planned}\n{back}");
        // and an operator that is not in the namespace is not taken for one to install
        let (out, error) = admin.olm(&["plan", "rollback", "a", "-n", "elsewhere"]).await?;
        let expected = "error: operator `a` not found in namespace elsewhere";
        ensure!(out.is_empty() && error.starts_with(expected), "{out}{error}");
        Ok(())
    });
}

/// Where plans require approval, the request of a rollback approves its plan, and nothing else waits.
#[test]
fn a_rollback_approves_the_plan_that_it_shows() {
    run_with_olm("a_rollback_approves_the_plan_that_it_shows", async {
        let world = World::bare().await?;
        let (_manager, _, admin) = manager_for_admin(&world, world.options("manager-0"))?;
        // given an operator with manual approval that was upgraded
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        world.waiting_plan("ns", &[]).await?;
        admin.olm(&["approve", "a", "-n", "ns"]).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.waiting_plan("ns", &[]).await?;
        admin.olm(&["approve", "a", "-n", "ns"]).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        // when it is rolled back
        let (out, error) = admin.olm(&["rollback", "a", "-n", "ns", "-o", "json"]).await?;
        let back: Value = serde_json::from_str(&out).map_err(|why| anyhow::anyhow!("{why}: {out}{error}"))?;
        // then it runs the older version, and is paused there
        ensure!(back["waits"] == false && back["plan"]["requiresApproval"] == true, "{back}");
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.gone("ClusterServiceVersion", "ns", "a.v2.0.0").await?;
        world.quiet().await?;
        let installed = olm_ops::find_installed(&world.client, Some("ns"), "a").await?;
        ensure!(installed.status == olm_ops::Status::Paused && installed.next.is_none(), "{installed:?}");
        Ok(())
    });
}
