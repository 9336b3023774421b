//! What deleting a Subscription takes along.
//!
//! Without `deletionPolicy` that is nothing, as upstream has it: the operator keeps running and a new Subscription for
//! the same package picks it up again. With one, a finalizer holds the Subscription until the operator is gone.

use std::time::Duration;

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::controller::Action,
};
use olm_api::{
    ClusterServiceVersion, Subscription,
    names::FINALIZER_SUBSCRIPTION_CLEANUP,
    subscription::{CrdPolicy, OperandPolicy},
};

use crate::{
    context::{Ctx, Error},
    engine::installed,
    ops,
};

/// Puts the finalizer there when the policy asks for work, and takes it away when it does not any more.
pub(super) async fn ensure_finalizer(subscription: &Subscription, ctx: &Ctx) -> Result<(), Error> {
    let wanted = subscription.spec.deletion_policy.is_some();
    let has = subscription.finalizers().iter().any(|f| f == FINALIZER_SUBSCRIPTION_CLEANUP);
    if wanted == has {
        return Ok(());
    }
    set_finalizer(subscription, wanted, ctx).await
}

pub(super) async fn on_deletion(subscription: &Subscription, ctx: &Ctx) -> Result<Action, Error> {
    if !subscription.finalizers().iter().any(|f| f == FINALIZER_SUBSCRIPTION_CLEANUP) {
        return Ok(Action::await_change());
    }
    let policy = subscription.spec.deletion_policy.unwrap_or_default();
    let namespace = subscription.namespace().unwrap_or_default();
    let api = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace);
    let csvs = api
        .list(&ListParams::default())
        .await
        .map_err(Error::kube(format!("list ClusterServiceVersions in {namespace}")))?;
    let Some(csv) = installed::installed(subscription, &csvs.items, |_| false) else {
        set_finalizer(subscription, false, ctx).await?;
        return Ok(Action::await_change());
    };
    if let Some(why) = stands_in_the_way(policy.operands, policy.crds, csv, ctx).await {
        ctx.event(subscription, true, "DeletionHeld", &why).await;
        return Ok(Action::requeue(Duration::from_secs(30)));
    }
    match api.delete(&csv.name_any(), &DeleteParams::default()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(error) => {
            return Err(Error::kube(format!("delete ClusterServiceVersion {}", csv.name_any()))(error));
        }
    }
    set_finalizer(subscription, false, ctx).await?;
    Ok(Action::await_change())
}

/// The manager may neither list nor delete the custom resources of operators, nor delete CRDs: those rights are the
/// user's. So it does what it can prove to be harmless, and says who can do the rest.
async fn stands_in_the_way(
    operands: OperandPolicy,
    crds: CrdPolicy,
    csv: &ClusterServiceVersion,
    ctx: &Ctx,
) -> Option<String> {
    let by_hand = "run `olm uninstall`, which works with your rights, or set \
                   spec.deletionPolicy.operands to Orphan and crds to Keep";
    if crds == CrdPolicy::Delete {
        return Some(format!(
            "spec.deletionPolicy.crds is Delete, which the manager has no right to do: {by_hand}"
        ));
    }
    if operands == OperandPolicy::Orphan {
        return None;
    }
    match ops::list_instances_of(&ctx.client, csv).await {
        Ok(instances) if instances.is_empty() => None,
        Ok(instances) => Some(format!(
            "{} custom resource(s) of {} exist and spec.deletionPolicy.operands is {operands}: {by_hand}",
            instances.len(),
            csv.name_any()
        )),
        Err(error) => {
            Some(format!("custom resources of {} cannot be counted ({error}): {by_hand}", csv.name_any()))
        }
    }
}

async fn set_finalizer(subscription: &Subscription, present: bool, ctx: &Ctx) -> Result<(), Error> {
    let name = subscription.name_any();
    let api =
        Api::<Subscription>::namespaced(ctx.client.clone(), &subscription.namespace().unwrap_or_default());
    let mut finalizers = subscription.finalizers().to_vec();
    finalizers.retain(|f| f != FINALIZER_SUBSCRIPTION_CLEANUP);
    if present {
        finalizers.push(FINALIZER_SUBSCRIPTION_CLEANUP.to_owned());
    }
    // With the resourceVersion that was read: a merge patch replaces the whole list.
    let patch = serde_json::json!({
        "metadata": { "finalizers": finalizers, "resourceVersion": subscription.resource_version() }
    });
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::kube(format!("set the finalizer of Subscription {name}"))(error)),
    }
}
