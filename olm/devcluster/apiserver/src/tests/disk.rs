use std::{process::Command, sync::Arc};

use super::*;

const CMS: &str = "/api/v1/namespaces/default/configmaps";
/// Set in the child process that is killed while it writes.
const CHILD: &str = "OLM_TEST_WRITER_DIRECTORY";
/// Set in the child process that runs under another umask.
const UMASK_CHILD: &str = "OLM_TEST_UMASK_DIRECTORY";

fn open(directory: &std::path::Path) -> Result<ApiServer, crate::OpenError> {
    ApiServer::open(Config { data: Some(directory.to_owned()), ..Config::default() })
}

#[tokio::test]
async fn objects_keys_and_versions_survive() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open(directory.path()).expect("opened");
    let (_, created) = post(&first, CMS, config_map("a")).await;
    post(&first, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cron_tab_crd()).await;
    delete(&first, &format!("{CMS}/none")).await;
    let token = first.admin_token().to_owned();
    let ca = first.ca_pem().to_owned();
    first.shutdown();
    assert_eq!(post(&first, CMS, config_map("late")).await.0, 503);
    drop(first);
    let second = open(directory.path()).expect("opened again");
    let (code, body) = get(&second, &format!("{CMS}/a")).await;
    assert_eq!((code, &body), (200, &created));
    assert_eq!((second.admin_token(), second.ca_pem()), (token.as_str(), ca.as_str()));
    assert_eq!(get(&second, "/apis/stable.example.com/v1/crontabs").await.0, 200);
    let (_, next) = post(&second, CMS, config_map("b")).await;
    let number = |v: &Value| v["metadata"]["resourceVersion"].as_str().and_then(|t| t.parse::<u64>().ok());
    assert!(number(&next) > number(&created));
    second.shutdown();
}

#[tokio::test]
async fn the_kubernetes_service_follows_the_port() {
    let directory = tempfile::tempdir().expect("a directory");
    for port in [7001_u16, 7002] {
        let config = Config { data: Some(directory.path().to_owned()), port, ..Config::default() };
        let server = ApiServer::open(config).expect("opened");
        let (_, slice) =
            get(&server, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await;
        assert_eq!(slice["ports"][0]["port"], port);
        server.shutdown();
    }
}

#[tokio::test]
async fn a_second_open_of_the_directory_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open(directory.path()).expect("opened");
    let error = open(directory.path()).err().expect("refused").to_string();
    assert!(error.contains("in use by another process") && error.contains("objects.redb"), "{error}");
    first.shutdown();
}

#[tokio::test]
async fn writers_at_once_share_transactions() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Arc::new(open(directory.path()).expect("opened"));
    let tasks: Vec<_> = (0..200)
        .map(|index| {
            let server = server.clone();
            tokio::spawn(async move { post(&server, CMS, config_map(&format!("c{index}"))).await.0 })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("finished"), 201);
    }
    // Concurrent writers of one object: no change is lost.
    let tasks: Vec<_> = (0..20)
        .map(|index| {
            let server = server.clone();
            tokio::spawn(async move {
                patch(
                    &server,
                    "merge-patch+json",
                    &format!("{CMS}/c0"),
                    json!({"data": {format!("k{index}"): "x"}}),
                )
                .await
                .0
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("finished"), 200);
    }
    let (_, body) = get(&server, &format!("{CMS}/c0")).await;
    assert_eq!(body["data"].as_object().map(serde_json::Map::len), Some(21));
    server.shutdown();
}

/// Child process of the next test: writes until it is killed, and prints acknowledged writes.
#[tokio::test]
async fn child_that_writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let server = open(directory.as_ref()).expect("opened");
    for index in 0.. {
        assert_eq!(post(&server, CMS, config_map(&format!("c{index}"))).await.0, 201);
        println!("acknowledged c{index}");
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    use std::io::BufRead;
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "tests::disk::child_that_writes_until_it_is_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, directory.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let lines = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut acknowledged = Vec::new();
    for line in lines.map_while(Result::ok) {
        if let Some((_, name)) = line.split_once("acknowledged ") {
            acknowledged.push(name.trim().to_owned());
        }
        if acknowledged.len() == 60 {
            child.kill().expect("killed");
        }
    }
    child.wait().expect("reaped");
    assert!(acknowledged.len() >= 60);
    let server = open(directory.path()).expect("opened after the crash");
    for name in &acknowledged {
        assert_eq!(get(&server, &format!("{CMS}/{name}")).await.0, 200, "{name}");
    }
    server.shutdown();
}

/// Needs a very small file system: `mount -t tmpfs -o size=4m none DIR`, and `OLM_TEST_SMALL_DISK=DIR`.
#[tokio::test]
async fn a_full_disk_changes_nothing() {
    let Some(directory) = std::env::var_os("OLM_TEST_SMALL_DISK") else {
        println!("skipped: OLM_TEST_SMALL_DISK does not name a small file system");
        return;
    };
    let directory = std::path::PathBuf::from(directory);
    let server = open(&directory).expect("opened");
    let mut big = config_map("x");
    big["data"]["a"] = json!("x".repeat(200_000));
    let mut stored = Vec::new();
    for index in 0..1000 {
        big["metadata"]["name"] = json!(format!("c{index}"));
        let (code, body) = post(&server, CMS, big.clone()).await;
        if code != 201 {
            assert_eq!((code, &body["reason"]), (507, &json!("InsufficientStorage")), "{body}");
            assert_eq!(get(&server, &format!("{CMS}/c{index}")).await.0, 404, "memory follows the disk");
            break;
        }
        stored.push(index);
    }
    assert!(stored.len() < 1000 && stored.len() > 1, "{}", stored.len());
    for index in &stored[1..] {
        let (code, body) = delete(&server, &format!("{CMS}/c{index}")).await;
        println!("delete c{index}: {code} {}", body["message"]);
    }
    server.shutdown();
    let server = open(&directory).expect("opened again");
    assert_eq!(get(&server, &format!("{CMS}/c0")).await.0, 200);
    server.shutdown();
}

/// The hooks of a stored write run, although its client does not wait for the response any more.
#[tokio::test]
async fn a_deletion_completes_without_its_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = open(directory.path()).expect("opened");
    let one = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontabs.stable.example.com";
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", cron_tab_crd()).await;
    // given a request that is being written to disk when its client disconnects
    let mut request = Box::pin(delete(&server, one));
    assert!(futures::poll!(&mut request).is_pending(), "the disk answered at once");
    drop(request);
    // then the deletion is completed
    let gone = async {
        for path in [one, "/apis/apiregistration.k8s.io/v1/apiservices/v1.stable.example.com"] {
            while get(&server, path).await.0 != 404 {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.expect("the CRD and its API to go");
    server.shutdown();
}

fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Mode of the directory (under the name ""), and of every file in it.
fn modes(directory: &std::path::Path) -> Vec<(String, u32)> {
    let mut list = vec![(String::new(), mode(directory))];
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        list.push((entry.file_name().to_string_lossy().into_owned(), mode(&entry.path())));
    }
    list
}

fn assert_private(directory: &std::path::Path) {
    let modes = modes(directory);
    for file in ["objects.redb", "admin.token", "service-account.key", "ca.key"] {
        assert!(modes.iter().any(|(name, _)| name == file), "{file} is missing: {modes:?}");
    }
    for (name, mode) in modes {
        assert_eq!(mode, if name.is_empty() { 0o700 } else { 0o600 }, "{name:?}");
    }
}

#[tokio::test]
async fn t18_wide_modes_of_the_data_directory_are_repaired() {
    // given a data directory that is accessible to all users of the machine
    let directory = tempfile::tempdir().expect("a directory");
    open(directory.path()).expect("opened").shutdown();
    for (name, _) in modes(directory.path()) {
        let path = directory.path().join(&name);
        set_mode(&path, if name.is_empty() { 0o755 } else { 0o644 });
    }
    // when the cluster starts again
    let server = open(directory.path()).expect("opened again");
    // then only its owner can read it
    assert_private(directory.path());
    server.shutdown();
}

/// Child process of the next test.
#[tokio::test]
async fn child_that_opens_a_data_directory() {
    let Some(directory) = std::env::var_os(UMASK_CHILD) else { return };
    open(directory.as_ref()).expect("opened").shutdown();
}

#[tokio::test]
async fn t18_the_umask_does_not_open_the_data_directory() {
    use std::os::unix::process::CommandExt as _;
    for umask in [0o000, 0o277] {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("data");
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command
            .args(["--exact", "tests::disk::child_that_opens_a_data_directory"])
            .env(UMASK_CHILD, &directory)
            .stdout(std::process::Stdio::null());
        #[allow(unsafe_code)]
        // SAFETY: umask is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(umask));
                Ok(())
            });
        }
        assert!(command.status().expect("run").success());
        assert_private(&directory);
    }
}

#[tokio::test]
async fn t18_a_directory_of_other_files_is_not_closed() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("letter"), "mine").expect("written");
    set_mode(directory.path(), 0o755);
    let error = open(directory.path()).err().expect("refused").to_string();
    assert!(error.contains("expected an empty directory"), "{error}");
    assert_eq!(mode(directory.path()), 0o755);
}
