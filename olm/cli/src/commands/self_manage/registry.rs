//! The registry for the product's images.

use std::collections::BTreeMap;

use olm_catalog_sources::{Options, SourceError, image_platforms, pin_image};
use olm_ops::manifests::{LOCAL_IMAGES, ManifestOptions};

use super::nodes::ImageArchitectures;
use crate::{
    exit::{Code, Failure},
    product,
    source::failure,
};

/// The product's images in a registry, by digest, by their local names.
pub(super) type Pinned = BTreeMap<String, String>;

/// A registry, and a prefix of the names in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registry(String);

impl Registry {
    /// Parses `REGISTRY[/PREFIX]`. The host must be one: a bare name would be a user of Docker Hub.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = |reason: &str, hint: String| {
            Err(Failure::new(Code::Usage, format!("registry {text:?}: {reason}")).hint(hint))
        };
        let example = || "expected a host with an optional prefix, such as registry.example/team".to_owned();
        if let Some((_, rest)) = text.split_once("://") {
            return wrong("image references have no scheme", format!("use {rest}"));
        }
        let name = text.trim_end_matches('/');
        let (host, prefix) = name.split_once('/').unwrap_or((name, ""));
        if host.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '@') {
            return wrong("not a registry", example());
        }
        if !host.contains(['.', ':']) && host != "localhost" {
            return wrong("not a host", format!("for a user of Docker Hub, use docker.io/{name}"));
        }
        // A colon behind the host starts a tag.
        if prefix.contains(':') {
            return wrong("a prefix has no tag", example());
        }
        Ok(Self(name.to_owned()))
    }

    /// The name of a local image in the registry.
    pub(super) fn image(&self, local: &str) -> String {
        format!("{}/{}", self.0, local.strip_prefix(LOCAL_IMAGES).unwrap_or(local))
    }

    /// Looks up the digests of the product's images.
    pub(super) async fn look_up(&self, access: &Options) -> Result<Pinned, Failure> {
        let mut pinned = Pinned::new();
        for name in product::images().into_iter().flat_map(|image| image.names) {
            let image = self.image(&name);
            let found = pin_image(&image, access).await.map_err(|error| match &error {
                SourceError::NotFound { .. } => {
                    failure(&error).hint(format!("push the images with `olm self image --push {}`", self.0))
                }
                _ => failure(&error),
            })?;
            pinned.insert(name, found);
        }
        Ok(pinned)
    }

    /// The architectures of images in the registry.
    pub(super) async fn platforms(
        &self,
        pinned: &Pinned,
        access: &Options,
    ) -> Result<Vec<ImageArchitectures>, Failure> {
        let mut images = Vec::new();
        for image in pinned.values() {
            let platforms = image_platforms(image, access).await.map_err(|error| failure(&error))?;
            images.push(ImageArchitectures::of_registry(image, &platforms));
        }
        Ok(images)
    }

    /// How images for other nodes get into the registry.
    pub(super) fn push_hint(&self) -> String {
        let binaries = product::binary_flags();
        format!("push images for the nodes with `olm self image --push {}` and {binaries}", self.0)
    }

    /// Makes an installation use the images: its own pods, and the operators of the shipped catalog.
    pub(super) fn use_in(&self, options: &mut ManifestOptions, mut pinned: Pinned) {
        if let Some(own) = pinned.remove(&ManifestOptions::default().image) {
            options.console_image = options.console_image.is_some().then(|| own.clone());
            options.image = own;
        }
        options.shipped_images = pinned;
        options.registry = Some(self.0.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_keep_name_and_tag_behind_the_prefix() {
        let image = |text: &str| Registry::parse(text).unwrap().image("localhost/olm/etcd-operator:0.11.0");
        assert_eq!(image("registry.example"), "registry.example/etcd-operator:0.11.0");
        assert_eq!(
            image("registry.example:5000/team/a/"),
            "registry.example:5000/team/a/etcd-operator:0.11.0"
        );
        assert_eq!(image("localhost:5000"), "localhost:5000/etcd-operator:0.11.0");
        assert_eq!(image("[::1]:5000"), "[::1]:5000/etcd-operator:0.11.0");
    }

    #[test]
    fn an_installation_uses_all_images_by_digest() {
        let registry = Registry::parse("registry.example/team").unwrap();
        let pinned: Pinned = product::images()
            .into_iter()
            .flat_map(|image| image.names)
            .map(|name| (name.clone(), format!("{}@sha256:00", registry.image(&name))))
            .collect();
        let mut options = ManifestOptions { console_image: None, ..ManifestOptions::default() };
        registry.use_in(&mut options, pinned.clone());
        assert!(options.image.starts_with("registry.example/team/olm:"), "{}", options.image);
        assert_eq!(options.console_image, None);
        assert_eq!(options.registry.as_deref(), Some("registry.example/team"));
        assert_eq!(options.shipped_images.len(), pinned.len() - 1);
        assert!(options.shipped_images.values().all(|image| image.contains("-operator:")));
    }

    #[test]
    fn what_is_no_registry_is_refused() {
        let message = |text: &str| Registry::parse(text).unwrap_err();
        assert_eq!(message("https://r.example/x").hints, ["use r.example/x"]);
        assert_eq!(message("someone").hints, ["for a user of Docker Hub, use docker.io/someone"]);
        for text in ["", "/", "r.example/a:tag", "user@r.example", "r.example/a b"] {
            assert_eq!(message(text).code, Code::Usage, "{text}");
        }
    }
}
