//! The APIs that the members of a group provide: annotation `olm.providedAPIs` and the group's aggregated
//! ClusterRoles.

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_engine::resources::Id;
use serde_json::{Value, json};

use crate::{
    context::{Ctx, Error},
    controllers::csv::apis,
};

/// Updates the annotation of a group from its members; returns whether it changed. A group with
/// `staticProvidedAPIs` is left alone.
pub(crate) async fn provides<'a>(
    group: &OperatorGroup,
    members: impl IntoIterator<Item = &'a ClusterServiceVersion>,
    ctx: &Ctx,
) -> Result<bool, Error> {
    let provided = apis::of_members(members);
    if group.spec.static_provided_apis
        || group.metadata.deletion_timestamp.is_some()
        || provided == apis::listed(group)
    {
        return Ok(false);
    }
    let namespace = group.namespace().unwrap_or_default();
    let name = group.name_any();
    let text = provided.into_iter().collect::<Vec<_>>().join(",");
    let patch = json!({ "metadata": { "annotations": { names::ANNOTATION_PROVIDED_APIS: text } } });
    let api = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace);
    let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    let group = patched.map_err(Error::kube(format!("annotate OperatorGroup {namespace}/{name}")))?;
    // The change wakes the group's own controller, which updates its roles.
    ctx.cache.store_written(group);
    Ok(true)
}

/// Applies the group's roles that differ.
pub(super) async fn roles(group: &OperatorGroup, ctx: &Ctx) -> Result<(), Error> {
    let provided: Vec<_> = apis::listed(group).iter().filter_map(|api| apis::parse(api)).collect();
    let wanted =
        olm_bundle::group_roles(&group.name_any(), &group.namespace().unwrap_or_default(), &provided);
    for role in wanted {
        let id = Id::of(&role)?;
        let live = match ctx.parts.group_role(&id.name) {
            Some(known) if same(&role, &known) => continue,
            // One of another creator has no labels.
            _ => ctx.resources.get(&id).await?,
        };
        // A missing role that would grant nothing is not created.
        let needless = live.is_none() && provided.is_empty();
        if !needless && !live.is_some_and(|live| same(&role, &live)) {
            ctx.resources.apply(&role).await?;
        }
    }
    Ok(())
}

/// Whether a live role has the labels and the aggregation of the desired one; Kubernetes fills in its rules.
/// Pure.
fn same(wanted: &Value, live: &Value) -> bool {
    let labels = wanted["metadata"]["labels"].as_object();
    let labelled =
        labels.into_iter().flatten().all(|(key, value)| live["metadata"]["labels"].get(key) == Some(value));
    let selectors = |role: &Value| {
        role["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default()
    };
    labelled && selectors(wanted) == selectors(live)
}

/// Removes the APIs from a group that only a deleted version provided.
pub(crate) async fn forget_member(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<(), Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let groups = ctx.cache.groups.in_namespace(&namespace);
    let [group] = groups.as_slice() else { return Ok(()) };
    let members = ctx.cache.csvs.in_namespace(&namespace);
    let others = members.iter().filter(|other| other.metadata.uid != csv.metadata.uid);
    provides(group, others.map(AsRef::as_ref), ctx).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_the_same_whatever_rules_kubernetes_filled_in() {
        let wanted = json!({
            "metadata": { "labels": { "olm.owner": "og" } },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "a": "true" } }] },
        });
        let mut live = wanted.clone();
        live["rules"] = json!([{ "verbs": ["get"] }]);
        live["metadata"]["labels"]["more"] = json!("x");
        assert!(same(&wanted, &live));
        live["aggregationRule"]["clusterRoleSelectors"] = json!([]);
        assert!(!same(&wanted, &live));
        // no member provides an API
        let none = json!({ "rules": [] });
        assert!(same(&none, &json!({ "rules": null })));
        assert!(!same(&none, &wanted));
    }
}
