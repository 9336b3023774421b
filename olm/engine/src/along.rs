//! The change to the chosen bundle, with the operators that are installed along with it.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::try_join_all;
use kube::ResourceExt;
use olm_api::{InstallPlan, OperatorGroup, OperatorGroupSpec, Subscription, names, subscription::Approval};
use olm_bundle::Bundle;
use olm_plan::{Along, AlongRef, DependencyInstall, FindingCode, along_subscription, dependency_installs};
use olm_resolver::Resolved;

use crate::{
    Change, Refusal,
    build::{self, Destination, Loaded, load},
    catalogs::LoadedCatalog,
    request,
    resources::Resources,
    snapshot::Snapshot,
    targets::{self, Targets},
};

/// Computes the change to a choice and to the operators that are installed along with it.
pub(super) async fn build_change(
    resources: &Resources,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
    resolved: Resolved,
) -> Result<Change, Refusal> {
    let namespace = request::namespace(subscription);
    let installs = dependency_installs(&resolved);
    let root = load(catalogs, &resolved).await?;
    let others = try_join_all(installs.iter().map(|install| load(catalogs, &install.resolved))).await?;
    let bundles: Vec<&Bundle> = std::iter::once(&root).chain(&others).map(|loaded| &loaded.bundle).collect();
    let targets = targets::common(&namespace, &bundles, &snapshot.groups);
    let destination = Destination { targets: &targets, groups: &snapshot.groups, namespace_planned: false };
    let mut change = build::build(resources, subscription, snapshot, root, &destination, resolved).await?;
    if installs.is_empty() {
        return Ok(change);
    }
    let approval = subscription.spec.install_plan_approval;
    let groups = if snapshot.groups.is_empty() {
        vec![Arc::new(group_to_be(&namespace, &targets))]
    } else {
        snapshot.groups.clone()
    };
    let destination = Destination { targets: &targets, groups: &groups, namespace_planned: true };
    let pairs = installs.iter().zip(others);
    let plans: Vec<_> = pairs
        .map(|pair| build_along(resources, snapshot, pair, &destination, &namespace, approval))
        .collect();
    let along = try_join_all(plans).await?;
    let taken: BTreeSet<String> = snapshot.subscriptions.iter().map(|s| s.name_any()).collect();
    change.plan = change.plan.with_along(along, approval, &taken);
    change.along = change.plan.entries();
    Ok(change)
}

/// The change of a plan in progress: the operators installed along with it are those it started with.
pub(super) async fn build_resumed_change(
    resources: &Resources,
    catalogs: &[LoadedCatalog],
    subscription: &Subscription,
    snapshot: &Snapshot,
    resolved: Resolved,
    along: Vec<AlongRef>,
) -> Result<Change, Refusal> {
    let namespace = request::namespace(subscription);
    let root = load(catalogs, &resolved).await?;
    let targets = targets::targets(&namespace, &root.bundle, &snapshot.groups);
    let destination = Destination { targets: &targets, groups: &snapshot.groups, namespace_planned: false };
    let change = build::build(resources, subscription, snapshot, root, &destination, resolved).await?;
    let plan = change.plan.resumed(&along, subscription.spec.install_plan_approval);
    Ok(Change { plan, along, ..change })
}

/// The change that the Subscription of an operator installed along with the plan will make.
async fn build_along(
    resources: &Resources,
    snapshot: &Snapshot,
    (install, loaded): (&DependencyInstall, Loaded<'_>),
    destination: &Destination<'_>,
    namespace: &str,
    approval: Approval,
) -> Result<Along, Refusal> {
    let entry = AlongRef {
        subscription: install.subscription.clone(),
        bundle: install.resolved.chosen.clone(),
        required_by: install.required_by.clone(),
        after: install.after.clone(),
        digest: String::new(),
    };
    let subscription: Subscription = serde_json::from_value(along_subscription(&entry, namespace, approval))
        .map_err(|error| Refusal::Internal {
            text: format!("invalid Subscription of a dependency: {error}"),
        })?;
    let resolved = install.resolved.clone();
    let mut change = build::build(resources, &subscription, snapshot, loaded, destination, resolved).await?;
    // The first plan makes the namespace, so the check for it does not apply.
    change.plan.findings.retain(|f| f.code != FindingCode::NamespaceMissing);
    Ok(Along::new(install, change.plan))
}

/// The OperatorGroup as the first plan makes it.
fn group_to_be(namespace: &str, targets: &Targets) -> OperatorGroup {
    let target_namespaces = targets.namespaces.iter().filter(|n| !n.is_empty()).cloned().collect();
    let spec = OperatorGroupSpec { target_namespaces, ..OperatorGroupSpec::default() };
    let mut group = OperatorGroup::new(&targets.group, spec);
    group.metadata.namespace = Some(namespace.to_owned());
    group
}

/// The operators that an InstallPlan records as installed along with it. Their digests prove that they are
/// the approved ones.
pub fn recorded_along(plan: &InstallPlan) -> Vec<AlongRef> {
    let text = plan.annotations().get(names::ANNOTATION_PLAN_ALONG);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
