//! Members with disk corruption: they serve data that was never written, without detecting it.

use std::{
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use olm_tests::etcd_stage::{Handle, Operator, Stage, audit::Change, condition, facts};
use serde_json::{Value, json};

use crate::{
    clients::Clients,
    heal::{kinds, replaced},
    judge::{Guarantee, judge},
    made, scenario,
};

/// An operator with this uptime has compared the data of each of its clusters once: four minutes. Its clock
/// is ahead only until then: it is more than the termination grace of a pod, one minute, and little less than
/// the five minutes for which members are waited for.
const COMPARED: Duration = Duration::from_secs(245);
/// etcd writes applied entries to its database after a tenth of this.
const WRITTEN: Duration = Duration::from_secs(1);
/// Number and interval of checks whether a condition lasts.
const LOOKS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(500);

/// A recognizable value in the database file: bbolt has no checksums over its pages, so etcd does not detect
/// the change.
fn value() -> Vec<u8> {
    b"what was written. ".iter().copied().cycle().take(4096).collect()
}

/// Writes a value, and changes it in the database of one member while that is down. No operator runs
/// meanwhile.
async fn spoil(cluster: &Handle<'_>, victim: &str) -> Result<()> {
    let (stage, size) = (cluster.stage, cluster.ids().await?.len());
    let mut client = facts::client(stage.net.inside(&cluster.leader().await?)).await?;
    let put = client.put("spoilt", value(), None).await?;
    let revision = put.header().context("an answer without a header")?.revision();
    stage
        .eventually("all to have the value", async || {
            let facts = cluster.facts().await;
            let all = facts.0.len() == size && facts.0.values().all(|report| report.revision >= revision);
            ensure!(all, "revision {revision}: {}", facts.brief());
            Ok(())
        })
        .await?;
    // From then on it is not restored from the log: the database records the applied index.
    tokio::time::sleep(WRITTEN).await;
    let data = stage.kubelet.data(victim)?;
    stage.kubelet.down(victim)?;
    stage
        .eventually("its process to be gone", async || {
            let running = stage.kubelet.running(&cluster.name);
            ensure!(!running.iter().any(|name| name == victim), "{running:?} run");
            Ok(())
        })
        .await?;
    let database = database(&data)?.with_context(|| format!("no database in {}", data.display()))?;
    let places = overwrite(&database, &value())?;
    ensure!(places > 0, "the value is not in {}", database.display());
    stage.kubelet.up(victim)?;
    cluster.steady(size).await?;
    let mut client = facts::client(stage.net.inside(victim)).await?;
    let options = etcd_client::GetOptions::new().with_serializable();
    let got = client.get("spoilt", Some(options)).await?;
    let served = got.kvs().first().context("the key is gone")?.value();
    ensure!(served.len() == value().len() && served != value(), "{victim} serves what was written");
    Ok(())
}

/// The database of the etcd whose data is below a directory.
fn database(folder: &Path) -> Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.ends_with("member/snap/db") {
            return Ok(Some(path));
        }
        if path.is_dir()
            && let Some(found) = database(&path)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Overwrites every occurrence of these bytes in a file; returns their number.
fn overwrite(path: &Path, bytes: &[u8]) -> Result<usize> {
    let content = std::fs::read(path)?;
    let file = std::fs::File::options().write(true).open(path)?;
    let (mut at, mut places) = (0, 0);
    while let Some(next) = content[at..].windows(bytes.len()).position(|window| window == bytes) {
        at += next;
        file.write_all_at(&vec![b'!'; bytes.len()], at as u64)?;
        (at, places) = (at + bytes.len(), places + 1);
    }
    Ok(places)
}

/// Transfers leadership to a member.
async fn lead(cluster: &Handle<'_>, name: &str) -> Result<()> {
    let (leader, id) = (cluster.leader().await?, cluster.ids().await?[name]);
    if leader != name {
        facts::client(cluster.stage.net.inside(&leader)).await?.move_leader(id).await?;
    }
    cluster
        .stage
        .eventually("it to lead", async || {
            let leader = cluster.leads().await?;
            ensure!(leader == name, "{leader} leads");
            Ok(())
        })
        .await
}

/// An operator that compares now: it observed the cluster once, and then its clock is advanced until the
/// comparison is due. Returns when it has found a wrong member.
async fn compares(cluster: &Handle<'_>, wrong: &str) -> Result<Operator> {
    let operator = cluster.stage.operator()?;
    // Its observation is visible by the record of a change.
    cluster.spec(json!({ "pod": { "labels": { "looked": "at" } } })).await?;
    cluster.until("it to be looked at", is_observed).await?;
    cluster.stage.clock.set(COMPARED);
    cluster.reconcile_now().await?;
    let found = |object: &Value| {
        let members = object["status"]["memberList"].as_array();
        let gone = members.is_some_and(|all| all.iter().all(|member| member["name"] != wrong));
        object["status"]["corruption"].is_object() || gone
    };
    cluster.until("the difference to be found", found).await?;
    cluster.stage.clock.set(Duration::ZERO);
    Ok(operator)
}

fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

async fn of_three(stage: &Stage, leads: bool) -> Result<()> {
    let (operator, cluster) = made(stage, 3).await?;
    let clients = Clients::start(&cluster, 4, 31);
    operator.stop().await;
    let victim = cluster.followers().await?.remove(0);
    spoil(&cluster, &victim).await?;
    if leads {
        lead(&cluster, &victim).await?;
    }
    let (mut before, from) = (cluster.ids().await?, stage.audit.count());
    let _operator = compares(&cluster, &victim).await?;
    replaced(&cluster, &victim).await?;
    judge(&cluster, clients, Guarantee::of(3)).await?;
    let changes = stage.audit.membership_since(from);
    ensure!(kinds(&changes) == ["remove", "add", "promote"], "{changes:?}");
    let log = stage.audit.log();
    let moved = log.iter().skip(from).any(|rpc| matches!(rpc.change, Change::MoveLeader(_)) && rpc.made());
    ensure!(moved == leads, "leadership was moved: {moved}");
    let after = cluster.ids().await?;
    before.remove(&victim);
    ensure!(
        before.iter().all(|(name, id)| after.get(name) == Some(id)),
        "the others were {before:?}, and there are {after:?}"
    );
    let events = stage.list("Event", "ns").await?;
    let reported = events.iter().any(|event| {
        event["reason"] == "ReplacingCorruptMember"
            && event["note"].as_str().is_some_and(|text| text.contains(&victim))
    });
    ensure!(reported, "the replacement of {victim} was not reported");
    Ok(())
}

/// A follower whose data differs from that of the two others, which agree, is removed and replaced; the
/// others stay unchanged.
#[test]
fn a_follower_that_holds_other_data_is_replaced() {
    scenario("corrupt follower", async |stage| of_three(stage, false).await);
}

/// A leader with different data transfers leadership, and is then removed and replaced at once: not half an
/// hour later.
#[test]
fn a_leader_that_holds_other_data_hands_over_and_is_replaced() {
    scenario("corrupt leader", async |stage| of_three(stage, true).await);
}

/// With two differing members the correct data is unknown: that is reported for as long as it lasts, and
/// nothing is done, whatever is requested and whichever operator runs. When a user removes one of them, work
/// continues.
#[test]
fn two_differing_members_are_left_unchanged_until_a_user_decides() {
    scenario("corrupt, no majority", async |stage| {
        let (operator, cluster) = made(stage, 2).await?;
        operator.stop().await;
        let names: Vec<String> = cluster.names().await?.into_iter().collect();
        let [right, wrong] = &names[..] else { anyhow::bail!("{names:?}") };
        spoil(&cluster, wrong).await?;
        lead(&cluster, right).await?;
        let clients = Clients::start(&cluster, 4, 32);
        let (before, from) = (cluster.ids().await?, stage.audit.count());
        let operator = compares(&cluster, wrong).await?;
        let first = cluster.condition("Degraded", "True", "Corrupt").await?;
        lasts(&cluster, &first).await?;
        // The next one reads it from the status, and does not wait for its turn.
        operator.stop().await;
        let _operator = stage.operator()?;
        cluster.spec(json!({ "size": 3 })).await?;
        cluster.until("the new size to be seen", is_observed).await?;
        lasts(&cluster, &first).await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        let after = cluster.ids().await?;
        ensure!(after == before, "the members were {before:?} and are {after:?}");
        facts::client(stage.net.inside(right)).await?.member_remove(before[wrong]).await?;
        judge(&cluster, clients, Guarantee::of(3)).await.map(drop)
    });
}

/// Checks repeatedly that the cluster is not reported as healthy, from the first report of the difference to
/// the end. In between a busy member may be unreachable for a moment, which is reported first.
async fn lasts(cluster: &Handle<'_>, first: &Value) -> Result<()> {
    for _ in 0..LOOKS {
        cluster.reconcile_now().await?;
        tokio::time::sleep(BETWEEN).await;
        let object = cluster.object().await?;
        let reported = condition(&object, "Degraded");
        let since = reported["lastTransitionTime"] == first["lastTransitionTime"];
        ensure!(reported["status"] == "True" && since, "it was {first} and is {reported}");
    }
    cluster.condition("Degraded", "True", "Corrupt").await.map(drop)
}
