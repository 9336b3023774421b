//! Every source of a CatalogSource, with the real manager: a real registry, a ConfigMap, a web server, a
//! catalog server.
//!
//! The manager's sources run in the cluster as pods: its network differs from the machine's. One of them is
//! Docker's registry. Another one on the machine's own network writes to the same directory, so that `skopeo` can
//! push; the node pulls the image of the first one from it.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, eventually, program, root, skipped};
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace},
    registry::{self, Registry},
    scenario,
};

/// The manifests applied here are those of docs/catalog-sources.md.
fn example(name: &str) -> Result<String> {
    let page = fs::read_to_string(root().join("docs/catalog-sources.md"))?;
    let mark = format!("<!-- example: {name} -->\n```yaml\n");
    let start = page.find(&mark).with_context(|| format!("no example {name}"))? + mark.len();
    let end = page[start..].find("```").context("no end")? + start;
    Ok(page[start..end].to_owned())
}

async fn state(cluster: &Cluster, ns: &str, name: &str, wanted: &str) -> Result<Value> {
    let what = format!("CatalogSource {ns}/{name} to be {wanted}");
    eventually(&what, LIMIT, async || {
        let source = get(cluster, &["catalogsource", name, "-n", ns])?;
        let seen = source["status"]["connectionState"]["lastObservedState"].as_str();
        ensure!(
            seen == Some(wanted),
            "{seen:?}: {} {}",
            source["status"]["reason"],
            source["status"]["message"]
        );
        Ok(Some(source["status"].clone()))
    })
    .await
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == type_)
}

/// The image of the manager.
const OLM: &str = concat!("localhost/olm/olm:", env!("CARGO_PKG_VERSION"));

/// A pod, which runs as root, and its Service.
fn serve(
    cluster: &Cluster,
    ns: &str,
    (name, image): (&str, &str),
    port: u16,
    command: &[&str],
    volumes: &[(&str, Value)],
) -> Result<()> {
    let mount =
        |(i, (path, _)): (usize, &(&str, Value))| json!({ "name": format!("v{i}"), "mountPath": path });
    let mounts: Vec<Value> = volumes.iter().enumerate().map(mount).collect();
    let named = |(i, (_, volume)): (usize, &(&str, Value))| {
        let mut volume = volume.clone();
        volume["name"] = format!("v{i}").into();
        volume
    };
    let volumes: Vec<Value> = volumes.iter().enumerate().map(named).collect();
    let labels = json!({ "app": name });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": ns, "labels": labels },
        "spec": { "volumes": volumes, "containers": [{
            "name": name, "image": image, "command": command, "volumeMounts": mounts,
            "securityContext": { "runAsUser": 0 },
            "ports": [{ "containerPort": port }],
            "readinessProbe": { "tcpSocket": { "port": port }, "periodSeconds": 1 },
        }] },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": ns },
        "spec": { "selector": labels, "ports": [{ "port": port, "targetPort": port }] },
    });
    // One at a time: kubectl 1.32 cannot read several of JSON.
    for object in [pod, service] {
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&object.to_string()))?;
    }
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod", name, "-n", ns, "--timeout=60s"]).map(drop)
}

/// A web server with the catalog of etcd, as Service `server`.
fn web_server(cluster: &Cluster, ns: &str) -> Result<()> {
    let file = root().join("catalog/data/etcd/catalog.yaml");
    let from = format!("--from-file={}", file.display());
    cluster.kubectl(&["create", "configmap", "content", "-n", ns, &from])?;
    let command = ["olm", "catalog", "serve", "/content", "--address", "0.0.0.0:8080"];
    serve(
        cluster,
        ns,
        ("server", OLM),
        8080,
        &command,
        &[("/content", json!({ "configMap": { "name": "content" } }))],
    )
}

/// Pushes an image of this machine's Docker registry with `olm self image`, which names it olm; returns its name for
/// the node.
fn push_registry(cluster: &Cluster, registry: &Registry) -> Result<String> {
    let program = program("docker-registry").context("docker-registry")?;
    let binary = format!("olm={}", program.display());
    let host = &registry.host;
    let [etcd, myapp] = ["etcd-operator=/bin/true", "myapp-operator=/bin/true"];
    let access = ["self", "image", "--push", host, "--plain-http", host];
    let content = ["--binary", &binary, "--binary", etcd, "--binary", myapp];
    cluster.olm_ok(&[&access[..], &content].concat())?;
    Ok(format!("{host}/olm:{}", env!("CARGO_PKG_VERSION")))
}

fn push_bundle(registry: &Registry, version: &str) -> Result<String> {
    let digest = registry.push("bundle", json!({}), &root().join("bundles/etcd").join(version))?;
    Ok(format!("{REGISTRY}/bundle@{digest}"))
}

/// A catalog whose bundles are images, newest last. The package is that of all other scenarios: its CRD
/// is cluster-scoped.
fn push_catalog(registry: &Registry, bundles: &[(&str, String)]) -> Result<()> {
    let mut catalog = "schema: olm.package\nname: etcd\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: etcd\nname: stable\nentries:\n".to_owned();
    let mut replaces = String::new();
    for (version, _) in bundles {
        catalog += &format!("- name: etcdoperator.v{version}\n{replaces}");
        replaces = format!("  replaces: etcdoperator.v{version}\n");
    }
    for (version, image) in bundles {
        catalog += &format!(
            "---\nschema: olm.bundle\npackage: etcd\nname: etcdoperator.v{version}\nimage: {image}\nproperties:\n\
             - type: olm.package\n  value: {{packageName: etcd, version: {version}}}\n"
        );
    }
    let content = tempfile::tempdir()?;
    fs::create_dir_all(content.path().join("configs/etcd"))?;
    fs::write(content.path().join("configs/etcd/catalog.yaml"), catalog)?;
    let labels = json!({ "operators.operatorframework.io.index.configs.v1": "/configs" });
    registry.push("catalog", json!({ "Labels": labels }), content.path()).map(drop)
}

/// A policy for a namespace that requires signatures of a key without any signature.
fn unmet_policy(ns: &str) -> Result<String> {
    let rule = json!({ "images": [REGISTRY, "localhost"], "anyOf": [{ "key": KeyPair::generate()?.public_key_pem() }] });
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns } });
    let policy = json!({ "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPolicy", "metadata": { "name": "signed" },
        "spec": { "namespaceSelector": selector, "signatures": [rule] } });
    Ok(policy.to_string())
}

/// The machine does not reach the registry: the manager downloads the signatures, and the command line
/// verifies them.
fn t22_a_plan_lists_the_images_and_what_each_lacks(cluster: &Cluster, ns: &str, catalog: &str) -> Result<()> {
    cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&unmet_policy(ns)?))?;
    let out = cluster.olm(&["install", "etcd", "-n", ns, "--catalog", catalog, "--dry-run", "-o", "json"])?;
    let plan: Value = serde_json::from_slice(&out.stdout).with_context(|| format!("{out:?}"))?;
    let found = plan["signatures"].as_array().context("no signatures")?.iter();
    let found: Vec<_> = found.map(|one| (one["role"].as_str(), one["reason"].as_str())).collect();
    let lacks = |role, reason| (Some(role), Some(reason));
    let all = [lacks("catalog", "NotSigned"), lacks("bundle", "NotSigned"), lacks("operator", "NoDigest")];
    ensure!(found == all, "{found:?}: {plan}");
    cluster.kubectl(&["delete", "installpolicy", "signed"]).map(drop)
}

fn t22_a_policy_refusal_is_reported_before_it_is_applied(cluster: &Cluster, ns: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), unmet_policy(ns)?)?;
    let out = cluster.olm(&["policy", "test", "-f", &file.path().display().to_string()])?;
    let text = String::from_utf8_lossy(&out.stdout);
    ensure!(out.status.code() == Some(1) && text.contains("requires a signature of bundle image"), "{out:?}");
    Ok(())
}

/// The registry's name for the manager.
const REGISTRY: &str = "registry.catalog-image.svc.cluster.local:5000";

/// An image in a real registry: read, installed from, polled, and kept when the registry is gone.
#[test]
fn a_catalog_image_is_read_polled_and_kept() {
    const NAME: &str = "a_catalog_image_is_read_polled_and_kept";
    scenario(NAME, async |cluster| {
        for needed in ["docker-registry", "skopeo"] {
            if program(needed).is_none() {
                skipped(NAME, &format!("{needed} is not installed"));
                return Ok(());
            }
        }
        if cluster.data_dir.is_none() {
            skipped(
                NAME,
                "the registry's pod needs files of this machine, and KUBECONFIG names another cluster",
            );
            return Ok(());
        }
        let ns = "catalog-image";
        namespace(&cluster, ns)?;
        // given a registry with a catalog of one version, whose bundle is an image
        let registry = Registry::start().await?;
        let first = push_bundle(&registry, "0.10.0")?;
        push_catalog(&registry, &[("0.10.0", first.clone())])?;
        let config = registry::config("/data", ":5000", "");
        cluster.kubectl(&[
            "create",
            "configmap",
            "config",
            "-n",
            ns,
            &format!("--from-literal=config.yml={config}"),
        ])?;
        let volumes = [
            ("/config", json!({ "configMap": { "name": "config" } })),
            ("/data", json!({ "hostPath": { "path": registry.data(), "type": "Directory" } })),
        ];
        let image = push_registry(&cluster, &registry)?;
        let pod = ("registry", image.as_str());
        let command = ["olm", "serve", "/config/config.yml"];
        serve(&cluster, ns, pod, 5000, &command, &volumes)?;
        // and settings for a registry without TLS
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&example("registries")?))?;

        // when a CatalogSource names it
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&example("image")?))?;
        let status = state(&cluster, ns, "images", "READY").await?;
        // then its status describes the content
        ensure!(status["packages"] == 1, "{status}");
        let resolved = status["resolvedSource"].as_str().unwrap_or_default();
        ensure!(resolved.starts_with(&format!("{REGISTRY}/catalog:latest@sha256:")), "{status}");
        ensure!(
            status["latestImageRegistryPoll"].is_string() && status["lastSuccess"].is_string(),
            "{status}"
        );
        // and no pod was created for it
        let pods = get(&cluster, &["pods", "-n", ns])?;
        ensure!(pods["items"].as_array().is_some_and(|pods| pods.len() == 1), "{pods}");
        let catalog = format!("{ns}/images");
        let out = cluster.olm_ok(&["search", "etcd", "--catalog", &catalog])?;
        ensure!(out.contains("etcd"), "{out}");

        t22_a_plan_lists_the_images_and_what_each_lacks(&cluster, ns, &catalog)?;

        // when it is installed, the manager pulls the bundle's image, also for the plan of the command line
        let plan = cluster.olm_ok(&[
            "install",
            "etcd",
            "-n",
            ns,
            "--catalog",
            &catalog,
            "--dry-run",
            "-o",
            "json",
        ])?;
        ensure!(plan.contains("etcdoperator.v0.10.0"), "{plan}");
        cluster.olm_ok(&[
            "install",
            "etcd",
            "-n",
            ns,
            "--catalog",
            &catalog,
            "--wait",
            "--timeout",
            "60s",
        ])?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.10.0").await?;
        t22_a_policy_refusal_is_reported_before_it_is_applied(&cluster, ns)?;

        // when a new catalog is pushed under the same tag, then a poll finds it, and the operator follows
        let second = push_bundle(&registry, "0.10.1")?;
        push_catalog(&registry, &[("0.10.0", first), ("0.10.1", second)])?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.10.1").await?;

        // when the registry is gone, then the last good copy stays and the status has the cause
        cluster.kubectl(&["delete", "pod", "registry", "-n", ns, "--wait=true"])?;
        let status = state(&cluster, ns, "images", "TRANSIENT_FAILURE").await?;
        ensure!(status["packages"] == 1 && status["reason"] == "RegistryServerError", "{status}");
        let stale = condition(&status, "Stale").context("no condition Stale")?;
        ensure!(stale["status"] == "True" && stale["reason"] == "Unavailable", "{stale}");
        ensure!(condition(&status, "Ready").is_some_and(|c| c["status"] == "True"), "{status}");
        let out = cluster.olm_ok(&["search", "etcd", "--catalog", &catalog])?;
        ensure!(out.contains("etcd"), "{out}");

        // when the manager is killed meanwhile, then it serves the copy on its disk
        let manager = || -> Result<Value> {
            let pods = get(&cluster, &["pods", "-n", "olm", "-l", "app.kubernetes.io/name=olm-manager"])?;
            Ok(pods["items"][0].clone())
        };
        let restarts = || -> Result<i64> {
            let restarts = &manager()?["status"]["containerStatuses"][0]["restartCount"];
            restarts.as_i64().context("no container")
        };
        let before = restarts()?;
        let name = manager()?["metadata"]["name"].as_str().context("a name")?.to_owned();
        cluster.olm_ok(&["dev", "fault", "kill", &name, "-n", "olm"])?;
        eventually("the catalog from the disk", LIMIT, async || {
            ensure!(restarts()? > before, "it was not killed");
            let out = cluster.olm_ok(&["show", "etcd", "--catalog", &catalog])?;
            Ok(out.contains("0.10.1").then_some(()))
        })
        .await?;

        // when it is back, the state recovers
        serve(&cluster, ns, pod, 5000, &command, &volumes)?;
        let status = state(&cluster, ns, "images", "READY").await?;
        ensure!(condition(&status, "Stale").is_none() && status["message"].is_null(), "{status}");

        // when the image does not exist, the old content stays, and the cause is reported with the image
        let patch = format!(r#"{{"spec":{{"image":"{REGISTRY}/none:v1"}}}}"#);
        cluster.kubectl(&["patch", "catalogsource", "images", "-n", ns, "--type=merge", "-p", &patch])?;
        let status = state(&cluster, ns, "images", "TRANSIENT_FAILURE").await?;
        ensure!(
            status["message"].as_str().is_some_and(|m| m.contains("none:v1") && m.contains("not found")),
            "{status}"
        );
        cluster.kubectl(&["delete", "configmap", "olm-registries", "-n", "olm"])?;
        delete_namespace(&cluster, ns)
    });
}

/// Manifests of bundles in a ConfigMap, the format before catalog images.
fn legacy_catalog(versions: &[&str]) -> Result<Value> {
    let read = |version: &str, part: &str| -> Result<Value> {
        let folder = root().join("bundles/etcd").join(version).join("manifests");
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.to_string_lossy().contains(part) {
                return Ok(serde_yaml::from_str(&fs::read_to_string(path)?)?);
            }
        }
        bail!("no {part} in {}", folder.display())
    };
    let last = versions.last().context("no version")?;
    let csvs = versions.iter().map(|v| read(v, "clusterserviceversion")).collect::<Result<Vec<_>>>()?;
    let package = json!([{
        "packageName": "etcd-map", "defaultChannel": "stable",
        "channels": [{ "name": "stable", "currentCSV": format!("etcdoperator.v{last}") }],
    }]);
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "operators", "namespace": "catalog-map" },
        "data": {
            "packages": package.to_string(),
            "clusterServiceVersions": Value::Array(csvs).to_string(),
            "customResourceDefinitions": json!([read(last, "crd")?]).to_string(),
        },
    }))
}

#[test]
fn a_catalog_in_a_config_map_is_read_and_followed() {
    scenario("a_catalog_in_a_config_map_is_read_and_followed", async |cluster| {
        let ns = "catalog-map";
        namespace(&cluster, ns)?;
        // given a CatalogSource whose ConfigMap is not there yet
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&example("configmap")?))?;
        let status = state(&cluster, ns, "in-a-map", "TRANSIENT_FAILURE").await?;
        ensure!(status["reason"] == "ConfigMapError", "{status}");
        ensure!(
            status["message"].as_str().is_some_and(|m| m.contains("operators") && m.contains(ns)),
            "{status}"
        );
        // when it is created, then its packages are served
        cluster.kubectl_in(&["create", "-f", "-"], Some(&legacy_catalog(&["0.10.0"])?.to_string()))?;
        let status = state(&cluster, ns, "in-a-map", "READY").await?;
        ensure!(status["packages"] == 1 && status["configMapReference"]["name"] == "operators", "{status}");
        let before = status["digest"].clone();
        // when it changes, then so does the catalog
        cluster
            .kubectl_in(&["replace", "-f", "-"], Some(&legacy_catalog(&["0.10.0", "0.10.1"])?.to_string()))?;
        eventually("the new version", LIMIT, async || {
            let out = cluster.olm_ok(&["show", "etcd-map"])?;
            ensure!(out.contains("0.10.1"), "{out}");
            Ok(Some(()))
        })
        .await?;
        ensure!(get(&cluster, &["catalogsource", "in-a-map", "-n", ns])?["status"]["digest"] != before);
        // when catalogs are refreshed whose status does not report each read, then the wait ends with the read
        for catalog in [format!("{ns}/in-a-map"), "olm/community".to_owned()] {
            let wait = ["catalog", "refresh", &catalog, "--wait", "--timeout", "3m", "-o", "name"];
            let out = cluster.olm_ok(&wait)?;
            ensure!(out.trim() == catalog, "{out}");
            let (ns, name) = catalog.split_once('/').context("a name")?;
            let source = get(&cluster, &["catalogsource", name, "-n", ns])?;
            let requested = &source["metadata"]["annotations"]["olm.refreshRequested"];
            ensure!(
                requested.is_string() && source["status"]["lastHandledRefresh"] == *requested,
                "{source}"
            );
        }
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn a_catalog_on_a_web_server_is_asked_for_by_etag() {
    scenario("a_catalog_on_a_web_server_is_asked_for_by_etag", async |cluster| {
        let ns = "catalog-web";
        namespace(&cluster, ns)?;
        // given a catalog on a server with entity tags
        web_server(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&example("http")?))?;
        let status = state(&cluster, ns, "on-the-web", "READY").await?;
        ensure!(status["packages"] == 1, "{status}");
        cluster.olm_ok(&["show", "etcd", "--catalog", &format!("{ns}/on-the-web")])?;
        // when it is polled again, then it is unchanged
        let first = status["lastSuccess"].clone();
        eventually("another look", LIMIT, async || {
            let now = get(&cluster, &["catalogsource", "on-the-web", "-n", ns])?;
            Ok((now["status"]["lastSuccess"] != first && now["status"]["digest"] == status["digest"])
                .then_some(()))
        })
        .await?;
        // when the page is gone, then that is reported
        let patch = r#"{"spec":{"url":"http://server.catalog-web.svc:8080/catalogs/nothing/api/v1/all"}}"#;
        cluster.kubectl(&["patch", "catalogsource", "on-the-web", "-n", ns, "--type=merge", "-p", patch])?;
        let status = state(&cluster, ns, "on-the-web", "TRANSIENT_FAILURE").await?;
        ensure!(status["message"].as_str().is_some_and(|m| m.contains("not found")), "{status}");
        ensure!(status["packages"] == 1, "the last good copy is gone: {status}");
        // when the CatalogSource is deleted, then its packages are removed
        cluster.kubectl(&["delete", "catalogsource", "on-the-web", "-n", ns])?;
        eventually("the copy to go", LIMIT, async || {
            Ok(cluster
                .olm_ok(&["show", "etcd", "--catalog", &format!("{ns}/on-the-web")])
                .is_err()
                .then_some(()))
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn a_catalog_server_is_read_over_grpc() {
    scenario("a_catalog_server_is_read_over_grpc", async |cluster| {
        let ns = "catalog-grpc";
        namespace(&cluster, ns)?;
        // given a catalog server in its own pod
        let file = root().join("catalog/data/etcd/catalog.yaml");
        let from = format!("--from-file={}", file.display());
        cluster.kubectl(&["create", "configmap", "content", "-n", ns, &from])?;
        let command =
            ["olm", "catalog", "serve", "/content", "--address", "0.0.0.0:8080", "--grpc", "0.0.0.0:50051"];
        serve(
            &cluster,
            ns,
            ("server", OLM),
            50051,
            &command,
            &[("/content", json!({ "configMap": { "name": "content" } }))],
        )?;
        // when a CatalogSource names its address
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&example("address")?))?;
        // then its packages are served, with every channel and version
        let status = state(&cluster, ns, "behind-grpc", "READY").await?;
        ensure!(status["packages"] == 1, "{status}");
        let out = cluster.olm_ok(&["show", "etcd", "--catalog", &format!("{ns}/behind-grpc")])?;
        ensure!(out.contains("singlenamespace-alpha") && out.contains("0.10.1"), "{out}");
        // when it is gone, then the copy stays
        cluster.kubectl(&["delete", "pod", "server", "-n", ns, "--wait=true"])?;
        let status = state(&cluster, ns, "behind-grpc", "TRANSIENT_FAILURE").await?;
        ensure!(status["packages"] == 1, "{status}");
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn what_is_wrong_with_a_spec_is_in_the_status() {
    scenario("what_is_wrong_with_a_spec_is_in_the_status", async |cluster| {
        let ns = "catalog-wrong";
        namespace(&cluster, ns)?;
        for (name, spec, reason, part) in [
            ("floppy", json!({ "sourceType": "floppy" }), "SpecInvalidError", "unknown sourcetype: floppy"),
            ("empty", json!({ "sourceType": "grpc" }), "SpecInvalidError", "image and address unset"),
            (
                "name",
                json!({ "sourceType": "grpc", "image": "UPPER/case" }),
                "RegistryServerError",
                "UPPER/case",
            ),
            (
                "disk",
                json!({ "sourceType": "directory", "directory": "/etc" }),
                "SpecInvalidError",
                "namespace olm",
            ),
        ] {
            let source = json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                "metadata": { "name": name, "namespace": ns }, "spec": spec,
            });
            cluster.kubectl_in(&["apply", "-f", "-"], Some(&source.to_string()))?;
            let status = state(&cluster, ns, name, "TRANSIENT_FAILURE").await?;
            ensure!(status["reason"] == reason, "{name}: {status}");
            ensure!(status["message"].as_str().is_some_and(|m| m.contains(part)), "{name}: {status}");
        }
        // A missing directory is named with the error.
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&example("directory")?))?;
        let status = state(&cluster, "olm", "local", "TRANSIENT_FAILURE").await?;
        ensure!(
            status["message"].as_str().is_some_and(|m| m.contains("/catalogs/local: No such file")),
            "{status}"
        );
        cluster.kubectl(&["delete", "catalogsource", "local", "-n", "olm"])?;
        // One with an invalid interval is still read.
        web_server(&cluster, ns)?;
        let url = format!("http://server.{ns}.svc:8080/catalogs/catalog/api/v1/all");
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": "soon", "namespace": ns },
            "spec": {
                "sourceType": "http", "url": url,
                "updateStrategy": { "registryPoll": { "interval": "soon" } },
            },
        });
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&source.to_string()))?;
        let status = state(&cluster, ns, "soon", "READY").await?;
        ensure!(status["reason"] == "InvalidIntervalError", "{status}");
        delete_namespace(&cluster, ns)
    });
}
