//! A snapshot restored into a real etcd, by the command lines of the seed's pod.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::addressing::InCluster;
use crate::backup::tests::{Member, back_up, skipped};
use crate::restore::fetch::{CopyArgs, FetchArgs, InstallArgs, copy, fetch, install};
use crate::restore::place::Found;
use crate::restore::seed::{Seed, Source};
use crate::validate::{tests::cluster, validate};

/// The file in `dir` for a path in the pod.
fn inside(dir: &Path, path: &str) -> PathBuf {
    dir.join(path.trim_start_matches("/var/etcd/"))
}

fn after<'a>(command: &'a [String], flag: &str) -> &'a str {
    let at = command.iter().position(|word| word == flag).unwrap();
    &command[at + 1]
}

#[tokio::test]
async fn a_backup_becomes_a_member_of_a_new_etcd_cluster() {
    if skipped("a_backup_becomes_a_member_of_a_new_etcd_cluster") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let s3 = crate::storage::tests::S3::start().await;
    let (store, target) = (s3.open("bucket/etcd"), s3.target("bucket/etcd"));
    let old = Member::start("127.78.3.1", "old", &dir.path().join("old")).await;
    old.put("answer", b"42".to_vec()).await;
    let good = back_up(&store, &target, false, &[&old.endpoint]).await.unwrap();
    old.put("answer", b"too late".to_vec()).await;
    drop(old);
    let snapshot = crate::restore::verify::verify(&store, "etcd", crate::storage::STALL).await.unwrap();
    assert_eq!(
        (snapshot.revision, snapshot.etcd_version.as_str()),
        (Some(good.revision), good.version.as_str())
    );

    // The operator serves it to the holder of the token.
    let bytes = std::fs::read(s3.dir.path().join("bucket/etcd")).unwrap();
    let app = Router::new().route(
        "/v1/restore/shop/back",
        get(move |headers: HeaderMap| async move {
            let token = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            (token.as_deref() == Some("Bearer sesame"))
                .then_some(bytes)
                .ok_or(axum::http::StatusCode::UNAUTHORIZED)
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let cluster = validate(&cluster(serde_json::json!({ "size": 1, "version": "3.4.23" }))).unwrap();
    let place = Found { url, image: "operator:1".into() };
    let seed = Seed {
        cluster: &cluster,
        name: "seed",
        restore: "back",
        uid: "r-1",
        source: Source::Snapshot(&snapshot),
        place: &place,
        volume: false,
    };
    let init = seed.pod(&InCluster).spec.unwrap().init_containers.unwrap();
    let command = |n: usize| init[n].command.clone().unwrap();

    let pod = dir.path().join("pod");
    std::fs::create_dir(&pod).unwrap();
    let fetched = command(0);
    let args = |sha256: &str| FetchArgs {
        url: after(&fetched, "--url").to_owned(),
        sha256: sha256.to_owned(),
        to: inside(&pod, after(&fetched, "--to")),
        clear: Some(inside(&pod, after(&fetched, "--clear"))),
    };
    let sha256 = after(&fetched, "--sha256");
    let refused = fetch(&args(sha256), Some("guessed".into())).await.unwrap_err();
    assert!(format!("{refused:#}").contains("401"), "{refused:#}");
    let other = fetch(&args(&"0".repeat(64)), Some("sesame".into())).await.unwrap_err();
    assert!(format!("{other:#}").contains("the snapshot differs from the verified one"), "{other:#}");
    fetch(&args(sha256), Some("sesame".into())).await.unwrap();
    server.abort();
    // A restarted node runs it again, without the operator.
    fetch(&args(sha256), None).await.unwrap();

    take_in(&pod, "127.78.3.2", &command(1), &command(2));
    let new = Member::start("127.78.3.2", "seed", &pod.join("data")).await;
    assert_eq!(new.get("answer").await.as_deref(), Some(&b"42"[..]));
    let client = crate::etcd::Etcd::default().client(&new.endpoint).await.unwrap();
    let status = client.maintenance_client().status().await.unwrap();
    assert_ne!(format!("{:x}", status.header().unwrap().cluster_id()), good.cluster_id, "a new etcd cluster");
    assert!(status.header().unwrap().revision() >= good.revision);
}

/// Restores the data and moves it into place, by the commands of the containers.
fn take_in(pod: &Path, ip: &str, restore: &[String], put: &[String]) {
    // The member's address differs in this test, and its files are not in a pod.
    let (in_pod, peer) = (seed_url(restore), format!("http://{ip}:2380"));
    let words = restore[1..]
        .iter()
        .map(|word| word.replace("/var/etcd/", &format!("{}/", pod.display())).replace(&in_pod, &peer));
    let restored = Command::new("/usr/bin/etcdctl").env("ETCDCTL_API", "3").args(words).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    install(&InstallArgs { from: inside(pod, after(put, "--from")), to: inside(pod, after(put, "--to")) })
        .unwrap();
}

/// Names, lengths and hashes of all files below a directory.
fn files(folder: &Path) -> Vec<(PathBuf, u64, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let sum = ring::digest::digest(&ring::digest::SHA256, &bytes);
        found.push((path, bytes.len() as u64, crate::storage::hex(sum.as_ref())));
    }
    found.sort();
    found
}

/// Runs the etcd of a pod's command on its own address until it serves; returns the revision.
async fn run(pod: &Path, ip: &str, command: &[String]) -> (Child, i64) {
    let words = command[1..].iter().map(|word| {
        let word = word.replace("/var/etcd/", &format!("{}/", pod.display()));
        word.replace("0.0.0.0", ip)
    });
    let silent = || Stdio::null();
    let mut child =
        Command::new("/usr/bin/etcd").args(words).stdout(silent()).stderr(silent()).spawn().unwrap();
    for _ in 0..300 {
        if let Ok(client) = crate::etcd::Etcd::default().client(&format!("{ip}:2379")).await
            && let Ok(read) = client.kv_client().get("health", None).await
        {
            return (child, read.header().unwrap().revision());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("etcd does not answer on {ip}");
}

#[tokio::test]
async fn what_only_the_log_of_a_survivor_has_is_restored_and_its_claim_stays_as_it_is() {
    if skipped("what_only_the_log_of_a_survivor_has_is_restored_and_its_claim_stays_as_it_is") {
        return;
    }
    // given a member that is killed before its database has everything in its log
    let dir = tempfile::tempdir().unwrap();
    let survivor = dir.path().join("survivor/data");
    let old = Member::start("127.78.3.3", "old", &survivor).await;
    let client = crate::etcd::Etcd::default().client(&old.endpoint).await.unwrap();
    let status = client.maintenance_client().status().await.unwrap();
    let former = status.header().unwrap().cluster_id();
    let mut written = 0;
    for n in 0..50 {
        written = old.put("answer", format!("{n}").into_bytes()).await;
    }
    drop(old);
    let before = files(&survivor);

    // when the first pod copies its data and runs etcd on the copy
    let cluster = validate(&cluster(serde_json::json!({ "size": 1, "version": "3.4.23" }))).unwrap();
    let place = Found { url: "http://127.0.0.1:1".into(), image: "operator:1".into() };
    let built = |source| {
        let seed = Seed {
            cluster: &cluster,
            name: "seed",
            restore: "back",
            uid: "r-1",
            source,
            place: &place,
            volume: true,
        };
        seed.pod(&InCluster).spec.unwrap()
    };
    let pod = dir.path().join("pod");
    let owner = OwnerReference::default();
    let first = built(Source::Claim { name: "old", version: "3.4.23", owner: &owner });
    let brought = first.init_containers.unwrap()[0].command.clone().unwrap();
    let copied = |brought: &[String]| {
        let args = CopyArgs {
            from: dir.path().join(after(brought, "--from").trim_start_matches("/var/")),
            to: inside(&pod, after(brought, "--to")),
            clear: Some(inside(&pod, after(brought, "--clear"))),
        };
        copy(&args).unwrap();
    };
    copied(&brought);
    let etcd = first.containers[0].command.clone().unwrap();
    let (mut child, revision) = run(&pod, "127.78.3.4", &etcd).await;
    assert!(revision >= written, "{revision}, and {written} was acknowledged");
    let ended = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(ended.success());
    child.wait().unwrap();

    // then the second pod starts a new etcd cluster with all of it
    let init = built(Source::Copy).init_containers.unwrap();
    let command = |n: usize| init[n].command.clone().unwrap();
    copied(&command(0));
    take_in(&pod, "127.78.3.5", &command(1), &command(2));
    let new = Member::start("127.78.3.5", "seed", &pod.join("data")).await;
    assert_eq!(new.get("answer").await.as_deref(), Some(&b"49"[..]));
    let client = crate::etcd::Etcd::default().client(&new.endpoint).await.unwrap();
    let status = client.maintenance_client().status().await.unwrap();
    let header = status.header().unwrap();
    assert!(header.revision() >= revision, "{} and {revision}", header.revision());
    assert_ne!(header.cluster_id(), former, "a new etcd cluster");
    assert!(before == files(&survivor), "the data on the claim was changed");
}

fn seed_url(command: &[String]) -> String {
    let flag = "--initial-advertise-peer-urls=";
    command.iter().find_map(|word| word.strip_prefix(flag)).unwrap().to_owned()
}
