//! A pod's volumes: directories under the data directory that are bound into containers.
//!
//! Supported: emptyDir (always on disk, `medium: Memory` and `sizeLimit` have no effect), configMap, secret,
//! projected (serviceAccountToken, configMap, secret, downwardAPI), downwardAPI, hostPath,
//! persistentVolumeClaim. Others are refused.

pub(crate) mod atomic;
mod claim;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{
            ConfigMap, Container, DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, Pod, Secret,
            ServiceAccount, ServiceAccountTokenProjection, Volume,
        },
    },
};
use kube::{Api, Client, api::PostParams};

use self::atomic::{Files, Payload};
use super::env::{self, PodFacts, Sources};

/// Mode of a file when neither the volume nor the item sets one.
const DEFAULT_MODE: u32 = 0o644;

/// A failed setup of a volume.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} : {reason}")]
pub(crate) struct VolumeError {
    volume: String,
    reason: String,
}

/// The volumes of one pod.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    dir: PathBuf,
    paths: BTreeMap<String, PathBuf>,
    /// Read-only for the whole pod, whatever a mount specifies.
    read_only: BTreeSet<String>,
    /// Volumes with content private to the cluster: [`Volumes::wipe`] may delete it.
    own: BTreeSet<String>,
    tokens: BTreeMap<String, Token>,
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    renew: Instant,
}

/// Input of a pod's volumes.
pub(crate) struct Subject<'a> {
    pub(crate) client: &'a Client,
    pub(crate) pod: &'a Pod,
    pub(crate) facts: &'a PodFacts,
    /// The user namespace has a single user and group, so files cannot be given to another.
    pub(crate) one_user: bool,
}

impl Volumes {
    /// `dir`: the directory of this pod's volumes.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, ..Self::default() }
    }

    /// Sets up or updates every volume.
    pub(crate) async fn sync(&mut self, subject: &Subject<'_>) -> Result<(), VolumeError> {
        let volumes = subject.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        for volume in volumes {
            let path = self
                .set_up(subject, volume)
                .await
                .map_err(|reason| VolumeError { volume: volume.name.clone(), reason })?;
            self.paths.insert(volume.name.clone(), path);
        }
        Ok(())
    }

    /// Time of the next token renewal.
    pub(crate) fn renewal(&self) -> Option<Instant> {
        self.tokens.values().map(|token| token.renew).min()
    }

    /// Whether a volume is read-only for the whole pod.
    pub(crate) fn is_read_only(&self, volume: &str) -> bool {
        self.read_only.contains(volume)
    }

    /// Empties emptyDirs and volumes that the cluster provisioned for claims; other mounts are not changed.
    pub(crate) fn wipe(&self) -> Result<(), String> {
        for (name, path) in self.paths.iter().filter(|(name, _)| self.own.contains(*name)) {
            empty(path).map_err(|error| format!("failed to empty volume {name:?}: {error}"))?;
        }
        Ok(())
    }

    /// The source path of one of a container's mounts; creates a missing `subPath`.
    pub(crate) fn source(&self, volume: &str, sub_path: Option<&str>) -> Result<PathBuf, String> {
        let path = self.paths.get(volume).ok_or_else(|| format!("volume {volume:?} not found"))?;
        let Some(sub) = sub_path.filter(|sub| !sub.is_empty()) else { return Ok(path.clone()) };
        if sub.starts_with('/') || sub.split('/').any(|part| part == "..") {
            return Err(format!("subPath {sub:?} of volume {volume:?} must be relative and without `..`"));
        }
        let refuse =
            |error: std::io::Error| format!("failed to create subPath {sub:?} of volume {volume:?}: {error}");
        make_like(path, sub).map_err(refuse)?;
        path.join(sub).canonicalize().map_err(refuse)
    }

    async fn set_up(&mut self, subject: &Subject<'_>, volume: &Volume) -> Result<PathBuf, String> {
        let dir = self.dir.join(&volume.name);
        let namespace = subject.pod.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(host) = &volume.host_path {
            return host_path(host);
        }
        if let Some(source) = &volume.persistent_volume_claim {
            if source.read_only == Some(true) {
                self.read_only.insert(volume.name.clone());
            }
            // A mounted volume stays, also while the claim is being deleted.
            if let Some(path) = self.paths.get(&volume.name) {
                return Ok(path.clone());
            }
            let claimed = claim::set_up(subject, source).await?;
            if claimed.made_here {
                self.own.insert(volume.name.clone());
            }
            return Ok(claimed.path);
        }
        if volume.empty_dir.is_some() {
            self.own.insert(volume.name.clone());
            if !dir.exists() {
                fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
                let group =
                    subject.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref()?.fs_group);
                give_to_group(&dir, group.filter(|_| !subject.one_user))?;
            }
            return Ok(dir);
        }
        let mut files = Files::new();
        if let Some(source) = &volume.config_map {
            let mode = mode_of(source.default_mode, None);
            let projection = Projection { items: source.items.as_deref(), mode, optional: source.optional };
            projection.take(
                "configmap",
                &source.name,
                config_map(subject, namespace, &source.name).await?,
                &mut files,
            )?;
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.clone().unwrap_or_default();
            let mode = mode_of(source.default_mode, None);
            let projection = Projection { items: source.items.as_deref(), mode, optional: source.optional };
            projection.take("secret", &name, secret(subject, namespace, &name).await?, &mut files)?;
        } else if let Some(source) = &volume.downward_api {
            let mode = mode_of(source.default_mode, None);
            downward(subject, source.items.as_deref().unwrap_or_default(), mode, &mut files)?;
        } else if let Some(projected) = &volume.projected {
            let mode = mode_of(projected.default_mode, None);
            for source in projected.sources.iter().flatten() {
                if let Some(source) = &source.config_map {
                    let projection =
                        Projection { items: source.items.as_deref(), mode, optional: source.optional };
                    let data = config_map(subject, namespace, &source.name).await?;
                    projection.take("configmap", &source.name, data, &mut files)?;
                } else if let Some(source) = &source.secret {
                    let projection =
                        Projection { items: source.items.as_deref(), mode, optional: source.optional };
                    let data = secret(subject, namespace, &source.name).await?;
                    projection.take("secret", &source.name, data, &mut files)?;
                } else if let Some(source) = &source.downward_api {
                    downward(subject, source.items.as_deref().unwrap_or_default(), mode, &mut files)?;
                } else if let Some(source) = &source.service_account_token {
                    let key = format!("{}/{}", volume.name, source.path);
                    let token = self.token(subject, namespace, &key, source).await?;
                    files.insert(source.path.clone(), Payload { data: token.into_bytes(), mode });
                } else {
                    return Err(
                        "a projected source of this kind is not supported by the dev cluster".to_owned()
                    );
                }
            }
        } else {
            return Err(
                "volumes of this kind are not supported by the dev cluster, expected emptyDir, configMap, \
                 secret, projected, downwardAPI, hostPath or persistentVolumeClaim"
                    .to_owned(),
            );
        }
        atomic::write(&dir, &files).map_err(|error| error.to_string())?;
        Ok(dir)
    }

    async fn token(
        &mut self,
        subject: &Subject<'_>,
        namespace: &str,
        key: &str,
        source: &ServiceAccountTokenProjection,
    ) -> Result<String, String> {
        if let Some(token) = self.tokens.get(key).filter(|token| token.renew > Instant::now()) {
            return Ok(token.text.clone());
        }
        let spec = subject.pod.spec.as_ref();
        let account = spec.and_then(|spec| spec.service_account_name.clone());
        let account = account.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned());
        let lifetime = source.expiration_seconds.unwrap_or(3600).max(600);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(source.audience.iter().filter(|text| !text.is_empty()).cloned().collect()),
                expiration_seconds: Some(lifetime),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: subject.pod.metadata.name.clone(),
                    uid: subject.pod.metadata.uid.clone(),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let api: Api<ServiceAccount> = Api::namespaced(subject.client.clone(), namespace);
        let made = api.create_token_request(&account, &PostParams::default(), &request).await;
        let made =
            made.map_err(|error| format!("failed to get a token for serviceaccount {account:?}: {error}"))?;
        let text = made
            .status
            .and_then(|status| status.token)
            .ok_or_else(|| format!("received an empty token for serviceaccount {account:?}"))?;
        // The kubelet renews at 80 % of the lifetime, and at least once a day.
        let renew = Duration::from_secs(u64::try_from(lifetime).unwrap_or(3600) * 4 / 5)
            .min(Duration::from_secs(86_400));
        self.tokens.insert(key.to_owned(), Token { text: text.clone(), renew: Instant::now() + renew });
        Ok(text)
    }
}

/// Data of a ConfigMap or Secret; `None` when it does not exist.
type Data = Option<BTreeMap<String, Vec<u8>>>;

struct Projection<'a> {
    items: Option<&'a [KeyToPath]>,
    mode: u32,
    optional: Option<bool>,
}

impl Projection<'_> {
    fn take(&self, kind: &str, name: &str, data: Data, files: &mut Files) -> Result<(), String> {
        let optional = self.optional == Some(true);
        let Some(data) = data else {
            return if optional { Ok(()) } else { Err(format!("{kind} {name:?} not found")) };
        };
        match self.items {
            None => {
                for (key, data) in data {
                    files.insert(key, Payload { data, mode: self.mode });
                }
            }
            Some(items) => {
                for item in items {
                    match data.get(&item.key) {
                        Some(data) => {
                            let mode = mode_of(item.mode, Some(self.mode));
                            files.insert(item.path.clone(), Payload { data: data.clone(), mode });
                        }
                        None if optional => {}
                        None => {
                            return Err(format!("{kind} {name:?} references non-existent key: {}", item.key));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn mode_of(mode: Option<i32>, fallback: Option<u32>) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).or(fallback).unwrap_or(DEFAULT_MODE) & 0o777
}

async fn config_map(subject: &Subject<'_>, namespace: &str, name: &str) -> Result<Data, String> {
    let api: Api<ConfigMap> = Api::namespaced(subject.client.clone(), namespace);
    let found =
        api.get_opt(name).await.map_err(|error| format!("failed to read configmap {name:?}: {error}"))?;
    Ok(found.map(|object| {
        let text = object.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
        let binary = object.binary_data.unwrap_or_default().into_iter();
        text.chain(binary.map(|(key, ByteString(data))| (key, data))).collect()
    }))
}

async fn secret(subject: &Subject<'_>, namespace: &str, name: &str) -> Result<Data, String> {
    let api: Api<Secret> = Api::namespaced(subject.client.clone(), namespace);
    let found =
        api.get_opt(name).await.map_err(|error| format!("failed to read secret {name:?}: {error}"))?;
    Ok(found.map(|object| {
        object.data.unwrap_or_default().into_iter().map(|(key, ByteString(data))| (key, data)).collect()
    }))
}

/// Reads the objects that a container's environment refers to.
pub(crate) async fn env_sources(subject: &Subject<'_>, container: &Container) -> Result<Sources, String> {
    let namespace = subject.pod.metadata.namespace.as_deref().unwrap_or_default();
    let (maps, secrets) = env::references(container);
    let text = |data: BTreeMap<String, Vec<u8>>| {
        let entries = data.into_iter();
        entries.map(|(key, value)| (key, String::from_utf8_lossy(&value).into_owned())).collect()
    };
    let mut sources = Sources::default();
    for name in maps {
        if let Some(data) = config_map(subject, namespace, &name).await? {
            sources.config_maps.insert(name, text(data));
        }
    }
    for name in secrets {
        if let Some(data) = secret(subject, namespace, &name).await? {
            sources.secrets.insert(name, text(data));
        }
    }
    Ok(sources)
}

fn downward(
    subject: &Subject<'_>,
    items: &[DownwardAPIVolumeFile],
    mode: u32,
    files: &mut Files,
) -> Result<(), String> {
    for item in items {
        let value = if let Some(field) = &item.field_ref {
            env::field_value(subject.pod, field, subject.facts)?
        } else if let Some(resource) = &item.resource_field_ref {
            let first = subject.pod.spec.as_ref().and_then(|spec| spec.containers.first());
            let first = first.ok_or("the pod has no container")?;
            env::resource_value(subject.pod, first, resource)?
        } else {
            return Err(format!(
                "downwardAPI file {:?} has neither fieldRef nor resourceFieldRef",
                item.path
            ));
        };
        let mode = mode_of(item.mode, Some(mode));
        files.insert(item.path.clone(), Payload { data: value.into_bytes(), mode });
    }
    Ok(())
}

/// Creates the missing directories of a `subPath`, with the mode of the volume, so that the same users can
/// write there.
fn make_like(volume: &Path, sub: &str) -> std::io::Result<()> {
    let (mode, base) = (fs::metadata(volume)?.permissions(), volume.canonicalize()?);
    let mut path = volume.to_owned();
    for part in sub.split('/').filter(|part| !part.is_empty() && *part != ".") {
        path.push(part);
        match fs::create_dir(&path) {
            Ok(()) => fs::set_permissions(&path, mode.clone())?,
            // It exists already. A link must not lead out of the volume.
            Err(error) => match path.canonicalize() {
                Ok(real) if real.starts_with(&base) => {}
                Ok(_) => return Err(std::io::Error::other("path points outside of the volume")),
                Err(_) => return Err(error),
            },
        }
    }
    Ok(())
}

/// Empties a directory without removing it: it may be mounted.
fn empty(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn host_path(source: &HostPathVolumeSource) -> Result<PathBuf, String> {
    let path = PathBuf::from(&source.path);
    if !path.is_absolute() {
        return Err(format!("hostPath {:?} must be absolute", source.path));
    }
    let check = |good: bool, what: &str| {
        if good { Ok(()) } else { Err(format!("hostPath type check failed: {} is not {what}", source.path)) }
    };
    match source.type_.as_deref().unwrap_or_default() {
        "" => check(path.exists(), "there")?,
        "Directory" => check(path.is_dir(), "a directory")?,
        "DirectoryOrCreate" => fs::create_dir_all(&path).map_err(|error| error.to_string())?,
        "File" => check(path.is_file(), "a file")?,
        "FileOrCreate" => {
            if !path.exists() {
                fs::write(&path, "").map_err(|error| error.to_string())?;
            }
            check(path.is_file(), "a file")?;
        }
        other => return Err(format!("hostPath type {other:?} is not supported")),
    }
    Ok(path)
}

/// An empty directory is writable for all users of the pod; with an fsGroup, for that group.
fn give_to_group(dir: &Path, group: Option<i64>) -> Result<(), String> {
    let mode = match group.and_then(|group| u32::try_from(group).ok()) {
        Some(group) => {
            chown(dir, None, Some(group))
                .map_err(|error| format!("failed to set group {group} of the volume: {error}"))?;
            0o2777
        }
        None => 0o777,
    };
    fs::set_permissions(dir, fs::Permissions::from_mode(mode)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sub_path_has_the_mode_of_its_volume_and_stays_inside() {
        // given a volume that is writable for all, with a file, a link that stays inside and one that leaves
        // it
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let volume = dir.path();
        fs::set_permissions(volume, fs::Permissions::from_mode(0o2777)).unwrap();
        fs::write(volume.join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", volume.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path(), volume.join("out")).unwrap();
        let mut volumes = Volumes::default();
        volumes.paths.insert("v".to_owned(), volume.to_owned());
        let source = |sub: &str| volumes.source("v", Some(sub));
        // then directories are created with the same mode
        let made = source("deep/er").unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o2777);
        assert_eq!(source("deep/er").unwrap(), made);
        // and existing paths are used unchanged, unless they lead outside
        assert!(source("file").unwrap().is_file() && source("link").unwrap().ends_with("file"));
        for bad in ["out", "out/new", "..", "a/../..", "/etc"] {
            assert!(source(bad).is_err(), "{bad}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_volumes_of_the_cluster_are_emptied() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["own", "foreign"] {
            fs::create_dir_all(dir.path().join(name).join("deep")).unwrap();
            fs::write(dir.path().join(name).join("file"), "").unwrap();
        }
        let mut volumes = Volumes::default();
        for name in ["own", "foreign"] {
            volumes.paths.insert(name.to_owned(), dir.path().join(name));
        }
        volumes.own.insert("own".to_owned());
        volumes.wipe().unwrap();
        let left = |name: &str| fs::read_dir(dir.path().join(name)).unwrap().count();
        assert_eq!((left("own"), left("foreign")), (0, 2));
    }
}
