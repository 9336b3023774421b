//! Versions that have begun to come up, before that is said: most of them run a moment later, and every word is a write.

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

/// How long a phase on the way up may last before it is told. One that is over by then is in the history alone.
const PASSING: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Begun {
    phase: CsvPhase,
    at: Instant,
    /// What the status would have: which Deployments were applied, in which generation.
    applied: Vec<AppliedDeployment>,
}

/// By UID.
#[derive(Debug, Default)]
pub(super) struct Passing(Mutex<HashMap<String, Begun>>);

impl Passing {
    /// For how long nothing is said of a version that goes to a phase; `None` when it is to be said now.
    pub(super) fn hold(
        &self,
        csv: &ClusterServiceVersion,
        to: CsvPhase,
        applied: &[AppliedDeployment],
    ) -> Option<Duration> {
        let uid = csv.uid().unwrap_or_default();
        let from = csv.status.as_ref().map(|status| status.phase).unwrap_or_default();
        let mut all = self.all();
        let passes = matches!(
            (from, to),
            // What it needs is made after it, in the same plan.
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
        // It is kept until the status is written: whoever looks meanwhile has to know what was applied.
        PASSING.checked_sub(begun.at.elapsed()).filter(|left| !left.is_zero())
    }

    /// What was applied of a version and is not in its status yet.
    pub(super) fn applied(&self, csv: &ClusterServiceVersion) -> Option<Vec<AppliedDeployment>> {
        Some(self.all().get(csv.metadata.uid.as_deref()?)?.applied.clone())
    }

    /// The version goes.
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
        // given a version whose needs are being made
        assert!(passing.hold(&csv(CsvPhase::None), CsvPhase::Pending, &[]).is_some());
        over();
        assert_eq!(passing.hold(&csv(CsvPhase::None), CsvPhase::Pending, &[]), None);
        // when it begins to come up, that is another moment
        assert!(passing.hold(&csv(CsvPhase::Pending), CsvPhase::Installing, &applied).is_some());
        // and what was applied is known though its status does not say so
        assert_eq!(passing.applied(&csv(CsvPhase::Pending)).as_deref(), Some(applied.as_slice()));
        // when it is over, it is said
        over();
        assert_eq!(passing.hold(&csv(CsvPhase::Pending), CsvPhase::Installing, &applied), None);
        // and so is at once whatever else it goes to, and comes from
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
