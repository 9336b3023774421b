//! The InstallPlan object of a plan. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use olm_api::{InstallPlan, InstallPlanSpec, Subscription, names, subscription::Approval};
use olm_engine::Change;
use olm_ops::authority::Authority;
use olm_plan::Plan;

use super::decide::Observed;
use crate::authority::second_approval::MissingApproval;

/// Name of the InstallPlan, derived from the digest: the same plan cannot exist twice.
pub(crate) fn name(digest: &str) -> String {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    format!("install-{}", hex.get(..10).unwrap_or(hex))
}

/// What a plan does, in one line.
pub(crate) fn summary(plan: &Plan) -> String {
    let (create, change, delete) = plan.counts();
    let added = plan.permissions.added.len();
    let rights = match added {
        0 => String::new(),
        1 => ", 1 new permission".to_owned(),
        added => format!(", {added} new permissions"),
    };
    format!("{}: {create} to create, {change} to change, {delete} to delete{rights}", plan.headline())
}

/// All annotations of an object together may take 256 KiB.
const MOST_PARTS: usize = 128 << 10;

/// The digests of a plan's parts as an annotation; `None` where they are too large for one.
pub(crate) fn parts(plan: &Plan) -> Option<String> {
    serde_json::to_string(plan.parts()).ok().filter(|text| text.len() <= MOST_PARTS)
}

/// Whether a plan needs no approval besides the request itself.
pub(super) fn is_requested(observed: &Observed<'_>, plan: &Plan) -> bool {
    observed.subscription.spec.install_plan_approval == Approval::Automatic || was_approved(observed, plan)
}

/// `needed` is what the approver must provide.
pub(super) fn plan_object(
    observed: &Observed<'_>,
    change: &Change,
    needed: Option<MissingApproval>,
) -> InstallPlan {
    let subscription = observed.subscription;
    let plan = &change.plan;
    let approval = subscription.spec.install_plan_approval;
    let generation = observed.plans.iter().filter_map(|p| p.spec.generation).max().unwrap_or(0) + 1;
    let mut object = InstallPlan::new(
        &name(&plan.digest),
        InstallPlanSpec {
            cluster_service_version_names: vec![change.resolved.chosen.name.clone()],
            approval,
            approved: needed.is_none() && is_requested(observed, plan),
            generation: Some(generation),
            source: Some(change.resolved.chosen.catalog.name.clone()),
            source_namespace: Some(change.resolved.chosen.catalog.namespace.clone()),
            plan_digest: Some(plan.digest.clone()),
        },
    );
    let namespace = subscription.namespace().unwrap_or_default();
    object.metadata.owner_references = Some(vec![OwnerReference {
        api_version: Subscription::api_version(&()).into_owned(),
        kind: Subscription::kind(&()).into_owned(),
        name: subscription.name_any(),
        uid: subscription.uid().unwrap_or_default(),
        // A plan has one owner: approving it never affects another operator.
        controller: Some(true),
        block_owner_deletion: Some(false),
    }]);
    object.labels_mut().insert(names::component_label(&subscription.spec.name, &namespace), String::new());
    object.annotations_mut().insert(names::ANNOTATION_PLAN_DIGEST.into(), plan.digest.clone());
    object
        .annotations_mut()
        .insert(names::ANNOTATION_CONTENT_DIGEST.into(), plan.content_digest().to_owned());
    if object.spec.approved {
        object.annotations_mut().extend(requester(subscription));
    }
    if let Some(MissingApproval { why, first }) = needed {
        let first = first.map(|first| (names::ANNOTATION_FIRST_APPROVAL.to_owned(), first.annotation()));
        object.annotations_mut().extend(first);
        object.annotations_mut().insert(names::ANNOTATION_APPROVAL_NEEDED.into(), why);
    }
    object.annotations_mut().insert(names::ANNOTATION_PLAN_SUMMARY.into(), summary(plan));
    object.annotations_mut().insert(names::ANNOTATION_PLAN_REVIEW.into(), plan.review_points().join(", "));
    if let Some(parts) = parts(plan) {
        object.annotations_mut().insert(names::ANNOTATION_PLAN_PARTS.into(), parts);
    }
    if let Some(along) = along(change) {
        object.annotations_mut().insert(names::ANNOTATION_PLAN_ALONG.into(), along);
    }
    object.metadata.namespace = Some(namespace);
    object
}

/// The author in whose name the manager approves a plan, as its annotation.
pub(super) fn requester(subscription: &Subscription) -> Option<(String, String)> {
    let author = Authority::requested(subscription)?;
    Some((names::ANNOTATION_REQUESTED_BY.to_owned(), author.user().to_owned()))
}

/// The operators that the plan installs along, for its InstallPlan.
fn along(change: &Change) -> Option<String> {
    if change.along.is_empty() { None } else { serde_json::to_string(&change.along).ok() }
}

/// Whether this plan was approved with the one that made the Subscription. That applies to its first plan
/// alone.
fn was_approved(observed: &Observed<'_>, plan: &Plan) -> bool {
    let approved = observed.subscription.annotations().get(names::ANNOTATION_APPROVED_PLAN);
    observed.installed.is_none() && approved == Some(&plan.digest)
}
