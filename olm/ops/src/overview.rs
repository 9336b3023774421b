//! All data of a page about one installed operator, from one read of the cluster.

use kube::Client;
use olm_api::{ClusterServiceVersion, InstallPlan, Subscription};
use olm_plan::AlongRef;
use serde::Serialize;

use crate::{
    error::Error,
    list::World,
    revisions::{Approval, Revision, approval, revisions},
    timeline::{Timeline, timeline_of},
};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    #[serde(flatten)]
    pub timeline: Timeline,
    /// The revision history, newest first.
    pub history: Vec<Revision>,
    /// The operators that the pending or current plan installs along with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub along: Vec<AlongRef>,
    /// The approval of the current plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(skip)]
    pub subscription: Option<Subscription>,
    /// The newest version on the cluster.
    #[serde(skip)]
    pub csv: Option<ClusterServiceVersion>,
    /// The pending or current plan.
    #[serde(skip)]
    pub plan: Option<InstallPlan>,
}

/// The overview of the operator of a package, Subscription or ClusterServiceVersion.
///
/// Deployments, pods and events that the caller may not read are left out.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn overview(client: &Client, namespace: &str, target: &str) -> Result<Overview, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    let timeline = timeline_of(client, &world, &view).await;
    let history = match &view.subscription {
        Some(subscription) => revisions(&world.plans, subscription, timeline.installed.csv.as_deref()),
        None => Vec::new(),
    };
    let approved = view.plan.as_ref().filter(|plan| plan.spec.approved);
    Ok(Overview {
        timeline,
        history,
        along: view.plan.as_ref().map(olm_engine::recorded_along).unwrap_or_default(),
        approval: approved.map(approval),
        subscription: view.subscription,
        csv: view.csv,
        plan: view.plan,
    })
}
