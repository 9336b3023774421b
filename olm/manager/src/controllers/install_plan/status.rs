//! The status of an InstallPlan: pure.

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{
    Condition, InstallPlan, InstallPlanStatus, condition,
    install_plan::{InstallPlanPhase, Step, StepResource, StepStatus},
    names,
};
use olm_plan::{ObjectRef, Op, Phase, PlannedObject};

use crate::engine::Change;

/// The status with which a plan waits for approval, or with which work on it begins.
pub(super) fn begin(plan: &InstallPlan, change: &Change, now: Timestamp) -> InstallPlanStatus {
    let mut status = plan.status.clone().unwrap_or_default();
    status.plan = steps(change);
    status.plan_digest = Some(change.plan.digest.clone());
    status.catalog_sources = vec![change.resolved.chosen.catalog.name.clone()];
    status.message = None;
    let resolved = Condition::new(names::CONDITION_RESOLVED, true, "", change.resolved.why.clone());
    condition::set(&mut status.conditions, resolved, now);
    if plan.spec.approved {
        status.phase = InstallPlanPhase::Installing;
        status.start_time = super::start(now);
    } else {
        status.phase = InstallPlanPhase::RequiresApproval;
        status.message = Some(format!(
            "approve with `olm approve {} -n {}`",
            plan.name_any(),
            plan.namespace().unwrap_or_default()
        ));
    }
    status
}

/// One step per object. Deployments are not among them, as upstream has it: they are the ClusterServiceVersion's.
pub(super) fn steps(change: &Change) -> Vec<Step> {
    let shown = |object: &&PlannedObject| {
        object.phase != Some(Phase::Workloads)
            && object.op != Op::Delete
            && object.reference.kind != "Namespace"
    };
    change
        .plan
        .objects
        .iter()
        .filter(shown)
        .map(|object| step(change, &object.reference, object.op))
        .collect()
}

fn step(change: &Change, object: &ObjectRef, op: Op) -> Step {
    let catalog = &change.resolved.chosen.catalog;
    let status = if op == Op::Create { StepStatus::NotPresent } else { StepStatus::Unknown };
    Step {
        resolving: change.resolved.chosen.name.clone(),
        resource: StepResource {
            source_name: catalog.name.clone(),
            source_namespace: catalog.namespace.clone(),
            group: object.group().to_owned(),
            version: object.version().to_owned(),
            kind: object.kind.clone(),
            name: object.name.clone(),
            namespace: object.namespace.clone(),
            manifest: None,
        },
        optional: false,
        status,
        op: Some(op.as_str().to_owned()),
    }
}

/// Records what became of one object.
pub(super) fn set_step(steps: &mut [Step], object: &ObjectRef, status: StepStatus) {
    let same = |step: &&mut Step| {
        let r = &step.resource;
        r.group == object.group()
            && r.kind == object.kind
            && r.name == object.name
            && r.namespace == object.namespace
    };
    if let Some(step) = steps.iter_mut().find(same) {
        step.status = status;
    }
}
