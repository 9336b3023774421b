//! A user gains no right through the manager: attacks of a tenant with all rights on the manager's own kinds
//! in one namespace. The ids are those of docs/security.md.

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use olm_devcluster::api::Identity;
use olm_tests::inprocess::{Catalog, Operator, World, crd, text};
use serde_json::{Value, json};

use crate::{a_crd, approvals, op, run, scenario};

const NEEDED: &str = "/metadata/annotations/olm.approvalNeeded";
const BY: &str = "/metadata/annotations/olm.requestedBy";

pub(crate) fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": groups, "resources": resources, "verbs": verbs })
}

/// A user with all rights on the manager's kinds, ConfigMaps and workloads, in one namespace.
pub(crate) async fn tenant(world: &World, user: &str, namespace: &str) -> Result<Client> {
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let rules = [
        rule(&["operators.coreos.com"], &["*"], &all),
        rule(&[""], &["configmaps", "pods", "services", "secrets", "serviceaccounts"], &all),
        rule(&["apps"], &["deployments"], &all),
    ];
    world.allow(user, namespace, &rules).await?;
    Ok(world.client_of(Identity::user(user, ["tenants"])))
}

pub(crate) fn group(namespace: &str, targets: &[&str]) -> Value {
    json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": { "name": "own", "namespace": namespace }, "spec": { "targetNamespaces": targets } })
}

/// An operator that requests to be cluster administrator.
fn greedy(version: &str) -> Operator {
    op(version).cluster_permission("a", rule(&["*"], &["*"], &["*"]))
}

/// A tenant's request, with an OperatorGroup of the tenant's.
pub(crate) async fn requested(world: &World, tenant: &Client, targets: &[&str]) -> Result<()> {
    world.create_as(tenant, &group("ns", targets)).await?;
    world.create_as(tenant, &World::subscription("ns", "a")).await.map(drop)
}

/// The waiting plan, and the missing rights.
pub(crate) async fn waits(world: &World, but: &[&str]) -> Result<(String, String)> {
    let plan = world.waiting_plan("ns", but).await?;
    let name = text(&plan, "/metadata/name").to_owned();
    let plan = world.until("InstallPlan", "ns", &name, |plan| !text(plan, NEEDED).is_empty()).await?;
    ensure!(text(&plan, "/status/message").contains(text(&plan, NEEDED)), "{}", plan["status"]);
    Ok((name, text(&plan, NEEDED).to_owned()))
}

#[test]
fn t04_a_plan_beyond_the_rights_of_its_author_waits_for_an_approver_who_holds_them() {
    scenario(async |world, _manager| {
        // given a tenant who requests an operator that requests all rights
        world.publish("catalog", &Catalog::chain(&[&greedy("1.0.0")])).await?;
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        requested(&world, &jane, &["ns"]).await?;

        // then the plan waits and names them, although its Subscription is Automatic
        let (plan, needed) = waits(&world, &[]).await?;
        for part in ["user jane does not hold", "cluster-wide", "* *.*", "create clusterroles"] {
            ensure!(needed.contains(part), "{part}: {needed}");
        }
        let subscription =
            world.condition("Subscription", "ns", "a", "InstallPlanPending", "RequiresApproval").await?;
        ensure!(text(&subscription, "/message").contains("user jane"), "{subscription}");

        // when the tenant approves it, then the approval is revoked
        let approval = json!({ "spec": { "approved": true } });
        world.patch_as(&jane, ("InstallPlan", "ns", &plan), &approval).await?;
        let note = world.event("ns", &plan, "ApproverLacksRights").await?;
        ensure!(text(&note, "/note").contains("user jane does not hold"), "{note}");
        world.until("InstallPlan", "ns", &plan, |plan| plan["spec"]["approved"] == false).await?;
        ensure!(world.find("ClusterServiceVersion", "ns", "a.v1.0.0").await?.is_none(), "it was applied");
        let roles = world.names("ClusterRole", "").await?;
        ensure!(!roles.iter().any(|name| name.starts_with("a.v1.0.0")), "{roles:?}");

        // when a user with these rights approves it
        world.approve("ns", &plan).await?;

        // then it is applied
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn t04_upgrades_without_new_rights_continue_and_those_with_new_ones_wait() {
    scenario(async |world, _manager| {
        // given an operator that an administrator approved for a tenant
        let first = op("1.0.0").owns(a_crd(&["v1"]));
        let second = op("1.1.0").owns(a_crd(&["v1"]));
        let third = op("1.2.0").owns(a_crd(&["v1"])).permission("a", rule(&[""], &["nodes/proxy"], &["get"]));
        world.publish("catalog", &Catalog::chain(&[&first])).await?;
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        requested(&world, &jane, &["ns"]).await?;
        let (plan, _) = waits(&world, &[]).await?;
        world.approve("ns", &plan).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // when a version grants nothing new, then it needs no approval
        world.publish("catalog", &Catalog::chain(&[&first, &second])).await?;
        world.installed("ns", "a", "a.v1.1.0").await?;

        // when one grants more, then it waits
        world.publish("catalog", &Catalog::chain(&[&first, &second, &third])).await?;
        let (_, needed) = waits(&world, &[]).await?;
        ensure!(needed.contains("get nodes/proxy"), "{needed}");
        ensure!(!needed.contains("list pods"), "what it had is not new: {needed}");
        world.csv("ns", "a.v1.1.0", "Succeeded").await.map(drop)
    });
}

#[test]
fn t04_a_version_that_was_edited_by_hand_does_not_hide_what_the_next_one_adds() {
    scenario(async |world, _manager| {
        // given an approved operator, whose ClusterServiceVersion a tenant edits to request all rights
        let (first, second) = (op("1.0.0"), greedy("1.1.0"));
        world.publish("catalog", &Catalog::chain(&[&first])).await?;
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        requested(&world, &jane, &["ns"]).await?;
        let (plan, _) = waits(&world, &[]).await?;
        world.approve("ns", &plan).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        let all = json!([{ "serviceAccountName": "a", "rules": [rule(&["*"], &["*"], &["*"])] }]);
        let edit = json!({ "spec": { "install": { "spec": { "clusterPermissions": all } } } });
        let edited = world.patch_as(&jane, ("ClusterServiceVersion", "ns", "a.v1.0.0"), &edit).await?;
        ensure!(text(&edited, BY) == "jane", "{edited}");

        // when the next version requests all rights
        world.publish("catalog", &Catalog::chain(&[&first, &second])).await?;

        // then it counts as new
        let (_, needed) = waits(&world, &[]).await?;
        ensure!(needed.contains("* *.*"), "{needed}");
        Ok(())
    });
}

#[test]
fn t05_targets_in_a_foreign_namespace_take_rights_there() {
    scenario(async |world, _manager| {
        // given a tenant whose OperatorGroup names a system namespace
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        world.allow("jane", "ns", &[rule(&["rbac.authorization.k8s.io"], &["*"], &["*"])]).await?;
        requested(&world, &jane, &["ns", "kube-system"]).await?;

        // then the plan waits for rights there, and for no others
        let (_, needed) = waits(&world, &[]).await?;
        ensure!(
            needed.contains("in namespace kube-system") && !needed.contains("in namespace ns"),
            "{needed}"
        );

        // when the group watches the tenant's own namespace, it is installed
        world.patch_as(&jane, ("OperatorGroup", "ns", "own"), &group("ns", &["ns"])).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // when it is widened again, then the rights do not follow
        let wide = group("ns", &["ns", "kube-system"]);
        world.patch_as(&jane, ("OperatorGroup", "ns", "own"), &wide).await?;
        let note = world.event("ns", "a.v1.0.0", "AuthorLacksRights").await?;
        ensure!(text(&note, "/note").contains("in namespace kube-system"), "{note}");
        let roles = world.names("Role", "kube-system").await?;
        ensure!(!roles.iter().any(|name| name.starts_with("a.v1.0.0")), "{roles:?}");

        // when an administrator requests the same, they do
        let reason = json!({ "metadata": { "annotations": { "olm.requestedBy": "me" } } });
        world.patch("OperatorGroup", "ns", "own", &reason).await?;
        world
            .eventually("rights in kube-system", async || {
                let roles = world.names("Role", "kube-system").await?;
                roles
                    .iter()
                    .any(|name| name.starts_with("a.v1.0.0"))
                    .then_some(())
                    .context(format!("{roles:?}"))
            })
            .await
    });
}

#[test]
fn t03_t10_a_version_made_by_hand_gets_nothing_that_its_author_may_not_write() {
    scenario(async |world, _manager| {
        // given a foreign kind, and a foreign Role
        world.apply(&crd("bs", "b.example.com", "B", &["v1"])).await?;
        world.home("ns").await?;
        let precious = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "precious", "namespace": "ns" }, "rules": [rule(&[""], &["pods"], &["get"])] });
        world.apply(&precious).await?;
        let jane = tenant(&world, "jane", "ns").await?;

        // when a tenant creates versions that claim the kind, or have the name of the Role
        let claims = Operator::named("b", "1.0.0", "b.v1.0.0").csv(crate::csvs::no_rights);
        let claims = claims.owns(crd("bs", "b.example.com", "B", &["v1"]));
        world.create_as(&jane, &claims.manifest("ns")).await?;
        let named = Operator::named("c", "1.0.0", "precious").csv(crate::csvs::no_rights);
        world.create_as(&jane, &named.manifest("ns")).await?;

        // then no role is extended
        let failed = world.csv("ns", "b.v1.0.0", "Failed").await?;
        let why = text(&failed, "/status/message");
        ensure!(why.contains("user jane does not hold") && why.contains("clusterroles"), "{why}");
        let roles = world.names("ClusterRole", "").await?;
        ensure!(!roles.iter().any(|name| name.starts_with("bs.b.example.com")), "{roles:?}");

        // and the Role is unchanged
        let failed = world.csv("ns", "precious", "Failed").await?;
        ensure!(text(&failed, "/status/message").contains("does not belong to"), "{}", failed["status"]);
        let role = world.get("Role", "ns", "precious").await?;
        ensure!(role["rules"] == precious["rules"], "{role}");
        Ok(())
    });
}

#[test]
fn the_configuration_of_a_subscription_takes_the_right_to_change_deployments() {
    scenario(async |world, _manager| {
        // given an approved operator of a user who may write Subscriptions, and no Deployments
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.allow("bob", "ns", &[rule(&["operators.coreos.com"], &["subscriptions"], &["*"])]).await?;
        let bob = world.client_of(Identity::user("bob", []));
        world.create_as(&bob, &World::subscription("ns", "a")).await?;
        let (plan, _) = waits(&world, &[]).await?;
        world.approve("ns", &plan).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // when that user configures its pods
        let config =
            json!({ "spec": { "config": { "env": [{ "name": "LD_PRELOAD", "value": "/evil.so" }] } } });
        world.patch_as(&bob, ("Subscription", "ns", "a"), &config).await?;

        // then the Deployment stays unchanged
        let failed = world.csv("ns", "a.v1.0.0", "Failed").await?;
        let why = text(&failed, "/status/message");
        ensure!(why.contains("user bob does not hold") && why.contains("patch deployments.apps"), "{why}");
        let deployment = world.get("Deployment", "ns", "a").await?;
        ensure!(!deployment.to_string().contains("LD_PRELOAD"), "{deployment}");

        // when an administrator requests the same, it is applied
        let same = json!({ "metadata": { "annotations": { "olm.requestedBy": "me" } } });
        world.patch("Subscription", "ns", "a", &same).await?;
        world.until("Deployment", "ns", "a", |d| d.to_string().contains("LD_PRELOAD")).await.map(drop)
    });
}

#[test]
fn t08_a_status_approves_nothing() {
    scenario(async |world, _manager| {
        // given a plan that waits, and a user who may write the status of plans
        let plan = approvals::waiting(&world).await?;
        let plan = text(&plan, "/metadata/name");
        let right = rule(&["operators.coreos.com"], &["installplans/status"], &["patch"]);
        world.allow("bob", "ns", &[right]).await?;
        let bob = world.client_of(Identity::user("bob", []));

        // when that is set to in progress
        let begun = json!({ "status": { "phase": "Installing", "contentDigest": null } });
        world.patch_as(&bob, ("InstallPlan", "ns", plan), &begun).await?;

        // then it is reset to waiting, and nothing was done
        world.until("InstallPlan", "ns", plan, |plan| plan["status"]["phase"] == "RequiresApproval").await?;
        ensure!(world.find("ClusterServiceVersion", "ns", "a.v1.0.0").await?.is_none(), "it was applied");
        world.approve("ns", plan).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn t09_only_plans_of_the_manager_are_applied() {
    scenario(async |world, _manager| {
        // given a plan that waits, and a tenant
        let plan = approvals::waiting(&world).await?;
        let jane = tenant(&world, "jane", "ns").await?;

        // when the tenant creates an approved one without a digest
        let mut forged = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": { "name": "forged", "namespace": "ns", "ownerReferences": plan["metadata"]["ownerReferences"] },
            "spec": { "approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["a.v1.0.0"] },
        });
        world.create_as(&jane, &forged).await?;

        // then it reports that it is not applied, or is replaced by the waiting one
        world
            .eventually("the forged plan to be refused", async || {
                let Some(plan) = world.find("InstallPlan", "ns", "forged").await? else { return Ok(()) };
                ensure!(
                    text(&plan, "/status/message").contains("was not created by this manager"),
                    "{}",
                    plan["status"]
                );
                Ok(())
            })
            .await?;
        ensure!(world.find("ClusterServiceVersion", "ns", "a.v1.0.0").await?.is_none(), "it was applied");

        // and the API server accepts none with the manager's fields, nor another content for the manager's
        forged["metadata"]["name"] = "forged-too".into();
        forged["metadata"]["annotations"] = json!({ "olm.contentDigest": "sha256:00" });
        let name = text(&plan, "/metadata/name");
        let other = json!({ "spec": { "planDigest": "sha256:00" } });
        for refused in [
            world.create_as(&jane, &forged).await,
            world.patch_as(&jane, ("InstallPlan", "ns", name), &other).await,
        ] {
            let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(refused.contains("written by the manager"), "{refused}");
        }
        Ok(())
    });
}

#[test]
fn t21_the_author_of_a_request_is_recorded_and_cannot_be_forged() {
    scenario(async |world, _manager| {
        world.home("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        let joe = tenant(&world, "joe", "ns").await?;
        // given a Subscription with a forged author
        let mut lie = World::subscription("ns", "a");
        lie["metadata"]["annotations"] =
            json!({ "olm.requestedBy": "admin", "olm.requestedByGroups": "system:masters" });
        let made = world.create_as(&jane, &lie).await?;
        ensure!(text(&made, BY) == "jane", "{made}");
        let groups = text(&made, "/metadata/annotations/olm.requestedByGroups");
        ensure!(groups == "tenants\nsystem:authenticated", "{groups:?}");

        // then another user becomes the author by a relevant change, and by no other
        for (patch, author) in [
            (json!({ "metadata": { "labels": { "team": "a" } } }), "jane"),
            (json!({ "metadata": { "annotations": { "olm.requestedBy": "admin" } } }), "joe"),
            (json!({ "metadata": { "annotations": { "olm.requestedByGroups": "system:masters" } } }), "joe"),
            (json!({ "metadata": { "annotations": { "olm.requestedBy": null } } }), "joe"),
            (json!({ "spec": { "channel": "fast" } }), "joe"),
            (json!({ "metadata": { "annotations": { "olm.approvedPlan": "sha256:00" } } }), "joe"),
        ] {
            let changed = world.patch_as(&joe, ("Subscription", "ns", "a"), &patch).await?;
            ensure!(text(&changed, BY) == author, "{patch}: {}", changed["metadata"]["annotations"]);
        }
        Ok(())
    });
}

/// The default roles of a namespace are sufficient to request an operator, to follow it and to remove it.
#[test]
fn an_editor_of_a_namespace_requests_operators_and_a_viewer_reads() {
    scenario(async |world, _manager| {
        // given an editor and a viewer of one namespace
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.namespace("ns").await?;
        world.namespace("other").await?;
        let bind = |user: &str, role: &str| {
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": user, "namespace": "ns" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }] })
        };
        world.apply(&bind("jane", "edit")).await?;
        world.apply(&bind("vic", "view")).await?;
        let (jane, vic) =
            (world.client_of(Identity::user("jane", [])), world.client_of(Identity::user("vic", [])));
        world
            .eventually("edit to have the manager's kinds", async || {
                let edit = world.get("ClusterRole", "", "edit").await?;
                edit["rules"]
                    .to_string()
                    .contains("subscriptions")
                    .then_some(())
                    .context("not aggregated yet")
            })
            .await?;

        // when the editor requests an operator
        requested(&world, &jane, &["ns"]).await?;

        // then it waits for the rights that an editor does not have, and is installed once a user with them
        // approves it
        let (plan, needed) = waits(&world, &[]).await?;
        ensure!(needed.contains("create roles") && !needed.contains("deployments"), "{needed}");
        world.approve("ns", &plan).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // and the viewer reads these objects and changes none, and the editor reads no other namespace
        let subscription = ("Subscription", "ns", "a");
        let touch = json!({ "spec": { "channel": "other" } });
        ensure!(world.patch_as(&vic, subscription, &touch).await.is_err(), "a viewer changed a Subscription");
        for kind in ["Subscription", "InstallPlan", "ClusterServiceVersion", "OperatorGroup"] {
            ensure!(!world.list_as(&vic, kind, "ns").await?.is_empty(), "{kind}");
            ensure!(world.list_as(&jane, kind, "other").await.is_err(), "{kind} of another namespace");
        }

        // when the editor removes it
        world.delete_as(&jane, subscription).await?;
        world.delete_as(&jane, ("ClusterServiceVersion", "ns", "a.v1.0.0")).await?;
        world.gone("Deployment", "ns", "a").await
    });
}

#[test]
fn a_service_account_installs_what_its_rights_cover() {
    scenario(async |world, _manager| {
        // given an account of a GitOps tool, with the rights of the operator and those to write its objects
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.namespace("ns").await?;
        let user = "system:serviceaccount:ns:gitops";
        let write = ["create", "patch", "delete"];
        world
            .allow(
                user,
                "",
                &[
                    rule(&["operators.coreos.com"], &["subscriptions", "operatorgroups"], &["*"]),
                    rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &write),
                    rule(&["rbac.authorization.k8s.io"], &["clusterroles", "roles", "rolebindings"], &write),
                    rule(&["apps"], &["deployments"], &write),
                    rule(&[""], &["serviceaccounts"], &write),
                    rule(&["a.example.com"], &["*"], &["*"]),
                    rule(&["apiextensions.k8s.io"], &["customresourcedefinitions"], &["get"]),
                    rule(&[""], &["pods"], &["get", "list"]),
                ],
            )
            .await?;
        let gitops = world.client_of(Identity::service_account("ns", "gitops"));
        requested(&world, &gitops, &["ns"]).await?;

        // then it needs no approval
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// Runs an action while requests are not recorded, as before the installation.
pub(crate) async fn without_a_record<T>(world: &World, act: impl AsyncFnOnce() -> Result<T>) -> Result<T> {
    let mut binding = world.get("MutatingAdmissionPolicyBinding", "", "olm-requests").await?;
    world.delete("MutatingAdmissionPolicyBinding", "", "olm-requests").await?;
    recording(world, false).await?;
    let done = act().await?;
    binding["metadata"] = json!({ "name": "olm-requests" });
    world.apply(&binding).await?;
    recording(world, true).await?;
    Ok(done)
}

/// Waits until recording of requests is on, or off: a real API server applies a change of a policy a moment
/// later.
async fn recording(world: &World, wanted: bool) -> Result<()> {
    world
        .eventually("the policy to be taken into account", async || {
            let made = world.create(&World::subscription("default", "probe")).await?;
            world.delete("Subscription", "default", "probe").await?;
            ensure!(text(&made, BY).is_empty() != wanted, "{}", made["metadata"]);
            Ok(())
        })
        .await
}

#[test]
fn a_request_without_a_recorded_author_waits_for_one() {
    run(async {
        // given a Subscription created before the API server recorded requests
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        let subscription = World::subscription("ns", "a");
        let old = without_a_record(&world, async || world.create(&subscription).await).await?;
        ensure!(text(&old, BY).is_empty(), "{old}");

        // then its plan waits, with the command that records an author
        let _manager = world.manager("manager-0")?;
        let (_, needed) = waits(&world, &[]).await?;
        let command = "kubectl annotate subscription a -n ns olm.requestedBy=me --overwrite";
        ensure!(needed.contains("has no recorded author") && needed.contains(command), "{needed}");

        // when that is run, it is installed
        let patch = json!({ "metadata": { "annotations": { "olm.requestedBy": "me" } } });
        world.patch("Subscription", "ns", "a", &patch).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}
