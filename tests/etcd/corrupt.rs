//! Members whose disk changed what etcd had written: they serve what nobody wrote, and do not know it.

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
    judge::{Promise, judge},
    made, scenario,
};

/// An operator that lives for so long has compared the data of each of its clusters once: four minutes. Its clock is ahead by that only
/// until it did: it is more than the minute that a pod has to end, and little less than the five for which members are waited for.
const COMPARED: Duration = Duration::from_secs(245);
/// What etcd has applied is in its database after a tenth of this.
const WRITTEN: Duration = Duration::from_secs(1);
/// So often, and between two times this long, it is seen whether a condition lasts.
const LOOKS: usize = 20;
const BETWEEN: Duration = Duration::from_millis(500);

/// What is found in a database by what it is: bbolt has no sums over its pages, so that etcd does not notice when it is changed.
fn value() -> Vec<u8> {
    b"what was written. ".iter().copied().cycle().take(4096).collect()
}

/// Writes a value, and has it changed in the database of one member while that is down. No operator lives meanwhile.
async fn spoil(cluster: &Handle<'_>, victim: &str) -> Result<()> {
    let (stage, size) = (cluster.stage, cluster.ids().await?.len());
    let mut client = facts::client(stage.net.inside(&cluster.leader().await?)).await?;
    let put = client.put("spoilt", value(), None).await?;
    let revision = put.header().context("an answer without a header")?.revision();
    stage
        .eventually("all to have the value", async || {
            let facts = cluster.facts().await;
            let all = facts.0.len() == size && facts.0.values().all(|said| said.revision >= revision);
            ensure!(all, "revision {revision}: {}", facts.brief());
            Ok(())
        })
        .await?;
    // From then on it is not made again from the log: the database says up to where it was applied.
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

/// The database of the etcd whose data is somewhere below a folder.
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

/// Writes something else wherever a file has these bytes; at how many places.
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

/// Has a member lead.
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

/// An operator that compares now: it looked at the cluster once, and then so much time is over that its turn has come. Returns when it has
/// found that a member is wrong.
async fn compares(cluster: &Handle<'_>, wrong: &str) -> Result<Operator> {
    let operator = cluster.stage.operator()?;
    // That it looked is seen by what it writes down of a change.
    cluster.spec(json!({ "pod": { "labels": { "looked": "at" } } })).await?;
    cluster.until("it to be looked at", looked_at).await?;
    cluster.stage.clock.set(COMPARED);
    cluster.poke().await?;
    let found = |object: &Value| {
        let members = object["status"]["memberList"].as_array();
        let gone = members.is_some_and(|all| all.iter().all(|member| member["name"] != wrong));
        object["status"]["corruption"].is_object() || gone
    };
    cluster.until("the difference to be found", found).await?;
    cluster.stage.clock.set(Duration::ZERO);
    Ok(operator)
}

fn looked_at(object: &Value) -> bool {
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
    judge(&cluster, clients, Promise::of(3)).await?;
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
    let told = events.iter().any(|event| {
        event["reason"] == "ReplacingCorruptMember"
            && event["note"].as_str().is_some_and(|text| text.contains(&victim))
    });
    ensure!(told, "nobody told that {victim} was replaced for its data");
    Ok(())
}

/// A follower whose data is another than that of the two others, which agree, is taken out and replaced; the others stay as they are.
#[test]
fn a_follower_that_holds_other_data_is_replaced() {
    scenario("corrupt follower", async |stage| of_three(stage, false).await);
}

/// A leader whose data is another hands over, and is then taken out and replaced at once: not a half hour later.
#[test]
fn a_leader_that_holds_other_data_hands_over_and_is_replaced() {
    scenario("corrupt leader", async |stage| of_three(stage, true).await);
}

/// Of two that do not hold the same nobody knows who is right: that is told for as long as it lasts, and nothing is done, whatever is
/// asked for and whichever operator lives. When a person took one of them out, all goes on.
#[test]
fn of_two_that_differ_none_is_touched_and_it_is_told_until_a_person_decides() {
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
        // The next one knows it from the status, and does not wait for its turn.
        operator.stop().await;
        let _operator = stage.operator()?;
        cluster.spec(json!({ "size": 3 })).await?;
        cluster.until("the new size to be seen", looked_at).await?;
        lasts(&cluster, &first).await?;
        let changes = stage.audit.membership_since(from);
        ensure!(changes.is_empty(), "membership was changed: {changes:?}");
        let after = cluster.ids().await?;
        ensure!(after == before, "the members were {before:?} and are {after:?}");
        facts::client(stage.net.inside(right)).await?.member_remove(before[wrong]).await?;
        judge(&cluster, clients, Promise::of(3)).await.map(drop)
    });
}

/// Sees look after look that all is not said to be well again, since it was said first that the members differ; and that this is said
/// at the end. In between a busy member may be missed for a moment, which is told first.
async fn lasts(cluster: &Handle<'_>, first: &Value) -> Result<()> {
    for _ in 0..LOOKS {
        cluster.poke().await?;
        tokio::time::sleep(BETWEEN).await;
        let object = cluster.object().await?;
        let told = condition(&object, "Degraded");
        let since = told["lastTransitionTime"] == first["lastTransitionTime"];
        ensure!(told["status"] == "True" && since, "it was {first} and is {told}");
    }
    cluster.condition("Degraded", "True", "Corrupt").await.map(drop)
}
