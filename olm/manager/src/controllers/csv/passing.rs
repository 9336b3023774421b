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
const PASSING: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Begun {
    phase: CsvPhase,
    at: Instant,
    /// The Deployments that were applied, with their generation, for the status.
    applied: Vec<AppliedDeployment>,
}

/// By UID.
#[derive(Debug, Default)]
pub(super) struct Passing(Mutex<HashMap<String, Begun>>);

impl Passing {
    /// How long to delay the report of a phase; `None` reports it now.
    pub(super) fn hold(
        &self,
        csv: &ClusterServiceVersion,
        to: CsvPhase,
        applied: &[AppliedDeployment],
    ) -> Option<Duration> {
        let uid = csv.uid().unwrap_or_default();
        let from = csv.phase();
        let mut all = self.all();
        let passes = matches!(
            (from, to),
            // Its requirements are made after it, by the same plan.
            (CsvPhase::None, CsvPhase::Pending) | (CsvPhase::None | CsvPhase::Pending, CsvPhase::Installing)
        );
        if !passes {
            all.remove(&uid);
            return None;
        }
        let begin = || Begun { phase: to, at: Instant::now(), applied: Vec::new() };
        let begun = all.entry(uid).or_insert_with(begin);
        if begun.phase != to {
            *begun = begin();
        }
        begun.applied = applied.to_vec();
        // The entry is kept until the status is written: reconciliations meanwhile need the applied
        // Deployments.
        PASSING.checked_sub(begun.at.elapsed()).filter(|left| !left.is_zero())
    }

    /// Applied Deployments of a version that are not in its status yet.
    pub(super) fn applied(&self, csv: &ClusterServiceVersion) -> Option<Vec<AppliedDeployment>> {
        Some(self.all().get(csv.metadata.uid.as_deref()?)?.applied.clone())
    }

    /// The version is deleted.
    pub(super) fn forget(&self, csv: &ClusterServiceVersion) {
        self.all().remove(csv.metadata.uid.as_deref().unwrap_or_default());
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Begun>> {
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
        let passing = Passing::default();
        let applied = [AppliedDeployment { uid: "d".into(), generation: 1 }];
        let over = || {
            if let Some(begun) = passing.all().get_mut("1") {
                begun.at = Instant::now().checked_sub(PASSING).unwrap();
            }
        };
        // given a version whose requirements are being made
        assert!(passing.hold(&csv(CsvPhase::None), CsvPhase::Pending, &[]).is_some());
        over();
        assert_eq!(passing.hold(&csv(CsvPhase::None), CsvPhase::Pending, &[]), None);
        // when it begins to start, the delay restarts
        assert!(passing.hold(&csv(CsvPhase::Pending), CsvPhase::Installing, &applied).is_some());
        // and the applied Deployments are known although its status lacks them
        assert_eq!(passing.applied(&csv(CsvPhase::Pending)).as_deref(), Some(applied.as_slice()));
        // when the delay is over, it is reported
        over();
        assert_eq!(passing.hold(&csv(CsvPhase::Pending), CsvPhase::Installing, &applied), None);
        // and every other transition is reported at once
        for (from, to) in [
            (CsvPhase::None, CsvPhase::Succeeded),
            (CsvPhase::None, CsvPhase::Failed),
            (CsvPhase::Pending, CsvPhase::Pending),
            (CsvPhase::Installing, CsvPhase::Installing),
            (CsvPhase::Succeeded, CsvPhase::Installing),
        ] {
            assert_eq!(passing.hold(&csv(from), to, &applied), None, "{from:?} {to:?}");
        }
        assert_eq!(passing.applied(&csv(CsvPhase::Pending)), None);
    }
}
