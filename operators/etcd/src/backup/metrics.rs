//! Metrics of backups.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// By namespace and name of the EtcdBackup.
#[derive(Debug, Default)]
pub struct BackupMetrics {
    backups: Mutex<BTreeMap<String, Backup>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Backup {
    total: u64,
    failed: u64,
    last_success: Option<f64>,
    size: u64,
    duration: f64,
}

impl BackupMetrics {
    /// Seeds the metrics from the status that an earlier operator wrote.
    pub(crate) fn known(&self, key: &str, last_success: Option<Timestamp>, size: i64) {
        let mut backups = self.lock();
        let backup = backups.entry(key.to_owned()).or_default();
        if backup.last_success.is_none() {
            backup.last_success = last_success.map(|time| time.as_millisecond() as f64 / 1000.0);
            backup.size = u64::try_from(size).unwrap_or_default();
        }
    }

    pub(crate) fn succeeded(&self, key: &str, now: Timestamp, size: u64, took: Duration) {
        let mut backups = self.lock();
        let backup = backups.entry(key.to_owned()).or_default();
        backup.total += 1;
        backup.last_success = Some(now.as_millisecond() as f64 / 1000.0);
        (backup.size, backup.duration) = (size, took.as_secs_f64());
    }

    pub(crate) fn failed(&self, key: &str) {
        let mut backups = self.lock();
        let backup = backups.entry(key.to_owned()).or_default();
        backup.total += 1;
        backup.failed += 1;
    }

    pub(crate) fn gone(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Renders the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        type Read = fn(&Backup) -> Option<f64>;
        let lines: [(&str, &str, &str, Read); 5] = [
            ("total", "counter", "Number of attempted backups.", |b| Some(b.total as f64)),
            ("failed_total", "counter", "Number of failed backups.", |b| Some(b.failed as f64)),
            (
                "last_success_timestamp_seconds",
                "gauge",
                "Time of the last successful backup, as a Unix timestamp.",
                |b| b.last_success,
            ),
            ("size_bytes", "gauge", "Size of the last successful backup in bytes.", |b| {
                b.last_success.map(|_| b.size as f64)
            }),
            ("duration_seconds", "gauge", "Duration of the last successful backup in seconds.", |b| {
                (b.duration > 0.0).then_some(b.duration)
            }),
        ];
        let backups = self.lock();
        let mut out = String::new();
        for (name, kind, help, read) in lines {
            let name = format!("etcd_operator_backup_{name}");
            // Writing into a String does not fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (key, backup) in backups.iter() {
                if let Some(value) = read(backup) {
                    let _ = writeln!(out, "{name}{{backup=\"{key}\"}} {value}");
                }
            }
        }
        out
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Backup>> {
        self.backups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_the_names_that_alerts_are_written_for() {
        let numbers = BackupMetrics::default();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        numbers.known("shop/nightly", Some(now), 5);
        numbers.failed("shop/nightly");
        numbers.succeeded("shop/nightly", now, 8224, Duration::from_millis(1500));
        let text = numbers.render();
        for line in [
            "etcd_operator_backup_total{backup=\"shop/nightly\"} 2",
            "etcd_operator_backup_failed_total{backup=\"shop/nightly\"} 1",
            "etcd_operator_backup_last_success_timestamp_seconds{backup=\"shop/nightly\"} 1767225600",
            "etcd_operator_backup_size_bytes{backup=\"shop/nightly\"} 8224",
            "etcd_operator_backup_duration_seconds{backup=\"shop/nightly\"} 1.5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        numbers.gone("shop/nightly");
        assert!(!numbers.render().contains("shop/nightly"));
    }
}
