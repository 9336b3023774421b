//! Decides whether a plan may be applied. Pure.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use olm_api::{InstallPlan, Subscription};
use olm_engine::{Change, Refusal, Snapshot};
use olm_plan::{Finding, FindingCode, Severity, shell_word};
use olm_resolver::Code;

use super::{changed, observe::Observed};

/// Most of what holds a plan back is watched (catalogs, OperatorConditions, Subscriptions); objects of the
/// operator's own kinds and rights are not.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Why a plan may not proceed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) reason: String,
    pub(super) message: String,
}

/// The next step of a plan.
pub(super) enum Next {
    Apply(Arc<Change>),
    /// It differs from the approved content, and how.
    Changed(String),
    /// InstallPolicies deny it, and why: its approval is revoked.
    Deny(String),
    /// A precondition is not met.
    Hold(Held),
    /// The engine has no plan now.
    Wait(Refusal),
}

/// Findings that are checked again when a plan is resumed: objects that it wrote already do not stop it; a
/// CRD that would lose data, an object of olm or a policy does.
const ALWAYS: &[FindingCode] = &[
    FindingCode::PolicyDenies,
    FindingCode::ImageNotSigned,
    FindingCode::SignatureUnknown,
    FindingCode::ReservedObject,
    FindingCode::CrdStoredVersionRemoved,
    FindingCode::CrdScopeChanged,
    FindingCode::CrdBreakingChange,
    FindingCode::CrdObjectsInvalid,
    FindingCode::ObjectTooLarge,
];

/// No plan is applied for a deleted Subscription: its objects would be deleted again, or be orphaned.
pub(super) fn leaves(subscription: &Subscription) -> Option<Held> {
    subscription.metadata.deletion_timestamp.as_ref()?;
    let message = "its Subscription is being deleted".to_owned();
    Some(Held { reason: "SubscriptionDeleted".into(), message })
}

/// The next step of a plan whose change is `change` now; `None` when no changes remain.
pub(super) fn decide(
    plan: &InstallPlan,
    approved_content: &str,
    observed: &Observed,
    change: Result<Option<Arc<Change>>, Refusal>,
) -> Next {
    let (approved, begun) = (plan.spec.approved, observed.begun);
    let change = match change {
        Ok(Some(change)) => change,
        Ok(None) => return Next::Changed("no changes remain".into()),
        // No user can approve what a policy does not allow.
        Err(refusal) if approved && refusal.code() == Code::ForbiddenByPolicy.as_str() => {
            return Next::Deny(refusal.message());
        }
        Err(refusal) => return Next::Wait(refusal),
    };
    if begun {
        if approved_content != change.plan.content_digest() {
            return Next::Changed(changed::how_since_begun(plan, &change.plan));
        }
    } else if let Some(digest) =
        plan.spec.plan_digest.as_deref().filter(|digest| *digest != change.plan.digest)
    {
        return Next::Changed(changed::how(plan, digest, &change.plan));
    }
    if let Some(why) = approved.then(|| denied(&change)).flatten() {
        return Next::Deny(why);
    }
    match may_apply(begun, &change, &observed.subscription, &observed.snapshot) {
        Ok(()) => Next::Apply(change),
        Err(held) => Next::Hold(held),
    }
}

/// Whether the plan may be applied now. `begun`: it has already changed the cluster.
fn may_apply(
    begun: bool,
    change: &Change,
    subscription: &Subscription,
    snapshot: &Snapshot,
) -> Result<(), Held> {
    if !begun
        && subscription.spec.paused
        && !olm_ops::rolls_back_to(subscription, &change.resolved.chosen.name)
    {
        let message = format!(
            "Subscription {} is paused (spec.paused); run `olm resume {} -n {}`",
            subscription.name_any(),
            shell_word(&subscription.spec.name),
            subscription.namespace().unwrap_or_default()
        );
        return Err(Held { reason: "Paused".into(), message });
    }
    if let (false, Some(old)) = (begun, &change.replaces)
        && let Err(why) = snapshot.upgradeable(old)
    {
        let message = format!(
            "{old} is not replaced by {}: OperatorCondition {old} has Upgradeable=False: {why}; to override, \
                set spec.overrides of that OperatorCondition",
            change.resolved.chosen.name
        );
        return Err(Held { reason: "OperatorConditionNotUpgradeable".into(), message });
    }
    let stops = |f: &&Finding| f.severity == Severity::Block && (!begun || ALWAYS.contains(&f.code));
    let blocking: Vec<&Finding> = change.plan.findings.iter().filter(stops).collect();
    let Some(first) = blocking.first() else { return Ok(()) };
    let text = |f: &&Finding| match &f.fix {
        Some(fix) => format!("{} ({fix})", f.text),
        None => f.text.clone(),
    };
    let message = blocking.iter().map(text).collect::<Vec<_>>().join("; ");
    Err(Held { reason: first.code.to_string(), message })
}

/// Why InstallPolicies deny a plan.
fn denied(change: &Change) -> Option<String> {
    let denies = change.plan.findings.iter().filter(|finding| finding.code.is_denial());
    let texts: Vec<&str> = denies.map(|finding| finding.text.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}
