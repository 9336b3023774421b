//! Whether what is about to be decided on is what is on the cluster.

use std::collections::BTreeSet;

use kube::{Api, ResourceExt, api::ListParams};
use olm_api::{ClusterServiceVersion, InstallPlan, names};

use super::decide::Observed;
use crate::context::{Ctx, Error};

/// Whether the versions in the namespace, and the plans of the Subscription, are those that are known. Of other plans and of what
/// becomes of versions nothing is asked: in a namespace where much happens they are never what they were a moment ago.
pub(super) async fn is_current(observed: &Observed<'_>, ctx: &Ctx) -> Result<bool, Error> {
    let namespace = observed.subscription.namespace().unwrap_or_default();
    let failed = || Error::kube(format!("read namespace {namespace}"));
    let originals = ListParams::default().labels(&format!("!{}", names::LABEL_COPIED_FROM));
    let csvs = Api::<ClusterServiceVersion>::namespaced(ctx.client.clone(), &namespace);
    let plans = Api::<InstallPlan>::namespaced(ctx.client.clone(), &namespace);
    let everything = ListParams::default();
    let (csvs, plans) = tokio::try_join!(csvs.list_metadata(&originals), plans.list_metadata(&everything))
        .map_err(failed())?;
    let known = observed.csvs.iter().map(|csv| (csv.name_any(), csv.uid())).collect::<BTreeSet<_>>();
    let there = csvs.iter().map(|csv| (csv.name_any(), csv.uid())).collect();
    let uid = observed.subscription.uid();
    let ours = plans.iter().filter(|plan| {
        plan.metadata.deletion_timestamp.is_none()
            && plan.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
    });
    let planned = observed.plans.iter().map(|plan| (plan.name_any(), plan.resource_version()));
    let plans_now = ours.map(|plan| (plan.name_any(), plan.resource_version()));
    Ok(known == there && planned.collect::<BTreeSet<_>>() == plans_now.collect())
}
