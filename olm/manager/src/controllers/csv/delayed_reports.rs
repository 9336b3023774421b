//! Delays the report of starting versions: most of them run a moment later, and every report is a write.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::ResourceExt;
use olm_api::{
    ClusterServiceVersion,
    csv::{AppliedDeployment, CsvPhase},
};

/// How long a starting phase may last before it is reported. A shorter one is in the history alone.
const REPORT_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct StartingPhase {
    phase: CsvPhase,
    at: Instant,
    /// The Deployments that were applied, with their generation, for the status.
    applied: Vec<AppliedDeployment>,
}

/// By UID.
#[derive(Debug, Default)]
pub(super) struct DelayedReports(Mutex<HashMap<String, StartingPhase>>);

impl DelayedReports {
    /// How long to delay the report of a phase; `None` reports it now.
    pub(super) fn delay(
        &self,
        csv: &ClusterServiceVersion,
        to: CsvPhase,
        applied: &[AppliedDeployment],
    ) -> Option<Duration> {
        let uid = csv.uid().unwrap_or_default();
        let from = csv.phase();
        let mut all = self.all();
        let is_starting = matches!(
            (from, to),
            // Its requirements are made after it, by the same plan.
            (CsvPhase::None, CsvPhase::Pending) | (CsvPhase::None | CsvPhase::Pending, CsvPhase::Installing)
        );
        if !is_starting {
            all.remove(&uid);
            return None;
        }
        let begin = || StartingPhase { phase: to, at: Instant::now(), applied: Vec::new() };
        let starting = all.entry(uid).or_insert_with(begin);
        if starting.phase != to {
            *starting = begin();
        }
        starting.applied = applied.to_vec();
        // The entry is kept until the status is written: reconciliations meanwhile need the applied
        // Deployments.
        REPORT_DELAY.checked_sub(starting.at.elapsed()).filter(|left| !left.is_zero())
    }

    /// Applied Deployments of a version that are not in its status yet.
    pub(super) fn applied(&self, csv: &ClusterServiceVersion) -> Option<Vec<AppliedDeployment>> {
        Some(self.all().get(csv.metadata.uid.as_deref()?)?.applied.clone())
    }

    /// The version is deleted.
    pub(super) fn forget(&self, csv: &ClusterServiceVersion) {
        self.all().remove(csv.metadata.uid.as_deref().unwrap_or_default());
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, StartingPhase>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use olm_api::ClusterServiceVersionStatus;

    use super::*;

    fn csv(phase: CsvPhase) -> ClusterServiceVersion {
        let mut csv = ClusterServiceVersion::default();
        csv.metadata.uid = Some("1".into());
        csv.status = Some(ClusterServiceVersionStatus { phase, ..Default::default() });
        csv
    }

    #[test]
    fn only_the_first_moment_of_a_phase_on_the_way_up_is_kept_quiet_about() {
        let delayed = DelayedReports::default();
        let applied = [AppliedDeployment { uid: "d".into(), generation: 1 }];
        let over = || {
            if let Some(starting) = delayed.all().get_mut("1") {
                starting.at = Instant::now().checked_sub(REPORT_DELAY).unwrap();
            }
        };
        // given a version whose requirements are being made
        assert!(delayed.delay(&csv(CsvPhase::None), CsvPhase::Pending, &[]).is_some());
        over();
        assert_eq!(delayed.delay(&csv(CsvPhase::None), CsvPhase::Pending, &[]), None);
        // when it begins to start, the delay restarts
        assert!(delayed.delay(&csv(CsvPhase::Pending), CsvPhase::Installing, &applied).is_some());
        // and the applied Deployments are known although its status lacks them
        assert_eq!(delayed.applied(&csv(CsvPhase::Pending)).as_deref(), Some(applied.as_slice()));
        // when the delay is over, it is reported
        over();
        assert_eq!(delayed.delay(&csv(CsvPhase::Pending), CsvPhase::Installing, &applied), None);
        // and every other transition is reported at once
        for (from, to) in [
            (CsvPhase::None, CsvPhase::Succeeded),
            (CsvPhase::None, CsvPhase::Failed),
            (CsvPhase::Pending, CsvPhase::Pending),
            (CsvPhase::Installing, CsvPhase::Installing),
            (CsvPhase::Succeeded, CsvPhase::Installing),
        ] {
            assert_eq!(delayed.delay(&csv(from), to, &applied), None, "{from:?} {to:?}");
        }
        assert_eq!(delayed.applied(&csv(CsvPhase::Pending)), None);
    }
}
