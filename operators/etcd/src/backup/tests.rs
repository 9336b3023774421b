//! Backups of a real etcd into a real S3 server, and restores by the command lines of the seed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::run::{Attempt, CompletedBackup, Owner};
use super::source::{Entry, MemberClients};
use crate::etcd::Etcd;
use crate::storage::{Store, Target, UploadNotes};

const ETCD: &str = "/usr/bin/etcd";
const ETCDCTL: &str = "/usr/bin/etcdctl";

/// One etcd on a loopback address of its own.
pub(crate) struct Member {
    child: Child,
    pub(crate) endpoint: String,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Member {
    pub(crate) async fn start(ip: &str, name: &str, data: &Path) -> Self {
        let peer = format!("http://{ip}:2380");
        let client = format!("http://{ip}:2379");
        let child = Command::new(ETCD)
            .args([
                "--name",
                name,
                "--data-dir",
                &data.to_string_lossy(),
                "--initial-cluster",
                &format!("{name}={peer}"),
            ])
            .args(["--initial-advertise-peer-urls", &peer, "--listen-peer-urls", &peer])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let member = Self { child, endpoint: format!("{ip}:2379") };
        for _ in 0..300 {
            if let Ok(client) = Etcd::default().client(&member.endpoint).await
                && client.kv_client().get("health", None).await.is_ok()
            {
                return member;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("etcd does not answer on {ip}");
    }

    pub(crate) async fn put(&self, key: &str, value: Vec<u8>) -> i64 {
        let client = Etcd::default().client(&self.endpoint).await.unwrap();
        client.kv_client().put(key, value, None).await.unwrap().header().unwrap().revision()
    }

    pub(crate) async fn get(&self, key: &str) -> Option<Vec<u8>> {
        let client = Etcd::default().client(&self.endpoint).await.unwrap();
        let found = client.kv_client().get(key, None).await.unwrap();
        found.kvs().first().map(|kv| kv.value().to_vec())
    }
}

pub(crate) fn skipped(what: &str) -> bool {
    let there = [ETCD, ETCDCTL].iter().all(|path| Path::new(path).exists());
    if !there {
        println!("skipped: {what}: etcd-server and etcd-client are not installed");
    }
    !there
}

pub(crate) async fn back_up(
    store: &Store,
    target: &Target,
    periodic: bool,
    endpoints: &[&str],
) -> Result<CompletedBackup, String> {
    back_up_for("u-1", store, target, periodic, endpoints).await
}

async fn back_up_for(
    uid: &str,
    store: &Store,
    target: &Target,
    periodic: bool,
    endpoints: &[&str],
) -> Result<CompletedBackup, String> {
    let etcd = Etcd::default();
    let members_client = MemberClients { etcd: &etcd, entry: Entry::Plain };
    let owner = Owner { uid: uid.into(), name: "shop/nightly".into() };
    let notes = UploadNotes::default();
    let attempt = Attempt { store, target, owner: &owner, periodic, keep: 2, notes: &notes };
    let endpoints: BTreeSet<String> = endpoints.iter().map(|e| (*e).to_owned()).collect();
    attempt.run(&members_client, &endpoints, crate::storage::tests::no_begin_hook()).await
}

#[tokio::test]
async fn a_real_etcd_is_backed_up_although_one_endpoint_is_dead() {
    if skipped("a_real_etcd_is_backed_up") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let s3 = crate::storage::tests::S3::start().await;
    let member = Member::start("127.78.1.1", "a", &dir.path().join("a")).await;
    let mut revision = 0;
    for n in 0..12 {
        revision = member.put(&format!("key-{n}"), vec![n; 1 << 20]).await;
    }
    let (store, target) = (s3.open("bucket/dir/etcd"), s3.target("bucket/dir/etcd"));
    let good = back_up(&store, &target, false, &["127.78.1.9:2379", &member.endpoint]).await.unwrap();
    assert_eq!((good.revision, good.uri.as_str()), (revision, "s3://bucket/dir/etcd"));
    assert!(good.skipped.len() == 1 && good.skipped[0].starts_with("127.78.1.9:2379"), "{:?}", good.skipped);
    assert!(good.whole.size > 12 << 20, "it went in parts");
    // etcd's own tool agrees.
    let file = s3.dir.path().join("bucket/dir/etcd");
    let status = Command::new(ETCDCTL)
        .env("ETCDCTL_API", "3")
        .args(["snapshot", "status"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let verified = crate::restore::verify_for_tests(&store, "dir/etcd", crate::storage::STALL).await.unwrap();
    assert_eq!((verified.sha256, verified.revision), (good.whole.sha256, Some(revision)));
    assert_eq!(verified.cluster_id, good.cluster_id);

    // Periodic backups: two are retained.
    for n in 0..3 {
        let revision = member.put("turn", vec![n]).await;
        let good = back_up(&store, &target, true, &[&member.endpoint]).await.unwrap();
        assert!(good.uri.contains(&format!("_v{revision}_")) && good.retention.is_empty(), "{good:?}");
    }
    assert_eq!(store.list("dir/etcd").await.unwrap().len(), 2);
    assert!(store.head("dir/etcd").await.unwrap().is_some(), "the one-shot backup is not periodic");

    // Two writers on one path: names have whole seconds, and the second does not overwrite the first.
    let mut objects = BTreeSet::new();
    let mut written = Vec::new();
    for uid in ["u-2", "u-3", "u-4"] {
        written.push(back_up_for(uid, &store, &target, true, &[&member.endpoint]).await.unwrap());
    }
    // Nor while the first is still being uploaded.
    let endpoints = [member.endpoint.as_str()];
    let at_once = ["u-5", "u-6", "u-7"].map(|uid| back_up_for(uid, &store, &target, true, &endpoints));
    written.extend(futures::future::join_all(at_once).await.into_iter().map(Result::unwrap));
    for good in written {
        let key = good.uri.trim_start_matches("s3://bucket/").to_owned();
        assert!(objects.insert(key), "{} was written over", good.uri);
    }
    for key in &objects {
        assert!(store.head(key).await.unwrap().is_some(), "{key}");
    }

    let error = back_up(&store, &target, false, &["127.78.1.9:2379"]).await.unwrap_err();
    assert!(error.contains("no member is suitable for a backup: 127.78.1.9:2379: "), "{error}");
}

/// A member without quorum is not backed up: its data may be stale.
#[tokio::test]
async fn without_a_quorum_there_is_no_backup_and_the_reason_states_it() {
    if skipped("without_a_quorum_there_is_no_backup") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let s3 = crate::storage::tests::S3::start().await;
    let member = Member::start("127.78.2.1", "a", &dir.path().join("a")).await;
    let client = Etcd::default().client(&member.endpoint).await.unwrap();
    // A second voter that never starts: one of two is no majority.
    let added = client.cluster_client().member_add(["http://127.78.2.2:2380".to_owned()], None).await;
    added.unwrap();
    let (store, target) = (s3.open("bucket/etcd"), s3.target("bucket/etcd"));
    let error = back_up(&store, &target, false, &[&member.endpoint]).await.unwrap_err();
    assert!(error.starts_with("no member is suitable for a backup"), "{error}");
    assert_eq!(store.head("etcd").await.unwrap(), None);
}
