//! plan, why, graph and diff on a cluster: the preview of a change equals the change.

use anyhow::{Result, ensure};
use olm_tests::{Cluster, eventually};
use serde_json::Value;

use crate::{
    operator::{LIMIT, delete_namespace},
    scenario,
};

/// Runs `olm`; returns its output if it ends as expected.
fn olm(cluster: &Cluster, args: &[&str], code: i32) -> Result<String> {
    let out = cluster.olm(args)?;
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    ensure!(out.status.code() == Some(code), "olm {}: {}: {text}{errors}", args.join(" "), out.status);
    Ok(text.into_owned())
}

#[test]
fn a_plan_is_read_before_it_is_carried_out() {
    scenario("a_plan_is_read_before_it_is_carried_out", async |cluster| {
        let ns = "plan-cli";
        // given only a request
        let plan = olm(&cluster, &["plan", "install", "etcd", "-n", ns, "--version", "0.10.1"], 0)?;
        ensure!(plan.contains("install etcd 0.10.1 in namespace plan-cli"), "{plan}");
        olm(&cluster, &["plan", "install", "etcd", "-n", ns, "--exit-code"], 1)?;
        ensure!(cluster.kubectl(&["get", "namespace", ns]).is_err(), "a plan made the namespace");
        olm(&cluster, &["plan", "install", "ectd", "-n", ns], 3)?;
        olm(&cluster, &["plan", "upgrade", "etcd", "-n", ns], 3)?;
        let why = olm(&cluster, &["why", "etcd", "-n", ns, "--version", "0.9.9"], 3)?;
        ensure!(why.contains("hint:"), "{why}");

        // when it is applied
        let install = ["install", "etcd", "-n", ns, "--version", "0.10.1", "--approval", "manual"];
        cluster.olm_ok(&install)?;
        eventually("a plan that waits", LIMIT, async || {
            let listed = cluster.olm_ok(&["list", "-n", ns])?;
            Ok(listed.contains("Needs approval").then_some(()))
        })
        .await?;
        let waits = olm(&cluster, &["why", "etcd", "-n", ns], 0)?;
        ensure!(
            waits.contains("waiting for approval since") && waits.contains("  olm approve etcd"),
            "{waits}"
        );
        cluster.olm_ok(&["approve", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;

        // then the next one is reported as held back, with the cause
        let why = olm(&cluster, &["why", "etcd", "-n", ns], 0)?;
        for part in
            ["etcd 0.10.1 installed in namespace plan-cli", "updates: ask", "[Pinned]", "version 0.10.1"]
        {
            ensure!(why.contains(part), "no {part:?} in {why}");
        }
        let graph = olm(&cluster, &["graph", "etcd", "-n", ns, "-c", "singlenamespace-alpha"], 0)?;
        ensure!(graph.contains("etcdoperator.v0.10.1  installed"), "{graph}");

        // and the upgrade can be previewed in every form
        let upgrade = ["plan", "upgrade", "etcd", "-n", ns, "--version", "0.11.0", "-o", "json"];
        let planned: Value = serde_json::from_str(&olm(&cluster, &upgrade, 0)?)?;
        ensure!(planned["from"] == "0.10.1" && planned["to"] == "0.11.0", "{planned}");
        for against in ["live", "installed"] {
            let args = ["diff", "etcd", "-n", ns, "--to", "0.11.0", "--against", against];
            let diff = olm(&cluster, &args, 1)?;
            ensure!(diff.contains("Deployment plan-cli/etcd-operator changed"), "{against}: {diff}");
        }
        let way = olm(&cluster, &["graph", "etcd", "-n", ns, "--from", "0.10.1", "--to", "0.11.0"], 0)?;
        ensure!(way.contains("path: etcdoperator.v0.10.1 -> etcdoperator.v0.11.0"), "{way}");

        // and the resulting plan is the shown one
        cluster.olm_ok(&["upgrade", "etcd", "-n", ns, "--to", "0.11.0", "--wait", "--timeout", "3m"])?;
        let plans = cluster.kubectl(&["get", "installplans", "-n", ns, "-o", "json"])?;
        let digest = planned["digest"].as_str().unwrap_or_default();
        ensure!(!digest.is_empty() && plans.contains(digest), "{digest} is not in {plans}");

        // and afterwards nothing is left to do
        olm(&cluster, &["plan", "upgrade", "etcd", "-n", ns, "--exit-code"], 0)?;
        let back = olm(&cluster, &["plan", "rollback", "etcd", "-n", ns], 0)?;
        ensure!(back.contains("rollback etcd 0.11.0 -> 0.10.1"), "{back}");

        // when it is to be removed, then deleted and retained objects are listed, and nothing is deleted
        let plan = olm(&cluster, &["plan", "uninstall", "etcd", "-n", ns], 0)?;
        ensure!(plan.contains("uninstall etcd 0.11.0") && plan.contains("- Deployment"), "{plan}");
        cluster.kubectl(&["get", "csv", "etcdoperator.v0.11.0", "-n", ns])?;
        cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--yes"])?;
        delete_namespace(&cluster, ns)
    });
}
