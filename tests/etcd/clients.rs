//! Clients of a cluster, as behind its Service: they use any ready member, and switch to the next when one
//! fails.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use etcd_client::{Client, GetOptions, WatchOptions};
use olm_tests::{
    etcd_stage::{Entry, Handle, Kubelet},
    eventually,
};
use tokio::task::JoinHandle;

use crate::{
    history::{History, check},
    random::Random,
};

const ANSWER: Duration = Duration::from_secs(1);
/// Delay between two attempts without a ready member.
const PAUSE: Duration = Duration::from_millis(10);
/// Delay between two operations of a checking client.
pub(crate) const THINK: Duration = Duration::from_millis(4);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Outcome of an operation.
pub(crate) enum Ended<T> {
    /// It was applied, with this result.
    Done(T),
    /// It was not applied.
    Refused,
    /// Its fate is unknown.
    Unknown,
}

/// One client with a connection to each member that it has used.
pub(crate) struct Caller {
    kubelet: Kubelet,
    entry: Entry,
    cluster: String,
    connections: HashMap<Ipv4Addr, Client>,
    turn: usize,
}

impl Caller {
    fn new(cluster: &Handle<'_>, turn: usize) -> Self {
        Self {
            kubelet: cluster.stage.kubelet.clone(),
            entry: cluster.stage.entry.clone(),
            cluster: cluster.name.clone(),
            connections: HashMap::new(),
            turn,
        }
    }

    /// Switches to another member.
    pub(crate) fn turn(&mut self) {
        self.turn += 1;
    }

    /// A ready member, with a connection.
    async fn ready_member(&mut self) -> Option<(Ipv4Addr, Client)> {
        let ready = self.kubelet.ready(&self.cluster);
        let (_, ip) = *ready.get(self.turn % ready.len().max(1)).as_ref()?;
        if let Some(client) = self.connections.get(ip) {
            return Some((*ip, client.clone()));
        }
        // The library hides a rejection behind its own retries.
        let here = tokio::time::timeout(ANSWER, tokio::net::TcpStream::connect((*ip, 2379))).await;
        match here {
            Ok(Ok(_)) => {
                let client = self.entry.client(*ip, ANSWER).await.ok()?;
                self.connections.insert(*ip, client.clone());
                Some((*ip, client))
            }
            _ => None,
        }
    }

    /// One operation, with any ready member.
    pub(crate) async fn call<T>(
        &mut self,
        operation: impl AsyncFnOnce(Client) -> Result<T, etcd_client::Error>,
    ) -> Ended<T> {
        let Some((ip, client)) = self.ready_member().await else {
            self.turn();
            tokio::time::sleep(PAUSE).await;
            return Ended::Refused;
        };
        match tokio::time::timeout(ANSWER, operation(client)).await {
            Ok(Ok(done)) => Ended::Done(done),
            Ok(Err(error)) => {
                self.connections.remove(&ip);
                self.turn();
                tokio::time::sleep(PAUSE).await;
                if refused(&error.to_string()) { Ended::Refused } else { Ended::Unknown }
            }
            Err(_) => {
                self.connections.remove(&ip);
                self.turn();
                Ended::Unknown
            }
        }
    }
}

/// Messages of etcd for an operation without effect.
fn refused(text: &str) -> bool {
    [
        "etcdserver: no leader",
        "not supported for learner",
        "connection refused",
        "Connection refused",
        "too many requests",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// Clients of one cluster that write, read and watch until they are stopped.
pub struct Clients {
    stop: Arc<AtomicBool>,
    writer: JoinHandle<Written>,
    watcher: JoinHandle<Watched>,
    checkers: Vec<JoinHandle<()>>,
    history: Arc<History>,
    stalls: JoinHandle<Duration>,
}

/// Results of the writer.
#[derive(Debug, Default)]
pub struct Written {
    /// Acknowledged keys with their values.
    pub keys: BTreeMap<String, u64>,
    /// The longest time between two acknowledgements.
    pub gap: Duration,
    /// Attempts that failed, or with an unknown fate.
    pub failed: usize,
}

/// Events of the watcher: keys with the revision of their first write, in the order of arrival.
#[derive(Debug, Default)]
struct Watched {
    events: Vec<(String, i64)>,
    compacted: bool,
}

/// Results of all clients.
#[derive(Debug)]
pub struct Seen {
    pub written: Written,
    /// The longest time without a turn for this process itself: that much of a gap is caused by the machine.
    pub stall: Duration,
    /// Operations of the checking clients.
    pub checked: usize,
}

impl Clients {
    /// Starts them: a writer, a watcher, and this many checking clients.
    pub fn start(cluster: &Handle<'_>, checkers: usize, seed: u64) -> Self {
        let (stop, history) = (Arc::new(AtomicBool::new(false)), Arc::new(History::default()));
        let caller = |turn| Caller::new(cluster, turn);
        let writer = tokio::spawn(write(caller(0), Arc::clone(&stop)));
        let watcher = tokio::spawn(watch(caller(1), Arc::clone(&stop)));
        let checkers = (0..checkers)
            .map(|n| {
                let random = Random::new(seed * 1000 + n as u64);
                tokio::spawn(check(caller(n), Arc::clone(&history), Arc::clone(&stop), random))
            })
            .collect();
        let stalls = tokio::spawn(stalls(Arc::clone(&stop)));
        Self { stop, writer, watcher, checkers, history, stalls }
    }

    /// Stops them, and checks their results: every acknowledged key exists (a), was received by the watcher
    /// in order, and all operations of the checking clients can be explained by one order.
    /// # Errors
    /// The violation.
    pub async fn finish(self, cluster: &Handle<'_>) -> Result<Seen> {
        let written = {
            // The watcher and the checkers may continue a little; the writer is done.
            self.stop.store(true, Ordering::Relaxed);
            self.writer.await?
        };
        for checker in self.checkers {
            checker.await?;
        }
        let (stall, watched) = (self.stalls.await?, self.watcher.await?);
        acknowledged(cluster, &written).await.context("(a) acknowledged writes")?;
        watched.agrees(&written).context("the watcher")?;
        let checked = self.history.verdict()?;
        Ok(Seen { written, stall, checked })
    }
}

/// The longest delay of a task that wakes every few milliseconds.
async fn stalls(stop: Arc<AtomicBool>) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        tokio::time::sleep(PAUSE).await;
        longest = longest.max(begun.elapsed().saturating_sub(PAUSE));
    }
    longest
}

async fn write(mut caller: Caller, stop: Arc<AtomicBool>) -> Written {
    let mut written = Written::default();
    let (mut last, mut number) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        // A separate key for every attempt: one of unknown fate cannot be confused with another.
        let (key, value) = (format!("w/{number:07}"), number);
        let put =
            caller.call(async |client| client.kv_client().put(key.clone(), value.to_string(), None).await);
        match put.await {
            Ended::Done(_) => {
                written.gap = written.gap.max(last.elapsed());
                last = Instant::now();
                written.keys.insert(key, value);
                // Every member in turn, like the connections of many clients.
                if number % 8 == 0 {
                    caller.turn();
                }
                tokio::time::sleep(THINK).await;
            }
            Ended::Refused | Ended::Unknown => written.failed += 1,
        }
    }
    written.gap = written.gap.max(last.elapsed());
    written
}

/// Linearizable read, by a client that waits for a quorum.
/// # Errors
/// When there is none for a minute.
pub async fn read_all(cluster: &Handle<'_>, prefix: &str) -> Result<BTreeMap<String, String>> {
    let mut caller = Caller::new(cluster, 0);
    let response = eventually("a member to answer a read", Duration::from_secs(60), async || {
        let options = GetOptions::new().with_prefix();
        let ended = caller.call(async |client| client.kv_client().get(prefix, Some(options)).await).await;
        Ok(if let Ended::Done(response) = ended { Some(response) } else { None })
    })
    .await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(response.kvs().iter().map(|pair| (text(pair.key()), text(pair.value()))).collect())
}

async fn acknowledged(cluster: &Handle<'_>, written: &Written) -> Result<()> {
    let there = read_all(cluster, "w/").await?;
    for (key, value) in &written.keys {
        let found = there.get(key);
        ensure!(
            found == Some(&value.to_string()),
            "{key} was acknowledged with {value} and is {found:?}; {} acknowledged, {} there",
            written.keys.len(),
            there.len()
        );
    }
    Ok(())
}

async fn watch(mut caller: Caller, stop: Arc<AtomicBool>) -> Watched {
    let mut watched = Watched::default();
    let mut stopped: Option<Instant> = None;
    loop {
        let next = watched.events.last().map_or(1, |(_, revision)| revision + 1);
        let Some((ip, client)) = caller.ready_member().await else {
            caller.turn();
            tokio::time::sleep(PAUSE).await;
            if stop.load(Ordering::Relaxed) {
                return watched;
            }
            continue;
        };
        let options = WatchOptions::new().with_prefix().with_start_revision(next);
        let mut watcher = client.watch_client();
        let Ok(Ok(mut stream)) = tokio::time::timeout(ANSWER, watcher.watch("w/", Some(options))).await
        else {
            caller.connections.remove(&ip);
            caller.turn();
            if stop.load(Ordering::Relaxed) {
                return watched;
            }
            continue;
        };
        loop {
            // After the end it waits a moment for pending events: none follow any more.
            if stop.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > ANSWER {
                return watched;
            }
            match tokio::time::timeout(ANSWER / 4, stream.message()).await {
                Ok(Ok(Some(answer))) => {
                    if answer.compact_revision() > 0 {
                        watched.compacted = true;
                        return watched;
                    }
                    for event in answer.events() {
                        let Some(pair) = event.kv() else { continue };
                        let key = String::from_utf8_lossy(pair.key()).into_owned();
                        watched.events.push((key, pair.mod_revision()));
                    }
                }
                // An isolated member never sends an event: another one may.
                Err(_) if caller.kubelet.ready(&caller.cluster).iter().any(|(_, ready)| *ready == ip) => {}
                Ok(Ok(None) | Err(_)) | Err(_) => {
                    caller.connections.remove(&ip);
                    caller.turn();
                    tokio::time::sleep(PAUSE).await;
                    break;
                }
            }
        }
    }
}

impl Watched {
    /// It received every acknowledged key once, in the order of revisions.
    fn agrees(&self, written: &Written) -> Result<()> {
        if self.compacted {
            return Ok(());
        }
        for pair in self.events.windows(2) {
            ensure!(pair[0].1 < pair[1].1, "revision {} came after {}", pair[1].1, pair[0].1);
        }
        let seen: BTreeSet<&String> = self.events.iter().map(|(key, _)| key).collect();
        ensure!(seen.len() == self.events.len(), "a key was seen twice");
        // It may have been cut off at the end; the events before its last one must be complete.
        let Some((last, _)) = self.events.last() else { return Ok(()) };
        let missing: Vec<&String> =
            written.keys.keys().filter(|key| *key < last && !seen.contains(key)).take(5).collect();
        ensure!(
            missing.is_empty(),
            "acknowledged keys were never seen: {missing:?}; the last seen is {last}"
        );
        Ok(())
    }
}

impl<T> Ended<T> {
    pub(crate) fn map_done(self) -> Ended<()> {
        match self {
            Self::Done(_) => Ended::Done(()),
            Self::Refused => Ended::Refused,
            Self::Unknown => Ended::Unknown,
        }
    }
}
