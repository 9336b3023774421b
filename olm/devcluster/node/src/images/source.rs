//! The source of images. The node itself does not connect to registries.

use std::path::Path;

use async_trait::async_trait;

/// Registry credentials of a pod.
#[derive(Clone)]
pub struct PullSecret {
    /// For messages, such as `secret etcd/pull`.
    pub origin: String,
    /// A `.dockerconfigjson` or `.dockercfg`.
    pub document: Vec<u8>,
}

/// An image whose root file system has been unpacked.
#[derive(Debug, Clone)]
pub struct UnpackedImage {
    /// Digest of the manifest or the index, such as `sha256:…`.
    pub digest: String,
    /// The OCI image configuration, in JSON.
    pub config: Vec<u8>,
    /// Bytes of its files.
    pub bytes: u64,
}

/// A failed pull.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The reference is not a valid image reference.
    #[error("{0}")]
    Name(String),
    /// The image is not present, and the pull policy is `Never`.
    #[error("{0}")]
    Never(String),
    /// The node pulls no images.
    #[error("this node pulls no images")]
    NoSource,
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

/// Registries, and images that are made on this machine.
#[async_trait]
pub trait ImageSource: Send + Sync + 'static {
    /// The full form of a reference, such as `docker.io/library/nginx:latest` for `nginx`: images of the store
    /// have such names.
    fn full_name(&self, reference: &str) -> Result<String, PullError>;

    /// Whether the image with this full name is made on this machine, from files that may change at any time. Such
    /// an image counts as present; its digest is requested before each start of a container.
    fn is_local(&self, _full_name: &str) -> bool {
        false
    }

    /// Full names of local images. The node lists them also before their first use.
    fn local_images(&self) -> Vec<String> {
        Vec::new()
    }

    /// The digest that a reference has now.
    async fn digest(&self, reference: &str, secrets: &[PullSecret]) -> Result<String, PullError>;

    /// Unpacks the root file system of the image with this digest into `directory`, which does not exist yet.
    async fn unpack(
        &self,
        reference: &str,
        digest: &str,
        secrets: &[PullSecret],
        directory: &Path,
    ) -> Result<UnpackedImage, PullError>;
}
