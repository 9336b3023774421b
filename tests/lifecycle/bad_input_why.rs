//! Output of `olm why` for invalid input: the object, the field, and the fix. The command is the one that
//! cargo built, against the API of the scenario; [`super::bad_input`] has conditions and events of the same
//! input.

use std::{net::SocketAddr, sync::mpsc};

use anyhow::{Result, ensure};
use olm_devcluster::api::Identity;
use olm_tests::inprocess::{Catalog, Manager, Operator, Served, World};
use serde_json::json;

use crate::{a_crd, bad_input::elsewhere, manager_for_admin, op, run_with_olm};

/// A cluster whose manager serves the administrator's programs.
struct Desk {
    world: World,
    admin: Served,
    manager: SocketAddr,
    _manager: Manager,
}

impl Desk {
    async fn open() -> Result<Self> {
        let world = World::bare().await?;
        let (_manager, manager, admin) = manager_for_admin(&world, world.options("manager-0"))?;
        Ok(Self { world, admin, manager, _manager })
    }

    /// The output of `olm why a -n ns`, without the digest of the catalog.
    async fn why(&self) -> Result<String> {
        let (out, error) = self.admin.olm(&["why", "a", "-n", "ns"]).await?;
        let mut text = out + &error;
        if let Some((before, rest)) = text.split_once("@sha256:") {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '…');
            text = format!("{before}@…{rest}");
        }
        Ok(text)
    }
}

/// Runs a scenario with an output; `None` where it is skipped.
fn shown<F>(name: &str, body: F) -> Option<String>
where
    F: AsyncFnOnce(Desk) -> Result<String> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel();
    run_with_olm(name, async move {
        let text = body(Desk::open().await?).await?;
        sender.send(text)?;
        Ok(())
    });
    receiver.recv().ok()
}

/// The output for a Subscription to an invalid bundle.
fn of(name: &str, wrong: Operator) -> Option<String> {
    shown(name, async move |desk| {
        let world = &desk.world;
        world.publish("catalog", &Catalog::chain(&[&wrong])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.condition("Subscription", "ns", "a", "ResolutionFailed", "").await?;
        desk.why().await
    })
}

macro_rules! shows {
    ($text:expr, @$snapshot:literal) => {
        if let Some(text) = $text {
            insta::assert_snapshot!(text, @$snapshot);
        }
    };
}

#[test]
fn a_wrong_permission() {
    let rule = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": [] });
    shows!(of("a_wrong_permission", op("1.0.0").permission("a", rule)), @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: bundle a.v1.0.0 cannot be rendered:
      spec.install.spec.permissions[1].rules[0].verbs: it is empty; name at least
      one verb, or remove the rule (olm show a # choose another version)
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}

#[test]
fn a_missing_deployment() {
    let wrong = op("1.0.0")
        .owns(a_crd(&["v1"]))
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", json!([]))
        .csv(|csv| csv["spec"]["webhookdefinitions"][0]["deploymentName"] = "nobody".into());
    shows!(of("a_missing_deployment", wrong), @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: bundle a.v1.0.0 cannot be rendered:
      spec.webhookdefinitions[0].deploymentName of check.a.example.com: there is no
      deployment `nobody`; name one of spec.install.spec.deployments (olm show a #
      choose another version)
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}

#[test]
fn an_unsupported_kind() {
    let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "a-job" }, "spec": {} });
    shows!(of("an_unsupported_kind", op("1.0.0").object(job)), @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: bundle a.v1.0.0 cannot be rendered: Job a-job: bundles do not
      support this kind; let the operator create it, and remove the manifest from
      the bundle (olm show a # choose another version)
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}

#[test]
fn a_duplicate_webhook_name() {
    let rules = json!([{ "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["as"] }]);
    let wrong = op("1.0.0")
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", rules.clone())
        .webhook("ValidatingAdmissionWebhook", "check.a.example.com", rules);
    shows!(of("a_duplicate_webhook_name", wrong), @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: bundle a.v1.0.0 cannot be rendered:
      spec.webhookdefinitions[1].generateName of check.a.example.com: another
      webhook of this type is called `check.a.example.com`, too; rename one of the
      two (olm show a # choose another version)
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}

#[test]
fn an_invalid_version() {
    let wrong = op("1.0.0").csv(|csv| csv["spec"]["version"] = "one.two".into());
    shows!(of("an_invalid_version", wrong), @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: bundle a.v1.0.0 cannot be rendered: spec.version: `one.two` is
      not a semantic version; write MAJOR.MINOR.PATCH (olm show a # choose another
      version)
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}

#[test]
fn an_invalid_range() {
    let text = shown("an_invalid_range", async |desk| {
        let world = &desk.world;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["version"] = "newest please".into()).await?;
        world.condition("Subscription", "ns", "a", "ResolutionFailed", "").await?;
        desk.why().await
    });
    shows!(text, @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: Subscription spec.version: no version in "newest"; a comparator
      is an operator and a full version such as >=1.2.3
    constraints: channel stable; version newest please; no skipped versions
    "#);
}

#[test]
fn two_operator_groups() {
    let text = shown("two_operator_groups", async |desk| {
        let world = &desk.world;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world
            .apply(&json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": { "name": "second", "namespace": "ns" }, "spec": {} }))
            .await?;
        world.quiet().await?;
        world.subscribe("ns", "a").await?;
        world.condition("Subscription", "ns", "a", "ResolutionFailed", "TooManyOperatorGroups").await?;
        desk.why().await
    });
    shows!(text, @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      olm/catalog@…)
    status: Failed: the namespace has 2 OperatorGroups (own, second), expected one;
      the target namespaces of its operators are ambiguous (kubectl delete
      operatorgroup second -n ns)
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}

#[test]
fn a_catalog_of_another_namespace() {
    let text = shown("a_catalog_of_another_namespace", async |desk| {
        let world = &desk.world;
        elsewhere(world).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["sourceNamespace"] = "elsewhere".into()).await?;
        world.condition("Subscription", "ns", "a", "CatalogSourcesUnhealthy", "").await?;
        desk.why().await
    });
    shows!(text, @r#"
    a is not installed in namespace ns (channel stable, updates: automatic, catalog
      elsewhere/catalog@…)
    status: Failed: targeted catalogsource elsewhere/catalog is not available in
      namespace ns: only catalogs of that namespace and of olm are visible there;
      set spec.sourceNamespace to ns or olm
    constraints: channel stable; any version; no skipped versions
    "#);
}

/// A user who may read, and not approve.
#[test]
fn an_approval_without_the_right() {
    let text = shown("an_approval_without_the_right", async |desk| {
        let world = &desk.world;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
        world.waiting_plan("ns", &[]).await?;
        let view = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "looks" },
            "rules": [{ "apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["get", "list", "watch"] }] });
        let bound = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "looks" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "visitor" }] });
        world.apply(&view).await?;
        world.apply(&bound).await?;
        let visitor = world.serve_to(Identity::user("visitor", []), desk.manager)?;
        let (out, error) = visitor.olm(&["approve", "a", "-n", "ns"]).await?;
        let plans = world.list("InstallPlan", "ns").await?;
        ensure!(plans.iter().all(|plan| plan["spec"]["approved"] == false), "{plans:?}");
        let text = format!("$ olm approve a -n ns\n{out}{error}$ olm why a -n ns\n{}", desk.why().await?);
        let plan = plans[0]["metadata"]["name"].as_str().unwrap_or_default();
        // Its name ends randomly.
        Ok(text
            .replace(plan, "install-…")
            .lines()
            .filter(|l| !l.contains("since"))
            .collect::<Vec<_>>()
            .join("\n"))
    });
    shows!(text, @r#"
    $ olm approve a -n ns
    error: failed to approve InstallPlan ns/install-…: installplans.operators.coreos.com "install-…" is forbidden: User "visitor" cannot patch resource "installplans" in API group "operators.coreos.com" in the namespace "ns"
    hint: an administrator can grant this permission: `kubectl create role patch-installplans -n ns --verb=patch --resource=installplans.operators.coreos.com && kubectl create rolebinding patch-installplans -n ns --role=patch-installplans --user=visitor`
    $ olm why a -n ns
    a is not installed in namespace ns (channel stable, updates: ask, catalog
      olm/catalog@…)
    status: Needs approval: install a 1.0.0: 5 to create, 0 to change, 0 to delete,
      olm approve a -n ns
    install: 1.0.0, highest installable version in channel stable
    constraints: channel stable; any version; no skipped versions
    "#);
}
