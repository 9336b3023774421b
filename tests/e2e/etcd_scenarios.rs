//! Scenarios of the etcd operator on the dev cluster's own node, from a user's view: through the API and
//! etcdctl.
//!
//! They share a namespace and run concurrently, because they mostly wait. [`crate::etcd_obstacles`],
//! [`crate::etcd_cluster`], [`crate::etcd_upgrade`] and [`crate::etcd_whole`] have the others: deleted
//! clusters, members that do not start, a full database, manually added members, a lost pod without a volume,
//! 3 → 5 → 3, upgrades, emptied volumes, evictions, certificates and backups.

use std::cell::Cell;

use anyhow::{Context as _, Result, ensure};
use olm_tests::{etcd, eventually};
use serde_json::json;

use crate::{
    etcd_fixture::{LIMIT, holds_all, order, pods, succeeded, without_volumes},
    etcd_handle::{Handle, WATCHED, under_one_operator},
    operator::get,
};

/// An unavailable version of the same minor version, and one that is two minor versions later.
fn unavailable(version: &str) -> Result<(String, String)> {
    let mut parts = version.split('.');
    let (major, minor) =
        (parts.next().context("major")?, parts.next().and_then(|m| m.parse::<u64>().ok()).context("minor")?);
    Ok((format!("{major}.{minor}.99"), format!("{major}.{}.4", minor + 2)))
}

/// A single member becomes three. All of them are killed, then all pods are deleted: with their volumes they return as the same
/// members.
async fn processes_and_pods_return(at: Handle<'_>, version: &str) -> Result<()> {
    at.create(&etcd::manifest(at.ns, at.name, 1, version), 1).await?;
    let writer = at.writer();
    at.patch(&json!({ "size": 3 }))?;
    let ids = at.members(3).await?;
    let names: Vec<&String> = ids.iter().map(|(name, _)| name).collect();

    at.fault(&["kill"], &names)?;
    eventually("all members to restart", LIMIT, async || {
        let pods = pods(at.cluster, at.ns, at.name)?;
        Ok(pods.values().all(|(_, restarts)| *restarts >= 1).then_some(()))
    })
    .await?;
    ensure!(at.members(3).await? == ids, "other members after all were killed");

    let before = pods(at.cluster, at.ns, at.name)?;
    at.delete("pod", &names)?;
    eventually("all pods to be created again", LIMIT, async || {
        let now = pods(at.cluster, at.ns, at.name)?;
        let again = |name: &String| now.get(name).is_some_and(|(uid, _)| *uid != before[name].0);
        Ok(before.keys().all(again).then_some(()))
    })
    .await?;
    ensure!(at.members(3).await? == ids, "other members after all pods were deleted");
    at.keeps(writer)
}

/// The leader is paused, then two of three: members are waited for, not replaced.
async fn members_that_stand_still_are_given_time(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 3, version), 3).await?;
    let writer = at.writer();
    let still = at.leader()?;
    at.fault(&["pause"], &[&still])?;
    at.reports("Degraded", "True", "", &still).await?;
    eventually("another leader", LIMIT, async || Ok((at.leader()? != still).then_some(()))).await?;
    at.fault(&["undo"], &[&still])?;
    ensure!(at.members(3).await? == ids, "other members after one stood still");

    let away: Vec<&String> = ids.iter().map(|(name, _)| name).take(2).collect();
    at.fault(&["pause"], &away)?;
    let message = at.reports("Available", "False", "QuorumLost", "").await?;
    ensure!(message.contains("kubectl"), "no command: {message}");
    at.fault(&["undo"], &away)?;
    at.reports("Available", "True", "", "").await?;
    ensure!(at.members(3).await? == ids, "other members after two stood still");
    at.keeps(writer)
}

/// No change is made to a paused cluster; afterwards all are.
async fn a_paused_cluster_is_left_alone(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 3, version), 3).await?;
    let writer = at.writer();
    at.patch(&json!({ "paused": true }))?;
    eventually("controlPaused", LIMIT, async || {
        Ok((at.object()?["status"]["controlPaused"] == true).then_some(()))
    })
    .await?;
    let lost = ids.iter().map(|(name, _)| name).next().context("a member")?;
    at.delete("pod", &[lost])?;
    at.patch(&json!({ "size": 4 }))?;
    eventually("the lost member and the size to be observed", LIMIT, async || {
        let object = at.object()?;
        let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        Ok((seen && object["status"]["readyMembers"] == 2).then_some(()))
    })
    .await?;
    tokio::time::sleep(WATCHED).await;
    let left = pods(at.cluster, at.ns, at.name)?;
    ensure!(left.len() == 2, "the paused cluster has pods {left:?}");
    at.patch(&json!({ "paused": false, "size": 3 }))?;
    let after = at.members(3).await?;
    ensure!(after.difference(&ids).count() == 1, "{ids:?} became {after:?}");
    ensure!(!after.iter().any(|(name, _)| name == lost), "{lost} is still a member");
    at.keeps(writer)
}

/// A version without an image stops the upgrade at the first member, and the previous version reverts it. A
/// version that cannot be reached is rejected before that.
async fn a_failing_upgrade_stops_and_goes_back(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 3, version), 3).await?;
    let writer = at.writer();
    let (missing, skewed) = unavailable(version)?;
    at.patch(&json!({ "version": skewed }))?;
    at.reports("Upgrading", "False", "UnsupportedVersionSkew", "").await?;
    let tried = || -> Result<Vec<String>> {
        let selector = format!("etcd_cluster={}", at.name);
        let list = get(at.cluster, &["pods", "-n", at.ns, "-l", &selector])?;
        let images = list["items"].as_array().context("items")?.iter();
        let images = images.map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default());
        Ok(images.filter(|image| !image.ends_with(&format!(":v{version}"))).map(str::to_owned).collect())
    };
    ensure!(tried()?.is_empty(), "{:?}", tried()?);

    at.patch(&json!({ "version": missing }))?;
    let message = at.reports("Upgrading", "False", "UpgradeStalled", &missing).await?;
    ensure!(message.contains(&format!("set spec.version to {version} to revert")), "{message}");
    ensure!(tried()?.len() == 1, "{:?}", tried()?);
    at.patch(&json!({ "version": version }))?;
    at.reports("Upgrading", "False", "VersionAsDesired", "").await?;
    ensure!(at.members(3).await? == ids, "other members after the upgrade was undone");
    ensure!(tried()?.is_empty(), "{:?}", tried()?);
    at.keeps(writer)
}

/// All claims are being deleted: the members are replaced one at a time.
async fn members_with_deleted_claims_are_replaced(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&etcd::manifest(at.ns, at.name, 3, version), 3).await?;
    let writer = at.writer();
    let names: Vec<&String> = ids.iter().map(|(name, _)| name).collect();
    at.delete("pvc", &names)?;
    // The condition does not name a member any more that was replaced before it is read.
    eventually("an event of the deleted claims", LIMIT, async || {
        let events = at.events("VolumeDeleting")?;
        let named = |message: &String| names.iter().any(|name| message.contains(name.as_str()));
        Ok(events.iter().any(named).then_some(()))
    })
    .await?;
    let fewest = Cell::new(usize::MAX);
    eventually("all members to be replaced", LIMIT, async || {
        let status = at.object()?["status"].clone();
        let list = status["memberList"].as_array().context("members")?;
        fewest.set(fewest.get().min(list.len()));
        let old = list.iter().any(|m| names.iter().any(|name| m["name"] == name.as_str()));
        Ok((!old && list.len() == 3).then_some(()))
    })
    .await?;
    ensure!(fewest.get() >= 2, "{} members at a time", fewest.get());
    let after = at.members(3).await?;
    at.reports("DataAtRisk", "False", "", "").await?;
    ensure!(after.is_disjoint(&ids), "{ids:?} became {after:?}");
    at.keeps(writer)?;
    let claims = get(at.cluster, &["pvc", "-n", at.ns, "-l", &format!("etcd_cluster={}", at.name)])?;
    let claims = claims["items"].as_array().context("items")?;
    ensure!(claims.len() == 3, "{claims:?}");
    ensure!(claims.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_null()), "{claims:?}");
    Ok(())
}

/// Two of three pods without volumes are deleted: the quorum and the data of two members are lost, and
/// nothing is changed before the restore that the message offers.
async fn lost_data_is_restored_from_the_last_backup(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 3, version), 3).await?;
    let local = format!("storageType: Local, local: {{path: etcd/{}.db}}", at.name);
    let backup = order("EtcdBackup", at.ns, at.name, &format!("{{clusterName: {}, {local}}}", at.name));
    at.cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&backup))?;
    succeeded(at.cluster, at.ns, "etcdbackup", at.name).await?;
    at.reports("BackedUp", "True", "", "").await?;

    let names: Vec<&String> = ids.iter().map(|(name, _)| name).collect();
    at.cluster.etcdctl(at.ns, names[2], &["put", "after", "lost"])?;
    at.delete("pod", &names[..2])?;
    let message = at.reports("Available", "False", "DataLost", "To restore a backup").await?;
    tokio::time::sleep(WATCHED).await;
    let object = at.object()?;
    ensure!(object["status"]["phase"] == "Failed", "{}", object["status"]);
    let left = pods(at.cluster, at.ns, at.name)?;
    ensure!(left.keys().eq([names[2]]), "pods {left:?}");

    at.restore(&message, "backupStorageType").await?;
    let restored = at.members(3).await?;
    ensure!(restored.is_disjoint(&ids), "{restored:?}");
    for (name, _) in &restored {
        holds_all(at.cluster, at.ns, name, 0)?;
        let after = at.cluster.etcdctl(at.ns, name, &["get", "after", "--print-value-only"])?;
        ensure!(after.trim().is_empty(), "{name} holds a key that is newer than the backup: {after}");
    }
    Ok(())
}

/// Two of three members are lost with their volumes: the claim of the third restores every acknowledged
/// write.
async fn the_claim_of_a_survivor_restores_all(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&etcd::manifest(at.ns, at.name, 3, version), 3).await?;
    let (written, _, failures) = {
        let writer = at.writer();
        tokio::time::sleep(WATCHED).await;
        writer.finish()
    };
    ensure!(written > 3, "{written} keys written: {failures:?}");
    // The leader has every acknowledged write.
    let survivor = at.leader()?;
    let lost: Vec<&String> = ids.iter().map(|(name, _)| name).filter(|name| **name != survivor).collect();
    at.patch(&json!({ "paused": true }))?;
    eventually("controlPaused", LIMIT, async || {
        Ok((at.object()?["status"]["controlPaused"] == true).then_some(()))
    })
    .await?;
    at.delete("pvc", &lost)?;
    at.delete("pod", &lost)?;
    eventually("the claims to be gone", LIMIT, async || {
        let claims = get(at.cluster, &["pvc", "-n", at.ns, "-l", &format!("etcd_cluster={}", at.name)])?;
        Ok(claims["items"].as_array().is_some_and(|list| list.len() == 1).then_some(()))
    })
    .await?;
    at.patch(&json!({ "paused": false }))?;
    let message = at.reports("Available", "False", "DataLost", "is at revision").await?;
    ensure!(message.contains(&format!("Member {survivor} (claim {survivor}) is at revision")), "{message}");

    let restore = at.restore(&message, "fromClaim").await?;
    ensure!(restore["spec"]["fromClaim"] == survivor.as_str(), "{restore}");
    for (name, _) in at.members(3).await? {
        holds_all(at.cluster, at.ns, &name, written)?;
    }
    let claim = get(at.cluster, &["pvc", &survivor, "-n", at.ns])?["metadata"].clone();
    ensure!(claim["deletionTimestamp"].is_null() && claim["ownerReferences"].is_null(), "{claim}");
    ensure!(claim["labels"]["etcd.database.coreos.com/replaced-by"] == restore["metadata"]["uid"], "{claim}");
    Ok(())
}

/// Members return or are replaced while a majority has its data.
#[test]
fn etcd_scenarios_of_members_that_keep_a_quorum() {
    let ns = "kept";
    under_one_operator("etcd_scenarios_of_members_that_keep_a_quorum", ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        tokio::try_join!(
            processes_and_pods_return(at("grown"), version),
            members_that_stand_still_are_given_time(at("still"), version),
            a_paused_cluster_is_left_alone(at("paused"), version),
            a_failing_upgrade_stops_and_goes_back(at("stalled"), version),
            members_with_deleted_claims_are_replaced(at("claims"), version),
        )
        .map(drop)
    });
}

/// The data of a majority is lost, and restored.
#[test]
fn etcd_scenarios_of_data_that_is_restored() {
    const TEST: &str = "etcd_scenarios_of_data_that_is_restored";
    if std::env::var_os("OLM_TEST_LONG").is_none() {
        return olm_tests::skipped(TEST, "runs with OLM_TEST_LONG=1");
    }
    let ns = "restored";
    under_one_operator(TEST, ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        tokio::try_join!(
            lost_data_is_restored_from_the_last_backup(at("lost"), version),
            the_claim_of_a_survivor_restores_all(at("survivor"), version),
        )
        .map(drop)
    });
}
