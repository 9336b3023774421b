use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use olm_api::{ClusterServiceVersion, csv::CrdDescription};
use olm_plan::{ObjectRef, is_reserved};
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::Error,
    list::{Installed, World},
    operand_state::OperandState,
};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// `group/version`.
    pub api_version: String,
    pub kind: String,
    /// Plural name of the kind.
    pub plural: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Creation time, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The reported state in one word, as in [`OperandState`]; empty if none is reported.
    pub state: String,
    pub object: Value,
}

/// The custom resources that an installed operator manages, in the namespaces that it watches.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`].
pub async fn list_instances(client: &Client, namespace: &str, target: &str) -> Result<Vec<Instance>, Error> {
    let world = World::read(client, Some(namespace)).await?;
    let view = world.find(target)?;
    match &view.csv {
        Some(csv) => Ok(managed_by(list_instances_of(client, csv).await?, &world.describe(&view))),
        None => Ok(Vec::new()),
    }
}

/// The custom resources of an operator's kinds that it manages: another installation of the same operator may
/// serve the others, in its own namespaces. Without an OperatorGroup the watched namespaces are unknown,
/// and only the operator's own namespace counts.
pub(super) fn managed_by<I: std::borrow::Borrow<Instance>>(
    mut instances: Vec<I>,
    operator: &Installed,
) -> Vec<I> {
    let watches = watched(operator);
    let everywhere = watches.iter().any(String::is_empty);
    instances.retain(|instance| {
        let namespace = instance.borrow().namespace.as_ref();
        everywhere || namespace.is_none_or(|namespace| watches.contains(namespace))
    });
    instances
}

/// The namespaces that an operator watches; an empty name stands for all.
pub(super) fn watched(operator: &Installed) -> Vec<String> {
    if operator.watches.is_empty() { vec![operator.namespace.clone()] } else { operator.watches.clone() }
}

/// The custom resources of the CRDs that a version owns, in all namespaces.
///
/// # Errors
/// [`Error::Forbidden`] when a kind may not be listed: an incomplete count would mislead.
pub async fn list_instances_of(client: &Client, csv: &ClusterServiceVersion) -> Result<Vec<Instance>, Error> {
    let mut out = Vec::new();
    for crd in csv.spec.owned_crds() {
        out.extend(list_of(client, crd).await?);
    }
    out.sort_by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name)));
    Ok(out)
}

/// As [`list_instances_of`], by CRD; `None` for a kind that the caller may not list.
pub(super) async fn list_by_crd(
    client: &Client,
    csv: &ClusterServiceVersion,
) -> Result<Vec<(CrdDescription, Option<Vec<Instance>>)>, Error> {
    let mut out = Vec::new();
    for crd in csv.spec.owned_crds() {
        out.push((crd.clone(), list_of_crd(client, crd).await?));
    }
    Ok(out)
}

/// The custom resources of one CRD; `None` when the caller may not list them.
pub(super) async fn list_of_crd(
    client: &Client,
    crd: &CrdDescription,
) -> Result<Option<Vec<Instance>>, Error> {
    match list_of(client, crd).await {
        Ok(list) => Ok(Some(list)),
        Err(Error::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The custom resources of one CRD in the namespaces that an operator watches; `None` when the caller may not
/// list them there, or the operator watches all namespaces.
pub(super) async fn list_watched(
    client: &Client,
    crd: &CrdDescription,
    operator: &Installed,
) -> Result<Option<Vec<Instance>>, Error> {
    list_in(client, crd, &watched(operator)).await
}

/// The same in these namespaces; `None` also for the empty name, which stands for all.
pub(super) async fn list_in(
    client: &Client,
    crd: &CrdDescription,
    namespaces: &[String],
) -> Result<Option<Vec<Instance>>, Error> {
    let Some((plural, resource)) = resource_of(crd) else { return Ok(Some(Vec::new())) };
    let mut out = Vec::new();
    for namespace in namespaces {
        if namespace.is_empty() {
            return Ok(None);
        }
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
        match api.list(&ListParams::default()).await {
            Ok(list) => out.extend(list.items.into_iter().map(|object| instance(&resource, object))),
            // A namespaced request for a cluster-wide kind is "not found".
            Err(kube::Error::Api(status)) if status.is_forbidden() || status.is_not_found() => {
                return Ok(None);
            }
            Err(error) => return Err(Error::kube(format!("list {plural} in namespace {namespace}"))(error)),
        }
    }
    Ok(Some(out))
}

/// The custom resources of a CRD, by namespace and name.
async fn list_of(client: &Client, crd: &CrdDescription) -> Result<Vec<Instance>, Error> {
    let Some((plural, resource)) = resource_of(crd) else { return Ok(Vec::new()) };
    let list = Api::<DynamicObject>::all_with(client.clone(), &resource).list(&ListParams::default()).await;
    let list = match list {
        Ok(list) => list,
        // The CRD is gone, and with it all objects of its kind.
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(Error::kube(format!("list {plural} in all namespaces"))(error)),
    };
    let mut out: Vec<Instance> = list.items.into_iter().map(|object| instance(&resource, object)).collect();
    out.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(out)
}

/// Objects of olm's own kinds are not operands, whatever kinds a version claims.
fn resource_of(crd: &CrdDescription) -> Option<(String, ApiResource)> {
    let definition = ObjectRef::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, &crd.name);
    let (plural, group) = crd.name.split_once('.').filter(|_| !is_reserved(&definition, None))?;
    let gvk = GroupVersionKind::gvk(group, &crd.version, &crd.kind);
    Some((plural.to_owned(), ApiResource::from_gvk_with_plural(&gvk, plural)))
}

fn instance(resource: &ApiResource, object: DynamicObject) -> Instance {
    let created = object.creation_timestamp().map(|t| t.0);
    Instance {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespace: object.namespace(),
        name: object.name_any(),
        created: created.map(|t| t.to_string()),
        state: OperandState::of(&object.data, created, Timestamp::now()).word,
        object: serde_json::to_value(&object).unwrap_or_default(),
    }
}
