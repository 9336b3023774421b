//! Applies fixes that are safe without confirmation.

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    core::GroupVersionKind,
};
use olm_api::names;
use olm_engine::{Refusal, resources::Resources};
use serde::Serialize;
use serde_json::json;

use crate::error::Error;

/// A deletion without loss of data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SafeFix {
    /// `apiVersion` of the object to delete.
    pub api_version: String,
    pub kind: String,
    /// Its namespace, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// UID of the examined object: a recreated one is not deleted.
    pub uid: String,
}

/// Deletes the object that a fix names, by its UID; `false` when it is gone already.
///
/// # Errors
/// [`Error::Forbidden`]; [`Error::Refused`] when the object has changed since.
pub async fn apply_fix(client: &Client, fix: &SafeFix) -> Result<bool, Error> {
    let (group, version) = fix.api_version.split_once('/').unwrap_or(("", &fix.api_version));
    let gvk = GroupVersionKind::gvk(group, version, &fix.kind);
    let (resource, _) = Resources::new(client.clone()).lookup(&gvk).await.map_err(Refusal::from)?;
    let api = match &fix.namespace {
        Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let what = match &fix.namespace {
        Some(namespace) => format!("{} {namespace}/{}", fix.kind, fix.name),
        None => format!("{} {}", fix.kind, fix.name),
    };
    let Some(live) = api.get_opt(&fix.name).await.map_err(Error::kube(format!("get {what}")))? else {
        return Ok(false);
    };
    let changed = || Error::Refused {
        code: "Changed".into(),
        text: format!("{what} changed since the check"),
        fix: Some("run `olm doctor` again".into()),
    };
    if live.uid().as_deref() != Some(&fix.uid) {
        return Err(changed());
    }
    // A copy of a version has nothing to clean up, and no controller handles its finalizer: the deletion
    // would be held forever.
    let copied = fix.kind == "ClusterServiceVersion" && live.labels().contains_key(names::LABEL_COPIED_FROM);
    if copied && live.finalizers().iter().any(|f| f == names::FINALIZER_CSV_CLEANUP) {
        let left: Vec<&String> =
            live.finalizers().iter().filter(|f| *f != names::FINALIZER_CSV_CLEANUP).collect();
        let patch = json!({ "metadata": { "finalizers": left, "resourceVersion": live.resource_version() } });
        let patched = api.patch(&fix.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map_err(Error::kube(format!("remove the finalizer of {what}")))?;
    }
    let preconditions = Preconditions { uid: Some(fix.uid.clone()), resource_version: None };
    match api.delete(&fix.name, &DeleteParams::default().preconditions(preconditions)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(kube::Error::Api(status)) if status.is_conflict() => Err(changed()),
        Err(error) => Err(Error::kube(format!("delete {what}"))(error)),
    }
}
