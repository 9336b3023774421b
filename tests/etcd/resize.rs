//! Clusters that grow and shrink.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use etcd_client::MemberAddOptions;
use olm_tests::etcd_stage::{Handle, audit::Change, condition, facts};
use serde_json::json;

use crate::{
    clients::Clients,
    connections::Connections,
    judge::{Guarantee, judge},
    made, scenario, spec, with_volumes,
};

/// S03: 1 → 3 → 5 → 3 → 2 → 1, one member at a time, almost unnoticed by clients.
#[test]
fn s03_sizes_change_one_member_at_a_time() {
    scenario("S03", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let clients = Clients::start(&cluster, 4, 3);
        for size in [3, 5, 3, 2, 1] {
            cluster.spec(json!({ "size": size })).await?;
            cluster.steady(size).await.with_context(|| format!("to {size}"))?;
        }
        judge(&cluster, clients, Guarantee::of(1)).await?;
        let removed =
            |rpc: &&olm_tests::etcd_stage::Rpc| matches!(rpc.change, Change::Remove(_)) && rpc.made();
        let removed = stage.audit.log().iter().filter(removed).count();
        ensure!(removed == 4, "{removed} members were removed, not 4");
        Ok(())
    });
}

/// S03: clients that connect anew for each write, through the endpoints of the Service: from the first endpoint
/// on none of them fails while the cluster is created, grows and shrinks. A removed member has left the Service
/// before.
#[test]
fn s03_new_connections_do_not_fail_while_members_are_added_and_removed() {
    scenario("S03 connections", async |stage| {
        let _operator = stage.operator()?;
        let cluster = stage.create("c", spec(3)).await?;
        let connections = Connections::start(&cluster);
        cluster.steady(3).await?;
        let leader = cluster.leader().await?;
        for size in [5, 3] {
            cluster.spec(json!({ "size": size })).await?;
            cluster.steady(size).await.with_context(|| format!("to {size}"))?;
        }
        let seen = connections.finish().await?;
        // An election, on a busy machine, costs requests; never connections.
        let elected = cluster.leader().await? != leader;
        ensure!(seen.failed.is_empty() || elected, "{} writes, failed: {:?}", seen.writes, seen.failed);
        Ok(())
    });
}

/// S03: a size that is reverted while a member leaves the Service: it returns, and no member is removed.
#[test]
fn s03_a_member_that_left_the_service_returns_when_the_size_is_reverted() {
    scenario("S03 reverted", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let connections = Connections::start(&cluster);
        let before = cluster.ids().await?;
        let serving = async |value: &str| {
            let pods = cluster.pods().await?;
            anyhow::Ok(pods.iter().filter(|pod| pod["metadata"]["labels"]["etcd_serving"] == value).count())
        };
        cluster.spec(json!({ "size": 2 })).await?;
        stage
            .eventually("a member to leave the Service", async || {
                ensure!(serving("false").await? == 1, "all are in the Service");
                Ok(())
            })
            .await?;
        cluster.spec(json!({ "size": 3 })).await?;
        stage
            .eventually("it to return", async || {
                ensure!(serving("true").await? == 3, "one is not in the Service");
                Ok(())
            })
            .await?;
        cluster.steady(3).await?;
        let after = cluster.ids().await?;
        ensure!(before == after, "{before:?} became {after:?}");
        connections.finish().await.map(drop)
    });
}

/// S06: nodes are drained one after the other: the evicted members serve on until clients have left them.
#[test]
fn s06_new_connections_do_not_fail_while_pods_are_deleted() {
    scenario("S06 connections", async |stage| {
        let _operator = stage.operator()?;
        let cluster = stage.create("c", with_volumes(3)).await?;
        cluster.steady(3).await?;
        let connections = Connections::start(&cluster);
        for name in cluster.names().await? {
            let uid = stage.get("Pod", "ns", &name).await?["metadata"]["uid"].clone();
            stage.delete("Pod", "ns", &name).await?;
            stage
                .eventually("the pod to be made again", async || {
                    let pod = stage.get("Pod", "ns", &name).await?;
                    ensure!(pod["metadata"]["uid"] != uid, "it is the old one");
                    Ok(())
                })
                .await?;
            cluster.steady(3).await?;
        }
        connections.finish().await.map(drop)
    });
}

/// A learner in etcd whose pod waits.
async fn waiting_learner(cluster: &Handle<'_>) -> Result<String> {
    cluster
        .stage
        .eventually("a learner whose pod waits", async || {
            let learners = cluster.facts().await.learners();
            let learner = learners.first().context("there is no learner")?;
            ensure!(learner.name.is_empty(), "it started: {learner:?}");
            let running = cluster.stage.kubelet.running(&cluster.name);
            let pods = cluster.names().await?;
            pods.into_iter().find(|pod| !running.contains(pod)).context("it has no pod")
        })
        .await
}

/// S04: the next pod never starts: the voters keep serving, and the learner is removed when the size is
/// reverted, or after its ten minutes; then a change of the spec starts the next attempt.
#[test]
fn s04_a_new_member_that_never_starts_is_harmless() {
    scenario("S04", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 3, 4);
        let known = cluster.names().await?;
        stage.kubelet.refuse(move |pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            (!known.contains(&name)).then(|| "0/1 nodes are available: 1 Insufficient cpu.".to_owned())
        });
        cluster.spec(json!({ "size": 5 })).await?;
        let learner = waiting_learner(&cluster).await?;
        let reported = cluster.condition("Scaling", "True", "").await?;
        ensure!(reported["message"].as_str().is_some_and(|text| text.contains('5')), "{reported}");
        let voters = cluster.facts().await.voters();
        ensure!(voters.len() == 3, "{voters:?}");
        cluster.spec(json!({ "size": 3 })).await?;
        let gone = async |learner: &str| {
            stage
                .eventually("the learner to be gone", async || {
                    let members = cluster.facts().await.members();
                    ensure!(members.len() == 3 && members.iter().all(|m| !m.learner), "{members:?}");
                    ensure!(!cluster.names().await?.contains(learner), "{learner} is still there");
                    Ok(())
                })
                .await
        };
        gone(&learner).await?;
        // Once more, until its deadline.
        cluster.spec(json!({ "size": 4 })).await?;
        let learner = waiting_learner(&cluster).await?;
        stage.clock.set(Duration::from_secs(605));
        let reported = cluster.condition("Scaling", "False", "LearnerFailed").await?;
        ensure!(
            reported["message"].as_str().is_some_and(|text| text.contains("Insufficient cpu")),
            "{reported}"
        );
        gone(&learner).await?;
        // Resources again, and a change, so that the next attempt does not wait for its delay.
        stage.clock.set(Duration::ZERO);
        stage.kubelet.accept();
        cluster.spec(json!({ "pod": { "labels": { "try": "another" } } })).await?;
        judge(&cluster, clients, Guarantee::of(4)).await.map(drop)
    });
}

/// S26: a learner that is paused repeatedly is not promoted before it is in sync.
#[test]
fn s26_a_slow_learner_waits_for_its_vote() {
    scenario("S26", async |stage| {
        let (_operator, cluster) = made(stage, 1).await?;
        let clients = Clients::start(&cluster, 3, 26);
        // Something to catch up with.
        let mut client = facts::client(stage.net.inside(&cluster.leader().await?)).await?;
        for n in 0..300 {
            client.put(format!("bulk/{n}"), vec![b'x'; 4000], None).await?;
        }
        let begin = stage.audit.count();
        let known = cluster.names().await?;
        cluster.spec(json!({ "size": 2 })).await?;
        let slow = stage
            .eventually("the process of the new member", async || {
                let running = stage.kubelet.running("c");
                running.into_iter().find(|name| !known.contains(name)).context("not yet")
            })
            .await?;
        stage.wires.slow(&slow, Duration::from_millis(30));
        for _ in 0..6 {
            // The pulse itself, not a wait.
            stage.kubelet.pause(&slow)?;
            tokio::time::sleep(Duration::from_millis(400)).await;
            stage.kubelet.resume(&slow)?;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        stage.wires.heal();
        cluster.steady(2).await?;
        // The audit detects a premature promotion, even where it is excused.
        let early: Vec<String> = stage
            .audit
            .membership_since(begin)
            .into_iter()
            .filter(|rpc| matches!(rpc.change, Change::Promote(_)) && rpc.made() && !rpc.wrong.is_empty())
            .map(|rpc| rpc.wrong.join("; "))
            .collect();
        ensure!(early.is_empty(), "promoted too early: {}", early.join("\n"));
        judge(&cluster, clients, Guarantee::of(2)).await.map(drop)
    });
}

/// A foreign etcd, at an address of its own, which joins the members of a cluster. It ends when it is
/// dropped.
async fn strangers_process(cluster: &Handle<'_>, name: &str) -> Result<tokio::process::Child> {
    let (stage, own) = (cluster.stage, cluster.stage.net.outside(name));
    let mut initial = vec![format!("{name}=http://{own}:2380")];
    for member in cluster.facts().await.members().into_iter().filter(|m| !m.name.is_empty()) {
        initial.push(format!("{}={}", member.name, member.peer_urls.join(",")));
    }
    let log = std::fs::File::create(stage.folder().join(format!("{name}.log")))?;
    // With the version of the cluster that it joins.
    let program =
        olm_tests::etcd::tool("etcd").context("there is no etcd of the version that members run")?;
    let mut command = tokio::process::Command::new(program);
    command
        .args([format!("--name={name}"), format!("--initial-cluster={}", initial.join(","))])
        .arg(format!("--data-dir={}", stage.folder().join(name).display()))
        .args(["peer", "client"].map(|kind| {
            let port = if kind == "peer" { 2380 } else { 2379 };
            format!("--listen-{kind}-urls=http://{own}:{port}")
        }))
        .args([
            format!("--initial-advertise-peer-urls=http://{own}:2380"),
            format!("--advertise-client-urls=http://{own}:2379"),
            "--initial-cluster-state=existing".to_owned(),
        ])
        .env("ETCD_HEARTBEAT_INTERVAL", "200")
        .env("ETCD_ELECTION_TIMEOUT", "2000")
        .stdin(std::process::Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true);
    command.spawn().context("failed to start etcd")
}

/// S27: a foreign member is reported and left unchanged, whether it never starts, is a learner, or a voter;
/// when it is removed work continues.
#[test]
fn s27_foreign_members_are_left_unchanged() {
    scenario("S27", async |stage| {
        let (_operator, cluster) = made(stage, 3).await?;
        let clients = Clients::start(&cluster, 3, 27);
        let leader = cluster.leader().await?;
        let mut client = facts::client(stage.net.inside(&leader)).await?;
        let url = format!("http://{}:2380", stage.net.outside("foreign"));
        // etcd requires all members to be connected for five seconds.
        let id = stage
            .eventually("etcd to take a member", async || {
                let options = MemberAddOptions::new().with_is_learner();
                let mut client = client.clone();
                let added = client.member_add([url.clone()], Some(options)).await?;
                Ok(added.member().context("the member that was added")?.id())
            })
            .await?;
        let from = stage.audit.count();
        let reported = cluster.condition("Degraded", "True", "ForeignMember").await?;
        ensure!(
            reported["message"].as_str().is_some_and(|text| text.contains(&format!("{id:x}"))),
            "{reported}"
        );
        // It starts, and is promoted.
        let _process = strangers_process(&cluster, "foreign").await?;
        stage
            .eventually("the foreign member to be promoted", async || {
                client.clone().member_promote(id).await.map(drop).map_err(Into::into)
            })
            .await?;
        stage
            .eventually("four voters", async || {
                let voters = cluster.facts().await.voters();
                ensure!(voters.len() == 4 && voters.iter().all(|m| !m.name.is_empty()), "{voters:?}");
                Ok(())
            })
            .await?;
        let four = |object: &serde_json::Value| {
            object["status"]["size"] == 4 && condition(object, "Degraded")["reason"] == "ForeignMember"
        };
        cluster.until("the fourth voter to be reported", four).await?;
        // Even when members are required.
        cluster.spec(json!({ "size": 5 })).await?;
        cluster
            .until("the new size to be seen", |object| {
                object["status"]["observedGeneration"] == object["metadata"]["generation"]
            })
            .await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "changed beside a foreign member: {changes:?}");
        cluster.spec(json!({ "size": 3 })).await?;
        client.member_remove(id).await?;
        judge(&cluster, clients, Guarantee::of(3)).await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "{changes:?}");
        Ok(())
    });
}
