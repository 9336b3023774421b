//! The finalizer of a Subscription, and the label by which it is a component of its operator.

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{
    Subscription,
    names::{self, FINALIZER_SUBSCRIPTION_CLEANUP},
};

use crate::context::{Ctx, Error};

/// Adds the finalizer when the policy requires a cleanup, and removes it when it no longer does.
pub(super) async fn ensure_finalizer(subscription: &Subscription, ctx: &Ctx) -> Result<(), Error> {
    let wanted = subscription.spec.deletion_policy.is_some();
    let has = subscription.finalizers().iter().any(|f| f == FINALIZER_SUBSCRIPTION_CLEANUP);
    if wanted == has {
        return Ok(());
    }
    set_finalizer(subscription, wanted, ctx).await
}

pub(super) async fn set_finalizer(
    subscription: &Subscription,
    present: bool,
    ctx: &Ctx,
) -> Result<(), Error> {
    let name = subscription.name_any();
    let api =
        Api::<Subscription>::namespaced(ctx.client.clone(), &subscription.namespace().unwrap_or_default());
    let mut finalizers = subscription.finalizers().to_vec();
    finalizers.retain(|f| f != FINALIZER_SUBSCRIPTION_CLEANUP);
    if present {
        finalizers.push(FINALIZER_SUBSCRIPTION_CLEANUP.to_owned());
    }
    // Conditional on the resourceVersion that was read: a merge patch replaces the whole list.
    let patch = serde_json::json!({
        "metadata": { "finalizers": finalizers, "resourceVersion": subscription.resource_version() }
    });
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(written) => {
            // A deleted object is gone with its last finalizer.
            if written.metadata.deletion_timestamp.is_none() {
                ctx.cache.subscriptions.store_written(written);
            }
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::kube(format!("set the finalizer of Subscription {name}"))(error)),
    }
}

/// The label by which a Subscription is a component of its operator.
pub(super) async fn ensure_label(subscription: &Subscription, ctx: &Ctx) -> Result<(), Error> {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let label = names::component_label(&subscription.spec.name, &namespace);
    if subscription.labels().contains_key(&label) || subscription.spec.name.is_empty() {
        return Ok(());
    }
    let patch = serde_json::json!({ "metadata": { "labels": { label: "" } } });
    let labelled = Api::<Subscription>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(Error::kube(format!("label Subscription {namespace}/{name}")))?;
    ctx.cache.subscriptions.store_written(labelled);
    Ok(())
}
