//! A plain Deployment: scaled, a pod deleted, a pod replaced, reached by its Service and its log.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use olm_tests::{Cluster, eventually};

use crate::{
    operator::{delete_namespace, get, namespace},
    scenario,
};

const LIMIT: Duration = Duration::from_secs(60);

const STATICWEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: staticweb
  namespace: staticweb
spec:
  replicas: 3
  selector: {matchLabels: {app: staticweb}}
  template:
    metadata: {labels: {app: staticweb}}
    spec:
      containers:
      - name: staticweb
        image: localhost/olm/olm:VERSION
        ports: [{containerPort: 8080, name: http}]
        readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}
        volumeMounts: [{name: pages, mountPath: /www}]
        args: ["staticweb", "--root", "/www"]
      volumes:
      - name: pages
        configMap: {name: pages}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pages, namespace: staticweb}
data: {index.html: "<h1>hello from a volume</h1>"}
---
apiVersion: v1
kind: Service
metadata: {name: staticweb, namespace: staticweb}
spec:
  selector: {app: staticweb}
  ports: [{port: 80, targetPort: http}]
"#;

async fn available(cluster: &Cluster, replicas: i64) -> Result<Vec<String>> {
    eventually(&format!("{replicas} pods of staticweb"), LIMIT, async || {
        let deployment = get(cluster, &["deployment", "staticweb", "-n", "staticweb"])?;
        let pods = get(cluster, &["pods", "-n", "staticweb", "-l", "app=staticweb"])?;
        let live: Vec<String> = pods["items"]
            .as_array()
            .context("items")?
            .iter()
            .filter(|p| p["metadata"]["deletionTimestamp"].is_null())
            .filter_map(|p| p["metadata"]["name"].as_str().map(str::to_string))
            .collect();
        let status = &deployment["status"];
        if status["availableReplicas"].as_i64() != Some(replicas) || live.len() as i64 != replicas {
            bail!("{status}, pods {live:?}");
        }
        Ok(Some(live))
    })
    .await
}

#[test]
fn a_deployment_is_scaled_healed_and_served() {
    scenario("a_deployment_is_scaled_healed_and_served", async |cluster| {
        namespace(&cluster, "staticweb")?;
        cluster.kubectl_in(
            &["apply", "-f", "-"],
            Some(&STATICWEB.replace("VERSION", env!("CARGO_PKG_VERSION"))),
        )?;
        let pods = available(&cluster, 3).await?;
        cluster.kubectl(&[
            "rollout",
            "status",
            "deployment/staticweb",
            "-n",
            "staticweb",
            "--timeout=30s",
        ])?;

        // Through the Service, from outside, by the API server's proxy.
        let page = eventually("the page", LIMIT, async || {
            cluster
                .kubectl(&["get", "--raw", "/api/v1/namespaces/staticweb/services/staticweb:80/proxy/"])
                .map(Some)
        })
        .await?;
        ensure!(page.contains("hello from a volume"), "{page}");
        // From inside, by name: DNS, Service, and the container's own tools.
        let log = cluster.kubectl(&["logs", &pods[0], "-n", "staticweb"])?;
        ensure!(!log.trim().is_empty(), "an empty log");

        // One pod is deleted: another replaces it.
        cluster.kubectl(&["delete", "pod", &pods[0], "-n", "staticweb"])?;
        let healed = available(&cluster, 3).await?;
        ensure!(!healed.contains(&pods[0]), "the deleted pod is still there");

        cluster.kubectl(&["scale", "deployment/staticweb", "-n", "staticweb", "--replicas=1"])?;
        available(&cluster, 1).await?;
        cluster.kubectl(&["scale", "deployment/staticweb", "-n", "staticweb", "--replicas=4"])?;
        available(&cluster, 4).await?;

        // Deleting the Deployment deletes its pods.
        cluster.kubectl(&["delete", "deployment", "staticweb", "-n", "staticweb"])?;
        eventually("the pods to go", LIMIT, async || {
            let pods = get(&cluster, &["pods,replicasets", "-n", "staticweb"])?;
            let left = pods["items"].as_array().context("items")?.len();
            if left > 0 { bail!("{left} left") } else { Ok(Some(())) }
        })
        .await?;
        delete_namespace(&cluster, "staticweb")
    });
}
