//! The way of a snapshot into a real etcd, by the command lines that the seed's pod has.

use std::path::{Path, PathBuf};
use std::process::Command;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;

use super::fetch::{FetchArgs, InstallArgs, fetch, install};
use super::place::Found;
use super::seed::Seed;
use crate::addressing::InCluster;
use crate::backup::tests::{Member, back_up, skipped};
use crate::validate::{tests::cluster, validate};

/// The file in `dir` that stands for one in the pod.
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
    let snapshot = super::verify::verify(&store, "etcd", crate::storage::STALL).await.unwrap();
    assert_eq!(
        (snapshot.revision, snapshot.etcd_version.as_str()),
        (Some(good.revision), good.version.as_str())
    );

    // The operator hands it out to who has the token.
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
        snapshot: &snapshot,
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
    assert!(format!("{other:#}").contains("another one than the one that was checked"), "{other:#}");
    fetch(&args(sha256), Some("sesame".into())).await.unwrap();
    server.abort();
    // A node that starts again runs it again, and needs nobody for it.
    fetch(&args(sha256), None).await.unwrap();

    // The address of the member in this test is another one, and there is no pod around its files.
    let in_pod = seed_url(&command(1));
    let words: Vec<String> = command(1)[1..]
        .iter()
        .map(|word| {
            word.replace("/var/etcd/", &format!("{}/", pod.display()))
                .replace(&in_pod, "http://127.78.3.2:2380")
        })
        .collect();
    let restored = Command::new("/usr/bin/etcdctl").env("ETCDCTL_API", "3").args(&words).output().unwrap();
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let put = InstallArgs {
        from: inside(&pod, after(&command(2), "--from")),
        to: inside(&pod, after(&command(2), "--to")),
    };
    install(&put).unwrap();
    let new = Member::start("127.78.3.2", "seed", &pod.join("data")).await;
    assert_eq!(new.get("answer").await.as_deref(), Some(&b"42"[..]));
    let client = crate::etcd::Etcd::default().client(&new.endpoint).await.unwrap();
    let status = client.maintenance_client().status().await.unwrap();
    assert_ne!(format!("{:x}", status.header().unwrap().cluster_id()), good.cluster_id, "a new etcd cluster");
    assert!(status.header().unwrap().revision() >= good.revision);
}

fn seed_url(command: &[String]) -> String {
    let flag = "--initial-advertise-peer-urls=";
    command.iter().find_map(|word| word.strip_prefix(flag)).unwrap().to_owned()
}
