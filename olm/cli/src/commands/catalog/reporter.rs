//! The progress of a build, on standard error.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use olm_catalog::build::Progress;

use crate::{
    bars::{Bar, Lines},
    output::count,
};

/// A bar on a terminal, otherwise a line every few seconds.
pub struct Reporter {
    bar: Option<Bar>,
    lines: Mutex<Lines>,
}

impl Reporter {
    pub fn new() -> Self {
        Self { bar: Bar::of_items(), lines: Mutex::new(Lines::since(Instant::now())) }
    }

    /// Called by several threads.
    pub fn report(&self, progress: Progress) {
        let Progress { packages: (packages, all_packages), bundles: (bundles, all_bundles) } = progress;
        if let Some(bar) = &self.bar {
            let message = format!("bundles, {packages} of {} built", count(all_packages, "package"));
            bar.show(bundles as u64, all_bundles as u64, message);
        } else if let Some(line) = self.line(progress, Instant::now()) {
            eprintln!("{line}");
        }
    }

    fn line(&self, progress: Progress, now: Instant) -> Option<String> {
        let seconds = self.lines.lock().unwrap_or_else(PoisonError::into_inner).due(now)?;
        let Progress { packages: (packages, all_packages), bundles: (bundles, all_bundles) } = progress;
        let all = count(all_packages, "package");
        Some(format!("… {bundles} of {all_bundles} bundles read, {packages} of {all} built ({seconds}s)"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_every_few_seconds() {
        let start = Instant::now();
        let reporter = Reporter { bar: None, lines: Mutex::new(Lines::since(start)) };
        let at = |seconds| start + Duration::from_secs(seconds);
        let progress = Progress { packages: (12, 393), bundles: (310, 7018) };
        assert_eq!(reporter.line(progress, at(4)), None);
        let line = "… 310 of 7018 bundles read, 12 of 393 packages built (6s)";
        assert_eq!(reporter.line(progress, at(6)).as_deref(), Some(line));
        assert_eq!(reporter.line(progress, at(8)), None);
        assert!(reporter.line(progress, at(11)).is_some());
    }
}
