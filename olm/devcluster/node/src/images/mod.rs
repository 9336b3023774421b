//! Images of containers: programs of this machine, and images that are pulled or loaded into the node's store.

mod collect;
mod config;
mod machine;
mod source;
mod store;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

pub(crate) use self::{
    config::{ContainerConfig, ImageUser},
    store::InUse,
};
pub use self::{
    machine::{HostProgram, Image, ImageTable, UnknownImage},
    source::{ImageSource, PullError, PullSecret, UnpackedImage},
    store::{ImageStore, StoredImage},
};
use crate::helper::wire::Base;

/// What a container of an image needs.
#[derive(Debug, Clone)]
pub(crate) struct ContainerImage {
    /// As the pod names it.
    pub(crate) reference: String,
    /// As the pod's status shows it.
    pub(crate) id: String,
    pub(crate) base: Base,
    pub(crate) config: ContainerConfig,
    /// Keeps the image from being removed.
    pub(crate) in_use: Option<Arc<InUse>>,
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
    /// Without access to the registry.
    Present,
    /// The registry has the image that the store has.
    Current,
    /// Unpacked bytes.
    Pulled(u64),
}

/// All images of a node.
pub(crate) struct Images {
    machine: RwLock<ImageTable>,
    store: Arc<ImageStore>,
    source: Option<Arc<dyn ImageSource>>,
    /// One pull of a reference at a time.
    pulls: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Images {
    /// The images of this machine, of the store in `directory`, and of the source.
    pub(crate) fn new(machine: ImageTable, source: Option<Arc<dyn ImageSource>>, directory: PathBuf) -> Self {
        let store = ImageStore::new(directory);
        store.remove_leftovers();
        store.collect();
        Self { machine: RwLock::new(machine), store: Arc::new(store), source, pulls: Mutex::default() }
    }

    /// The programs of this machine for an image.
    pub(crate) fn on_machine(&self, reference: &str) -> Result<(ContainerImage, String), UnknownImage> {
        let table = self.machine.read().unwrap_or_else(PoisonError::into_inner);
        let image = table.resolve(reference)?;
        let found = ContainerImage {
            reference: reference.to_owned(),
            id: format!("olm://{reference}"),
            base: Base::Machine { programs: image.programs },
            config: ContainerConfig {
                entrypoint: image.entrypoint,
                cmd: image.default_args,
                ..ContainerConfig::default()
            },
            in_use: None,
        };
        Ok((found, image.description))
    }

    /// Discovers installed programs again.
    pub(crate) fn refresh(&self) {
        self.machine.write().unwrap_or_else(PoisonError::into_inner).refresh();
    }

    /// Every image, for the status of the node: names and size in bytes.
    pub(crate) fn entries(&self) -> Vec<(Vec<String>, u64)> {
        let table = self.machine.read().unwrap_or_else(PoisonError::into_inner);
        let machine = table.entries().into_iter().map(|image| (vec![image.pattern], 0));
        machine.chain(self.store.list().into_iter().map(|image| (image.names(), image.bytes))).collect()
    }

    /// Finds an image in the store, or pulls it; `pulling` is called before a download.
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
            return Ok((self.container(reference, &image)?, Found::Current));
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
            base: Base::Image { root: image.root() },
            config,
            in_use: Some(in_use),
        })
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> PullError {
    move |error| PullError::Failed(format!("failed to {what} of images on this node: {error}"))
}
