//! Whether the authority of an approved plan holds the required rights, and whether policies allow it; an
//! insufficient approval is revoked.

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{InstallPlan, Subscription, install_plan::InstallPlanPhase, names};
use olm_engine::{
    Snapshot,
    limits::{TEXT, truncate},
};
use olm_ops::authority::Authority;
use olm_plan::{FindingCode, Plan};
use serde_json::json;

use crate::{
    audit,
    authority::{
        LendingPolicy, Permission, RecordedAuthority,
        second_approval::{self, MissingApproval},
    },
    context::{Ctx, Error},
    runner::Action,
};

/// Reasons of events.
const LACKS: FindingCode = FindingCode::ApproverLacksRights;
const SECOND: FindingCode = FindingCode::SecondApproverNeeded;
const DENIED: FindingCode = FindingCode::PolicyDenies;

/// The result of the check.
pub(super) enum Authorized {
    /// It may be applied, with its authority where that is known.
    Yes(Option<Authority>),
    /// Its approval was revoked.
    No(Action),
}

/// The digest of the content, which an approval applies to; `None` if this manager did not make the plan.
pub(super) fn content(plan: &InstallPlan) -> Option<&String> {
    plan.annotations().get(names::ANNOTATION_CONTENT_DIGEST).filter(|_| plan.spec.plan_digest.is_some())
}

/// Verifies the rights of the approver.
pub(super) async fn prove(
    plan: &InstallPlan,
    subscription: &Subscription,
    snapshot: &Snapshot,
    change: &Plan,
    ctx: &Ctx,
) -> Result<Authorized, Error> {
    let named = ctx.authorities.of_plan(plan, subscription).await?;
    let group = snapshot.groups.iter().map(AsRef::as_ref).min_by_key(|group| group.name_any());
    let lenders = LendingPolicy::of(change, &ctx.cache);
    let permission =
        ctx.authorities.permits_plan(&named, &change.demands, subscription, group, &lenders).await?;
    if let Permission::Waits(why) = permission {
        return withdraw_approval(plan, LACKS, &MissingApproval { why, first: None }, ctx)
            .await
            .map(Authorized::No);
    }
    if let Some(missing) = second_approval::missing(&named, Some(plan), change, ctx).await? {
        return withdraw_approval(plan, SECOND, &missing, ctx).await.map(Authorized::No);
    }
    Ok(Authorized::Yes(match named {
        RecordedAuthority::By(authority) => Some(authority),
        RecordedAuthority::NoRecord => None,
    }))
}

/// Revokes the approval of a plan that a policy denies.
pub(super) async fn deny(plan: &InstallPlan, why: &str, ctx: &Ctx) -> Result<Action, Error> {
    withdraw_approval(plan, DENIED, &MissingApproval { why: why.to_owned(), first: None }, ctx).await
}

/// Waits for another approval.
async fn withdraw_approval(
    plan: &InstallPlan,
    reason: FindingCode,
    missing: &MissingApproval,
    ctx: &Ctx,
) -> Result<Action, Error> {
    let why = &truncate(&missing.why, TEXT);
    let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
    let mut patch = json!({
        "metadata": {
            "resourceVersion": plan.resource_version(),
            "annotations": {
                names::ANNOTATION_APPROVAL_NEEDED: why,
                names::ANNOTATION_APPROVED_BY: null,
                names::ANNOTATION_APPROVED_BY_GROUPS: null,
                names::ANNOTATION_REQUESTED_BY: null,
            },
        },
        "spec": { "approved": false },
    });
    if let Some(first) = &missing.first {
        patch["metadata"]["annotations"][names::ANNOTATION_FIRST_APPROVAL] = first.annotation().into();
    }
    let written = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("revoke the approval of InstallPlan {namespace}/{name}")))?;
    ctx.cache.plans.store_written(written.clone());
    // The status with the reason is written when this change is observed.
    audit::approval_withdrawn(plan, why);
    ctx.event(&written, true, reason.as_str(), why).await;
    Ok(Action::await_change())
}

/// Whether a plan is still the approved one when its next phase begins.
pub(super) fn is_still_approved(plan: &InstallPlan, ctx: &Ctx) -> bool {
    let now = ctx.cache.plans.get(&plan.namespace().unwrap_or_default(), &plan.name_any());
    now.is_some_and(|now| {
        now.uid() == plan.uid() && now.spec.approved && now.metadata.deletion_timestamp.is_none()
    })
}

/// Whether the status of a plan reports that it waits.
pub(super) fn waits(plan: &InstallPlan, phase: InstallPlanPhase) -> bool {
    let message = plan.status.as_ref().and_then(|status| status.message.as_deref());
    let needed = plan.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
    let news = needed.is_some_and(|needed| message.is_none_or(|message| !message.contains(needed.as_str())));
    !plan.spec.approved && phase == InstallPlanPhase::RequiresApproval && !news
}
