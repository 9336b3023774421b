//! Upgrade and downgrade of olm itself, with an installed operator and a plan that waits for approval.
//!
//! The earlier release is its CustomResourceDefinitions, as `releases` has them, and the other objects of this
//! version under another version label. Objects get the form in which that release stored them: the API server
//! drops the fields that its definitions lack.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use olm_engine::site::NAMESPACE_VARIABLE;
use olm_kube_schema::{Severity, compare};
use olm_manager::Options;
use olm_ops::{
    doctor::{self, Code},
    manifests::{self, VERSION, VERSION_LABEL, installation::OPTIONS_ANNOTATION},
};
use olm_tests::{
    cluster,
    inprocess::{Call, Catalog, Fault, Faults, MANAGER, OLM, PATIENCE, World, condition, text},
};
use serde_json::{Value, json};

use crate::{
    faults::rich,
    op, run,
    self_manage::{Desk, IMAGE, desk},
};

/// The CustomResourceDefinitions of the newest recorded release, one a line and without descriptions.
const EARLIER: &str = include_str!("releases/before-0.1.0.jsonl");
/// Its version label.
const EARLIER_VERSION: &str = "0.0.9";
const GROUP: &str = ".operators.coreos.com";
const SUBSCRIPTIONS: &str = "subscriptions.operators.coreos.com";
/// The kinds of the earlier release whose objects have to survive.
const KINDS: [&str; 8] = [
    "CatalogSource",
    "Subscription",
    "InstallPlan",
    "ClusterServiceVersion",
    "OperatorGroup",
    "OperatorCondition",
    "Operator",
    "OLMConfig",
];
/// An object that only the earlier release has.
const FORMER: &str = "olm-former";

fn earlier() -> Result<Vec<Value>> {
    let mut crds: Vec<Value> = EARLIER.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for crd in &mut crds {
        crd["metadata"]["labels"] = json!({ "app.kubernetes.io/part-of": "olm" });
    }
    Ok(crds)
}

/// Replaces the definitions by those of the earlier release, and writes every object and its status once.
/// These writes have no content of their own: an annotation of a CSV would reach the pods of its operator.
async fn store_as_earlier(world: &World) -> Result<()> {
    let crds = earlier()?;
    let known: BTreeSet<&str> = crds.iter().map(|crd| text(crd, "/metadata/name")).collect();
    for name in world.names("CustomResourceDefinition", "").await? {
        if name.ends_with(GROUP) && !known.contains(name.as_str()) {
            world.delete("CustomResourceDefinition", "", &name).await?;
            world.gone("CustomResourceDefinition", "", &name).await?;
        }
    }
    manifests::apply(&world.client, &crds).await?;
    for kind in KINDS {
        for object in world.list(kind, "").await? {
            let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            world.patch(kind, namespace, name, &json!({})).await?;
            world.patch_status(kind, namespace, name, &json!({})).await?;
        }
    }
    Ok(())
}

/// The installation as the earlier release left it: its label, an object that this version does not have, and
/// without one that this version added.
async fn installed_by_earlier(desk: &Desk) -> Result<()> {
    store_as_earlier(&desk.world).await?;
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": FORMER, "namespace": OLM, "labels": { "app.kubernetes.io/part-of": "olm" } },
        "spec": { "selector": { "app": FORMER }, "ports": [{ "port": 80 }] } });
    desk.world.apply(&service).await?;
    desk.world.delete("NetworkPolicy", OLM, MANAGER).await?;
    desk.made_by(EARLIER_VERSION).await
}

/// An operator with a Deployment, and the plan of its upgrade, which waits. Returns the plan.
async fn operator_with_a_waiting_plan(world: &World) -> Result<Value> {
    let (one, two) = (rich("1.0.0"), rich("2.0.0"));
    let manager = world.manager("manager-0")?;
    world.publish("catalog", &Catalog::chain(&[&one])).await?;
    world.home("ns").await?;
    world.subscribe_with("ns", "a", |spec| spec["installPlanApproval"] = "Manual".into()).await?;
    let first = world.waiting_plan("ns", &[]).await?;
    let first = text(&first, "/metadata/name");
    world.approve("ns", first).await?;
    world.csv("ns", &one.name, "Succeeded").await?;
    world.publish("catalog", &Catalog::chain(&[&one, &two])).await?;
    let plan = world.waiting_plan("ns", &[first]).await?;
    world.quiet().await?;
    manager.stop().await?;
    Ok(plan)
}

/// What must be the same after an upgrade: the objects of users and operators, and the pods of operators.
async fn state(world: &World) -> Result<BTreeMap<String, Value>> {
    let mut out = BTreeMap::new();
    let operators = ["Deployment", "Pod", "Service", "ServiceAccount", "ConfigMap", "Role", "RoleBinding"];
    let lists = KINDS.map(|kind| (kind, "")).into_iter().chain(operators.map(|kind| (kind, "ns")));
    for (kind, namespace) in lists {
        for object in world.list(kind, namespace).await? {
            let name = format!(
                "{kind} {}/{}",
                text(&object, "/metadata/namespace"),
                text(&object, "/metadata/name")
            );
            let metadata = &object["metadata"];
            let kept = json!({ "uid": metadata["uid"], "generation": metadata["generation"],
                "spec": object["spec"], "restarts": object["status"]["containerStatuses"][0]["restartCount"] });
            out.insert(name, kept);
        }
    }
    Ok(out)
}

fn same(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Result<()> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differ = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let differ: Vec<String> =
        differ.map(|name| format!("{name}: {:?} → {:?}", before.get(name), after.get(name))).collect();
    ensure!(differ.is_empty(), "{}", differ.join("\n"));
    Ok(())
}

/// The definitions are those of this version, no object of the installation is missing or changed, and the
/// former one is removed.
async fn upgraded(desk: &Desk) -> Result<()> {
    let world = &desk.world;
    for crd in olm_api::crds() {
        let name = crd.metadata.name.unwrap_or_default();
        let storage =
            crd.spec.versions.iter().find(|version| version.storage).context("a storage version")?;
        let live = world.get("CustomResourceDefinition", "", &name).await?;
        ensure!(live["status"]["storedVersions"] == json!([storage.name]), "{name}: {}", live["status"]);
        ensure!(live["metadata"]["labels"][VERSION_LABEL] == VERSION, "{name}: {}", live["metadata"]);
    }
    let codes = [Code::CrdMissing, Code::CrdOutdated, Code::CrdDiffers, Code::InstallationDiffers];
    let report = doctor::examine(&world.client, None).await;
    let problems: Vec<_> = report.problems.iter().filter(|problem| codes.contains(&problem.code)).collect();
    ensure!(problems.is_empty(), "{problems:?}");
    let (version, ..) = desk.manager().await?;
    ensure!(version == VERSION, "{version}");
    ensure!(world.find("Service", OLM, FORMER).await?.is_none(), "{FORMER} is there");
    let status = desk.status().await?;
    ensure!(status["ready"] == true && status["missing"] == json!([]), "{status}");
    Ok(())
}

const INSTALL: [&str; 5] = ["install", "--image", IMAGE, "--console=false", "--shipped-catalog=false"];

/// Operators are not restarted, objects keep their content, and the plan that waited is applied as approved.
#[test]
fn an_upgrade_restarts_no_operator_and_keeps_plans() {
    desk("an_upgrade_restarts_no_operator_and_keeps_plans", async |desk| {
        let world = &desk.world;
        // given
        desk.done(&INSTALL).await?;
        let plan = operator_with_a_waiting_plan(world).await?;
        let plan = text(&plan, "/metadata/name");
        installed_by_earlier(&desk).await?;
        let csv = world.get("ClusterServiceVersion", "ns", "a.v1.0.0").await?;
        ensure!(
            condition(&csv, "Ready").is_none(),
            "not as the earlier release stored it: {}",
            csv["status"]
        );
        let before = state(world).await?;
        ensure!(before.keys().any(|name| name.starts_with("Pod ns/a-")), "{:?}", before.keys());

        // when
        desk.done(&["upgrade"]).await?;
        let manager = world.manager("manager-1")?;
        let reported = |csv: &Value| condition(csv, "Ready").is_some_and(|c| c["status"] == "True");
        world.until("ClusterServiceVersion", "ns", "a.v1.0.0", reported).await?;
        world.quiet().await?;

        // then
        upgraded(&desk).await?;
        same(&before, &state(world).await?)?;
        let waiting = world.get("InstallPlan", "ns", plan).await?;
        ensure!(text(&waiting, "/status/phase") == "RequiresApproval", "{}", waiting["status"]);
        // and when the plan is approved, then it is applied and no other one
        world.approve("ns", plan).await?;
        world.installed("ns", "a", "a.v2.0.0").await?;
        let applied = world.get("InstallPlan", "ns", plan).await?;
        ensure!(text(&applied, "/status/phase") == "Complete", "{}", applied["status"]);
        ensure!(world.names("InstallPlan", "ns").await?.len() == 2, "another plan was made");
        manager.stop().await
    });
}

/// A newer version is replaced only on request, and never where objects would be damaged.
#[test]
fn a_downgrade_is_refused_where_objects_would_be_damaged() {
    desk("a_downgrade_is_refused_where_objects_would_be_damaged", async |desk| {
        let world = &desk.world;
        let downgrade = ["upgrade", "--allow-downgrade"];
        // given an installation by a newer version, with a field and a setting that this one does not have
        desk.done(&INSTALL).await?;
        operator_with_a_waiting_plan(world).await?;
        let before = state(world).await?;
        let crd = world.get("CustomResourceDefinition", "", SUBSCRIPTIONS).await?;
        let mut versions = crd["spec"]["versions"].clone();
        let fields = "/0/schema/openAPIV3Schema/properties/spec/properties";
        versions.pointer_mut(fields).context("a schema")?["newer"] = json!({ "type": "string" });
        let define = async |versions: &Value| {
            let patch = json!({ "metadata": { "labels": { (VERSION_LABEL): "99.0.0" } }, "spec": { "versions": versions } });
            world.patch("CustomResourceDefinition", "", SUBSCRIPTIONS, &patch).await
        };
        define(&versions).await?;
        let (_, manager, _) = desk.manager().await?;
        let recorded = text(&manager, "/metadata/annotations/olm.installOptions");
        let mut options: Value = serde_json::from_str(recorded)?;
        options["audit"] = "verbose".into();
        let annotation = json!({ (OPTIONS_ANNOTATION): options.to_string() });
        let patch = json!({ "metadata": { "annotations": annotation } });
        world.patch("Deployment", OLM, MANAGER, &patch).await?;

        // then the setting is not dropped silently, nor the version replaced
        desk.refused("settings that version 0", &["upgrade"]).await?;
        desk.made_by("99.0.0").await?;
        desk.refused("the installed version 99.0.0 is newer", &["upgrade"]).await?;
        // nor is a field dropped that an object has
        let set = async |value: Value| {
            let spec = json!({ "spec": { "newer": value } });
            world.patch("Subscription", "ns", "a", &spec).await.map(drop)
        };
        world
            .eventually("the field to be served", async || {
                set("x".into()).await?;
                let subscription = world.get("Subscription", "ns", "a").await?;
                ensure!(subscription["spec"]["newer"] == "x", "{subscription}");
                Ok(())
            })
            .await?;
        desk.refused("Subscription ns/a: .spec.newer: it is dropped", &downgrade).await?;
        set(Value::Null).await?;
        // nor a version removed in which objects are stored
        let mut newer = versions.clone();
        let mut stored = newer[0].clone();
        stored["name"] = "v9".into();
        newer[0]["storage"] = false.into();
        newer.as_array_mut().context("versions")?.push(stored);
        define(&newer).await?;
        desk.refused("objects may be stored as v9", &downgrade).await?;
        let status = json!({ "status": { "storedVersions": ["v1alpha1"] } });
        newer[0]["storage"] = true.into();
        newer[1]["storage"] = false.into();
        define(&newer).await?;
        world.patch_status("CustomResourceDefinition", "", SUBSCRIPTIONS, &status).await?;

        // when nothing is damaged, then it is replaced, and no operator restarts
        desk.done(&downgrade).await?;
        let manager = world.manager("manager-1")?;
        world.quiet().await?;
        upgraded(&desk).await?;
        let crd = world.get("CustomResourceDefinition", "", SUBSCRIPTIONS).await?;
        let properties = crd["spec"]["versions"].pointer(fields).context("a schema")?;
        ensure!(properties.get("newer").is_none(), "{properties}");
        // The field was set and removed, which changed the generation.
        let before = BTreeMap::from_iter(before.into_iter().filter(|(name, _)| name != "Subscription ns/a"));
        let mut after = state(world).await?;
        after.remove("Subscription ns/a");
        same(&before, &after)?;
        manager.stop().await
    });
}

/// Nothing is applied when the API server would refuse a later object.
#[test]
fn what_the_api_server_refuses_is_found_before_the_first_write() {
    desk("what_the_api_server_refuses_is_found_before_the_first_write", async |desk| {
        let world = &desk.world;
        desk.done(&INSTALL).await?;
        // given a policy of the site
        let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "few-replicas" },
            "spec": { "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [{ "apiGroups": ["apps"], "apiVersions": ["*"],
                    "resources": ["deployments"], "operations": ["UPDATE"] }] },
                "validations": [{ "expression": "object.spec.replicas < 3", "message": "at most two replicas" }] } });
        let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": { "name": "few-replicas" },
            "spec": { "policyName": "few-replicas", "validationActions": ["Deny"] } });
        for object in [policy, binding] {
            manifests::apply(&world.client, &[object]).await?;
        }
        world
            .eventually("the policy to be in effect", async || {
                let replicas = |number: u32| json!({ "spec": { "replicas": number } });
                let patched = world.patch("Deployment", OLM, MANAGER, &replicas(3)).await;
                world.patch("Deployment", OLM, MANAGER, &replicas(1)).await?;
                ensure!(patched.is_err(), "it is not in effect");
                Ok(())
            })
            .await?;
        // then objects that would be applied before the Deployment are not applied either
        desk.refused("at most two replicas", &["upgrade", "--replicas", "3"]).await?;
        desk.done(&["upgrade", "--replicas", "2"]).await.map(drop)
    });
}

/// A manager does not work with definitions that drop its fields: the digest of a plan is one of them.
#[test]
fn a_manager_waits_for_the_definitions_of_its_version() {
    run(async {
        // given
        let world = World::bare().await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0")])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        store_as_earlier(&world).await?;
        // when
        let options = Options { leader_election: true, ..world.options("manager-0") };
        let manager = world.manager_with(options)?;
        let reads = |call: &Call| call.path.ends_with("/clusterserviceversions.operators.coreos.com");
        world
            .eventually("the definitions to be read", async || {
                ensure!(world.faults.calls().iter().any(reads), "they were not read");
                Ok(())
            })
            .await?;
        world.quiet().await?;
        // then
        let writes = world.faults.writes_since(0);
        ensure!(writes.is_empty(), "{writes:?}");
        ensure!(world.find("Lease", OLM, MANAGER).await?.is_none(), "it leads");
        // when they are applied
        let objects = manifests::manifests(&manifests::ManifestOptions::default());
        let crds: Vec<Value> =
            objects.into_iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
        manifests::apply(&world.client, &crds).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        manager.stop().await
    });
}

/// The definitions of this version accept what those of the earlier release accepted.
#[test]
fn the_definitions_accept_what_the_earlier_release_stored() {
    let now = olm_api::crds();
    for old in earlier().expect("a recorded release") {
        let name = text(&old, "/metadata/name");
        let new = now.iter().find(|crd| crd.metadata.name.as_deref() == Some(name));
        let new = serde_json::to_value(new).expect("a definition serializes");
        let changes = compare(&old, &new);
        let unsafe_changes: Vec<_> = changes.iter().filter(|c| c.severity != Severity::Safe).collect();
        assert!(unsafe_changes.is_empty(), "{name}: {unsafe_changes:?}");
    }
}

/// Kills `olm self upgrade` at its n-th write; `false` when it ended before.
async fn killed(world: &World, fault: Fault, n: usize) -> Result<bool> {
    let calls = Faults::new();
    let served = world.serve_as_admin(&calls)?;
    let seen = Arc::new(AtomicUsize::new(0));
    calls.add(fault, 1, move |call| call.is_write() && seen.fetch_add(1, Ordering::Relaxed) == n);
    let mut command = cluster::olm();
    command.env_remove(NAMESPACE_VARIABLE).arg("--kubeconfig").arg(&served.kubeconfig);
    command.args(["self", "upgrade"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("failed to start olm (are the binaries built?)")?;
    let start = Instant::now();
    let died = loop {
        let reached = calls.calls().into_iter().filter(Call::is_write).nth(n);
        // One that is killed afterwards has been applied.
        let reached = reached.is_some_and(|call| fault == Fault::KillBefore || call.status.is_some());
        if reached || child.try_wait()?.is_some() || start.elapsed() > PATIENCE {
            break reached;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // An ended one is fine.
    let _ = child.kill();
    child.wait()?;
    Ok(died)
}

/// A second run completes an upgrade that was killed at any write. The normal run takes every sixth write,
/// `make test-long` all of them, before and after they are applied.
#[test]
fn an_upgrade_that_was_killed_is_completed_by_the_next() {
    desk("an_upgrade_that_was_killed_is_completed_by_the_next", async |desk| {
        let world = &desk.world;
        let long = std::env::var_os("OLM_TEST_LONG").is_some();
        // given
        desk.done(&INSTALL).await?;
        operator_with_a_waiting_plan(world).await?;
        let before = state(world).await?;
        let (step, faults) = match long {
            true => (1, vec![Fault::KillBefore, Fault::KillAfter]),
            false => (6, vec![Fault::KillAfter]),
        };
        let mut deaths = 0;
        for fault in faults {
            for n in (0..).step_by(step) {
                installed_by_earlier(&desk).await?;
                // when
                if !killed(world, fault, n).await? {
                    break;
                }
                deaths += 1;
                // then
                let when = || format!("killed {fault:?} {n}");
                desk.done(&["upgrade"]).await.with_context(when)?;
                upgraded(&desk).await.with_context(when)?;
            }
        }
        println!("killed {deaths} times");
        ensure!(deaths > 5, "killed {deaths} times only");
        let manager = world.manager("manager-1")?;
        world.quiet().await?;
        same(&before, &state(world).await?)?;
        manager.stop().await
    });
}
