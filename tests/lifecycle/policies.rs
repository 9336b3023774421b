//! InstallPolicies: allowed packages per namespace, the rights for them, and approvers. Each scenario
//! includes possible bypasses by a namespace's users.

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use olm_devcluster::api::Identity;
use olm_ops::{Subject, Verdict, doctor};
use olm_tests::inprocess::{Catalog, Operator, World, text};
use serde_json::{Value, json};

use crate::{
    op, run, scenario,
    trust::{group, requested, rule, tenant, waits, without_a_record},
};

pub(crate) fn policy(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPolicy", "metadata": { "name": name }, "spec": spec })
}

/// An operator that reads Secrets in the namespaces that it watches.
fn curious(version: &str) -> Operator {
    op(version).permission("a", rule(&[""], &["secrets"], &["get"]))
}

/// A package that reads Secrets in the whole cluster, which is a HIGH right.
pub(crate) fn high(package: &str, version: &str) -> Operator {
    Operator::new(package, version).cluster_permission(package, rule(&[""], &["secrets"], &["get", "list"]))
}

pub(crate) fn administrator(world: &World, name: &str) -> Client {
    world.client_of(Identity::user(name, ["system:masters"]))
}

pub(crate) async fn approve(world: &World, who: &Client, plan: &str) -> Result<()> {
    world.patch_as(who, ("InstallPlan", "ns", plan), &json!({ "spec": { "approved": true } })).await.map(drop)
}

pub(crate) async fn not_installed(world: &World, namespace: &str) -> Result<()> {
    ensure!(world.find("ClusterServiceVersion", namespace, "a.v1.0.0").await?.is_none(), "it was applied");
    Ok(())
}

#[test]
fn a_package_that_a_policy_does_not_allow_waits_in_the_namespaces_that_the_policy_selects() {
    run(async {
        // given a policy for some namespaces, with a tenant's catalog of the same name as an allowed one
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        let allow = json!([{ "packages": ["b*"] }, { "packages": ["a"], "catalogs": [{ "namespace": "olm", "name": "other" }] }]);
        let tenants = json!({ "namespaceSelector": { "matchLabels": { "tenant": "true" } }, "allow": allow });
        world.apply(&policy("tenants", tenants)).await?;
        for ns in ["ns", "free"] {
            world.home(ns).await?;
        }
        let label = |value: Value| json!({ "metadata": { "labels": { "tenant": value } } });
        world.patch("Namespace", "", "ns", &label("true".into())).await?;
        let _manager = world.manager("manager-0")?;
        world.publish_in("ns", "other", &[&op("1.0.0")]).await?;

        // when the package is requested, by the name of the bundle too
        world.subscribe_with("ns", "a", |spec| spec["startingCSV"] = "a.v1.0.0".into()).await?;
        world.subscribe("free", "a").await?;

        // then it is installed where no policy applies, and refused with the policy where one does
        world.installed("free", "a", "a.v1.0.0").await?;
        let refused = async || {
            world.condition("Subscription", "ns", "a", "ResolutionFailed", "ConstraintsNotSatisfiable").await
        };
        let why = refused().await?;
        let wanted = "InstallPolicy tenants does not allow package a of catalog olm/catalog";
        ensure!(text(&why, "/message").contains(wanted), "{why}");

        // and from a catalog of the same name in another namespace
        let source = json!({ "spec": { "source": "other", "sourceNamespace": "ns" } });
        world.patch("Subscription", "ns", "a", &source).await?;
        world
            .eventually("the tenant's catalog to be refused", async || {
                let why = refused().await?;
                ensure!(text(&why, "/message").contains("package a of catalog ns/other"), "{why}");
                Ok(())
            })
            .await?;
        not_installed(&world, "ns").await?;

        // when the policy does not select the namespace any more, it is installed, and stays when it does again
        world.patch("Namespace", "", "ns", &label(Value::Null)).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.patch("Namespace", "", "ns", &label("true".into())).await?;
        world.quiet().await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

#[test]
fn a_denied_right_waits_under_automatic_too_and_no_approval_passes_it() {
    run(async {
        // given a plan that waits, and then a policy
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&curious("1.0.0")])).await?;
        world.home("ns").await?;
        world.home("auto").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        let manager = world.manager("manager-0")?;
        let plan = world.waiting_plan("ns", &[]).await?;
        let plan = text(&plan, "/metadata/name").to_owned();
        manager.stop().await?;
        let denied = json!({ "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"] });
        world.apply(&policy("no-secrets", json!({ "deny": { "rights": [denied] } }))).await?;
        world.subscribe("auto", "a").await?;
        let _manager = world.manager("manager-1")?;

        // then an Automatic one waits
        let why = world.condition("Subscription", "auto", "a", "ResolutionFailed", "PolicyDenies").await?;
        let wanted = "InstallPolicy no-secrets denies * secrets (spec.deny.rights[0])";
        ensure!(text(&why, "/message").contains(wanted), "{why}");

        // when an administrator approves the other, then the approval is revoked
        world.approve("ns", &plan).await?;
        let note = world.event("ns", &plan, "PolicyDenies").await?;
        ensure!(text(&note, "/note").contains(wanted), "{note}");
        world.until("InstallPlan", "ns", &plan, |plan| plan["spec"]["approved"] == false).await?;
        world.quiet().await?;
        not_installed(&world, "ns").await?;
        not_installed(&world, "auto").await?;

        // when the policy is deleted, both continue
        world.delete("InstallPolicy", "", "no-secrets").await?;
        world.installed("auto", "a", "a.v1.0.0").await?;
        let plan = world.waiting_plan("ns", &[]).await?;
        world.approve("ns", text(&plan, "/metadata/name")).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn an_upgrade_is_held_to_policies_and_what_is_installed_is_left_alone() {
    scenario(async |world, _manager| {
        // given an installed operator
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // when a policy denies what the next version adds
        let denied = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"] });
        world.apply(&policy("no-secrets", json!({ "deny": { "rights": [denied] } }))).await?;
        world.quiet().await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0"), &curious("1.1.0")])).await?;

        // then it stays
        let why = world.condition("Subscription", "ns", "a", "ResolutionFailed", "PolicyDenies").await?;
        ensure!(text(&why, "/message").contains("no-secrets"), "{why}");
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        ensure!(world.find("ClusterServiceVersion", "ns", "a.v1.1.0").await?.is_none(), "it was upgraded");
        Ok(())
    });
}

#[test]
fn t05_an_operator_group_does_not_widen_what_a_policy_denies() {
    run(async {
        // given a policy that denies Secrets of the whole cluster, and an operator that reads those of its
        // namespace
        let world = World::bare().await?;
        let denied =
            json!({ "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "scope": "Cluster" });
        world.apply(&policy("no-secrets", json!({ "deny": { "rights": [denied] } }))).await?;
        world.publish("catalog", &Catalog::chain(&[&curious("1.0.0")])).await?;
        world.namespace("ns").await?;
        world.apply(&group("ns", &["ns"])).await?;
        let _manager = world.manager("manager-0")?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // when its group is changed to all namespaces
        let all = json!({ "spec": { "targetNamespaces": null } });
        world.patch("OperatorGroup", "ns", "own", &all).await?;

        // then it does not get them
        let note = world.event("ns", "a.v1.0.0", "PolicyDenies").await?;
        ensure!(text(&note, "/note").contains("no-secrets"), "{note}");
        for role in world.list("ClusterRole", "").await? {
            let ours = text(&role, "/metadata/name").starts_with("a.v1.0.0");
            ensure!(!(ours && role["rules"].to_string().contains("secrets")), "{role}");
        }
        Ok(())
    });
}

#[test]
fn t03_a_version_that_is_written_by_hand_is_on_no_list() {
    run(async {
        let world = World::bare().await?;
        world.apply(&policy("lists", json!({ "allow": [{ "packages": ["*"] }] }))).await?;
        world.home("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        let _manager = world.manager("manager-0")?;

        // when a tenant applies a version without a Subscription
        let own = Operator::named("b", "1.0.0", "b.v1.0.0").csv(crate::csvs::no_rights);
        world.create_as(&jane, &own.manifest("ns")).await?;

        // then it is not deployed
        let failed = world.csv("ns", "b.v1.0.0", "Failed").await?;
        let why = text(&failed, "/status/message");
        ensure!(why.contains("InstallPolicy lists") && why.contains("without a catalog"), "{why}");
        ensure!(world.find("Deployment", "ns", "b").await?.is_none(), "it runs");
        Ok(())
    });
}

#[test]
fn the_author_of_a_policy_lends_rights_as_long_as_the_author_holds_them() {
    run(async {
        // given a policy of a platform administrator that lends rights to package `a`, and an editor
        let world = World::bare().await?;
        let (first, second) = (op("1.0.0"), curious("1.1.0"));
        world.publish("catalog", &Catalog::chain(&[&first])).await?;
        world.allow("pat", "", &[rule(&["*"], &["*"], &["*"])]).await?;
        let pat = world.client_of(Identity::user("pat", []));
        let catalogs = json!([{ "namespace": "olm", "name": "catalog" }]);
        let mut dev = policy(
            "dev",
            json!({ "allow": [{ "catalogs": catalogs, "packages": ["a"], "authority": "Policy" }] }),
        );
        // a claimed author does not count
        dev["metadata"]["annotations"] =
            json!({ "olm.requestedBy": "admin", "olm.requestedByGroups": "system:masters" });
        let made = world.create_as(&pat, &dev).await?;
        ensure!(text(&made, "/metadata/annotations/olm.requestedBy") == "pat", "{made}");
        let _manager = world.manager("manager-0")?;
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;

        // when the editor requests it, then it is installed without an approver
        requested(&world, &jane, &["ns"]).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;

        // when the author loses the rights, then the next version that needs some waits
        for binding in world.names("ClusterRoleBinding", "").await? {
            if binding.starts_with("pat-") {
                world.delete("ClusterRoleBinding", "", &binding).await?;
            }
        }
        world.publish("catalog", &Catalog::chain(&[&first, &second])).await?;
        let (_, needed) = waits(&world, &[]).await?;
        for part in
            ["user jane does not hold", "the author of InstallPolicy dev also lacks permissions: user pat"]
        {
            ensure!(needed.contains(part), "{part}: {needed}");
        }
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

#[test]
fn t21_a_policy_without_a_recorded_author_lends_nothing_and_is_listed_until_one_is_recorded() {
    run(async {
        // given a policy that would lend rights, written while no author was recorded
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.allow("pat", "", &[rule(&["*"], &["*"], &["*"])]).await?;
        let pat = world.client_of(Identity::user("pat", []));
        let catalogs = json!([{ "namespace": "olm", "name": "catalog" }]);
        let lends = json!({ "allow": [{ "catalogs": catalogs, "packages": ["a"], "authority": "Policy" }] });
        let dev = policy("dev", lends);
        let made = without_a_record(&world, async || world.create_as(&pat, &dev).await).await?;
        ensure!(made["metadata"].get("annotations").is_none(), "{made}");
        let _manager = world.manager("manager-0")?;
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        requested(&world, &jane, &["ns"]).await?;

        // then it lends nothing, and doctor lists it with the same command as the plan
        let command = "kubectl annotate installpolicy dev olm.requestedBy=me --overwrite";
        let (_, needed) = waits(&world, &[]).await?;
        ensure!(needed.contains(command), "{needed}");
        let listed = async || {
            let report = doctor::examine(&pat, None).await;
            let of = |problem: &doctor::Problem| problem.code == doctor::Code::AuthorNotRecorded;
            report.problems.into_iter().filter(of).collect::<Vec<_>>()
        };
        let found = listed().await;
        let [found] = &found[..] else { anyhow::bail!("one is expected: {found:?}") };
        ensure!(found.object.as_deref() == Some("InstallPolicy dev"), "{found:?}");
        ensure!(found.fix.as_deref() == Some(command), "{found:?}");

        // when a user with the rights runs it, then that user lends them
        let note = json!({ "metadata": { "annotations": { "olm.requestedBy": "me" } } });
        let recorded = world.patch_as(&pat, ("InstallPolicy", "", "dev"), &note).await?;
        ensure!(text(&recorded, "/metadata/annotations/olm.requestedBy") == "pat", "{recorded}");
        world.installed("ns", "a", "a.v1.0.0").await?;
        ensure!(listed().await.is_empty(), "it is listed still");
        Ok(())
    });
}

#[test]
fn rights_are_lent_for_the_own_namespace_and_for_the_named_catalog_alone() {
    run(async {
        // given a policy that lends rights
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        let catalogs = json!([{ "namespace": "olm", "name": "catalog" }]);
        let lends = json!({ "allow": [
            { "catalogs": catalogs, "packages": ["a"], "authority": "Policy" }, { "packages": ["*"] }] });
        world.apply(&policy("dev", lends)).await?;
        let _manager = world.manager("manager-0")?;

        // when an editor makes the operator watch all namespaces, then it waits
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        requested(&world, &jane, &[]).await?;
        let (plan, needed) = waits(&world, &[]).await?;
        ensure!(needed.contains("user jane does not hold") && !needed.contains("InstallPolicy"), "{needed}");

        // and so does the same package of the editor's own catalog
        world.publish_in("ns", "catalog", &[&op("1.0.0")]).await?;
        world
            .patch_as(
                &jane,
                ("OperatorGroup", "ns", "own"),
                &json!({ "spec": { "targetNamespaces": ["ns"] } }),
            )
            .await?;
        world
            .patch_as(&jane, ("Subscription", "ns", "a"), &json!({ "spec": { "sourceNamespace": "ns" } }))
            .await?;
        let (_, needed) = waits(&world, &[&plan]).await?;
        ensure!(needed.contains("user jane does not hold"), "{needed}");
        not_installed(&world, "ns").await
    });
}

#[test]
fn a_dependency_that_a_policy_does_not_allow_is_not_installed_along() {
    run(async {
        let world = World::bare().await?;
        let (root, along) = (op("1.0.0").needs_package("b", ">=1.0.0"), Operator::new("b", "1.0.0"));
        world.publish("catalog", &Catalog::chain(&[&root]).and_chain(&[&along])).await?;
        world.apply(&policy("only-a", json!({ "allow": [{ "packages": ["a"] }] }))).await?;
        let _manager = world.manager("manager-0")?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let why = world
            .condition("Subscription", "ns", "a", "ResolutionFailed", "ConstraintsNotSatisfiable")
            .await?;
        ensure!(text(&why, "/message").contains("b"), "{why}");
        not_installed(&world, "ns").await?;
        ensure!(world.names("Subscription", "ns").await? == ["a"], "something came along");

        // when it is allowed, both are installed
        world.apply(&policy("only-a", json!({ "allow": [{ "packages": ["a", "b"] }] }))).await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn a_malformed_policy_is_refused_with_the_field() {
    run(async {
        let world = World::bare().await?;
        let entry = |extra: Value| {
            let mut entry = json!({ "packages": ["etcd"] });
            entry.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({ "allow": [entry] })
        };
        let selector = |expression: Value| json!({ "approvals": { "high": 2 }, "namespaceSelector": { "matchExpressions": [expression] } });
        let right = |right: Value| json!({ "deny": { "rights": [right] } });
        let catalog = json!([{ "namespace": "olm", "name": "community" }]);
        let signed =
            |images: Value, by: Value| json!({ "signatures": [{ "images": images, "anyOf": [by] }] });
        let key = json!({ "key": "-----BEGIN PUBLIC KEY-----" });
        let identity = |identity: Value| signed(json!(["*"]), json!({ "identity": identity }));
        for (spec, field) in [
            (json!({}), "spec: Invalid value"),
            (json!({ "allow": [] }), "spec.allow"),
            (json!({ "allow": null }), "the policy has no effect"),
            (json!({ "allow": [{}] }), "spec.allow[0]"),
            (json!({ "allow": [{ "packages": [] }] }), "spec.allow[0].packages"),
            (entry(json!({ "packages": ["a b"] })), "spec.allow[0].packages[0]"),
            (entry(json!({ "channels": [""] })), "spec.allow[0].channels[0]"),
            (entry(json!({ "catalogs": [{ "name": "community" }] })), "spec.allow[0].catalogs[0].namespace"),
            (
                entry(json!({ "catalogs": [{ "name": "c", "namespace": "*" }] })),
                "spec.allow[0].catalogs[0].namespace",
            ),
            (entry(json!({ "authority": "Admin" })), "spec.allow[0].authority"),
            (entry(json!({ "authority": "Policy" })), "needs both catalogs and packages"),
            (
                json!({ "allow": [{ "catalogs": catalog, "authority": "Policy" }] }),
                "needs both catalogs and packages",
            ),
            (
                entry(json!({ "authority": "Policy", "catalogs": [{ "namespace": "olm", "name": "*" }] })),
                "the names of catalogs have no `*`",
            ),
            (json!({ "deny": {} }), "spec.deny.rights"),
            (right(json!({ "verbs": [] })), "spec.deny.rights[0].verbs"),
            (right(json!({ "verbs": ["get"] })), "spec.deny.rights[0]"),
            (right(json!({ "verbs": ["get"], "apiGroups": [""] })), "spec.deny.rights[0]"),
            (
                right(json!({ "verbs": ["get"], "nonResourceURLs": ["metrics"] })),
                "spec.deny.rights[0].nonResourceURLs[0]",
            ),
            (json!({ "signatures": [] }), "spec.signatures"),
            (json!({ "signatures": [{ "images": ["*"] }] }), "spec.signatures[0].anyOf"),
            (signed(json!([]), key.clone()), "spec.signatures[0].images"),
            (signed(json!([""]), key.clone()), "spec.signatures[0].images[0]"),
            (signed(json!(["quay.io/*"]), key), "spec.signatures[0].images[0]"),
            (signed(json!(["*"]), json!({})), "exactly one of key and identity"),
            (signed(json!(["*"]), json!({ "key": "x" })), "spec.signatures[0].anyOf[0].key"),
            (identity(json!({ "subject": "a" })), "exactly one of issuer and issuerRegexp"),
            (
                identity(json!({ "subject": "a", "subjectRegexp": "b", "issuer": "c" })),
                "exactly one of subject",
            ),
            (json!({ "approvals": { "high": 3 } }), "spec.approvals.high"),
            (json!({ "approvals": {} }), "spec.approvals.high"),
            (
                selector(json!({ "key": "a", "operator": "Is" })),
                "spec.namespaceSelector.matchExpressions[0].operator",
            ),
            (selector(json!({ "key": "a", "operator": "In" })), "spec.namespaceSelector.matchExpressions[0]"),
            (
                selector(json!({ "key": "a", "operator": "Exists", "values": ["b"] })),
                "spec.namespaceSelector.matchExpressions[0]",
            ),
            (
                selector(json!({ "key": "a b", "operator": "Exists" })),
                "spec.namespaceSelector.matchExpressions[0].key",
            ),
        ] {
            let refused = world.create(&policy("wrong", spec.clone())).await;
            let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
            ensure!(refused.contains(field), "{spec}: {refused:?}");
        }
        // a tenant may neither write nor read one
        world.namespace("ns").await?;
        let jane = tenant(&world, "jane", "ns").await?;
        ensure!(world.create_as(&jane, &policy("own", json!({ "approvals": { "high": 1 } }))).await.is_err());
        ensure!(world.list_as(&jane, "InstallPolicy", "").await.is_err());
        Ok(())
    });
}

#[test]
fn where_the_kind_is_not_served_nothing_is_different() {
    run(async {
        let world = World::bare().await?;
        let crd = "installpolicies.operators.coreos.com";
        world.delete("CustomResourceDefinition", "", crd).await?;
        world.gone("CustomResourceDefinition", "", crd).await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        let _manager = world.manager("manager-0")?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

#[test]
fn the_effect_of_a_policy_is_shown_before_it_is_applied() {
    scenario(async |world, _manager| {
        // given one installed operator, and one that waits
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")]).and_chain(&[&high("b", "1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.subscribe_with("ns", "b", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        world.waiting_plan("ns", &[]).await?;
        let catalogs =
            [Catalog::chain(&[&op("1.0.0")]).and_chain(&[&high("b", "1.0.0")]).served_as("olm", "catalog")];
        let test = async |client: &Client, namespace: Option<&str>, spec: Value| {
            let new = vec![serde_json::from_value(policy("new", spec))?];
            anyhow::Ok(olm_ops::test_policies(client, namespace, &catalogs, new).await?)
        };
        let results = |tested: &olm_ops::PolicyTest| -> Vec<(String, Subject, Verdict)> {
            tested.effects.iter().map(|e| (e.name.clone(), e.what, e.result)).collect()
        };

        // then each policy shows its effect
        let tested = test(
            &world.client,
            None,
            json!({ "allow": [{ "packages": ["b"] }], "approvals": { "high": 2 } }),
        )
        .await?;
        ensure!(
            results(&tested)
                == [
                    ("a".to_owned(), Subject::Installed, Verdict::Denied),
                    ("b".to_owned(), Subject::Requested, Verdict::SecondApprover),
                ],
            "{tested:?}"
        );
        ensure!(tested.not_checked.is_empty() && tested.has_effect(), "{tested:?}");
        let elsewhere = json!({ "namespaceSelector": { "matchLabels": { "no": "such" } }, "allow": [{ "packages": ["x"] }] });
        let tested = test(&world.client, None, elsewhere).await?;
        ensure!(!tested.has_effect() && tested.policies[0].namespaces == Some(0), "{tested:?}");

        // and a tenant sees the own namespace, and a list of unreadable objects
        let jane = tenant(&world, "jane", "ns").await?;
        world.allow("jane", "", &[rule(&[""], &["namespaces"], &["get"])]).await?;
        let tested = test(&jane, Some("ns"), json!({ "allow": [{ "packages": ["b"] }] })).await?;
        let first = results(&tested).into_iter().next().context("an effect")?;
        ensure!(first == ("a".to_owned(), Subject::Installed, Verdict::Denied), "{tested:?}");
        ensure!(
            tested.not_checked.iter().any(|what| what.contains("no permission to list installpolicies")),
            "{tested:?}"
        );

        // and nothing was changed
        ensure!(world.names("InstallPolicy", "").await?.is_empty());
        Ok(())
    });
}
