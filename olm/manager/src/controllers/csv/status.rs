//! The status of a ClusterServiceVersion: its content (pure), and one write.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::{
    ClusterServiceVersion, ClusterServiceVersionStatus, Condition,
    csv::{CsvCondition, CsvPhase, RequirementStatus},
};
use olm_engine::limits::{REQUIREMENTS, TEXT, truncate, within};

use super::{
    decide::{Act, Decision, INSTALL_FAILED},
    facts::Observed,
    requirements::is_met,
};
use crate::{
    context::{Ctx, Error},
    controllers::health::{self, Health},
};

/// As upstream.
const HISTORY: usize = 20;

pub(super) fn status(
    csv: &ClusterServiceVersion,
    decision: &Decision,
    now: Timestamp,
) -> ClusterServiceVersionStatus {
    let old = csv.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let (listed, more) = listed(&decision.requirements);
    new.requirement_status = listed.into();
    let message = match more {
        0 => truncate(&decision.message, TEXT),
        more => with_ending(&decision.message, &format!(" ({more} more requirements not listed)")),
    };
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
    new.observed_generation = csv.metadata.generation;
    stand(&mut new, csv.metadata.generation, now);
    if new != old {
        new.last_update_time = Some(Time(now));
    }
    new
}

/// Unmet requirements come first where not all fit; returns the number of the omitted ones.
fn listed(requirements: &[RequirementStatus]) -> (Vec<RequirementStatus>, usize) {
    let (all, more) = within(requirements.to_vec(), REQUIREMENTS);
    if more == 0 {
        return (all, more);
    }
    let mut sorted = requirements.to_vec();
    sorted.sort_by_key(is_met);
    within(sorted, REQUIREMENTS)
}

/// A text with an ending that is not cut off.
fn with_ending(text: &str, ending: &str) -> String {
    truncate(text, TEXT - ending.len()) + ending
}

/// Puts the common conditions for generic tools before the history. Upstream's readers use the last entry,
/// and phases, which these lack.
fn stand(status: &mut ClusterServiceVersionStatus, generation: Option<i64>, now: Timestamp) {
    let (standing, history): (Vec<_>, Vec<_>) =
        std::mem::take(&mut status.conditions).into_iter().partition(|entry| entry.type_.is_some());
    let mut standing: Vec<Condition> = standing.into_iter().map(to_condition).collect();
    let reason = status.reason.clone().unwrap_or_default();
    let message = status.message.clone().unwrap_or_default();
    let health = match status.phase {
        CsvPhase::Succeeded => Health::Ready,
        CsvPhase::Failed => Health::Stalled(reason, message),
        _ => Health::Working(reason, message),
    };
    health::conditions(&mut standing, &health, generation, now);
    // A definition without `type` left entries that have neither a type nor a phase.
    let history = history.into_iter().filter(|entry| entry.phase != CsvPhase::None);
    status.conditions = standing.into_iter().map(to_entry).chain(history).collect();
}

fn to_condition(entry: CsvCondition) -> Condition {
    Condition {
        type_: entry.type_.unwrap_or_default(),
        status: entry.status.unwrap_or_default(),
        reason: entry.reason,
        message: entry.message,
        observed_generation: entry.observed_generation,
        last_transition_time: entry.last_transition_time,
        ..Condition::default()
    }
}

fn to_entry(condition: Condition) -> CsvCondition {
    CsvCondition {
        type_: Some(condition.type_),
        status: Some(condition.status),
        reason: condition.reason,
        message: condition.message,
        observed_generation: condition.observed_generation,
        last_transition_time: condition.last_transition_time,
        ..CsvCondition::default()
    }
}

/// The status with further facts: certificates, and the applied Deployments.
fn with_facts(mut new: ClusterServiceVersionStatus, observed: &Observed<'_>) -> ClusterServiceVersionStatus {
    if let Some((made, again)) = &observed.serving.dates {
        new.certs_last_updated = Some(made.clone());
        new.certs_rotate_at = Some(again.clone());
    }
    let live = |uid: &str| observed.deployments.values().any(|d| *d.uid == *uid);
    new.applied_deployments = observed.applied.iter().filter(|a| live(&a.uid)).cloned().collect();
    new
}

/// The version with the status of a decision to install it, on which the status after the installation builds.
/// `None` without one: a recorded failure stays until there is a better result.
pub(super) fn begun(csv: &ClusterServiceVersion, decision: &Decision) -> Option<ClusterServiceVersion> {
    let recorded = decision.phase == CsvPhase::Failed && INSTALL_FAILED.contains(&decision.reason);
    (decision.act == Act::Install && !recorded).then(|| {
        let status = status(csv, decision, Timestamp::now());
        ClusterServiceVersion { status: Some(status), ..csv.clone() }
    })
}

/// Reports a decision; `live` is the recorded version.
pub(super) async fn report(
    live: &ClusterServiceVersion,
    decision: &Decision,
    observed: &Observed<'_>,
    ctx: &Ctx,
) -> Result<(), Error> {
    let new = status(observed.csv, decision, Timestamp::now());
    write(live, &with_facts(new, observed), ctx).await
}

/// Reports a refusal of the API server, and returns it: the action is retried with back-off, without limit.
pub(super) async fn refused(
    live: &ClusterServiceVersion,
    csv: &ClusterServiceVersion,
    decision: Decision,
    error: Error,
    ctx: &Ctx,
) -> Error {
    let Some((reason, message)) = refusal(&error) else { return error };
    let failed = Decision { phase: CsvPhase::Failed, reason, message, act: Act::Nothing, ..decision };
    let written = write(live, &status(csv, &failed, Timestamp::now()), ctx).await;
    written.err().unwrap_or(error)
}

/// Reason and message of a failed attempt; `None` for a failure that may be temporary.
fn refusal(error: &Error) -> Option<(&'static str, String)> {
    let denied = "InstallComponentFailedNoRetry";
    match error {
        Error::Account(account) if account.is_users() => Some((denied, account.to_string())),
        Error::NotPermitted(why) => Some((denied, why.clone())),
        Error::NotReady { .. } => Some(("InstallComponentFailed", error.to_string())),
        Error::Resource(resource) if resource.is_forbidden() => Some((denied, error.to_string())),
        Error::Kube { source, .. } if matches!(&**source, kube::Error::Api(status) if status.is_forbidden()) => {
            Some((denied, error.to_string()))
        }
        Error::Resource(resource) if resource.is_refused() => {
            Some(("InstallComponentFailed", error.to_string()))
        }
        _ => None,
    }
}

/// Writes a changed status and records an event.
pub(super) async fn write(
    csv: &ClusterServiceVersion,
    new: &ClusterServiceVersionStatus,
    ctx: &Ctx,
) -> Result<(), Error> {
    let old = csv.status.as_ref();
    if !ctx.write_status(csv, old, new).await? {
        return Ok(());
    }
    if old.map(|s| (s.phase, &s.reason)) != Some((new.phase, &new.reason)) {
        let (before, reason) = (old.map(|s| s.phase).unwrap_or_default(), event_reason(new));
        let begins = matches!(before, CsvPhase::None | CsvPhase::Pending);
        let began = matches!(new.phase, CsvPhase::Installing | CsvPhase::Succeeded);
        if begins && began && reason != BEGUN {
            ctx.event(csv, false, BEGUN, "all requirements found, attempting install").await;
        }
        if new.phase == CsvPhase::Replacing {
            ctx.metrics.upgraded();
        }
        let warning = new.phase == CsvPhase::Failed;
        ctx.event(csv, warning, reason, new.message.as_deref().unwrap_or_default()).await;
    }
    Ok(())
}

/// Reason of the event at the start of an installation.
const BEGUN: &str = "AllRequirementsMet";

/// Upstream has the reason `InstallSucceeded` twice: for applied objects and for a running operator. Events
/// of one reason are counted together under the text of the first, so the first gets the reason of the phase
/// just before it, which is what users wait for.
fn event_reason(status: &ClusterServiceVersionStatus) -> &str {
    match (status.phase, status.reason.as_deref()) {
        (CsvPhase::Installing, Some("InstallSucceeded")) => BEGUN,
        (_, reason) => reason.unwrap_or("PhaseChanged"),
    }
}

type Step = (CsvPhase, &'static str, &'static str);

const UNKNOWN: Step = (CsvPhase::Pending, "RequirementsUnknown", "requirements not yet checked");
const REINSTALL: Step =
    (CsvPhase::Pending, "NeedsReinstall", "the spec changed since the installation; installing again");
const READY: Step =
    (CsvPhase::InstallReady, "AllRequirementsMet", "all requirements found, attempting install");
const STARTED: Step =
    (CsvPhase::Installing, "InstallSucceeded", "waiting for install components to report healthy");

/// Phases of upstream that last only as long as a function call here. They are recorded in the history for
/// programs that look for them.
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
    let waits = to == CsvPhase::Installing && reason != "InstallSucceeded";
    if (to == CsvPhase::Succeeded || waits) && matches!(from, CsvPhase::None | CsvPhase::Pending) {
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
        ..CsvCondition::default()
    });
    let phases = status.conditions.iter().filter(|entry| entry.type_.is_none()).count();
    let mut surplus = phases.saturating_sub(HISTORY);
    status.conditions.retain(|entry| {
        let goes = surplus > 0 && entry.type_.is_none();
        surplus -= usize::from(goes);
        !goes
    });
}

#[cfg(test)]
mod tests {
    use olm_api::csv::RequirementState;

    use super::*;
    use crate::controllers::health::judges::{self, Argo, Kstatus};

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
        let history: Vec<_> = status.conditions.iter().filter(|entry| entry.type_.is_none()).collect();
        assert_eq!(history.len(), HISTORY);
        assert_eq!(history[0].last_transition_time, Some(Time(Timestamp::from_second(10).unwrap())));
        assert_eq!(history[HISTORY - 1].phase, CsvPhase::Succeeded);
    }

    #[test]
    fn phases_that_take_no_time_are_in_the_history() {
        let csv = ClusterServiceVersion::default();
        let status = status(&csv, &decision(CsvPhase::Installing, "InstallSucceeded"), Timestamp::now());
        let steps: Vec<String> = status
            .conditions
            .iter()
            .filter(|entry| entry.type_.is_none())
            .map(|c| format!("{}/{}", c.phase, c.reason.as_deref().unwrap_or_default()))
            .collect();
        let all =
            ["Pending/RequirementsUnknown", "InstallReady/AllRequirementsMet", "Installing/InstallSucceeded"];
        assert_eq!(steps, all);
        assert_eq!(status.phase, CsvPhase::Installing);
    }

    #[test]
    fn entries_without_a_type_and_a_phase_are_dropped() {
        let succeeded = decision(CsvPhase::Succeeded, "InstallSucceeded");
        let mut csv = ClusterServiceVersion::default();
        let mut stored = status(&csv, &succeeded, Timestamp::now());
        let pruned = CsvCondition { reason: Some("Ready".into()), ..CsvCondition::default() };
        stored.conditions.splice(0..0, [pruned.clone(), pruned]);
        csv.status = Some(stored);
        let new = status(&csv, &succeeded, Timestamp::now());
        let is_whole = |entry: &CsvCondition| entry.type_.is_some() || entry.phase != CsvPhase::None;
        assert!(new.conditions.iter().all(is_whole), "{:?}", new.conditions);
    }

    /// The rights of an operator may be thousands.
    #[test]
    fn more_requirements_than_fit_are_counted_and_those_that_are_not_met_are_listed() {
        let requirement = |name: String, status| RequirementStatus { name, status, ..Default::default() };
        let mut requirements: Vec<_> =
            (0..5_000).map(|n| requirement(format!("met-{n}"), RequirementState::Present)).collect();
        requirements.push(requirement("missing".into(), RequirementState::NotPresent));
        let mut pending = decision(CsvPhase::Pending, "RequirementsNotMet");
        pending.requirements = requirements;
        pending.message = "x".repeat(5_000);
        let status = status(&ClusterServiceVersion::default(), &pending, Timestamp::now());
        let listed = status.requirement_status.read();
        assert_eq!(listed[0].name, "missing");
        assert!(serde_json::to_vec(&status).unwrap().len() < 100_000);
        let more = 5_001 - listed.len();
        let ending = format!("… ({more} more requirements not listed)");
        assert!(status.message.unwrap().ends_with(&ending));
    }

    #[test]
    fn nothing_new_changes_nothing() {
        let mut csv = ClusterServiceVersion::default();
        let same = decision(CsvPhase::Succeeded, "InstallSucceeded");
        csv.status = Some(status(&csv, &same, Timestamp::from_second(1).unwrap()));
        assert_eq!(csv.status.clone().unwrap(), status(&csv, &same, Timestamp::from_second(2).unwrap()));
    }

    /// The health that Flux and Argo CD derive from each phase.
    #[test]
    fn tools_that_know_only_the_usual_conditions_see_how_it_stands() {
        let cases = [
            (CsvPhase::Pending, "RequirementsNotMet", Kstatus::InProgress, Argo::Progressing),
            (CsvPhase::InstallReady, "AllRequirementsMet", Kstatus::InProgress, Argo::Progressing),
            (CsvPhase::Installing, "InstallWaiting", Kstatus::InProgress, Argo::Progressing),
            (CsvPhase::Succeeded, "InstallSucceeded", Kstatus::Current, Argo::Healthy),
            (CsvPhase::Failed, "ComponentUnhealthy", Kstatus::Failed, Argo::Degraded),
            (CsvPhase::Replacing, "BeingReplaced", Kstatus::InProgress, Argo::Progressing),
            (CsvPhase::Deleting, "Replaced", Kstatus::InProgress, Argo::Progressing),
        ];
        // In sequence: conditions that were true before must not remain.
        let mut csv = ClusterServiceVersion::default();
        for (turn, (phase, reason, kstatus, argo)) in (1..).zip(cases.iter().chain(cases.iter().rev())) {
            csv.metadata.generation = Some(turn);
            let now = Timestamp::from_second(turn).unwrap();
            let new = status(&csv, &decision(*phase, reason), now);
            let seen = judges::object(&csv, &new);
            assert_eq!(judges::kstatus(&seen), *kstatus, "{phase}: {seen}");
            assert_eq!(judges::argo_with_our_check(&seen), *argo, "{phase}");
            assert_eq!(judges::argo(&seen), Argo::NotLookedAt);
            // Upstream's readers find the phases, the newest last.
            let phases: Vec<&str> = seen["status"]["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|entry| entry["phase"].as_str())
                .collect();
            assert_eq!(phases.last(), Some(&phase.as_str()));
            assert!(phases.len() <= HISTORY);
            csv.status = Some(new);
        }
        // A change that is not observed yet is no success.
        csv.metadata.generation = Some(99);
        csv.status = Some(status(&csv, &decision(CsvPhase::Succeeded, "InstallSucceeded"), Timestamp::now()));
        csv.metadata.generation = Some(100);
        let seen = judges::object(&csv, csv.status.as_ref().unwrap());
        assert_eq!(judges::kstatus(&seen), Kstatus::InProgress);
    }

    #[test]
    fn the_succeeded_event_is_sent_only_for_a_running_operator() {
        let status = |phase| ClusterServiceVersionStatus {
            phase,
            reason: Some("InstallSucceeded".into()),
            ..ClusterServiceVersionStatus::default()
        };
        assert_eq!(event_reason(&status(CsvPhase::Succeeded)), "InstallSucceeded");
        assert_eq!(event_reason(&status(CsvPhase::Installing)), "AllRequirementsMet");
        assert_eq!(event_reason(&ClusterServiceVersionStatus::default()), "PhaseChanged");
    }
}
