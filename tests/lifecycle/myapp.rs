//! MyApp, the operator that is written with the kit: it runs in this process with the rights that it describes,
//! and is killed at every write.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use olm_devcluster::api::Identity;
use olm_tests::inprocess::{Call, Fault, Manager, World, condition, text};
use operator_kit::Options;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::run;

const NAMESPACE: &str = "shop";
const NAME: &str = "site";

/// A cluster with the kind and with the rights of the operator, without the operator.
async fn prepared() -> Result<World> {
    let world = World::bare().await?;
    let described = myapp_operator::operator().describe();
    for kind in described["kinds"].as_array().context("kinds")? {
        world.apply(&kind["crd"]).await?;
    }
    let established =
        |crd: &Value| condition(crd, "Established").is_some_and(|condition| condition["status"] == "True");
    world.until("CustomResourceDefinition", "", "myapps.example.com", established).await?;
    let rules: Vec<Value> = myapp_operator::operator()
        .rights()
        .into_iter()
        .map(|right| json!({ "apiGroups": [right.group], "resources": [right.resource], "verbs": right.verbs }))
        .collect();
    world
        .apply(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "myapp-operator" }, "rules": rules }))
        .await?;
    world
        .apply(&json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "myapp-operator" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "myapp-operator" },
            "subjects": [{ "kind": "ServiceAccount", "name": "myapp-operator", "namespace": "default" }] }))
        .await?;
    world.namespace(NAMESPACE).await?;
    Ok(world)
}

fn operator(world: &World, identity: &str, leader_election: bool) -> Result<Manager> {
    let options =
        Options { namespaces: Vec::new(), listen: None, leader_election, identity: identity.to_owned() };
    world.program(
        Identity::service_account("default", "myapp-operator"),
        move |client: Client, stop: CancellationToken| {
            let options = options.clone();
            async move { myapp_operator::operator().run(client, options, stop).await.map_err(anyhow::Error::from) }
        },
    )
}

fn app(replicas: i32) -> Value {
    json!({ "apiVersion": "example.com/v1alpha1", "kind": "MyApp",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "spec": { "replicas": replicas, "image": "myapp:latest" } })
}

fn ready_for(app: &Value, replicas: i32) -> bool {
    condition(app, "Ready").is_some_and(|condition| condition["status"] == "True")
        && app["status"]["readyReplicas"] == replicas
        && app["status"]["observedGeneration"] == app["metadata"]["generation"]
}

/// Waits until the application runs, and checks that it was made once.
async fn settled(world: &World, replicas: i32) -> Result<Value> {
    let app = world.until("MyApp", NAMESPACE, NAME, |app| ready_for(app, replicas)).await?;
    let deployments = world.list("Deployment", NAMESPACE).await?;
    ensure!(deployments.len() == 1, "{} Deployments", deployments.len());
    ensure!(deployments[0]["spec"]["replicas"] == replicas, "{}", deployments[0]["spec"]);
    Ok(app)
}

#[test]
fn an_application_is_created_scaled_left_alone_and_deleted() {
    run(async {
        let world = prepared().await?;
        let operator = operator(&world, "operator-0", true)?;
        world.apply(&app(3)).await?;
        let app_now = settled(&world, 3).await?;
        ensure!(text(&app_now, "/status/selector").contains("app.kubernetes.io/instance=site"), "{app_now}");
        ensure!(condition(&app_now, "Stalled").is_some_and(|c| c["status"] == "False"), "{app_now}");
        let deployment = world.get("Deployment", NAMESPACE, NAME).await?;
        let owner = &deployment["metadata"]["ownerReferences"][0];
        ensure!(owner["uid"] == app_now["metadata"]["uid"] && owner["controller"] == true, "{owner}");
        world.event(NAMESPACE, NAME, "Created").await?;

        // when it is scaled
        world.patch("MyApp", NAMESPACE, NAME, &json!({ "spec": { "replicas": 5 } })).await?;
        settled(&world, 5).await?;
        let scaled = world.get("Deployment", NAMESPACE, NAME).await?;
        ensure!(scaled["metadata"]["uid"] == deployment["metadata"]["uid"], "it was created again");

        // then further reconciliations write nothing
        let from = world.faults.count();
        for _ in 0..3 {
            world.touch("MyApp", NAMESPACE, NAME).await?;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        let writes = world.faults.writes_since(from);
        ensure!(
            writes.is_empty(),
            "{}",
            writes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        );

        // and a change by others is reverted
        world.patch("Deployment", NAMESPACE, NAME, &json!({ "spec": { "replicas": 1 } })).await?;
        world.until("Deployment", NAMESPACE, NAME, |found| found["spec"]["replicas"] == 5).await?;

        let denied: Vec<String> = world
            .faults
            .calls()
            .iter()
            .filter(|call| call.status == Some(403))
            .map(ToString::to_string)
            .collect();
        ensure!(denied.is_empty(), "the described rights do not suffice:\n{}", denied.join("\n"));

        // when it is deleted, also without the operator
        operator.stop().await?;
        world.delete("MyApp", NAMESPACE, NAME).await?;
        world.gone("MyApp", NAMESPACE, NAME).await?;
        world.gone("Deployment", NAMESPACE, NAME).await
    });
}

#[test]
fn a_port_is_immutable_and_limits_hold() {
    run(async {
        let world = prepared().await?;
        world.apply(&app(3)).await?;
        let change = world.patch("MyApp", NAMESPACE, NAME, &json!({ "spec": { "port": 9090 } })).await;
        let error = format!("{:#}", change.err().context("the port was changed")?);
        ensure!(error.contains("the port is immutable"), "{error}");
        let created = world.get("MyApp", NAMESPACE, NAME).await?;
        ensure!(created["spec"]["port"] == 8080, "{created}");
        let change = world.patch("MyApp", NAMESPACE, NAME, &json!({ "spec": { "replicas": -1 } })).await;
        ensure!(change.is_err(), "a negative number of replicas was accepted");
        Ok(())
    });
}

#[test]
fn a_foreign_deployment_of_the_name_is_not_overwritten() {
    run(async {
        let world = prepared().await?;
        let labels = json!({ "app": "other" });
        world
            .create(&json!({ "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": NAME, "namespace": NAMESPACE },
                "spec": { "replicas": 1, "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels },
                        "spec": { "containers": [{ "name": "other", "image": "other:1" }] } } } }))
            .await?;
        let _operator = operator(&world, "operator-0", false)?;
        world.apply(&app(3)).await?;
        let taken = |app: &Value| {
            condition(app, "Ready").is_some_and(|c| c["status"] == "False" && c["reason"] == "NameTaken")
                && condition(app, "Stalled").is_some_and(|c| c["status"] == "True")
        };
        world.until("MyApp", NAMESPACE, NAME, taken).await?;
        let deployment = world.get("Deployment", NAMESPACE, NAME).await?;
        ensure!(deployment["spec"]["selector"]["matchLabels"] == labels, "{deployment}");
        ensure!(deployment["spec"]["replicas"] == 1, "{deployment}");
        ensure!(deployment["metadata"]["ownerReferences"].is_null(), "{deployment}");

        // when the name is free
        world.delete("Deployment", NAMESPACE, NAME).await?;
        settled(&world, 3).await.map(drop)
    });
}

#[test]
fn a_forbidden_kind_is_reported_and_awaited() {
    run(async {
        let world = prepared().await?;
        world.faults.add(Fault::Status(403), usize::MAX, |call| call.path.ends_with("/deployments"));
        let _operator = operator(&world, "operator-0", false)?;
        world.apply(&app(1)).await?;
        let reported = |app: &Value| condition(app, "Ready").is_some_and(|c| c["reason"] == "WatchFailed");
        world.until("MyApp", NAMESPACE, NAME, reported).await?;
        world.faults.heal();
        settled(&world, 1).await.map(drop)
    });
}

#[test]
fn conflicts_expired_watches_and_lost_answers_pass() {
    run(async {
        let world = prepared().await?;
        world.faults.add(Fault::Status(409), 1, |call| call.method == "PATCH" && !call.is_event());
        world.faults.add(Fault::Status(410), 1, Call::is_watch);
        world.faults.add(Fault::LostAnswer, 1, |call| call.path.contains("/deployments/"));
        world.faults.add(Fault::Status(429), 1, |call| call.path.ends_with("/status"));
        let _operator = operator(&world, "operator-0", false)?;
        world.apply(&app(2)).await?;
        settled(&world, 2).await?;
        world.faults.drop_watches();
        world.patch("MyApp", NAMESPACE, NAME, &json!({ "spec": { "replicas": 3 } })).await?;
        settled(&world, 3).await.map(drop)
    });
}

/// Killed at the n-th write; `false` when there was no such write.
async fn killed(fault: Fault, n: usize) -> Result<bool> {
    let world = prepared().await?;
    let seen = Arc::new(AtomicUsize::new(0));
    world.faults.add(fault, 1, move |call| call.is_write() && seen.fetch_add(1, Ordering::Relaxed) == n);
    let first = operator(&world, "operator-0", false)?;
    world.apply(&app(2)).await?;
    let died = tokio::select! {
        () = first.killed() => true,
        done = settled(&world, 2) => {
            done?;
            false
        }
    };
    if !died {
        return Ok(false);
    }
    first.kill();
    world.faults.heal();
    let _next = operator(&world, "operator-1", false)?;
    settled(&world, 2).await.with_context(|| format!("killed {fault:?} write {n}"))?;
    Ok(true)
}

fn killed_at_every_write(fault: Fault) {
    run(async move {
        let mut deaths = 0;
        while killed(fault, deaths).await? {
            deaths += 1;
        }
        // One Deployment, one status and one event are the least.
        ensure!(deaths >= 3, "killed {deaths} times");
        Ok(())
    });
}

#[test]
fn killed_before_each_write() {
    killed_at_every_write(Fault::KillBefore);
}

#[test]
fn killed_after_each_write() {
    killed_at_every_write(Fault::KillAfter);
}
