//! `olm up --demo` is killed, and `olm up` starts again on its data. `tests/newcomer.sh` runs `make demo`, README's
//! examples on it, and Ctrl-C.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{
    Cluster, DevCluster,
    documents::{Shell, block},
    etcd, eventually,
    processes::tree,
    program, skipped,
};
use serde_json::Value;

use crate::{block_on, operator::get, own_turn};

const NAME: &str = "the_demo_runs_and_comes_back";

#[test]
fn the_demo_runs_and_comes_back() {
    let Some(_turn) = own_turn(NAME, &[]) else { return };
    if etcd::version().is_none() {
        skipped(NAME, "etcd is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    block_on(run(&data)).expect(NAME);
}

async fn run(data: &std::path::Path) -> Result<()> {
    let namespaces = named_namespaces();
    let nothing_is_left = |data| nothing_is_left(data, &namespaces);
    let up = DevCluster::launch(data, &["--demo"])?;
    up.wait_for_line("Ctrl-C", Duration::from_secs(180))?;
    let output = up.output();
    for needle in [
        "export KUBECONFIG=",
        "/login?code=",
        "etcdoperator.v0.11.0",
        "example-etcd-cluster",
        "NAME",
        "READY",
        "hello from olm",
    ] {
        ensure!(output.contains(needle), "the demo did not print `{needle}`:\n{output}");
    }
    let cluster = up.cluster();
    let members = cluster.wait_members("etcd", "example-etcd-cluster", 3, Duration::from_secs(60)).await?;
    // Three real processes of etcd.
    let running = tree(up.pid())?;
    let etcds =
        running.iter().filter(|p| p.args.contains("etcd") && p.args.contains("--data-dir=/var/etcd")).count();
    ensure!(etcds == 3, "{etcds} etcds: {running:?}");
    examples(&cluster)?;
    cluster.etcdctl("etcd", &members[0], &["put", "survives", "a restart"])?;
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let before = uid(&get(&cluster, &["etcdcluster", "example-etcd-cluster", "-n", "etcd"])?);
    let mounts = mounts_with(data)?;
    ensure!(mounts.is_empty(), "mounts of the cluster show on the host: {mounts:?}");

    // kill -9: no process, mount or namespace remains.
    up.signal("KILL")?;
    up.wait(Duration::from_secs(10))?;
    eventually("the pods' processes to be gone", Duration::from_secs(5), async || {
        nothing_is_left(data).map(Some)
    })
    .await?;

    // The same objects, and the same data where the pods had volumes.
    let again = DevCluster::start(data, &[])?;
    let cluster = again.cluster();
    let after = uid(&get(&cluster, &["etcdcluster", "example-etcd-cluster", "-n", "etcd"])?);
    ensure!(before == after, "the EtcdCluster is another object");
    let mut back = cluster.wait_members("etcd", "example-etcd-cluster", 3, Duration::from_secs(90)).await?;
    back.sort();
    let mut members = members;
    members.sort();
    ensure!(back == members, "members {members:?} came back as {back:?}");
    let value = cluster.etcdctl("etcd", &back[0], &["get", "survives", "--print-value-only"])?;
    ensure!(value.trim() == "a restart", "{value}");
    let status = again.stop()?;
    ensure!(status.success() || status.code() == Some(130), "{status}");
    nothing_is_left(data)
}

/// What docs/console.md shows.
fn examples(cluster: &Cluster) -> Result<()> {
    if program("kubectl").is_none() || program("curl").is_none() {
        skipped(NAME, "its examples: kubectl or curl is not installed");
        return Ok(());
    }
    let (account, role) = ("--serviceaccount=default:default", "--clusterrole=cluster-admin");
    cluster.kubectl(&["create", "clusterrolebinding", "examples", role, account])?;
    let mut shell = Shell::on(cluster)?;
    shell.run("export TOKEN=$(kubectl create token default -n default)")?;
    let console = cluster.console.as_deref().context("a console")?.trim_end_matches('/');
    let page = block("docs/console.md", "curl")?.with("http://127.0.0.1:8080", console);
    let [read, pause] = &page.steps[..] else { bail!("docs/console.md: {page:?}") };
    let installed: Value = serde_json::from_str(&shell.run(&read.command)?)?;
    ensure!(installed["installed"]["version"] == "0.11.0", "{installed}");
    let paused: Value = serde_json::from_str(&shell.run(&pause.command)?)?;
    ensure!(paused["changed"] == true, "{paused}");
    cluster.olm_ok(&["resume", "etcd", "-n", "etcd"]).map(drop)
}

fn mounts_with(data: &std::path::Path) -> Result<Vec<String>> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let needle = data.display().to_string();
    Ok(mounts.lines().filter(|l| l.contains(&needle)).map(str::to_string).collect())
}

/// No process, namespace or mount that names the data directory.
fn nothing_is_left(data: &std::path::Path, namespaces: &[String]) -> Result<()> {
    let needle = data.display().to_string();
    let out = Command::new("ps").args(["-eo", "args="]).output()?;
    let text = String::from_utf8_lossy(&out.stdout).to_string();
    let left: Vec<&str> = text.lines().filter(|l| l.contains(&needle)).collect();
    ensure!(left.is_empty(), "processes are left: {left:?}");
    let mounts = mounts_with(data)?;
    ensure!(mounts.is_empty(), "mounts are left: {mounts:?}");
    ensure!(named_namespaces() == namespaces, "network namespaces are left: {:?}", named_namespaces());
    Ok(())
}

/// Network namespaces that have a name on this host.
fn named_namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
