//! kubectl as the only client: CRDs, explain, describe, a custom CRD.

use std::time::Duration;

use anyhow::ensure;
use olm_tests::{etcd, eventually};
use serde_json::json;

use crate::{
    operator::{LIMIT, csv_succeeded, delete_namespace, namespace, subscription},
    scenario,
};

#[test]
fn the_etcdcluster_crd_explains_itself() {
    scenario("the_etcdcluster_crd_explains_itself", async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped("the_etcdcluster_crd_explains_itself", "etcd is not installed");
            return Ok(());
        };
        let ns = "explain";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&subscription(ns, "Automatic", None)))?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;

        let crd = cluster.kubectl(&["get", "crd", "etcdclusters.etcd.database.coreos.com"])?;
        ensure!(crd.contains("etcdclusters.etcd.database.coreos.com"), "{crd}");
        let explained = cluster.kubectl(&["explain", "etcdcluster.spec"])?;
        for field in ["size", "version", "repository", "paused", "pod"] {
            ensure!(explained.contains(field), "explain does not name {field}:\n{explained}");
        }
        ensure!(explained.contains("VERSION:") && explained.contains("v1beta2"), "{explained}");

        cluster.kubectl_in(
            &["apply", "-f", "-"],
            Some(&etcd::manifest(ns, "example-etcd-cluster", 1, &version)),
        )?;
        cluster.wait_members(ns, "example-etcd-cluster", 1, Duration::from_secs(60)).await?;
        eventually("events in describe", Duration::from_secs(10), async || {
            let text = cluster.kubectl(&["describe", "etcdcluster", "example-etcd-cluster", "-n", ns])?;
            ensure!(text.contains("Kind:         EtcdCluster"), "{text}");
            let (_, events) = text.split_once("Events:").unwrap_or_default();
            ensure!(events.contains("Normal") && events.contains("etcd"), "no events in:\n{text}");
            Ok(Some(()))
        })
        .await?;
        delete_namespace(&cluster, ns)
    });
}

#[test]
fn a_crd_from_yaml_is_served_at_once() {
    const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: crontabs.stable.example.com
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [cronSpec]
            properties:
              cronSpec: {type: string}
              image: {type: string, default: "example/cron"}
              replicas: {type: integer, minimum: 1, maximum: 10}
"#;
    const OBJECT: &str = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata:\n  name: my-new-cron-object\n  namespace: crontab\nspec:\n  cronSpec: \"* * * * */5\"\n  replicas: 2\n";
    scenario("a_crd_from_yaml_is_served_at_once", async |cluster| {
        namespace(&cluster, "crontab")?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(CRD))?;
        cluster.kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd/crontabs.stable.example.com",
            "--timeout=10s",
        ])?;
        eventually("a CronTab to be accepted", Duration::from_secs(10), async || {
            cluster.kubectl_in(&["apply", "-f", "-"], Some(OBJECT)).map(Some)
        })
        .await?;
        let table = cluster.kubectl(&["get", "ct", "-n", "crontab"])?;
        ensure!(table.contains("my-new-cron-object") && table.contains("* * * * */5"), "{table}");
        ensure!(table.contains("SPEC") && table.contains("REPLICAS"), "{table}");
        let image = cluster.kubectl(&[
            "get",
            "ct",
            "my-new-cron-object",
            "-n",
            "crontab",
            "-o",
            "jsonpath={.spec.image}",
        ])?;
        ensure!(image == "example/cron", "the default was not set: {image}");

        let wrong = OBJECT.replace("replicas: 2", "replicas: 11");
        let out = cluster.try_kubectl(&["apply", "-f", "-"], Some(&wrong))?;
        let text = String::from_utf8_lossy(&out.stderr).to_string();
        ensure!(!out.status.success() && text.contains("spec.replicas"), "{text}");

        cluster.kubectl(&["delete", "crd", "crontabs.stable.example.com", "--timeout=60s"])?;
        let out = cluster.try_kubectl(&["get", "ct", "-n", "crontab"], None)?;
        ensure!(!out.status.success(), "the kind outlived its definition");
        delete_namespace(&cluster, "crontab")
    });
}

/// `kind: List` is the output of `kubectl get -o yaml`; kubectl validates it, with the server's OpenAPI v2.
#[test]
fn a_list_is_applied_as_kubectl_prints_it() {
    scenario("a_list_is_applied_as_kubectl_prints_it", async |cluster| {
        let ns = "listed";
        namespace(&cluster, ns)?;
        let list = |channel: &str| {
            json!({ "apiVersion": "v1", "kind": "List", "items": [
                { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": ns }, "data": { "a": "1" } },
                { "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": ns },
                  "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http" }] } },
                { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": ns }, "spec": {
                    "replicas": 0, "selector": { "matchLabels": { "app": "web" } },
                    "template": { "metadata": { "labels": { "app": "web" } }, "spec": {
                        "containers": [{ "name": "web", "image": "localhost/none", "resources": { "limits": { "cpu": 1 } },
                            "livenessProbe": { "httpGet": { "port": "http" } } }],
                        "volumes": [{ "name": "tmp", "emptyDir": {} }] } } } },
                { "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": { "name": "own", "namespace": ns },
                  "spec": { "targetNamespaces": [ns] } },
                { "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": { "name": "etcd", "namespace": ns },
                  "spec": { "name": "etcd", channel: "singlenamespace-alpha", "source": "community", "sourceNamespace": "olm",
                            "installPlanApproval": "Manual" } },
            ] })
            .to_string()
        };
        // One wrong field is named, and nothing of the list is applied.
        let out = cluster.try_kubectl(&["apply", "-f", "-"], Some(&list("chanel")))?;
        let text = String::from_utf8_lossy(&out.stderr).to_string();
        ensure!(!out.status.success() && text.contains("unknown field \"chanel\""), "{text}");
        let there = cluster.kubectl(&["get", "configmaps", "-n", ns, "-o", "name"])?;
        ensure!(!there.contains("settings"), "something was applied: {there}");

        cluster.kubectl_in(&["apply", "-f", "-"], Some(&list("channel")))?;
        eventually("a plan that waits for approval", LIMIT, async || {
            let plans = cluster.kubectl(&["get", "installplans", "-n", ns, "-o", "name"])?;
            Ok((!plans.is_empty()).then_some(()))
        })
        .await?;
        // The complete objects of the cluster, with defaults, statuses and owners, are accepted again.
        let kinds = "configmaps,services,deployments,operatorgroups,subscriptions,installplans";
        let output = eventually("what was printed is applied", LIMIT, async || {
            let printed = cluster.kubectl(&["get", kinds, "-n", ns, "-o", "yaml"])?;
            ensure!(printed.contains("kind: List"), "{printed}");
            let out = cluster.try_kubectl(&["apply", "-f", "-"], Some(&printed))?;
            let text = String::from_utf8_lossy(&out.stderr);
            // A status was written meanwhile: the older version is rejected, and printed again.
            let older = text.contains("the object has been modified");
            ensure!(out.status.success() || older, "{text}");
            Ok(out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned()))
        })
        .await?;
        ensure!(output.contains("subscription.operators.coreos.com/etcd"), "{output}");
        delete_namespace(&cluster, ns)
    });
}
