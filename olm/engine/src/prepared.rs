//! Packages as the resolver sees them, cached by the digest of their catalog: preparing one takes longer than
//! resolving it.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use olm_plan::prepare;
use olm_resolver::Package;

use crate::{catalogs::LoadedCatalog, refusal::Refusal, request::read};

/// Maximum number of cached bundles over all packages: a few kilobytes each.
const MOST_BUNDLES: usize = 2_000;

/// Digest of the catalog, and name of the package.
type Key = (String, String);

#[derive(Default)]
struct PackageCache {
    packages: HashMap<Key, (Arc<Package>, u64)>,
    /// The oldest first.
    order: VecDeque<Key>,
    bundles: usize,
}

static CACHE: LazyLock<Mutex<PackageCache>> = LazyLock::new(Mutex::default);

impl PackageCache {
    fn insert(&mut self, key: Key, package: Arc<Package>) {
        self.bundles += package.bundles().len();
        let print = print(&package);
        if self.packages.insert(key.clone(), (package, print)).is_none() {
            self.order.push_back(key);
        }
        while self.bundles > MOST_BUNDLES && self.order.len() > 1 {
            let Some((oldest, _)) = self.order.pop_front().and_then(|key| self.packages.remove(&key)) else {
                break;
            };
            self.bundles -= oldest.bundles().len();
        }
    }
}

/// A hash of the content of a package without its origin: equal in all catalogs.
fn print(package: &Package) -> u64 {
    let mut hasher = DefaultHasher::new();
    let whole = (&package.name, &package.default_channel, &package.deprecated);
    (whole, format!("{:?}{:?}", package.channels(), package.bundles())).hash(&mut hasher);
    hasher.finish()
}

/// The hash of a package that was recently [`prepared`]; `None` where it is no longer cached.
pub(super) fn edition(catalog: &LoadedCatalog, name: &str) -> Option<u64> {
    let key = (catalog.catalog.digest.clone(), name.to_owned());
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).packages.get(&key).map(|(_, print)| *print)
}

/// A package of a catalog as the resolver sees it; `None` when the catalog has none of that name.
pub async fn prepared(catalog: &LoadedCatalog, name: &str) -> Result<Option<Arc<Package>>, Refusal> {
    let key = (catalog.catalog.digest.clone(), name.to_owned());
    if let Some((package, _)) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).packages.get(&key) {
        return Ok(Some(package.clone()));
    }
    let Some(package) = read(catalog, name).await? else { return Ok(None) };
    let package = Arc::new(prepare(&package));
    let mut all = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    // A concurrent call may have added it.
    if !all.packages.contains_key(&key) {
        all.insert(key, package.clone());
    }
    Ok(Some(package))
}

#[cfg(test)]
mod tests {
    use olm_resolver::Bundle;

    use super::*;

    #[test]
    fn the_oldest_packages_go_first_and_the_newest_stays() {
        let package = |bundles: usize| {
            let bundle = |at| Bundle { name: format!("b{at}"), ..Bundle::default() };
            Arc::new(Package::new("p", "c", None, Vec::new(), (0..bundles).map(bundle).collect()))
        };
        let key = |name: &str| ("sha256:0".to_owned(), name.to_owned());
        let mut kept = PackageCache::default();
        kept.insert(key("a"), package(MOST_BUNDLES / 2));
        kept.insert(key("b"), package(MOST_BUNDLES / 2));
        kept.insert(key("c"), package(10));
        assert_eq!(kept.order, [key("b"), key("c")]);
        assert_eq!(kept.bundles, MOST_BUNDLES / 2 + 10);
        kept.insert(key("d"), package(2 * MOST_BUNDLES));
        assert_eq!(kept.order, [key("d")]);
    }
}
