//! MyApp, the second shipped operator: the commands of docs/myapp.md, and an upgrade that keeps the objects.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{
    Cluster,
    documents::{Shell, block},
    eventually, root, skipped,
};
use serde_json::Value;

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace},
    scenario,
};

const OLD: &str = "myapp.v0.1.0";
const NEW: &str = "myapp.v0.2.0";
const CRD: &str = "myapps.example.com";
const SAMPLE: &str = "myapp-sample";

/// Whether the nodes have the image of the example, which the dev cluster makes of its own program.
fn has_sample(name: &str, cluster: &Cluster) -> bool {
    if cluster.data_dir.is_none() {
        skipped(name, "image myapp:latest is one of the dev cluster, and KUBECONFIG names another one");
    }
    cluster.data_dir.is_some()
}

fn example() -> Result<String> {
    fs::read_to_string(root().join("operators/myapp/examples/myapp.yaml")).context("the example")
}

/// Waits until all pods of the application are ready; returns the MyApp.
async fn ready(cluster: &Cluster, ns: &str, replicas: i64) -> Result<Value> {
    eventually(&format!("{replicas} pods of {SAMPLE}"), LIMIT, async || {
        let app = get(cluster, &["myapp", SAMPLE, "-n", ns])?;
        let pods = get(cluster, &["pods", "-n", ns, "-l", &format!("app.kubernetes.io/instance={SAMPLE}")])?;
        let count = pods["items"].as_array().context("items")?.len();
        let (status, generation) = (&app["status"], &app["metadata"]["generation"]);
        let is_ready = status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let is_settled = is_ready
            && status["observedGeneration"] == *generation
            && status["readyReplicas"] == replicas
            && i64::try_from(count) == Ok(replicas);
        if is_settled { Ok(Some(app)) } else { bail!("{count} pods, {status}") }
    })
    .await
}

async fn gone(cluster: &Cluster, ns: &str, kinds: &str, selector: &str) -> Result<()> {
    eventually(&format!("no {kinds} with {selector:?} to be left"), LIMIT, async || {
        let list = get(cluster, &[kinds, "-n", ns, "-l", selector])?;
        let left = list["items"].as_array().context("items")?.len();
        if left > 0 { bail!("{left} left") } else { Ok(Some(())) }
    })
    .await
}

/// The transcript of docs/myapp.md.
fn replay(cluster: &Cluster) -> Result<()> {
    let mut shell = Shell::on(cluster)?;
    for step in block("docs/myapp.md", "kubectl apply -n myapp")?.steps {
        // A newer kubectl names the namespace of a deleted object.
        let printed = shell.run(&step.command)?.replace("\" deleted from myapp namespace", "\" deleted");
        ensure!(words(&printed) == words(&step.output), "$ {}\n{printed}", step.command);
    }
    Ok(())
}

/// The words of an output without ages in seconds, which differ.
fn words(text: &str) -> Vec<&str> {
    let is_age = |word: &&str| word.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    text.split_whitespace().filter(|word| !is_age(word)).collect()
}

/// Removes the operator with its objects and its definition, which another version would otherwise share.
async fn uninstall(cluster: &Cluster, ns: &str) -> Result<()> {
    let delete = ["--instances", "delete", "--delete-crds", "--yes"];
    let reported = cluster.olm_ok(&[&["uninstall", "myapp", "-n", ns][..], &delete].concat())?;
    gone(cluster, ns, "subscriptions,csv,deployments,pods", "").await?;
    let left = cluster.try_kubectl(&["get", "crd", CRD], None)?;
    ensure!(!left.status.success(), "{CRD} exists; output of olm uninstall:\n{reported}");
    delete_namespace(cluster, ns)
}

#[test]
fn an_application_is_created_scaled_and_deleted() {
    const NAME: &str = "an_application_is_created_scaled_and_deleted";
    scenario(NAME, async |cluster| {
        if !has_sample(NAME, &cluster) {
            return Ok(());
        }
        let ns = "myapp";
        // given the operator, from the default catalog
        cluster.olm_ok(&["install", "myapp", "-n", ns, "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, NEW).await?;
        replay(&cluster)?;
        let labels = format!("app.kubernetes.io/instance={SAMPLE}");
        gone(&cluster, ns, "deployments,pods", &labels).await?;
        // when the example is applied, then it runs
        let created = cluster.kubectl_in(&["apply", "-n", ns, "-f", "-"], Some(&example()?))?;
        ensure!(created.trim() == "myapp.example.com/myapp-sample created", "{created}");
        ready(&cluster, ns, 3).await?;
        let table = cluster.kubectl(&["get", "myapp", "-n", ns])?;
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let [header, row] = lines.as_slice() else { bail!("expected two lines: {table}") };
        ensure!(header == &["NAME", "AGE", "REPLICAS", "IMAGE"], "{table}");
        ensure!(row.len() == 4 && [row[0], row[2], row[3]] == [SAMPLE, "3", "myapp:latest"], "{table}");
        let deployment = get(&cluster, &["deployment", SAMPLE, "-n", ns])?;
        let owner = &deployment["metadata"]["ownerReferences"][0];
        ensure!(owner["kind"] == "MyApp" && owner["name"] == SAMPLE, "{owner}");
        // and its pods answer
        let pods = get(&cluster, &["pods", "-n", ns, "-l", &labels])?;
        let pod = pods["items"][0]["metadata"]["name"].as_str().context("a pod")?.to_owned();
        let path = format!("/api/v1/namespaces/{ns}/pods/{pod}:8080/proxy/");
        let page =
            eventually("the page", LIMIT, async || cluster.kubectl(&["get", "--raw", &path]).map(Some))
                .await?;
        ensure!(page.trim() == format!("hello from {pod}"), "{page}");

        // when the number of pods changes in the manifest, and by kubectl scale
        let more = example()?.replace("replicas: 3", "replicas: 5");
        let configured = cluster.kubectl_in(&["apply", "-n", ns, "-f", "-"], Some(&more))?;
        ensure!(configured.trim() == "myapp.example.com/myapp-sample configured", "{configured}");
        ready(&cluster, ns, 5).await?;
        cluster.kubectl(&["scale", "myapp/myapp-sample", "-n", ns, "--replicas=2"])?;
        ready(&cluster, ns, 2).await?;
        cluster.kubectl(&[
            "wait",
            "--for=condition=Ready",
            "myapp/myapp-sample",
            "-n",
            ns,
            "--timeout=60s",
        ])?;
        // then it is the same Deployment
        let after = get(&cluster, &["deployment", SAMPLE, "-n", ns])?;
        ensure!(after["metadata"]["uid"] == deployment["metadata"]["uid"], "the Deployment was recreated");

        // when it is deleted, then nothing of it is left, and the operator stays
        let deleted = cluster.kubectl_in(&["delete", "-n", ns, "-f", "-"], Some(&more))?;
        ensure!(deleted.contains("myapp.example.com \"myapp-sample\" deleted"), "{deleted}");
        gone(&cluster, ns, "deployments,replicasets,pods", &labels).await?;
        csv_succeeded(&cluster, ns, NEW).await?;
        uninstall(&cluster, ns).await
    });
}

/// The field of the new version has its default in objects of the old one.
#[test]
fn an_upgrade_of_myapp_keeps_objects_and_pods() {
    const NAME: &str = "an_upgrade_of_myapp_keeps_objects_and_pods";
    scenario(NAME, async |cluster| {
        if !has_sample(NAME, &cluster) {
            return Ok(());
        }
        let ns = "myapp-upgrade";
        namespace(&cluster, ns)?;
        // given an application of the old version, which has no field for the port
        cluster.olm_ok(&["install", "myapp", "-n", ns, "--version", "0.1.0", "--approval", "manual"])?;
        cluster.olm_ok(&["approve", "myapp", "-n", ns, "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, OLD).await?;
        let unknown = cluster.try_kubectl(&["apply", "-n", ns, "-f", "-"], Some(&example()?))?;
        let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
        ensure!(error.contains("unknown field \"spec.port\""), "{error}");
        let old = example()?.replace("  port: 8080\n", "");
        ensure!(!old.contains("port"), "{old}");
        cluster.kubectl_in(&["apply", "-n", ns, "-f", "-"], Some(&old))?;
        let before = ready(&cluster, ns, 3).await?;
        ensure!(before["spec"]["port"].is_null(), "{before}");
        let deployment = get(&cluster, &["deployment", SAMPLE, "-n", ns])?;
        // when the operator is upgraded
        cluster.olm_ok(&["upgrade", "myapp", "-n", ns, "--to", "0.2.0", "--wait", "--timeout", "3m"])?;
        csv_succeeded(&cluster, ns, NEW).await?;
        // then the object and its Deployment are the same, and the new field has its default
        let after = ready(&cluster, ns, 3).await?;
        ensure!(after["metadata"]["uid"] == before["metadata"]["uid"], "the MyApp was recreated");
        ensure!(after["spec"]["port"] == 8080, "{after}");
        let same = get(&cluster, &["deployment", SAMPLE, "-n", ns])?;
        for field in ["uid", "generation"] {
            ensure!(same["metadata"][field] == deployment["metadata"][field], "{field} of the Deployment");
        }
        uninstall(&cluster, ns).await
    });
}
