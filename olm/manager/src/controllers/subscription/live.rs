//! Compares the state of a decision with the live state.

use std::collections::BTreeSet;

use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{ClusterServiceVersion, InstallPlan, OperatorGroup, names};

use super::decide::Observed;
use crate::context::{Ctx, Error};

/// Whether the plans of the Subscription, the version to be planned and the installed one are unchanged on
/// the cluster, and whether an OperatorGroup is still absent where none is known. Other plans and versions
/// are not compared: in a busy namespace they change all the time.
///
/// Versions are read one by one: the namespace's are listed when the plan is checked before its first change,
/// and an API server answers a second list of a kind only 100 ms after the first (the period in which its
/// cache polls etcd's revision).
pub(super) async fn is_current(observed: &Observed<'_>, planned: &str, ctx: &Ctx) -> Result<bool, Error> {
    let namespace = observed.subscription.namespace().unwrap_or_default();
    let failed = || Error::kube(format!("read namespace {namespace}"));
    let csvs = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace);
    let plans = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace);
    let everything = ListParams::default();
    let versions: BTreeSet<String> =
        observed.installed.map(ResourceExt::name_any).into_iter().chain([planned.to_owned()]).collect();
    let live = versions.iter().map(|name| csvs.get_metadata_opt(name));
    let (live, plans) =
        tokio::try_join!(futures::future::try_join_all(live), plans.list_metadata(&everything))
            .map_err(failed())?;
    let known = versions
        .iter()
        .map(|name| observed.csvs.iter().find(|csv| csv.name_any() == *name).and_then(|csv| csv.uid()));
    let there = live.iter().map(|csv| {
        csv.as_ref()
            .filter(|csv| !csv.labels().contains_key(names::LABEL_COPIED_FROM))
            .and_then(ResourceExt::uid)
    });
    // The plan would create an OperatorGroup: a user may have made one with the Subscription.
    if ctx.cache.groups.in_namespace(&namespace).is_empty() {
        let groups = Api::<OperatorGroup>::namespaced(ctx.client.clone(), &namespace);
        if !groups.list_metadata(&everything).await.map_err(failed())?.items.is_empty() {
            return Ok(false);
        }
    }
    let uid = observed.subscription.uid();
    let ours = plans.iter().filter(|plan| {
        plan.metadata.deletion_timestamp.is_none()
            && plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    });
    let planned = observed.plans.iter().map(|plan| (plan.name_any(), plan.resource_version()));
    let plans_now = ours.map(|plan| (plan.name_any(), plan.resource_version()));
    Ok(known.eq(there) && planned.collect::<BTreeSet<_>>() == plans_now.collect())
}
