//! Whether a rollback is possible.

use olm_version::shell_word;

use super::{Context, Report, crd};
use crate::facts::Fact;
use crate::finding::{Finding, FindingCode, MOST_NAMED, Severity};
use crate::json::some_of;
use crate::plan::PlanAction;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let chosen = &context.input.resolved.chosen;
    match context.action {
        PlanAction::Rollback => {
            let reasons = reasons(context);
            if !reasons.is_empty() {
                let text = format!(
                    "a rollback to this version is not possible: {}; restore a backup or choose a newer \
                        version",
                    some_of(&reasons, MOST_NAMED)
                );
                report.push(
                    Finding::new(FindingCode::RollbackImpossible, &chosen.name, text)
                        .fix(format!("olm show {}  # choose a newer version", shell_word(&chosen.package))),
                );
            }
        }
        PlanAction::Upgrade if !context.reversible.possible => {
            let reason = context
                .reversible
                .reason
                .as_deref()
                .unwrap_or("the old version does not read the data of the new version");
            let text = format!("this upgrade has no rollback: {reason}");
            report.push(
                Finding::new(FindingCode::RollbackImpossible, &chosen.name, text).severity(Severity::Warn),
            );
        }
        _ => {}
    }
}

/// Blockers from the older version's CRDs.
fn reasons(context: &Context<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    for (reference, new) in context.crds() {
        let Some(live) = context.live.get(reference) else { continue };
        let gone = crd::removed_stored_versions(live, new);
        if !gone.is_empty() {
            reasons.push(format!("{} has objects stored in version {}", reference.name, gone.join(", ")));
        }
        if let Some(Fact::Known(objects)) = context.input.facts.custom_objects.get(&reference.name) {
            let report = olm_kube_schema::check_objects(new, &objects.items);
            if report.failing > 0 {
                reasons.push(format!(
                    "{} objects of {} are not valid in its schema",
                    report.failing, reference.name
                ));
            }
        }
    }
    reasons
}
