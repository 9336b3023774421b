//! Whether the author of a Subscription holds the rights that it requires: a plan beyond these rights waits
//! for an approver who holds them, and one for which policies require two approvals waits for the other user.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{InstallPlan, Subscription, names};
use olm_engine::limits::{TEXT, truncate};
use olm_plan::Plan;
use serde_json::json;

use super::{decide::Observed, plan_object};
use crate::{
    authority::{
        Authorities, LendingPolicy, Permission,
        second_approval::{self, MissingApproval},
    },
    context::{Ctx, Error},
};

/// Interval to check whether the author was granted the missing rights.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// Why a plan that needs no approval besides the request is not approved: rights that the author lacks, or
/// the approval of a second user. `None` where nothing is missing, or the plan needs an approval anyway.
pub(super) async fn needed(
    observed: &Observed<'_>,
    plan: &Plan,
    ctx: &Ctx,
) -> Result<Option<MissingApproval>, Error> {
    if !plan_object::is_requested(observed, plan) {
        return Ok(None);
    }
    let subscription = observed.subscription;
    let named = Authorities::of_request(subscription);
    let groups = ctx.cache.groups.in_namespace(&subscription.namespace().unwrap_or_default());
    let group = groups.iter().map(AsRef::as_ref).min_by_key(|group| group.name_any());
    let lenders = LendingPolicy::of(plan, &ctx.cache);
    let missing =
        match ctx.authorities.permits_plan(&named, &plan.demands, subscription, group, &lenders).await? {
            Permission::Granted => second_approval::missing(&named, None, plan, ctx).await?,
            Permission::Waits(why) => Some(MissingApproval { why, first: None }),
        };
    Ok(missing.map(|missing| MissingApproval { why: truncate(&missing.why, TEXT), ..missing }))
}

/// Whether a plan waits for an approver with more rights.
pub(super) fn waits(plan: &InstallPlan) -> bool {
    !plan.spec.approved && plan.annotations().contains_key(names::ANNOTATION_APPROVAL_NEEDED)
}

/// Approves a waiting plan when its author holds the rights now; otherwise reports what is still missing.
pub(super) async fn follow(
    plan: &Arc<InstallPlan>,
    subscription: &Subscription,
    requested: bool,
    needed: Option<MissingApproval>,
    ctx: &Ctx,
) -> Result<Arc<InstallPlan>, Error> {
    let reported = plan.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
    let why = needed.as_ref().map(|needed| &needed.why);
    if plan.spec.approved || !requested || (reported.is_some() && reported == why) {
        return Ok(Arc::clone(plan));
    }
    let approved_once = plan.annotations().contains_key(names::ANNOTATION_FIRST_APPROVAL);
    if approved_once && needed.as_ref().is_some_and(|needed| needed.first.is_none()) {
        // It waits for the second of two approvers, whatever the author lacks.
        return Ok(Arc::clone(plan));
    }
    let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
    let mut patch = json!({
        "metadata": {
            "resourceVersion": plan.resource_version(),
            "annotations": { names::ANNOTATION_APPROVAL_NEEDED: why },
        },
        "spec": { "approved": needed.is_none() },
    });
    if needed.is_none()
        && let Some((key, author)) = plan_object::requester(subscription)
    {
        patch["metadata"]["annotations"][key] = author.into();
    }
    if let Some(first) = needed.as_ref().and_then(|needed| needed.first.as_ref()) {
        patch["metadata"]["annotations"][names::ANNOTATION_FIRST_APPROVAL] = first.annotation().into();
    }
    let written = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("approve InstallPlan {namespace}/{name}")))?;
    ctx.cache.plans.store_written(written.clone());
    Ok(Arc::new(written))
}
