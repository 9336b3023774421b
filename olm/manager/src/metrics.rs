//! What the manager counts, as Prometheus text. No label ever carries a user's free text.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::catalogs::{CatalogStore, Entry};

/// Counters of all controllers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    reconciles: Mutex<BTreeMap<(&'static str, &'static str), Count>>,
    fetches: Mutex<BTreeMap<&'static str, Count>>,
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

    /// One finished look at a catalog's source. `result` is `ok` or the code of the failure.
    pub(crate) fn fetched(&self, result: &'static str, took: Duration) {
        let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
        let count = fetches.entry(result).or_default();
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
        let fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner).clone();
        family(
            &mut out,
            "olm_catalog_fetch_total",
            "counter",
            "Looks at the sources of catalogs, by result.",
        );
        for (result, count) in &fetches {
            line(&mut out, "olm_catalog_fetch_total", &[("result", *result)], count.runs as f64);
        }
        family(&mut out, "olm_catalog_fetch_seconds_total", "counter", "Time spent in them.");
        for (result, count) in &fetches {
            let seconds = count.time.as_secs_f64();
            line(&mut out, "olm_catalog_fetch_seconds_total", &[("result", *result)], seconds);
        }
        let all = catalogs.all();
        for (name, help, value) in GAUGES {
            family(&mut out, name, "gauge", help);
            for ((namespace, catalog), entry) in &all {
                let labels = [("namespace", namespace.as_str()), ("name", catalog.as_str())];
                if let Some(value) = value(entry) {
                    line(&mut out, name, &labels, value);
                }
            }
        }
        out
    }
}

type Gauge = (&'static str, &'static str, fn(&Entry) -> Option<f64>);

/// What is said of every CatalogSource; of what is not known, nothing.
const GAUGES: [Gauge; 6] = [
    // Upstream's name.
    ("catalogsource_ready", "Whether the catalog was read at the last look.", |entry| {
        Some(f64::from(u8::from(entry.loaded.is_some() && entry.problem.is_none())))
    }),
    ("olm_catalog_packages", "Packages in the catalog that is being served.", |entry| {
        Some(entry.loaded.as_ref()?.catalog.len() as f64)
    }),
    ("olm_catalog_problems", "Problems found in the catalog.", |entry| {
        Some(entry.loaded.as_ref()?.catalog.problems.len() as f64)
    }),
    ("olm_catalog_bytes", "Size of the files that the catalog was read from.", |entry| {
        entry.loaded.as_ref()?;
        Some(entry.bytes as f64)
    }),
    ("olm_catalog_stale", "Whether the catalog could not be refreshed.", |entry| {
        entry.loaded.as_ref()?;
        Some(f64::from(u8::from(entry.problem.is_some())))
    }),
    (
        "olm_catalog_last_success_timestamp_seconds",
        "When the source was last read or found unchanged, in Unix time.",
        |entry| Some(entry.last_success?.as_second() as f64),
    ),
];

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
    fn of_a_catalog_that_failed_it_is_known_since_when_and_why() {
        let (metrics, catalogs) = (Metrics::default(), CatalogStore::default());
        metrics.fetched("AccessDenied", Duration::from_millis(500));
        let problem = crate::catalogs::Problem::new("RegistryServerError", "AccessDenied", "401");
        let last_success = jiff::Timestamp::from_second(1_700_000_000).ok();
        let entry = Entry { problem: Some(problem), last_success, ..Entry::default() };
        catalogs.put("olm", "community", entry);
        let text = metrics.render(&catalogs, true);
        for line in [
            "olm_catalog_fetch_total{result=\"AccessDenied\"} 1\n",
            "catalogsource_ready{namespace=\"olm\",name=\"community\"} 0\n",
            "olm_catalog_last_success_timestamp_seconds{namespace=\"olm\",name=\"community\"} 1700000000\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("olm_catalog_packages{"), "{text}");
    }

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
