//! Adoption of OLM v0 installations, and coexistence with a running OLM.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use olm_ops::doctor;
use olm_tests::inprocess::{Catalog, OLM, World, text};
use serde_json::{Value, json};

use crate::{a_crd, op, run};

const NS: &str = "operators";
const CSV: &str = "etcdoperator.v0.9.4";
/// Its plan.
const PLAN: &str = "install-t7pct";
/// Kinds with a status that their controllers rewrite.
const OWN_STATUS: [&str; 3] = ["Deployment", "CustomResourceDefinition", "CatalogSource"];

fn data() -> Option<PathBuf> {
    let folder = olm_tests::data().join("olm-v0-installed");
    if folder.is_dir() {
        return Some(folder);
    }
    olm_tests::skipped("adoption", &format!("{} is not there (OLM_SHARED_DATA)", folder.display()));
    None
}

fn items(folder: &std::path::Path, file: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(folder.join(file)).with_context(|| file.to_owned())?;
    let list: Value = serde_yaml::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

fn api(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let (group, version) =
        text(object, "/apiVersion").split_once('/').unwrap_or(("", text(object, "/apiVersion")));
    let kind = text(object, "/kind");
    let plural = format!("{}s", kind.to_lowercase());
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural);
    Ok(match text(object, "/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

/// Creates recorded objects as OLM's programs did, under their field managers, with UIDs of this cluster.
async fn load(world: &World, objects: Vec<Value>, uids: &mut BTreeMap<String, String>) -> Result<()> {
    for mut object in objects {
        let old = text(&object, "/metadata/uid").to_owned();
        if text(&object, "/metadata/name") == "default" || object["kind"] == "ConfigMap" {
            continue;
        }
        let metadata = object["metadata"].as_object_mut().context("metadata")?;
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(key);
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            let new =
                uids.get(text(owner, "/uid")).with_context(|| format!("the owner of {old}: {owner}"))?;
            owner["uid"] = new.as_str().into();
        }
        let api = api(&world.client, &object)?;
        let name = text(&object, "/metadata/name").to_owned();
        let manager = if object["kind"] == "CustomResourceDefinition" { "catalog" } else { "olm" };
        let params = PostParams { field_manager: Some(manager.into()), ..PostParams::default() };
        let made = api.create(&params, &serde_json::from_value(object.clone())?).await;
        let made = made.with_context(|| format!("failed to create {} {name}", object["kind"]))?;
        uids.insert(old, made.metadata.uid.unwrap_or_default());
        if object.get("status").is_some() && !OWN_STATUS.contains(&text(&object, "/kind")) {
            let patch = Patch::Merge(json!({ "status": object["status"] }));
            let params = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
            api.patch_status(&name, &params, &patch).await.with_context(|| format!("status of {name}"))?;
        }
    }
    Ok(())
}

/// The recorded cluster, owners before their objects.
async fn recorded(world: &World, folder: &std::path::Path) -> Result<()> {
    world.namespace(NS).await?;
    let mut uids = BTreeMap::new();
    load(world, items(folder, "crds.yaml")?, &mut uids).await?;
    let all = items(folder, "operators.yaml")?;
    let rank = |object: &Value| match text(object, "/kind") {
        "Subscription" | "OperatorGroup" => 0,
        "ClusterServiceVersion" => 1,
        "OperatorCondition" => 2,
        _ => 3,
    };
    for wanted in 0..=3 {
        load(world, all.iter().filter(|o| rank(o) == wanted).cloned().collect(), &mut uids).await?;
    }
    load(world, items(folder, "cluster.yaml")?, &mut uids).await?;
    load(world, items(folder, "cluster-operators.yaml")?, &mut uids).await
}

/// The recorded catalog, optionally with one more version.
fn catalog(folder: &std::path::Path, newer: bool) -> Result<Catalog> {
    let text_of = std::fs::read_to_string(folder.join("catalog.json"))?;
    let mut documents: Vec<Value> = text_of.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    if newer {
        let last = documents.iter().find(|d| d["name"] == CSV).context("the last version")?.to_string();
        documents.push(serde_json::from_str(&next(&last)?)?);
        let channel = documents.iter_mut().find(|d| d["schema"] == "olm.channel").context("a channel")?;
        let entry = json!({ "name": "etcdoperator.v0.9.5", "replaces": CSV });
        channel["entries"].as_array_mut().context("entries")?.push(entry);
    }
    Ok(documents.into_iter().fold(Catalog::new(), Catalog::document))
}

/// The bundle as its next version: its manifests are base64 within.
fn next(bundle: &str) -> Result<String> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut bundle: Value = serde_json::from_str(&bundle.replace("0.9.4", "0.9.5"))?;
    for property in bundle["properties"].as_array_mut().into_iter().flatten() {
        let Some(data) = property.pointer("/value/data").and_then(Value::as_str) else { continue };
        let text = String::from_utf8(STANDARD.decode(data)?)?;
        let text =
            text.replace("\"replaces\":\"etcdoperator.v0.9.2\"", "\"replaces\":\"etcdoperator.v0.9.4\"");
        let text = text.replace("etcdoperator.v0.9.4\",\"namespace", "etcdoperator.v0.9.5\",\"namespace");
        let mut object: Value = serde_json::from_str(&text)?;
        if object["kind"] == "ClusterServiceVersion" {
            object["metadata"]["name"] = "etcdoperator.v0.9.5".into();
            object["spec"]["version"] = "0.9.5".into();
            object["spec"]["replaces"] = CSV.into();
        }
        property["value"]["data"] = STANDARD.encode(object.to_string()).into();
    }
    Ok(bundle.to_string())
}

/// Whether the API server stores a change of field ownership alone, as Kubernetes does.
async fn stores_owners(world: &World) -> Result<bool> {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owners", "namespace": NS }, "data": { "a": "b" } });
    let api = api(&world.client, &object)?;
    let params = PostParams { field_manager: Some("before".into()), ..PostParams::default() };
    let made = serde_json::to_value(api.create(&params, &serde_json::from_value(object)?).await?)?;
    let mut entries = made["metadata"]["managedFields"].clone();
    entries[0]["manager"] = "after".into();
    let patch = Patch::Merge(json!({ "metadata": { "managedFields": entries } }));
    api.patch("owners", &PatchParams::default(), &patch).await?;
    let now = serde_json::to_value(api.get("owners").await?)?;
    Ok(now["metadata"]["managedFields"][0]["manager"] == "after")
}

/// The whole migration: OLM stopped, our manager started, nothing restarted, and then upgraded.
#[test]
fn an_operator_of_olm_is_adopted_without_a_restart_and_then_upgraded() {
    let Some(folder) = data() else { return };
    run(async move {
        // given OLM's objects, and its running operator
        let world = World::bare().await?;
        recorded(&world, &folder).await?;
        world.publish("etcd-cat", &catalog(&folder, false)?).await?;
        let deployment =
            world.until("Deployment", NS, "etcd-operator", |d| d["status"]["availableReplicas"] == 1).await?;
        let pods = world.names("Pod", NS).await?;
        let csv = world.get("ClusterServiceVersion", NS, CSV).await?;
        ensure!(csv["status"]["phase"] == "Succeeded", "{}", csv["status"]);
        // when
        let _manager = world.manager("manager-0")?;
        world.event(NS, CSV, "Adopted").await?;
        world.until("Subscription", NS, "etcd", |s| s["status"]["state"] == "AtLatestKnown").await?;
        world.quiet().await?;
        // then the version stayed healthy all the time, and no pod was touched
        let now = world.get("ClusterServiceVersion", NS, CSV).await?;
        ensure!(now["status"]["phase"] == "Succeeded", "{}", now["status"]);
        ensure!(
            now["status"]["lastTransitionTime"] == csv["status"]["lastTransitionTime"],
            "{}",
            now["status"]
        );
        ensure!(now["metadata"]["uid"] == csv["metadata"]["uid"], "another version");
        let after = world.get("Deployment", NS, "etcd-operator").await?;
        ensure!(after["metadata"]["uid"] == deployment["metadata"]["uid"], "another Deployment");
        ensure!(
            after["spec"]["template"] == deployment["spec"]["template"],
            "the pods' template changed:\n{}\n{}",
            deployment["spec"]["template"],
            after["spec"]["template"]
        );
        ensure!(world.names("Pod", NS).await? == pods, "pods were restarted");
        // the roles have our names, and OLM's are deleted
        let roles = world.list("Role", NS).await?;
        let of_olm = roles.iter().filter(|r| r["metadata"]["labels"].get("olm.permissions.hash").is_some());
        ensure!(of_olm.count() == 0, "{roles:?}");
        let owned = roles.iter().filter(|r| r["metadata"]["labels"]["olm.owner"] == CSV);
        ensure!(owned.count() >= 1, "the operator has no role");
        // and so are the fields, except for the annotations of pods
        if stores_owners(&world).await? {
            let entries = after["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            let olm = entries.iter().filter(|e| e["manager"] == "olm" && e["subresource"].is_null());
            for entry in olm {
                let spec =
                    entry["fieldsV1"]["f:spec"].as_object().map(|m| m.keys().cloned().collect::<Vec<_>>());
                ensure!(spec == Some(vec!["f:template".to_owned()]), "{entry}");
            }
        } else {
            olm_tests::skipped(
                "who owns the fields",
                "this API server does not store a change of managedFields alone",
            );
        }
        // no plan was made for the existing version
        ensure!(world.names("InstallPlan", NS).await? == [PLAN], "a plan was made");
        // when a newer version is published
        world.publish("etcd-cat", &catalog(&folder, true)?).await?;
        // then it replaces the one that OLM installed, and nothing of that is left
        world.installed(NS, "etcd", "etcdoperator.v0.9.5").await?;
        world.gone("ClusterServiceVersion", NS, CSV).await?;
        world
            .eventually("nothing of the old version to be left", async || {
                for kind in ["Role", "RoleBinding", "OperatorCondition", "Deployment", "ServiceAccount"] {
                    for object in world.list(kind, NS).await? {
                        ensure!(
                            object["metadata"]["labels"]["olm.owner"] != CSV,
                            "{kind} {}",
                            object["metadata"]["name"]
                        );
                        ensure!(object["metadata"]["name"] != CSV, "{kind} {CSV}");
                    }
                }
                Ok(())
            })
            .await?;
        let plans = world.names("InstallPlan", NS).await?;
        ensure!(plans.len() == 2, "{plans:?}");
        Ok(())
    });
}

/// OLM's objects when it was stopped during the recorded plan: that plan in a phase, and the objects of these
/// kinds.
async fn left_open(
    world: &World,
    folder: &std::path::Path,
    approval: &str,
    phase: &str,
    made: &[&str],
) -> Result<()> {
    world.namespace(NS).await?;
    let mut uids = BTreeMap::new();
    if made.contains(&"CustomResourceDefinition") {
        load(world, items(folder, "crds.yaml")?, &mut uids).await?;
    }
    let all = items(folder, "operators.yaml")?;
    // Owners before their objects.
    for kind in ["Subscription", "OperatorGroup", "ClusterServiceVersion", "InstallPlan"] {
        for mut object in all.iter().filter(|o| o["kind"] == kind).cloned() {
            match kind {
                "Subscription" => {
                    object["spec"]["installPlanApproval"] = approval.into();
                    object["status"]["state"] = "UpgradePending".into();
                    if let Some(status) = object["status"].as_object_mut() {
                        status.remove("installedCSV");
                    }
                }
                "InstallPlan" => {
                    object["spec"]["approval"] = approval.into();
                    object["spec"]["approved"] = (phase != "RequiresApproval").into();
                    object["status"]["phase"] = phase.into();
                    if let Some(status) = object["status"].as_object_mut() {
                        status.remove("conditions");
                    }
                    for step in object["status"]["plan"].as_array_mut().into_iter().flatten() {
                        let is_made = made.contains(&text(step, "/resource/kind"));
                        let became = if is_made { "Created" } else { "Unknown" };
                        step["status"] = became.into();
                    }
                }
                // Its account and its rights are still missing.
                "ClusterServiceVersion" => {
                    object["status"] = json!({ "phase": "Pending", "reason": "RequirementsNotMet",
                        "message": "one or more requirements couldn't be found" });
                }
                _ => {}
            }
            if kind != "ClusterServiceVersion" || made.contains(&kind) {
                load(world, vec![object], &mut uids).await?;
            }
        }
    }
    // Only our plans have a digest.
    let plan = world.get("InstallPlan", NS, PLAN).await?;
    ensure!(plan["status"]["phase"] == phase && plan["spec"]["planDigest"].is_null(), "{plan}");
    world.publish("etcd-cat", &catalog(folder, false)?).await
}

/// OLM's plan was not approved, and its content is unknown: our own plan needs approval, and nothing is done
/// before.
#[test]
fn a_plan_of_olm_that_waits_is_replaced_by_one_of_ours() {
    let Some(folder) = data() else { return };
    run(async move {
        // given
        let world = World::bare().await?;
        left_open(&world, &folder, "Manual", "RequiresApproval", &[]).await?;
        // when
        let _manager = world.manager("manager-0")?;
        // then only a plan with a digest waits, in its place
        let ours = world.waiting_plan(NS, &[PLAN]).await?;
        ensure!(text(&ours, "/spec/planDigest").starts_with("sha256:"), "{}", ours["spec"]);
        ensure!(ours["spec"]["clusterServiceVersionNames"] == json!([CSV]), "{}", ours["spec"]);
        ensure!(ours["spec"]["approved"] == false, "it approved itself: {}", ours["spec"]);
        world.gone("InstallPlan", NS, PLAN).await?;
        let name = text(&ours, "/metadata/name");
        world.until("Subscription", NS, "etcd", |s| text(s, "/status/installPlanRef/name") == name).await?;
        world.quiet().await?;
        ensure!(world.names("InstallPlan", NS).await? == [name], "more than one plan");
        ensure!(world.list("ClusterServiceVersion", NS).await?.is_empty(), "installed without approval");
        // when that is approved, then it is applied
        world.approve(NS, name).await?;
        world.installed(NS, "etcd", CSV).await
    });
}

/// A plan started by OLM has no approved digest: it is planned and approved again. An existing version is not
/// replaced.
#[test]
fn a_plan_that_olm_began_is_approved_anew() {
    let Some(folder) = data() else { return };
    // Just started, and in the middle.
    let stages: [&'static [&'static str]; 2] = [&[], &["CustomResourceDefinition", "ClusterServiceVersion"]];
    for made in stages {
        let folder = folder.clone();
        run(async move {
            // given
            let world = World::bare().await?;
            left_open(&world, &folder, "Manual", "Installing", made).await?;
            let csv = world.find("ClusterServiceVersion", NS, CSV).await?;
            ensure!(csv.is_some() == made.contains(&"ClusterServiceVersion"), "{csv:?}");
            // when
            let _manager = world.manager("manager-0")?;
            // then one of ours waits in its place
            let ours = world.waiting_plan(NS, &[PLAN]).await?;
            world.gone("InstallPlan", NS, PLAN).await?;
            world.approve(NS, text(&ours, "/metadata/name")).await?;
            world.installed(NS, "etcd", CSV).await?;
            world.until("Deployment", NS, "etcd-operator", |d| d["status"]["availableReplicas"] == 1).await?;
            world.quiet().await?;
            if let Some(before) = csv {
                let now = world.get("ClusterServiceVersion", NS, CSV).await?;
                ensure!(now["metadata"]["uid"] == before["metadata"]["uid"], "another version");
            }
            for kind in ["etcdclusters", "etcdbackups", "etcdrestores"] {
                let name = format!("{kind}.etcd.database.coreos.com");
                world.get("CustomResourceDefinition", "", &name).await?;
            }
            Ok(())
        });
    }
}

fn olm_operator(replicas: i32) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "olm-operator", "namespace": "old-olm", "labels": { "app": "olm-operator" } },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "olm-operator" } },
            "template": { "metadata": { "labels": { "app": "olm-operator" } },
                "spec": { "containers": [{ "name": "olm", "image": "example.invalid/olm:1" }] } } } })
}

/// Two managers of the same objects revert each other's work: ours waits, and reports why.
#[test]
fn beside_an_olm_that_runs_nothing_is_done() {
    run(async {
        // given a running OLM
        let world = World::bare().await?;
        world.namespace("old-olm").await?;
        world.apply(&olm_operator(1)).await?;
        world
            .until("Deployment", "old-olm", "olm-operator", |d| d["status"]["availableReplicas"] == 1)
            .await?;
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home("ns").await?;
        world.subscribe("ns", "a").await?;
        // when
        let _manager = world.manager("manager-0")?;
        // then it is reported, and nothing is done
        let event = world.event(OLM, "olm-manager", "OtherOLMRunning").await?;
        ensure!(
            text(&event, "/note").contains("kubectl scale deployment -n old-olm olm-operator --replicas=0"),
            "{event}"
        );
        world.quiet().await?;
        ensure!(world.names("InstallPlan", "ns").await?.is_empty(), "it worked beside another OLM");
        let subscription = world.get("Subscription", "ns", "a").await?;
        ensure!(
            subscription.get("status").is_none_or(|s| s.get("conditions").is_none()),
            "{}",
            subscription["status"]
        );
        let other =
            olm_ops::find_other_olm(&world.client).await?.context("it is to be seen by others too")?;
        ensure!(other.deployments == ["old-olm/olm-operator"], "{other:?}");
        let report = doctor::examine(&world.client, None).await;
        ensure!(
            report.problems.iter().any(|a| a.code == doctor::Code::OtherOlmRunning),
            "{:?}",
            report.problems
        );
        // when that is stopped, it starts
        world.apply(&olm_operator(0)).await?;
        world.installed("ns", "a", "a.v1.0.0").await?;
        // and when it returns, it stops
        world.apply(&olm_operator(1)).await?;
        world
            .until("Deployment", "old-olm", "olm-operator", |d| d["status"]["availableReplicas"] == 1)
            .await?;
        world
            .eventually("the manager to report it again", async || {
                let events = world.list("Event", OLM).await?;
                let reported = events.iter().filter(|e| e["reason"] == "OtherOLMRunning");
                let times: i64 = reported.map(|e| e["series"]["count"].as_i64().unwrap_or(1)).sum();
                ensure!(times > 1, "{times}");
                Ok(())
            })
            .await?;
        world.quiet().await?;
        world.delete("Deployment", "ns", "a").await?;
        world.quiet().await?;
        ensure!(
            world.find("Deployment", "ns", "a").await?.is_none(),
            "it put a Deployment back beside another OLM"
        );
        Ok(())
    });
}

/// `olm doctor` finds orphaned objects, and removes those and no others.
#[test]
fn the_doctor_finds_what_was_left_behind() {
    run(async {
        let world = World::bare().await?;
        let (manager, ns) = (world.manager("manager-0")?, "ns");
        world.publish("catalog", &Catalog::chain(&[&op("1.0.0").owns(a_crd(&["v1"]))])).await?;
        world.home(ns).await?;
        world.subscribe(ns, "a").await?;
        world.installed(ns, "a", "a.v1.0.0").await?;
        world.quiet().await?;
        manager.stop().await?;
        let healthy = doctor::examine(&world.client, Some(ns)).await;
        let fixable: Vec<_> = healthy.problems.iter().filter(|a| a.safe_fix.is_some()).collect();
        ensure!(fixable.is_empty(), "{fixable:?}");
        // given a role of a version that is gone, a copy of a version, and two groups
        let labels = json!({ "olm.owner": "gone.v1", "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": ns });
        world
            .apply(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": { "name": "gone.v1-x", "labels": labels }, "rules": [] }))
            .await?;
        world.namespace("watched").await?;
        let mut copy = op("1.0.0").manifest("watched");
        copy["metadata"]["labels"] = json!({ "olm.copiedFrom": ns });
        copy["metadata"]["finalizers"] = json!(["operators.coreos.com/csv-cleanup"]);
        world.apply(&copy).await?;
        let second = json!({ "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": { "name": "second", "namespace": ns }, "spec": {} });
        world.apply(&second).await?;
        // when
        let report = doctor::examine(&world.client, None).await;
        // then each is named
        let found: Vec<(doctor::Code, &str)> =
            report.problems.iter().map(|a| (a.code, a.object.as_deref().unwrap_or_default())).collect();
        for wanted in [
            (doctor::Code::Orphan, "ClusterRole gone.v1-x"),
            (doctor::Code::CopiedCsv, "ClusterServiceVersion watched/a.v1.0.0"),
            (doctor::Code::TooManyOperatorGroups, "Namespace ns"),
        ] {
            ensure!(found.contains(&wanted), "{wanted:?} is not among {found:?}");
        }
        // and the safe fixes are applied
        for problem in &report.problems {
            if let Some(fix) = &problem.safe_fix {
                doctor::apply_fix(&world.client, fix).await?;
            }
        }
        ensure!(world.find("ClusterRole", "", "gone.v1-x").await?.is_none(), "the orphan is there");
        world.gone("ClusterServiceVersion", "watched", "a.v1.0.0").await?;
        ensure!(
            world.find("ClusterServiceVersion", ns, "a.v1.0.0").await?.is_some(),
            "too much was taken away"
        );
        ensure!(
            world.list("OperatorGroup", ns).await?.len() == 2,
            "a group that a person made was taken away"
        );
        Ok(())
    });
}
