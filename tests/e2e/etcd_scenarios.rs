//! Scenarios of the etcd operator on the dev cluster's own node, from a user's view: through the API and
//! etcdctl.
//!
//! They share a namespace and run concurrently, because they mostly wait. [`crate::etcd_obstacles`],
//! [`crate::etcd_cluster`], [`crate::etcd_upgrade`], [`crate::etcd_backups`], [`crate::etcd_secured`] and
//! [`crate::etcd_whole`] have the others: deleted clusters, members that do not start, a full database, manually
//! added members, a lost pod without a volume, 3 → 5 → 3, upgrades, emptied volumes, evictions, certificates,
//! users and backups. A comment of a scenario starts with the ids of those of `tests/etcd` that it plays;
//! [`PLAYED_ELSEWHERE`] has the others.

#[path = "../etcd/damage.rs"]
mod damage;

use std::{cell::Cell, collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;
use olm_tests::{etcd, eventually};
use serde_json::json;

use self::damage::damage;
use crate::{
    etcd_fixture::{LIMIT, holds_all, order, pods, succeeded, without_volumes},
    etcd_handle::{Handle, concurrently, under_one_operator},
    operator::get,
};

/// An unavailable version of the same minor version, and one that is two minor versions later.
fn unavailable(version: &str) -> Result<(String, String)> {
    let mut parts = version.split('.');
    let (major, minor) =
        (parts.next().context("major")?, parts.next().and_then(|m| m.parse::<u64>().ok()).context("minor")?);
    Ok((format!("{major}.{minor}.99"), format!("{major}.{}.4", minor + 2)))
}

/// S05; S06 with volumes; S12; S12 with volumes: a single member becomes three. All of them are killed, then all
/// pods are deleted: with their volumes they return as the same members.
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

/// S09; S10: the leader is paused, then two of three: members are waited for, not replaced.
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

/// S16: no change is made to a paused cluster; afterwards all are.
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
    at.gone(&[lost]).await?;
    at.observed(&json!({ "size": 5 })).await?;
    let left = pods(at.cluster, at.ns, at.name)?;
    ensure!(left.len() == 2, "the paused cluster has pods {left:?}");
    at.patch(&json!({ "paused": false, "size": 3 }))?;
    let after = at.members(3).await?;
    ensure!(after.difference(&ids).count() == 1, "{ids:?} became {after:?}");
    ensure!(!after.iter().any(|(name, _)| name == lost), "{lost} is still a member");
    at.keeps(writer)
}

/// S18; S19: a version without an image stops the upgrade at the first member, and the previous version reverts it. A
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

/// S11; S11 restore: two of three pods without volumes are deleted: the quorum and the data of two members are lost, and
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
    at.gone(&names[..2]).await?;
    for size in [4, 3] {
        at.observed(&json!({ "size": size })).await?;
    }
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

/// S11 claim: two of three members are lost with their volumes: the claim of the third restores every acknowledged
/// write.
async fn the_claim_of_a_survivor_restores_all(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&etcd::manifest(at.ns, at.name, 3, version), 3).await?;
    let (written, _, failures) = {
        let writer = at.writer();
        writer.more(10).await?;
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

/// S08: the files of a member are damaged. It ends again and again, and is replaced after its fifth restart.
async fn a_member_with_damaged_files_is_replaced(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&etcd::manifest(at.ns, at.name, 3, version), 3).await?;
    let writer = at.writer();
    let leader = at.leader()?;
    let (victim, _) = ids.iter().find(|(name, _)| *name != leader).context("a follower")?;
    let claim = get(at.cluster, &["pvc", victim, "-n", at.ns])?;
    let volume = get(at.cluster, &["pv", claim["spec"]["volumeName"].as_str().context("a volume")?])?;
    let folder = volume["spec"]["hostPath"]["path"].as_str().context("a directory")?;
    // It writes nothing in the meantime.
    at.fault(&["pause"], &[victim])?;
    ensure!(damage(Path::new(folder))? > 0, "nothing to damage in {folder}");
    at.fault(&["kill"], &[victim])?;
    at.fault(&["undo"], &[victim])?;
    // The delays between restarts double.
    eventually("the member to be replaced", 2 * LIMIT, async || {
        let object = at.object()?;
        let list = object["status"]["memberList"].as_array().context("members")?;
        ensure!(list.iter().all(|member| member["name"] != victim.as_str()), "{list:?}");
        Ok(Some(()))
    })
    .await?;
    let after = at.members(3).await?;
    ensure!(after.intersection(&ids).count() == 2, "{ids:?} became {after:?}");
    at.keeps(writer)
}

/// The pod with the lease of the controller of clusters.
fn leading_operator(at: &Handle<'_>) -> Result<String> {
    let lease = get(at.cluster, &["lease", "etcd-operator", "-n", at.ns])?;
    let holder = lease["spec"]["holderIdentity"].as_str().context("a holder")?;
    let (pod, _) = holder.rsplit_once('_').with_context(|| format!("holder {holder:?}"))?;
    Ok(pod.to_owned())
}

/// S15: of two operators one works. The first is stopped and has work to do: the second takes over, and the first
/// changes nothing when it continues. A second that ends hands over.
#[test]
fn of_two_etcd_operators_one_works() {
    let ns = "rivals";
    under_one_operator("of_two_etcd_operators_one_works", ns, async |cluster, version| {
        let at = Handle { cluster, ns, name: "led" };
        let ids = at.create(&without_volumes(ns, at.name, 1, version), 1).await?;
        let writer = at.writer();
        let first = leading_operator(&at)?;
        // With other labels, so that neither Deployment adopts the pod of the other. The manager would undo a
        // change of the installed one's replicas.
        let installed = get(cluster, &["deployment", "etcd-operator", "-n", ns])?;
        let labels = json!({ "name": "etcd-operator-second" });
        let mut template = installed["spec"]["template"].clone();
        template["metadata"]["labels"] = labels.clone();
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "second", "namespace": ns },
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": template },
        });
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&deployment.to_string()))?;
        cluster.kubectl(&["rollout", "status", "deployment/second", "-n", ns, "--timeout=60s"])?;
        at.patch(&json!({ "size": 2 }))?;
        let two = at.members(2).await?;
        ensure!(leading_operator(&at)? == first, "the second operator took the lease of a running one");

        at.fault(&["pause"], &[&first])?;
        at.patch(&json!({ "size": 3 }))?;
        let other_than = async |pod: &String| {
            eventually(&format!("another operator than {pod} to lead"), LIMIT, async || {
                Ok(Some(leading_operator(&at)?).filter(|leader| leader != pod))
            })
            .await
        };
        let second = other_than(&first).await?;
        at.fault(&["undo"], &[&first])?;
        let three = at.members(3).await?;
        ensure!(three.is_superset(&two) && two.is_superset(&ids), "{ids:?}, {two:?}, {three:?}");
        ensure!(leading_operator(&at)? == second, "the first operator took the lease back");
        let (third, _) = three.difference(&two).next().context("a third member")?;
        let events = get(cluster, &["events", "-n", ns, "--field-selector=reason=MemberAdded"])?;
        let events = events["items"].as_array().context("items")?.iter();
        let mut added = events.filter(|event| event["message"].as_str().is_some_and(|m| m.contains(third)));
        let event = added.next().with_context(|| format!("no event of {third}"))?;
        ensure!(event["reportingInstance"] == second.as_str() && added.next().is_none(), "{event}");

        at.delete("pod", &[&second])?;
        other_than(&second).await?;
        at.patch(&json!({ "size": 2 }))?;
        ensure!(at.members(2).await?.is_subset(&three), "{three:?} became other members");
        at.keeps(writer)
    });
}

/// Members return or are replaced while a majority has its data.
#[test]
fn etcd_scenarios_of_members_that_keep_a_quorum() {
    let ns = "kept";
    under_one_operator("etcd_scenarios_of_members_that_keep_a_quorum", ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        concurrently(&[
            &|| processes_and_pods_return(at("grown"), version).boxed_local(),
            &|| members_that_stand_still_are_given_time(at("still"), version).boxed_local(),
            &|| a_paused_cluster_is_left_alone(at("paused"), version).boxed_local(),
            &|| a_failing_upgrade_stops_and_goes_back(at("stalled"), version).boxed_local(),
            &|| members_with_deleted_claims_are_replaced(at("claims"), version).boxed_local(),
        ])
    });
}

/// The data of a majority is lost, and restored; the files of a member are damaged.
#[test]
fn etcd_scenarios_of_data_that_is_restored() {
    const TEST: &str = "etcd_scenarios_of_data_that_is_restored";
    if std::env::var_os("OLM_TEST_LONG").is_none() {
        return olm_tests::skipped(TEST, "runs with OLM_TEST_LONG=1");
    }
    let ns = "restored";
    under_one_operator(TEST, ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        concurrently(&[
            &|| lost_data_is_restored_from_the_last_backup(at("lost"), version).boxed_local(),
            &|| the_claim_of_a_survivor_restores_all(at("survivor"), version).boxed_local(),
            &|| a_member_with_damaged_files_is_replaced(at("damaged"), version).boxed_local(),
        ])
    });
}

/// Scenarios of `tests/etcd` that no scenario on the dev cluster plays, and why.
const PLAYED_ELSEWHERE: &[(&str, &str)] = &[
    ("S02", "the_api_refuses_bad_etcdclusters_by_field in bad_input.rs plays it"),
    ("S03 connections", "its client needs a kube-proxy that follows EndpointSlices late, which is simulated"),
    ("S03 reverted", "the size must change within the seconds in which a member has left the Service"),
    ("S06 connections", "see S03 connections"),
    ("S13 level 1, size 3", "random kills need a kubelet without delays between restarts: they double"),
    ("S13 level 1, size 5", "see S13 level 1, size 3"),
    ("S13 level 2, size 5", "see S13 level 1, size 3"),
    ("S14", "needs control of the operator's connections, to end it at a chosen call"),
    ("S17 connections", "see S03 connections"),
    ("S21 three programs", "the bundle installs one program"),
    ("S23 mute", "needs control of the store's connection"),
    ("S25 restore", "needs a kubelet that holds the first member back"),
    ("S26", "needs control of the connections between members: a learner is in sync within a second"),
    ("S28", "needs control of the operator's connections to the API server"),
];

/// The ids in the lines of a folder's files, from the `S` at the end of `begin` to `end` or a placeholder.
fn ids_of_scenarios(folder: &str, begin: &str, end: char) -> BTreeSet<String> {
    let files = std::fs::read_dir(olm_tests::root().join(folder)).expect("a folder of tests").flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let mut ids = BTreeSet::new();
    for text in texts {
        for line in text.lines().filter(|line| !line.contains("skipped(")) {
            let Some((_, rest)) = line.split_once(begin) else { continue };
            if rest.bytes().take_while(u8::is_ascii_digit).count() == 2 {
                let list = format!("S{}", rest.split([end, '{']).next().unwrap_or_default());
                ids.extend(list.split("; ").map(|id| id.trim().to_owned()));
            }
        }
    }
    ids
}

#[test]
fn every_etcd_scenario_is_played_on_the_dev_cluster_or_elsewhere_with_a_reason() {
    let all = ids_of_scenarios("tests/etcd", "(\"S", '"');
    for number in 1..=28 {
        let id = format!("S{number:02}");
        assert!(all.iter().any(|known| known.starts_with(&id)), "no scenario {id} in {all:?}");
    }
    let played = ids_of_scenarios("tests/e2e", "/// S", ':');
    let elsewhere: BTreeSet<String> = PLAYED_ELSEWHERE.iter().map(|(id, _)| (*id).to_owned()).collect();
    let both: Vec<_> = played.intersection(&elsewhere).collect();
    assert!(both.is_empty(), "played here, and in PLAYED_ELSEWHERE: {both:?}");
    let known: BTreeSet<String> = played.union(&elsewhere).cloned().collect();
    let missing: Vec<_> = all.difference(&known).collect();
    assert!(missing.is_empty(), "neither played here nor in PLAYED_ELSEWHERE: {missing:?}");
    let unknown: Vec<_> = known.difference(&all).collect();
    assert!(unknown.is_empty(), "no scenarios of tests/etcd: {unknown:?}");
}
