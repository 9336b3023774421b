//! Backup state of a cluster for its status: read from the EtcdBackups in the API, whichever process runs
//! them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use crate::crd::EtcdCluster;
use crate::crd::backup::EtcdBackup;
use crate::observed::BackupView;
use crate::watch;

/// A backup this much later than its schedule is overdue.
const LATE: SignedDuration = SignedDuration::from_secs(300);
/// Suffix of the client Service of a cluster; see [`crate::names::client_service`].
const SERVICE_SUFFIX: &str = "-client";

type BackupOrError = DeserializeGuard<EtcdBackup>;

/// The EtcdBackups of the watched namespaces.
#[derive(Default)]
pub struct BackupViews {
    watched: Mutex<Vec<Watched>>,
}

struct Watched {
    /// None: all namespaces.
    namespace: Option<String>,
    store: Store<BackupOrError>,
    /// Set after the first complete list; never set without the permission or the CRD.
    listed: Arc<AtomicBool>,
}

impl std::fmt::Debug for BackupViews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupViews").finish_non_exhaustive()
    }
}

impl BackupViews {
    /// Starts to follow the EtcdBackups of a namespace, as long as the returned stream of changes is polled.
    pub(crate) fn follow(
        &self,
        api: Api<BackupOrError>,
        namespace: Option<&str>,
    ) -> impl Stream<Item = Result<BackupOrError, watcher::Error>> + Send + use<> {
        let (store, writer) = reflector::store();
        let listed = Arc::new(AtomicBool::new(false));
        self.add(namespace, store, listed.clone());
        let events = watch::events(api, watcher::Config::default());
        reflector::reflector(writer, events)
            .inspect_ok(move |event| {
                if matches!(event, watcher::Event::InitDone) {
                    listed.store(true, Ordering::Relaxed);
                }
            })
            .touched_objects()
            .boxed()
    }

    fn add(&self, namespace: Option<&str>, store: Store<BackupOrError>, listed: Arc<AtomicBool>) {
        let new = Watched { namespace: namespace.map(str::to_owned), store, listed };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|known| known.namespace != new.namespace);
        watched.push(new);
    }

    /// Backup state of a cluster, none without an EtcdBackup; an error before the first list.
    pub(crate) fn view(
        &self,
        namespace: &str,
        cluster: &str,
        now: Timestamp,
    ) -> Result<Option<BackupView>, Unknown> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let here = watched.iter().find(|w| w.namespace.as_deref().is_none_or(|known| known == namespace));
        let here = here.filter(|w| w.listed.load(Ordering::Relaxed)).ok_or(Unknown)?;
        let own = here.store.state_filter(|backup| {
            let named = |backup: &EtcdBackup| clusters(backup).any(|name| name == cluster);
            backup.0.as_ref().is_ok_and(|b| b.namespace().as_deref() == Some(namespace) && named(b))
        });
        let mut own: Vec<&EtcdBackup> = own.iter().filter_map(|backup| backup.0.as_ref().ok()).collect();
        own.sort_by_key(|backup| backup.name_any());
        Ok(view(&own, now))
    }
}

/// The EtcdBackups are not listed yet, or cannot be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unknown;

pub(crate) fn of_backup(backup: BackupOrError) -> Vec<ObjectRef<DeserializeGuard<EtcdCluster>>> {
    let Ok(backup) = backup.0 else { return Vec::new() };
    let namespace = backup.namespace().unwrap_or_default();
    clusters(&backup).map(|name| ObjectRef::new(&name).within(&namespace)).collect()
}

/// Names of the clusters: from the spec, or from the client Service in an endpoint.
fn clusters(backup: &EtcdBackup) -> impl Iterator<Item = String> {
    let namespace = backup.namespace().unwrap_or_default();
    let by_service = backup.spec.etcd_endpoints.iter().filter_map(move |endpoint| {
        let (_, _, host) = super::source::address(endpoint, &namespace).ok()?;
        let (service, rest) = host.split_once('.')?;
        let here = format!("{namespace}.svc");
        let here = rest == here || rest.starts_with(&format!("{here}."));
        service.strip_suffix(SERVICE_SUFFIX).filter(|_| here).map(str::to_owned)
    });
    backup.spec.cluster_name.clone().into_iter().chain(by_service)
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
    let failing = own.iter().find(|b| matches!(&*status(b).phase, "Retrying" | "Failed"));
    let good = status(newest);
    Some(BackupView {
        last_success: good.last_success_date.map(|time| time.0),
        revision: Some(good.etcd_revision).filter(|revision| *revision > 0),
        overdue_since: overdue,
        failing: failing.map(|b| format!("EtcdBackup {}: {}", b.name_any(), status(b).reason)),
        source: source(newest, &good.object),
    })
}

/// The source in the format of an EtcdRestore.
fn source(backup: &EtcdBackup, object: &str) -> Option<serde_json::Value> {
    let path = object.split_once("://")?.1;
    let spec = serde_json::to_value(&backup.spec).ok()?;
    let kind = spec["storageType"].as_str()?;
    let block = kind.to_lowercase();
    let mut source = serde_json::json!({ "backupStorageType": kind, &block: spec.get(&block)? });
    source[&block]["path"] = path.into();
    if let Some(encryption) = spec.get("encryption") {
        source["encryption"] = encryption.clone();
    }
    Some(source)
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

    /// A board as the watch fills it.
    fn listed(backups: &[EtcdBackup]) -> BackupViews {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&watcher::Event::Init);
        for backup in backups {
            writer.apply_watcher_event(&watcher::Event::InitApply(DeserializeGuard(Ok(backup.clone()))));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let board = BackupViews::default();
        board.add(None, store, Arc::new(AtomicBool::new(true)));
        board
    }

    #[test]
    fn a_cluster_sees_the_newest_good_backup_and_the_trouble_of_any() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(listed(&[]).view("shop", "orders", now), Ok(None));
        let board = listed(&[
            backup(
                "a",
                json!({ "storageType": "S3", "clusterName": "orders", "encryption": { "secret": "keys" },
                        "s3": { "path": "bucket/key", "awsSecret": "aws", "endpoint": "http://s3", "forcePathStyle": true } }),
                json!({ "phase": "Succeeded", "lastSuccessDate": "2026-01-01T00:00:00Z", "etcdRevision": 1200,
                        "object": "s3://bucket/key_v1" }),
            ),
            backup(
                "b",
                json!({ "storageType": "S3", "etcdEndpoints": ["http://orders-client:2379"] }),
                json!({ "phase": "Retrying", "reason": "AccessDenied", "nextBackup": "2026-01-01T12:00:00Z" }),
            ),
            backup(
                "c",
                json!({ "storageType": "S3", "clusterName": "other" }),
                json!({ "phase": "Failed", "reason": "no" }),
            ),
        ]);
        let view = board.view("shop", "orders", now).unwrap().unwrap();
        assert_eq!(view.last_success, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(view.revision, Some(1200));
        let source = json!({
            "backupStorageType": "S3", "encryption": { "secret": "keys" },
            "s3": { "path": "bucket/key_v1", "awsSecret": "aws", "endpoint": "http://s3", "forcePathStyle": true },
        });
        assert_eq!(view.source, Some(source), "the reported source is valid as input");
        assert_eq!(view.failing.as_deref(), Some("EtcdBackup b: AccessDenied"));
        assert_eq!(view.overdue_since, Some("2026-01-01T12:00:00Z".parse().unwrap()));
        assert_eq!(
            board.view("other", "orders", now),
            Ok(None),
            "the same name elsewhere is another cluster"
        );
    }

    #[test]
    fn what_was_not_listed_yet_is_unknown_and_not_absent() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        assert_eq!(BackupViews::default().view("shop", "orders", now), Err(Unknown));
        let board = BackupViews::default();
        board.add(Some("shop"), reflector::store().0, Arc::default());
        assert_eq!(board.view("shop", "orders", now), Err(Unknown));
        board.add(Some("shop"), reflector::store().0, Arc::new(AtomicBool::new(true)));
        assert_eq!(board.view("shop", "orders", now), Ok(None));
        assert_eq!(board.view("other", "orders", now), Err(Unknown));
    }

    #[test]
    fn a_backup_names_its_cluster_or_the_service_of_it() {
        let named = |spec: serde_json::Value| clusters(&backup("b", spec, json!({}))).collect::<Vec<_>>();
        let by = |endpoint: &str| named(json!({ "storageType": "S3", "etcdEndpoints": [endpoint] }));
        assert_eq!(named(json!({ "storageType": "S3", "clusterName": "orders" })), ["orders"]);
        for endpoint in ["http://orders-client:2379", "https://orders-client.shop.svc.cluster.local:2379"] {
            assert_eq!(by(endpoint), ["orders"], "{endpoint}");
        }
        for endpoint in ["http://orders-client.other.svc:2379", "http://10.0.0.1:2379", "http://orders:2379"]
        {
            assert!(by(endpoint).is_empty(), "{endpoint}");
        }
        assert_eq!(crate::names::client_service("orders"), format!("orders{SERVICE_SUFFIX}"));
    }
}
