//! The status of an Operator: its content (pure), and one write.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use olm_api::{
    Operator, OperatorStatus,
    operator::{Components, RichReference},
};
use olm_engine::limits::{COMPONENTS, within};
use serde_json::json;

use super::summary::is_compared;
use crate::context::{Ctx, Error};

/// Writes the status if it changed.
pub(super) async fn report(name: &str, key: &str, refs: Vec<RichReference>, ctx: &Ctx) -> Result<(), Error> {
    let api = Api::<Operator>::all(ctx.client.clone());
    let new = status(key, refs);
    let found = api.get_opt(name).await.map_err(Error::kube(format!("get Operator {name}")))?;
    if found.is_some_and(|found| found.status.as_ref() != Some(&new)) {
        let patch = json!({ "status": new });
        let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map_err(Error::kube(format!("write the status of Operator {name}")))?;
    }
    Ok(())
}

/// As many components as the object has room for, in a fixed order, and the number of the omitted ones.
/// Compared kinds come first, so that the comparison stays defined when not all fit. Pure.
pub(super) fn bounded(refs: Vec<RichReference>) -> (Vec<RichReference>, usize) {
    let sorted: BTreeMap<_, _> =
        refs.into_iter().map(|r| ((r.kind.clone(), r.namespace.clone(), r.name.clone()), r)).collect();
    let mut refs: Vec<RichReference> = sorted.into_values().collect();
    if within(refs.clone(), COMPONENTS).1 > 0 {
        refs.sort_by_key(|reference| !is_compared(reference));
    }
    within(refs, COMPONENTS)
}

/// Equal components give an equal status. Pure.
fn status(key: &str, refs: Vec<RichReference>) -> OperatorStatus {
    let (refs, more) = bounded(refs);
    let exists = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "Exists".into(),
        ..LabelSelectorRequirement::default()
    };
    let label_selector = LabelSelector { match_expressions: Some(vec![exists]), ..LabelSelector::default() };
    let remaining_item_count = i64::try_from(more).ok().filter(|more| *more > 0);
    OperatorStatus { components: Some(Components { label_selector, refs, remaining_item_count }) }
}

#[cfg(test)]
mod tests {
    use super::{super::summary::digest, *};

    #[test]
    fn the_status_has_upstreams_form_and_a_fixed_order() {
        let reference = |kind: &str, name: &str| RichReference {
            kind: Some(kind.into()),
            name: Some(name.into()),
            ..Default::default()
        };
        let refs = vec![reference("Subscription", "s"), reference("ClusterRole", "r")];
        let once = status("operators.coreos.com/etcd.db", refs.clone());
        assert_eq!(once, status("operators.coreos.com/etcd.db", refs.into_iter().rev().collect()));
        let value = serde_json::to_value(once).unwrap();
        assert_eq!(value["components"]["labelSelector"]["matchExpressions"][0]["operator"], "Exists");
        assert_eq!(value["components"]["refs"][0]["kind"], "ClusterRole");
    }

    /// Thousands of namespaces with the label of an operator, and a few thousand roles.
    #[test]
    fn thousands_of_components_are_truncated_with_a_count() {
        let reference = |kind: &str, number: usize| RichReference {
            kind: Some(kind.into()),
            name: Some(format!("{kind}-{number:060}")),
            ..Default::default()
        };
        for namespaces in [10, 5_000] {
            let known: Vec<_> = (0..namespaces).map(|number| reference("Namespace", number)).collect();
            let roles = (0..5_000).map(|number| reference("ClusterRole", number));
            let refs: Vec<_> = roles.chain(known.clone()).collect();
            let components = status("operators.coreos.com/etcd.db", refs.clone()).components.unwrap();
            let left = components.remaining_item_count.unwrap();
            assert_eq!(components.refs.len() + usize::try_from(left).unwrap(), refs.len());
            assert!(serde_json::to_vec(&components).unwrap().len() < COMPONENTS + 1_000);
            // it is not written again for components without room
            assert_eq!(digest(&components.refs), digest(&bounded(known).0));
        }
    }
}
