//! Applies safe fixes.

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    core::GroupVersionKind,
};
use olm_api::names;
use olm_engine::{Refusal, resources::Resources};
use serde_json::json;

use super::ailment::Cure;
use crate::error::Error;

/// Deletes the object that a cure names, by its UID; `false` when it is gone already.
///
/// # Errors
/// [`Error::Forbidden`]; [`Error::Refused`] when the object has changed since.
pub async fn cure(client: &Client, cure: &Cure) -> Result<bool, Error> {
    let (group, version) = cure.api_version.split_once('/').unwrap_or(("", &cure.api_version));
    let gvk = GroupVersionKind::gvk(group, version, &cure.kind);
    let (resource, _) = Resources::new(client.clone()).lookup(&gvk).await.map_err(Refusal::from)?;
    let api = match &cure.namespace {
        Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let what = match &cure.namespace {
        Some(namespace) => format!("{} {namespace}/{}", cure.kind, cure.name),
        None => format!("{} {}", cure.kind, cure.name),
    };
    let Some(live) = api.get_opt(&cure.name).await.map_err(Error::kube(format!("get {what}")))? else {
        return Ok(false);
    };
    let changed = || Error::Refused {
        code: "Changed".into(),
        text: format!("{what} changed since the check"),
        fix: Some("run `olm doctor` again".into()),
    };
    if live.uid().as_deref() != Some(&cure.uid) {
        return Err(changed());
    }
    // A copy of a version has nothing to clean up, and no controller handles its finalizer: the deletion
    // would be held forever.
    let copied = cure.kind == "ClusterServiceVersion" && live.labels().contains_key(names::LABEL_COPIED_FROM);
    if copied && live.finalizers().iter().any(|f| f == names::FINALIZER_CSV_CLEANUP) {
        let left: Vec<&String> =
            live.finalizers().iter().filter(|f| *f != names::FINALIZER_CSV_CLEANUP).collect();
        let patch = json!({ "metadata": { "finalizers": left, "resourceVersion": live.resource_version() } });
        let patched = api.patch(&cure.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map_err(Error::kube(format!("remove the finalizer of {what}")))?;
    }
    let preconditions = Preconditions { uid: Some(cure.uid.clone()), resource_version: None };
    match api.delete(&cure.name, &DeleteParams::default().preconditions(preconditions)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
        Err(kube::Error::Api(status)) if status.is_conflict() => Err(changed()),
        Err(error) => Err(Error::kube(format!("delete {what}"))(error)),
    }
}
