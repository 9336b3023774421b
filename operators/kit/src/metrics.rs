//! Metrics under the names of controller-runtime, for which dashboards exist.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of the histogram, in seconds.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// How a reconciliation ended, as in controller-runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Success,
    Error,
    RequeueAfter,
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    controllers: Mutex<BTreeMap<String, Controller>>,
}

#[derive(Debug, Default)]
struct Controller {
    success: u64,
    error: u64,
    requeue_after: u64,
    active: u64,
    durations: [u64; BUCKETS.len()],
    sum: f64,
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Controller>> {
        // The map is consistent after every change, also when a holder of the lock panicked.
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, controller: &str) {
        self.lock().entry(controller.to_owned()).or_default().active += 1;
    }

    pub(crate) fn end(&self, controller: &str, ended: Ended, took: Duration) {
        let mut controllers = self.lock();
        let of = controllers.entry(controller.to_owned()).or_default();
        of.active = of.active.saturating_sub(1);
        match ended {
            Ended::Success => of.success += 1,
            Ended::Error => of.error += 1,
            Ended::RequeueAfter => of.requeue_after += 1,
        }
        let seconds = took.as_secs_f64();
        for (bound, count) in BUCKETS.iter().zip(&mut of.durations) {
            *count += u64::from(seconds <= *bound);
        }
        of.sum += seconds;
    }

    /// Renders the text format of Prometheus.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        // Writing into a String does not fail.
        let _ = render(&self.lock(), &mut out);
        out
    }
}

fn render(controllers: &BTreeMap<String, Controller>, out: &mut String) -> std::fmt::Result {
    let head = |out: &mut String, name: &str, kind: &str, help: &str| {
        writeln!(out, "# HELP controller_runtime_{name} {help}\n# TYPE controller_runtime_{name} {kind}")
    };
    head(out, "reconcile_total", "counter", "Reconciliations by result")?;
    for (name, of) in controllers {
        let results = [("success", of.success), ("error", of.error), ("requeue_after", of.requeue_after)];
        for (result, count) in results {
            writeln!(
                out,
                "controller_runtime_reconcile_total{{controller=\"{name}\",result=\"{result}\"}} {count}"
            )?;
        }
    }
    head(out, "reconcile_errors_total", "counter", "Failed reconciliations")?;
    for (name, of) in controllers {
        writeln!(out, "controller_runtime_reconcile_errors_total{{controller=\"{name}\"}} {}", of.error)?;
    }
    head(out, "active_workers", "gauge", "Reconciliations in progress")?;
    for (name, of) in controllers {
        writeln!(out, "controller_runtime_active_workers{{controller=\"{name}\"}} {}", of.active)?;
    }
    head(out, "reconcile_time_seconds", "histogram", "Duration of reconciliations")?;
    for (name, of) in controllers {
        let count = of.success + of.error + of.requeue_after;
        let bucket = "controller_runtime_reconcile_time_seconds_bucket";
        for (bound, count) in BUCKETS.iter().zip(&of.durations) {
            writeln!(out, "{bucket}{{controller=\"{name}\",le=\"{bound}\"}} {count}")?;
        }
        writeln!(out, "{bucket}{{controller=\"{name}\",le=\"+Inf\"}} {count}")?;
        writeln!(out, "controller_runtime_reconcile_time_seconds_sum{{controller=\"{name}\"}} {}", of.sum)?;
        writeln!(out, "controller_runtime_reconcile_time_seconds_count{{controller=\"{name}\"}} {count}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciliations_have_the_names_of_controller_runtime() {
        let metrics = Metrics::default();
        metrics.begin("myapp");
        metrics.end("myapp", Ended::Success, Duration::from_millis(7));
        metrics.begin("myapp");
        metrics.end("myapp", Ended::Error, Duration::from_secs(3));
        metrics.begin("myapp");
        let text = metrics.render();
        for line in [
            "# TYPE controller_runtime_reconcile_total counter",
            "controller_runtime_reconcile_total{controller=\"myapp\",result=\"success\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"myapp\"} 1",
            "controller_runtime_active_workers{controller=\"myapp\"} 1",
            "controller_runtime_reconcile_time_seconds_bucket{controller=\"myapp\",le=\"0.01\"} 1",
            "controller_runtime_reconcile_time_seconds_bucket{controller=\"myapp\",le=\"+Inf\"} 2",
            "controller_runtime_reconcile_time_seconds_count{controller=\"myapp\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
        }
    }
}
