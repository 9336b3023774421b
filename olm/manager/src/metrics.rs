//! What the manager counts, as Prometheus text. No label ever carries a user's free text.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::catalogs::CatalogStore;

/// Counters of all controllers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    reconciles: Mutex<BTreeMap<(&'static str, &'static str), Count>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    runs: u64,
    time: Duration,
}

impl Metrics {
    /// One finished reconciliation. `result` is `ok` or `error`.
    pub(crate) fn reconciled(&self, controller: &'static str, result: &'static str, took: Duration) {
        let mut reconciles = self.reconciles.lock().unwrap_or_else(PoisonError::into_inner);
        let count = reconciles.entry((controller, result)).or_default();
        count.runs += 1;
        count.time += took;
    }

    pub(crate) fn render(&self, catalogs: &CatalogStore, leading: bool) -> String {
        let mut out = String::new();
        family(&mut out, "olm_leading", "gauge", "Whether this replica leads.");
        line(&mut out, "olm_leading", &[], f64::from(u8::from(leading)));
        let reconciles = self.reconciles.lock().unwrap_or_else(PoisonError::into_inner).clone();
        family(&mut out, "olm_reconcile_total", "counter", "Finished reconciliations.");
        for ((controller, result), count) in &reconciles {
            let labels = [("controller", *controller), ("result", *result)];
            line(&mut out, "olm_reconcile_total", &labels, count.runs as f64);
        }
        family(&mut out, "olm_reconcile_seconds_total", "counter", "Time spent in reconciliations.");
        for ((controller, result), count) in &reconciles {
            let labels = [("controller", *controller), ("result", *result)];
            line(&mut out, "olm_reconcile_seconds_total", &labels, count.time.as_secs_f64());
        }
        let index = catalogs.index();
        family(&mut out, "olm_catalog_packages", "gauge", "Packages in the catalog that is being served.");
        for entry in &index {
            let labels = [("namespace", entry.namespace.as_str()), ("name", entry.name.as_str())];
            line(&mut out, "olm_catalog_packages", &labels, entry.packages as f64);
        }
        family(&mut out, "olm_catalog_problems", "gauge", "Problems found in the catalog.");
        for entry in &index {
            let labels = [("namespace", entry.namespace.as_str()), ("name", entry.name.as_str())];
            line(&mut out, "olm_catalog_problems", &labels, entry.problems as f64);
        }
        family(&mut out, "olm_catalog_stale", "gauge", "Whether the catalog could not be refreshed.");
        for entry in &index {
            let labels = [("namespace", entry.namespace.as_str()), ("name", entry.name.as_str())];
            line(&mut out, "olm_catalog_stale", &labels, f64::from(u8::from(!entry.stale.is_empty())));
        }
        out
    }
}

// Writing to a String cannot fail; the results are dropped for that reason.

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rendered_as_prometheus_text() {
        let metrics = Metrics::default();
        metrics.reconciled("subscription", "ok", Duration::from_millis(500));
        metrics.reconciled("subscription", "ok", Duration::from_millis(250));
        let text = metrics.render(&CatalogStore::default(), true);
        assert!(text.contains("olm_leading 1\n"), "{text}");
        assert!(
            text.contains("olm_reconcile_total{controller=\"subscription\",result=\"ok\"} 2\n"),
            "{text}"
        );
        assert!(
            text.contains("olm_reconcile_seconds_total{controller=\"subscription\",result=\"ok\"} 0.75\n")
        );
    }
}
