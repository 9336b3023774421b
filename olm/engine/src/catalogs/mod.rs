//! Catalogs in memory: loading, order of preference, and reading them from other processes.

mod access;
mod bundles;
mod cache_dir;
mod document;
mod fetch;
mod loaded;
mod own;
mod registries;
mod remote;
mod signatures;
mod visibility;

use std::sync::Arc;

use olm_bundle::Bundle;
use olm_catalog::{BundleEntry, Catalog, ContentError, Icon, Package};
use olm_catalog_sources::FoundSignatures;
use serde::{Deserialize, Serialize};

pub use access::Access;
pub use bundles::BundleImageError;
pub use bundles::BundleImages;
pub use cache_dir::CacheDirError;
pub use cache_dir::{CacheDir, Record, store_key};
pub use fetch::{FetchError, Fetcher};
pub use loaded::{CatalogState, LoadedCatalogs, Problem};
pub use olm_catalog::hex;
pub use olm_catalog_sources::{Source, has_user};
pub use olm_resolver::CatalogRef;
pub use own::{Own, Refresh};
pub use registries::Registries;
pub use remote::NoBundle;
use remote::Remote;
pub use signatures::{SignatureCache, names_image};
pub use visibility::CatalogVisibility;

/// Namespace and name of a CatalogSource.
pub type Key = (String, String);

/// A catalog with the settings of its CatalogSource.
#[derive(Debug, Clone)]
pub struct LoadedCatalog {
    pub reference: CatalogRef,
    pub display_name: String,
    pub publisher: String,
    /// Higher is preferred where several catalogs could provide a dependency.
    pub priority: i32,
    /// The index, for lists and searches. [`Self::package`] reads a package.
    pub catalog: Arc<Catalog>,
    /// The image that the catalog was read from.
    pub image: Option<CatalogImage>,
    /// Where its packages and bundles are read.
    pub backend: Backend,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogImage {
    /// The image, by digest.
    pub reference: String,
    /// The signer, where `spec.signedBy` of the CatalogSource requires a signature.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signer: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Backend {
    /// From the catalog itself; bundles that are images are unavailable.
    Local,
    /// The manager's own: packages from its store, bundles that are images from their registries.
    Own(Arc<Own>),
    /// From the manager, by another process.
    Remote(Arc<Remote>),
}

/// A package or a bundle is unreadable.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// From this process's own store.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// From the manager.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// From the bundle's image.
    #[error(transparent)]
    Image(#[from] BundleImageError),
    /// The bundle is invalid.
    #[error("{0}")]
    Bundle(String),
}

impl LoadedCatalog {
    /// A catalog of this process, without a source for bundles that are images.
    #[must_use]
    pub fn new(reference: CatalogRef, catalog: Arc<Catalog>) -> Self {
        let display_name = reference.name.clone();
        Self {
            reference,
            display_name,
            publisher: String::new(),
            priority: 0,
            catalog,
            image: None,
            backend: Backend::Local,
        }
    }

    /// A package of the catalog; `None` when it has none of that name.
    ///
    /// # Errors
    /// [`ReadError`]
    pub async fn package(&self, name: &str) -> Result<Option<Arc<Package>>, ReadError> {
        match &self.backend {
            Backend::Remote(remote) => Ok(remote.package(&self.catalog, name).await?),
            Backend::Local => Ok(self.catalog.package(name)?),
            Backend::Own(own) => {
                let read = self.catalog.package(name);
                if read.is_err() {
                    own.damaged();
                }
                Ok(read?)
            }
        }
    }

    /// The bundle of an entry of one of its packages: from the manifests inside the catalog, or from the
    /// bundle's image.
    ///
    /// # Errors
    /// [`ReadError`]
    pub async fn bundle(&self, entry: &BundleEntry) -> Result<Bundle, ReadError> {
        if entry.is_inline() {
            return entry.bundle().map_err(|error| ReadError::Bundle(error.to_string()));
        }
        let document = self.document(entry).await?;
        document::bundle(&document).map_err(ReadError::Bundle)
    }

    /// The document of a bundle that is an image, with the manifests inside.
    pub async fn document(&self, entry: &BundleEntry) -> Result<Arc<[u8]>, ReadError> {
        let Some(image) = &entry.image else {
            return Err(ReadError::Bundle("it has neither inline manifests nor an image".into()));
        };
        match &self.backend {
            Backend::Remote(remote) => remote.document(entry, image).await,
            Backend::Own(own) => Ok(own.document(entry, image).await?),
            Backend::Local => Err(ReadError::Bundle(format!(
                "its manifests are in image {image}, which only a manager pulls, and this catalog is not \
                    served by a manager"
            ))),
        }
    }

    /// The signatures of an image that the catalog or one of its bundles names by digest.
    ///
    /// # Errors
    /// Why they are unreadable.
    pub async fn signatures(&self, entry: &BundleEntry, image: &str) -> Result<FoundSignatures, String> {
        match &self.backend {
            Backend::Remote(remote) => remote.signatures(entry, image).await,
            Backend::Own(own) => own.signatures(image).await,
            Backend::Local => {
                Err("signatures are read only by the manager, which does not serve this catalog".to_owned())
            }
        }
    }

    /// Whether an image is the catalog's, or one that the bundle names.
    ///
    /// # Errors
    /// [`ReadError`] when the bundle is unreadable.
    pub async fn names_image(&self, entry: &BundleEntry, image: &str) -> Result<bool, ReadError> {
        let of_catalog = self.image.as_ref().is_some_and(|own| own.reference == image);
        if of_catalog || entry.image.as_deref() == Some(image) {
            return Ok(true);
        }
        let bundle = self.bundle(entry).await?;
        Ok(names_image(&bundle.csv_raw, image)
            || bundle.objects.iter().any(|object| names_image(object, image)))
    }

    pub async fn icon(&self, package: &str) -> Result<Option<Icon>, ReadError> {
        match &self.backend {
            Backend::Remote(remote) => Ok(remote.icon(package).await?),
            Backend::Local | Backend::Own(_) => {
                Ok(self.package(package).await?.and_then(|package| package.icon.clone()))
            }
        }
    }
}

/// One line of the manager's `GET /catalogs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexEntry {
    pub namespace: String,
    pub name: String,
    pub display_name: String,
    pub publisher: String,
    /// Higher is preferred.
    pub priority: i32,
    /// Digest of the content that is being served.
    pub digest: String,
    /// The image that it was read from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<CatalogImage>,
    pub packages: usize,
    /// Number of problems found in the catalog.
    pub problems: usize,
    /// Why the content failed to refresh; empty when it is current.
    pub stale: String,
}

impl IndexEntry {
    #[must_use]
    pub fn reference(&self) -> CatalogRef {
        CatalogRef { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// Best first: by priority, then by namespace and name, so that the order is deterministic.
fn sort(catalogs: &mut [LoadedCatalog]) {
    catalogs.sort_by(|a, b| {
        let key = |c: &LoadedCatalog| (c.reference.namespace.clone(), c.reference.name.clone());
        b.priority.cmp(&a.priority).then_with(|| key(a).cmp(&key(b)))
    });
}
