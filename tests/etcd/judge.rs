//! Invariants at the end of every scenario (reference, section 5.3, a to h).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{
    etcd_stage::{
        Handle, Rpc,
        audit::{Change, broken_rules},
        facts::{Facts, Listed, MemberReport},
        settled,
    },
    inprocess::Call,
};
use serde_json::Value;

use crate::clients::{Clients, Seen};

/// Timeout of a hash request to a member.
const ANSWER: Duration = Duration::from_secs(5);

/// Promises of a scenario beyond the invariants.
#[derive(Debug, Clone, Copy)]
pub struct Guarantee {
    /// Members at the end.
    pub size: usize,
    /// The longest wait of clients for a write.
    pub outage: Duration,
    /// Whether the operator ran all the time: then every change was reported.
    pub reported: bool,
}

impl Guarantee {
    /// This many members, and an outage of several leader elections at most: this detects hangs; the bench
    /// measures speed.
    pub const fn of(size: usize) -> Self {
        Self { size, outage: Duration::from_secs(8), reported: true }
    }

    /// An allowed wait of clients.
    pub const fn outage(self, seconds: u64) -> Self {
        Self { outage: Duration::from_secs(seconds), ..self }
    }

    /// The operator was killed: it may have died between a change and its report.
    pub const fn unreported(self) -> Self {
        Self { reported: false, ..self }
    }
}

/// Waits for the promised state, stops the clients, and checks the invariants.
/// # Errors
/// The violated invariant.
pub async fn judge(cluster: &Handle<'_>, clients: Clients, guarantee: Guarantee) -> Result<Seen> {
    cluster.steady(guarantee.size).await?;
    let seen = clients.finish(cluster).await?;
    let stage = cluster.stage;
    // An observation may coincide with a slow answer of a member; the invariants must hold in one observation
    // as a whole.
    stage
        .eventually("everything that holds at the end", async || {
            same_data(cluster).await.context("(b) the same data")?;
            one_cluster(cluster, guarantee.size).await.context("(c) one cluster")?;
            let facts = cluster.facts().await;
            one_leader(&facts).context("(d) one leader")?;
            no_alarm(&facts).context("(e) alarms")?;
            settled(&cluster.object().await?, guarantee.size).context("(g) the status")
        })
        .await?;
    let log = stage.audit.log();
    let mut verdict = careful(cluster, &log).context("(f) the audit of changes");
    if guarantee.reported && verdict.is_ok() {
        verdict = check_events(cluster, &log).await.context("(g) events");
    }
    if let Err(error) = verdict {
        bail!("{error:#}\n{}", stage.report().await);
    }
    let bound = guarantee.outage + seen.stall * 2;
    ensure!(
        seen.written.gap <= bound,
        "(h) clients waited {:?} for a write, {bound:?} are promised\n{}",
        seen.written.gap,
        cluster.stage.report().await
    );
    println!(
        "{}: {} writes, longest gap {:?} (stall {:?}), {} operations in one order",
        cluster.name,
        seen.written.keys.len(),
        seen.written.gap,
        seen.stall,
        seen.checked
    );
    Ok(seen)
}

/// (b) At one revision all voters have the same data.
async fn same_data(cluster: &Handle<'_>) -> Result<()> {
    let facts = cluster.facts().await;
    let revision = facts.0.values().map(|report| report.revision).min().context("no member answers")?;
    let newest = facts.0.values().map(|report| report.revision).max().unwrap_or_default();
    ensure!(revision == newest, "revisions {revision} to {newest}");
    let mut hashes = BTreeMap::new();
    for name in cluster.names().await? {
        let mut client = cluster.stage.entry.client(cluster.stage.net.inside(&name), ANSWER).await?;
        let hash = match client.hash_kv(revision).await {
            // All revisions were compacted: there is nothing to compare before the next write.
            Err(error) if error.to_string().contains("compacted") => {
                client.put("judged", revision.to_string(), None).await?;
                bail!("revision {revision} is compacted");
            }
            hash => hash?,
        };
        hashes.insert(name, (hash.hash(), hash.compact_version()));
    }
    let different: BTreeSet<_> = hashes.values().collect();
    ensure!(different.len() == 1, "at revision {revision}: {hashes:?}");
    Ok(())
}

/// (c) One cluster; its members are the pods; none is a learner or unnamed.
async fn one_cluster(cluster: &Handle<'_>, size: usize) -> Result<()> {
    let object = cluster.object().await?;
    let facts = cluster.facts().await;
    let ids: BTreeSet<String> = facts.0.values().map(|report| format!("{:x}", report.cluster)).collect();
    let remembered = object["status"]["clusterID"].as_str().unwrap_or_default().to_owned();
    ensure!(ids == BTreeSet::from([remembered.clone()]), "ids {ids:?}, remembered is {remembered}");
    let pods = cluster.names().await?;
    ensure!(pods.len() == size, "pods {pods:?}");
    for (name, report) in &facts.0 {
        let names: BTreeSet<String> = report.members.iter().map(|m| m.name.clone()).collect();
        ensure!(names == pods, "{name} lists {names:?}, the pods are {pods:?}");
        ensure!(report.members.iter().all(|m| !m.learner), "{name} lists a learner: {:?}", report.members);
        ensure!(pods.contains(name), "{name} runs and has no pod");
    }
    ensure!(facts.0.len() == size, "only {:?} answer", facts.0.keys());
    let anew: BTreeSet<String> = begun_anew(cluster).into_iter().collect();
    ensure!(anew.len() == 1, "began as a new cluster: {anew:?}");
    let ready = object["status"]["members"]["ready"].as_array().cloned().unwrap_or_default();
    let ready: BTreeSet<String> = ready.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    ensure!(ready == pods, "the status has {ready:?} ready");
    Ok(())
}

/// Members that bootstrapped a new cluster without data: only the first one may.
pub fn begun_anew(cluster: &Handle<'_>) -> Vec<String> {
    let of = |name: &str| name.rsplit_once('-').is_some_and(|(of, _)| of == cluster.name);
    let starts = cluster.stage.kubelet.starts();
    let anew = starts.into_iter().filter(|start| of(&start.pod) && start.empty && start.state == "new");
    anew.map(|start| start.pod).collect()
}

/// (d) One leader, followed by all.
fn one_leader(facts: &Facts) -> Result<()> {
    let leaders: BTreeSet<u64> = facts.0.values().map(|report| report.leader).collect();
    ensure!(leaders.len() == 1, "{}", facts.brief());
    let leader = leaders.first().copied().unwrap_or_default();
    ensure!(facts.voters().iter().any(|m| m.id == leader), "{leader:x} is not a voter: {}", facts.brief());
    Ok(())
}

/// (e) No member reports an alarm or an error.
fn no_alarm(facts: &Facts) -> Result<()> {
    for (name, report) in &facts.0 {
        ensure!(report.errors.is_empty(), "{name}: {:?}", report.errors);
    }
    Ok(())
}

/// (f) One membership change at a time, each after its own observation, and none against the rules.
fn careful(cluster: &Handle<'_>, log: &[Rpc]) -> Result<()> {
    let wrong: Vec<String> = log
        .iter()
        .filter(|rpc| !rpc.excused && !rpc.wrong.is_empty())
        .map(|rpc| format!("{}: {}", rpc.brief(), rpc.wrong.join("; ")))
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (slot, faults) in cluster.stage.faults.iter().enumerate() {
        let calls = faults.calls();
        let own = |rpc: &&Rpc| {
            let of = rpc.via.rsplit_once('-').is_some_and(|(name, _)| name == cluster.name);
            of && usize::from(rpc.slot) == slot && rpc.change.is_membership()
        };
        let changes: Vec<&Rpc> = log.iter().filter(own).collect();
        for pair in changes.windows(2) {
            let between = calls.get(pair[0].number..pair[1].number).unwrap_or_default();
            let looked =
                between.iter().any(|call| is_observation(call) && call.query.contains(&cluster.name));
            ensure!(looked, "no look between {} and {}", pair[0].brief(), pair[1].brief());
        }
    }
    let added = log.iter().filter_map(|rpc| match &rpc.change {
        Change::Add { peer_urls, .. } if rpc.made() => Some(peer_urls.join(",")),
        _ => None,
    });
    let mut once = BTreeSet::new();
    for urls in added {
        ensure!(once.insert(urls.clone()), "{urls} was added twice");
    }
    Ok(())
}

/// Whether a call lists the pods: the begin of every observation.
pub fn is_observation(call: &Call) -> bool {
    call.method == "GET" && call.path.ends_with("/pods") && !call.is_watch()
}

/// Events about one member with its id, which is always known for them.
const NUMBERED: [&str; 5] =
    ["LearnerPromoted", "LeaderMoved", "MemberRemoved", "MemberRestarted", "MemberDefragmented"];

/// Whether an event has an id, as etcdctl prints it, in parentheses.
fn has_id(event: &Value) -> bool {
    let note = event["note"].as_str().unwrap_or_default();
    let is_id = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
    note.split('(').skip(1).any(|rest| rest.split_once(')').is_some_and(|(text, _)| is_id(text)))
}

/// (g) Every added or removed member was reported, with its id.
async fn check_events(cluster: &Handle<'_>, log: &[Rpc]) -> Result<()> {
    let events = cluster.stage.list("Event", "ns").await?;
    let of = |reason: &str| -> Vec<&Value> {
        let own = |e: &&Value| e["regarding"]["name"] == *cluster.name && e["reason"] == reason;
        events.iter().filter(own).collect()
    };
    // A repetition is counted in the existing event.
    let count = |reason: &str| {
        of(reason).into_iter().map(|e| e["series"]["count"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    for reason in NUMBERED {
        let nameless = of(reason).into_iter().find(|e| !has_id(e));
        ensure!(nameless.is_none(), "{reason} without an id: {nameless:?}");
    }
    // The id of the seed is unknown when its pod is created.
    let nameless = of("MemberAdded").into_iter().filter(|e| !has_id(e)).count();
    ensure!(nameless <= 1, "{nameless} events MemberAdded without an id");
    let own = |rpc: &&Rpc| rpc.via.rsplit_once('-').is_some_and(|(name, _)| name == cluster.name);
    let made = |wanted: fn(&Change) -> bool| {
        log.iter().filter(own).filter(|rpc| rpc.made() && wanted(&rpc.change)).count() as u64
    };
    let promoted = made(|change| matches!(change, Change::Promote(_)));
    let removed = made(|change| matches!(change, Change::Remove(_)));
    let moved = made(|change| matches!(change, Change::MoveLeader(_)));
    let expected = [("LearnerPromoted", promoted), ("MemberRemoved", removed), ("LeaderMoved", moved)];
    for (reason, expected) in expected {
        let found = count(reason);
        ensure!(found == expected, "{expected} times {reason} in etcd, {found} events");
    }
    // The seed is created without a call to etcd.
    let added = made(|change| matches!(change, Change::Add { .. }));
    ensure!(
        count("MemberAdded") > 0 && count("MemberAdded") <= added + 1,
        "{} events MemberAdded for {added}",
        count("MemberAdded")
    );
    Ok(())
}

#[test]
fn a_promotion_is_judged_by_what_etcd_does_not_check_itself() {
    let facts = |leader: u64, learner: u64, name: &str| {
        let listed = |id: u64, name: &str| Listed {
            id,
            name: name.to_owned(),
            peer_urls: Vec::new(),
            learner: id == 2,
        };
        let report = |id: u64, applied: u64| MemberReport {
            id,
            leader: 1,
            index: applied,
            applied,
            learner: id == 2,
            members: if id == 1 { vec![listed(1, "c-a"), listed(2, name)] } else { Vec::new() },
            ..MemberReport::default()
        };
        Facts([("c-a".to_owned(), report(1, leader)), ("c-b".to_owned(), report(2, learner))].into())
    };
    let wrong =
        |leader, learner, name: &str| broken_rules(&Change::Promote(2), &facts(leader, learner, name));
    assert_eq!(wrong(10, 8, "c-b"), Vec::<String>::new(), "etcd refuses it, or had more of it by then");
    assert_eq!(wrong(10_000, 8_000, "c-b"), Vec::<String>::new());
    for (leader, learner, name) in [(10_000, 7_999, "c-b"), (10, 0, "c-b"), (10, 10, "")] {
        let broken = wrong(leader, learner, name);
        assert!(broken.len() == 1 && broken[0].starts_with("5: "), "{leader} {learner} {name:?}: {broken:?}");
    }
}
