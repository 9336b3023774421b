//! Results of bad input: the place, the cause, the next step, and an exit code.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, DevCluster, etcd, eventually};

use crate::{
    block_on,
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace, subscription},
    own_turn, scenario, turn,
};

fn failed(cluster: &Cluster, args: &[&str], code: i32) -> Result<String> {
    let out = cluster.olm(args)?;
    let text = String::from_utf8_lossy(&out.stderr).to_string();
    ensure!(
        out.status.code() == Some(code),
        "olm {}: {} instead of {code}: {text}",
        args.join(" "),
        out.status
    );
    Ok(text)
}

#[test]
fn unknown_names_exit_3_with_the_nearest() {
    scenario("unknown_names_exit_3_with_the_nearest", async |cluster| {
        let text = failed(&cluster, &["install", "ectd", "-n", "nowhere"], 3)?;
        ensure!(text.contains("ectd") && text.contains("etcd"), "{text}");
        let text =
            failed(&cluster, &["install", "etcd", "-n", "nowhere", "--channel", "singlenamespace-alfa"], 3)?;
        ensure!(text.contains("singlenamespace-alpha"), "{text}");
        let text = failed(&cluster, &["install", "etcd", "-n", "nowhere", "--version", "0.10.7"], 3)?;
        ensure!(text.contains("0.10.1"), "{text}");
        let text = failed(&cluster, &["show", "etc"], 3)?;
        ensure!(text.contains("etcd"), "{text}");
        let text = failed(&cluster, &["status", "nothing", "-n", "nowhere"], 3)?;
        ensure!(text.contains("nothing"), "{text}");
        ensure!(
            cluster.kubectl(&["get", "namespace", "nowhere"]).is_err(),
            "a refused install made a namespace"
        );
        failed(&cluster, &["install"], 2)?;
        Ok(())
    });
}

#[test]
fn a_caller_without_rights_gets_the_missing_verb() {
    scenario("a_caller_without_rights_gets_the_missing_verb", async |cluster| {
        let text = failed(&cluster, &["install", "etcd", "-n", "nowhere", "--as", "visitor"], 7)?;
        ensure!(text.contains("User \"visitor\" cannot ") && !text.contains("self status"), "{text}");
        Ok(())
    });
}

#[test]
fn a_subscription_to_an_unknown_package_is_reported() {
    scenario("a_subscription_to_an_unknown_package_is_reported", async |cluster| {
        let ns = "unknown";
        namespace(&cluster, ns)?;
        let manifest =
            subscription(ns, "Automatic", None).replace("  name: etcd\n  channel", "  name: ectd\n  channel");
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&manifest))?;
        eventually("condition ResolutionFailed", LIMIT, async || {
            let object = get(&cluster, &["subscription", "etcd", "-n", ns])?;
            let conditions = object["status"]["conditions"].as_array().context("no conditions")?;
            let failed = conditions
                .iter()
                .find(|c| c["type"] == "ResolutionFailed" && c["status"] == "True")
                .context("not failed")?;
            let message = failed["message"].as_str().unwrap_or_default();
            ensure!(message.contains("ectd") && message.contains("etcd"), "{message}");
            Ok(Some(()))
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn a_catalog_with_a_syntax_error_hides_nothing_else() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("file");
    };
    write(
        "broken/catalog.yaml",
        "schema: olm.package\nname: broken\ndefaultChannel: stable\nicon: [unclosed\n---\nschema: olm.channel\n",
    );
    write(
        "good/catalog.yaml",
        "schema: olm.package\nname: good\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: good\nname: stable\nentries:\n- name: good.v1.0.0\n---\nschema: olm.bundle\npackage: good\nname: good.v1.0.0\nimage: example.invalid/good:v1.0.0\nproperties:\n- type: olm.package\n  value: {packageName: good, version: 1.0.0}\n",
    );
    let mut command = olm_tests::cluster::olm();
    command.args(["search", "--catalog-dir"]).arg(dir.path());
    let out = olm_tests::cluster::run(command, None).expect("olm runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stderr}");
    assert!(stdout.contains("good"), "{stdout}");
    assert!(
        stderr.contains("broken/catalog.yaml:") && stderr.contains(":5:") || stderr.contains(":4:"),
        "{stderr}"
    );
}

#[test]
fn the_api_refuses_bad_etcdclusters_by_field() {
    scenario("the_api_refuses_bad_etcdclusters_by_field", async |cluster| {
        let ns = "bad-etcd";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&subscription(ns, "Automatic", None)))?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        let version = "3.4.23";
        let long = "n".repeat(53);
        let cases = [
            (etcd::manifest(ns, "zero", 0, version), "spec.size"),
            (etcd::manifest(ns, "eight", 8, version), "spec.size"),
            (etcd::manifest(ns, &long, 1, version), "metadata.name"),
            (format!("{}  sise: 3\n", etcd::manifest(ns, "typo", 1, version)), "spec.sise"),
            (etcd::manifest(ns, "text", 1, version).replace("size: 1", "size: three"), "spec.size"),
        ];
        for (manifest, field) in cases {
            let out = cluster.try_kubectl(&["create", "-f", "-"], Some(&manifest))?;
            let text = String::from_utf8_lossy(&out.stderr).to_string();
            ensure!(!out.status.success() && text.contains(field), "{field} is not named: {text}");
        }
        let left = get(&cluster, &["etcdclusters", "-n", ns])?;
        ensure!(left["items"].as_array().is_some_and(Vec::is_empty), "a refused object was stored");
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn an_etcd_version_that_is_not_here_is_named_in_the_event() {
    scenario("an_etcd_version_that_is_not_here_is_named_in_the_event", async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped("an_etcd_version_that_is_not_here", "etcd is not installed");
            return Ok(());
        };
        if cluster.data_dir.is_none() {
            olm_tests::skipped("an_etcd_version_that_is_not_here", "concerns the dev cluster's images");
            return Ok(());
        }
        let ns = "absent";
        namespace(&cluster, ns)?;
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: absent\n  namespace: {ns}\nspec:\n  containers:\n  - name: etcd\n    image: quay.io/coreos/etcd:v3.99.0\n"
        );
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&pod))?;
        eventually("an event that lists the versions", LIMIT, async || {
            let text = cluster.kubectl(&["describe", "pod", "absent", "-n", ns])?;
            ensure!(text.contains("3.99.0") && text.contains(&version), "{text}");
            ensure!(text.contains("ErrImagePull") || text.contains("ImagePullBackOff"), "{text}");
            Ok(Some(()))
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn a_second_olm_up_and_a_taken_port_get_one_clear_line() {
    let _turn = turn();
    let Some(cluster) = Cluster::dev_only("a_second_olm_up_and_a_taken_port_get_one_clear_line") else {
        return;
    };
    let data = cluster.data_dir.expect("dev cluster");
    block_on(async {
        let second = DevCluster::launch(&data, &[]).expect("started");
        let status = second.wait(Duration::from_secs(20)).expect("ended");
        let text = second.output();
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains("error: ") && text.contains("in use"), "{text}");

        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("address").to_string();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut command = olm_tests::cluster::olm();
        command.args(["up", "--listen", &address, "--console", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
        let out = olm_tests::cluster::run(command, None).expect("olm runs");
        let text = String::from_utf8_lossy(&out.stderr).to_string();
        assert_eq!(out.status.code(), Some(1), "{text}");
        assert!(text.contains(&address), "{text}");
        assert_eq!(text.lines().filter(|l| l.starts_with("error: ")).count(), 1, "{text}");
    });
}

/// A full disk: a full file system of a few megabytes. Writes are rejected, no acknowledged write is lost.
#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    const NAME: &str = "a_full_disk_refuses_writes_and_loses_nothing";
    let Some(_turn) = own_turn(NAME, &[]) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mount = |args: &[&str]| {
        std::process::Command::new("mount")
            .args(args)
            .arg(dir.path())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=12m", "olm-full-disk"]) {
        olm_tests::skipped(NAME, "may not mount a small file system");
        return;
    }
    let result: Result<()> = block_on(async {
        let data = dir.path().join("data");
        let up = DevCluster::start(&data, &["--no-pods"])?;
        let cluster = up.cluster();
        let payload = "x".repeat(200_000);
        let mut acknowledged = Vec::new();
        let mut refused = None;
        for n in 0..200 {
            let name = format!("filler-{n}");
            let manifest = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{p: {payload}}}\n"
            );
            let out = cluster.try_kubectl(&["create", "-f", "-"], Some(&manifest))?;
            if out.status.success() {
                acknowledged.push(name);
            } else {
                refused = Some(String::from_utf8_lossy(&out.stderr).to_string());
                break;
            }
        }
        let refused = refused.context("the disk never filled up")?;
        ensure!(refused.to_lowercase().contains("space") || refused.contains("disk"), "{refused}");
        ensure!(!acknowledged.is_empty(), "nothing was acknowledged");
        // Reads still work.
        cluster.kubectl(&["get", "configmap", &acknowledged[0], "-n", "default"])?;
        up.signal("KILL")?;
        up.wait(Duration::from_secs(10))?;
        ensure!(
            std::process::Command::new("mount")
                .args(["-o", "remount,size=64m"])
                .arg(dir.path())
                .status()?
                .success(),
            "remount failed"
        );
        let again = DevCluster::start(&data, &["--no-pods"])?;
        let cluster = again.cluster();
        for name in &acknowledged {
            cluster.kubectl(&["get", "configmap", name, "-n", "default", "-o", "name"])?;
        }
        again.stop()?;
        Ok(())
    });
    let _ = std::process::Command::new("umount").arg("-l").arg(dir.path()).status();
    result.expect(NAME);
}

/// kill -9 at any moment: the next start recovers, leaves no processes behind, and has every acknowledged
/// write.
#[test]
fn kill_9_loses_no_acknowledged_write() {
    const NAME: &str = "kill_9_loses_no_acknowledged_write";
    let Some(_turn) = own_turn(NAME, &[]) else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let result: Result<()> = block_on(async {
        let mut acknowledged: Vec<String> = Vec::new();
        for round in 0..3 {
            let up = DevCluster::start(&data, &["--no-pods"])?;
            let cluster = up.cluster();
            for name in &acknowledged {
                cluster
                    .kubectl(&["get", "configmap", name, "-n", "default", "-o", "name"])
                    .with_context(|| format!("round {round}: an acknowledged write is gone"))?;
            }
            let client = cluster.client().await?;
            let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
                kube::Api::namespaced(client, "default");
            let deadline = std::time::Instant::now() + Duration::from_millis(300 + 170 * round);
            let killer = std::thread::spawn({
                let pid = up.pid().to_string();
                move || {
                    std::thread::sleep(deadline.saturating_duration_since(std::time::Instant::now()));
                    std::process::Command::new("kill").args(["-KILL", &pid]).status()
                }
            });
            for n in 0.. {
                let name = format!("r{round}-{n}");
                let object: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(
                    serde_json::json!({"metadata": {"name": name}, "data": {"n": n.to_string()}}),
                )?;
                match tokio::time::timeout(Duration::from_secs(2), api.create(&Default::default(), &object))
                    .await
                {
                    Ok(Ok(_)) => acknowledged.push(name),
                    _ => break,
                }
            }
            let _ = killer.join();
            up.wait(Duration::from_secs(10))?;
        }
        if acknowledged.len() < 10 {
            bail!("only {} writes were acknowledged", acknowledged.len());
        }
        let up = DevCluster::start(&data, &["--no-pods"])?;
        let listed = get(&up.cluster(), &["configmaps", "-n", "default"])?;
        let names: std::collections::BTreeSet<&str> = listed["items"]
            .as_array()
            .context("items")?
            .iter()
            .filter_map(|i| i["metadata"]["name"].as_str())
            .collect();
        for name in &acknowledged {
            ensure!(names.contains(name.as_str()), "{name} was acknowledged and is gone");
        }
        up.stop()?;
        Ok(())
    });
    result.expect(NAME);
}
