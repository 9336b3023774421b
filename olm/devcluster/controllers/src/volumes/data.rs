//! The data of provisioned volumes.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::ResourceExt;
use olm_devcluster_machinery::PROVISIONER;

use super::PROVISIONED_BY;

/// The directory of a volume, only if this cluster provisioned it: no object may cause the removal of other
/// data.
fn folder(volume: &PersistentVolume, dir: Option<&Path>) -> Result<PathBuf, String> {
    let name = volume.name_any();
    let by = volume.annotations().get(PROVISIONED_BY).map(String::as_str).unwrap_or_default();
    if by != PROVISIONER {
        return Err(format!(
            "error getting deleter volume plugin for volume {name:?}: the dev cluster removes only volumes \
             of its provisioner {PROVISIONER}; delete the data and the volume manually"
        ));
    }
    let dir = dir.ok_or_else(|| {
        format!("failed to remove the data of volume {name:?}: this API server has no data directory")
    })?;
    let path =
        volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref()).map(|host| Path::new(&host.path));
    let expected = dir.join(&name);
    if name.contains('/') || !name.starts_with("pvc-") || path != Some(expected.as_path()) {
        return Err(format!(
            "failed to remove the data of volume {name:?}: unexpected path, expected {}; delete the data \
             and the volume manually",
            expected.display()
        ));
    }
    Ok(expected)
}

/// Removes the data of a volume; missing data is not an error.
pub(super) async fn remove(volume: &PersistentVolume, dir: Option<&Path>) -> Result<(), String> {
    let folder = folder(volume, dir)?;
    let removed = {
        let folder = folder.clone();
        tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await
    };
    match removed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) => Err(format!("failed to remove {}: {error}", folder.display())),
        Err(_) => Err(format!("failed to remove {}: the cluster is stopping", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn volume(name: &str, by: &str, path: &str) -> PersistentVolume {
        from_value(json!({
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: by}},
            "spec": {"hostPath": {"path": path}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn only_provisioned_directories_are_removed() {
        // given two directories below the data directory and one outside
        let here = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let dir = here.path();
        let path = |name: &str| dir.join(name).display().to_string();
        std::fs::create_dir_all(dir.join("pvc-1/deep")).unwrap();
        std::fs::create_dir_all(dir.join("pvc-2")).unwrap();
        // when volumes refer to them in different ways
        let elsewhere = outside.path().display().to_string();
        for bad in [
            volume("pvc-2", "another.example/x", &path("pvc-2")),
            volume("pvc-3", PROVISIONER, &path("pvc-2")),
            volume("pvc-3", PROVISIONER, &elsewhere),
            volume("pvc-1/..", PROVISIONER, &path("pvc-1/..")),
        ] {
            assert!(remove(&bad, Some(dir)).await.is_err(), "{bad:?}");
        }
        // then only the data of a correct volume is removed
        remove(&volume("pvc-1", PROVISIONER, &path("pvc-1")), Some(dir)).await.unwrap();
        remove(&volume("pvc-1", PROVISIONER, &path("pvc-1")), Some(dir)).await.unwrap();
        assert!(!dir.join("pvc-1").exists() && dir.join("pvc-2").exists() && outside.path().exists());
    }
}
