//! Storage against a real S3 server in this process, with and without faults, and against a directory.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;

use super::*;
use crate::crd::stores::Stores;

mod azure;
mod s3;

use azure::Azurite;
pub(crate) use s3::{Fault, S3};

/// A fake snapshot: pages with bolt's magic number, then their hash.
pub(crate) fn fake_snapshot(database: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes: Vec<u8> = (0..database)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    bytes[16..20].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
    let hash = ring::digest::digest(&ring::digest::SHA256, &bytes);
    bytes.extend_from_slice(hash.as_ref());
    bytes
}

impl S3 {
    pub(crate) async fn start() -> Self {
        Self::serve(None).await.unwrap()
    }

    pub(crate) fn target(&self, path: &str) -> Target {
        let stores: Stores = serde_json::from_value(serde_json::json!({
            "s3": { "path": path, "awsSecret": "aws", "endpoint": self.url(), "forcePathStyle": true }
        }))
        .unwrap();
        Target::read("storageType", "S3", &stores).unwrap()
    }

    pub(crate) fn open(&self, path: &str) -> Store {
        self.open_as(path, s3::SECRET_KEY)
    }

    fn open_as(&self, path: &str, key: &str) -> Store {
        let file =
            format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {key}\n", s3::ACCESS_KEY);
        let secret = SecretData::from([("credentials".to_owned(), file.into_bytes())]);
        Store::open(&self.target(path), Some(&secret), None).unwrap()
    }

    fn objects(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("bucket")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

pub(crate) fn no_begin_hook() -> OnUploadStart<'static> {
    &|_, _| Box::pin(async { Ok(()) })
}

/// One store of each type, over the same bucket: all assertions hold for all types.
struct Every {
    s3: S3,
    gcs: S3,
    azure: Option<Azurite>,
    dir: tempfile::TempDir,
}

impl Every {
    async fn start(test: &str) -> Self {
        let gcs = S3::serve_as(s3::Dialect::Google, None).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        Self { s3: S3::start().await, gcs, azure: Azurite::start(test).await, dir }
    }

    fn open(&self, path: &str) -> Vec<Store> {
        let azure = self.azure.as_ref().map(|azure| azure.open(path));
        let own = [self.s3.open(path), google(&self.gcs, path, s3::TOKEN), local(&self.dir, path)];
        own.into_iter().chain(azure).collect()
    }

    /// Uploads that were neither completed nor aborted.
    fn unfinished(&self) -> Vec<String> {
        self.s3.unfinished().into_iter().chain(self.gcs.unfinished()).collect()
    }
}

fn google(server: &S3, path: &str, token: &str) -> Store {
    let stores = serde_json::json!({ "gcs": { "path": path, "gcpSecret": "gcp", "endpoint": server.url() } });
    let target = Target::read("storageType", "GCS", &serde_json::from_value(stores).unwrap()).unwrap();
    let secret = SecretData::from([("access-token".to_owned(), token.as_bytes().to_vec())]);
    Store::open(&target, Some(&secret), None).unwrap()
}

fn labels(uid: &str) -> Labels {
    BTreeMap::from([("backupuid".to_owned(), uid.to_owned()), ("etcdrevision".to_owned(), "42".to_owned())])
}

fn pieces(bytes: &[u8]) -> impl futures::Stream<Item = Result<Bytes, String>> + use<> {
    let parts: Vec<_> = bytes.chunks(100_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    futures::stream::iter(parts)
}

async fn put(store: &Store, key: &str, uid: &str, bytes: &[u8]) -> Result<VerifiedSnapshot, Failure> {
    store_snapshot(store, key, &labels(uid), pieces(bytes), &UploadNotes::default(), no_begin_hook()).await
}

async fn read(store: &Store, key: &str) -> Vec<u8> {
    let mut found = store.get(key).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = found.pieces.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes
}

fn local(dir: &tempfile::TempDir, path: &str) -> Store {
    let stores = serde_json::from_value(serde_json::json!({ "local": { "path": path } })).unwrap();
    let target = Target::read("storageType", "Local", &stores).unwrap();
    Store::open(&target, None, Some(dir.path())).unwrap()
}

fn folder(path: &str) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = local(&dir, path);
    (dir, store)
}

#[tokio::test]
async fn a_snapshot_in_a_folder_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, store) = folder("bucket/dir/etcd");
    put(&store, "dir/etcd", "u-1", &fake_snapshot(8192, 3)).await.unwrap();
    let mut folders = vec![dir.path().to_path_buf()];
    let mut modes = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap() {
                found if found.is_dir() => folders.push(entry.path()),
                found if found.len() >= 8192 => modes.push(found.permissions().mode() & 0o777),
                _ => {}
            }
        }
    }
    assert_eq!(modes, [0o600]);
}

#[tokio::test]
async fn a_snapshot_arrives_whole_with_its_labels_in_one_piece_and_in_many() {
    let every = Every::start("a snapshot arrives whole").await;
    for store in every.open("bucket/dir/etcd") {
        for size in [8192, 20 << 20, 16 << 20] {
            let bytes = fake_snapshot(size, 3);
            let whole = put(&store, "dir/etcd", "u-1", &bytes).await.unwrap();
            assert_eq!(whole.size, bytes.len() as u64);
            assert!(read(&store, "dir/etcd").await == bytes, "{size} bytes came back changed");
            let stored = store.head("dir/etcd").await.unwrap().unwrap();
            assert_eq!((stored.size, stored.labels), (whole.size, labels("u-1")));
        }
        assert_eq!(store.head("dir/none").await.unwrap(), None);
        store.delete("dir/etcd").await.unwrap();
        store.delete("dir/etcd").await.unwrap();
        assert_eq!(store.head("dir/etcd").await.unwrap(), None);
    }
    assert!(every.unfinished().is_empty(), "{:?}", every.unfinished());
}

#[tokio::test]
async fn what_is_cut_or_changed_on_its_way_never_appears_in_the_store() {
    let every = Every::start("what is cut never appears").await;
    for store in every.open("bucket/etcd") {
        for size in [8192, 20 << 20] {
            let good = fake_snapshot(size, 5);
            let mut changed = good.clone();
            changed[size / 2] ^= 1;
            for bad in [&good[..good.len() - 4096], &changed[..]] {
                assert!(matches!(put(&store, "etcd", "u", bad).await, Err(Failure::Damaged(_))));
            }
            let cut =
                pieces(&good[..size / 2]).chain(futures::stream::iter([Err("connection reset".to_owned())]));
            let failure =
                store_snapshot(&store, "etcd", &labels("u"), cut, &UploadNotes::default(), no_begin_hook())
                    .await;
            assert_eq!(failure, Err(Failure::Source("connection reset".into())));
        }
        assert_eq!(store.head("etcd").await.unwrap(), None);
    }
    let (uploads, objects) = (every.unfinished(), [every.s3.objects(), every.gcs.objects()].concat());
    assert!(uploads.is_empty() && objects.is_empty(), "{uploads:?} {objects:?}");
    let hidden: Vec<_> = std::fs::read_dir(every.dir.path().join("bucket")).into_iter().flatten().collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[tokio::test]
async fn a_refusal_of_a_store_is_reported_in_its_words() {
    let s3 = S3::start().await;
    let bytes = fake_snapshot(8192, 1);
    let error_text = |result: Result<VerifiedSnapshot, Failure>| result.unwrap_err().to_string();
    let message = error_text(put(&s3.open("nobucket/etcd"), "etcd", "u", &bytes).await);
    assert!(message.contains("NoSuchBucket"), "{message}");
    let message = error_text(put(&s3.open_as("bucket/etcd", "wrong"), "etcd", "u", &bytes).await);
    assert!(message.contains("SignatureDoesNotMatch"), "{message}");
    s3.fail(Some(Fault::Denied));
    let message = error_text(put(&s3.open("bucket/etcd"), "etcd", "u", &bytes).await);
    assert!(
        message.contains("AccessDenied: Not for you") && message.contains("s3://bucket/etcd"),
        "{message}"
    );
    let message = s3.open("bucket/etcd").list("etcd").await.unwrap_err().to_string();
    assert!(message.contains("AccessDenied"), "{message}");
    s3.fail(Some(Fault::Broken));
    let message = error_text(put(&s3.open("bucket/etcd"), "etcd", "u", &fake_snapshot(20 << 20, 1)).await);
    assert!(message.contains("QuotaExceeded: The bucket is full"), "{message}");
    assert!(s3.unfinished().is_empty(), "the upload was not taken back: {:?}", s3.unfinished());
}

#[tokio::test]
async fn google_and_azure_refuse_in_their_own_words_too() {
    let bytes = fake_snapshot(8192, 1);
    let error_text = |result: Result<VerifiedSnapshot, Failure>| result.unwrap_err().to_string();
    let gcs = S3::serve_as(s3::Dialect::Google, None).await.unwrap();
    let message = error_text(put(&google(&gcs, "nobucket/etcd", s3::TOKEN), "etcd", "u", &bytes).await);
    assert!(message.contains("NoSuchBucket") && message.contains("gs://nobucket/etcd"), "{message}");
    let message = error_text(put(&google(&gcs, "bucket/etcd", "expired"), "etcd", "u", &bytes).await);
    assert!(message.contains("AuthenticationRequired: Authentication required."), "{message}");
    let Some(azure) = Azurite::start("refusals").await else { return };
    for bytes in [bytes, fake_snapshot(20 << 20, 1)] {
        let message = error_text(put(&azure.open("nobucket/etcd"), "etcd", "u", &bytes).await);
        assert!(
            message.contains("ContainerNotFound") && message.contains("abs://nobucket/etcd"),
            "{message}"
        );
        let message =
            error_text(put(&azure.open_with("bucket/etcd", azure::WRONG_KEY), "etcd", "u", &bytes).await);
        assert!(message.contains("AuthorizationFailure"), "{message}");
    }
}

#[tokio::test]
async fn a_store_or_a_source_that_stands_still_is_given_up_and_its_upload_taken_back() {
    let s3 = S3::start().await;
    let store = s3.open("bucket/etcd");
    let notes = UploadNotes { stall: Duration::from_millis(300), ..UploadNotes::default() };
    let bytes = fake_snapshot(20 << 20, 1);
    s3.fail(Some(Fault::Stalled));
    let failure = store_snapshot(&store, "etcd", &labels("u"), pieces(&bytes), &notes, no_begin_hook()).await;
    assert!(matches!(failure, Err(Failure::Stalled { what: "the store", .. })), "{failure:?}");
    s3.fail(None);
    let silent = pieces(&bytes[..10 << 20]).chain(futures::stream::pending());
    let failure = store_snapshot(&store, "etcd", &labels("u"), silent, &notes, no_begin_hook()).await;
    assert!(matches!(failure, Err(Failure::Stalled { what: "the snapshot", .. })), "{failure:?}");
    let timeout = UploadNotes { timeout: Some(Duration::from_millis(200)), ..UploadNotes::default() };
    let silent = pieces(&bytes[..10 << 20]).chain(futures::stream::pending());
    let failure = store_snapshot(&store, "etcd", &labels("u"), silent, &timeout, no_begin_hook()).await;
    assert_eq!(failure, Err(Failure::Timeout(Duration::from_millis(200))));
    assert!(s3.unfinished().is_empty(), "{:?}", s3.unfinished());
}

#[tokio::test]
async fn what_a_killed_operator_left_is_taken_back_by_its_id() {
    let s3 = S3::start().await;
    let gcs = S3::serve_as(s3::Dialect::Google, None).await.unwrap();
    let (dir, folder) = folder("bucket/etcd");
    // Azure's uploads cannot be aborted.
    for store in [s3.open("bucket/etcd"), google(&gcs, "bucket/etcd", s3::TOKEN), folder] {
        let noted = Mutex::new(None);
        let begun = tokio::sync::Notify::new();
        {
            let on_start = |key: String, id: String| -> BoxFuture<'_, Result<(), String>> {
                *noted.lock().unwrap() = Some((key, id));
                begun.notify_one();
                Box::pin(std::future::pending())
            };
            let bytes = fake_snapshot(20 << 20, 1);
            let (labels, notes) = (labels("u"), UploadNotes::default());
            let upload = store_snapshot(&store, "etcd", &labels, pieces(&bytes), &notes, &on_start);
            // Killed: no further request, no cleanup.
            tokio::select! { _ = upload => unreachable!(), () = begun.notified() => {} }
        }
        let (key, id) = noted.lock().unwrap().clone().unwrap();
        store.abort(&key, &id).await.unwrap();
        assert_eq!(store.head("etcd").await.unwrap(), None);
    }
    let unfinished = [s3.unfinished(), gcs.unfinished()].concat();
    assert!(unfinished.is_empty(), "{unfinished:?}");
    assert!(std::fs::read_dir(dir.path().join("bucket")).unwrap().next().is_none());
}

#[tokio::test]
async fn a_forged_upload_id_deletes_nothing() {
    let (dir, store) = folder("bucket/dir/etcd");
    put(&store, "dir/etcd", "u", &fake_snapshot(8192, 1)).await.unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    let root = dir.path().join("bucket");
    for id in [secret.clone(), root.join("dir/etcd"), root.join("../secret"), root.join("../.partial-x")] {
        assert!(store.abort("etcd", &id.to_string_lossy()).await.is_err(), "{}", id.display());
    }
    assert!(secret.exists() && store.head("dir/etcd").await.unwrap().is_some());
}

#[tokio::test]
async fn retention_reads_all_pages_and_deletes_nothing_of_others() {
    let every = Every::start("retention").await;
    for store in every.open("bucket/dir/etcd") {
        let key = |revision: i64, second: i64| {
            let time = jiff::Timestamp::from_second(1_800_000_000 + second).unwrap();
            Periodic::new(revision, time).key("dir/etcd")
        };
        let bytes = fake_snapshot(512, 1);
        let own = [key(9, 1), key(10, 2), key(100, 3)];
        let others = [
            key(8, 0),
            "dir/etcd2_v1_2027-01-15-08:00:00".to_owned(),
            "dir/etcd".to_owned(),
            "dir/other".to_owned(),
        ];
        for one in &own {
            put(&store, one, "mine", &bytes).await.unwrap();
        }
        for other in &others {
            put(&store, other, "another", &bytes).await.unwrap();
        }
        crate::backup::run::retain(&store, "dir/etcd", "mine", &own[2], 2).await.unwrap();
        assert_eq!(store.head(&own[0]).await.unwrap(), None, "the oldest is too many");
        for kept in own[1..].iter().chain(&others) {
            assert!(store.head(kept).await.unwrap().is_some(), "{kept}");
        }
    }
    // More than a page of a server's listing.
    let s3 = &every.s3;
    let folder = s3.dir.path().join("bucket/many");
    std::fs::create_dir(&folder).unwrap();
    for n in 0..1100 {
        std::fs::write(folder.join(format!("etcd_v{n}_2027-01-15-08:00:00")), "x").unwrap();
    }
    std::fs::write(folder.join("zzz"), "x").unwrap();
    let listed = s3.open("bucket/many/etcd").list("many/etcd").await.unwrap();
    assert_eq!(listed.len(), 1100);
}

#[test]
fn local_storage_needs_a_folder() {
    let stores = serde_json::from_value(serde_json::json!({ "local": { "path": "a/b" } })).unwrap();
    let target = Target::read("storageType", "Local", &stores).unwrap();
    assert!(Store::open(&target, None, None).err().unwrap().contains("--backup-dir"));
}

#[tokio::test]
async fn what_is_encrypted_lies_unreadable_in_the_store_and_comes_back_with_its_key_alone() {
    let s3 = S3::start().await;
    let keys = |byte: u8| {
        let secret = SecretData::from([("key".to_owned(), vec![byte; 32])]);
        Keys::read("keys", None, &secret).unwrap()
    };
    let (_dir, folder) = folder("bucket/dir/etcd");
    for plain in [s3.open("bucket/dir/etcd"), folder] {
        let sealed = plain.clone().with_keys(keys(1));
        for size in [8192, 20 << 20] {
            let bytes = fake_snapshot(size, 9);
            let whole = put(&sealed, "dir/etcd", "u", &bytes).await.unwrap();
            assert_eq!(whole.size, bytes.len() as u64, "the reported size is the snapshot's");
            let stored = sealed.head("dir/etcd").await.unwrap().unwrap();
            assert!(stored.size > whole.size, "tags and a header lie in the store too");
            assert!(read(&sealed, "dir/etcd").await == bytes, "{size} bytes came back changed");

            let failure = |store: Store| async move {
                let mut pieces = store.get("dir/etcd").await.unwrap().pieces;
                loop {
                    if let Err(failure) = pieces.next().await.expect("a stream that ends without a failure") {
                        return failure;
                    }
                }
            };
            let without = failure(plain.clone()).await;
            assert!(
                matches!(&without, Failure::Sealed(why) if why.contains("spec.encryption.secret")),
                "{without}"
            );
            let wrong = failure(plain.clone().with_keys(keys(2))).await;
            assert!(matches!(&wrong, Failure::Sealed(why) if why.contains("Secret keys has")), "{wrong}");
        }
        // With encryption, unencrypted objects are rejected.
        put(&plain, "dir/etcd", "u", &fake_snapshot(8192, 9)).await.unwrap();
        let first = sealed.get("dir/etcd").await.unwrap().pieces.next().await;
        assert!(matches!(first, Some(Err(Failure::Damaged(Damage::Plain)))), "{first:?}");
    }
    // The stored bytes do not reveal their format.
    let sealed = s3.open("bucket/dir/etcd").with_keys(keys(1));
    put(&sealed, "dir/etcd", "u", &fake_snapshot(8192, 9)).await.unwrap();
    let file = s3.dir.path().join("bucket/dir/etcd");
    let raw = std::fs::read(&file).unwrap();
    let magic = 0xED0C_DAED_u32.to_le_bytes();
    assert!(raw.windows(4).all(|window| window != magic));
    // Truncated in the store: distinguished from a broken connection.
    std::fs::write(&file, &raw[..raw.len() - 100]).unwrap();
    let cut = crate::restore::verify_for_tests(&sealed, "dir/etcd", STALL).await.unwrap_err();
    assert!(matches!(cut, Failure::Damaged(_)), "{cut}");
}
