//! Observes what an OperatorGroup selects, and its ServiceAccount.

use std::collections::BTreeSet;

use kube::{ResourceExt, core::Selector};
use olm_api::OperatorGroup;

use super::{namespaces, status::Account};
use crate::context::{Ctx, Error};

pub(super) struct Observed {
    /// The namespaces that match the selector, where the group has one.
    pub(super) selected: Option<BTreeSet<String>>,
    /// Number of OperatorGroups in the namespace.
    pub(super) groups: usize,
    pub(super) account: Account,
}

pub(super) async fn observe(group: &OperatorGroup, ctx: &Ctx) -> Result<Observed, Error> {
    let selected = match selector(group) {
        None => None,
        Some(Ok(selector)) => Some(namespaces::selected(&selector, ctx)),
        Some(Err(message)) => {
            ctx.event(group, true, "InvalidSelector", &message).await;
            Some(BTreeSet::new())
        }
    };
    let groups = ctx.cache.groups.in_namespace(&group.namespace().unwrap_or_default()).len();
    let account = match olm_engine::accounts::account(Some(group), &ctx.client).await {
        Ok(None) => Account::NotChecked,
        Ok(Some(_)) => Account::Found,
        Err(error) if error.is_users() => Account::Unusable(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    Ok(Observed { selected, groups, account })
}

/// The selector of a group that has one.
pub(super) fn selector(group: &OperatorGroup) -> Option<Result<Selector, String>> {
    if !group.spec.target_namespaces.is_empty() || group.spec.is_global() {
        return None;
    }
    let selector = group.spec.selector.clone()?;
    Some(selector.try_into().map_err(|error| {
        format!(
            "spec.selector of OperatorGroup {} is not a valid label selector: {error}; it selects no \
                namespace",
            group.name_any()
        )
    }))
}
