//! Subscribe, approve, upgrade, uninstall, with kubectl and with `olm`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, etcd, eventually};
use serde_json::Value;

use crate::scenario;

/// Timeout of an installation (speed is asserted by the bench).
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn namespace(cluster: &Cluster, name: &str) -> Result<()> {
    let manifest = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&manifest)).map(drop)
}

pub fn delete_namespace(cluster: &Cluster, name: &str) -> Result<()> {
    cluster.kubectl(&["delete", "namespace", name, "--timeout=90s"]).map(drop)
}

pub fn get(cluster: &Cluster, args: &[&str]) -> Result<Value> {
    let mut all = vec!["get", "-o", "json"];
    all.extend(args);
    Ok(serde_json::from_str(&cluster.kubectl(&all)?)?)
}

pub async fn csv_succeeded(cluster: &Cluster, namespace: &str, csv: &str) -> Result<()> {
    eventually(&format!("{csv} in {namespace} to be Succeeded"), LIMIT, async || {
        let object = get(cluster, &["csv", csv, "-n", namespace])?;
        match object["status"]["phase"].as_str() {
            Some("Succeeded") => Ok(Some(())),
            other => bail!("phase {other:?}: {}", object["status"]["message"]),
        }
    })
    .await
}

/// A Subscription as OLM's users write it, and an OperatorGroup.
pub fn subscription(namespace: &str, approval: &str, starting_csv: Option<&str>) -> String {
    let starting = starting_csv.map(|csv| format!("  startingCSV: {csv}\n")).unwrap_or_default();
    format!(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata:\n  name: own\n  namespace: {namespace}\nspec:\n  targetNamespaces: [{namespace}]\n---\n\
         apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata:\n  name: etcd\n  namespace: {namespace}\nspec:\n  name: etcd\n  channel: singlenamespace-alpha\n  source: community\n  sourceNamespace: olm\n  installPlanApproval: {approval}\n{starting}"
    )
}

/// `kubectl apply` of an existing Subscription manifest leads to a running operator, and kubectl shows the
/// progress.
#[test]
fn the_road_shows_in_kubectl() {
    scenario("the_road_shows_in_kubectl", async |cluster| {
        let ns = "road";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(
            &["apply", "--validate=strict", "-f", "-"],
            Some(&subscription(ns, "Automatic", None)),
        )?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;

        let table = cluster.kubectl(&["get", "catalogsources,subscriptions,installplans,csv", "-A"])?;
        for column in
            ["DISPLAY", "TYPE", "PACKAGE", "SOURCE", "CHANNEL", "APPROVAL", "APPROVED", "VERSION", "PHASE"]
        {
            ensure!(table.contains(column), "no column {column} in:\n{table}");
        }
        let csv = table.lines().find(|l| l.contains("etcdoperator.v0.11.0") && l.contains("Succeeded"));
        ensure!(csv.is_some(), "no succeeded CSV in:\n{table}");

        // Short names of the API, as OLM's users type them.
        for short in ["sub", "ip", "csv", "catsrc", "og"] {
            cluster.kubectl(&["get", short, "-n", ns])?;
        }
        // One InstallPlan, applied, owned by this Subscription alone.
        let plans = get(&cluster, &["installplans", "-n", ns])?;
        let plans = plans["items"].as_array().context("items")?;
        ensure!(plans.len() == 1, "{} plans", plans.len());
        ensure!(plans[0]["status"]["phase"] == "Complete", "{}", plans[0]["status"]);
        let owners = plans[0]["metadata"]["ownerReferences"].as_array().context("owners")?;
        ensure!(owners.len() == 1 && owners[0]["kind"] == "Subscription", "{owners:?}");
        delete_namespace(&cluster, ns)
    });
}

/// Manual approval stops at the InstallPlan; the upgrade replaces the operator and leaves the etcd members
/// unchanged.
#[test]
fn an_upgrade_waits_for_approval_and_leaves_members_alone() {
    scenario("an_upgrade_waits_for_approval_and_leaves_members_alone", async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped("an_upgrade_waits_for_approval", "etcd is not installed");
            return Ok(());
        };
        let ns = "upgrade";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(
            &["apply", "-f", "-"],
            Some(&subscription(ns, "Manual", Some("etcdoperator.v0.10.1"))),
        )?;
        // It stops at the plan.
        let plan = eventually("a plan that waits", LIMIT, async || waiting_plan(&cluster, ns)).await?;
        ensure!(
            get(&cluster, &["csv", "-n", ns])?["items"].as_array().is_some_and(Vec::is_empty),
            "installed unasked"
        );
        let listed = cluster.olm_ok(&["list", "-n", ns])?;
        ensure!(listed.contains("Needs approval"), "{listed}");

        cluster.olm_ok(&["approve", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.10.1").await?;

        // A running etcd cluster under 0.10.1.
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest(ns, "kept", 1, &version)))?;
        let members = cluster.wait_members(ns, "kept", 1, Duration::from_secs(60)).await?;
        let before = pod_identity(&cluster, ns, &members[0])?;

        // The next version is planned, and waits again.
        let next = eventually("the upgrade's plan", LIMIT, async || {
            Ok(waiting_plan(&cluster, ns)?.filter(|name| *name != plan))
        })
        .await?;
        let object = get(&cluster, &["installplan", &next, "-n", ns])?;
        ensure!(
            object["spec"]["clusterServiceVersionNames"]
                .as_array()
                .is_some_and(|l| l.contains(&"etcdoperator.v0.11.0".into())),
            "{}",
            object["spec"]
        );
        // Approved the way OLM's users do it with kubectl.
        cluster.kubectl(&[
            "patch",
            "installplan",
            &next,
            "-n",
            ns,
            "--type=merge",
            "-p",
            r#"{"spec":{"approved":true}}"#,
        ])?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        eventually("0.10.1 to be gone", LIMIT, async || {
            let list = get(&cluster, &["csv", "-n", ns])?;
            Ok((list["items"].as_array().context("items")?.len() == 1).then_some(()))
        })
        .await?;
        let deployment = get(&cluster, &["deployment", "etcd-operator", "-n", ns])?;
        let image =
            deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        ensure!(image.ends_with("etcd-operator:0.11.0"), "{image}");

        ensure!(
            pod_identity(&cluster, ns, &members[0])? == before,
            "the upgrade touched a running etcd member"
        );
        delete_namespace(&cluster, ns)
    });
}

pub fn waiting_plan(cluster: &Cluster, ns: &str) -> Result<Option<String>> {
    let plans = get(cluster, &["installplans", "-n", ns])?;
    Ok(plans["items"]
        .as_array()
        .context("items")?
        .iter()
        .find(|p| p["status"]["phase"] == "RequiresApproval" && p["spec"]["approved"] == false)
        .and_then(|p| p["metadata"]["name"].as_str().map(str::to_string)))
}

/// What changes when a pod is replaced or its container restarted.
pub fn pod_identity(cluster: &Cluster, ns: &str, pod: &str) -> Result<(Value, Value)> {
    let pod = get(cluster, &["pod", pod, "-n", ns])?;
    Ok((pod["metadata"]["uid"].clone(), pod["status"]["containerStatuses"][0]["containerID"].clone()))
}

/// Install, inspect, uninstall with `olm` alone.
#[test]
fn the_command_line_installs_and_uninstalls() {
    scenario("the_command_line_installs_and_uninstalls", async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped("the_command_line_installs_and_uninstalls", "etcd is not installed");
            return Ok(());
        };
        let ns = "by-cli";
        let out = cluster.olm_ok(&["search", "etcd"])?;
        ensure!(out.contains("etcd"), "{out}");
        let out = cluster.olm_ok(&["show", "etcd"])?;
        ensure!(out.contains("singlenamespace-alpha") && out.contains("0.11.0"), "{out}");

        let plan = cluster.olm_ok(&["install", "etcd", "-n", ns, "--dry-run", "-o", "json"])?;
        let plan: Value = serde_json::from_str(&plan)?;
        ensure!(plan["apiVersion"] == "plan.olm/v1" && plan["to"] == "0.11.0", "{plan}");
        ensure!(cluster.kubectl(&["get", "namespace", ns]).is_err(), "a dry run made the namespace");

        cluster.olm_ok(&["install", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
        // Idempotent.
        cluster.olm_ok(&["install", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
        let listed: Value = serde_json::from_str(&cluster.olm_ok(&["list", "-n", ns, "-o", "json"])?)?;
        ensure!(listed[0]["status"] == "Healthy" && listed[0]["version"] == "0.11.0", "{listed}");
        let status = cluster.olm_ok(&["status", "etcd", "-n", ns])?;
        ensure!(status.contains("etcdoperator.v0.11.0"), "{status}");

        // A second installation elsewhere is unrelated to these instances: its removal does not touch them.
        let other = "by-cli-2";
        cluster.olm_ok(&["install", "etcd", "-n", other, "--wait", "--timeout", "3m"])?;

        // With an instance the operator stays, and exit code 4 reports the refusal.
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest(ns, "mine", 1, &version)))?;
        let refused = cluster.olm(&["uninstall", "etcd", "-n", ns])?;
        ensure!(refused.status.code() == Some(4), "{refused:?}");
        cluster.olm_ok(&["uninstall", "etcd", "-n", other, "--instances", "delete", "--yes"])?;
        cluster.kubectl(&["get", "etcdcluster", "mine", "-n", ns])?;
        delete_namespace(&cluster, other)?;
        cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--instances", "delete", "--yes"])?;
        for kind in ["subscriptions", "csv", "etcdclusters", "deployments", "pods"] {
            eventually(&format!("no {kind} to be left"), LIMIT, async || {
                let list = get(&cluster, &[kind, "-n", ns])?;
                let left = list["items"].as_array().context("items")?.len();
                if left > 0 { bail!("{left} left") } else { Ok(Some(())) }
            })
            .await?;
        }
        // CRDs are kept unless asked for.
        cluster.kubectl(&["get", "crd", "etcdclusters.etcd.database.coreos.com"])?;
        delete_namespace(&cluster, ns)
    });
}
