//! A manually written or edited version may do what its author may: every write for it is within the author's
//! rights. A version of an approved plan has no recorded author, and its rights were verified with the plan.
//! InstallPolicies apply to both.

use kube::ResourceExt;
use olm_api::{ClusterServiceVersion, OperatorGroup, names};
use olm_ops::authority::Authority;
use olm_plan::{Demands, Finding, FindingCode, Policies, rights_of};
use serde_json::Value;

use super::observe::subscription_of;
use crate::{
    authority::Permission,
    context::{Ctx, Error},
};

/// Verifies that the author of a version may apply these manifests; each comes with whether it exists.
pub(super) async fn of_version<'a>(
    csv: &ClusterServiceVersion,
    group: Option<&OperatorGroup>,
    manifests: impl IntoIterator<Item = (&'a Value, bool)>,
    ctx: &Ctx,
) -> Result<(), Error> {
    let Some(author) = Authority::requested(csv) else { return Ok(()) };
    let manifests: Vec<_> = manifests.into_iter().collect();
    if !manifests.is_empty() {
        let rights = rights_of(manifests.iter().map(|(manifest, _)| *manifest));
        allow(&policies(csv, ctx).by_hand(&rights))?;
    }
    permit(author, group, manifests, ctx).await
}

fn policies(csv: &ClusterServiceVersion, ctx: &Ctx) -> Policies {
    ctx.cache.policies_in(&csv.namespace().unwrap_or_default())
}

fn allow(findings: &[Finding]) -> Result<(), Error> {
    let texts: Vec<&str> = findings.iter().map(|finding| finding.text.as_str()).collect();
    if texts.is_empty() { Ok(()) } else { Err(Error::NotPermitted(texts.join("; "))) }
}

/// Verifies that the author of a Subscription's `spec.config` may change these Deployments: it can make their
/// pods run anything.
pub(super) async fn of_config<'a>(
    csv: &ClusterServiceVersion,
    group: Option<&OperatorGroup>,
    deployments: impl IntoIterator<Item = (&'a Value, bool)>,
    ctx: &Ctx,
) -> Result<(), Error> {
    let subscriptions = ctx.cache.subscriptions.in_namespace(&csv.namespace().unwrap_or_default());
    let configured = subscription_of(csv, &subscriptions).filter(|s| s.spec.config.is_some());
    let Some(author) = configured.and_then(Authority::requested) else { return Ok(()) };
    permit(author, group, deployments.into_iter().map(|(deployment, _)| (deployment, true)), ctx).await
}

/// Verifies that the author of a group's targets may grant an operator its rights there, and that policies
/// allow them.
pub(super) async fn of_targets(
    csv: &ClusterServiceVersion,
    group: Option<&OperatorGroup>,
    rights: &[Value],
    ctx: &Ctx,
) -> Result<(), Error> {
    let allowed = allow(&policies(csv, ctx).denied(&rights_of(rights)));
    if let Err(Error::NotPermitted(why)) = &allowed {
        ctx.event(csv, true, FindingCode::PolicyDenies.as_str(), why).await;
    }
    allowed?;
    let authors = [Authority::requested(csv), group.and_then(Authority::requested)];
    for author in authors.into_iter().flatten() {
        let checked = permit(author, group, rights.iter().map(|object| (object, false)), ctx).await;
        if let Err(Error::NotPermitted(why)) = &checked {
            ctx.event(csv, true, "AuthorLacksRights", why).await;
        }
        checked?;
    }
    Ok(())
}

async fn permit<'a>(
    author: Authority,
    group: Option<&OperatorGroup>,
    manifests: impl IntoIterator<Item = (&'a Value, bool)>,
    ctx: &Ctx,
) -> Result<(), Error> {
    let mut demands = Demands::default();
    manifests.into_iter().for_each(|(manifest, exists)| demands.apply(manifest, exists));
    match ctx.authorities.permits_author(author, &demands.resolved(), group).await? {
        Permission::Granted => Ok(()),
        Permission::Waits(why) => Err(Error::NotPermitted(why)),
    }
}

/// Fails if an object that is created for a version has another owner.
pub(super) async fn owned(csv: &ClusterServiceVersion, object: &Value, ctx: &Ctx) -> Result<(), Error> {
    let id = olm_engine::resources::Id::of(object)?;
    let Some(live) = ctx.resources.get(&id).await? else { return Ok(()) };
    let owners = live["metadata"]["ownerReferences"].as_array();
    let by_reference = owners.into_iter().flatten().any(|owner| {
        // Upstream OLM made such objects for the OperatorCondition of the version.
        let condition = owner["kind"] == "OperatorCondition" && owner["name"] == csv.name_any().as_str();
        condition || owner["uid"].as_str() == csv.metadata.uid.as_deref()
    });
    let by_label = names::owner_labels(&csv.name_any(), &csv.namespace().unwrap_or_default())
        .iter()
        .all(|(key, value)| live["metadata"]["labels"][*key] == value.as_str());
    if by_reference || by_label {
        return Ok(());
    }
    let text = format!(
        "exists and does not belong to ClusterServiceVersion {}; delete it, or rename the \
            ClusterServiceVersion",
        csv.name_any()
    );
    Err(Error::NotReady { object: id.to_string(), text })
}
