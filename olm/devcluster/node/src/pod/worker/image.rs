//! Provides the image of a container before each start: an image of the store, which a task of its own pulls.

use std::{sync::Arc, time::Instant};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;

use super::{Message, Worker, slot::Pull};
use crate::{
    context::Context,
    events::Severity,
    images::{ContainerImage, Found, PullError, PullPolicy, PullSecret},
    pod::decide::Backoff,
    registration,
};

impl Worker {
    /// The image for the next start; `None` while it is being pulled, and after a failure.
    pub(super) fn image(&mut self, index: usize) -> Option<Box<ContainerImage>> {
        let slot = &mut self.slots[index];
        let reference = slot.container.image.clone().unwrap_or_default();
        match std::mem::take(&mut slot.pull) {
            Pull::Needed => {
                self.find_image(index, reference);
                None
            }
            Pull::Running => {
                slot.pull = Pull::Running;
                None
            }
            Pull::Done(Ok(image)) => {
                slot.pull_backoff = Backoff::default();
                Some(image)
            }
            Pull::Done(Err(error)) => {
                self.image_missing(index, &reference, &error);
                None
            }
        }
    }

    fn find_image(&mut self, index: usize, reference: String) {
        let slot = &mut self.slots[index];
        slot.pull = Pull::Running;
        let search = Search {
            cx: Arc::clone(&self.cx),
            pod: Arc::clone(&self.pod),
            container: slot.container.name.clone(),
            policy: PullPolicy::parse(slot.container.image_pull_policy.as_deref()),
            reference: reference.clone(),
        };
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let result = search.run().await.map(Box::new);
            let _ = messages.send(Message::Image { slot: index, reference, result });
        });
    }

    fn image_missing(&mut self, index: usize, image: &str, error: &PullError) {
        let slot = &mut self.slots[index];
        // Otherwise it waits for another reason, such as its restart.
        let first = !matches!(
            slot.waiting,
            Some(("ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName", _))
        );
        slot.not_before = Some(Instant::now() + slot.pull_backoff.after_failure());
        let reason = match error {
            PullError::Never(_) => "ErrImageNeverPull",
            PullError::Name(_) => "InvalidImageName",
            _ if first => "ErrImagePull",
            _ => {
                let text = format!("Back-off pulling image {image:?}: {error}");
                slot.waiting = Some(("ImagePullBackOff", text.clone()));
                self.event(Some(index), Severity::Normal, "BackOff", text);
                return;
            }
        };
        slot.waiting = Some((reason, error.to_string()));
        match error {
            PullError::Never(_) | PullError::Name(_) if first => {
                let text = format!("Error: {reason}: {error}");
                self.event(Some(index), Severity::Warning, reason, text);
            }
            PullError::Never(_) | PullError::Name(_) => {}
            _ => {
                let text = format!("Failed to pull image {image:?}: {error}");
                self.event(Some(index), Severity::Warning, "Failed", text);
                self.event(Some(index), Severity::Warning, "Failed", format!("Error: {reason}"));
            }
        }
    }
}

/// The search for the image of one container.
struct Search {
    cx: Arc<Context>,
    pod: Arc<Pod>,
    container: String,
    policy: PullPolicy,
    reference: String,
}

impl Search {
    /// Finds the image in the store or pulls it.
    async fn run(&self) -> Result<ContainerImage, PullError> {
        let started = Instant::now();
        let reference = &self.reference;
        let secrets = self.secrets().await;
        let pulling = || self.event(Severity::Normal, "Pulling", format!("Pulling image {reference:?}"));
        let (image, found) = self.cx.images.get(reference, self.policy, &secrets, pulling).await?;
        let text = match found {
            Found::Present => format!("Container image {reference:?} already present on machine"),
            Found::Current => {
                format!("Image {reference:?} is up to date: the registry has the image of this node")
            }
            Found::Pulled(bytes) => format!(
                "Successfully pulled image {reference:?} in {:.1}s. Image size: {bytes} bytes.",
                started.elapsed().as_secs_f32()
            ),
        };
        self.event(Severity::Normal, "Pulled", text);
        if let Found::Pulled(_) = found
            && let Err(error) = registration::write_images(&self.cx.client, &self.cx.images).await
        {
            tracing::debug!(%error, "failed to list the images of the node");
        }
        Ok(image)
    }

    fn event(&self, severity: Severity, reason: &'static str, message: String) {
        self.cx.events.pod(&self.pod, Some(&self.container), severity, reason, message);
    }

    /// The pod's pull secrets. As in the kubelet, one that does not exist or is of another type is ignored: a
    /// public image needs none.
    async fn secrets(&self) -> Vec<PullSecret> {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or("default");
        let api: Api<Secret> = Api::namespaced(self.cx.client.clone(), namespace);
        let names = self.pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
        let mut secrets = Vec::new();
        for name in names.map(|reference| &reference.name) {
            let data = match api.get_opt(name).await {
                Ok(Some(secret)) => secret.data.unwrap_or_default(),
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%error, namespace, secret = name, "failed to read a pull secret");
                    continue;
                }
            };
            let document = data.get(".dockerconfigjson").or_else(|| data.get(".dockercfg"));
            if let Some(document) = document {
                let origin = format!("secret {namespace}/{name}");
                secrets.push(PullSecret { origin, document: document.0.clone() });
            }
        }
        secrets
    }
}
