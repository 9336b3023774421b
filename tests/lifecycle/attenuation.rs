//! `OperatorGroup.spec.serviceAccountName`: no write of an install goes beyond the rights of the account.

use anyhow::{Result, ensure};
use olm_tests::inprocess::{Catalog, Operator, World, text};
use serde_json::{Value, json};

use crate::{a_crd, op, scenario, without_rights};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// A namespace whose group names an account without rights.
async fn scope(world: &World) -> Result<()> {
    world.namespace("ns").await?;
    world.apply(&json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "installer", "namespace": "ns" } })).await?;
    let group = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": { "name": "own", "namespace": "ns" },
        "spec": { "targetNamespaces": ["ns"], "serviceAccountName": "installer" } });
    world.apply(&group).await.map(drop)
}

/// The rights for the objects of this bundle in its own namespace and no others: they do not include creating
/// CRDs.
async fn grant(world: &World) -> Result<()> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let apply = ["get", "create", "patch"];
    let rules = json!([
        rule("operators.coreos.com", &["clusterserviceversions"], &apply),
        rule("", &["serviceaccounts", "configmaps", "services", "secrets"], &apply),
        rule("rbac.authorization.k8s.io", &["roles", "rolebindings"], &apply),
        rule("apps", &["deployments"], &apply),
        // The operator gets this from the account, which must hold what it grants.
        rule("", &["pods"], &["get", "list"]),
    ]);
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "installer", "namespace": "ns" }, "rules": rules });
    world.apply(&role).await?;
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "installer", "namespace": "ns" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "installer" },
        "subjects": [{ "kind": "ServiceAccount", "name": "installer", "namespace": "ns" }] });
    world.apply(&binding).await.map(drop)
}

/// The rights for the CRD of this bundle and the roles over its kind, in addition to other rules.
async fn grant_in_cluster(world: &World, others: &[Value]) -> Result<()> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let apply = ["get", "create", "patch"];
    let mut rules = vec![
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &apply),
        rule("rbac.authorization.k8s.io", &["clusterroles"], &apply),
        // Users get this from the account.
        rule("a.example.com", &["as"], &["*"]),
    ];
    rules.extend(others.iter().cloned());
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "installer" }, "rules": rules });
    world.apply(&role).await?;
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "installer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "installer" },
        "subjects": [{ "kind": "ServiceAccount", "name": "installer", "namespace": "ns" }] });
    world.apply(&binding).await.map(drop)
}

/// SA-1, SA-2, SA-3, SC-1, SC-2, IP-18, IP-19: the group's account limits what a plan may do, its CRDs too.
/// Missing rights are reported, the plan waits, and continues when they are granted.
#[test]
fn the_groups_account_limits_its_installs() {
    scenario(async |world, _manager| {
        // given an account without rights
        scope(&world).await?;
        let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a-settings" }, "data": {} });
        world
            .publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"])).object(settings)]))
            .await?;
        // when
        world.subscribe("ns", "a").await?;
        // then its missing rights are reported
        world
            .eventually("a condition that names the account", async || {
                let mut objects = world.list("InstallPlan", "ns").await?;
                objects.push(world.get("Subscription", "ns", "a").await?);
                let conditions = objects
                    .iter()
                    .flat_map(|o| o["status"]["conditions"].as_array().cloned().unwrap_or_default());
                let all: Vec<Value> = conditions.collect();
                let names = |c: &Value| text(c, "/message").contains("ServiceAccount ns/installer may not");
                ensure!(all.iter().any(names), "{all:?}");
                Ok(())
            })
            .await?;
        // and nothing of the bundle exists
        let crds = world.names("CustomResourceDefinition", "").await?;
        ensure!(!crds.iter().any(|name| name == "as.a.example.com"), "a CRD without the right");
        for (kind, name) in [
            ("ClusterServiceVersion", "a.v1.0.0"),
            ("ServiceAccount", "a"),
            ("ConfigMap", "a-settings"),
            ("Deployment", "a"),
        ] {
            ensure!(world.find(kind, "ns", name).await?.is_none(), "{kind} {name} without the right");
        }
        ensure!(
            world.list("InstallPlan", "ns").await?.iter().all(|p| p["status"]["phase"] != "Failed"),
            "given up"
        );
        // when the rights are granted, without a change of the Subscription
        grant(&world).await?;
        grant_in_cluster(&world, &[]).await?;
        // then
        world.installed("ns", "a", "a.v1.0.0").await?;
        world.get("ConfigMap", "ns", "a-settings").await?;
        let plans = world.list("InstallPlan", "ns").await?;
        let account = |p: &Value| text(p, "/status/attenuatedServiceAccountRef/name") == "installer";
        ensure!(plans.len() == 1 && plans.iter().all(account), "{plans:?}");
        Ok(())
    });
}

/// OG-7: the same for the Deployment of a version.
#[test]
fn the_groups_account_limits_what_a_version_runs() {
    scenario(async |world, _manager| {
        scope(&world).await?;
        world.apply(&without_rights("1.0.0").manifest("ns")).await?;
        let csv = world.csv("ns", "a.v1.0.0", "Failed").await?;
        ensure!(text(&csv, "/status/message").contains("installer"), "{}", csv["status"]);
        ensure!(world.find("Deployment", "ns", "a").await?.is_none(), "done without the right");
        world.patch("OperatorGroup", "ns", "own", &json!({ "spec": { "serviceAccountName": null } })).await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await.map(drop)
    });
}

/// A webhook that adds a binding to each binding that is created.
fn hooked(operator: Operator) -> Operator {
    let rules = json!([{ "apiGroups": [RBAC], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["clusterrolebindings"] }]);
    operator.webhook("MutatingAdmissionWebhook", "change.a.example.com", rules)
}

async fn none_of(world: &World, kind: &str, name: &str) -> Result<()> {
    let there = world.names(kind, "").await?;
    ensure!(!there.iter().any(|found| found.contains(name)), "{kind} without the right: {there:?}");
    Ok(())
}

/// T02: a plan whose webhook the account may not write is refused with the missing right, before anything is
/// written.
#[test]
fn t02_a_plan_lists_what_the_groups_account_lacks() {
    scenario(async |world, _manager| {
        scope(&world).await?;
        grant(&world).await?;
        let operator = hooked(op("1.0.0").owns(a_crd(&["v1"])));
        world.publish("catalog", &Catalog::chain(&[&operator])).await?;
        world.subscribe("ns", "a").await?;
        let reported =
            world.condition("Subscription", "ns", "a", "ResolutionFailed", "InstallerLacksRights").await?;
        let reported = text(&reported, "/message");
        ensure!(reported.contains("ServiceAccount ns/installer may not"), "{reported}");
        for right in ["mutatingwebhookconfigurations", "customresourcedefinitions", "clusterroles"] {
            ensure!(reported.contains(right), "{right} is not among {reported}");
        }
        none_of(&world, "MutatingWebhookConfiguration", "change.a.example.com").await?;
        none_of(&world, "CustomResourceDefinition", "as.a.example.com").await?;
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "begun without the rights");
        Ok(())
    });
}

/// T02: a manually applied version gets its Service, certificate, webhook and the roles of its users with the
/// rights of the account alone; missing ones are reported, and granting them is sufficient.
#[test]
fn t02_webhooks_certificates_and_roles_are_the_accounts_to_write() {
    scenario(async |world, _manager| {
        scope(&world).await?;
        world.apply(&a_crd(&["v1"])).await?;
        let operator = hooked(without_rights("1.0.0").owns(a_crd(&["v1"])));
        world.apply(&operator.manifest("ns")).await?;
        let lacks = async |what: &str| -> Result<Value> {
            world
                .until("ClusterServiceVersion", "ns", "a.v1.0.0", |c| {
                    text(c, "/status/reason") == "InstallComponentFailedNoRetry"
                        && text(c, "/status/message").contains("system:serviceaccount:ns:installer")
                        && text(c, "/status/message").contains(what)
                })
                .await
        };
        // given an account without rights, then nothing exists
        lacks("\"ns\"").await?;
        for (kind, name) in
            [("Service", "a-service"), ("Secret", "a-service-cert"), ("Role", "a-service-cert")]
        {
            ensure!(world.find(kind, "ns", name).await?.is_none(), "{kind} {name} without the right");
        }
        // given the rights in the namespace, then the webhook and the roles are missing
        grant(&world).await?;
        lacks("at the cluster scope").await?;
        world.get("Secret", "ns", "a-service-cert").await?;
        none_of(&world, "MutatingWebhookConfiguration", "change.a.example.com").await?;
        none_of(&world, "ClusterRole", "as.a.example.com-v1-admin").await?;
        // given these, it succeeds
        grant_in_cluster(
            &world,
            &[json!({ "apiGroups": [ADMISSION], "resources": ["mutatingwebhookconfigurations"],
            "verbs": ["get", "create", "patch"] })],
        )
        .await?;
        world.csv("ns", "a.v1.0.0", "Succeeded").await?;
        world.get("ClusterRole", "", "as.a.example.com-v1-admin").await?;
        let hooks = world.names("MutatingWebhookConfiguration", "").await?;
        ensure!(hooks.iter().any(|name| name.starts_with("change.a.example.com")), "{hooks:?}");
        Ok(())
    });
}

/// T02: permissions that follow the targets of the group are created with the rights of the account.
#[test]
fn t02_rights_that_follow_the_group_are_the_accounts_to_write() {
    scenario(async |world, _manager| {
        world.namespace("web").await?;
        scope(&world).await?;
        grant(&world).await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        // when the group is extended to a namespace where the account has no rights
        let both = json!({ "spec": { "targetNamespaces": ["ns", "web"] } });
        world.patch("OperatorGroup", "ns", "own", &both).await?;
        world
            .until("ClusterServiceVersion", "ns", "a.v1.0.0", |c| {
                text(c, "/status/reason") == "InstallComponentFailedNoRetry"
                    && text(c, "/status/message").contains("\"web\"")
            })
            .await?;
        let roles = world.names("Role", "web").await?;
        ensure!(roles.is_empty(), "made without the right: {roles:?}");
        Ok(())
    });
}
