//! Decides the next step of a claim. Pure: claim, volumes and class in, one step out.

use std::cmp::Ordering;

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource,
};
use kube::{ResourceExt, core::Selector};
use olm_devcluster_machinery::PROVISIONER;
use olm_kube_schema::quantity::Quantity;

use crate::claim::matches;

/// Set on a claim when it and its volume refer to each other.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Set on claims and volumes that a controller bound, not a user.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node selected for the first pod of a claim.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Older name of `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Next step of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Bind it to this volume, which is free or reserved for this claim.
    Reserve(String),
    /// This volume refers to the claim: write it into the claim.
    Complete(String),
    /// Provision a volume.
    Provision,
    /// It stays Pending; with the event to report, if any.
    Wait(Option<EventDraft>),
    /// It was bound, and its volume is missing or bound to another claim.
    Lost(EventDraft),
}

/// An event about a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventDraft {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn note(warning: bool, reason: &'static str, message: impl Into<String>) -> EventDraft {
    EventDraft { warning, reason, message: message.into() }
}

/// An amount of storage; zero when it is malformed.
pub(crate) fn amount(amount: Option<&resource::Quantity>) -> Quantity {
    amount.and_then(|amount| amount.0.parse().ok()).unwrap_or_default()
}

pub(crate) fn requested(claim: &PersistentVolumeClaim) -> Option<&resource::Quantity> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")
}

pub(crate) fn capacity(volume: &PersistentVolume) -> Option<&resource::Quantity> {
    volume.spec.as_ref()?.capacity.as_ref()?.get("storage")
}

/// The class of a claim: `None` when unset.
pub(crate) fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let annotation = claim.annotations().get(CLASS_ANNOTATION).map(String::as_str);
    annotation.or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())
}

pub(crate) fn volume_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    !volume_of(claim).is_empty() && claim.annotations().contains_key(BIND_COMPLETED)
}

/// Binding of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeBinding {
    No,
    /// Bound to this claim.
    Mine,
    /// Reserved for a claim of this name, without a UID.
    ForMe,
    /// Bound to another claim.
    Other,
}

pub(crate) fn binding_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> VolumeBinding {
    let Some(owner) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return VolumeBinding::No;
    };
    if owner.name != claim.metadata.name || owner.namespace != claim.metadata.namespace {
        return VolumeBinding::Other;
    }
    match owner.uid.as_deref().unwrap_or_default() {
        "" => VolumeBinding::ForMe,
        uid if Some(uid) == claim.metadata.uid.as_deref() => VolumeBinding::Mine,
        _ => VolumeBinding::Other,
    }
}

/// Whether a volume satisfies a claim.
fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else { return false };
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let selected = match &wants.selector {
        None => true,
        Some(selector) => {
            Selector::try_from(selector.clone()).is_ok_and(|selector| matches(&selector, volume))
        }
    };
    selected
        && volume.metadata.deletion_timestamp.is_none()
        && has.storage_class_name.as_deref().unwrap_or_default() == class_of(claim).unwrap_or_default()
        && has.volume_mode.as_deref().unwrap_or("Filesystem")
            == wants.volume_mode.as_deref().unwrap_or("Filesystem")
        && wants.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && amount(capacity(volume)).compare(amount(requested(claim))) != Ordering::Less
}

/// The next step of a claim that is not being deleted.
pub(crate) fn next(
    claim: &PersistentVolumeClaim,
    volumes: &[std::sync::Arc<PersistentVolume>],
    class: Option<&StorageClass>,
) -> Step {
    let name = volume_of(claim);
    if !name.is_empty() {
        return named(claim, name, volumes);
    }
    let of_claim = |wanted: VolumeBinding| volumes.iter().find(|volume| binding_of(volume, claim) == wanted);
    if let Some(mine) = of_claim(VolumeBinding::Mine) {
        return Step::Complete(mine.name_any());
    }
    if let Some(kept) = of_claim(VolumeBinding::ForMe).filter(|volume| fits(volume, claim)) {
        return Step::Reserve(kept.name_any());
    }
    let late = class.is_some_and(|class| {
        class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
            && !claim.annotations().contains_key(SELECTED_NODE)
    });
    if late {
        let message = "waiting for first consumer to be created before binding";
        return Step::Wait(Some(note(false, "WaitForFirstConsumer", message)));
    }
    let free =
        volumes.iter().filter(|volume| binding_of(volume, claim) == VolumeBinding::No && fits(volume, claim));
    // The smallest sufficient volume.
    let smallest = free.min_by(|a, b| {
        let (size_a, size_b) = (amount(capacity(a)), amount(capacity(b)));
        size_a.compare(size_b).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    if let Some(volume) = smallest {
        return Step::Reserve(volume.name_any());
    }
    match (class_of(claim).unwrap_or_default(), class) {
        ("", _) => {
            let message = "no persistent volumes available for this claim and no storage class is set";
            Step::Wait(Some(note(false, "FailedBinding", message)))
        }
        (name, None) => {
            let message = format!("storageclass.storage.k8s.io \"{name}\" not found");
            Step::Wait(Some(note(true, "ProvisioningFailed", message)))
        }
        (_, Some(class)) if class.provisioner == PROVISIONER => match obstacle(claim) {
            None => Step::Provision,
            Some(message) => Step::Wait(Some(note(true, "ProvisioningFailed", message))),
        },
        (_, Some(class)) => {
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system \
                 administrator. If volume creation is delayed, please verify that the provisioner is running and \
                 correctly registered.",
                class.provisioner
            );
            Step::Wait(Some(note(false, "ExternalProvisioning", message)))
        }
    }
}

/// The reason why a directory of this machine cannot satisfy a claim, if any.
fn obstacle(claim: &PersistentVolumeClaim) -> Option<String> {
    let spec = claim.spec.as_ref()?;
    if spec.volume_mode.as_deref() == Some("Block") {
        return Some(
            "block volumes are not supported by the dev cluster: volumeMode must be Filesystem".to_owned(),
        );
    }
    if spec.selector.is_some() {
        return Some("claim.Spec.Selector is not supported for dynamic provisioning".to_owned());
    }
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return Some(
            "the dev cluster does not support volume cloning: dataSource and dataSourceRef must not be set"
                .to_owned(),
        );
    }
    None
}

/// A claim that names a volume, set by the controller or by a user.
fn named(claim: &PersistentVolumeClaim, name: &str, volumes: &[std::sync::Arc<PersistentVolume>]) -> Step {
    let volume = volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name));
    let owner = volume.map(|volume| binding_of(volume, claim));
    if is_bound(claim) {
        return match owner {
            None => Step::Lost(note(
                true,
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            )),
            Some(VolumeBinding::Mine) => Step::Complete(name.to_owned()),
            Some(VolumeBinding::No | VolumeBinding::ForMe) => Step::Reserve(name.to_owned()),
            Some(VolumeBinding::Other) => Step::Lost(note(
                true,
                "ClaimMisbound",
                "Two claims are bound to the same volume, this one is bound incorrectly",
            )),
        };
    }
    match (owner, volume) {
        (Some(VolumeBinding::Mine), _) => Step::Complete(name.to_owned()),
        (Some(VolumeBinding::No | VolumeBinding::ForMe), Some(volume)) if fits(volume, claim) => {
            Step::Reserve(name.to_owned())
        }
        (Some(VolumeBinding::No | VolumeBinding::ForMe), _) => {
            let message = format!(
                "Cannot bind to requested volume {name:?}: size, class, access modes, selector or \
                 volumeMode do not match"
            );
            Step::Wait(Some(note(true, "VolumeMismatch", message)))
        }
        (Some(VolumeBinding::Other), _) => {
            let message = format!("volume {name:?} already bound to a different claim.");
            Step::Wait(Some(note(true, "FailedBinding", message)))
        }
        (None, _) => Step::Wait(None),
    }
}

pub(crate) fn claims_of(pod: &Pod) -> Vec<&str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.as_str()))
        .collect()
}

/// Whether a pod blocks the deletion of a claim: it is bound to a node and mounts it. A pod that is not bound
/// would not be started any more.
pub(crate) fn uses(pod: &Pod, claim: &str) -> bool {
    let placed = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    !placed.is_empty() && claims_of(pod).contains(&claim)
}

#[cfg(test)]
mod tests;
