//! The pods of an installed operator.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, ResourceExt as _, api::ListParams, core::Selector};
use olm_api::names;

use crate::{error::Error, list::World};

/// The pods of an operator's Deployments, by name; none before its version is on the cluster.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn operator_pods(client: &Client, namespace: &str, target: &str) -> Result<Vec<Pod>, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    let Some(csv) = &view.csv else { return Ok(Vec::new()) };
    let owned = ListParams::default().labels(&format!("{}={}", names::LABEL_OWNER, csv.name_any()));
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace).list(&owned).await;
    let deployments =
        deployments.map_err(Error::kube(format!("list deployments in namespace {namespace}")))?;
    let api = Api::<Pod>::namespaced(client.clone(), namespace);
    let mut out = Vec::new();
    for deployment in deployments {
        let name = deployment.name_any();
        let selector = Selector::try_from(deployment.spec.selector).map_err(|error| {
            Error::Other(format!("Deployment {namespace}/{name}: spec.selector: {error}"))
        })?;
        let pods = api.list(&ListParams::default().labels_from(&selector)).await;
        out.extend(pods.map_err(Error::kube(format!("list pods in namespace {namespace}")))?.items);
    }
    out.sort_by_key(|pod| pod.name_any());
    out.dedup_by_key(|pod| pod.name_any());
    Ok(out)
}
