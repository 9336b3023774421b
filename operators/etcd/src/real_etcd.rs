//! The whole decision loop against real etcd processes on loopback addresses. Kubernetes is played by a runner that
//! starts what `build` says; etcd is real, with all its refusals and delays.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::addressing::Addressing;
use crate::build;
use crate::etcd::{ChangeError, Etcd};
use crate::names;
use crate::observed::{Memory, Observed, PodView};
use crate::plan::{Action, Progress, plan};
use crate::validate::{Validated, tests::cluster, validate};

const ETCD: &str = "/usr/bin/etcd";

/// Every member has a loopback address of its own.
struct Loopback {
    net: u8,
    given: Mutex<HashMap<String, String>>,
}

impl Loopback {
    fn ip(&self, member: &str) -> String {
        let mut given = self.given.lock().unwrap();
        let next = format!("127.77.{}.{}", self.net, given.len() + 1);
        given.entry(member.to_owned()).or_insert(next).clone()
    }
}

impl Addressing for Loopback {
    fn peer_url(&self, _: &Validated, member: &str) -> String {
        format!("http://{}:2380", self.ip(member))
    }
    fn client_url(&self, _: &Validated, member: &str) -> String {
        format!("http://{}:2379", self.ip(member))
    }
    fn member(&self, _: &Validated, peer_url: &str) -> Option<String> {
        let ip = peer_url.strip_prefix("http://")?.strip_suffix(":2380")?;
        self.given.lock().unwrap().iter().find(|(_, known)| *known == ip).map(|(name, _)| name.clone())
    }
    fn endpoint(&self, pod: &PodView) -> Option<String> {
        Some(format!("{}:2379", pod.ip.as_deref()?))
    }
}

struct Process {
    child: Child,
    command: Vec<String>,
    view: PodView,
}

struct Runner {
    dir: PathBuf,
    addressing: Arc<Loopback>,
    etcd: Etcd,
    cluster: Validated,
    memory: Memory,
    pods: BTreeMap<String, Process>,
    log: Vec<(Duration, &'static str)>,
    begin: Instant,
    uid: u32,
}

impl Drop for Runner {
    fn drop(&mut self) {
        for process in self.pods.values_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Runner {
    fn new(name: &str, net: u8, size: usize) -> Self {
        let dir = std::env::temp_dir().join(format!("etcd-operator-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self {
            dir,
            addressing: Arc::new(Loopback { net, given: Mutex::default() }),
            etcd: Etcd::default(),
            cluster: validate(&cluster(serde_json::json!({ "size": size }))).unwrap(),
            memory: Memory::default(),
            pods: BTreeMap::new(),
            log: Vec::new(),
            begin: Instant::now(),
            uid: 0,
        }
    }

    fn spawn(command: &[String]) -> Child {
        Command::new(ETCD)
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn create(&mut self, name: &str, seed: bool, initial_cluster: &[(String, String)]) {
        let member = build::pod::Member { name, seed, initial_cluster, version: "3.4.23" };
        let pod = build::pod::pod(&self.cluster, &member, &*self.addressing);
        let ip = self.addressing.ip(name);
        let data = self.dir.join(name);
        let command: Vec<String> = pod.spec.unwrap().containers[0]
            .command
            .clone()
            .unwrap()
            .iter()
            .map(|arg| arg.replace("0.0.0.0", &ip).replace(build::pod::DATA_DIR, &data.display().to_string()))
            .collect();
        self.uid += 1;
        let now = Timestamp::now();
        let view = PodView {
            name: name.into(),
            uid: self.uid.to_string(),
            ip: Some(ip),
            created: Some(now),
            started: Some(now),
            ever_started: true,
            ready: true,
            version: "3.4.23".into(),
            ..PodView::default()
        };
        self.pods.insert(name.into(), Process { child: Self::spawn(&command), command, view });
    }

    /// kill -9, with or without what it wrote.
    fn kill(&mut self, name: &str, with_pod: bool) {
        let process = self.pods.get_mut(name).unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        if with_pod {
            self.pods.remove(name);
            std::fs::remove_dir_all(self.dir.join(name)).unwrap();
        }
    }

    /// What `restartPolicy: Always` does.
    fn restart(&mut self, name: &str) {
        let process = self.pods.get_mut(name).unwrap();
        process.child = Self::spawn(&process.command);
        process.view.started = Some(Timestamp::now());
        process.view.restarts += 1;
    }

    async fn step(&mut self) -> (Progress, Observed) {
        let pods: Vec<PodView> = self.pods.values().map(|p| p.view.clone()).collect();
        let endpoints = self.etcd.look(&self.cluster, &pods, &*self.addressing).await;
        let fresh_name = names::fresh_member(&self.cluster.name);
        let seen = Observed { now: Timestamp::now(), pods, endpoints, fresh_name };
        let decision = plan(&self.cluster.goal, &self.memory, &seen);
        let mut pause = decision.again.unwrap_or(Duration::from_millis(250));
        if let Some(action) = &decision.action {
            match self.act(action, &seen).await {
                Ok(()) => {
                    self.log.push((self.begin.elapsed(), action.kind()));
                    pause = Duration::from_millis(20);
                }
                Err(ChangeError::NotYet(_)) => {}
                Err(error) => panic!("{action:?}: {error}"),
            }
        }
        if !matches!(decision.action, Some(Action::Remember(_))) {
            let joined = self.memory.pending.as_ref().is_some_and(|name| seen.pod(name).is_some());
            if joined {
                self.memory.pending = None;
            }
        }
        tokio::time::sleep(pause.min(Duration::from_millis(250))).await;
        (decision.progress, seen)
    }

    async fn act(&mut self, action: &Action, seen: &Observed) -> Result<(), ChangeError> {
        let endpoint = |via: &String| self.addressing.endpoint(seen.pod(via).unwrap()).unwrap();
        match action {
            Action::Remember(memory) => self.memory = memory.clone(),
            Action::CreateSeed { name } => {
                let url = self.addressing.peer_url(&self.cluster, name);
                self.create(name, true, &[(name.clone(), url)]);
            }
            Action::CreateMember { name, initial_cluster } => self.create(name, false, initial_cluster),
            Action::DeletePod { name, .. } => self.kill(name, true),
            Action::AddLearner { name, via } => {
                let url = self.addressing.peer_url(&self.cluster, name);
                self.etcd.add_learner(&endpoint(via), &url).await?;
            }
            Action::Promote { id, via, .. } => drop(self.etcd.promote(&endpoint(via), *id).await?),
            Action::MoveLeader { id, via, .. } => drop(self.etcd.move_leader(&endpoint(via), *id).await?),
            Action::RemoveMember { id, via, .. } => drop(self.etcd.remove(&endpoint(via), *id).await?),
        }
        Ok(())
    }

    /// Until the cluster has its size and all members are healthy.
    async fn until_steady(&mut self, limit: Duration) -> Duration {
        let begin = Instant::now();
        loop {
            let (progress, seen) = self.step().await;
            let healthy = crate::plan::prove(&seen).is_some_and(|h| {
                h.unhealthy.is_empty() && h.learners.is_empty() && h.voters.len() == self.cluster.goal.size
            });
            if progress == Progress::Steady && healthy && self.pods.len() == self.cluster.goal.size {
                return begin.elapsed();
            }
            assert!(
                begin.elapsed() < limit,
                "not steady after {limit:?}: {progress:?} {:?} {seen:?}",
                self.log
            );
        }
    }

    fn kinds_since(&self, index: usize) -> Vec<&'static str> {
        self.log[index..].iter().map(|(_, kind)| *kind).collect()
    }

    async fn client(&self) -> etcd_client::Client {
        let urls: Vec<String> =
            self.pods.values().map(|p| format!("http://{}:2379", p.view.ip.clone().unwrap())).collect();
        let options = etcd_client::ConnectOptions::new().with_timeout(Duration::from_secs(2));
        etcd_client::Client::connect(urls, Some(options)).await.unwrap()
    }
}

/// Writes one key after the other, as a client behind the Service would, and remembers what was acknowledged.
fn writer(addressing: Arc<Loopback>, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<(u32, Duration)> {
    tokio::spawn(async move {
        let (mut written, mut gap, mut last) = (0, Duration::ZERO, Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let ips: Vec<String> = addressing.given.lock().unwrap().values().cloned().collect();
            for ip in ips {
                let options = etcd_client::ConnectOptions::new().with_timeout(Duration::from_millis(500));
                let Ok(mut client) =
                    etcd_client::Client::connect([format!("http://{ip}:2379")], Some(options)).await
                else {
                    continue;
                };
                // Waits for the quorum as any client; a member that is gone costs one short try.
                if tokio::net::TcpStream::connect(format!("{ip}:2379")).await.is_err() {
                    continue;
                }
                let key = format!("key/{written:06}");
                if client.put(key, "value", None).await.is_ok() {
                    written += 1;
                    gap = gap.max(last.elapsed());
                    last = Instant::now();
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (written, gap)
    })
}

async fn assert_all_there(runner: &Runner, written: u32) {
    let mut client = runner.client().await;
    let options = etcd_client::GetOptions::new().with_prefix().with_count_only();
    let count = client.get("key/", Some(options)).await.unwrap().count();
    assert!(count >= i64::from(written), "{written} writes were acknowledged, {count} are there");
}

fn etcd_is_here() -> bool {
    let here = Path::new(ETCD).exists();
    if !here {
        eprintln!("skipped: {ETCD} is not there; install the package etcd-server");
    }
    here
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_lives_through_creation_crash_loss_and_resize() {
    if !etcd_is_here() {
        return;
    }
    let mut runner = Runner::new("life", 1, 3);
    let took = runner.until_steady(Duration::from_secs(60)).await;
    eprintln!("size 3 from nothing: {took:?} {:?}", runner.log);
    // etcd's floor: the second member must be connected for 5 s before the third may be added.
    assert!(took < Duration::from_secs(12), "{took:?}");

    let stop = Arc::new(AtomicBool::new(false));
    let writes = writer(runner.addressing.clone(), stop.clone());
    tokio::time::sleep(Duration::from_millis(300)).await;

    // A process that crashes comes back as the same member: nothing is changed.
    let names: Vec<String> = runner.pods.keys().cloned().collect();
    let before = runner.log.len();
    runner.kill(&names[0], false);
    for _ in 0..4 {
        runner.step().await;
    }
    runner.restart(&names[0]);
    runner.until_steady(Duration::from_secs(30)).await;
    assert!(runner.kinds_since(before).is_empty(), "{:?}", runner.log);

    // A pod that is gone is replaced.
    let before = runner.log.len();
    runner.kill(&names[1], true);
    let took = runner.until_steady(Duration::from_secs(60)).await;
    eprintln!("lost member replaced: {took:?}");
    assert_eq!(
        runner.kinds_since(before),
        ["RemoveMember", "Remember", "AddLearner", "CreateMember", "Promote"],
        "{:?}",
        runner.log
    );

    runner.cluster.goal.size = 5;
    let took = runner.until_steady(Duration::from_secs(90)).await;
    eprintln!("3 to 5: {took:?}");
    runner.cluster.goal.size = 3;
    let took = runner.until_steady(Duration::from_secs(60)).await;
    eprintln!("5 to 3: {took:?}");

    stop.store(true, Ordering::Relaxed);
    let (written, gap) = writes.await.unwrap();
    eprintln!("{written} writes, longest gap {gap:?}");
    assert!(written > 50);
    assert_all_there(&runner, written).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_nothing_is_touched_and_the_data_comes_back() {
    if !etcd_is_here() {
        return;
    }
    let mut runner = Runner::new("quorum", 2, 3);
    runner.until_steady(Duration::from_secs(60)).await;
    let mut client = runner.client().await;
    client.put("key/1", "value", None).await.unwrap();
    drop(client);
    let names: Vec<String> = runner.pods.keys().cloned().collect();
    let before = runner.log.len();
    for name in &names[..2] {
        runner.kill(name, false);
    }
    let mut last = Progress::Steady;
    for _ in 0..6 {
        last = runner.step().await.0;
    }
    assert_eq!(last, Progress::QuorumLost);
    for name in &names[..2] {
        runner.restart(name);
    }
    runner.until_steady(Duration::from_secs(30)).await;
    assert!(runner.kinds_since(before).is_empty(), "{:?}", runner.log);
    assert_all_there(&runner, 1).await;

    // With the data of two gone there is nothing to do but to say so.
    for name in &names[..2] {
        runner.kill(name, true);
    }
    for _ in 0..6 {
        last = runner.step().await.0;
    }
    assert_eq!(last, Progress::DataLost);
    assert_eq!(runner.log.len(), before);
}
