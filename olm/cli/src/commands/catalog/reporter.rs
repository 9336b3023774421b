//! The progress of a build, on standard error.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use olm_catalog::build::Progress;

use crate::output::count;

/// Interval of progress lines, and delay of the first one: a short build prints none.
const INTERVAL: Duration = Duration::from_secs(5);

pub struct Reporter {
    start: Instant,
    last: Mutex<Instant>,
}

impl Reporter {
    pub fn new() -> Self {
        let start = Instant::now();
        Self { start, last: Mutex::new(start) }
    }

    /// Called by several threads.
    pub fn report(&self, progress: Progress) {
        if let Some(line) = self.line(progress, Instant::now()) {
            eprintln!("{line}");
        }
    }

    fn line(&self, progress: Progress, now: Instant) -> Option<String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(*last) < INTERVAL {
            return None;
        }
        *last = now;
        let Progress { packages: (packages, all_packages), bundles: (bundles, all_bundles) } = progress;
        let seconds = now.saturating_duration_since(self.start).as_secs();
        let all = count(all_packages, "package");
        Some(format!("… {bundles} of {all_bundles} bundles read, {packages} of {all} built ({seconds}s)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_every_few_seconds() {
        let reporter = Reporter::new();
        let at = |seconds| reporter.start + Duration::from_secs(seconds);
        let progress = Progress { packages: (12, 393), bundles: (310, 7018) };
        assert_eq!(reporter.line(progress, at(4)), None);
        let line = "… 310 of 7018 bundles read, 12 of 393 packages built (6s)";
        assert_eq!(reporter.line(progress, at(6)).as_deref(), Some(line));
        assert_eq!(reporter.line(progress, at(8)), None);
        assert!(reporter.line(progress, at(11)).is_some());
    }
}
