//! Signatures of the images of a catalog and its bundles, downloaded with the credentials of the
//! CatalogSource and cached. Callers verify them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use olm_catalog_sources::{FoundSignatures, Source};
use serde_json::Value;
use tokio::time::Instant;

use super::{Access, CatalogRef};

const DEADLINE: Duration = Duration::from_secs(15);
/// How long signatures are cached. A verified signature of a digest stays valid.
const TTL: Duration = Duration::from_secs(10 * 60);
/// How long the absence of signatures, or a failure, is cached: signatures may be pushed after the image.
const TTL_WITHOUT: Duration = Duration::from_secs(30);
/// Maximum number of cached images, and of bytes of their signatures.
const MOST_IMAGES: usize = 256;
const MOST_BYTES: u64 = 2 << 20;

/// Signatures by image. Each CatalogSource has its own entries: its credentials are not those of others.
#[derive(Default)]
pub struct SignatureCache(Mutex<HashMap<(CatalogRef, String), Cached>>);

#[derive(Clone)]
struct Cached {
    until: Instant,
    answer: Result<FoundSignatures, String>,
}

impl Cached {
    fn new(answer: Result<FoundSignatures, String>) -> Self {
        let complete =
            answer.as_ref().is_ok_and(|found| !found.signatures.is_empty() && found.problems.is_empty());
        Self { until: Instant::now() + if complete { TTL } else { TTL_WITHOUT }, answer }
    }

    fn has_signatures(&self) -> bool {
        self.answer.as_ref().is_ok_and(|found| !found.signatures.is_empty())
    }

    fn bytes(&self) -> u64 {
        self.answer.as_ref().map_or(0, |found| found.bytes)
    }
}

impl std::fmt::Debug for SignatureCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignatureCache").finish_non_exhaustive()
    }
}

impl SignatureCache {
    /// The signatures of an image named by digest. While the registry fails, cached signatures stay in use.
    ///
    /// # Errors
    /// Why the download failed.
    pub async fn find(
        &self,
        catalog: &CatalogRef,
        image: &str,
        access: &Access,
    ) -> Result<FoundSignatures, String> {
        let key = (catalog.clone(), image.to_owned());
        let cached = self.entries().get(&key).cloned();
        if let Some(cached) = cached.as_ref().filter(|cached| cached.until > Instant::now()) {
            return cached.answer.clone();
        }
        let answer = tokio::time::timeout(DEADLINE, look_up(image, access))
            .await
            .unwrap_or_else(|_| Err(format!("the registry did not respond within {} s", DEADLINE.as_secs())));
        let answer = match (answer, cached.filter(Cached::has_signatures)) {
            (Err(_), Some(cached)) => cached.answer,
            (answer, _) => answer,
        };
        self.insert(key, Cached::new(answer.clone()));
        answer
    }

    fn insert(&self, key: (CatalogRef, String), entry: Cached) {
        let mut entries = self.entries();
        entries.remove(&key);
        let bytes = entries.values().map(Cached::bytes).sum::<u64>() + entry.bytes();
        if entries.len() >= MOST_IMAGES || bytes > MOST_BYTES {
            entries.clear();
        }
        entries.insert(key, entry);
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<(CatalogRef, String), Cached>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look_up(image: &str, access: &Access) -> Result<FoundSignatures, String> {
    let granted = access.options().await?;
    let source = Source::Image { reference: image.to_owned() };
    let found = olm_catalog_sources::signatures(&source, &granted.options).await;
    found.map_err(|error| granted.explain(&error))
}

/// Whether a manifest names an image, in a container or in a volume. The manager looks up the images of its
/// catalogs' bundles only.
pub fn names_image(manifest: &Value, image: &str) -> bool {
    match manifest {
        Value::Object(fields) => fields.iter().any(|(field, value)| {
            (matches!(field.as_str(), "image" | "reference") && value == image) || names_image(value, image)
        }),
        Value::Array(items) => items.iter().any(|item| names_image(item, image)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use olm_signatures::Signature;
    use serde_json::json;

    use olm_testing::{Mood, Registry};

    use super::*;
    use crate::catalogs::access::tests::access;

    fn catalog() -> CatalogRef {
        CatalogRef::new("olm", "cat")
    }

    #[test]
    fn signatures_survive_the_way_to_another_process() {
        let annotations = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let signatures = vec![
            Signature::Simple { payload: vec![0xff, 0], annotations },
            Signature::Bundle { json: b"{}".to_vec() },
        ];
        let problems = vec!["p".to_owned()];
        let found = FoundSignatures { signatures, problems, bytes: 4, ..FoundSignatures::default() };
        let json = serde_json::to_vec(&found).unwrap();
        assert_eq!(serde_json::from_slice::<FoundSignatures>(&json).unwrap(), found);
    }

    #[tokio::test]
    async fn t22_the_cache_is_bounded() {
        let cache = SignatureCache::default();
        let found = |bytes| Cached::new(Ok(FoundSignatures { bytes, ..FoundSignatures::default() }));
        for n in 0..2 * MOST_IMAGES {
            cache.insert((catalog(), n.to_string()), found(10));
            assert!(cache.entries().len() <= MOST_IMAGES);
        }
        for size in [MOST_BYTES / 2, MOST_BYTES, MOST_BYTES] {
            cache.insert((catalog(), size.to_string()), found(size));
            assert!(cache.entries().values().map(Cached::bytes).sum::<u64>() <= MOST_BYTES, "{size}");
        }
    }

    #[tokio::test]
    async fn t22_a_registry_is_asked_again_later_and_does_not_take_away_what_it_gave() {
        let registry = Registry::start().await;
        let key = rcgen::KeyPair::generate().unwrap();
        let reference = registry.push_catalog(&olm_testing::catalog("a", "1.0.0"));
        let (cache, access) = (SignatureCache::default(), access(&registry, "olm"));
        // given an image without signatures
        assert!(cache.find(&catalog(), &reference, &access).await.unwrap().signatures.is_empty());
        registry.sign_catalog(&key);
        // when they are read again at once, then the registry gets no request
        let asked = registry.asked("cat/");
        assert!(cache.find(&catalog(), &reference, &access).await.unwrap().signatures.is_empty());
        assert_eq!(registry.asked("cat/"), asked);
        // when they are read later, then they are found
        let outdated = || cache.entries().values_mut().for_each(|cached| cached.until = Instant::now());
        outdated();
        assert_eq!(cache.find(&catalog(), &reference, &access).await.unwrap().signatures.len(), 1);
        // when the registry refuses, then the cached ones are used
        registry.mood(Mood::Denies);
        outdated();
        assert_eq!(cache.find(&catalog(), &reference, &access).await.unwrap().signatures.len(), 1);
        // and another catalog does not get them
        let other = CatalogRef::new("team", "cat");
        assert!(cache.find(&other, &reference, &access).await.is_err());
    }

    #[test]
    fn t22_only_images_that_a_bundle_names_are_looked_up() {
        let csv = json!({ "spec": { "install": { "spec": { "deployments": [{ "spec": { "template": { "spec": {
            "containers": [{ "image": "a@sha256:1", "args": ["b"] }],
            "volumes": [{ "image": { "reference": "v@sha256:2" } }] } } } }] } }, "x": { "imagePolicy": "c" } } });
        assert!(names_image(&csv, "a@sha256:1") && names_image(&csv, "v@sha256:2"));
        for other in ["b", "c", "a", ""] {
            assert!(!names_image(&csv, other), "{other}");
        }
    }
}
