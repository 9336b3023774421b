//! The pods of an installed operator.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, ResourceExt as _, api::ListParams, core::Selector};
use olm_api::{ClusterServiceVersion, names};

use crate::{error::Error, list::World};

/// The pods of an operator's Deployments, by name; none before its version is on the cluster.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn operator_pods(client: &Client, namespace: &str, target: &str) -> Result<Vec<Pod>, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    let Some(csv) = &view.csv else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    for deployment in deployments_of(client, namespace, csv).await? {
        out.extend(pods_of(client, namespace, &deployment).await?);
    }
    out.sort_by_key(|pod| pod.name_any());
    out.dedup_by_key(|pod| pod.name_any());
    Ok(out)
}

/// The Deployments of a version.
pub(super) async fn deployments_of(
    client: &Client,
    namespace: &str,
    csv: &ClusterServiceVersion,
) -> Result<Vec<Deployment>, Error> {
    let owned = ListParams::default().labels(&format!("{}={}", names::LABEL_OWNER, csv.name_any()));
    let list = Api::<Deployment>::namespaced(client.clone(), namespace).list(&owned).await;
    Ok(list.map_err(Error::kube(format!("list deployments in namespace {namespace}")))?.items)
}

/// The pods that a Deployment selects.
pub(super) async fn pods_of(
    client: &Client,
    namespace: &str,
    deployment: &Deployment,
) -> Result<Vec<Pod>, Error> {
    let selector = Selector::try_from(deployment.spec.selector.clone()).map_err(|error| {
        let name = deployment.name_any();
        Error::Other(format!("Deployment {namespace}/{name}: spec.selector: {error}"))
    })?;
    let selected = ListParams::default().labels_from(&selector);
    let list = Api::<Pod>::namespaced(client.clone(), namespace).list(&selected).await;
    Ok(list.map_err(Error::kube(format!("list pods in namespace {namespace}")))?.items)
}
