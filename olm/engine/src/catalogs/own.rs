//! Sources of the packages and bundles of the manager's own catalogs.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use olm_catalog::BundleEntry;
use olm_catalog_sources::FoundSignatures;
use tokio::sync::watch;

use super::{
    Access, BundleImageError, BundleImages, CatalogRef, Key, SignatureCache, bundles::BundleRequest,
};

/// The sources of one of the manager's own catalogs.
#[derive(Debug)]
pub struct Own {
    pub catalog: CatalogRef,
    pub images: Arc<BundleImages>,
    pub signatures: Arc<SignatureCache>,
    pub access: Access,
    pub refresh: Arc<Refresh>,
}

impl Own {
    /// Its content on disk is damaged, so it is read again from the source.
    pub(super) fn damaged(&self) {
        self.refresh.request(&self.catalog);
    }

    pub(super) async fn document(
        &self,
        entry: &BundleEntry,
        image: &str,
    ) -> Result<Arc<[u8]>, BundleImageError> {
        let request = BundleRequest {
            catalog: self.catalog.clone(),
            package: entry.package.clone(),
            bundle: entry.name.clone(),
            image: image.to_owned(),
        };
        self.images.document(&request, &self.access).await
    }

    pub(super) async fn signatures(&self, image: &str) -> Result<FoundSignatures, String> {
        self.signatures.find(&self.catalog, image, &self.access).await
    }
}

/// CatalogSources to read out of turn.
#[derive(Debug, Default)]
pub struct Refresh {
    damaged: Mutex<BTreeSet<Key>>,
    wake: watch::Sender<u64>,
}

impl Refresh {
    /// Requests that the content of a catalog is read again, whether its source has changed or not.
    fn request(&self, catalog: &CatalogRef) {
        let key = (catalog.namespace.clone(), catalog.name.clone());
        if self.damaged.lock().unwrap_or_else(PoisonError::into_inner).insert(key) {
            tracing::warn!(%catalog, "cached content is corrupt; fetching it again");
            self.wake();
        }
    }

    /// Whether a read was requested; clears the request.
    pub fn take(&self, key: &Key) -> bool {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    /// Wakes the controller for all CatalogSources.
    pub fn wake(&self) {
        self.wake.send_modify(|n| *n += 1);
    }

    /// Notifies when CatalogSources are to be read.
    pub fn wakes(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }
}
