//! The end of the process of a cluster.

use super::*;

/// Runs in a separate process, to be killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_to_be_killed() {
    let Some(dir) = std::env::var_os("OLM_TEST_KILLED") else { return };
    let Some(rig) = Rig::start(Path::new(&dir)).await else { return };
    let mark = std::env::var("OLM_TEST_MARK").unwrap();
    let pod = format!("doomed-{mark}");
    let script = format!("setsid sleep 4711.{mark} & sleep 4712.{mark}");
    rig.create(&pod, json!({"containers": [shell(&script)]})).await;
    rig.wait_ready(&pod).await;
    std::fs::write(Path::new(&dir).join("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_leaves_nothing() {
    if !matches!(Capability::probe(), Capability::Root) {
        println!("skipped: needs root");
        return;
    }
    let _turn = TURN.lock().await;
    // given a cluster in a separate process, with processes that no other run of this test has
    let dir = tempfile::tempdir().unwrap();
    let mark = std::process::id().to_string();
    let [first, second, pod] =
        [format!("sleep 4711.{mark}"), format!("sleep 4712.{mark}"), format!("default/doomed-{mark}")];
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::cluster_to_be_killed"])
        .env("OLM_TEST_KILLED", dir.path())
        .env("OLM_TEST_MARK", &mark)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !dir.path().join("ready").exists() {
        assert!(begin.elapsed() < PATIENCE, "the cluster did not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begin = Instant::now();
    while processes(&[&first, &second]) < 3 {
        assert!(begin.elapsed() < PATIENCE, "two sleeps, and the shell that holds their text");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // when it is killed, then no process is left
    child.kill().unwrap();
    child.wait().unwrap();
    let begin = Instant::now();
    while processes(&[&first, &second, &pod]) > 0 {
        assert!(begin.elapsed() < PATIENCE, "processes are left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(dir.path().to_str().unwrap()), "mounts are left");
}

fn processes(texts: &[&str]) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .ok()
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| texts.iter().any(|text| line.contains(text))).count()
}
