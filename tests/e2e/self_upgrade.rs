//! An upgrade of olm itself while an operator and its etcd run. tests/lifecycle/self_upgrade.rs has the variants.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use olm_tests::{Cluster, DevCluster, etcd, eventually};
use serde_json::Value;

use crate::{
    block_on,
    operator::{LIMIT, csv_succeeded, get, namespace, pod_identity, subscription, waiting_plan},
    own_turn,
};

/// The CustomResourceDefinitions of the earlier release.
const EARLIER: &str = include_str!("../lifecycle/releases/before-0.1.0.jsonl");
const MANAGER: [&str; 4] = ["deployment", "olm-manager", "-n", "olm"];
const NS: &str = "survives";

/// The installation of an earlier release, whose manager does not run.
async fn earlier(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&[&["scale"][..], &MANAGER, &["--replicas=0"]].concat())?;
    eventually("no manager to run", LIMIT, async || {
        let pods = get(cluster, &["pods", "-n", "olm", "-l", "app.kubernetes.io/name=olm-manager"])?;
        Ok(pods["items"].as_array().context("items")?.is_empty().then_some(()))
    })
    .await?;
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=olm.self", "-f", "-"];
    cluster.kubectl_in(&apply, Some(EARLIER))?;
    cluster.kubectl(&["delete", "crd", "installpolicies.operators.coreos.com"])?;
    let version = ["app.kubernetes.io/version=0.0.9", "--overwrite"];
    cluster.kubectl(&[&["label"][..], &MANAGER, &version].concat()).map(drop)
}

async fn survives(cluster: &Cluster, version: &str) -> Result<()> {
    // given an operator, its etcd, and a plan that waits
    namespace(cluster, NS)?;
    let subscription = subscription(NS, "Manual", Some("etcdoperator.v0.10.1"));
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&subscription))?;
    let first = eventually("a plan that waits", LIMIT, async || waiting_plan(cluster, NS)).await?;
    cluster.olm_ok(&["approve", "etcd", "-n", NS, "--wait", "--timeout", "3m"])?;
    csv_succeeded(cluster, NS, "etcdoperator.v0.10.1").await?;
    cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest(NS, "kept", 1, version)))?;
    cluster.wait_members(NS, "kept", 1, Duration::from_secs(60)).await?;
    let plan = eventually("the upgrade's plan", LIMIT, async || {
        Ok(waiting_plan(cluster, NS)?.filter(|name| *name != first))
    })
    .await?;
    let digest = |plan: &Value| plan["spec"]["planDigest"].clone();
    let reviewed = digest(&get(cluster, &["installplan", &plan, "-n", NS])?);
    let pods = || -> Result<Vec<(String, (Value, Value))>> {
        let names = cluster.kubectl(&["get", "pods", "-n", NS, "-o", "name"])?;
        let names = names.lines().filter_map(|line| line.strip_prefix("pod/"));
        names.map(|name| Ok((name.to_owned(), pod_identity(cluster, NS, name)?))).collect()
    };
    let before = pods()?;
    ensure!(before.len() == 2, "an operator and a member: {before:?}");
    earlier(cluster).await?;

    // when
    cluster.olm_ok(&["self", "upgrade", "--timeout", "120s"])?;

    // then no pod of the operator or of its etcd was touched
    let manager = get(cluster, &MANAGER)?;
    let label = &manager["metadata"]["labels"]["app.kubernetes.io/version"];
    ensure!(*label == env!("CARGO_PKG_VERSION"), "{label}");
    ensure!(pods()? == before, "{:?}, not {before:?}", pods()?);
    // and the plan that waits is the one that was reviewed
    let waiting = get(cluster, &["installplan", &plan, "-n", NS])?;
    ensure!(digest(&waiting) == reviewed, "{}", waiting["spec"]);
    ensure!(waiting["status"]["phase"] == "RequiresApproval", "{}", waiting["status"]);
    // and it is applied when it is approved
    let digest = reviewed.as_str().context("a digest")?;
    cluster.olm_ok(&["approve", "etcd", "-n", NS, "--digest", digest, "--wait", "--timeout", "3m"])?;
    csv_succeeded(cluster, NS, "etcdoperator.v0.11.0").await
}

#[test]
fn an_upgrade_of_olm_leaves_operators_and_their_etcd_alone() {
    const NAME: &str = "an_upgrade_of_olm_leaves_operators_and_their_etcd_alone";
    // It changes the manager and the definitions.
    let Some(_turn) = own_turn(NAME, &["kubectl"]) else { return };
    let Some(version) = etcd::version() else {
        return olm_tests::skipped(NAME, "etcd is not installed");
    };
    let result: Result<()> = block_on(async {
        let up = DevCluster::start_in_temp(&[])?;
        survives(&up.cluster(), &version).await?;
        up.stop()?;
        Ok(())
    });
    result.expect(NAME);
}
