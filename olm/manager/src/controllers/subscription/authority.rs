//! Whether the author of a Subscription may have what it asks for: a plan that exceeds the author's rights waits for an
//! approver who holds them.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{InstallPlan, names};
use olm_plan::Plan;
use serde_json::json;

use super::{decide::Observed, plan_object};
use crate::{
    authority::{Asking, Authorities, Permission},
    context::{Ctx, Error},
    limits::{TEXT, truncate},
};

/// How soon a plan goes on when its author was given the rights that it takes.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The rights that the author lacks for a plan that needs no other approval; `None` where there are none, or the plan needs
/// an approval anyway.
pub(super) async fn needed(observed: &Observed<'_>, plan: &Plan, ctx: &Ctx) -> Result<Option<String>, Error> {
    if !plan_object::is_requested(observed, plan) {
        return Ok(None);
    }
    let subscription = observed.subscription;
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let asking = Asking { kind: "Subscription", namespace: &namespace, name: &name };
    let named = Authorities::of_request(subscription);
    let groups = ctx.stores.groups.in_namespace(&namespace);
    let group = groups.iter().map(AsRef::as_ref).min_by_key(|group| group.name_any());
    Ok(match ctx.authorities.permits_plan(&named, &plan.demands, &asking, group).await? {
        Permission::Granted => None,
        Permission::Waits(why) => Some(truncate(&why, TEXT)),
    })
}

/// Whether a plan waits for an approver with more rights.
pub(super) fn waits(plan: &InstallPlan) -> bool {
    !plan.spec.approved && plan.annotations().contains_key(names::ANNOTATION_APPROVAL_NEEDED)
}

/// Approves a plan that waited, when its author may have it now; otherwise says what is still lacking.
pub(super) async fn follow(
    plan: &Arc<InstallPlan>,
    requested: bool,
    needed: Option<String>,
    ctx: &Ctx,
) -> Result<Arc<InstallPlan>, Error> {
    let said = plan.annotations().get(names::ANNOTATION_APPROVAL_NEEDED);
    if plan.spec.approved || !requested || (said.is_some() && said == needed.as_ref()) {
        return Ok(Arc::clone(plan));
    }
    let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
    let patch = json!({
        "metadata": {
            "resourceVersion": plan.resource_version(),
            "annotations": { names::ANNOTATION_APPROVAL_NEEDED: needed },
        },
        "spec": { "approved": needed.is_none() },
    });
    let written = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("approve InstallPlan {namespace}/{name}")))?;
    ctx.stores.plans.wrote(written.clone());
    Ok(Arc::new(written))
}
