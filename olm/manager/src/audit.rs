//! The audit log: each action and its authority. Lines of the log with the target `olm::audit`, as
//! docs/security.md lists them; actions of the console for its users are in the console's log.

use kube::{Api, ResourceExt};
use olm_api::{InstallPlan, install_plan::Step, names};
use olm_ops::authority::Authority;

use crate::context::Ctx;

const TARGET: &str = "olm::audit";

/// The Subscription's controller made a plan on behalf of the Subscription's author.
pub(crate) fn planned(plan: &InstallPlan, author: Option<&Authority>, waits_for: Option<&str>) {
    let PlanFields { namespace, plan, versions, digest } = plan_fields(plan);
    let (user, groups) = who(author);
    tracing::info!(target: TARGET, action = "plan", namespace, plan, versions, digest, user, groups, waits_for);
}

/// The first change of an approved plan is about to be made. `authority` is the user whose rights were
/// verified.
pub(crate) async fn begins(plan: &InstallPlan, authority: Option<&Authority>, ctx: &Ctx) {
    let program = program(plan, ctx).await;
    let approved_by = plan.annotations().get(names::ANNOTATION_APPROVED_BY);
    let PlanFields { namespace, plan, versions, digest } = plan_fields(plan);
    let (user, groups) = who(authority);
    tracing::info!(target: TARGET, action = "apply", namespace, plan, versions, digest, approved_by, program, user, groups);
}

/// An object of a plan was written, or found to be up to date.
pub(crate) fn applied(plan: &InstallPlan, steps: &[Step]) {
    let PlanFields { namespace, plan, versions, digest } = plan_fields(plan);
    for Step { resource, status, .. } in steps {
        let (kind, name) = (&resource.kind, &resource.name);
        tracing::info!(target: TARGET, action = "object", namespace, plan, versions, digest, kind, name, result = %status);
    }
}

pub(crate) fn approval_withdrawn(plan: &InstallPlan, why: &str) {
    let approved_by = plan.annotations().get(names::ANNOTATION_APPROVED_BY);
    let PlanFields { namespace, plan, versions, digest } = plan_fields(plan);
    tracing::info!(target: TARGET, action = "take-back", namespace, plan, versions, digest, approved_by, why);
}

struct PlanFields {
    namespace: String,
    plan: String,
    versions: String,
    digest: String,
}

fn plan_fields(plan: &InstallPlan) -> PlanFields {
    PlanFields {
        namespace: plan.namespace().unwrap_or_default(),
        plan: plan.name_any(),
        versions: plan.spec.cluster_service_version_names.join(" "),
        digest: plan.spec.plan_digest.clone().unwrap_or_default(),
    }
}

fn who(authority: Option<&Authority>) -> (Option<&str>, Option<String>) {
    (authority.map(Authority::user), authority.map(|authority| authority.groups().join(" ")))
}

/// The client that approved, as it identified itself. A plan that the manager approved has none.
async fn program(plan: &InstallPlan, ctx: &Ctx) -> Option<String> {
    if ctx
        .authorities
        .is_own(plan.annotations().get(names::ANNOTATION_APPROVED_BY)?)
        .await
        .unwrap_or_default()
    {
        return None;
    }
    // The cache does not keep managed fields.
    let api = Api::<InstallPlan>::namespaced(ctx.client.clone(), &plan.namespace()?);
    olm_ops::approval(&api.get(&plan.name_any()).await.ok()?).with
}
