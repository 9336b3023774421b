//! Packages that the manager has and another process reads.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use olm_catalog::{BundleEntry, Catalog, Icon, Package};
use olm_catalog_sources::FoundSignatures;
use serde::{Deserialize, Serialize};

use super::{
    BundleImageError, ReadError,
    fetch::{FetchError, Server},
};

/// Number of cached packages: a caller reads one package repeatedly, its dependencies, and few others.
const MOST_PACKAGES: usize = 16;

/// Why the manager does not return a bundle or signatures.
#[derive(Debug, Serialize, Deserialize)]
pub struct NoBundle {
    pub code: String,
    pub message: String,
}

/// The packages of one content that were read last, newest at the end.
pub(super) type Recent = Arc<Mutex<Vec<Arc<Package>>>>;

/// The packages of one content of one catalog, read with the credentials of one user.
pub struct Remote {
    server: Server,
    /// The URL up to `/api/v1`.
    base: String,
    recent: Recent,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Remote {
    pub(super) fn new(server: Server, base: String, recent: Recent) -> Self {
        Self { server, base, recent }
    }

    /// A package that the catalog's index names.
    pub(super) async fn package(
        &self,
        index: &Catalog,
        name: &str,
    ) -> Result<Option<Arc<Package>>, FetchError> {
        if index.summary(name).is_none() {
            return Ok(None);
        }
        if let Some(package) = self.recent().iter().find(|package| package.name == name) {
            return Ok(Some(Arc::clone(package)));
        }
        let path = format!("{}/packages/{name}", self.base);
        let (status, _, body) = self.server.get(&path, None).await?;
        // The catalog was removed after its index was read.
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.server.expect_ok(&path, status, &body)?;
        let found = Catalog::from_bytes(&index.origin, &body)
            .package(name)
            .map_err(|error| self.server.malformed(&path, &error))?;
        if let Some(package) = &found {
            let mut recent = self.recent();
            recent.push(Arc::clone(package));
            if recent.len() > MOST_PACKAGES {
                recent.remove(0);
            }
        }
        Ok(found)
    }

    /// The icon of a package, without the package.
    pub(super) async fn icon(&self, package: &str) -> Result<Option<Icon>, FetchError> {
        let path = format!("{}/icons/{}", self.base, segment(package));
        let (status, _, data) = self.server.get(&path, None).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.server.expect_ok(&path, status, &data)?;
        Ok(Icon::of(data))
    }

    /// The document of a bundle that is an image; the manager has the rights to pull it.
    pub(super) async fn document(&self, entry: &BundleEntry, image: &str) -> Result<Arc<[u8]>, ReadError> {
        let path = format!("{}/bundles/{}/{}", self.base, segment(&entry.package), segment(&entry.name));
        let (status, _, body) = self.server.get(&path, None).await?;
        if let Some(no) = refusal(status, &body) {
            return Err(BundleImageError::reported(image, &no.code, &no.message).into());
        }
        self.server.expect_ok(&path, status, &body)?;
        Ok(body.into())
    }

    /// The signatures of an image of a bundle or of the catalog.
    pub(super) async fn signatures(
        &self,
        entry: &BundleEntry,
        image: &str,
    ) -> Result<FoundSignatures, String> {
        let names = [&entry.package, &entry.name].map(|name| segment(name));
        let path = format!("{}/signatures/{}/{}?image={}", self.base, names[0], names[1], segment(image));
        let (status, _, body) = self.server.get(&path, None).await.map_err(|error| error.to_string())?;
        if let Some(no) = refusal(status, &body) {
            return Err(no.message);
        }
        self.server.expect_ok(&path, status, &body).map_err(|error| error.to_string())?;
        serde_json::from_slice(&body).map_err(|error| self.server.malformed(&path, &error).to_string())
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Package>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The manager's failure to read from a registry.
fn refusal(status: StatusCode, body: &[u8]) -> Option<NoBundle> {
    (status == StatusCode::BAD_GATEWAY).then(|| serde_json::from_slice(body).ok()).flatten()
}

/// A name from a catalog as one path segment. Catalogs are untrusted, and a name must not change the path:
/// the request carries the user's identity.
fn segment(name: &str) -> String {
    let plain = |b: u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_') || b == b'.' && !matches!(name, "." | "..")
    };
    let mut out = String::with_capacity(name.len());
    for b in name.bytes() {
        if plain(b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(segment("etcdoperator.v0.10.1"), "etcdoperator.v0.10.1");
        assert_eq!(segment("../../api?x#y"), "..%2F..%2Fapi%3Fx%23y");
        assert_eq!(segment(".."), "%2E%2E");
        assert_eq!(segment("ä"), "%C3%A4");
    }
}
