//! Changes of namespaced objects by merge patches.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use olm_api::{Subscription, names};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::Error;

tokio::task_local! {
    static WRITER: &'static str;
}

/// Runs an operation of another program than the command line: the API server records its changes under the
/// name of that program, as their field manager.
pub async fn written_by<F: Future>(program: &'static str, operation: F) -> F::Output {
    WRITER.scope(program, operation).await
}

/// The field manager of the changes of this task.
pub(super) fn field_manager() -> String {
    WRITER.try_with(|program| *program).unwrap_or(names::FIELD_MANAGER_CLI).to_owned()
}

/// Attempts to write a change when concurrent writes conflict.
pub(super) const ATTEMPTS: usize = 5;

/// Applies a merge patch on condition that the object is unchanged since it was read. `verb` is for errors.
pub(super) async fn write<K>(client: &Client, object: &K, verb: &str, mut patch: Value) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    patch["metadata"]["resourceVersion"] = json!(object.resource_version());
    merge::<K>(client, &object.namespace().unwrap_or_default(), &object.name_any(), verb, &patch).await
}

/// Applies a merge patch of requested values to a Subscription, whatever its other fields are.
pub(super) async fn patch_subscription(
    client: &Client,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<(), Error> {
    merge::<Subscription>(client, namespace, name, "change", patch).await
}

async fn merge<K>(
    client: &Client,
    namespace: &str,
    name: &str,
    verb: &str,
    patch: &Value,
) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let params = PatchParams { field_manager: Some(field_manager()), ..PatchParams::default() };
    Api::<K>::namespaced(client.clone(), namespace)
        .patch(name, &params, &Patch::Merge(patch))
        .await
        .map_err(Error::kube(format!("{verb} {} {namespace}/{name}", K::kind(&()))))?;
    Ok(())
}

/// A Subscription after a merge patch, as the API server stores it. Pure.
pub(super) fn merged(subscription: &Subscription, patch: &Value) -> Result<Subscription, Error> {
    let read =
        |error: serde_json::Error| Error::Other(format!("failed to parse the changed Subscription: {error}"));
    let mut value = serde_json::to_value(subscription).map_err(read)?;
    json_patch::merge(&mut value, patch);
    serde_json::from_value(value).map_err(read)
}

/// Whether the object of [`write()`] was changed since it was read.
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Kube { source, .. } if matches!(&**source, kube::Error::Api(s) if s.is_conflict()))
}
