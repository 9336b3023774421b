//! Metrics of the operator, under the names of coreos/etcd-operator.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::disk;
use crate::observed::Observed;
use crate::plan::assess;

/// Upper bounds of the histogram in seconds: 0.1 * 2^n, as upstream.
const BUCKETS: [f64; 10] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2];

#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) backups: crate::backup::BackupMetrics,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    clusters: BTreeMap<String, Cluster>,
    created: u64,
    deleted: u64,
    modified: u64,
    failed: u64,
    reconcile_failed: BTreeMap<&'static str, u64>,
    actions: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Default)]
struct Cluster {
    generation: Option<i64>,
    durations: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
    members: i64,
    ready: i64,
    quorum: bool,
    lost: bool,
    /// Newest revision, and bytes of the largest database.
    revision: i64,
    db_size: u64,
    db_in_use: u64,
    deleting_volumes: usize,
    disks_nearly_full: usize,
    leader: u64,
    leader_changes: u64,
    /// Expiry of the first certificate to expire, in seconds since 1970.
    expires: Option<i64>,
}

impl Metrics {
    /// Records a reconciliation of a cluster.
    pub(crate) fn reconciled(&self, key: &str, generation: Option<i64>, took: Duration) {
        let mut inner = self.lock();
        let cluster = inner.clusters.entry(key.to_owned()).or_default();
        // Its members may have been counted before: that is part of a reconciliation.
        let known = cluster.count > 0;
        let modified = known && cluster.generation != generation;
        cluster.generation = generation;
        let seconds = took.as_secs_f64();
        for (bound, count) in BUCKETS.iter().zip(&mut cluster.durations) {
            *count += u64::from(seconds <= *bound);
        }
        cluster.count += 1;
        cluster.sum += seconds;
        inner.created += u64::from(!known);
        inner.modified += u64::from(modified);
    }

    pub(crate) fn members(&self, key: &str, members: i64, ready: i64, quorum: bool, lost: bool) {
        let mut inner = self.lock();
        let cluster = inner.clusters.entry(key.to_owned()).or_default();
        let newly_lost = lost && !cluster.lost;
        (cluster.members, cluster.ready, cluster.quorum, cluster.lost) = (members, ready, quorum, lost);
        inner.failed += u64::from(newly_lost);
    }

    /// Records the answers of the members. Without answers, the last values stay.
    pub(crate) fn observed(&self, key: &str, observed: &Observed, expires: Option<i64>) {
        let mut inner = self.lock();
        let cluster = inner.clusters.entry(key.to_owned()).or_default();
        cluster.expires = expires;
        cluster.deleting_volumes = observed.deleting_volumes().len();
        cluster.disks_nearly_full = disk::nearly_full(observed).len();
        let answers = observed.endpoints.values();
        cluster.revision = answers.clone().map(|e| e.revision).max().unwrap_or(cluster.revision);
        cluster.db_size = answers.clone().map(|e| e.db_size).max().unwrap_or(cluster.db_size);
        cluster.db_in_use = answers.clone().map(|e| e.db_in_use).max().unwrap_or(cluster.db_in_use);
        let Some(leader) = assess(observed).map(|health| health.leader) else { return };
        cluster.leader_changes += u64::from(cluster.leader != 0 && cluster.leader != leader);
        cluster.leader = leader;
    }

    pub(crate) fn action(&self, kind: &'static str) {
        *self.lock().actions.entry(kind).or_default() += 1;
    }

    pub(crate) fn reconcile_failed(&self, reason: &'static str) {
        *self.lock().reconcile_failed.entry(reason).or_default() += 1;
    }

    pub(crate) fn gone(&self, key: &str) {
        let mut inner = self.lock();
        inner.deleted += u64::from(inner.clusters.remove(key).is_some());
    }

    /// Renders the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        let inner = self.lock();
        let mut out = String::new();
        // Writing into a String does not fail.
        let _ = inner.render(&mut out);
        out.push_str(&self.backups.render());
        out
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn render(&self, out: &mut String) -> std::fmt::Result {
        let controller = "etcd_operator_controller_clusters";
        writeln!(out, "# HELP {controller} Number of managed clusters.\n# TYPE {controller} gauge")?;
        writeln!(out, "{controller} {}", self.clusters.len())?;
        let counters = [
            ("created", self.created),
            ("deleted", self.deleted),
            ("modified", self.modified),
            ("failed", self.failed),
        ];
        for (name, value) in counters {
            writeln!(
                out,
                "# HELP {controller}_{name} Number of clusters {name}.\n# TYPE {controller}_{name} counter"
            )?;
            writeln!(out, "{controller}_{name} {value}")?;
        }
        let failed = "etcd_operator_cluster_reconcile_failed";
        writeln!(out, "# HELP {failed} Failed reconciliations, by reason.\n# TYPE {failed} counter")?;
        for (reason, count) in &self.reconcile_failed {
            writeln!(out, "{failed}{{Reason=\"{reason}\"}} {count}")?;
        }
        let actions = "etcd_operator_cluster_actions_total";
        writeln!(out, "# HELP {actions} Completed actions, by kind.\n# TYPE {actions} counter")?;
        for (kind, count) in &self.actions {
            writeln!(out, "{actions}{{action=\"{kind}\"}} {count}")?;
        }
        let duration = "etcd_operator_cluster_reconcile_duration";
        writeln!(
            out,
            "# HELP {duration} Duration of a reconciliation in seconds.\n# TYPE {duration} histogram"
        )?;
        for (key, cluster) in &self.clusters {
            for (bound, count) in BUCKETS.iter().zip(cluster.durations) {
                writeln!(out, "{duration}_bucket{{ClusterName=\"{key}\",le=\"{bound}\"}} {count}")?;
            }
            writeln!(out, "{duration}_bucket{{ClusterName=\"{key}\",le=\"+Inf\"}} {}", cluster.count)?;
            writeln!(out, "{duration}_sum{{ClusterName=\"{key}\"}} {}", cluster.sum)?;
            writeln!(out, "{duration}_count{{ClusterName=\"{key}\"}} {}", cluster.count)?;
        }
        type Read = fn(&Cluster) -> Option<i64>;
        let gauges: [(&str, &str, &str, Read); 10] = [
            ("members", "gauge", "Number of voting members.", |c| Some(c.members)),
            ("healthy_members", "gauge", "Number of members that serve requests.", |c| Some(c.ready)),
            ("has_quorum", "gauge", "1 if the cluster serves requests, else 0.", |c| {
                Some(i64::from(c.quorum))
            }),
            ("revision", "gauge", "Latest revision.", |c| Some(c.revision)),
            ("db_size_bytes", "gauge", "Size of the largest database of a member in bytes.", |c| {
                i64::try_from(c.db_size).ok()
            }),
            ("db_in_use_bytes", "gauge", "Used part of the largest database of a member in bytes.", |c| {
                i64::try_from(c.db_in_use).ok()
            }),
            (
                "deleting_volumes",
                "gauge",
                "Number of members whose PersistentVolumeClaim is being deleted.",
                |c| i64::try_from(c.deleting_volumes).ok(),
            ),
            (
                "disks_nearly_full",
                "gauge",
                "Number of members whose volume is at least 80 percent full.",
                |c| i64::try_from(c.disks_nearly_full).ok(),
            ),
            ("leader_changes", "counter", "Number of observed leader changes.", |c| {
                i64::try_from(c.leader_changes).ok()
            }),
            (
                "certificate_expiry_timestamp_seconds",
                "gauge",
                "Expiry of the first certificate to expire, as a Unix timestamp.",
                |c| c.expires,
            ),
        ];
        for (name, kind, help, read) in gauges {
            let name = format!("etcd_operator_cluster_{name}");
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
            for (key, cluster) in &self.clusters {
                if let Some(value) = read(cluster) {
                    writeln!(out, "{name}{{ClusterName=\"{key}\"}} {value}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_leader_counts_and_silence_does_not() {
        let (metrics, key) = (Metrics::default(), "shop/orders");
        let led_by = |leader: u64, revision: i64| {
            let endpoint = crate::observed::Endpoint {
                member_id: 1,
                cluster_id: 9,
                leader,
                linearizable: true,
                revision,
                db_size: 4096,
                members: [(1, "a"), (2, "b")]
                    .map(|(id, pod)| crate::observed::Member {
                        id,
                        pod: Some(pod.into()),
                        started: true,
                        ..crate::observed::Member::default()
                    })
                    .to_vec(),
                ..crate::observed::Endpoint::default()
            };
            let pod = crate::observed::PodView { name: "a".into(), ..crate::observed::PodView::default() };
            Observed {
                pods: vec![pod],
                endpoints: BTreeMap::from([("a".into(), endpoint)]),
                ..Observed::default()
            }
        };
        metrics.observed(key, &led_by(1, 7), Some(1_800_000_000));
        metrics.observed(key, &led_by(1, 8), Some(1_800_000_000));
        metrics.observed(key, &Observed::default(), Some(1_800_000_000));
        metrics.observed(key, &led_by(2, 9), Some(1_800_000_000));
        let text = metrics.render();
        for line in [
            "etcd_operator_cluster_leader_changes{ClusterName=\"shop/orders\"} 1",
            "etcd_operator_cluster_revision{ClusterName=\"shop/orders\"} 9",
            "etcd_operator_cluster_db_size_bytes{ClusterName=\"shop/orders\"} 4096",
            "etcd_operator_cluster_disks_nearly_full{ClusterName=\"shop/orders\"} 0",
            "etcd_operator_cluster_certificate_expiry_timestamp_seconds{ClusterName=\"shop/orders\"} 1800000000",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn deleting_volumes_are_counted_while_pods_use_them() {
        let (metrics, key) = (Metrics::default(), "shop/orders");
        let line = |count: usize| {
            format!("\netcd_operator_cluster_deleting_volumes{{ClusterName=\"shop/orders\"}} {count}\n")
        };
        let claim = |name: &str, deleting| crate::observed::ClaimView {
            name: name.into(),
            deleting,
            ..crate::observed::ClaimView::default()
        };
        let pod = crate::observed::PodView {
            name: "a".into(),
            volume: true,
            ..crate::observed::PodView::default()
        };
        // The claim of `b` is deleted immediately: no pod uses it.
        let claims = vec![claim("a", true), claim("b", true)];
        let observed = Observed { pods: vec![pod], claims, ..Observed::default() };
        metrics.observed(key, &observed, None);
        assert!(metrics.render().contains(&line(1)));
        metrics.observed(key, &Observed { claims: vec![claim("a", false)], ..observed }, None);
        assert!(metrics.render().contains(&line(0)));
    }

    #[test]
    fn clusters_come_change_and_go() {
        let metrics = Metrics::default();
        metrics.reconciled("shop/orders", Some(1), Duration::from_millis(300));
        metrics.reconciled("shop/orders", Some(2), Duration::from_millis(10));
        metrics.members("shop/orders", 3, 3, true, false);
        let text = metrics.render();
        for line in [
            "etcd_operator_controller_clusters 1",
            "etcd_operator_controller_clusters_created 1",
            "etcd_operator_controller_clusters_modified 1",
            "etcd_operator_cluster_reconcile_duration_bucket{ClusterName=\"shop/orders\",le=\"0.2\"} 1",
            "etcd_operator_cluster_reconcile_duration_count{ClusterName=\"shop/orders\"} 2",
            "etcd_operator_cluster_members{ClusterName=\"shop/orders\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        metrics.gone("shop/orders");
        assert!(metrics.render().contains("etcd_operator_controller_clusters_deleted 1"));
    }

    #[test]
    fn a_cluster_is_created_once_although_its_members_are_reported_before_the_observation_ends() {
        let (metrics, key) = (Metrics::default(), "shop/orders");
        for _ in 0..2 {
            metrics.members(key, 3, 3, true, false);
            metrics.reconciled(key, Some(1), Duration::ZERO);
        }
        let text = metrics.render();
        assert!(text.contains("\netcd_operator_controller_clusters_created 1\n"), "{text}");
    }
}
