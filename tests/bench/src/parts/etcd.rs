//! The etcd operator compared with etcd's own rules: its time for a cluster beyond that of etcd itself.
//! The floor is measured in the same run, with the same processes and no operator: members are added, started
//! and promoted as soon as etcd accepts it.

mod anew;
pub(super) mod idle;
mod member;

use std::{
    net::Ipv4Addr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use etcd_client::MemberAddOptions;
use olm_tests::etcd_stage::{Entry, Handle, Net, Stage, facts};
use serde_json::{Value, json};

use super::table::Row;

/// Delay between attempts that etcd does not accept yet.
const AGAIN: Duration = Duration::from_millis(10);
/// A first member elects itself after 0.1 to 1 s, randomly: a single cluster is not representative.
const TURNS: usize = 5;
/// Time-out beyond any measured value.
const HANGS: Duration = Duration::from_secs(120);
/// Time-out of a client's request, after which it uses another member. A request that a follower forwards to
/// a leader during a transfer is lost silently, and etcd reports it after seven seconds: waiting for that
/// would measure etcd's time-out.
const ANSWER: Duration = Duration::from_millis(250);
/// Writes that may fail in an upgrade: etcd loses requests while leadership moves.
const LOST: f64 = 5.0;
/// Maximum wait of a write, in seconds.
const LONGEST: f64 = 1.0;

struct Bare {
    /// The same etcd as that of the operator's members.
    program: PathBuf,
    net: Arc<Net>,
    folder: tempfile::TempDir,
    members: Vec<(String, Child)>,
}

impl Drop for Bare {
    fn drop(&mut self) {
        for (_, child) in &mut self.members {
            // A terminated one is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Bare {
    fn new() -> Result<Self> {
        let room = std::path::Path::new("/dev/shm");
        let folder = if room.is_dir() { tempfile::tempdir_in(room)? } else { tempfile::tempdir()? };
        let program =
            olm_tests::etcd::tool("etcd").context("there is no etcd of the version that members run")?;
        Ok(Self { program, net: Net::claim()?, folder, members: Vec::new() })
    }

    fn url(&self, name: &str, port: u16) -> String {
        format!("http://{}:{port}", self.net.outside(name))
    }

    fn start(&mut self, name: &str, state: &str) -> Result<()> {
        let mut cluster: Vec<String> =
            self.members.iter().map(|(member, _)| format!("{member}={}", self.url(member, 2380))).collect();
        cluster.push(format!("{name}={}", self.url(name, 2380)));
        let child = Command::new(&self.program)
            .arg("--data-dir")
            .arg(self.folder.path().join(name))
            .args(["--name", name, "--initial-cluster-state", state, "--pre-vote=true"])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(["--initial-advertise-peer-urls", &self.url(name, 2380)])
            .args(["--listen-peer-urls", &self.url(name, 2380)])
            .args(["--listen-client-urls", &self.url(name, 2379)])
            .args(["--advertise-client-urls", &self.url(name, 2379)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        self.members.push((name.to_owned(), child));
        Ok(())
    }

    fn first(&self) -> Result<Ipv4Addr> {
        Ok(self.net.outside(&self.members.first().context("a member")?.0))
    }

    /// Adds, starts and promotes a member as soon as etcd accepts it.
    async fn join(&mut self, name: &str) -> Result<()> {
        let (first, url) = (self.first()?, self.url(name, 2380));
        let id = soon("add", async || {
            let options = MemberAddOptions::new().with_is_learner();
            let added = facts::client(first).await?.member_add([url.clone()], Some(options)).await?;
            Ok(added.member().context("no member")?.id())
        })
        .await?;
        self.start(name, "existing")?;
        soon("promote", async || Ok(facts::client(first).await?.member_promote(id).await.map(drop)?)).await
    }

    /// Whether all of them serve.
    async fn serving(&self) -> Result<()> {
        for (name, _) in &self.members {
            let ip = self.net.outside(name);
            soon("serve", async || Ok(facts::client(ip).await?.get("health", None).await.map(drop)?)).await?;
        }
        Ok(())
    }
}

/// Retries until it succeeds.
async fn soon<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) if begun.elapsed() > HANGS => return Err(error.context(what.to_owned())),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// The floor by etcd's own rules: three members from nothing, and one of three replaced.
async fn floor() -> Result<(Duration, Duration)> {
    let mut bare = Bare::new()?;
    let begun = Instant::now();
    bare.start("a", "new")?;
    bare.join("b").await?;
    bare.join("c").await?;
    bare.serving().await?;
    let create = begun.elapsed();
    // etcd accepts connections that are older than five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let id = facts::ask(&Entry::default(), bare.net.outside("c")).await?.id;
    let (_, mut child) = bare.members.pop().context("a member")?;
    let begun = Instant::now();
    child.kill()?;
    child.wait()?;
    let first = bare.first()?;
    soon("remove", async || Ok(facts::client(first).await?.member_remove(id).await.map(drop)?)).await?;
    bare.join("d").await?;
    bare.serving().await?;
    Ok((create, begun.elapsed()))
}

fn spec(size: usize) -> Value {
    json!({ "size": size, "version": olm_tests::etcd::version(), "storage": { "mode": "Pod" } })
}

/// Waits until this many pods are ready and as many members are voters.
async fn ready(cluster: &Handle<'_>, size: usize) -> Result<()> {
    soon("ready", async || {
        let ready = cluster.stage.kubelet.ready(&cluster.name).len();
        ensure!(ready == size, "{ready} of {size} are ready");
        let facts = cluster.facts().await;
        ensure!(facts.voters().len() == size && facts.learners().is_empty(), "{}", facts.brief());
        Ok(())
    })
    .await
}

/// Waits of writes.
struct Waits {
    /// The times between two acknowledgements, the longest last; including the one before the end.
    gaps: Vec<Duration>,
    /// Writes that failed or timed out, and were repeated.
    again: usize,
}

impl Waits {
    fn row(&self, what: &'static str) -> Row {
        let p99 = self.gaps.get(self.gaps.len() * 99 / 100).copied().unwrap_or_default();
        Row {
            what,
            measured: self.gaps.last().copied().unwrap_or_default().as_secs_f64(),
            limit: LONGEST,
            unit: "s",
            note: format!(
                "p99 {:.1} ms of {} writes; {} were made again, after an error or {} ms without an answer",
                p99.as_secs_f64() * 1000.0,
                self.gaps.len(),
                self.again,
                ANSWER.as_millis()
            ),
        }
    }
}

/// Writes without a pause to any ready member.
async fn writes(stage: &Stage, cluster: &str, stop: &AtomicBool) -> Waits {
    let mut waits = Waits { gaps: Vec::new(), again: 0 };
    let mut last = Instant::now();
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        let ready = stage.kubelet.ready(cluster);
        let Some((_, ip)) = ready.get(turn % ready.len().max(1)) else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        turn += 1;
        let Ok(mut client) = facts::client(*ip).await else { continue };
        // A client stays with its member until that one fails.
        while !stop.load(Ordering::Relaxed) {
            let answered = tokio::time::timeout(ANSWER, client.put("bench", "value", None)).await;
            if !matches!(answered, Ok(Ok(_))) {
                waits.again += 1;
                break;
            }
            waits.gaps.push(last.elapsed());
            last = Instant::now();
        }
        tokio::time::sleep(AGAIN).await;
    }
    waits.gaps.push(last.elapsed());
    waits.gaps.sort_unstable();
    waits
}

/// Waits of writes during an operation on a cluster.
async fn meanwhile(
    cluster: &Handle<'_>,
    work: impl Future<Output = Result<()>>,
) -> Result<(Waits, anew::Anew)> {
    let stop = AtomicBool::new(false);
    let work = async {
        let done = work.await;
        // Also after a failure: the writer would never stop.
        stop.store(true, Ordering::Relaxed);
        done
    };
    let (waits, anew, done) = tokio::join!(
        writes(cluster.stage, &cluster.name, &stop),
        anew::writes(cluster.stage, &cluster.name, &stop),
        work
    );
    done?;
    Ok((waits, anew))
}

/// The target version of the upgrade: its row has both versions.
fn upgrade() -> Result<String, String> {
    let next = olm_tests::etcd::next_version()?;
    match olm_tests::etcd::version() {
        Some(own) if !own.starts_with("3.4.") => Err(format!("members run etcd {own}, not 3.4, at first")),
        _ => Ok(next),
    }
}

/// The rows of writing clients during membership changes, and during an upgrade.
async fn waits(cluster: &Handle<'_>, upgrade: Result<String, String>) -> Result<Vec<Row>> {
    let resized = meanwhile(cluster, async {
        for size in [5, 3] {
            cluster.spec(json!({ "size": size })).await?;
            cluster.steady(size).await?;
        }
        Ok(())
    });
    let (kept, anew) = resized.await?;
    let mut rows = vec![kept.row("EtcdCluster 3 → 5 → 3: longest wait, connection kept")];
    rows.extend(anew.rows(
        "EtcdCluster 3 → 5 → 3: longest wait, connection per write",
        "EtcdCluster 3 → 5 → 3: failed writes, connection per write",
        0.0,
    ));
    let version = match upgrade {
        Ok(version) => version,
        Err(why) => {
            olm_tests::skipped("bench: upgrade of an EtcdCluster", &why);
            return Ok(rows);
        }
    };
    let upgraded = meanwhile(cluster, async {
        cluster.spec(json!({ "version": version })).await?;
        let done = |object: &Value| object["status"]["currentVersion"] == *version;
        cluster.until("the new version", done).await?;
        cluster.steady(3).await
    });
    let (kept, anew) = upgraded.await?;
    rows.push(kept.row("EtcdCluster 3.4 → 3.5: longest wait, connection kept"));
    rows.extend(anew.rows(
        "EtcdCluster 3.4 → 3.5: longest wait, connection per write",
        "EtcdCluster 3.4 → 3.5: failed writes, connection per write",
        LOST,
    ));
    Ok(rows)
}

/// Creates a cluster of three members; returns the time until all are ready.
async fn created<'a>(stage: &'a Stage, name: &str) -> Result<(Handle<'a>, Duration)> {
    let (begun, before) = (Instant::now(), stage.audit.count());
    let cluster = stage.create(name, spec(3)).await?;
    ready(&cluster, 3).await?;
    let took = begun.elapsed();
    if std::env::var_os("OLM_BENCH_CALLS").is_some() {
        for change in stage.audit.membership_since(before) {
            eprintln!("{:?} {}", change.at.saturating_duration_since(begun), change.brief());
        }
    }
    Ok((cluster, took))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The rows of clusters of real etcds.
pub(super) async fn members() -> Result<Vec<Row>> {
    if olm_tests::etcd::version().is_none() {
        olm_tests::skipped("bench: etcd", "etcd is not installed");
        return Ok(Vec::new());
    }
    // Before the stage starts: it reads the existing images at its start.
    let upgrade = upgrade();
    let (mut creates, mut replaces, mut clusters) = (Vec::new(), Vec::new(), Vec::new());
    let stage = Stage::start().await?;
    let _operator = stage.operator()?;
    // The operator has the lease and its watches before the measurement.
    let warm = stage.create("warm", spec(1)).await?;
    ready(&warm, 1).await?;

    for turn in 0..TURNS {
        let (create, replace) = floor().await?;
        creates.push(create);
        replaces.push(replace);
        let name = format!("c{turn}");
        clusters.push(created(&stage, &name).await?.1);
        stage.delete("EtcdCluster", "ns", &name).await?;
    }
    let (cluster, _) = created(&stage, "c").await?;
    let (create, replace, created) = (median(creates), median(replaces), median(clusters));
    cluster.steady(3).await?;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let lost = cluster.followers().await?.remove(0);
    let begun = Instant::now();
    stage.kubelet.down(&lost)?;
    stage.delete("Pod", "ns", &lost).await?;
    soon("the lost member to be out", async || {
        ensure!(cluster.facts().await.members().iter().all(|m| m.name != lost), "it is a member");
        Ok(())
    })
    .await?;
    ready(&cluster, 3).await?;
    let replaced = begun.elapsed();
    cluster.steady(3).await?;

    let mut rows = vec![
        Row {
            what: "EtcdCluster of size 3: created → three members ready",
            measured: created.as_secs_f64(),
            limit: create.as_secs_f64() + 1.0,
            unit: "s",
            note: format!(
                "etcd's own rules take {:.2} s, measured in this run; medians of {TURNS}",
                create.as_secs_f64()
            ),
        },
        Row {
            what: "EtcdCluster: a pod is lost → three members ready",
            measured: replaced.as_secs_f64(),
            limit: replace.as_secs_f64() + 2.0,
            unit: "s",
            note: format!("etcd's own rules take {:.2} s, measured in this run", replace.as_secs_f64()),
        },
    ];
    rows.extend(waits(&cluster, upgrade).await?);
    Ok(rows)
}
