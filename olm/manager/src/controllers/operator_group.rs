//! OperatorGroup: which namespaces it means and whether it can be used, into its status; which APIs its members provide,
//! into its annotation and ClusterRoles; its targets, as labels on namespaces.

mod members;
mod namespaces;
mod status;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::ListParams,
    core::{PartialObjectMeta, Selector},
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use olm_api::{ClusterServiceVersion, OperatorGroup};
use tokio_util::sync::CancellationToken;

use crate::{
    attenuated,
    context::{Ctx, Error, SAFETY_NET, drive},
    metadata::metadata_only,
};
pub(crate) use members::{forget_member, provides};
use status::Account;

/// ServiceAccounts are not watched; one that is missing is looked for.
const MISSING_ACCOUNT: Duration = Duration::from_secs(30);

pub(crate) async fn run(ctx: Arc<Ctx>, shutdown: CancellationToken) {
    let client = ctx.client.clone();
    let any = watcher::Config::default;
    let controller = Controller::new(Api::<OperatorGroup>::all(client.clone()), any());
    let (store, groups) = (controller.store(), controller.store());
    // Another group in the namespace makes both wrong; when it goes, the other is right again.
    let controller = controller
        .watches(Api::<OperatorGroup>::all(client.clone()), any(), move |group| {
            let others = store.state().into_iter().filter(|o| o.namespace() == group.namespace());
            others.map(|o| ObjectRef::from_obj(o.as_ref())).collect::<Vec<_>>()
        })
        // Only groups for which the namespace is news are woken.
        .watches(Api::<PartialObjectMeta<Namespace>>::all(metadata_only(client)), any(), move |namespace| {
            let groups =
                groups.state().into_iter().filter(|group| status::is_news(group, &namespace.metadata));
            groups.map(|group| ObjectRef::from_obj(group.as_ref())).collect::<Vec<_>>()
        });
    tokio::join!(
        drive("operator_group", controller, Arc::clone(&ctx), shutdown.clone(), reconcile),
        namespaces::forget_departed(ctx, shutdown),
    );
}

async fn reconcile(group: Arc<OperatorGroup>, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if group.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let namespace = group.namespace().unwrap_or_default();
    let selected = match selector(&group) {
        None => None,
        Some(Ok(selector)) => Some(namespaces::selected(&selector, &ctx).await?),
        Some(Err(message)) => {
            ctx.event(group.as_ref(), true, "InvalidSelector", &message).await;
            Some(Default::default())
        }
    };
    let groups = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace)
        .list(&ListParams::default())
        .await
        .map_err(Error::kube(format!("list OperatorGroups in {namespace}")))?;
    let account = match attenuated::account(Some(&group), &ctx.client).await {
        Ok(None) => Account::NotAsked,
        Ok(Some(_)) => Account::Found,
        Err(error) if error.is_users() => Account::Unusable(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let again = if matches!(account, Account::Unusable(_)) { MISSING_ACCOUNT } else { SAFETY_NET };
    let new = status::status(&group, selected, groups.items.len(), &account, Timestamp::now());
    if ctx.write_status(group.as_ref(), group.status.as_ref(), &new).await? {
        for news in status::news(group.status.as_ref(), &new) {
            let reason = news.reason.as_deref().unwrap_or(&news.type_);
            ctx.event(group.as_ref(), true, reason, news.message.as_deref().unwrap_or_default()).await;
        }
    }
    if groups.items.len() == 1 {
        let members = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace);
        let members = members.list(&ListParams::default()).await;
        let members = members.map_err(Error::kube(format!("list ClusterServiceVersions in {namespace}")))?;
        let changed = provides(&group, &members.items, &ctx).await?;
        if !changed {
            members::roles(&group, &ctx).await?;
        }
    }
    namespaces::label(&group, &new.namespaces, &ctx).await?;
    Ok(Action::requeue(again))
}

/// The selector of a group that goes by it.
fn selector(group: &OperatorGroup) -> Option<Result<Selector, String>> {
    if !group.spec.target_namespaces.is_empty() || group.spec.is_global() {
        return None;
    }
    let selector = group.spec.selector.clone()?;
    Some(selector.try_into().map_err(|error| {
        format!(
            "spec.selector of OperatorGroup {} is no label selector: {error}; it selects nothing",
            group.name_any()
        )
    }))
}

#[cfg(test)]
mod tests;
