//! Certificates, users and maintenance with real etcd processes on loopback addresses: three members that
//! start together; the tests change their state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::addressing::Addressing;
use crate::build::pod::{DATA_DIR, Member, pod};
use crate::etcd::{Etcd, permission_denied};
use crate::maintenance;
use crate::observed::{Answers, Memory, Observed, PodView};
use crate::plan::{Action, plan, prove};
use crate::tls::auto::{self, IssuedSecrets, Kind, Step};
use crate::tls::{self, Access, CertificateRole, Names};
use crate::validate::{Validated, tests::cluster, validate};

const ETCD: &str = "/usr/bin/etcd";
const MEMBERS: [&str; 3] = ["orders-bbbbbbbbbb", "orders-cccccccccc", "orders-dddddddddd"];
/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Data = BTreeMap<String, Vec<u8>>;

struct Loopback {
    net: u8,
}

impl Loopback {
    fn ip(&self, member: &str) -> String {
        let index = MEMBERS.iter().position(|m| *m == member).unwrap();
        format!("127.88.{}.{}", self.net, index + 1)
    }
}

impl Addressing for Loopback {
    fn peer_url(&self, cluster: &Validated, member: &str) -> String {
        format!("{}://{}:2380", cluster.tls.peer_scheme(), self.ip(member))
    }
    fn client_url(&self, cluster: &Validated, member: &str) -> String {
        format!("{}://{}:2379", cluster.tls.client_scheme(), self.ip(member))
    }
    fn member(&self, _: &Validated, peer_url: &str) -> Option<String> {
        MEMBERS.iter().find(|m| peer_url.contains(&format!("//{}:", self.ip(m)))).map(|m| (*m).to_owned())
    }
    fn endpoint(&self, pod: &PodView) -> Option<String> {
        Some(format!("{}:2379", pod.ip.as_deref()?))
    }
}

struct Stage {
    dir: PathBuf,
    addressing: Loopback,
    cluster: Validated,
    pool: Etcd,
    access: Access,
    /// The same, reread for each connection, as applications do.
    read_again: Arc<std::sync::Mutex<Access>>,
    processes: BTreeMap<&'static str, Child>,
    pods: Vec<PodView>,
    /// Contents of the Secrets.
    authorities: Option<Data>,
    parts: BTreeMap<CertificateRole, Data>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Stage {
    async fn new(name: &str, net: u8, mut spec: serde_json::Value) -> Self {
        let addressing = Loopback { net };
        let dir = std::env::temp_dir().join(format!("etcd-secured-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        if spec["TLS"]["auto"].is_object() {
            let mut names: Vec<String> = MEMBERS.iter().map(|member| addressing.ip(member)).collect();
            names.push("127.0.0.1".into());
            spec["TLS"]["auto"]["serverNames"] = serde_json::json!(names);
        }
        spec["size"] = 3.into();
        let cluster = validate(&cluster(spec)).unwrap();
        let pods = MEMBERS.iter().map(|name| PodView {
            name: (*name).into(),
            uid: (*name).into(),
            ip: Some(addressing.ip(name)),
            created: Some(Timestamp::now()),
            started: Some(Timestamp::now()),
            ever_started: true,
            ready: true,
            version: "3.4.23".into(),
            ..PodView::default()
        });
        let mut stage = Self {
            dir,
            cluster,
            pool: Etcd::default(),
            access: Access::plain(),
            read_again: Arc::default(),
            processes: BTreeMap::new(),
            pods: pods.collect(),
            addressing,
            authorities: None,
            parts: BTreeMap::new(),
        };
        stage.issue();
        for member in MEMBERS {
            stage.start(member);
        }
        stage.until_healthy().await;
        stage
    }

    fn held(&self) -> IssuedSecrets {
        IssuedSecrets::read(self.authorities.as_ref(), |role| self.parts.get(&role), Timestamp::now())
    }

    fn write(&mut self, step: &Step) {
        let settings = self.cluster.tls.auto.clone().unwrap();
        let (held, names) = (self.held(), Names::of(&self.cluster));
        match auto::write(step, &held, &names, &settings, Timestamp::now()).unwrap() {
            None => {}
            Some((None, data)) => self.authorities = Some(data),
            Some((Some(role), data)) => drop(self.parts.insert(role, data)),
        }
    }

    /// Issues certificates until nothing is due, and writes the files mounted by members.
    fn issue(&mut self) {
        let Some(settings) = self.cluster.tls.auto.clone() else { return };
        let names = Names::of(&self.cluster);
        for _ in 0..20 {
            let step = auto::next(&self.held(), &names, &settings, auto::Started::Unknown, Timestamp::now());
            self.write(&step);
        }
        self.mount();
    }

    /// Updates the mounted files and the operator's access after a change of Secrets.
    fn mount(&mut self) {
        for (role, data) in &self.parts {
            let folder = self.dir.join(format!("{role:?}"));
            std::fs::create_dir_all(&folder).unwrap();
            for (key, value) in data {
                std::fs::write(folder.join(format!(".{key}")), value).unwrap();
                std::fs::rename(folder.join(format!(".{key}")), folder.join(key)).unwrap();
            }
        }
        let secrets: BTreeMap<String, Data> = self
            .parts
            .iter()
            .map(|(role, data)| (role.issued_secret_name(&self.cluster.name), data.clone()))
            .collect();
        let goal = &self.cluster.tls;
        let checked =
            tls::check(goal, &Names::of(&self.cluster), |name| secrets.get(name), Timestamp::now()).unwrap();
        self.access = checked.access;
        *self.read_again.lock().unwrap() = self.access.clone();
    }

    fn start(&mut self, name: &'static str) {
        let urls: Vec<(String, String)> =
            MEMBERS.iter().map(|m| ((*m).to_owned(), self.addressing.peer_url(&self.cluster, m))).collect();
        let member = Member { name, seed: true, initial_cluster: &urls, version: "3.4.23", volume: false };
        let pod = pod(&self.cluster, &member, &self.addressing);
        let container = pod.spec.unwrap().containers.remove(0);
        let (ip, data) = (self.addressing.ip(name), self.dir.join(name));
        let folder = |role: CertificateRole| self.dir.join(format!("{role:?}")).display().to_string();
        let command: Vec<String> = container
            .command
            .unwrap()
            .iter()
            .map(|arg| {
                arg.replace("0.0.0.0", &ip)
                    .replace(DATA_DIR, &data.display().to_string())
                    .replace("/etc/etcdtls/member/peer-tls", &folder(CertificateRole::Peer))
                    .replace("/etc/etcdtls/member/server-tls", &folder(CertificateRole::Server))
            })
            .collect();
        let log = std::fs::File::create(self.dir.join(format!("{name}.log"))).unwrap();
        let child = Command::new(ETCD)
            .args(&command[1..])
            .env("ETCD_INITIAL_CLUSTER", crate::build::pod::initial_cluster(&urls))
            .env("ETCD_INITIAL_CLUSTER_STATE", "new")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.processes.insert(name, child);
    }

    fn etcd(&self) -> Etcd {
        self.pool.with(self.access.clone())
    }

    async fn observe(&self) -> Observed {
        let Answers { endpoints, silent, refused } =
            self.etcd().observe(&self.cluster, &self.pods, &self.addressing).await;
        let pods = self.pods.clone();
        Observed { now: Timestamp::now(), pods, endpoints, silent, refused, ..Observed::default() }
    }

    async fn until_healthy(&self) -> Observed {
        let begin = Instant::now();
        loop {
            let observed = self.observe().await;
            if prove(&observed).is_some_and(|h| h.unhealthy.is_empty() && h.voters.len() == 3) {
                return observed;
            }
            let logs = || {
                MEMBERS
                    .map(|m| std::fs::read_to_string(self.dir.join(format!("{m}.log"))).unwrap_or_default())
            };
            assert!(begin.elapsed() < PATIENCE, "not healthy: {observed:?}\n{}", logs().join("\n"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn client(&self) -> etcd_client::Client {
        self.etcd().client(&format!("{}:2379", self.addressing.ip(MEMBERS[0]))).await.unwrap()
    }

    /// Applies the plan until it has no action; the kinds of the applied actions.
    async fn run_plan(&self, memory: &mut Memory, mut until: impl FnMut(&Memory) -> bool) -> Vec<String> {
        let (begin, mut done) = (Instant::now(), Vec::new());
        while !until(memory) {
            assert!(begin.elapsed() < PATIENCE, "{done:?} {memory:?}");
            let observed = self.until_healthy().await;
            let at = |name: &String| self.addressing.endpoint(observed.pod(name).unwrap()).unwrap();
            let decision = plan(&self.cluster.goal, memory, &observed);
            let Some(action) = decision.action else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let etcd = self.etcd();
            match &action {
                Action::Remember(new) => {
                    *memory = (**new).clone();
                    continue;
                }
                Action::MoveLeader { id, via, .. } => drop(etcd.move_leader(&at(via), *id).await.unwrap()),
                Action::Maintain(step) => {
                    match step {
                        maintenance::Step::Compact { revision, via } => {
                            etcd.compact(&at(via), *revision).await.unwrap()
                        }
                        maintenance::Step::Defragment { name } => etcd.defragment(&at(name)).await.unwrap(),
                        maintenance::Step::Disarm { via } => {
                            etcd.disarm(&at(via), etcd_client::AlarmType::Nospace, None).await.unwrap()
                        }
                        maintenance::Step::DisarmCorrupt { member, via } => etcd
                            .disarm(&at(via), etcd_client::AlarmType::Corrupt, Some(*member))
                            .await
                            .unwrap(),
                        maintenance::Step::EnableAuth { via } => etcd.enable_auth(&at(via)).await.unwrap(),
                    };
                    let mut status = crate::crd::EtcdClusterStatus {
                        maintenance: memory.maintenance.status(),
                        ..crate::crd::EtcdClusterStatus::default()
                    };
                    maintenance::done(&mut status, step);
                    memory.maintenance = status.maintenance.as_ref().map(Into::into).unwrap_or_default();
                    memory.auth_enabled |= status.auth_enabled;
                }
                other => panic!("{other:?}"),
            }
            let name = match &action {
                Action::Maintain(maintenance::Step::Defragment { name }) => {
                    let leads = observed.endpoints[name].leader == observed.endpoints[name].member_id;
                    format!("Defragment {}", if leads { "leader" } else { "follower" })
                }
                other => other.kind().to_owned(),
            };
            done.push(name);
        }
        done
    }

    fn memory(observed: &Observed) -> Memory {
        let id = observed.endpoints.values().next().unwrap().cluster_id;
        Memory {
            cluster_id: Some(format!("{id:x}")),
            version: "3.4.23".into(),
            voters: 3,
            members: MEMBERS.iter().map(|m| (*m).to_owned()).collect(),
            ..Memory::default()
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.processes.values().map(Child::id).collect()
    }
}

fn etcd_is_here() -> bool {
    let here = Path::new(ETCD).exists();
    if !here {
        eprintln!("skipped: {ETCD} is not there; install the package etcd-server");
    }
    // As at the start of the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    here
}

/// End of the certificate that a member presents.
async fn shown(stage: &Stage, member: &str) -> Vec<u8> {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

    /// Records the presented certificate.
    #[derive(Debug, Default)]
    struct Note(std::sync::Mutex<Vec<u8>>);
    impl ServerCertVerifier for Note {
        fn verify_server_cert(
            &self,
            certificate: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            *self.0.lock().unwrap() = certificate.to_vec();
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let note = Arc::new(Note::default());
    let config = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(note.clone())
        .with_no_client_auth();
    let stream =
        tokio::net::TcpStream::connect(format!("{}:2379", stage.addressing.ip(member))).await.unwrap();
    let name = ServerName::try_from("orders-client.shop.svc").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    // Without a client certificate the connection ends right after the server's was received.
    let _ = connector.connect(name, stream).await;
    let observed = note.0.lock().unwrap().clone();
    assert!(!observed.is_empty());
    observed
}

/// Writes with one connection per write until stopped; counts acknowledged writes.
fn writer(stage: &Stage, stop: Arc<AtomicBool>, acknowledged: Arc<AtomicU32>) -> tokio::task::JoinHandle<()> {
    let endpoints = MEMBERS.map(|m| format!("{}:2379", stage.addressing.ip(m)));
    let (pool, access) = (stage.pool.clone(), stage.read_again.clone());
    tokio::spawn(async move {
        for endpoint in endpoints.iter().cycle() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let etcd = pool.with(access.lock().unwrap().clone());
            let Ok(client) = etcd.client(endpoint).await else { continue };
            let key = format!("key/{:06}", acknowledged.load(Ordering::Relaxed));
            if client.kv_client().put(key, "value", None).await.is_ok() {
                acknowledged.fetch_add(1, Ordering::Relaxed);
            } else {
                etcd.forget(endpoint);
            }
        }
    })
}

async fn more(acknowledged: &AtomicU32) {
    let (begin, before) = (Instant::now(), acknowledged.load(Ordering::Relaxed));
    while acknowledged.load(Ordering::Relaxed) < before + 20 {
        assert!(begin.elapsed() < PATIENCE, "writes stopped at {before}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_exchanged_under_writes() {
    if !etcd_is_here() {
        return;
    }
    // given: three members with certificates issued by the operator, and a writing client
    let mut stage = Stage::new("rotation", 1, serde_json::json!({ "TLS": { "auto": {} } })).await;
    let plain =
        stage.pool.with(Access::plain()).observe(&stage.cluster, &stage.pods, &stage.addressing).await;
    assert_eq!(plain, Answers::default(), "anonymous gets in without a certificate");
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let writes = writer(&stage, stop.clone(), acknowledged.clone());
    more(&acknowledged).await;
    let (pids, before) = (stage.pids(), shown(&stage, MEMBERS[0]).await);

    // when: all certificates are renewed
    for role in CertificateRole::ALL {
        stage.write(&Step::Issue(role, "certificate expires soon"));
    }
    stage.mount();
    // then: members present the new one at once, are the same processes, and accept the operator's new
    // certificate
    let renewed = shown(&stage, MEMBERS[0]).await;
    assert_ne!(renewed, before);
    stage.until_healthy().await;
    more(&acknowledged).await;
    assert_eq!(stage.pids(), pids);

    // when: the authorities are rotated
    for kind in Kind::ALL {
        stage.write(&Step::Prepare(kind));
    }
    for role in CertificateRole::ALL {
        stage.write(&Step::Publish(role));
    }
    stage.mount();
    for member in MEMBERS {
        let mut process = stage.processes.remove(member).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        stage.start(member);
        stage.until_healthy().await;
    }
    for kind in Kind::ALL {
        stage.write(&Step::Switch(kind));
    }
    for role in CertificateRole::ALL {
        stage.write(&Step::Issue(role, "signing authority changed"));
    }
    stage.mount();
    // then: all connections keep working, also when a member restarts and reconnects to the others
    stage.until_healthy().await;
    more(&acknowledged).await;
    let mut process = stage.processes.remove(MEMBERS[1]).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    stage.start(MEMBERS[1]);
    stage.until_healthy().await;
    stop.store(true, Ordering::Relaxed);
    writes.await.unwrap();
    let options = etcd_client::GetOptions::new().with_prefix().with_count_only();
    let count = stage.client().await.kv_client().get("key/", Some(options)).await.unwrap().count();
    assert!(count >= i64::from(acknowledged.load(Ordering::Relaxed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authentication_is_enabled_once_and_everything_continues() {
    if !etcd_is_here() {
        return;
    }
    let spec = serde_json::json!({ "TLS": { "auto": {} }, "auth": { "rootSecret": "root" } });
    let mut stage = Stage::new("auth", 2, spec).await;
    stage.access = stage.access.with_user("root", "s3cret");
    let mut memory = Stage::memory(&stage.until_healthy().await);
    let done = stage.run_plan(&mut memory, |memory| memory.auth_enabled).await;
    assert_eq!(done, ["EnableAuth"]);
    // then: unauthenticated requests are rejected, root's are not, and the members are still maintained
    let anonymous = stage.pool.with(stage.access.without_user());
    anonymous.forget_all();
    let endpoint = format!("{}:2379", stage.addressing.ip(MEMBERS[0]));
    let client = anonymous.client(&endpoint).await.unwrap();
    let words = loop {
        let words = client.kv_client().put("key/1", "value", None).await.unwrap_err().to_string();
        // A member that lags a moment behind the one that handled the request.
        if !words.contains("revision of auth store is old") {
            break words;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    // etcd uses the common name of the certificate as user name, and has no user of that name.
    assert!(permission_denied(&words), "{words}");
    anonymous.forget(&endpoint);
    stage.client().await.kv_client().put("key/1", "value", None).await.unwrap();
    stage.until_healthy().await;
    // and: a second attempt, by an operator without the record, changes nothing
    stage.etcd().enable_auth(&endpoint).await.unwrap();
    stage.client().await.kv_client().put("key/1", "value", None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_is_made_room_in() {
    if !etcd_is_here() {
        return;
    }
    let spec = serde_json::json!({ "maintenance": { "quota": "4Mi" } });
    let stage = Stage::new("full", 3, spec).await;
    let mut memory = Stage::memory(&stage.until_healthy().await);
    let (begin, client) = (Instant::now(), stage.client().await);
    // given: one key, overwritten until the database is full of old revisions
    loop {
        match client.kv_client().put("key/1", vec![7u8; 100_000], None).await {
            Ok(_) => assert!(begin.elapsed() < PATIENCE),
            Err(error) => {
                assert!(error.to_string().contains("database space exceeded"), "{error}");
                break;
            }
        }
    }
    // when
    let mut done = stage.run_plan(&mut memory, |memory| memory.maintenance.finished.is_some()).await;
    // A member that has not applied it yet reports the alarm once more.
    done.dedup_by(|one, before| one == before && one == "Disarm");
    // then
    assert_eq!(
        done,
        [
            "Compact",
            "Defragment follower",
            "Defragment follower",
            "MoveLeader",
            "Defragment follower",
            "Disarm"
        ]
    );
    client.kv_client().put("key/2", "value", None).await.unwrap();
    let observed = stage.until_healthy().await;
    assert!(observed.endpoints.values().all(|e| e.db_size < 2 << 20 && e.errors.is_empty()), "{observed:?}");
}
