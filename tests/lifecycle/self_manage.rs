//! `olm self`: installs, inspects, upgrades and removes the product itself, with the command that cargo built
//! and the API of the scenario. The objects are the real ones; their pods are simulated, so no manager runs.

use std::{collections::BTreeSet, process::Output};

use anyhow::{Context as _, Result, ensure};
use olm_engine::site::{CONSOLE, MANAGER, NAMESPACE_VARIABLE};
use olm_ops::manifests::{
    LOCAL_IMAGES, ManifestOptions, VERSION, VERSION_LABEL, for_server, installation::OPTIONS_ANNOTATION,
    manifests,
};
use olm_tests::{
    cluster,
    inprocess::{Faults, OLM, Registry, Served, World, text},
};
use serde_json::{Value, json};

use crate::{op, run_with_olm};

/// In an on-premises registry.
pub(crate) const IMAGE: &str = "registry.example/olm:1";
const NOT_INSTALLED: &str = "olm is not installed on this cluster";

/// A cluster, and the administrator's access to it.
pub(crate) struct Desk {
    pub(crate) world: World,
    admin: Served,
    /// API calls of the commands.
    calls: Faults,
}

impl Desk {
    /// Runs `olm self` without a terminal.
    async fn olm(&self, args: &[&str]) -> Result<Output> {
        let mut command = cluster::olm();
        command.env_remove(NAMESPACE_VARIABLE).arg("--kubeconfig").arg(&self.admin.kubeconfig);
        command.arg("self").args(args);
        tokio::task::spawn_blocking(move || cluster::run(command, None)).await?
    }

    /// Its standard output; it must succeed.
    pub(crate) async fn done(&self, args: &[&str]) -> Result<String> {
        let out = self.olm(args).await?;
        let error = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "olm self {args:?}: {}: {error}", out.status);
        Ok(String::from_utf8(out.stdout)?)
    }

    /// It must end with this code and this text on standard error.
    async fn ends(&self, code: i32, words: &str, args: &[&str]) -> Result<()> {
        let out = self.olm(args).await?;
        let error = String::from_utf8_lossy(&out.stderr);
        let fits = out.status.code() == Some(code) && error.contains(words);
        ensure!(fits, "olm self {args:?}, not {code} with `{words}`: {}: {error}", out.status);
        Ok(())
    }

    /// It must be refused with these words, before anything is written.
    pub(crate) async fn refused(&self, words: &str, args: &[&str]) -> Result<()> {
        let from = self.calls.count();
        self.ends(4, words, args).await?;
        let writes = self.calls.writes_since(from);
        ensure!(writes.is_empty(), "olm self {args:?} was refused and wrote {writes:?}");
        Ok(())
    }

    /// The status; the exit code is 1 where it is not ready.
    pub(crate) async fn status(&self) -> Result<Value> {
        let out = self.olm(&["status", "-o", "json"]).await?;
        let status: Value = serde_json::from_slice(&out.stdout)?;
        let expected = if status["ready"] == true { 0 } else { 1 };
        ensure!(out.status.code() == Some(expected), "{}: {status}", out.status);
        Ok(status)
    }

    /// As if installed by another version.
    pub(crate) async fn made_by(&self, version: &str) -> Result<()> {
        let label = json!({ "metadata": { "labels": { (VERSION_LABEL): version } } });
        self.world.patch("Deployment", OLM, MANAGER, &label).await.map(drop)
    }

    /// The installing version, the manager's Deployment and its container.
    pub(crate) async fn manager(&self) -> Result<(String, Value, Value)> {
        let manager = self.world.get("Deployment", OLM, MANAGER).await?;
        let version = text(&manager, "/metadata/labels/app.kubernetes.io~1version").to_owned();
        let container = manager["spec"]["template"]["spec"]["containers"][0].clone();
        Ok((version, manager, container))
    }
}

/// Runs a scenario where the command exists.
pub(crate) fn desk<F>(name: &str, body: F)
where
    F: AsyncFnOnce(Desk) -> Result<()>,
{
    run_with_olm(name, async move {
        let world = World::bare().await?;
        let calls = Faults::new();
        let admin = world.serve_as_admin(&calls)?;
        body(Desk { world, admin, calls }).await
    });
}

/// Installing waits until all pods are ready; a second run changes nothing; missing objects are reported, and
/// recreated.
#[test]
fn installing_waits_and_twice_changes_nothing() {
    desk("installing_waits_and_twice_changes_nothing", async |desk| {
        let world = &desk.world;
        desk.ends(3, NOT_INSTALLED, &["status"]).await?;
        // and commands that need the manager report the same
        for args in [&["install", "a"][..], &["plan", "install", "a"]] {
            let (out, error) = desk.admin.olm(args).await?;
            let fits = error.contains(NOT_INSTALLED) && error.contains("olm self install");
            ensure!(out.is_empty() && fits, "olm {args:?}: {out}{error}");
        }
        // when its pods run and never become ready
        let never = "registry.example/olm:never-ready";
        desk.done(&["install", "--image", never, "--no-wait"]).await?;
        let late = "olm-manager is ready: timed out after";
        desk.ends(6, late, &["install", "--image", never, "--timeout", "1s"]).await?;
        ensure!(desk.status().await?["ready"] == false, "it is ready without pods");
        // when that is fixed, then it is ready when the command ends
        let reported = desk.done(&["install", "--image", IMAGE]).await?;
        ensure!(reported == format!("olm {VERSION} is installed in namespace olm.\n"), "{reported}");
        for name in [MANAGER, CONSOLE] {
            let deployment = world.get("Deployment", OLM, name).await?;
            let status = &deployment["status"];
            ensure!(status["updatedReplicas"] == 1 && status["availableReplicas"] == 1, "{name}: {status}");
        }
        // and a second run changes nothing
        let before = world.snapshot().await?;
        desk.done(&["install", "--image", IMAGE]).await?;
        let changed = before.differences(&world.snapshot().await?);
        ensure!(changed.is_empty(), "{changed:?}");
        let reported = desk.done(&["status"]).await?;
        let first = format!("olm {VERSION} in namespace olm: ready\nleader:  none\n");
        ensure!(reported.starts_with(&first), "{reported}");
        // when one leads, and a Service is deleted
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": MANAGER, "namespace": OLM }, "spec": { "holderIdentity": "olm-manager-0" } });
        world.apply(&lease).await?;
        world.delete("Service", OLM, MANAGER).await?;
        let status = desk.status().await?;
        ensure!(status["leader"] == "olm-manager-0" && status["ready"] == false, "{status}");
        ensure!(status["missing"] == json!(["Service olm/olm-manager"]), "{status}");
        desk.done(&["upgrade"]).await?;
        let status = desk.status().await?;
        ensure!(status["ready"] == true && status["missing"] == json!([]), "{status}");
        Ok(())
    });
}

/// An upgrade keeps the options of the installation, its image too, applies new ones, and removes disabled
/// parts.
#[test]
fn an_upgrade_keeps_the_choices() {
    desk("an_upgrade_keeps_the_choices", async |desk| {
        let world = &desk.world;
        // given options, with an older version
        let chosen = ["install", "--image", IMAGE, "--replicas", "2", "--requests", "cpu=20m,memory=48Mi"];
        let requests = json!({ "cpu": "20m", "memory": "48Mi" });
        desk.done(&chosen).await?;
        desk.made_by("0.0.1").await?;
        // when
        desk.done(&["upgrade", "--console=false", "--network-policy=false"]).await?;
        // then they are unchanged
        let (version, manager, container) = desk.manager().await?;
        ensure!(version == VERSION && manager["spec"]["replicas"] == 2, "{manager}");
        ensure!(container["image"] == IMAGE && container["resources"]["requests"] == requests, "{container}");
        world.get("PodDisruptionBudget", OLM, MANAGER).await?;
        // and disabled parts are removed
        for kind in ["Deployment", "Service", "ServiceAccount", "NetworkPolicy"] {
            world.gone(kind, OLM, CONSOLE).await?;
        }
        world.gone("NetworkPolicy", OLM, MANAGER).await?;
        // when other options are set, then disabled parts stay disabled
        desk.done(&["upgrade", "--image", "registry.example/olm:2", "--replicas", "1"]).await?;
        ensure!(world.find("Deployment", OLM, CONSOLE).await?.is_none(), "the console is back");
        ensure!(world.names("NetworkPolicy", OLM).await?.is_empty(), "the policies are back");
        world.gone("PodDisruptionBudget", OLM, MANAGER).await?;
        let (_, manager, container) = desk.manager().await?;
        ensure!(container["image"] == "registry.example/olm:2", "{container}");
        ensure!(container["resources"]["requests"] == requests, "{container}");
        ensure!(manager["status"]["updatedReplicas"] == 1, "it did not wait: {}", manager["status"]);
        Ok(())
    });
}

/// What the cluster cannot run is refused before anything is written: images for other nodes, and a
/// ServiceMonitor without the Prometheus operator.
#[test]
fn what_the_cluster_cannot_run_is_refused() {
    desk("what_the_cluster_cannot_run_is_refused", async |desk| {
        let world = &desk.world;
        let without = "kind ServiceMonitor of monitoring.coreos.com/v1 is not served by the cluster";
        desk.refused(without, &["install", "--image", IMAGE, "--service-monitor"]).await?;
        // given a registry with images for amd64, and a node of another architecture
        let registry = Registry::start().await?;
        let images = olm_catalog::shipped_images().into_iter().chain([ManifestOptions::default().image]);
        for image in images {
            let name = image.strip_prefix(LOCAL_IMAGES).context("an image of another registry")?;
            let (name, tag) = name.rsplit_once(':').context("an image without a tag")?;
            registry.push_image(&format!("team/{name}"), tag)?;
        }
        let nodes = world.list("Node", "").await?;
        let node = text(nodes.first().context("no node")?, "/metadata/name");
        let of =
            |architecture: &str| json!({ "metadata": { "labels": { "kubernetes.io/arch": architecture } } });
        world.patch("Node", "", node, &of("s390x")).await?;
        // then they are refused
        let target = registry.reference("team");
        let host = target.trim_end_matches("/team");
        let install = ["install", "--registry", &target, "--plain-http", host, "--no-wait"];
        desk.refused("is for amd64, the nodes are s390x", &install).await?;
        // and installed on a node that can run them
        world.patch("Node", "", node, &of("amd64")).await?;
        desk.done(&install).await?;
        let (.., container) = desk.manager().await?;
        ensure!(text(&container, "/image").starts_with(&format!("{target}/olm@sha256:")), "{container}");
        Ok(())
    });
}

fn old_olm(replicas: i32) -> Value {
    let labels = json!({ "app": "olm-operator" });
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "olm-operator", "namespace": "old-olm", "labels": labels },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "olm", "image": "example.invalid/olm:1" }] } } } })
}

/// Two managers revert each other's work, and an older one reverts a newer one's: refused, and nothing is
/// written.
#[test]
fn it_is_not_put_beside_another_nor_over_a_newer_one() {
    desk("it_is_not_put_beside_another_nor_over_a_newer_one", async |desk| {
        let world = &desk.world;
        let runs = |d: &Value| d["status"]["availableReplicas"] == 1;
        desk.ends(3, NOT_INSTALLED, &["upgrade"]).await?;
        // given another OLM
        world.namespace("old-olm").await?;
        world.apply(&old_olm(1)).await?;
        world.until("Deployment", "old-olm", "olm-operator", runs).await?;
        let other = "another OLM is running on this cluster: Deployments old-olm/olm-operator have pods";
        desk.refused(other, &["install", "--image", IMAGE]).await?;
        // when it is stopped, by the command of the hint
        let fix = "stop it with `kubectl scale deployment -n old-olm olm-operator --replicas=0`";
        desk.refused(fix, &["install", "--image", IMAGE]).await?;
        world.apply(&old_olm(0)).await?;
        let stopped = |d: &Value| d["status"]["replicas"].as_u64().unwrap_or(0) == 0;
        world.until("Deployment", "old-olm", "olm-operator", stopped).await?;
        desk.done(&["install", "--image", IMAGE]).await?;
        // then there is no second one elsewhere
        let here = "olm is installed in namespace olm, not in elsewhere";
        desk.refused(here, &["install", "-n", "elsewhere"]).await?;
        // and none over a newer one, unless forced
        desk.made_by("99.0.0").await?;
        let newer = format!("the installed version 99.0.0 is newer than this program ({VERSION})");
        desk.refused(&newer, &["install"]).await?;
        desk.refused(&newer, &["upgrade"]).await?;
        desk.done(&["upgrade", "--allow-downgrade"]).await?;
        let (version, ..) = desk.manager().await?;
        ensure!(version == VERSION, "{version}");
        // and none over unknown options, as Helm's
        let unknown = json!({ "metadata": { "annotations": { (OPTIONS_ANNOTATION): null } } });
        world.patch("Deployment", OLM, MANAGER, &unknown).await?;
        desk.refused("has no recorded settings", &["upgrade"]).await?;
        // when the other one returns
        world.apply(&old_olm(1)).await?;
        world.until("Deployment", "old-olm", "olm-operator", runs).await?;
        desk.refused(other, &["upgrade"]).await?;
        let status = desk.status().await?;
        ensure!(status["rival"]["deployments"] == json!(["old-olm/olm-operator"]), "{status}");
        Ok(())
    });
}

/// The name of an object in the output of uninstall; CustomResourceDefinitions and the namespace are
/// separate.
fn removed(object: &Value) -> Option<String> {
    let fields = ["/kind", "/metadata/namespace", "/metadata/name"];
    let [kind, namespace, name] = fields.map(|field| text(object, field));
    let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    (!["Namespace", "CustomResourceDefinition"].contains(&kind)).then(|| format!("{kind} {place}"))
}

/// The manager is deleted before its rights; deleted objects are counted; users' objects stay, unless
/// requested otherwise.
#[test]
fn uninstalling_removes_what_was_installed() {
    desk("uninstalling_removes_what_was_installed", async |desk| {
        let world = &desk.world;
        let crds = olm_api::crds().len();
        desk.done(&["install", "--image", IMAGE, "--package-manifests"]).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        let mine = json!({ "name": "mine", "namespace": OLM });
        world.apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": mine })).await?;
        // as a running manager creates it
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": MANAGER, "namespace": OLM }, "spec": { "holderIdentity": "olm-manager-0" } });
        world.apply(&lease).await?;
        // then nothing is done without confirmation, and CustomResourceDefinitions stay while operators exist
        desk.refused("standard input is not a terminal", &["uninstall"]).await?;
        let all = ["uninstall", "--yes", "--delete-crds"];
        desk.refused("the cluster has 1 Subscription and no ClusterServiceVersions", &all).await?;
        world.apply(&op("1.0.0").manifest("ns")).await?;
        world.delete("Subscription", "ns", "a").await?;
        desk.refused("the cluster has no Subscriptions and 1 ClusterServiceVersion", &all).await?;
        // when it is a preview, then it lists the installed objects
        let from = desk.calls.count();
        let reported = desk.done(&["uninstall", "--dry-run"]).await?;
        ensure!(desk.calls.writes_since(from).is_empty(), "it was to change nothing");
        let options = ManifestOptions { package_manifests: true, ..ManifestOptions::default() };
        let installed = for_server(&world.client, manifests(&options)).await?;
        let lease = removed(&lease);
        let installed: BTreeSet<String> = installed.iter().filter_map(removed).chain(lease).collect();
        let listed = reported.lines().filter_map(|line| line.strip_prefix("would remove: "));
        let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
        ensure!(
            installed == listed
                && reported.contains(&format!("would remove {} objects: ", listed.len()))
                && reported.contains("1 Lease, "),
            "{reported}"
        );
        let kept = format!(
            "retained: {crds} CustomResourceDefinitions with 1 ClusterServiceVersion, 1 OperatorGroup \
                (--delete-crds removes them)\n"
        );
        ensure!(reported.contains(&kept), "{reported}");
        // when a pod of the manager terminates slowly, then it has its rights until its end
        let pods = world.list("Pod", OLM).await?;
        let managers = |pod: &&Value| pod["metadata"]["labels"]["app.kubernetes.io/name"] == MANAGER;
        let pod = text(pods.iter().find(managers).context("no pod")?, "/metadata/name");
        let slow = json!({ "metadata": { "finalizers": ["example.com/slow"] } });
        world.patch("Pod", OLM, pod, &slow).await?;
        desk.ends(
            6,
            "timed out after 0s waiting for the deletion of ",
            &["uninstall", "--yes", "--timeout", "0s"],
        )
        .await?;
        for (kind, namespace) in [("Deployment", OLM), ("ServiceAccount", OLM), ("ClusterRoleBinding", "")] {
            world.get(kind, namespace, MANAGER).await?;
        }
        // and no API without a server is left
        world.gone("APIService", "", "v1.packages.operators.coreos.com").await?;
        // when it has ended, then the same command removes the rest as counted, and nothing else
        world.patch("Pod", OLM, pod, &json!({ "metadata": { "finalizers": null } })).await?;
        world.gone("Deployment", OLM, MANAGER).await?;
        world.gone("Deployment", OLM, CONSOLE).await?;
        let reported = desk.done(&["uninstall", "--yes"]).await?;
        let counts =
            reported.lines().find(|line| line.starts_with("removed ") && line.contains(" objects: "));
        let count = format!("removed {} objects: ", listed.len() - 3);
        ensure!(counts.is_some_and(|line| line.starts_with(&count)), "{reported}");
        ensure!(reported.contains(&kept), "{reported}");
        world.gone("Lease", OLM, MANAGER).await?;
        let stays: Vec<&str> =
            reported.lines().filter(|line| line.starts_with("namespace olm retained")).collect();
        ensure!(stays == ["namespace olm retained: it contains ConfigMap olm/mine"], "{reported}");
        let left = world.snapshot().await?.only(|key| key.contains(" olm"));
        let left: Vec<&str> = left.keys().collect();
        let crd = "CustomResourceDefinition.apiextensions.k8s.io olmconfigs.operators.coreos.com";
        let known = ["ConfigMap. olm/mine", crd, "Namespace. olm", "ServiceAccount. olm/default"];
        ensure!(left == known, "{left:?}");
        let namespace = world.get("Namespace", "", OLM).await?;
        ensure!(namespace["metadata"]["deletionTimestamp"].is_null(), "{namespace}");
        // when nothing else is left, then all of it is removed
        desk.ends(3, NOT_INSTALLED, &["uninstall", "--yes"]).await?;
        world.delete("ConfigMap", OLM, "mine").await?;
        world.delete("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        let reported = desk.done(&all).await?;
        let counts = format!(
            "removed: Namespace olm\nremoved {} objects: {crds} CustomResourceDefinitions, 1 Namespace\n",
            crds + 1
        );
        ensure!(reported.ends_with(&counts), "{reported}");
        world.gone("Namespace", "", OLM).await?;
        let left = world.names("CustomResourceDefinition", "").await?;
        ensure!(!left.iter().any(|name| name.ends_with(".operators.coreos.com")), "{left:?}");
        Ok(())
    });
}
