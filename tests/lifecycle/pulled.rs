//! Pulled catalogs and bundles: from a registry, and from catalog servers.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use olm_engine::catalogs::Registries;
use olm_manager::Options;
use olm_tests::inprocess::{
    Catalog, Manager, OLM, Operator, Registry, World, condition, entry, of_cluster, text,
};
use serde_json::{Value, json};

use crate::{a_crd, op, run};

fn ready(source: &Value) -> bool {
    text(source, "/status/connectionState/lastObservedState") == "READY"
}

/// A registry, and a manager that reaches it.
async fn with_registry(world: &World) -> Result<(Registry, Manager)> {
    let registry = Registry::start().await?;
    let options = Options { registries: registry.settings(world.folder())?, ..world.options("manager-0") };
    Ok((registry, world.manager_with(options)?))
}

/// A catalog that names the images of its bundles and has no manifests.
fn by_image(registry: &Registry, operators: &[&Operator]) -> Catalog {
    let entries: Vec<_> = operators.iter().map(|operator| entry(&operator.name)).collect();
    let catalog = Catalog::new().package("a", "stable").channel("a", "stable", entries);
    operators.iter().fold(catalog, |catalog, operator| {
        let mut document = operator.document();
        let properties = document["properties"].as_array().cloned().unwrap_or_default();
        let kept = properties.into_iter().filter(|property| property["type"] != "olm.bundle.object");
        document["properties"] = kept.collect();
        document["image"] = registry.reference(&format!("{}/bundle:1", operator.package)).into();
        catalog.document(document)
    })
}

/// SUB-19: the bundle is an image; the manager pulls it, and creates neither Job nor ConfigMap for it.
#[test]
fn a_bundle_is_pulled() {
    run(async {
        let world = World::bare().await?;
        let (registry, _manager) = with_registry(&world).await?;
        let a = op("1.0.0").owns(a_crd(&["v1"]));
        registry.push_bundle("a/bundle", "1", &a)?;
        world.publish("catalog", &by_image(&registry, &[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", &a.name).await?;
        world.get("CustomResourceDefinition", "", "as.a.example.com").await?;
        for namespace in ["ns", OLM] {
            let made = world.names("ConfigMap", namespace).await?;
            ensure!(made.iter().all(|name| of_cluster(name)), "{namespace}: {made:?}");
            let pods = world.names("Pod", namespace).await?;
            ensure!(pods.iter().all(|pod| pod.starts_with("a-")), "{namespace}: {pods:?}");
        }
        // once: the content is cached
        let pulled = registry.asked("GET a/bundle/blobs");
        world.delete("Deployment", "ns", "a").await?;
        world.until("Deployment", "ns", "a", |d| d["status"]["availableReplicas"] == 1).await?;
        world.quiet().await?;
        ensure!(registry.asked("GET a/bundle/blobs") == pulled, "pulled again");
        Ok(())
    });
}

/// SUB-24: the image of a bundle does not exist yet. That is reported, with the image; when it is pushed the
/// bundle is installed without user action, and the report is cleared.
#[test]
fn a_bundle_that_is_pushed_late_is_installed() {
    run(async {
        let world = World::bare().await?;
        let (registry, _manager) = with_registry(&world).await?;
        let a = op("1.0.0");
        world.publish("catalog", &by_image(&registry, &[&a])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let image = registry.reference("a/bundle:1");
        let matches = |c: &Value| c["status"] == "True" && text(c, "/message").contains(&image);
        let named = |subscription: &Value| {
            subscription["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(matches))
        };
        world.until("Subscription", "ns", "a", named).await?;
        ensure!(world.list("ClusterServiceVersion", "ns").await?.is_empty(), "half installed");
        registry.push_bundle("a/bundle", "1", &a)?;
        world.installed("ns", "a", &a.name).await?;
        world.until("Subscription", "ns", "a", |subscription| !named(subscription)).await.map(drop)
    });
}

/// CAT-8: an index image, read by its directory of documents: packages are served, and installed from.
#[test]
fn a_catalog_is_pulled() {
    run(async {
        let world = World::bare().await?;
        let (registry, _manager) = with_registry(&world).await?;
        registry.push_catalog("catalogs/a", "1", Catalog::chain(&[&op("1.0.0")]).documents())?;
        world.home("ns").await?;
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": "catalog", "namespace": OLM },
            "spec": { "sourceType": "grpc", "image": registry.reference("catalogs/a:1"),
                "grpcPodConfig": { "extractContent": { "catalogDir": "/configs", "cacheDir": "/tmp/cache" } } },
        });
        world.apply(&source).await?;
        let found = world.until("CatalogSource", OLM, "catalog", ready).await?;
        ensure!(found["status"]["packages"] == 1, "{}", found["status"]);
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await
    });
}

/// CAT-12: the image is computed from a template and the cluster's version; an unresolved placeholder is
/// named.
#[test]
fn a_catalogs_image_follows_the_clusters_version() {
    run(async {
        let world = World::bare().await?;
        let (registry, _manager) = with_registry(&world).await?;
        let version = world.client.apiserver_version().await?;
        let tag = format!("v{}.{}", version.major, version.minor.trim_end_matches('+'));
        registry.push_catalog("catalogs/a", &tag, Catalog::chain(&[&op("1.0.0")]).documents())?;
        let source = |template: &str| {
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                "metadata": { "name": "catalog", "namespace": OLM,
                    "annotations": { "olm.catalogImageTemplate": registry.reference(template) } },
                "spec": { "sourceType": "grpc", "image": registry.reference("catalogs/a:none") },
            })
        };
        world.apply(&source("catalogs/a:v{kube_major_version}.{kube_minor_version}")).await?;
        let reported =
            world.condition("CatalogSource", OLM, "catalog", "ResolvedImage", "AllTemplatesResolved").await?;
        ensure!(
            text(&reported, "/message") == registry.reference(&format!("catalogs/a:{tag}")),
            "{reported}"
        );
        world.until("CatalogSource", OLM, "catalog", ready).await?;
        world.apply(&source("catalogs/a:{kube_major_version}-{moon_phase}")).await?;
        let found = world
            .until("CatalogSource", OLM, "catalog", |source| {
                condition(source, "TemplatesHaveResolved").is_some_and(|c| c["status"] == "False")
            })
            .await?;
        let reported = condition(&found, "TemplatesHaveResolved").context("a condition")?;
        ensure!(text(reported, "/message").contains("moon_phase"), "{reported}");
        Ok(())
    });
}

/// A catalog server in its own process.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(catalog: &Catalog, folder: &Path) -> Result<Self> {
        catalog.write(folder)?;
        // Free at this moment.
        let port = |listener: TcpListener| listener.local_addr().map(|address| address.port());
        let (http, grpc) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
        let (http, grpc) = (port(http)?, port(grpc)?);
        let child = olm_tests::cluster::olm()
            .args(["catalog", "serve"])
            .arg(folder)
            .args(["--address", &format!("127.0.0.1:{http}"), "--grpc", &format!("127.0.0.1:{grpc}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start olm catalog serve (are the binaries built?)")?;
        Ok(Self { child, port: grpc })
    }

    fn source(&self) -> Value {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": { "name": "catalog", "namespace": OLM },
            "spec": { "sourceType": "grpc", "address": format!("127.0.0.1:{}", self.port) },
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A terminated one is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CAT-2, CAT-5: a catalog behind an address; when its server is gone and the address changes, the new
/// server's content is used.
#[test]
fn a_catalog_behind_an_address_moves() {
    run(async {
        let world = World::bare().await?;
        // Servers of the test listen on loopback addresses, which the manager does not connect to unless the site allows it.
        let file = world.folder().join("registries.yaml");
        std::fs::write(&file, "egress: {allow: ['127.0.0.0/8']}\n")?;
        let registries = Registries { file: Some(file), authorities: None };
        let _manager = world.manager_with(Options { registries, ..world.options("manager-0") })?;
        world.home("ns").await?;
        let first = Server::start(&Catalog::chain(&[&op("1.0.0")]), &world.folder().join("first"))?;
        world.apply(&first.source()).await?;
        world.subscribe("ns", "a").await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        // when the server is gone
        drop(first);
        let second =
            Server::start(&Catalog::chain(&[&op("1.0.0"), &op("2.0.0")]), &world.folder().join("second"))?;
        world.apply(&second.source()).await?;
        world.installed("ns", "a", "a.v2.0.0").await
    });
}
