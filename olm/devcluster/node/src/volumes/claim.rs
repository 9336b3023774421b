//! Volumes behind claims: directories of this machine that outlive the pod.

use std::{fs, path::PathBuf};

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec,
};
use kube::Api;
use olm_devcluster_machinery::PROVISIONER;

use super::{Subject, give_to_group, host_path};

/// The volume of a claim.
pub(super) struct Claimed {
    pub(super) path: PathBuf,
    /// Provisioned by this cluster, and used only by it.
    pub(super) made_here: bool,
}

/// Finds the directory behind a claim, and creates it when its type allows that.
pub(super) async fn set_up(
    subject: &Subject<'_>,
    source: &PersistentVolumeClaimVolumeSource,
) -> Result<Claimed, String> {
    let namespace = subject.pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = &source.claim_name;
    let failed = |why: &str| format!("error processing PVC {namespace}/{name}: {why}");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(subject.client.clone(), namespace);
    let claim = claims.get_opt(name).await.map_err(|error| failed(&error.to_string()))?;
    let claim = claim.ok_or_else(|| failed("failed to fetch PVC from API server: not found"))?;
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(failed("PVC is being deleted"));
    }
    let volume = claim.spec.and_then(|spec| spec.volume_name).unwrap_or_default();
    let is_bound = claim.status.and_then(|status| status.phase).as_deref() == Some("Bound");
    if volume.is_empty() || !is_bound {
        return Err(failed("PVC is not bound"));
    }
    let volumes: Api<PersistentVolume> = Api::all(subject.client.clone());
    let found = volumes.get_opt(&volume).await.map_err(|error| failed(&error.to_string()))?;
    let (annotations, spec) =
        found.map(|volume| (volume.metadata.annotations, volume.spec)).unwrap_or_default();
    let by = annotations.unwrap_or_default().remove("pv.kubernetes.io/provisioned-by");
    let spec =
        spec.ok_or_else(|| failed(&format!("failed to fetch PV {volume} from API server: not found")))?;
    let owner = spec.claim_ref.as_ref().and_then(|owner| owner.uid.as_deref());
    if owner != claim.metadata.uid.as_deref() {
        return Err(failed(&format!("PV {volume} is not bound to this PVC")));
    }
    let path = folder(subject, &spec).map_err(|why| failed(&why))?;
    Ok(Claimed { path, made_here: by.as_deref() == Some(PROVISIONER) })
}

fn folder(subject: &Subject<'_>, spec: &PersistentVolumeSpec) -> Result<PathBuf, String> {
    if let Some(local) = &spec.local {
        let path = PathBuf::from(&local.path);
        return if path.is_dir() { Ok(path) } else { Err(format!("path {:?} does not exist", local.path)) };
    }
    let Some(host) = &spec.host_path else {
        return Err("volumes of this kind are not supported by the dev cluster, expected hostPath or local"
            .to_owned());
    };
    let path = PathBuf::from(&host.path);
    let is_new = host.type_.as_deref() == Some("DirectoryOrCreate") && !path.exists();
    let path = host_path(host)?;
    if is_new {
        // As in host path provisioners: writable for any user of the pod.
        let group = subject.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.fs_group);
        give_to_group(&path, group.filter(|_| !subject.one_user))?;
        // Makes the directory entry durable across a power failure.
        if let Some(parent) = path.parent() {
            fs::File::open(parent).and_then(|dir| dir.sync_all()).map_err(|error| error.to_string())?;
        }
    }
    Ok(path)
}
