//! The images of the dev cluster's pods: those of programs of this machine, then those of registries.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use olm_devcluster::node::{ImageSource, PullError, PullSecret, UnpackedImage};

use super::{MachineImages, Registries};
use crate::source::blocking;

/// Images of this machine, and of registries.
pub struct PodImages {
    machine: Arc<MachineImages>,
    registries: Registries,
}

impl PodImages {
    pub fn new(registries: Registries) -> Self {
        Self { machine: Arc::new(MachineImages::of_this_installation()), registries }
    }
}

#[async_trait]
impl ImageSource for PodImages {
    fn full_name(&self, reference: &str) -> Result<String, PullError> {
        self.registries.full_name(reference)
    }

    fn is_local(&self, full_name: &str) -> bool {
        self.machine.find(full_name).is_some()
    }

    fn local_images(&self) -> Vec<String> {
        self.machine.names()
    }

    async fn digest(&self, reference: &str, secrets: &[PullSecret]) -> Result<String, PullError> {
        let name = self.full_name(reference)?;
        if let Some(image) = self.machine.find(&name) {
            let machine = Arc::clone(&self.machine);
            return made(move || machine.digest(&image)).await;
        }
        let found = self.registries.digest(reference, secrets).await;
        found.map_err(|error| match (self.machine.missing(&name), error) {
            (Some(missing), PullError::Failed(error)) => {
                PullError::Failed(format!("{missing}; it was not pulled either: {error}"))
            }
            (_, error) => error,
        })
    }

    async fn unpack(
        &self,
        reference: &str,
        digest: &str,
        secrets: &[PullSecret],
        directory: &Path,
    ) -> Result<UnpackedImage, PullError> {
        if let Some(image) = self.machine.find(&self.full_name(reference)?) {
            let (machine, directory) = (Arc::clone(&self.machine), directory.to_owned());
            return made(move || machine.unpack(&image, &directory)).await;
        }
        self.registries.unpack(reference, digest, secrets, directory).await
    }
}

/// Reads and writes files on a blocking thread.
async fn made<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, PullError> {
    let done = blocking(work).await.map_err(|failure| PullError::Failed(failure.message))?;
    done.map_err(PullError::Failed)
}
