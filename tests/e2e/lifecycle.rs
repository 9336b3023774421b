//! The life of an operator by the command line: hidden, offered, held, upgraded, rolled back, removed at
//! three levels.

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, etcd, eventually};
use serde_json::Value;

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace, subscription},
    scenario,
};

const OLD: &str = "etcdoperator.v0.10.1";
const NEW: &str = "etcdoperator.v0.11.0";
const CRD: &str = "etcdclusters.etcd.database.coreos.com";

/// Waits until a version is offered for approval, or none is.
async fn offered(cluster: &Cluster, ns: &str, wanted: bool) -> Result<()> {
    eventually(&format!("an upgrade to be offered: {wanted}"), LIMIT, async || {
        let listed = cluster.olm_ok(&["list", "-n", ns])?;
        if listed.contains("Needs approval") == wanted { Ok(Some(())) } else { bail!("{listed}") }
    })
    .await
}

async fn gone(cluster: &Cluster, ns: &str, kinds: &[&str]) -> Result<()> {
    for kind in kinds {
        eventually(&format!("no {kind} to be left"), LIMIT, async || {
            let list = get(cluster, &[kind, "-n", ns])?;
            let left = list["items"].as_array().context("items")?.len();
            if left > 0 { bail!("{left} left") } else { Ok(Some(())) }
        })
        .await?;
    }
    Ok(())
}

fn history(cluster: &Cluster, ns: &str) -> Result<Vec<(String, bool)>> {
    let rows: Value = serde_json::from_str(&cluster.olm_ok(&["history", "etcd", "-n", ns, "-o", "json"])?)?;
    let rows = rows.as_array().with_context(|| format!("a list: {rows}"))?;
    Ok(rows
        .iter()
        .map(|row| {
            (row["version"].as_str().unwrap_or_default().to_owned(), row["current"] == Value::Bool(true))
        })
        .collect())
}

/// An offered version is skipped, snoozed, held back, applied; an applied one is rolled back; `history` and
/// `doctor` report it.
#[test]
fn an_upgrade_is_put_off_taken_and_taken_back() {
    scenario("an_upgrade_is_put_off_taken_and_taken_back", async |cluster| {
        let ns = "put-off";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&subscription(ns, "Manual", Some(OLD))))?;
        offered(&cluster, ns, true).await?;
        cluster.olm_ok(&["approve", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, OLD).await?;
        offered(&cluster, ns, true).await?;

        // never this version
        cluster.olm_ok(&["skip", "etcd", "0.11.0", "-n", ns])?;
        offered(&cluster, ns, false).await?;
        cluster.olm_ok(&["skip", "etcd", "0.11.0", "--undo", "-n", ns])?;
        offered(&cluster, ns, true).await?;
        // not until there is a newer one
        cluster.olm_ok(&["snooze", "etcd", "-n", ns])?;
        offered(&cluster, ns, false).await?;
        let reported = cluster.olm_ok(&["status", "etcd", "-n", ns])?;
        ensure!(reported.contains("0.11.0"), "what it sleeps over is not named: {reported}");
        cluster.olm_ok(&["snooze", "etcd", "--undo", "-n", ns])?;
        offered(&cluster, ns, true).await?;
        // a channel that does not exist is refused, and the error lists the existing ones
        let out = cluster.olm(&["set-channel", "etcd", "nochan", "-n", ns])?;
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        ensure!(out.status.code() == Some(3) && text.contains("singlenamespace-alpha"), "{text}");
        // nothing at all
        cluster.olm_ok(&["pause", "etcd", "-n", ns])?;
        eventually("it to be paused", LIMIT, async || {
            let reported = cluster.olm_ok(&["status", "etcd", "-n", ns])?;
            if reported.to_lowercase().contains("paused") { Ok(Some(())) } else { bail!("{reported}") }
        })
        .await?;
        let csvs = get(&cluster, &["csv", "-n", ns])?;
        ensure!(csvs["items"].as_array().is_some_and(|list| list.len() == 1), "{csvs}");
        cluster.olm_ok(&["resume", "etcd", "-n", ns])?;
        offered(&cluster, ns, true).await?;

        // applied
        cluster.olm_ok(&["upgrade", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, NEW).await?;
        gone_version(&cluster, ns, OLD).await?;
        ensure!(
            history(&cluster, ns)? == [("0.11.0".to_owned(), true), ("0.10.1".to_owned(), false)],
            "{:?}",
            history(&cluster, ns)?
        );
        // and rolled back to stay there: the command approves the plan that it shows
        cluster.olm_ok(&["rollback", "etcd", "-n", ns, "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, OLD).await?;
        gone_version(&cluster, ns, NEW).await?;
        let listed: Value = serde_json::from_str(&cluster.olm_ok(&["list", "-n", ns, "-o", "json"])?)?;
        ensure!(listed[0]["version"] == "0.10.1", "{listed}");
        let rows = history(&cluster, ns)?;
        ensure!(rows.first() == Some(&("0.10.1".to_owned(), true)), "{rows:?}");
        let image = get(&cluster, &["deployment", "etcd-operator", "-n", ns])?;
        let image = image["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        ensure!(image.ends_with("etcd-operator:0.10.1"), "{image}");

        // everything is healthy
        let out = cluster.olm(&["doctor", "-n", ns])?;
        let text =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        ensure!(out.status.success(), "{text}");
        delete_namespace(&cluster, ns)
    });
}

async fn gone_version(cluster: &Cluster, ns: &str, csv: &str) -> Result<()> {
    eventually(&format!("{csv} to be gone"), LIMIT, async || {
        let found = cluster.try_kubectl(&["get", "csv", csv, "-n", ns], None)?;
        if found.status.success() { bail!("it is there") } else { Ok(Some(())) }
    })
    .await
}

/// The operator alone; its instances first; its CRDs as well. Each lists the deleted objects beforehand.
#[test]
fn an_operator_is_removed_at_three_levels() {
    scenario("an_operator_is_removed_at_three_levels", async |cluster| {
        let ns = "levels";
        let install = ["install", "etcd", "-n", ns, "--wait", "--timeout", "3m"];
        let rest = ["subscriptions", "installplans", "csv", "deployments", "roles", "rolebindings"];

        // the operator
        cluster.olm_ok(&install)?;
        let plan = cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--dry-run"])?;
        ensure!(plan.contains("etcd-operator"), "{plan}");
        ensure!(
            get(&cluster, &["csv", "-n", ns])?["items"].as_array().is_some_and(|l| l.len() == 1),
            "it went"
        );
        cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--yes"])?;
        gone(&cluster, ns, &rest).await?;
        cluster.kubectl(&["get", "crd", CRD])?;

        // its instances
        let Some(version) = etcd::version() else {
            olm_tests::skipped("an_operator_is_removed_at_three_levels", "etcd is not installed");
            return delete_namespace(&cluster, ns);
        };
        cluster.olm_ok(&install)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest(ns, "mine", 1, &version)))?;
        let refused = cluster.olm(&["uninstall", "etcd", "-n", ns, "--yes"])?;
        let text = String::from_utf8_lossy(&refused.stderr).to_string();
        ensure!(refused.status.code() == Some(4) && text.contains("1 "), "{refused:?}");
        cluster.olm_ok(&["uninstall", "etcd", "-n", ns, "--instances", "delete", "--yes"])?;
        gone(&cluster, ns, &rest).await?;
        gone(&cluster, ns, &["etcdclusters", "pods"]).await?;

        // its CRDs
        cluster.olm_ok(&install)?;
        let reported = cluster.olm_ok(&[
            "uninstall",
            "etcd",
            "-n",
            ns,
            "--instances",
            "delete",
            "--delete-crds",
            "--yes",
        ])?;
        gone(&cluster, ns, &rest).await?;
        // It is needed as long as another namespace has the operator, such as that of a failed scenario.
        let left = cluster.try_kubectl(&["get", "crd", CRD], None)?;
        ensure!(!left.status.success(), "{CRD} exists; output of olm uninstall:\n{reported}");
        delete_namespace(&cluster, ns)
    });
}
