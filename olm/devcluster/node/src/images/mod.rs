//! Images of containers, in the node's store: pulled from an [`ImageSource`], or loaded.

mod collect;
mod config;
mod source;
mod store;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

pub(crate) use self::{
    config::{ContainerConfig, ImageUser},
    store::InUse,
};
pub use self::{
    source::{ImageSource, PullError, PullSecret, UnpackedImage},
    store::{ImageStore, StoredImage},
};

/// What a container of an image needs.
#[derive(Debug, Clone)]
pub(crate) struct ContainerImage {
    /// As the pod names it.
    pub(crate) reference: String,
    /// As the pod's status shows it.
    pub(crate) id: String,
    /// Its unpacked root file system.
    pub(crate) root: PathBuf,
    pub(crate) config: ContainerConfig,
    /// Keeps the image from being removed.
    pub(crate) in_use: Arc<InUse>,
}

/// `imagePullPolicy` of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }
}

/// How an image of the store was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Without access to a registry.
    Present,
    /// The registry has the image that the store has.
    Current,
    /// Unpacked bytes.
    Pulled(u64),
}

/// All images of a node.
pub(crate) struct Images {
    store: Arc<ImageStore>,
    source: Option<Arc<dyn ImageSource>>,
    /// One pull of a reference at a time.
    pulls: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Images {
    /// The images of the store in `directory`, and of the source.
    pub(crate) fn new(source: Option<Arc<dyn ImageSource>>, directory: PathBuf) -> Self {
        let store = ImageStore::new(directory);
        store.remove_leftovers();
        store.collect();
        Self { store: Arc::new(store), source, pulls: Mutex::default() }
    }

    /// Every image, for the status of the node: names and size in bytes. The size of a local image is unknown
    /// until it is unpacked.
    pub(crate) fn entries(&self) -> Vec<(Vec<String>, u64)> {
        let mut entries: Vec<(Vec<String>, u64)> =
            self.store.list().into_iter().map(|image| (image.names(), image.bytes)).collect();
        for name in self.source.iter().flat_map(|source| source.local_images()) {
            if !entries.iter().any(|(names, _)| names.contains(&name)) {
                entries.push((vec![name], 0));
            }
        }
        entries
    }

    /// Finds an image in the store, or pulls it; `pulling` is called before a download. The image in the store
    /// may be an earlier build of a local image, so its digest is requested whatever the policy is.
    pub(crate) async fn get(
        &self,
        reference: &str,
        policy: PullPolicy,
        secrets: &[PullSecret],
        pulling: impl FnOnce(),
    ) -> Result<(ContainerImage, Found), PullError> {
        let name = match &self.source {
            Some(source) => source.full_name(reference)?,
            None => reference.to_owned(),
        };
        let turn = {
            let mut pulls = self.pulls.lock().unwrap_or_else(PoisonError::into_inner);
            pulls.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(pulls.entry(name.clone()).or_default())
        };
        let _turn = turn.lock().await;
        let local = self.source.as_ref().is_some_and(|source| source.is_local(&name));
        let policy = if local { PullPolicy::Always } else { policy };
        let present = self.store.find(&name);
        let source = match (policy, present, &self.source) {
            (PullPolicy::IfNotPresent | PullPolicy::Never, Some(image), _) => {
                return Ok((self.container(reference, &image)?, Found::Present));
            }
            (PullPolicy::Never, None, _) => {
                let message = format!("image {reference:?} is not present with pull policy of Never");
                return Err(PullError::Never(message));
            }
            (_, _, None) => return Err(PullError::NoSource),
            (_, _, Some(source)) => source,
        };
        let digest = source.digest(reference, secrets).await?;
        if let Some(image) = self.store.with_digest(&digest) {
            let image = self.store.add_name(image, &name).map_err(failed("write the store"))?;
            let found = if local { Found::Present } else { Found::Current };
            return Ok((self.container(reference, &image)?, found));
        }
        pulling();
        let place = self.store.prepare().map_err(failed("write the store"))?;
        let unpacked = source.unpack(reference, &digest, secrets, &place.root()).await?;
        let bytes = unpacked.bytes;
        let image = place.publish(&name, unpacked).map_err(failed("write the store"))?;
        let container = self.container(reference, &image)?;
        let store = Arc::clone(&self.store);
        // Removing many files takes a while.
        drop(tokio::task::spawn_blocking(move || store.collect()));
        Ok((container, Found::Pulled(bytes)))
    }

    fn container(&self, reference: &str, image: &StoredImage) -> Result<ContainerImage, PullError> {
        let in_use = self.store.hold(image).ok_or_else(|| {
            PullError::Failed(format!("image {reference} was removed from the store of this node"))
        })?;
        let config = ContainerConfig::parse(&image.config).map_err(|error| {
            PullError::Failed(format!("the configuration of image {reference} is malformed: {error}"))
        })?;
        Ok(ContainerImage {
            reference: reference.to_owned(),
            id: image.id(),
            root: image.root(),
            config,
            in_use,
        })
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> PullError {
    move |error| PullError::Failed(format!("failed to {what} of images on this node: {error}"))
}
