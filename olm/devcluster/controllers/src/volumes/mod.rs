//! PersistentVolumeClaims and their volumes: existing ones, or provisioned directories of this machine.
//!
//! A claim and its volume refer to each other, and each side is written separately, so every step can be
//! repeated after a crash: first the volume names the claim ([`Step::Reserve`]), then the claim names the
//! volume ([`Step::Complete`]). Data is removed in one place only: [`Controller::reclaim`].

mod data;
mod plan;
mod protect;

use std::{path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use olm_devcluster_machinery::PROVISIONER;
use serde_json::{Value, json};

use self::plan::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, EventDraft, Step, VolumeBinding, amount, capacity, requested,
};
pub(crate) use self::plan::{SELECTED_NODE, claims_of, class_of, is_bound};
use super::{
    cache::{Cache, Key},
    error::{During, Error, unless_gone},
    events::Recorder,
};

/// Names the provisioner of a volume, which also removes its data.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) claims: Arc<Cache<PersistentVolumeClaim>>,
    pub(crate) volumes: Arc<Cache<PersistentVolume>>,
    pub(crate) classes: Arc<Cache<StorageClass>>,
    pub(crate) pods: Arc<Cache<Pod>>,
    /// Directory of provisioned volumes; `None` disables provisioning.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) node_name: String,
    pub(crate) events: Recorder,
}

fn phase_of(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn phase_of_volume(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The `claimRef` of a claim.
fn reference(claim: &PersistentVolumeClaim) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace, "name": claim.metadata.name, "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    })
}

impl Controller {
    fn claims_in(&self, namespace: &str) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn volumes_api(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Reconciles a claim.
    pub(crate) async fn claim(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(claim) = self.claims.get(&key) else { return Ok(None) };
        if claim.metadata.deletion_timestamp.is_some() {
            self.release_claim(&claim).await?;
            return Ok(None);
        }
        let class = class_of(&claim).and_then(|name| self.classes.get(&Key::new("", name)));
        let volumes = self.volumes.all();
        match plan::next(&claim, &volumes, class.as_deref()) {
            Step::Complete(name) => {
                let volume = self.volumes.get(&Key::new("", &name));
                if let Some(volume) = volume {
                    self.complete(&claim, &volume, class.as_deref()).await?;
                }
            }
            Step::Reserve(name) => {
                if let Some(volume) = self.volumes.get(&Key::new("", &name)) {
                    let volume = self.reserve(&claim, &volume).await?;
                    self.complete(&claim, &volume, class.as_deref()).await?;
                }
            }
            Step::Provision => {
                if let Some(class) = &class {
                    self.provision(&claim, class).await?;
                }
            }
            Step::Wait(note) => {
                self.report(&claim, note);
                self.set_phase(&claim, "Pending").await?;
            }
            Step::Lost(note) => {
                if phase_of(&claim) != "Lost" {
                    self.set_phase(&claim, "Lost").await?;
                    self.report(&claim, Some(note));
                }
            }
        }
        Ok(None)
    }

    fn report(&self, claim: &PersistentVolumeClaim, note: Option<EventDraft>) {
        match note {
            Some(EventDraft { warning: true, reason, message }) => {
                self.events.warning(claim, reason, message)
            }
            Some(EventDraft { warning: false, reason, message }) => {
                self.events.normal(claim, reason, message)
            }
            None => {}
        }
    }

    async fn set_phase(&self, claim: &PersistentVolumeClaim, phase: &str) -> Result<(), Error> {
        if phase_of(claim) == phase {
            return Ok(());
        }
        self.write_claim_status(claim, json!({ "phase": phase })).await
    }

    async fn write_claim_status(&self, claim: &PersistentVolumeClaim, status: Value) -> Result<(), Error> {
        let key = Key::of(claim);
        let patch = Patch::Merge(json!({ "metadata": { "uid": claim.uid() }, "status": status }));
        let result =
            self.claims_in(&key.namespace).patch_status(&key.name, &PatchParams::default(), &patch).await;
        let written = unless_gone(result.during(|| format!("update status of claim {key}")))?;
        if let Some(claim) = written {
            self.claims.assume(claim);
        }
        Ok(())
    }

    /// Writes the claim into a volume; fails on a concurrent write.
    async fn reserve(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<PersistentVolume, Error> {
        let name = volume.name_any();
        let mut patch = json!({
            "metadata": { "uid": volume.uid(), "resourceVersion": volume.resource_version() },
            "spec": { "claimRef": reference(claim) },
        });
        if plan::binding_of(volume, claim) == VolumeBinding::No {
            patch["metadata"]["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
        }
        let result = self.volumes_api().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let volume = result.during(|| format!("bind volume {name} to claim {}", Key::of(claim)))?;
        self.volumes.assume(volume.clone());
        Ok(volume)
    }

    /// Writes the claim's volume into the claim, and its properties into the claim's status.
    async fn complete(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        class: Option<&StorageClass>,
    ) -> Result<(), Error> {
        let key = Key::of(claim);
        let name = volume.name_any();
        if !is_bound(claim) {
            let mut annotations = json!({ BIND_COMPLETED: "yes" });
            if plan::volume_of(claim).is_empty() {
                annotations[BOUND_BY_CONTROLLER] = "yes".into();
            }
            let patch = Patch::Merge(json!({
                "metadata": {
                    "uid": claim.uid(), "resourceVersion": claim.resource_version(), "annotations": annotations,
                },
                "spec": { "volumeName": name },
            }));
            let result =
                self.claims_in(&key.namespace).patch(&key.name, &PatchParams::default(), &patch).await;
            match unless_gone(result.during(|| format!("bind claim {key} to volume {name}")))? {
                Some(claim) => self.claims.assume(claim),
                None => return Ok(()),
            }
        }
        let volume = self.grow(claim, volume, class).await?;
        let spec = volume.spec.as_ref();
        let status = json!({
            "phase": "Bound",
            "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
            "capacity": spec.and_then(|spec| spec.capacity.clone()),
        });
        let present = serde_json::to_value(&claim.status).unwrap_or_default();
        let same = ["phase", "accessModes", "capacity"].iter().all(|field| present[field] == status[field]);
        if same { Ok(()) } else { self.write_claim_status(claim, status).await }
    }

    /// Expands a claim: the size of the directories is not limited, so only the recorded capacity changes.
    async fn grow(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        class: Option<&StorageClass>,
    ) -> Result<PersistentVolume, Error> {
        let wanted = requested(claim);
        let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
        let allowed = class.is_some_and(|class| class.allow_volume_expansion == Some(true));
        if !ours || !allowed || amount(wanted).compare(amount(capacity(volume))).is_le() {
            return Ok(volume.clone());
        }
        let name = volume.name_any();
        let patch = Patch::Merge(json!({ "spec": { "capacity": { "storage": wanted } } }));
        let result = self.volumes_api().patch(&name, &PatchParams::default(), &patch).await;
        let grown = result.during(|| format!("expand volume {name}"))?;
        self.volumes.assume(grown.clone());
        self.events.normal(
            claim,
            "VolumeResizeSuccessful",
            "Resize volume succeeded; the dev cluster enforces no capacity",
        );
        Ok(grown)
    }

    /// Provisions a volume for a claim: a directory under the data directory, which the node creates on the
    /// first mount.
    async fn provision(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<(), Error> {
        let Some(dir) = &self.dir else {
            let message = "failed to provision volume: this API server has no data directory for volumes";
            self.events.warning(claim, "ProvisioningFailed", message);
            return self.set_phase(claim, "Pending").await;
        };
        let name = format!("pvc-{}", claim.uid().unwrap_or_default());
        let spec = claim.spec.clone().unwrap_or_default();
        let volume = json!({
            "metadata": {
                "name": name, "annotations": { PROVISIONED_BY: PROVISIONER },
            },
            "spec": {
                "accessModes": spec.access_modes,
                "capacity": { "storage": requested(claim) },
                "claimRef": reference(claim),
                "hostPath": { "path": dir.join(&name), "type": "DirectoryOrCreate" },
                "mountOptions": class.mount_options,
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": [self.node_name] },
                ] }] } },
                "persistentVolumeReclaimPolicy": class.reclaim_policy,
                "storageClassName": class.metadata.name,
                "volumeMode": "Filesystem",
            },
        });
        let invalid = |error| {
            Error::Invalid(format!("failed to create a volume for claim {}: {error}", Key::of(claim)))
        };
        let volume: PersistentVolume = serde_json::from_value(volume).map_err(invalid)?;
        let created = self.volumes_api().create(&PostParams::default(), &volume).await;
        let volume = match created {
            Ok(volume) => volume,
            // An earlier attempt created it.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.volumes_api().get(&name).await.during(|| format!("read volume {name}"))?
            }
            Err(error) => {
                let message =
                    format!("failed to provision volume with StorageClass {:?}: {error}", class.name_any());
                self.events.warning(claim, "ProvisioningFailed", message);
                return Err(error).during(|| format!("create volume {name}"));
            }
        };
        self.volumes.assume(volume.clone());
        self.events.normal(claim, "ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
        self.complete(claim, &volume, Some(class)).await
    }

    /// Reconciles a volume.
    pub(crate) async fn volume(&self, key: Key) -> Result<Option<Duration>, Error> {
        let Some(volume) = self.volumes.get(&key) else { return Ok(None) };
        let Some(owner) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone()) else {
            self.release_volume(&volume).await?;
            self.set_volume_phase(&volume, "Available", None).await?;
            return Ok(None);
        };
        let (namespace, name) = (owner.namespace.unwrap_or_default(), owner.name.unwrap_or_default());
        let uid = owner.uid.unwrap_or_default();
        if uid.is_empty() {
            self.release_volume(&volume).await?;
            self.set_volume_phase(&volume, "Available", None).await?;
            return Ok(None);
        }
        // The next step may remove data, so a cached claim is not sufficient.
        let claim = self.claims_in(&namespace).get_opt(&name).await;
        let claim = claim.during(|| format!("read claim {namespace}/{name}"))?;
        match claim.filter(|claim| claim.uid().as_deref() == Some(&uid)) {
            Some(claim) if plan::volume_of(&claim) == key.name => {
                self.set_volume_phase(&volume, "Bound", None).await?;
            }
            // The claim is about to be bound to it.
            Some(claim) if plan::volume_of(&claim).is_empty() => {}
            Some(_) | None => self.reclaim(&volume).await?,
        }
        Ok(None)
    }

    async fn set_volume_phase(
        &self,
        volume: &PersistentVolume,
        phase: &str,
        message: Option<&str>,
    ) -> Result<(), Error> {
        let known = volume.status.as_ref().and_then(|status| status.message.as_deref());
        if phase_of_volume(volume) == phase && known == message {
            return Ok(());
        }
        let name = volume.name_any();
        let patch = Patch::Merge(json!({
            "metadata": { "uid": volume.uid() },
            "status": {
                "phase": phase, "message": message, "reason": message.map(|_| "VolumeFailedDelete"),
                "lastPhaseTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            },
        }));
        let result = self.volumes_api().patch_status(&name, &PatchParams::default(), &patch).await;
        if let Some(volume) = unless_gone(result.during(|| format!("update status of volume {name}")))? {
            self.volumes.assume(volume);
        }
        Ok(())
    }

    /// Applies the reclaim policy of a volume whose claim is deleted.
    async fn reclaim(&self, volume: &PersistentVolume) -> Result<(), Error> {
        let name = volume.name_any();
        let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if policy != Some("Delete") {
            self.set_volume_phase(volume, "Released", None).await?;
            return self.release_volume(volume).await;
        }
        if phase_of_volume(volume) != "Failed" {
            self.set_volume_phase(volume, "Released", None).await?;
        }
        if let Err(why) = data::remove(volume, self.dir.as_deref()).await {
            self.events.warning(volume, "VolumeFailedDelete", why.clone());
            return self.set_volume_phase(volume, "Failed", Some(&why)).await;
        }
        if volume.metadata.deletion_timestamp.is_none() {
            let params = DeleteParams {
                preconditions: Some(Preconditions { uid: volume.uid(), resource_version: None }),
                ..DeleteParams::default()
            };
            let result = self.volumes_api().delete(&name, &params).await;
            unless_gone(result.during(|| format!("delete volume {name}")))?;
        }
        self.release_volume(volume).await
    }
}
