//! The etcd operator with exactly the permissions of its bundle: volumes, certificates, budgets, faults,
//! backups, restores; for one namespace and for the whole cluster.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use olm_devcluster::rights::Rights;
use olm_tests::{Cluster, etcd, eventually};
use serde_json::Value;

use crate::{
    etcd_fixture::{BACKUP_VOLUME, backup_claim, members, order, succeeded},
    operator::{LIMIT, csv_succeeded, delete_namespace, get, namespace, subscription},
    scenario,
};

/// A cluster with volumes, and certificates issued by the operator.
fn whole(ns: &str, version: &str) -> String {
    format!(
        "{}  TLS: {{auto: {{}}}}\n  pod:\n    persistentVolumeClaimSpec:\n      accessModes: [ReadWriteOnce]\n      resources: {{requests: {{storage: 64Mi}}}}\n",
        etcd::manifest(ns, "whole", 3, version)
    )
}

/// etcdctl in a member, with the member's certificate, for a host that the certificate names.
pub(crate) fn secure(cluster: &Cluster, ns: &str, pod: &str, host: &str, args: &[&str]) -> Result<String> {
    const FOLDER: &str = "/etc/etcdtls/member/server-tls";
    let flags = ["cacert=%/server-ca.crt", "cert=%/server.crt", "key=%/server.key"]
        .map(|flag| format!("--{}", flag.replace('%', FOLDER)));
    let all: Vec<&str> = flags.iter().map(String::as_str).chain(args.iter().copied()).collect();
    let out = cluster.try_etcdctl(ns, pod, &format!("https://{host}:2379"), &all)?;
    ensure!(
        out.status.success(),
        "etcdctl {args:?} in {pod}: {}",
        String::from_utf8_lossy(&out.stderr).trim()
    );
    Ok(String::from_utf8(out.stdout)?)
}

/// Evicts a pod like `kubectl drain`.
fn evict(cluster: &Cluster, ns: &str, pod: &str) -> Result<std::process::Output> {
    let body = format!(
        r#"{{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{pod}","namespace":"{ns}"}}}}"#
    );
    let path = format!("/api/v1/namespaces/{ns}/pods/{pod}/eviction");
    cluster.try_kubectl(&["create", "--raw", &path, "-f", "-"], Some(&body))
}

fn uid(cluster: &Cluster, ns: &str, pod: &str) -> Result<Value> {
    Ok(get(cluster, &["pod", pod, "-n", ns])?["metadata"]["uid"].clone())
}

/// S23: the life of a cluster with all features of 0.11.0, and then the operator's API calls.
#[test]
fn everything_of_the_etcd_operator_works_with_the_rights_of_its_bundle() {
    const NAME: &str = "everything_of_the_etcd_operator_works_with_the_rights_of_its_bundle";
    scenario(NAME, async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped(NAME, "etcd is not installed");
            return Ok(());
        };
        if cluster.data_dir.is_none() {
            olm_tests::skipped(NAME, "faults and the count of rights are the dev cluster's");
            return Ok(());
        }
        let ns = "whole";
        namespace(&cluster, ns)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&backup_claim(ns)))?;
        let mut manifest = subscription(ns, "Automatic", None).replace("singlenamespace-alpha", "stable");
        manifest.push_str(BACKUP_VOLUME);
        cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&manifest))?;
        csv_succeeded(&cluster, ns, "etcdoperator.v0.11.0").await?;

        // Members with volumes and certificates; clients without a certificate are rejected.
        cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&whole(ns, &version)))?;
        let first = members(&cluster, ns, "whole", 3).await?;
        let (one, two) = (first[0].0.clone(), first[1].0.clone());
        secure(&cluster, ns, &one, "localhost", &["put", "before", "kept"])?;
        let plain = cluster.try_etcdctl(ns, &one, "http://localhost:2379", &["get", "before"])?;
        ensure!(!plain.status.success(), "answered without TLS");
        let claims = get(&cluster, &["pvc", "-n", ns, "-l", "etcd_cluster=whole"])?;
        ensure!(claims["items"].as_array().is_some_and(|list| list.len() == 3), "{claims}");

        // A drained node: one member at a time, which returns unchanged.
        let was = uid(&cluster, ns, &one)?;
        let evicted = evict(&cluster, ns, &one)?;
        ensure!(evicted.status.success(), "{evicted:?}");
        let refused = evict(&cluster, ns, &two)?;
        let text = String::from_utf8_lossy(&refused.stderr).to_string();
        ensure!(!refused.status.success() && text.contains("disruption budget"), "{refused:?}");
        eventually("another pod of that name", LIMIT, async || {
            Ok((uid(&cluster, ns, &one)? != was).then_some(()))
        })
        .await?;
        ensure!(members(&cluster, ns, "whole", 3).await? == first, "the evicted member is another one");

        // A terminated member is restarted.
        cluster.olm_ok(&["dev", "fault", "kill", &two, "-n", ns])?;
        eventually("the member to be started again", LIMIT, async || {
            let pod = get(&cluster, &["pod", &two, "-n", ns])?;
            Ok((pod["status"]["containerStatuses"][0]["restartCount"] == 1).then_some(()))
        })
        .await?;
        ensure!(members(&cluster, ns, "whole", 3).await? == first, "the killed member is another one");

        // A backup on the volume, and its restore.
        let local = "storageType: Local, local: {path: etcd/whole.db}";
        let backup = order("EtcdBackup", ns, "save", &format!("{{clusterName: whole, {local}}}"));
        cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&backup))?;
        let saved = succeeded(&cluster, ns, "etcdbackup", "save").await?;
        ensure!(saved["status"]["etcdVersion"] == version.as_str(), "{}", saved["status"]);
        secure(&cluster, ns, &one, "localhost", &["put", "after", "lost"])?;
        let from = "backupStorageType: Local, local: {path: etcd/whole.db}";
        let restore = order("EtcdRestore", ns, "back", &format!("{{etcdCluster: {{name: whole}}, {from}}}"));
        cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&restore))?;
        succeeded(&cluster, ns, "etcdrestore", "back").await?;
        let restored = members(&cluster, ns, "whole", 3).await?;
        for (member, _) in &restored {
            let kept = secure(&cluster, ns, member, "localhost", &["get", "before", "--print-value-only"])?;
            ensure!(kept.trim() == "kept", "{member}: {kept}");
            let lost = secure(&cluster, ns, member, "localhost", &["get", "after", "--print-value-only"])?;
            ensure!(lost.trim().is_empty(), "{member}: {lost}");
        }
        // Into a new cluster, as well.
        let template = format!("clusterTemplate: {{size: 1, version: {version:?}}}");
        let copy =
            order("EtcdRestore", ns, "copy", &format!("{{etcdCluster: {{name: copy}}, {template}, {from}}}"));
        cluster.kubectl_in(&["apply", "--validate=strict", "-f", "-"], Some(&copy))?;
        succeeded(&cluster, ns, "etcdrestore", "copy").await?;
        let members_of_copy = members(&cluster, ns, "copy", 1).await?;
        let kept = cluster.etcdctl(ns, &members_of_copy[0].0, &["get", "before", "--print-value-only"])?;
        ensure!(kept.trim() == "kept", "{kept}");

        // A smaller cluster, and no budget any more: its object is deleted.
        let less = r#"{"spec":{"size":2,"podDisruptionBudget":false}}"#;
        cluster.kubectl(&["patch", "etcdcluster", "whole", "-n", ns, "--type=merge", "-p", less])?;
        members(&cluster, ns, "whole", 2).await?;
        eventually("the budget to go", LIMIT, async || {
            let budgets = get(&cluster, &["pdb", "-n", ns])?;
            Ok(budgets["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
        })
        .await?;
        only_its_rights(&cluster, ns, "etcdoperator.v0.11.0", UNUSED).await?;
        delete_namespace(&cluster, ns)
    });
}

/// Annotated objects are managed in every namespace, the others are left unchanged.
#[test]
fn the_cluster_wide_etcd_operator_serves_all_namespaces_with_the_rights_of_its_bundle() {
    const NAME: &str = "the_cluster_wide_etcd_operator_serves_all_namespaces";
    scenario(NAME, async |cluster| {
        let Some(version) = etcd::version() else {
            olm_tests::skipped(NAME, "etcd is not installed");
            return Ok(());
        };
        if cluster.data_dir.is_none() {
            olm_tests::skipped(NAME, "the count of rights is the dev cluster's");
            return Ok(());
        }
        let (ns, far, csv) = ("wide", "far", "etcdoperator.v0.11.0-clusterwide");
        namespace(&cluster, ns)?;
        namespace(&cluster, far)?;
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&backup_claim(ns)))?;
        let manifest =
            subscription(ns, "Automatic", None).replace("singlenamespace-alpha", "clusterwide-alpha");
        let everywhere = manifest.replace(&format!("spec:\n  targetNamespaces: [{ns}]\n"), "spec: {}\n");
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&format!("{everywhere}{BACKUP_VOLUME}")))?;
        csv_succeeded(&cluster, ns, csv).await?;
        let scope = |manifest: &str, name: &str| {
            let annotated =
                format!("name: {name}\n  annotations: {{etcd.database.coreos.com/scope: clusterwide}}\n");
            manifest.replace(&format!("name: {name}\n"), &annotated)
        };
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&etcd::manifest(far, "alone", 1, &version)))?;
        cluster.kubectl_in(
            &["apply", "-f", "-"],
            Some(&scope(&etcd::manifest(far, "kept", 1, &version), "kept")),
        )?;
        let kept = members(&cluster, far, "kept", 1).await?;
        cluster.etcdctl(far, &kept[0].0, &["put", "a", "b"])?;
        let backup = "{clusterName: kept, storageType: Local, local: {path: etcd/kept.db}}";
        cluster.kubectl_in(&["apply", "-f", "-"], Some(&order("EtcdBackup", far, "save", backup)))?;
        cluster.kubectl(&[
            "annotate",
            "etcdbackup",
            "save",
            "-n",
            far,
            "etcd.database.coreos.com/scope=clusterwide",
        ])?;
        succeeded(&cluster, far, "etcdbackup", "save").await?;
        let alone = get(&cluster, &["pods", "-n", far, "-l", "etcd_cluster=alone"])?;
        ensure!(alone["items"].as_array().is_some_and(Vec::is_empty), "looked after without the annotation");
        // The scenario above checks the use of its permissions: both bundles have the same.
        let rights = granted(&cluster, ns, csv)?;
        for used in asked(&cluster, ns).await? {
            ensure!(rights.contains(&used), "{used:?} is not a right of the bundle");
        }
        delete_namespace(&cluster, far)?;
        delete_namespace(&cluster, ns)
    });
}

/// Group, resource, verb.
type Right = (String, String, String);

/// Permissions of the bundle without a use in these scenarios, with the reason for them.
const UNUSED: &[(&str, &str, &str, &str)] = &[
    (
        "etcd.database.coreos.com",
        "etcdbackups",
        "patch",
        "takes away the finalizer that upstream's operator left",
    ),
    ("", "services", "patch", "takes over Services of upstream's operator"),
    ("events.k8s.io", "events", "patch", "counts an event that is repeated soon"),
];

/// The permissions of an installed version's account.
fn granted(cluster: &Cluster, ns: &str, csv: &str) -> Result<BTreeSet<Right>> {
    let csv = get(cluster, &["csv", csv, "-n", ns])?;
    let mut out = BTreeSet::new();
    for kind in ["permissions", "clusterPermissions"] {
        for permission in csv["spec"]["install"]["spec"][kind].as_array().into_iter().flatten() {
            for rule in permission["rules"].as_array().into_iter().flatten() {
                let words = |key: &str| rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                for group in words("apiGroups") {
                    for resource in words("resources") {
                        out.extend(words("verbs").map(|verb| (group.into(), resource.into(), verb.into())));
                    }
                }
            }
        }
    }
    Ok(out)
}

/// The calls of its account; fails when the API rejected any of them.
async fn asked(cluster: &Cluster, ns: &str) -> Result<BTreeSet<Right>> {
    let used = Rights::new(cluster.client().await?).of(ns, "etcd-operator").await?;
    let refused: Vec<_> = used.iter().filter(|used| used.forbidden > 0).collect();
    ensure!(refused.is_empty(), "refused: {refused:?}");
    Ok(used.into_iter().map(|used| (used.right.group, used.right.resource, used.right.verb)).collect())
}

/// Its calls and the permissions of its bundle are equal.
async fn only_its_rights(
    cluster: &Cluster,
    ns: &str,
    csv: &str,
    unused: &[(&str, &str, &str, &str)],
) -> Result<()> {
    let (rights, used) = (granted(cluster, ns, csv)?, asked(cluster, ns).await?);
    let beyond: Vec<&Right> = used.difference(&rights).collect();
    ensure!(beyond.is_empty(), "asked for, and not in the bundle: {beyond:?}");
    let known: BTreeSet<Right> =
        unused.iter().map(|(g, r, v, _)| ((*g).into(), (*r).into(), (*v).into())).collect();
    let idle: BTreeSet<Right> = rights.difference(&used).cloned().collect();
    let new: Vec<&Right> = idle.difference(&known).collect();
    ensure!(new.is_empty(), "in the bundle, and never asked for: {new:?}");
    let gone: Vec<&Right> = known.difference(&rights).collect();
    ensure!(gone.is_empty(), "excused, and no right of the bundle: {gone:?}");
    ensure!(!rights.is_empty(), "the bundle has no rights");
    Ok(())
}
