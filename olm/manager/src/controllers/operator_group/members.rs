//! What the members of a group provide: annotation `olm.providedAPIs` and the group's aggregated ClusterRoles.

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use serde_json::{Value, json};

use crate::{
    context::{Ctx, Error},
    controllers::csv::apis,
    resources::Id,
};

/// Brings the annotation and the roles of a group up to its members; returns whether anything changed. A group with
/// `staticProvidedAPIs` is left alone.
pub(crate) async fn provides(
    group: &OperatorGroup,
    members: &[ClusterServiceVersion],
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
    roles(&group, ctx).await?;
    Ok(true)
}

/// Applies those of the group's roles that are not as they should be.
pub(super) async fn roles(group: &OperatorGroup, ctx: &Ctx) -> Result<(), Error> {
    let provided: Vec<_> = apis::listed(group).iter().filter_map(|api| apis::parse(api)).collect();
    let wanted =
        olm_bundle::group_roles(&group.name_any(), &group.namespace().unwrap_or_default(), &provided);
    for role in wanted {
        let live = ctx.resources.get(&Id::of(&role)?).await?;
        // Nobody misses a role that would give nothing.
        let needless = live.is_none() && provided.is_empty();
        if !needless && !live.is_some_and(|live| same(&role, &live)) {
            ctx.resources.apply(&role).await?;
        }
    }
    Ok(())
}

/// Pure. Whether a live role has the labels and the aggregation of the wanted one; its rules are filled in by Kubernetes.
fn same(wanted: &Value, live: &Value) -> bool {
    let labels = wanted["metadata"]["labels"].as_object();
    let labelled =
        labels.into_iter().flatten().all(|(key, value)| live["metadata"]["labels"].get(key) == Some(value));
    let selectors = |role: &Value| {
        role["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default()
    };
    labelled && selectors(wanted) == selectors(live)
}

/// Takes what only a version provided that is gone out of its group.
pub(crate) async fn forget_member(csv: &ClusterServiceVersion, ctx: &Ctx) -> Result<(), Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let groups =
        Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace).list(&ListParams::default()).await;
    let groups = groups.map_err(Error::kube(format!("list OperatorGroups in {namespace}")))?;
    let [group] = groups.items.as_slice() else { return Ok(()) };
    let members = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace)
        .list(&ListParams::default())
        .await;
    let members = members.map_err(Error::kube(format!("list ClusterServiceVersions in {namespace}")))?;
    let others: Vec<_> =
        members.items.into_iter().filter(|other| other.metadata.uid != csv.metadata.uid).collect();
    provides(group, &others, ctx).await.map(drop)
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
        // no member provides anything, and Kubernetes leaves the empty list out
        assert!(same(&json!({ "aggregationRule": { "clusterRoleSelectors": [] } }), &json!({})));
    }
}
