//! Creation of clusters, from valid and invalid specs.

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::etcd_stage::{Stage, condition};
use serde_json::{Value, json};

use crate::{
    clients::Clients,
    judge::{Guarantee, begun_anew, judge},
    scenario, spec,
};

/// S01: clusters of 1, 3, 5 and 7, all at the same time: one member bootstraps each, the others join as
/// learners.
#[test]
fn s01_clusters_of_all_sizes_are_created() {
    scenario("S01", async |stage| {
        let _operator = stage.operator()?;
        let mut clusters = Vec::new();
        for size in [1, 3, 5, 7] {
            clusters.push((size, stage.create(&format!("c{size}"), spec(size)).await?));
        }
        for (size, cluster) in &clusters {
            // Its first member exists: from now on clients use it.
            cluster.until("an id", |object| object["status"]["clusterID"].is_string()).await?;
            let clients = Clients::start(cluster, 1, *size as u64);
            judge(cluster, clients, Guarantee::of(*size)).await?;
            let seeds = begun_anew(cluster);
            ensure!(seeds.len() == 1, "{seeds:?} of {size} members were started as a new cluster");
        }
        let mut ids: Vec<u64> = Vec::new();
        for (_, cluster) in &clusters {
            ids.extend(cluster.facts().await.0.values().map(|report| report.id));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ensure!(ids.len() == count && count == 16, "{} different ids of {count} members", ids.len());
        Ok(())
    });
}

/// S02: invalid specs are rejected by the API, or reported, and no pod is created.
#[test]
fn s02_wrong_specs_are_refused() {
    scenario("S02", async |stage| {
        let _operator = stage.operator()?;
        let long = "long".repeat(14);
        // Rules of the schema, with the field that the answer must name.
        let by_the_api = [
            ("nosize", json!({}), "spec.size"),
            ("zero", json!({ "size": 0 }), "spec.size"),
            ("eight", json!({ "size": 8 }), "spec.size"),
            ("negative", json!({ "size": -1 }), "spec.size"),
            ("word", json!({ "size": 3, "version": "foo" }), "spec.version"),
            ("label", json!({ "size": 3, "pod": { "labels": { "etcd_node": "mine" } } }), "spec.pod.labels"),
            ("app", json!({ "size": 3, "pod": { "labels": { "app": "mine" } } }), "spec.pod.labels"),
            (
                "annotation",
                json!({ "size": 3, "pod": { "annotations": { "etcd.version": "3.4.23" } } }),
                "spec.pod.annotations",
            ),
            ("env", json!({ "size": 3, "pod": { "etcdEnv": [{ "value": "no name" }] } }), "spec.pod.etcdEnv"),
            ("torn", json!({ "size": 3, "storage": { "mode": "Pod", "size": "1Gi" } }), "spec.storage"),
            ("open", json!({ "size": 3, "auth": { "rootSecret": "root" } }), "spec.auth"),
            (
                "oneside",
                json!({ "size": 3, "TLS": { "static": { "member": { "serverSecret": "only" } } } }),
                "spec.TLS.static",
            ),
            (
                "both",
                json!({ "size": 3, "TLS": { "static": { "member": { "peerSecret": "only" } }, "auto": {} } }),
                "spec.TLS",
            ),
            (long.as_str(), json!({ "size": 3 }), "metadata.name"),
            ("dot.name", json!({ "size": 3 }), "metadata.name"),
            ("1digit", json!({ "size": 3 }), "metadata.name"),
            (
                "reserved",
                json!({ "size": 3, "pod": { "etcdEnv": [{ "name": "ETCD_NAME", "value": "x" }] } }),
                "spec.pod.etcdEnv",
            ),
            ("less", json!({ "size": 3, "storage": { "size": "-1Gi" } }), "spec.storage.size"),
            (
                "user",
                json!({ "size": 3, "pod": { "securityContext": { "runAsUser": -5 } } }),
                "spec.pod.securityContext.runAsUser",
            ),
        ];
        for (name, spec, field) in by_the_api {
            let Err(error) = stage.create(name, spec).await else { bail!("{name} was accepted") };
            let message = refusal(&error).with_context(|| format!("{name}: {error:#}"))?;
            ensure!(message.contains("EtcdCluster") && message.contains(field), "{name}, {field}: {message}");
        }
        // An unknown field, from a strict client such as kubectl.
        let message = refusal(&unknown_field(stage).await.err().context("an unknown field was accepted")?);
        let message = message.context("the failure is not a rejection")?;
        ensure!(message.contains("unknown field") && message.contains("spec.sise"), "{message}");
        let left = stage.list("EtcdCluster", "ns").await?.len();
        ensure!(left == 0, "{left} clusters exist although each was rejected");

        // Rules that only the operator can check, with their condition: supported versions, and the content
        // of Secrets.
        let by_the_operator = [
            ("ancient", json!({ "size": 3, "version": "3.2.13" }), "SpecAccepted"),
            (
                "half",
                json!({ "size": 3, "TLS": { "static": { "member": { "peerSecret": "only" } } } }),
                "TLSReady",
            ),
        ];
        for (name, spec, type_) in by_the_operator {
            let cluster = stage.create(name, spec).await.with_context(|| format!("{name} was rejected"))?;
            let reported = |object: &Value| condition(object, type_)["status"] == "False";
            cluster.until("the mistake to be reported", reported).await?;
            let pods = cluster.names().await?;
            ensure!(pods.is_empty(), "{name}: {pods:?} were made");
        }
        // A valid cluster meanwhile is not affected.
        let cluster = stage.create("good", spec(1)).await?;
        cluster.steady(1).await?;
        if stage.create("good", spec(1)).await.is_ok() {
            bail!("two clusters of one name");
        }
        let made = stage.list("Pod", "ns").await?.len();
        ensure!(made == 1, "{made} pods");
        Ok(())
    });
}

/// The API's message for a rejected manifest. Any other error is not a rejection.
fn refusal(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) if (400..500).contains(&status.code) => Some(status.message.clone()),
        _ => None,
    }
}

/// Creates a cluster with an unknown field in its spec, strictly. The parameters of kube's own `create` do
/// not support that.
async fn unknown_field(stage: &Stage) -> Result<()> {
    let object = json!({ "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": { "name": "misspelt", "namespace": "ns" }, "spec": { "size": 3, "sise": 5 } });
    let path = "/apis/etcd.database.coreos.com/v1beta2/namespaces/ns/etcdclusters?fieldValidation=Strict";
    let request = http::Request::post(path).header("content-type", "application/json");
    stage.client.request_text(request.body(serde_json::to_vec(&object)?)?).await?;
    Ok(())
}

/// Non-root members are admitted by a namespace that enforces the Pod Security level restricted.
#[test]
fn members_fit_a_restricted_namespace() {
    scenario("members_fit_a_restricted_namespace", async |stage| {
        let _operator = stage.operator()?;
        let strict =
            json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        stage.patch("Namespace", "", "ns", &strict).await?;
        // Members run as root by default: refused, with the fix.
        let root = stage.create("root", spec(1)).await?;
        let degraded = root.condition("Degraded", "True", "ActionFailed").await?;
        let text = degraded["message"].as_str().unwrap_or_default();
        ensure!(text.contains("violates PodSecurity \"restricted:latest\""), "{text}");
        ensure!(text.contains("hint: etcd's image runs as root; set spec.pod.securityContext"), "{text}");
        let mut wanted = spec(1);
        wanted["pod"]["securityContext"] =
            json!({ "runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000 });
        let cluster = stage.create("strict", wanted).await?;
        cluster.steady(1).await?;
        let pods = cluster.pods().await?;
        let spec = &pods[0]["spec"];
        ensure!(spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "{spec}");
        let own = &spec["containers"][0]["securityContext"];
        let confined = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
        ensure!(*own == confined, "{own}");
        Ok(())
    });
}
