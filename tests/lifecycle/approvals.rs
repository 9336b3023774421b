//! The approver: recorded by the API server, for any client.

use anyhow::{Result, ensure};
use kube::api::{Api, Patch, PatchParams};
use olm_api::{InstallPlan, names};
use olm_devcluster::api::Identity;
use olm_tests::inprocess::{Catalog, World, text};
use serde_json::{Value, json};

use crate::{
    op,
    policies::{administrator, approve, high, not_installed, policy},
    run, scenario,
};

const BY: &str = "/metadata/annotations/olm.approvedBy";
const FIRST: &str = "/metadata/annotations/olm.firstApproval";

/// A plan that waits for approval.
pub(crate) async fn waiting(world: &World) -> Result<Value> {
    world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
    world.home("ns").await?;
    world.subscribe_with("ns", "a", |s| s["installPlanApproval"] = "Manual".into()).await?;
    world.waiting_plan("ns", &[]).await
}

/// A request by a user with all rights.
async fn patch(world: &World, who: &str, plan: &str, patch: &Value) -> Result<Value, kube::Error> {
    let client = world.client_of(Identity::user(who, ["system:masters"]));
    let api = Api::<InstallPlan>::namespaced(client, "ns");
    let plan = api.patch(plan, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(serde_json::to_value(plan).unwrap_or_default())
}

#[test]
fn the_approver_is_recorded_and_a_client_cannot_claim_or_change_it() {
    scenario(async |world, _manager| {
        // given a plan that waits
        let plan = waiting(&world).await?;
        let plan = text(&plan, "/metadata/name");
        let approved_by =
            |name: &str| json!({ "metadata": { "annotations": { names::ANNOTATION_APPROVED_BY: name } } });

        // then a client cannot claim another approver
        for who in ["jane", "joe"] {
            let refused = patch(&world, "joe", plan, &approved_by(who)).await;
            let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
            ensure!(
                refused.contains("it can only be joe, and only in the request that sets spec.approved"),
                "{refused}"
            );
        }

        // when jane approves it, as kubectl does
        let approved = patch(&world, "jane", plan, &json!({ "spec": { "approved": true } })).await?;

        // then it has her name, immutable
        ensure!(text(&approved, BY) == "jane", "{approved}");
        let refused = patch(&world, "joe", plan, &approved_by("joe")).await;
        ensure!(refused.is_err(), "joe took it over");
        world.installed("ns", "a", "a.v1.0.0").await?;
        let history = olm_ops::history(&world.client, Some("ns"), "a").await?;
        let by: Vec<Option<&str>> = history.iter().map(|r| r.approval.by.as_deref()).collect();
        ensure!(by == [Some("jane")], "{by:?}");
        Ok(())
    });
}

#[test]
fn an_approval_in_the_name_of_another_is_made_in_the_own() {
    scenario(async |world, _manager| {
        // given
        let plan = waiting(&world).await?;
        let plan = text(&plan, "/metadata/name");

        // when joe approves and claims that jane did
        let lie = json!({
            "metadata": { "annotations": { names::ANNOTATION_APPROVED_BY: "jane" } }, "spec": { "approved": true },
        });
        let approved = patch(&world, "joe", plan, &lie).await?;

        // then he is the approver
        ensure!(text(&approved, BY) == "joe", "{approved}");
        Ok(())
    });
}

/// The history names the user whose request permits an automatic approval, and only the manager writes that name.
#[test]
fn an_automatic_approval_is_recorded_with_the_author_of_the_request() {
    scenario(async |world, _manager| {
        // given a Subscription of jane
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let jane = world.client_of(Identity::user("jane", ["system:masters"]));
        let claim = json!({ "metadata": { "annotations": { "olm.requestedBy": "jane" } } });
        world.patch_as(&jane, ("Subscription", "ns", "a"), &claim).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.quiet().await?;

        // when it is upgraded
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &op("2.0.0")])).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        world.quiet().await?;

        // then the approval is automatic, in her name
        let history = olm_ops::history(&world.client, Some("ns"), "a").await?;
        let approval = &history.first().ok_or_else(|| anyhow::anyhow!("no history"))?.approval;
        ensure!(approval.who() == "automatic, requested by jane", "{approval:?}");

        // and users cannot change it
        let plan = &history[0].plan;
        let forged = json!({ "metadata": { "annotations": { "olm.requestedBy": "joe" } } });
        let refused = world.patch_as(&jane, ("InstallPlan", "ns", plan), &forged).await;
        let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(refused.contains("written by the manager"), "{refused}");
        Ok(())
    });
}

#[test]
fn t21_high_rights_take_the_approval_of_two_users() {
    run(async {
        // given a policy that requires two approvers, and a plan that grants HIGH rights
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&high("a", "1.0.0")])).await?;
        world.apply(&policy("four-eyes", json!({ "approvals": { "high": 2 } }))).await?;
        let _manager = world.manager("manager-0")?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let review = text(&plan, "/metadata/annotations/olm.planReview");
        ensure!(review == "new permissions of level HIGH", "{plan}");
        let plan = text(&plan, "/metadata/name");
        let (jane, joe) = (administrator(&world, "jane"), administrator(&world, "joe"));

        // when no approver is on record yet, a user cannot record another user as the first, nor change what
        // approvers are shown
        let digest = world.get("InstallPlan", "ns", plan).await?["spec"]["planDigest"].clone();
        let first = json!({ "user": "root", "digest": digest }).to_string();
        for (key, forged) in [
            ("olm.firstApproval", json!(first)),
            ("olm.planReview", json!("")),
            ("olm.planSummary", json!("nothing changes")),
            ("olm.approvalNeeded", json!("none")),
        ] {
            let forged = json!({ "metadata": { "annotations": { key: forged } } });
            let refused = world.patch_as(&joe, ("InstallPlan", "ns", plan), &forged).await;
            let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(refused.contains("written by the manager"), "{key}: {refused}");
        }

        // when one user approves it, even twice, then it waits for another
        for _ in 0..2 {
            approve(&world, &jane, plan).await?;
            let taken =
                |plan: &Value| plan["spec"]["approved"] == false && text(plan, FIRST).contains("jane");
            let taken = world.until("InstallPlan", "ns", plan, taken).await?;
            ensure!(
                text(&taken, "/metadata/annotations/olm.approvalNeeded").contains("another user"),
                "{taken}"
            );
        }
        world.event("ns", plan, "SecondApproverNeeded").await?;
        world.quiet().await?;
        not_installed(&world, "ns").await?;
        let pending =
            world.condition("Subscription", "ns", "a", "InstallPlanPending", "RequiresApproval").await?;
        ensure!(text(&pending, "/message").contains("InstallPolicy four-eyes"), "{pending}");

        // when another one does, it is applied
        approve(&world, &joe, plan).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn the_author_of_an_automatic_subscription_is_the_first_of_two_and_both_approve_what_comes_along() {
    run(async {
        // given an operator that needs another one with HIGH rights
        let world = World::bare().await?;
        let (root, along) = (op("1.0.0").needs_package("b", ">=1.0.0"), high("b", "1.0.0"));
        world.publish("catalog", &Catalog::chain(&[&root]).and_chain(&[&along])).await?;
        world.apply(&policy("four-eyes", json!({ "approvals": { "high": 2 } }))).await?;
        let _manager = world.manager("manager-0")?;
        world.home("ns").await?;
        let (jane, joe) = (administrator(&world, "jane"), administrator(&world, "joe"));

        // when a user requests it, then it waits for another one
        world.create_as(&jane, &World::subscription("ns", "a")).await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let name = text(&plan, "/metadata/name");
        ensure!(text(&plan, FIRST).contains("jane"), "{plan}");
        approve(&world, &jane, name).await?;
        world.until("InstallPlan", "ns", name, |plan| plan["spec"]["approved"] == false).await?;
        world.quiet().await?;
        not_installed(&world, "ns").await?;

        // when that one approves it, both are installed
        approve(&world, &joe, name).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.csv("ns", "b.v1.0.0", "Succeeded").await.map(drop)
    });
}
