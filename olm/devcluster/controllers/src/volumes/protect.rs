//! Finalizers: a claim is retained while a pod uses it, a volume while a claim is bound to it.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Controller, plan::uses};
use crate::{
    cache::Key,
    error::{During, Error, unless_gone},
};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// The object without a finalizer; `None` when the finalizer is absent.
fn without<K: Resource>(object: &K, finalizer: &str) -> Option<Value> {
    let all = object.meta().finalizers.as_deref().unwrap_or_default();
    let left: Vec<&String> = all.iter().filter(|other| *other != finalizer).collect();
    (left.len() < all.len()).then(|| {
        json!({ "metadata": {
            "uid": object.meta().uid, "resourceVersion": object.meta().resource_version, "finalizers": left,
        } })
    })
}

impl Controller {
    /// Removes the finalizer of a claim that is being deleted, once no pod uses it.
    pub(super) async fn release_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), Error> {
        let key = Key::of(claim);
        let Some(patch) = without(claim, CLAIM) else { return Ok(()) };
        if self.pods.list(&key.namespace).iter().any(|pod| uses(pod, &key.name)) {
            return Ok(());
        }
        // The cache may lack a pod that was just bound.
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pods = pods.list(&ListParams::default()).await;
        let pods = pods.during(|| format!("list the pods of claim {key}"))?;
        if pods.iter().any(|pod| uses(pod, &key.name)) {
            return Ok(());
        }
        let api = self.claims_in(&key.namespace);
        let result = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        unless_gone(result.during(|| format!("remove the protection of claim {key}"))).map(drop)
    }

    /// Removes the finalizer of a volume that is being deleted; the caller ensures that no claim is bound to
    /// it.
    pub(super) async fn release_volume(&self, volume: &PersistentVolume) -> Result<(), Error> {
        let name = volume.name_any();
        let latest = self.volumes.get(&Key::new("", &name));
        let Some(volume) = latest.filter(|volume| volume.metadata.deletion_timestamp.is_some()) else {
            return Ok(());
        };
        let Some(patch) = without(&*volume, VOLUME) else { return Ok(()) };
        let result = self.volumes_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        unless_gone(result.during(|| format!("remove the protection of volume {name}"))).map(drop)
    }
}
