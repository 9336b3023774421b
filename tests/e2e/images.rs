//! Pods with images that are pulled from Docker's registry or loaded from files.

use std::{fs, os::unix::fs::symlink, process::Command};

use anyhow::{Context as _, Result, ensure};
use olm_tests::{Cluster, bin_dir, eventually, program, root, skipped};
use serde_json::{Value, json};

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace},
    registry::{Registry, layout_of},
    scenario,
};

/// A static program with a shell and a web server.
const BUSYBOX: &str = "/bin/busybox";

/// Whether the test can run on this machine and with this cluster; the reason is printed otherwise.
fn can_run(name: &str, cluster: &Cluster) -> bool {
    for needed in ["docker-registry", "skopeo"] {
        if program(needed).is_none() {
            skipped(name, &format!("{needed} is not installed"));
            return false;
        }
    }
    if !has_busybox(name) {
        return false;
    }
    if cluster.data_dir.is_none() {
        skipped(name, "the registry is on this machine, and KUBECONFIG names another cluster");
        return false;
    }
    true
}

/// Whether this machine has the program of [`load_web`]; the reason is printed otherwise.
pub fn has_busybox(name: &str) -> bool {
    let found = is_static(BUSYBOX);
    if !found {
        skipped(name, &format!("there is no static {BUSYBOX} (Debian: busybox-static)"));
    }
    found
}

/// Whether the program exists and is linked statically: the image has no libraries. A dynamic program names its loader
/// in the first page.
fn is_static(program: &str) -> bool {
    let Ok(content) = fs::read(program) else { return false };
    let first = &content[..content.len().min(4096)];
    !first.windows(4).any(|text| text == b"/ld-")
}

/// Loads an image with a web server at port 8080 and a few tools into a dev cluster; returns its name.
pub fn load_web(cluster: &Cluster) -> Result<&'static str> {
    const NAME: &str = "localhost/test/web:1";
    let (layout, files) = (tempfile::tempdir()?, web_files()?);
    layout_of(layout.path(), web_config(), files.path())?;
    let path = layout.path().display().to_string();
    let data = cluster.data_dir.as_ref().context("a dev cluster")?.display().to_string();
    cluster.olm_ok(&["dev", "images", "load", &path, "--name", NAME, "--data-dir", &data])?;
    Ok(NAME)
}

/// The files of an image with a web server.
fn web_files() -> Result<tempfile::TempDir> {
    let content = tempfile::tempdir()?;
    for folder in ["bin", "etc", "www"] {
        fs::create_dir(content.path().join(folder))?;
    }
    fs::copy(BUSYBOX, content.path().join("bin/busybox"))?;
    for name in ["sh", "cat", "id", "ls", "wget"] {
        symlink("busybox", content.path().join("bin").join(name))?;
    }
    fs::write(content.path().join("etc/passwd"), "www:x:1000:1000::/www:/bin/sh\n")?;
    fs::write(content.path().join("www/index.html"), "from an image")?;
    fs::write(content.path().join("www/healthz"), "ok")?;
    Ok(content)
}

fn web_config() -> Value {
    json!({
        "User": "1000", "WorkingDir": "/www", "Env": ["PATH=/bin"],
        "Entrypoint": ["busybox", "httpd", "-f"], "Cmd": ["-p", "8080"],
    })
}

fn pod(ns: &str, name: &str, image: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": ns },
        "spec": { "containers": [{ "name": "main", "image": image, "ports": [{ "containerPort": 8080 }] }] },
    })
    .to_string()
}

fn ready(cluster: &Cluster, ns: &str, pod: &str) -> Result<()> {
    let pod = format!("pod/{pod}");
    cluster.kubectl(&["wait", "--for=condition=Ready", &pod, "-n", ns, "--timeout=60s"]).map(drop)
}

#[test]
fn images_from_a_registry_and_from_files_run_without_docker() {
    const NAME: &str = "images_from_a_registry_and_from_files_run_without_docker";
    scenario(NAME, async |cluster| {
        if !can_run(NAME, &cluster) {
            return Ok(());
        }
        let ns = "images";
        namespace(&cluster, ns)?;
        let registry = Registry::start().await?;
        let files = web_files()?;
        let digest = registry.push("web", web_config(), files.path())?;
        // when a pod names an image of the registry, then it is pulled and runs with the image's configuration
        let image = format!("{}/web:latest", registry.host);
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&pod(ns, "web", &image)))?;
        ready(&cluster, ns, "web")?;
        let page = format!("/api/v1/namespaces/{ns}/pods/web:8080/proxy/index.html");
        let text = eventually("the page", LIMIT, async || Ok(cluster.kubectl(&["get", "--raw", &page]).ok()));
        ensure!(text.await? == "from an image");
        let own = cluster.kubectl(&["exec", "-n", ns, "web", "--", "sh", "-c", "id -u; ls /"])?;
        ensure!(own.starts_with("1000\n") && !own.contains("usr"), "{own}");
        let status = get(&cluster, &["pod", "web", "-n", ns])?;
        let id = format!("{}/web@{digest}", registry.host);
        ensure!(status["status"]["containerStatuses"][0]["imageID"] == id, "{status}");
        // and the image is listed, also with its digest
        let data = cluster.data_dir.as_ref().context("a dev cluster")?.display().to_string();
        let listed = cluster.olm_ok(&["dev", "images", "--data-dir", &data, "-o", "json"])?;
        let listed: Value = serde_json::from_str(&listed)?;
        let entry = listed.as_array().into_iter().flatten().find(|one| one["image"] == image);
        ensure!(entry.is_some_and(|one| one["digest"] == digest), "{listed}");

        // when the registry is stopped, then pulled images run by digest, and others fail with the cause
        let host = registry.host.clone();
        drop(registry);
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&pod(ns, "again", &id)))?;
        ready(&cluster, ns, "again")?;
        let missing = format!("{host}/missing:1");
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&pod(ns, "missing", &missing)))?;
        let waiting = eventually("the reason", LIMIT, async || {
            let pod = get(&cluster, &["pod", "missing", "-n", ns])?;
            let waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
            Ok((waiting["reason"] == "ErrImagePull" || waiting["reason"] == "ImagePullBackOff")
                .then_some(waiting))
        });
        let waiting = waiting.await?;
        ensure!(waiting["message"].as_str().is_some_and(|message| message.contains(&host)), "{waiting}");

        // when an image is loaded from a file, then pods run it without a registry
        let layout = tempfile::tempdir()?;
        layout_of(layout.path(), web_config(), files.path())?;
        let archive = layout.path().with_extension("tar");
        let out = Command::new("skopeo")
            .args(["copy", "--insecure-policy", &format!("oci:{}", layout.path().display())])
            .arg(format!("docker-archive:{}:localhost/test/loaded:1", archive.display()))
            .output()?;
        ensure!(out.status.success(), "skopeo: {}", String::from_utf8_lossy(&out.stderr));
        let path = archive.display().to_string();
        let load = ["dev", "images", "load", &path, "--name", "localhost/test/loaded:1", "--data-dir", &data];
        let loaded = cluster.olm_ok(&load)?;
        fs::remove_file(&archive)?;
        ensure!(loaded.starts_with("localhost/test/loaded@sha256:"), "{loaded}");
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&pod(ns, "loaded", "localhost/test/loaded:1")))?;
        ready(&cluster, ns, "loaded")?;
        delete_namespace(&cluster, ns)
    });
}

/// The etcd operator of `olm self image`, as a real cluster runs it.
#[test]
fn an_operator_of_a_pulled_image_is_installed() {
    const NAME: &str = "an_operator_of_a_pulled_image_is_installed";
    scenario(NAME, async |cluster| {
        if !can_run(NAME, &cluster) {
            return Ok(());
        }
        let ns = "pulled-operator";
        namespace(&cluster, ns)?;
        // given a registry with the product's images; `true` replaces the programs that are not used here
        let registry = Registry::start().await?;
        let operator = format!("etcd-operator={}", bin_dir().join("etcd-operator").display());
        let pushed = cluster.olm_ok(&[
            "self",
            "image",
            "--push",
            &registry.host,
            "--plain-http",
            &registry.host,
            "--binary",
            "olm=/bin/true",
            "--binary",
            &operator,
            "--binary",
            "myapp-operator=/bin/true",
            "-o",
            "json",
        ])?;
        let pushed: Value = serde_json::from_str(&pushed)?;
        let image =
            pushed.as_array().into_iter().flatten().find(|one| {
                one["image"].as_str().is_some_and(|image| image.ends_with("/etcd-operator:0.11.0"))
            });
        let image = image.with_context(|| format!("no etcd operator in {pushed}"))?;
        let name =
            image["image"].as_str().unwrap_or_default().rsplit_once(':').context("a tag")?.0.to_owned();
        let pinned = format!("{name}@{}", image["digest"].as_str().unwrap_or_default());
        // and a bundle that names the image by digest
        let bundle = tempfile::tempdir()?;
        let from = root().join("bundles/etcd/0.11.0");
        for folder in ["manifests", "metadata"] {
            fs::create_dir(bundle.path().join(folder))?;
            for entry in fs::read_dir(from.join(folder))? {
                let path = entry?.path();
                let text = fs::read_to_string(&path)?.replace("localhost/olm/etcd-operator:0.11.0", &pinned);
                fs::write(bundle.path().join(folder).join(path.file_name().context("a name")?), text)?;
            }
        }
        // when it is installed, then the operator runs from the pulled image and is ready
        let folder = bundle.path().display().to_string();
        cluster.olm_ok(&["bundle", "run", &folder, "-n", ns])?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;
        let pods = get(&cluster, &["pods", "-n", ns])?;
        let status = &pods["items"][0]["status"]["containerStatuses"][0];
        ensure!(status["imageID"] == pinned, "{status}");
        delete_namespace(&cluster, ns)
    });
}
