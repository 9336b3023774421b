//! Scenarios of the etcd operator on the dev cluster's own node with an obstacle: the cluster is deleted, a
//! member does not start, the database is full, a user adds members. They share a namespace and run
//! concurrently, like those of [`crate::etcd_scenarios`].

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use futures::FutureExt as _;
use olm_tests::{etcd, eventually};
use serde_json::{Value, json};

use crate::{
    etcd_fixture::{LIMIT, holds_all, pods, without_volumes},
    etcd_handle::{Handle, concurrently, under_one_operator},
    operator::get,
};

/// Deleted with an EtcdCluster, whatever its policy for claims.
const OWNED: &str = "pods,services,poddisruptionbudgets";

impl Handle<'_> {
    /// Objects of some kinds with a label.
    fn labelled(&self, kinds: &str, label: &str) -> Result<Vec<Value>> {
        let list = get(self.cluster, &[kinds, "-n", self.ns, "-l", label])?;
        Ok(list["items"].as_array().context("items")?.clone())
    }

    /// Sets the size to 7 and waits for the second member. Returns the uid of the EtcdCluster. A learner
    /// exists for less than a second, too short to be waited for.
    async fn in_the_middle_of_growth(&self) -> Result<String> {
        self.patch(&json!({ "size": 7 }))?;
        eventually(&format!("the second member of {}", self.name), LIMIT, async || {
            let object = self.object()?;
            let list = object["status"]["memberList"].as_array().context("members")?;
            let budgets = self.labelled("poddisruptionbudgets", &format!("etcd_cluster={}", self.name))?;
            ensure!(list.len() < 7, "all are members: {list:?}");
            ensure!(list.len() > 1, "one member: {list:?}");
            ensure!(budgets.len() == 1, "{} budgets", budgets.len());
            Ok(object["metadata"]["uid"].as_str().map(str::to_owned))
        })
        .await
    }

    /// Waits until no object with the label of this cluster belongs to an EtcdCluster with this uid.
    async fn leaves_nothing(&self, uid: &str) -> Result<()> {
        eventually(&format!("what belongs to {} ({uid}) to be gone", self.name), LIMIT, async || {
            let objects = self.labelled(OWNED, &format!("etcd_cluster={}", self.name))?;
            let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
            let left: Vec<String> = objects
                .iter()
                .filter(|object| owner(object).as_str().is_none_or(|owner| owner == uid))
                .map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]))
                .collect();
            ensure!(left.is_empty(), "{left:?}");
            Ok(Some(()))
        })
        .await
    }

    /// The claims of the cluster with this uid, by name and uid.
    fn claims(&self, uid: &str) -> Result<BTreeSet<(String, String)>> {
        let claims = self.labelled("persistentvolumeclaims", &format!("etcd_cluster_uid={uid}"))?;
        let text = |claim: &Value, key: &str| claim["metadata"][key].as_str().unwrap_or_default().to_owned();
        ensure!(claims.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_null()), "{claims:?}");
        Ok(claims.iter().map(|claim| (text(claim, "name"), text(claim, "uid"))).collect())
    }

    /// The names, or peer URLs, and roles of the members that the status lists.
    fn roles(&self) -> Result<BTreeSet<(String, String)>> {
        let object = self.object()?;
        let list = object["status"]["memberList"].as_array().context("members")?;
        let text = |member: &Value, key: &str| member[key].as_str().unwrap_or_default().to_owned();
        Ok(list.iter().map(|m| (text(m, "name"), text(m, "role"))).collect())
    }

    /// etcdctl through the Service: any member answers.
    fn etcdctl(&self, args: &[&str]) -> Result<String> {
        let endpoint = format!("http://{}-client:2379", self.name);
        let out = self.cluster.try_etcdctl(self.ns, "client", &endpoint, args)?;
        let failure = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "etcdctl {}: {}", args.join(" "), failure.trim());
        Ok(String::from_utf8(out.stdout)?)
    }
}

/// S25: clusters that are deleted while they grow. The first one is followed at once by another one of its
/// name, and its policy retains its claims; the second one is deleted in the foreground together with its
/// claims.
async fn a_deleted_cluster_leaves_its_claims_by_policy(at: Handle<'_>, version: &str) -> Result<()> {
    let manifest = etcd::manifest(at.ns, at.name, 1, version);
    let ids = at.create(&format!("{manifest}  storage: {{retentionPolicy: Retain}}\n"), 1).await?;
    let (first, _) = ids.first().context("a member")?;
    at.cluster.etcdctl(at.ns, first, &["put", "first", "kept"])?;
    let cluster_id = at.object()?["status"]["clusterID"].clone();
    let first_uid = at.in_the_middle_of_growth().await?;
    at.cluster.kubectl(&["delete", "etcdcluster", at.name, "-n", at.ns, "--wait=false"])?;

    let next = at.create(&manifest, 1).await?;
    let (second, _) = next.first().context("a member")?;
    ensure!(next.is_disjoint(&ids), "{ids:?} became {next:?}");
    ensure!(at.object()?["status"]["clusterID"] != cluster_id, "both clusters have the id {cluster_id}");
    let value = at.cluster.etcdctl(at.ns, second, &["get", "first"])?;
    ensure!(value.is_empty(), "{second} holds a key of the first cluster: {value}");
    at.leaves_nothing(&first_uid).await?;
    let retained = at.claims(&first_uid)?;
    ensure!(retained.iter().any(|(name, _)| name == first), "no claim of {first}: {retained:?}");

    let second_uid = at.in_the_middle_of_growth().await?;
    at.cluster.kubectl(&[
        "delete",
        "etcdcluster",
        at.name,
        "-n",
        at.ns,
        "--wait=false",
        "--cascade=foreground",
    ])?;
    eventually("the second cluster and its claims to be gone", LIMIT, async || {
        let left = at.labelled("persistentvolumeclaims", &format!("etcd_cluster_uid={second_uid}"))?;
        let clusters = get(at.cluster, &["etcdclusters", "-n", at.ns])?;
        let clusters = clusters["items"].as_array().context("items")?;
        let there = clusters.iter().any(|cluster| cluster["metadata"]["name"] == at.name);
        ensure!(left.is_empty() && !there, "{} claims; still an EtcdCluster: {there}", left.len());
        Ok(Some(()))
    })
    .await?;
    let left = at.labelled(OWNED, &format!("etcd_cluster={}", at.name))?;
    ensure!(left.is_empty(), "what both clusters left: {left:?}");
    ensure!(at.claims(&first_uid)? == retained, "{retained:?} became {:?}", at.claims(&first_uid)?);
    Ok(())
}

/// S04: no node has the requested resources for the next pod. The voter keeps serving and is not restarted;
/// the learner is removed when the size is reverted. The deadline of a learner, ten minutes, needs a
/// simulated clock: see `tests/etcd/resize.rs`.
async fn a_member_that_never_starts_is_taken_out(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 1, version), 1).await?;
    let before = pods(at.cluster, at.ns, at.name)?;
    let (voter, _) = ids.first().context("a member")?;
    at.patch(&json!({ "size": 3, "pod": { "nodeSelector": { "example.com/disk": "none-has-this" } } }))?;
    let message = at.reports("Degraded", "True", "MemberNotStarting", "didn't match").await?;
    at.reports("Scaling", "True", "ScalingUp", "desired cluster size: 3").await?;
    let roles = at.roles()?;
    let learners: Vec<&String> =
        roles.iter().filter(|(_, role)| role == "Learner").map(|(name, _)| name).collect();
    ensure!(roles.len() == 2 && learners.len() == 1, "{roles:?}");
    ensure!(message.contains(learners[0].as_str()), "{message} does not name {}", learners[0]);
    // A voter that does not start would cost the quorum of a cluster of one.
    at.cluster.etcdctl(at.ns, voter, &["put", "meanwhile", "written"])?;

    at.patch(&json!({ "size": 1 }))?;
    ensure!(at.members(1).await? == ids, "other members after the size was set back");
    eventually("the pod of the learner to be gone", LIMIT, async || {
        let now = pods(at.cluster, at.ns, at.name)?;
        ensure!(now == before, "{before:?} became {now:?}");
        Ok(Some(()))
    })
    .await?;

    at.patch(&json!({ "size": 2, "pod": { "nodeSelector": null } }))?;
    let grown = at.members(2).await?;
    ensure!(grown.is_superset(&ids), "{ids:?} became {grown:?}");
    let now = pods(at.cluster, at.ns, at.name)?;
    ensure!(now.get(voter) == before.get(voter), "{voter} was restarted: {before:?} became {now:?}");
    for (name, _) in &grown {
        let value = at.cluster.etcdctl(at.ns, name, &["get", "meanwhile", "--print-value-only"])?;
        ensure!(value.trim() == "written", "{name} has {value:?}");
    }
    Ok(())
}

/// S24: the history of one key fills the database. It is compacted, all members are defragmented, and writes
/// continue.
async fn a_full_database_takes_writes_again(at: Handle<'_>, version: &str) -> Result<()> {
    let small = without_volumes(at.ns, at.name, 3, version) + "  maintenance: {quota: 16Mi}\n";
    let ids = at.create(&small, 3).await?;
    let (any, _) = ids.first().context("a member")?;
    // The value is read from the standard input: it is too long for an argument.
    let value = "x".repeat(1_000_000);
    let put = ["exec", "-i", "-n", at.ns, any, "--", "etcdctl", "put", "history"];
    eventually("the database to be full", LIMIT, async || {
        let out = at.cluster.try_kubectl(&put, Some(&value))?;
        let text = String::from_utf8_lossy(&out.stderr);
        ensure!(text.contains("database space exceeded"), "still takes writes: {text}");
        Ok(Some(()))
    })
    .await?;

    eventually("the operator to disarm the alarm", LIMIT, async || {
        ensure!(!at.events("AlarmDisarmed")?.is_empty(), "no event");
        let alarms = at.cluster.etcdctl(at.ns, any, &["alarm", "list"])?;
        ensure!(alarms.trim().is_empty(), "{alarms}");
        at.cluster.etcdctl(at.ns, any, &["put", "history", "goes on"])?;
        Ok(Some(()))
    })
    .await?;
    ensure!(!at.events("DatabaseCompacted")?.is_empty(), "no event of the compaction");
    let old = at.cluster.etcdctl(at.ns, any, &["get", "before", "--rev=2"]);
    let old = old.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(old.contains("has been compacted"), "revision 2 is still there: {old}");
    ensure!(at.members(3).await? == ids, "other members after the database was full");
    for (name, _) in &ids {
        let status = at.cluster.etcdctl(at.ns, name, &["endpoint", "status", "-w", "json"])?;
        let status: Value = serde_json::from_str(status.trim())?;
        let size = status[0]["Status"]["dbSize"].as_u64().context("dbSize")?;
        ensure!(size < 8 << 20, "{name} was not defragmented: {size} bytes");
        holds_all(at.cluster, at.ns, name, 0)?;
        let value = at.cluster.etcdctl(at.ns, name, &["get", "history", "--print-value-only"])?;
        ensure!(value.trim() == "goes on", "{name} has {} bytes", value.len());
    }
    at.reports("Degraded", "False", "AsExpected", "").await.map(drop)
}

/// A Service and a pod with an etcd that joins the cluster of another member.
fn member_by_hand(at: &Handle<'_>, name: &str, ids: &BTreeSet<(String, String)>, version: &str) -> String {
    let (ns, cluster) = (at.ns, at.name);
    let others = ids.iter().map(|(member, _)| format!("{member}=http://{member}.{cluster}.{ns}.svc:2380"));
    let all: Vec<String> = others.chain([format!("{name}={}", peer_url(ns, name))]).collect();
    let flags = [
        format!("--name={name}"),
        "--data-dir=/tmp/own".to_owned(),
        "--initial-cluster-state=existing".to_owned(),
        format!("--initial-cluster={}", all.join(",")),
        format!("--initial-advertise-peer-urls={}", peer_url(ns, name)),
        "--listen-peer-urls=http://0.0.0.0:2380".to_owned(),
        "--listen-client-urls=http://0.0.0.0:2379".to_owned(),
        format!("--advertise-client-urls=http://{name}.{ns}.svc:2379"),
    ];
    let command: Vec<&str> =
        std::iter::once("/usr/local/bin/etcd").chain(flags.iter().map(String::as_str)).collect();
    let metadata = json!({ "name": name, "namespace": ns, "labels": { "by-hand": name } });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": { "by-hand": name },
            "ports": [{ "name": "peer", "port": 2380 }],
        } },
        { "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "etcd", "image": format!("quay.io/coreos/etcd:v{version}"), "command": command }],
        } },
    ] })
    .to_string()
}

fn peer_url(ns: &str, name: &str) -> String {
    format!("http://{name}.{ns}.svc:2380")
}

/// S27: a user adds a member. Whether it never started, is a learner or a voter, it is reported and left
/// unchanged, and so is the size; after its removal by the user, the cluster gets the size that was set
/// meanwhile.
async fn a_member_added_by_hand_is_left_alone(at: Handle<'_>, version: &str) -> Result<()> {
    let ids = at.create(&without_volumes(at.ns, at.name, 3, version), 3).await?;
    let writer = at.writer();
    let name = format!("{}-by-hand", at.name);
    let url = peer_url(at.ns, &name);
    // The id of the added member, and whether it is still a learner.
    let added = || -> Result<Option<(u64, bool)>> {
        let list = at.etcdctl(&["member", "list", "-w", "json"])?;
        let list: Value = serde_json::from_str(list.trim())?;
        let list = list["members"].as_array().context("members")?;
        let member = list.iter().find(|member| member["peerURLs"][0] == url.as_str());
        member
            .map(|member| Ok((member["ID"].as_u64().context("an id")?, member["isLearner"] == true)))
            .transpose()
    };
    let peer_urls = format!("--peer-urls={url}");
    let (id, _) = eventually("etcd to take a member", LIMIT, async || {
        if let Some(member) = added()? {
            return Ok(Some(member));
        }
        at.etcdctl(&["member", "add", &name, "--learner", &peer_urls])?;
        Ok(None)
    })
    .await?;
    let hex = format!("{id:x}");
    let message = at.reports("Degraded", "True", "ForeignMember", &hex).await?;
    ensure!(message.contains(&format!("etcdctl member remove {hex}")), "no command: {message}");

    // It starts, and is promoted.
    let manifest = member_by_hand(&at, &name, &ids, version);
    at.cluster.kubectl_in(&["apply", "-f", "-"], Some(&manifest))?;
    eventually("the vote of the added member", LIMIT, async || {
        if let Some((_, false)) = added()? {
            return Ok(Some(()));
        }
        at.etcdctl(&["member", "promote", &hex])?;
        Ok(None)
    })
    .await?;
    eventually("the fourth voter to be counted", LIMIT, async || {
        Ok((at.object()?["status"]["size"] == 4).then_some(()))
    })
    .await?;
    let before = at.roles()?;
    ensure!(before.len() == 4, "{before:?}");

    // No member is added or removed for the size meanwhile.
    for size in [5, 2] {
        at.patch(&json!({ "size": size }))?;
        eventually("the size to be observed", LIMIT, async || {
            let object = at.object()?;
            Ok((object["status"]["observedGeneration"] == object["metadata"]["generation"]).then_some(()))
        })
        .await?;
        at.reports("Degraded", "True", "ForeignMember", &hex).await?;
    }
    let names =
        |roles: BTreeSet<(String, String)>| roles.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let now = at.roles()?;
    ensure!(names(now.clone()) == names(before.clone()), "{before:?} became {now:?}");
    let (added_members, removed) = (at.events("MemberAdded")?, at.events("MemberRemoved")?);
    ensure!(added_members.len() <= 3 && removed.is_empty(), "{added_members:?}, {removed:?}");

    eventually("etcd to remove the added member", LIMIT, async || {
        if added()?.is_none() {
            return Ok(Some(()));
        }
        at.etcdctl(&["member", "remove", &hex])?;
        Ok(None)
    })
    .await?;
    let left = at.members(2).await?;
    ensure!(left.is_subset(&ids), "{ids:?} became {left:?}");
    at.reports("Degraded", "False", "AsExpected", "").await?;
    let pod = get(at.cluster, &["pod", &name, "-n", at.ns])?;
    ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
    at.keeps(writer)
}

/// Scenarios with an obstacle.
#[test]
fn etcd_scenarios_with_something_in_the_way() {
    let ns = "obstacles";
    under_one_operator("etcd_scenarios_with_something_in_the_way", ns, async |cluster, version| {
        let at = |name| Handle { cluster, ns, name };
        concurrently(&[
            &|| a_deleted_cluster_leaves_its_claims_by_policy(at("deleted"), version).boxed_local(),
            &|| a_member_that_never_starts_is_taken_out(at("nowhere"), version).boxed_local(),
            &|| a_full_database_takes_writes_again(at("full"), version).boxed_local(),
            &|| a_member_added_by_hand_is_left_alone(at("foreign"), version).boxed_local(),
        ])
    });
}
