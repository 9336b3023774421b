//! OperatorGroup: its namespaces and validity, in its status; the APIs of its members, in its annotation and
//! ClusterRoles; its targets, as labels on namespaces.
//!
//! [`observe`] reads the selected namespaces and the ServiceAccount → [`status`] derives the status (pure) and
//! writes it → [`members`] and [`namespaces`] apply the rest.

mod members;
mod namespaces;
mod observe;
mod status;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::ready};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta, runtime::reflector::ObjectRef};
use olm_api::OperatorGroup;
use tokio_util::sync::CancellationToken;

use crate::{
    context::{Ctx, Error, SAFETY_NET, drive},
    runner::Action,
};
pub(crate) use members::{forget_member, provides};
use observe::Observed;
use status::Account;

/// ServiceAccounts are not watched; a missing one is polled.
const MISSING_ACCOUNT: Duration = Duration::from_secs(30);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let cache = Arc::clone(&ctx.cache);
    let controller = cache
        .groups
        .controller()
        // A second group in the namespace invalidates both; when it is deleted, the other is valid again.
        .reconcile_on(cache.groups.wakes({
            let cache = Arc::clone(&cache);
            move |group: &OperatorGroup| {
                references(cache.groups.in_namespace(&group.namespace().unwrap_or_default()))
            }
        }))
        // Wakes only the groups that a change of the namespace affects.
        .reconcile_on(cache.namespaces.wakes({
            let cache = Arc::clone(&cache);
            move |namespace: &PartialObjectMeta<Namespace>| {
                let mut groups = cache.groups.all();
                groups.retain(|group| status::affects(group, &namespace.metadata));
                references(groups)
            }
        }))
        // One of a group's roles was changed or deleted.
        .reconcile_on(ctx.parts.owned().filter_map(|change| {
            let owner = change.owner.filter(|owner| owner.kind == "OperatorGroup");
            ready(owner.map(|owner| ObjectRef::new(&owner.name).within(&owner.namespace)))
        }));
    let known = async { tokio::join!(cache.synced(), ctx.parts.synced()) };
    tokio::select! {
        _ = known => {}
        () = shutdown.cancelled() => return,
    }
    tokio::join!(
        drive("operator_group", controller, Arc::clone(&ctx), shutdown.clone(), reconcile),
        namespaces::forget_departed(Arc::clone(&ctx), shutdown),
    );
}

fn references(groups: Vec<Arc<OperatorGroup>>) -> Vec<ObjectRef<OperatorGroup>> {
    groups.iter().map(|group| ObjectRef::from_obj(group.as_ref())).collect()
}

async fn reconcile(group: Arc<OperatorGroup>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if group.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let Observed { selected, groups, account } = observe::observe(&group, &ctx).await?;
    let again = match account {
        Account::Unusable(_) => Action::requeue(MISSING_ACCOUNT),
        Account::Found => Action::requeue(SAFETY_NET),
        Account::NotChecked => Action::await_change(),
    };
    let new = status::report(&group, selected, groups, &account, &ctx).await?;
    if groups == 1 {
        let members = ctx.cache.csvs.in_namespace(&group.namespace().unwrap_or_default());
        let changed = provides(&group, members.iter().map(AsRef::as_ref), &ctx).await?;
        if !changed {
            members::roles(&group, &ctx).await?;
        }
    }
    namespaces::label(&group, &new.namespaces, &ctx).await?;
    Ok(again)
}

#[cfg(test)]
mod tests;
