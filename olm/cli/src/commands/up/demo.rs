//! `olm up --demo`: an end-to-end run with real components.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, AttachParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use olm_engine::catalogs::Fetcher;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::{
    commands::{
        progress::{Progress, Seen, pod_state},
        wait,
    },
    exit::{Code, Failure},
    output,
};

/// Package, namespace and name of the demo's cluster.
const PACKAGE: &str = "etcd";
const NAMESPACE: &str = "etcd";
const CLUSTER: &str = "example-etcd-cluster";
const SIZE: i64 = 3;

/// Installs the etcd operator, creates a cluster of three members, writes and reads a key.
pub async fn run(progress: &Progress, client: &Client, etcd_version: &str) -> Result<(), Failure> {
    let catalogs = Fetcher::service_proxy(client.clone())
        .fetch()
        .await
        .map_err(|e| Failure::new(Code::Unexpected, e.to_string()))?;
    let request = olm_ops::InstallRequest {
        create_namespace: true,
        ..olm_ops::InstallRequest::new(PACKAGE, NAMESPACE)
    };
    let result = olm_ops::install(client, &catalogs, &request).await?;
    progress.done(&format!("subscribed to package {PACKAGE} on its default channel"));
    let installed =
        wait::installed(client, &result.namespace, &result.subscription, None, Duration::from_secs(60))
            .await?;
    progress.done(&format!("{} is Succeeded", installed.csv.unwrap_or_default()));

    let clusters = etcd_clusters(client);
    let object = example(client, etcd_version).await?;
    clusters.patch(CLUSTER, &PatchParams::apply("olm.demo").force(), &Patch::Apply(&object)).await?;
    progress.done(&format!("created EtcdCluster {CLUSTER}, size {SIZE}, etcd {etcd_version}"));
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let members = progress
        .wait(
            client,
            NAMESPACE,
            &format!("{SIZE} members of {CLUSTER} are healthy"),
            Duration::from_secs(120),
            || async {
                let object = clusters.get(CLUSTER).await?;
                let ready: Vec<String> = object.data["status"]["members"]["ready"]
                    .as_array()
                    .map(|l| l.iter().filter_map(|v| v.as_str().map(str::to_string)).collect())
                    .unwrap_or_default();
                if i64::try_from(ready.len()) == Ok(SIZE) {
                    return Ok(Seen::Ready(ready));
                }
                let list =
                    pods.list(&ListParams::default().labels(&format!("etcd_cluster={CLUSTER}"))).await?;
                let unready = list.iter().find(|p| !ready.contains(&p.name_any()));
                let next =
                    unready.map(|p| format!("; {}: {}", p.name_any(), pod_state(p))).unwrap_or_default();
                Ok(Seen::Waiting(format!("{} of {SIZE} ready{next}", ready.len())))
            },
        )
        .await?;

    let endpoint = format!("--endpoints=http://{CLUSTER}-client:2379");
    let text = "hello from olm";
    etcdctl(&pods, &members[0], &[&endpoint, "put", "greeting", text]).await?;
    let read =
        etcdctl(&pods, &members[members.len() - 1], &[&endpoint, "get", "greeting", "--print-value-only"])
            .await?;
    if read.trim() != text {
        return Err(Failure::new(Code::Unexpected, format!("wrote `{text}` and read `{}`", read.trim())));
    }
    progress.done(&format!("wrote and read a key through Service {CLUSTER}-client: {}", read.trim()));

    let listed = etcdctl(&pods, &members[0], &[&endpoint, "member", "list", "-w", "table"]).await?;
    println!("\n{}", listed.trim_end());
    println!("\n{}", pod_table(&pods).await?);
    Ok(())
}

fn etcd_clusters(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("etcd.database.coreos.com", "v1beta2", "EtcdCluster");
    Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&gvk))
}

/// The example of the installed bundle, with the version of etcd on this machine.
async fn example(client: &Client, etcd_version: &str) -> Result<Value, Failure> {
    let csvs: Api<olm_api::ClusterServiceVersion> = Api::namespaced(client.clone(), NAMESPACE);
    let examples = csvs
        .list(&ListParams::default())
        .await?
        .into_iter()
        .filter_map(|csv| csv.annotations().get("alm-examples").cloned())
        .filter_map(|text| serde_json::from_str::<Vec<Value>>(&text).ok())
        .flatten()
        .find(|example| example["kind"] == "EtcdCluster");
    let mut object = examples.ok_or_else(|| {
        Failure::new(Code::Unexpected, "the installed bundle has no example of an EtcdCluster")
    })?;
    object["metadata"] = json!({"name": CLUSTER, "namespace": NAMESPACE});
    object["spec"]["size"] = json!(SIZE);
    object["spec"]["version"] = json!(etcd_version);
    Ok(object)
}

/// Runs etcdctl in a member's container; returns its output.
async fn etcdctl(pods: &Api<Pod>, pod: &str, args: &[&str]) -> Result<String, Failure> {
    let command = std::iter::once("etcdctl").chain(args.iter().copied());
    let mut process = pods.exec(pod, command, &AttachParams::default().stdin(false)).await?;
    let (mut out, mut err) = (String::new(), String::new());
    let (stdout, stderr) = (process.stdout(), process.stderr());
    let status = process.take_status();
    let read = async {
        if let Some(mut stream) = stdout {
            stream.read_to_string(&mut out).await?;
        }
        if let Some(mut stream) = stderr {
            stream.read_to_string(&mut err).await?;
        }
        std::io::Result::Ok(())
    };
    read.await?;
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    if status.as_ref().and_then(|s| s.status.as_deref()) == Some("Success") {
        return Ok(out);
    }
    let why = status.and_then(|s| s.message).unwrap_or_default();
    Err(Failure::new(
        Code::Unexpected,
        format!("etcdctl {} in {pod} failed: {why} {}", args.join(" "), err.trim()),
    ))
}

/// The output of `kubectl get pods -n etcd`.
async fn pod_table(pods: &Api<Pod>) -> Result<String, Failure> {
    let now = jiff::Timestamp::now();
    let rows: Vec<Vec<String>> = pods
        .list(&ListParams::default())
        .await?
        .iter()
        .map(|pod| {
            let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.clone()).unwrap_or_default();
            let ready = statuses.iter().filter(|c| c.ready).count();
            let restarts: i32 = statuses.iter().map(|c| c.restart_count).sum();
            let total = pod.spec.as_ref().map_or(0, |s| s.containers.len());
            let age = pod.creation_timestamp().map(|t| output::age(t.0, now)).unwrap_or_default();
            let phase = pod.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default();
            vec![pod.name_any(), format!("{ready}/{total}"), phase, restarts.to_string(), age]
        })
        .collect();
    Ok(output::table(&["NAME", "READY", "STATUS", "RESTARTS", "AGE"], &rows))
}
