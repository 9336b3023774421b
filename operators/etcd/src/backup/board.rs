//! What the backups of a cluster have to say to the cluster: kept in memory, read at every look at the cluster.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::crd::backup::EtcdBackup;
use crate::observed::BackupView;

/// A backup that is so much later than its schedule is overdue.
const LATE: SignedDuration = SignedDuration::from_secs(300);

/// By namespace and name of the EtcdBackup.
#[derive(Debug, Default)]
pub struct Board {
    backups: Mutex<HashMap<(String, String), EtcdBackup>>,
}

impl Board {
    pub(crate) fn put(&self, backup: &EtcdBackup) {
        let key = (backup.namespace().unwrap_or_default(), backup.name_any());
        self.lock().insert(key, backup.clone());
    }

    pub(crate) fn remove(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// What the backups of a cluster say; none when it has none.
    pub(crate) fn view(&self, namespace: &str, cluster: &str, now: Timestamp) -> Option<BackupView> {
        let backups = self.lock();
        let of_cluster =
            |backup: &&EtcdBackup| backup.namespace().as_deref() == Some(namespace) && is_of(backup, cluster);
        let mut own: Vec<&EtcdBackup> = backups.values().filter(of_cluster).collect();
        own.sort_by_key(|backup| backup.name_any());
        view(&own, now)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), EtcdBackup>> {
        self.backups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// By name, or by the Service that the cluster has for clients.
fn is_of(backup: &EtcdBackup, cluster: &str) -> bool {
    let namespace = backup.namespace().unwrap_or_default();
    let service = format!("{}.{namespace}.svc", crate::names::client_service(cluster));
    backup.spec.cluster_name.as_deref() == Some(cluster)
        || backup.spec.etcd_endpoints.iter().any(|endpoint| {
            super::source::address(endpoint, &namespace).is_ok_and(|(_, _, host)| host.starts_with(&service))
        })
}

fn view(own: &[&EtcdBackup], now: Timestamp) -> Option<BackupView> {
    own.first()?;
    let status = |backup: &EtcdBackup| backup.status.clone().unwrap_or_default();
    let newest = own.iter().max_by_key(|b| status(b).last_success_date.map(|time| time.0))?;
    let overdue = own
        .iter()
        .filter_map(|b| status(b).next_backup.map(|time| time.0))
        .filter(|time| *time + LATE < now)
        .min();
    let failing = own.iter().find(|b| status(b).phase == "Failed");
    let good = status(newest);
    Some(BackupView {
        last_success: good.last_success_date.map(|time| time.0),
        overdue_since: overdue,
        failing: failing.map(|b| format!("EtcdBackup {}: {}", b.name_any(), status(b).reason)),
        place: place(newest, &good.object),
    })
}

/// In the words of an EtcdRestore.
fn place(backup: &EtcdBackup, object: &str) -> Option<String> {
    let path = object.split_once("://")?.1;
    let block = match backup.spec.storage_type.as_str() {
        "S3" => "s3",
        "GCS" => "gcs",
        "ABS" => "abs",
        _ => "local",
    };
    Some(format!("{block}.path: {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn backup(name: &str, spec: serde_json::Value, status: serde_json::Value) -> EtcdBackup {
        serde_json::from_value(json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
            "metadata": { "name": name, "namespace": "shop" }, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_sees_the_newest_good_backup_and_the_trouble_of_any() {
        let board = Board::default();
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(board.view("shop", "orders", now), None);
        board.put(&backup(
            "a",
            json!({ "storageType": "S3", "clusterName": "orders" }),
            json!({ "phase": "Succeeded", "lastSuccessDate": "2026-01-01T00:00:00Z", "object": "s3://bucket/key" }),
        ));
        board.put(&backup(
            "b",
            json!({ "storageType": "S3", "etcdEndpoints": ["http://orders-client:2379"] }),
            json!({ "phase": "Failed", "reason": "AccessDenied", "nextBackup": "2026-01-01T12:00:00Z" }),
        ));
        board.put(&backup(
            "c",
            json!({ "storageType": "S3", "clusterName": "other" }),
            json!({ "phase": "Failed", "reason": "no" }),
        ));
        let view = board.view("shop", "orders", now).unwrap();
        assert_eq!(view.last_success, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(view.place.as_deref(), Some("s3.path: bucket/key"));
        assert_eq!(view.failing.as_deref(), Some("EtcdBackup b: AccessDenied"));
        assert_eq!(view.overdue_since, Some("2026-01-01T12:00:00Z".parse().unwrap()));
        board.remove("shop", "a");
        board.remove("shop", "b");
        assert_eq!(board.view("shop", "orders", now), None);
    }
}
