//! The status of a ClusterServiceVersion: pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::{
    ClusterServiceVersion, ClusterServiceVersionStatus,
    csv::{CsvCondition, CsvPhase},
};

use super::{decide::Decision, facts::Observed};
use crate::context::truncate;

/// Upstream keeps as many.
const HISTORY: usize = 20;

pub(super) fn status(
    csv: &ClusterServiceVersion,
    decision: &Decision,
    now: Timestamp,
) -> ClusterServiceVersionStatus {
    let old = csv.status.clone().unwrap_or_default();
    let mut new = old.clone();
    new.requirement_status.clone_from(&decision.requirements);
    let message = truncate(&decision.message, 2000);
    if old.phase != decision.phase || old.reason.as_deref() != Some(decision.reason) {
        let ready = if decision.phase == CsvPhase::Pending { decision.reason } else { "" };
        for (phase, reason, text) in passed(old.phase, decision.phase, decision.reason) {
            if reason != ready {
                push(&mut new, phase, reason, text.to_owned(), now);
            }
        }
        push(&mut new, decision.phase, decision.reason, message.clone(), now);
    }
    new.phase = decision.phase;
    new.reason = Some(decision.reason.to_owned());
    new.message = Some(message);
    if old.phase != new.phase {
        new.last_transition_time = Some(Time(now));
    }
    if new != old {
        new.last_update_time = Some(Time(now));
    }
    new
}

/// The status with what goes into it beside the phase: certificates, and which Deployments were applied.
pub(super) fn with_facts(
    mut new: ClusterServiceVersionStatus,
    observed: &Observed<'_>,
) -> ClusterServiceVersionStatus {
    if let Some((made, again)) = &observed.serving.dates {
        new.certs_last_updated = Some(made.clone());
        new.certs_rotate_at = Some(again.clone());
    }
    let live = |uid: &str| observed.deployments.values().any(|d| d.metadata.uid.as_deref() == Some(uid));
    new.applied_deployments = observed.applied.iter().filter(|a| live(&a.uid)).cloned().collect();
    new
}

type Step = (CsvPhase, &'static str, &'static str);

const UNKNOWN: Step = (CsvPhase::Pending, "RequirementsUnknown", "requirements not yet checked");
const REINSTALL: Step =
    (CsvPhase::Pending, "NeedsReinstall", "the version is not what was installed; installing again");
const READY: Step =
    (CsvPhase::InstallReady, "AllRequirementsMet", "all requirements found, attempting install");
const STARTED: Step =
    (CsvPhase::Installing, "InstallSucceeded", "waiting for install components to report healthy");

/// Phases that upstream's version of the way has and that last as long as a function call here. They are in the history for
/// those who look for them.
pub(super) fn passed(from: CsvPhase, to: CsvPhase, reason: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    if from == CsvPhase::None && to != CsvPhase::Failed {
        steps.push(UNKNOWN);
    }
    let installs = to == CsvPhase::Installing || to == CsvPhase::Succeeded;
    match from {
        CsvPhase::Succeeded | CsvPhase::Failed
            if to == CsvPhase::Installing && reason == "InstallSucceeded" =>
        {
            steps.extend([REINSTALL, READY]);
        }
        CsvPhase::None | CsvPhase::Pending if installs => steps.push(READY),
        CsvPhase::Installing if to == from && reason == "InstallSucceeded" => steps.push(READY),
        _ => {}
    }
    if to == CsvPhase::Succeeded && matches!(from, CsvPhase::None | CsvPhase::Pending) {
        steps.push(STARTED);
    }
    steps
}

fn push(
    status: &mut ClusterServiceVersionStatus,
    phase: CsvPhase,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    status.conditions.push(CsvCondition {
        phase,
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
    let surplus = status.conditions.len().saturating_sub(HISTORY);
    status.conditions.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::super::decide::Act;
    use super::*;

    fn decision(phase: CsvPhase, reason: &'static str) -> Decision {
        Decision { phase, reason, message: format!("{phase}"), requirements: Vec::new(), act: Act::Nothing }
    }

    #[test]
    fn the_history_holds_the_newest_twenty() {
        let mut csv = ClusterServiceVersion::default();
        for turn in 0..30 {
            let next = if turn % 2 == 0 {
                decision(CsvPhase::Failed, "ComponentUnhealthy")
            } else {
                decision(CsvPhase::Succeeded, "InstallSucceeded")
            };
            csv.status = Some(status(&csv, &next, Timestamp::from_second(turn).unwrap()));
        }
        let status = csv.status.unwrap();
        assert_eq!(status.conditions.len(), HISTORY);
        assert_eq!(
            status.conditions[0].last_transition_time,
            Some(Time(Timestamp::from_second(10).unwrap()))
        );
        assert_eq!(status.conditions[HISTORY - 1].phase, CsvPhase::Succeeded);
    }

    #[test]
    fn phases_that_take_no_time_are_in_the_history() {
        let csv = ClusterServiceVersion::default();
        let status = status(&csv, &decision(CsvPhase::Installing, "InstallSucceeded"), Timestamp::now());
        let steps: Vec<String> = status
            .conditions
            .iter()
            .map(|c| format!("{}/{}", c.phase, c.reason.as_deref().unwrap_or_default()))
            .collect();
        let all =
            ["Pending/RequirementsUnknown", "InstallReady/AllRequirementsMet", "Installing/InstallSucceeded"];
        assert_eq!(steps, all);
        assert_eq!(status.phase, CsvPhase::Installing);
    }

    #[test]
    fn nothing_new_changes_nothing() {
        let mut csv = ClusterServiceVersion::default();
        let same = decision(CsvPhase::Succeeded, "InstallSucceeded");
        csv.status = Some(status(&csv, &same, Timestamp::from_second(1).unwrap()));
        assert_eq!(csv.status.clone().unwrap(), status(&csv, &same, Timestamp::from_second(2).unwrap()));
    }
}
