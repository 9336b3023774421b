//! The status of an OperatorGroup: its content (pure), and one write.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{ResourceExt, core::SelectorExt};
use olm_api::{Condition, OperatorGroup, OperatorGroupStatus, condition, names};
use olm_engine::limits::{TARGETS, fit};

use crate::{
    context::{Ctx, Error},
    controllers::health::{self, Health},
};

/// The account that limits installations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Account {
    NotChecked,
    Found,
    /// Why it is unusable.
    Unusable(String),
}

/// Writes a changed status, records events, and returns the status.
pub(super) async fn report(
    group: &OperatorGroup,
    selected: Option<BTreeSet<String>>,
    groups: usize,
    account: &Account,
    ctx: &Ctx,
) -> Result<OperatorGroupStatus, Error> {
    let new = status(group, selected, groups, account, Timestamp::now());
    if ctx.write_status(group, group.status.as_ref(), &new).await? {
        for problem in new_problems(group.status.as_ref(), &new) {
            let reason = problem.reason.as_deref().unwrap_or(&problem.type_);
            ctx.event(group, true, reason, problem.message.as_deref().unwrap_or_default()).await;
        }
    }
    Ok(new)
}

/// `selected` are the namespaces that match the selector, where the group has one.
pub(super) fn status(
    group: &OperatorGroup,
    selected: Option<BTreeSet<String>>,
    groups: usize,
    account: &Account,
    now: Timestamp,
) -> OperatorGroupStatus {
    let old = group.status.clone().unwrap_or_default();
    let mut new = old.clone();
    new.namespaces = match selected {
        Some(selected) => selected.into_iter().collect(),
        None if group.spec.target_namespaces.is_empty() => vec![String::new()],
        None => group.spec.target_namespaces.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect(),
    };
    let generation = group.metadata.generation;
    new.observed_generation = generation;
    let mut health = Health::Ready;
    if fit(&new.namespaces) {
        condition::remove(&mut new.conditions, names::CONDITION_TOO_MANY_NAMESPACES);
    } else {
        let message = too_many(group, std::mem::take(&mut new.namespaces).len());
        let type_ = names::CONDITION_TOO_MANY_NAMESPACES;
        health = Health::Stalled(type_.into(), message.clone());
        condition::set(&mut new.conditions, Condition::new(type_, true, type_, message), now);
    }
    if groups > 1 {
        let message = format!("the namespace has {groups} OperatorGroups; delete all but one");
        health = Health::Stalled("MultipleOperatorGroupsFound".into(), message.clone());
        let type_ = names::CONDITION_MULTIPLE_OPERATOR_GROUPS;
        condition::set(
            &mut new.conditions,
            Condition::new(type_, true, "MultipleOperatorGroupsFound", message),
            now,
        );
    } else {
        condition::remove(&mut new.conditions, names::CONDITION_MULTIPLE_OPERATOR_GROUPS);
    }
    match account {
        Account::Unusable(why) => {
            let type_ = names::CONDITION_OPERATOR_GROUP_SERVICE_ACCOUNT;
            health = Health::Stalled("ServiceAccountNotFound".into(), why.clone());
            condition::set(
                &mut new.conditions,
                Condition::new(type_, true, "ServiceAccountNotFound", why),
                now,
            );
        }
        _ => drop(condition::remove(&mut new.conditions, names::CONDITION_OPERATOR_GROUP_SERVICE_ACCOUNT)),
    }
    // As upstream, a valid group has no conditions at all.
    health::set_abnormal_conditions(&mut new.conditions, &health, generation, now);
    new.service_account_ref = (*account == Account::Found).then(|| ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("ServiceAccount".into()),
        name: group.spec.service_account_name.clone(),
        namespace: group.namespace(),
        ..ObjectReference::default()
    });
    if new != old {
        new.last_updated = Some(Time(now));
    }
    new
}

fn too_many(group: &OperatorGroup, count: usize) -> String {
    let field = if group.spec.target_namespaces.is_empty() { "selector" } else { "targetNamespaces" };
    format!(
        "spec.{field} of OperatorGroup {} selects {count} namespaces, whose names exceed the {} KB limit of \
            an environment variable, so none is selected; select fewer, or unset spec.targetNamespaces and \
            spec.selector for all namespaces",
        group.name_any(),
        TARGETS / 1000
    )
}

/// New problems of the group.
pub(super) fn new_problems(old: Option<&OperatorGroupStatus>, new: &OperatorGroupStatus) -> Vec<Condition> {
    let held = |c: &Condition| {
        old.is_some_and(|o| condition::find(&o.conditions, &c.type_).is_some_and(Condition::is_true))
    };
    let wrong = [
        names::CONDITION_MULTIPLE_OPERATOR_GROUPS,
        names::CONDITION_OPERATOR_GROUP_SERVICE_ACCOUNT,
        names::CONDITION_TOO_MANY_NAMESPACES,
    ];
    let wrong = new.conditions.iter().filter(|c| wrong.contains(&c.type_.as_str()));
    wrong.filter(|c| c.is_true() && !held(c)).cloned().collect()
}

/// Whether a change of a namespace may change the targets of a group, or the namespace lacks its label.
pub(super) fn affects(group: &OperatorGroup, namespace: &ObjectMeta) -> bool {
    let name = namespace.name.as_deref().unwrap_or_default();
    let there = namespace.deletion_timestamp.is_none();
    if !group.spec.target_namespaces.is_empty() {
        let label = super::namespaces::key(group);
        let labelled =
            label.is_none_or(|key| namespace.labels.as_ref().is_some_and(|l| l.contains_key(&key)));
        let target = group.spec.target_namespaces.iter().any(|target| target == name);
        return there && target != labelled;
    }
    let Some(Ok(selector)) = super::observe::selector(group) else { return false };
    let matches = there && selector.matches(&namespace.labels.clone().unwrap_or_default());
    let listed = group.status.iter().flat_map(|s| &s.namespaces).any(|n| n == name);
    matches != listed
}
