//! The custom resources of an operator, as far as the caller may list them.

use kube::Client;
use serde::Serialize;

use crate::{
    error::Error,
    instances::{Instance, list_in, list_of_crd, managed_by, watched},
    list::World,
};

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadableInstances {
    pub instances: Vec<Instance>,
    /// What the caller may not list, such as `list etcdclusters.etcd.database.coreos.com in all namespaces`.
    pub not_listed: Vec<String>,
}

/// The custom resources that an installed operator manages. A kind that the caller may not list in all
/// namespaces is listed in those that the operator watches; if it watches all, in its own.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Forbidden`] when the operator's own objects may not be listed.
pub async fn readable_instances(
    client: &Client,
    namespace: &str,
    target: &str,
) -> Result<ReadableInstances, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    let Some(csv) = &view.csv else { return Ok(ReadableInstances::default()) };
    let operator = world.describe(&view);
    let mut out = ReadableInstances::default();
    for crd in csv.spec.owned_crds() {
        if let Some(list) = list_of_crd(client, crd).await? {
            out.instances.extend(managed_by(list, &operator));
            continue;
        }
        let mut namespaces = watched(&operator);
        if namespaces.iter().any(String::is_empty) {
            out.not_listed.push(format!("list {} in all namespaces", crd.name));
            namespaces = vec![operator.namespace.clone()];
        }
        for namespace in &namespaces {
            match list_in(client, crd, std::slice::from_ref(namespace)).await? {
                Some(list) => out.instances.extend(list),
                None => out.not_listed.push(format!("list {} in namespace {namespace}", crd.name)),
            }
        }
    }
    out.instances.sort_by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name)));
    Ok(out)
}
