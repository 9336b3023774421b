//! The status of a ClusterServiceVersion: pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::{
    ClusterServiceVersion, ClusterServiceVersionStatus,
    csv::{CsvCondition, CsvPhase},
};

use super::decide::Decision;
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
    let moved = old.phase != decision.phase || old.reason.as_deref() != Some(decision.reason);
    if moved {
        // InstallReady lasts as long as a function call here; it is in the history for those who look for it.
        if decision.phase == CsvPhase::Installing && matches!(old.phase, CsvPhase::None | CsvPhase::Pending) {
            let text = "all requirements found, attempting install".to_owned();
            push(&mut new, CsvPhase::InstallReady, "AllRequirementsMet", text, now);
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
