//! Deletion of a Subscription.
//!
//! Without `deletionPolicy` the operator keeps running, as upstream, and a new Subscription for the same
//! package adopts it. With a policy, a finalizer holds the Subscription until the plan that `olm uninstall`
//! would make with that policy is applied.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{
    Condition, Subscription, condition,
    names::{CONDITION_DELETION_HELD, FINALIZER_SUBSCRIPTION_CLEANUP},
};
use olm_engine::{
    limits::{TEXT, truncate},
    site::MANAGER,
};
use olm_ops::Removal;

use super::{apply, metadata::set_finalizer};
use crate::{
    context::{Ctx, Error},
    runner::Action,
};

/// Poll interval while objects are being deleted, usually for a moment.
const GOING: Duration = Duration::from_secs(1);
/// Poll interval while the deletion is blocked until a user acts.
const HELD: Duration = Duration::from_secs(30);

pub(super) async fn on_deletion(subscription: &Subscription, ctx: &Ctx) -> Result<Action, Error> {
    if !subscription.finalizers().iter().any(|f| f == FINALIZER_SUBSCRIPTION_CLEANUP) {
        return Ok(Action::await_change());
    }
    // Without a policy, nothing is to be removed.
    if subscription.spec.deletion_policy.is_none() {
        set_finalizer(subscription, false, ctx).await?;
        return Ok(Action::await_change());
    }
    if apply::stop_plans(subscription, ctx).await? {
        // A plan that is being applied has finished its current request by then.
        return Ok(Action::requeue(GOING));
    }
    let (reason, message, again) = match olm_ops::advance(&ctx.client, subscription).await {
        Ok(Removal::Done) => {
            set_finalizer(subscription, false, ctx).await?;
            return Ok(Action::await_change());
        }
        Ok(Removal::Waiting(what)) => {
            tracing::info!(subscription = subscription.name_any(), what, "removing");
            return Ok(Action::requeue(GOING));
        }
        Ok(Removal::HeldAlong { reason, message }) => (reason, message, HELD),
        Err(error) => held(error, subscription, &ctx.namespace)?,
    };
    report(subscription, &reason, &message, ctx).await?;
    Ok(Action::requeue(again))
}

/// Reason and message of a blocked deletion that a user can fix; a temporary cause is an error that is
/// retried.
fn held(
    error: olm_ops::Error,
    subscription: &Subscription,
    namespace: &str,
) -> Result<(String, String, Duration), Error> {
    let by_hand = format!("run `{}`, which uses your permissions", olm_ops::uninstall_command(subscription));
    match error {
        olm_ops::Error::Refused { code, text, fix } => {
            let fix = fix.map_or(String::new(), |fix| format!(": {fix}"));
            // Some objects may be deleted already.
            Ok((code, format!("{text}{fix}; or set spec.deletionPolicy to null to retain the objects"), HELD))
        }
        // By default the manager has no rights to read and delete custom resources, or to delete CRDs.
        olm_ops::Error::Forbidden { text } => {
            let grant = format!(
                "grant ServiceAccount {namespace}/{MANAGER} that permission (for custom resources: `kubectl \
                    create clusterrolebinding NAME --clusterrole=CRD-VERSION-admin \
                    --serviceaccount={namespace}:{MANAGER}`)"
            );
            Ok(("ManagerLacksRights".into(), format!("{text}: {by_hand}, or {grant}"), HELD))
        }
        olm_ops::Error::Kube { what, source } => Err(Error::Kube { what, source }),
        other => Ok(("Error".into(), format!("{other}: {by_hand}"), HELD)),
    }
}

/// A condition for programs, an event for `kubectl describe`.
async fn report(subscription: &Subscription, reason: &str, message: &str, ctx: &Ctx) -> Result<(), Error> {
    let mut new = subscription.status.clone().unwrap_or_default();
    let held = Condition::new(CONDITION_DELETION_HELD, true, reason, truncate(message, TEXT));
    if condition::set(&mut new.conditions, held, Timestamp::now()) {
        ctx.write_status(subscription, subscription.status.as_ref(), &new).await?;
        ctx.event(subscription, true, CONDITION_DELETION_HELD, message).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blockers_name_who_can_resolve_them() {
        let refused = olm_ops::Error::Refused {
            code: "OperandsPresent".into(),
            text: "2 Thing objects would be left".into(),
            fix: Some("olm uninstall thing -n ns --instances keep".into()),
        };
        let subscription: Subscription = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "namespace": "ns" },
            "spec": { "name": "thing", "deletionPolicy": { "operands": "Delete", "crds": "Delete" } },
        }))
        .unwrap();
        let (reason, message, _) = held(refused, &subscription, "olm").unwrap();
        assert_eq!(reason, "OperandsPresent");
        assert!(message.contains("olm uninstall thing -n ns --instances keep; or set"), "{message}");
        let forbidden =
            olm_ops::Error::Forbidden { text: "failed to delete Thing ns/a: things is forbidden".into() };
        let (reason, message, _) = held(forbidden, &subscription, "olm").unwrap();
        assert_eq!(reason, "ManagerLacksRights");
        assert!(message.contains("`olm uninstall a -n ns --instances delete --delete-crds`"), "{message}");
        assert!(message.contains("--serviceaccount=olm:olm-manager"), "{message}");
        // a temporary error is retried without a report
        let source = Box::new(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert!(held(olm_ops::Error::Kube { what: "list".into(), source }, &subscription, "olm").is_err());
    }
}
