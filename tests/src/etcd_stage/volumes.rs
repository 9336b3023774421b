//! Volumes of pods, as directories of this machine.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};
use kube::Api;

use super::kubelet::{Kubelet, Run, lock};

impl Kubelet {
    /// Directories of a pod's volumes.
    pub(super) async fn volumes(&self, run: &Run) -> Result<BTreeMap<String, PathBuf>> {
        let mut folders = BTreeMap::new();
        let pod = lock(&run.pod).clone();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let folder = if let Some(claim) = &volume.persistent_volume_claim {
                self.claimed(&run.namespace, &claim.claim_name).await?
            } else {
                run.folder.join(&volume.name)
            };
            std::fs::create_dir_all(&folder)?;
            let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            if let Some(source) = &volume.secret {
                let api: Api<Secret> = Api::namespaced(self.inner.client.clone(), &run.namespace);
                let secret = api.get(source.secret_name.as_deref().unwrap_or_default()).await?;
                files.extend(secret.data.into_iter().flatten().map(|(key, value)| (key, value.0)));
            } else if let Some(source) = &volume.config_map {
                let api: Api<ConfigMap> = Api::namespaced(self.inner.client.clone(), &run.namespace);
                let map = api.get(&source.name).await?;
                files.extend(map.data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes())));
            } else if volume.empty_dir.is_none() && volume.persistent_volume_claim.is_none() {
                bail!("the stage has no volumes like {}", volume.name);
            }
            for (key, content) in files {
                let file = folder.join(key);
                if std::fs::read(&file).ok().as_deref() != Some(&content[..]) {
                    std::fs::write(file, content)?;
                }
            }
            folders.insert(volume.name.clone(), folder);
        }
        Ok(folders)
    }

    /// Directory of a claim's volume.
    pub(super) async fn claimed(&self, namespace: &str, claim: &str) -> Result<PathBuf> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.inner.client.clone(), namespace);
        let found = claims.get(claim).await?;
        let bound = found.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let volume = found.spec.and_then(|spec| spec.volume_name).filter(|_| bound);
        let volume = volume.with_context(|| format!("claim {claim} is not bound"))?;
        let spec = Api::<PersistentVolume>::all(self.inner.client.clone()).get(&volume).await?.spec;
        let spec = spec.with_context(|| format!("volume {volume} has no spec"))?;
        let path = spec.host_path.map(|host| host.path).or(spec.local.map(|local| local.path));
        path.map(PathBuf::from).with_context(|| format!("volume {volume} has no path on this machine"))
    }
}
