//! Records which Subscriptions need an operator that a plan installed along, so that it can be removed with
//! the last of them.

use std::borrow::Borrow;

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{Subscription, names};
use olm_engine::{Change, Snapshot};
use olm_resolver::{Resolved, SatisfiedBy};
use serde_json::json;

use crate::context::{Ctx, Error};

/// Adds this Subscription to those that need an existing operator.
pub(super) async fn record(
    subscription: &Subscription,
    snapshot: &Snapshot,
    change: &Change,
    ctx: &Ctx,
) -> Result<(), Error> {
    let name = subscription.name_any();
    for (other, list) in missing(&name, &change.resolved, &snapshot.subscriptions) {
        let namespace = other.namespace().unwrap_or_default();
        let other_name = other.name_any();
        // Conditional on the list that was read: another plan may add a name concurrently.
        let patch = json!({ "metadata": {
            "annotations": { names::ANNOTATION_REQUIRED_BY: list },
            "resourceVersion": other.resource_version(),
        } });
        let written = Api::<Subscription>::namespaced(ctx.client.clone(), &namespace)
            .patch(&other_name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::kube(format!("annotate Subscription {namespace}/{other_name}")))?;
        ctx.cache.subscriptions.store_written(written);
    }
    Ok(())
}

/// The Subscriptions made for others that the choice needs and that do not record this, with the new list.
/// Those that a user made have no list.
fn missing<'a>(
    name: &str,
    resolved: &Resolved,
    subscriptions: &'a [impl Borrow<Subscription>],
) -> Vec<(&'a Subscription, String)> {
    let own = resolved.dependencies.iter().filter(|d| d.required_by == resolved.chosen.name);
    let provides = |other: &Subscription| {
        let status = other.status.as_ref();
        own.clone().any(|dependency| match &dependency.satisfied_by {
            SatisfiedBy::Request { subscription, .. } => {
                subscription.rsplit('/').next() == other.metadata.name.as_deref()
            }
            SatisfiedBy::Installed { name, .. } => {
                status.is_some_and(|s| s.installed_csv.as_ref() == Some(name))
            }
            SatisfiedBy::Install(_) | SatisfiedBy::Cluster { .. } => false,
        })
    };
    let mut out = Vec::new();
    for other in subscriptions.iter().map(Borrow::borrow).filter(|other| other.name_any() != name) {
        let Some(list) = other.annotations().get(names::ANNOTATION_REQUIRED_BY) else { continue };
        let mut by: Vec<&str> = list.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
        if !by.contains(&name) && provides(other) {
            by.push(name);
            out.push((other, by.join(",")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use olm_api::SubscriptionSpec;
    use olm_resolver::{Action, CatalogRef, ChosenBundle, Dependency, Need};

    use super::*;

    fn subscription(name: &str, required_by: Option<&str>) -> Subscription {
        let mut subscription = Subscription::new(name, SubscriptionSpec::default());
        if let Some(by) = required_by {
            subscription.annotations_mut().insert(names::ANNOTATION_REQUIRED_BY.into(), by.into());
        }
        subscription
    }

    #[test]
    fn a_shared_dependency_records_every_requester() {
        let bundle = ChosenBundle {
            catalog: CatalogRef::new("olm", "c"),
            package: "b".into(),
            channel: "stable".into(),
            name: "b.v1".into(),
            version: None,
        };
        let need = |name: &str| Dependency {
            need: Need::Package { name: name.into(), range: ">=1.0.0".into() },
            required_by: "b.v1".into(),
            satisfied_by: SatisfiedBy::Request { subscription: format!("ns/{name}"), name: "x.v1".into() },
        };
        let resolved = Resolved {
            subscription: "ns/b".into(),
            action: Action::Install,
            chosen: bundle,
            from: None,
            path: vec![],
            why: String::new(),
            rejected: vec![],
            dependencies: vec![need("dns"), need("mine"), need("known")],
            deprecations: vec![],
        };
        let all = [
            subscription("dns", Some("a")),
            subscription("mine", None),
            subscription("known", Some("a,b")),
            subscription("other", Some("a")),
        ];
        let found: Vec<(String, String)> =
            missing("b", &resolved, &all).into_iter().map(|(s, list)| (s.name_any(), list)).collect();
        assert_eq!(found, [("dns".to_owned(), "a,b".to_owned())]);
    }
}
