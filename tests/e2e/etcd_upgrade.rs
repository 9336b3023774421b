//! Scenarios of etcd on the dev cluster's own node, with real pods and volumes: an upgrade to the next minor version, and
//! members that lose their data.

use std::cell::Cell;

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, etcd, eventually};
use serde_json::{Value, json};

use crate::{
    etcd_fixture::{LIMIT, Writer, holds_all, operator_and_client, pods, three_members},
    etcd_handle::Handle,
    operator::{delete_namespace, get},
    scenario,
};

const NAME: &str = "minor";

/// The version that a member reports.
fn version_of(cluster: &Cluster, ns: &str, pod: &str) -> Result<String> {
    let text = cluster.etcdctl(ns, pod, &["endpoint", "status", "-w", "json"])?;
    let value: Value = serde_json::from_str(text.trim())?;
    Ok(value[0]["Status"]["version"].as_str().unwrap_or_default().to_owned())
}

/// S17: `spec.version` from 3.4 to 3.5: the image of each pod changes in place, so the node restarts each container once.
#[test]
fn an_etcd_upgrade_restarts_each_member_once_in_its_pod() {
    const TEST: &str = "an_etcd_upgrade_restarts_each_member_once_in_its_pod";
    let (own, next) = match (etcd::version(), etcd::next_version()) {
        (Some(own), Ok(next)) => (own, next),
        (None, _) => return olm_tests::skipped(TEST, "etcd is not installed"),
        (_, Err(why)) => return olm_tests::skipped(TEST, &why),
    };
    scenario(TEST, async |cluster| {
        if cluster.data_dir.is_none() {
            olm_tests::skipped(TEST, "concerns the dev cluster's node");
            return Ok(());
        }
        let ns = "minor";
        let members = three_members(&cluster, ns, NAME, &own).await?;
        cluster.etcdctl(ns, &members[0], &["put", "before", "kept"])?;

        // A killed process returns in its pod with its data.
        let killed = &members[1];
        cluster.olm_ok(&["dev", "fault", "kill", killed, "-n", ns])?;
        eventually("the killed member to restart", LIMIT, async || {
            Ok(pods(&cluster, ns, NAME)?
                .get(killed)
                .is_some_and(|(_, restarts)| *restarts == 1)
                .then_some(()))
        })
        .await?;
        cluster.wait_members(ns, NAME, 3, LIMIT).await?;
        let before = pods(&cluster, ns, NAME)?;

        let writer = Writer::start(&cluster, ns, &format!("{NAME}-client"));
        let patch = json!({ "spec": { "version": next } }).to_string();
        cluster.kubectl(&["patch", "etcdcluster", NAME, "-n", ns, "--type=merge", "-p", &patch])?;
        eventually("the upgrade to end", LIMIT, async || {
            let status = get(&cluster, &["etcdcluster", NAME, "-n", ns])?["status"].clone();
            let ready = status["members"]["ready"].as_array().map_or(0, Vec::len);
            if status["currentVersion"] != next.as_str() || ready != 3 {
                bail!("{status}");
            }
            Ok(Some(()))
        })
        .await?;
        let (written, _, failures) = writer.finish();
        ensure!(written > 3, "{written} keys written: {failures:?}");

        let after = pods(&cluster, ns, NAME)?;
        ensure!(after.len() == 3, "{after:?}");
        for (pod, (uid, restarts)) in &before {
            let (new_uid, new_restarts) = after.get(pod).with_context(|| format!("pod {pod}"))?;
            ensure!(new_uid == uid, "pod {pod} was replaced");
            ensure!(*new_restarts == restarts + 1, "{pod}: {restarts} restarts before, {new_restarts} after");
            ensure!(version_of(&cluster, ns, pod)? == next, "{pod} runs {}", version_of(&cluster, ns, pod)?);
            holds_all(&cluster, ns, pod, written)?;
        }
        let killing = get(&cluster, &["events", "-n", ns, "--field-selector=reason=Killing"])?;
        let texts = killing["items"].as_array().context("items")?.iter();
        let changed = texts
            .filter(|event| event["message"].as_str().is_some_and(|m| m.contains("definition changed")))
            .count();
        ensure!(changed >= 3, "{changed} events of a changed definition: {killing}");
        delete_namespace(&cluster, ns)
    });
}

/// S07: the volume of the member that bootstrapped the cluster is emptied, then that of another. Each is replaced
/// before its fifth restart, and the new members have the data.
#[test]
fn a_member_without_its_data_is_replaced_on_the_dev_cluster() {
    const TEST: &str = "a_member_without_its_data_is_replaced_on_the_dev_cluster";
    let Some(version) = etcd::version() else {
        return olm_tests::skipped(TEST, "etcd is not installed");
    };
    scenario(TEST, async |cluster| {
        if cluster.data_dir.is_none() {
            olm_tests::skipped(TEST, "faults are the dev cluster's");
            return Ok(());
        }
        let at = Handle { cluster: &cluster, ns: "emptied", name: NAME };
        operator_and_client(&cluster, at.ns, &version, "").await?;
        let first = at.create(&etcd::manifest(at.ns, NAME, 1, &version), 1).await?;
        at.patch(&json!({ "size": 3 }))?;
        let grown = at.members(3).await?;
        ensure!(grown.is_superset(&first), "{first:?} became {grown:?}");
        let writer = Writer::start(&cluster, at.ns, &format!("{NAME}-client"));
        let other = grown.difference(&first).next();
        for (wiped, id) in first.iter().chain(other) {
            at.fault(&["kill", "--wipe"], &[wiped])?;
            let most = Cell::new(0);
            eventually(&format!("{wiped} to be replaced"), LIMIT, async || {
                let restarts = pods(&cluster, at.ns, NAME)?.get(wiped).map_or(0, |(_, restarts)| *restarts);
                most.set(most.get().max(restarts));
                let object = at.object()?;
                let list = object["status"]["memberList"].as_array().context("members")?;
                ensure!(list.iter().all(|member| member["id"] != id.as_str()), "{list:?}");
                Ok(Some(()))
            })
            .await?;
            ensure!(most.get() <= 3, "{wiped} was restarted {} times before it was replaced", most.get());
            at.members(3).await?;
        }
        at.keeps(writer)?;
        delete_namespace(&cluster, at.ns)
    });
}
