//! Clusters that are created, as they should be and as nobody should want them.

use anyhow::{bail, ensure};
use olm_tests::etcd_stage::condition;
use serde_json::{Value, json};

use crate::{
    clients::Clients,
    judge::{Promise, begun_anew, judge},
    scenario, spec,
};

/// S01: clusters of 1, 3, 5 and 7, all at the same time: one member begins each, the others join without a vote.
#[test]
fn s01_clusters_of_all_sizes_are_created() {
    scenario("S01", async |stage| {
        let _operator = stage.operator()?;
        let mut clusters = Vec::new();
        for size in [1, 3, 5, 7] {
            clusters.push((size, stage.create(&format!("c{size}"), spec(size)).await?));
        }
        for (size, cluster) in &clusters {
            // Its first member is there: from now on clients use it.
            cluster.until("an id", |object| object["status"]["clusterID"].is_string()).await?;
            let clients = Clients::start(cluster, 1, *size as u64);
            judge(cluster, clients, Promise::of(*size)).await?;
            let seeds = begun_anew(cluster);
            ensure!(seeds.len() == 1, "{seeds:?} of {size} members were told to begin a new cluster");
        }
        let mut ids: Vec<u64> = Vec::new();
        for (_, cluster) in &clusters {
            ids.extend(cluster.facts().await.0.values().map(|said| said.id));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ensure!(ids.len() == count && count == 16, "{} different ids of {count} members", ids.len());
        Ok(())
    });
}

/// S02: what nobody should want is refused by the API, or told, and no pod is made for it.
#[test]
fn s02_wrong_specs_are_refused() {
    scenario("S02", async |stage| {
        let _operator = stage.operator()?;
        let wrong = [
            ("zero", json!({ "size": 0 })),
            ("eight", json!({ "size": 8 })),
            ("negative", json!({ "size": -1 })),
            ("word", json!({ "size": 3, "version": "foo" })),
            ("ancient", json!({ "size": 3, "version": "3.2.13" })),
            ("label", json!({ "size": 3, "pod": { "labels": { "etcd_node": "mine" } } })),
            ("app", json!({ "size": 3, "pod": { "labels": { "app": "mine" } } })),
            ("half", json!({ "size": 3, "TLS": { "static": { "member": { "peerSecret": "only" } } } })),
            ("env", json!({ "size": 3, "pod": { "etcdEnv": [{ "value": "no name" }] } })),
            (&"long".repeat(14), json!({ "size": 3 })),
        ];
        for (name, spec) in wrong {
            match stage.create(name, spec).await {
                // The API itself says no; an administrator must see what was wrong.
                Err(error) => {
                    let text = format!("{error:#}");
                    ensure!(text.contains("EtcdCluster") || text.contains(name), "{name}: {text}");
                }
                Ok(cluster) => {
                    let told = |object: &Value| {
                        let refused = |type_| condition(object, type_)["status"] == "False";
                        refused("SpecAccepted") || refused("TLSReady")
                    };
                    cluster.until("the mistake to be told", told).await?;
                    let pods = cluster.names().await?;
                    ensure!(pods.is_empty(), "{name}: {pods:?} were made");
                }
            }
        }
        // Beside them a good one goes its way.
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

/// Members that are not root fit a namespace that lets only such pods in. The API of the dev cluster has no such rule; that of a real
/// cluster says it itself.
#[test]
fn members_fit_a_restricted_namespace() {
    scenario("members_fit_a_restricted_namespace", async |stage| {
        let _operator = stage.operator()?;
        let strict =
            json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        stage.patch("Namespace", "", "ns", &strict).await?;
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
