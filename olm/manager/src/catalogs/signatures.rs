//! Signatures of the images of a catalog and its bundles: read from registries with the credentials of the CatalogSource, kept for a
//! while, and handed on to those who have no such credentials. They are verified by those who need them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::ByteString;
use olm_catalog_sources::Source;
use olm_signatures::Signature;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use super::{Access, CatalogRef};

/// Images that are looked up at a time.
const LOOKUPS: usize = 4;
/// How long the lookup of one image may take.
const DEADLINE: Duration = Duration::from_secs(15);
/// How long signatures of an image are taken for all that there are. An image that is named by digest does not change, and who is
/// satisfied by its signatures stays satisfied.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// The same where there are none, or where they could not be read: they may be about to be pushed.
const KEPT_WITHOUT: Duration = Duration::from_secs(30);
/// Images that are kept, and bytes of their signatures. Real signatures have 1 to 10 KiB.
const MOST_IMAGES: usize = 256;
const MOST_BYTES: usize = 2 << 20;

/// What a registry has of signatures of an image. Nothing of it was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageSignatures {
    simple: Vec<Simple>,
    bundles: Vec<ByteString>,
    /// What could not be read. An image that is not signed without it may be signed with it.
    pub(crate) problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Simple {
    payload: ByteString,
    annotations: BTreeMap<String, String>,
}

impl ImageSignatures {
    fn new(signatures: Vec<Signature>, problems: Vec<String>) -> Self {
        let mut out = Self { problems, ..Self::default() };
        for signature in signatures {
            match signature {
                Signature::Simple { payload, annotations } => {
                    out.simple.push(Simple { payload: ByteString(payload), annotations });
                }
                Signature::Bundle { json } => out.bundles.push(ByteString(json)),
            }
        }
        out
    }

    /// Those to verify.
    pub(crate) fn signatures(&self) -> Vec<Signature> {
        let simple = self.simple.iter().cloned();
        let simple = simple
            .map(|Simple { payload, annotations }| Signature::Simple { payload: payload.0, annotations });
        simple.chain(self.bundles.iter().map(|json| Signature::Bundle { json: json.0.clone() })).collect()
    }

    fn is_empty(&self) -> bool {
        self.simple.is_empty() && self.bundles.is_empty()
    }

    fn bytes(&self) -> usize {
        let annotations = |simple: &Simple| {
            simple.annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        };
        let simple = self.simple.iter().map(|simple| simple.payload.0.len() + annotations(simple));
        simple.chain(self.bundles.iter().map(|json| json.0.len())).sum()
    }
}

/// Signatures that were read.
pub(crate) struct SignatureCache {
    slots: Semaphore,
    kept: Mutex<HashMap<(CatalogRef, String), Kept>>,
}

#[derive(Clone)]
struct Kept {
    until: Instant,
    answer: Result<ImageSignatures, String>,
}

impl Kept {
    fn has_signatures(&self) -> bool {
        self.answer.as_ref().is_ok_and(|found| !found.is_empty())
    }

    fn bytes(&self) -> usize {
        self.answer.as_ref().map_or_else(String::len, ImageSignatures::bytes)
    }
}

impl Default for SignatureCache {
    fn default() -> Self {
        Self { slots: Semaphore::new(LOOKUPS), kept: Mutex::default() }
    }
}

impl std::fmt::Debug for SignatureCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignatureCache").finish_non_exhaustive()
    }
}

impl SignatureCache {
    /// The signatures of an image that is named by digest. A registry that is away does not take away those that were found.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub(crate) async fn find(
        &self,
        catalog: &CatalogRef,
        image: &str,
        access: &Access,
    ) -> Result<ImageSignatures, String> {
        let key = (catalog.clone(), image.to_owned());
        let kept = self.kept().get(&key).cloned();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.until > Instant::now()) {
            return kept.answer.clone();
        }
        let looked_up = async {
            // Never closed.
            let _slot = self.slots.acquire().await.map_err(|error| error.to_string())?;
            look_up(image, access).await
        };
        let answer = tokio::time::timeout(DEADLINE, looked_up)
            .await
            .unwrap_or_else(|_| Err(format!("the registry did not answer within {} s", DEADLINE.as_secs())));
        let answer = match (answer, kept.filter(Kept::has_signatures)) {
            (Err(_), Some(kept)) => kept.answer,
            (answer, _) => answer,
        };
        self.keep(key, answer.clone());
        answer
    }

    fn keep(&self, key: (CatalogRef, String), answer: Result<ImageSignatures, String>) {
        let now = Instant::now();
        let mut entry = Kept { until: now + KEPT_WITHOUT, answer };
        if entry.has_signatures() && entry.answer.as_ref().is_ok_and(|found| found.problems.is_empty()) {
            entry.until = now + KEPT;
        }
        let mut kept = self.kept();
        kept.remove(&key);
        let bytes = kept.values().map(Kept::bytes).sum::<usize>() + entry.bytes();
        if kept.len() >= MOST_IMAGES || bytes > MOST_BYTES {
            kept.clear();
        }
        if entry.bytes() <= MOST_BYTES {
            kept.insert(key, entry);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<(CatalogRef, String), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn look_up(image: &str, access: &Access) -> Result<ImageSignatures, String> {
    let granted = access.options().await?;
    let source = Source::Image { reference: image.to_owned() };
    let found = olm_catalog_sources::signatures(&source, &granted.options).await;
    let found = found.map_err(|error| granted.explain(&error.to_string()))?;
    Ok(ImageSignatures::new(found.signatures, found.problems))
}

/// Whether manifests name an image in a field `image`: the manager looks up images of the catalog's bundles, and no others.
pub(crate) fn names_image(manifest: &Value, image: &str) -> bool {
    match manifest {
        Value::Object(fields) => fields
            .iter()
            .any(|(field, value)| (field == "image" && value == image) || names_image(value, image)),
        Value::Array(items) => items.iter().any(|item| names_image(item, image)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Mood, Registry};

    fn catalog() -> CatalogRef {
        CatalogRef::new("olm", "cat")
    }

    fn bundle(bytes: usize) -> Vec<Signature> {
        vec![Signature::Bundle { json: vec![0; bytes] }]
    }

    #[test]
    fn signatures_survive_the_way_to_another_process() {
        let annotations = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let both = vec![
            Signature::Simple { payload: vec![0xff, 0], annotations },
            Signature::Bundle { json: b"{}".to_vec() },
        ];
        let found = ImageSignatures::new(both.clone(), vec!["p".to_owned()]);
        let json = serde_json::to_vec(&found).unwrap();
        let back: ImageSignatures = serde_json::from_slice(&json).unwrap();
        assert_eq!(back, found);
        assert_eq!(back.signatures(), both);
    }

    #[test]
    fn t22_what_is_kept_is_bounded() {
        let cache = SignatureCache::default();
        for n in 0..2 * MOST_IMAGES {
            cache.keep((catalog(), n.to_string()), Ok(ImageSignatures::new(bundle(10), Vec::new())));
            assert!(cache.kept().len() <= MOST_IMAGES);
        }
        for size in [MOST_BYTES / 2, MOST_BYTES, 2 * MOST_BYTES] {
            cache.keep((catalog(), size.to_string()), Ok(ImageSignatures::new(bundle(size), Vec::new())));
            assert!(cache.kept().values().map(Kept::bytes).sum::<usize>() <= MOST_BYTES, "{size}");
        }
    }

    #[tokio::test]
    async fn t22_a_registry_is_asked_again_later_and_does_not_take_away_what_it_gave() {
        let registry = Registry::start().await;
        let key = rcgen::KeyPair::generate().unwrap();
        let reference = registry.push_catalog(&crate::testing::catalog("a", "1.0.0"));
        let (cache, access) = (SignatureCache::default(), registry.access("olm"));
        // given an image without signatures
        assert!(cache.find(&catalog(), &reference, &access).await.unwrap().is_empty());
        registry.sign_catalog(&key);
        // when it is asked for at once, then the registry is not asked
        let asked = registry.asked("cat/");
        assert!(cache.find(&catalog(), &reference, &access).await.unwrap().is_empty());
        assert_eq!(registry.asked("cat/"), asked);
        // when it is asked for later, then they are found
        let outdated = || cache.kept().values_mut().for_each(|kept| kept.until = Instant::now());
        outdated();
        assert_eq!(cache.find(&catalog(), &reference, &access).await.unwrap().signatures().len(), 1);
        // when the registry refuses, then they are still known
        registry.mood(Mood::Denies);
        outdated();
        assert_eq!(cache.find(&catalog(), &reference, &access).await.unwrap().signatures().len(), 1);
        // and for another catalog they are not
        let other = CatalogRef::new("team", "cat");
        assert!(cache.find(&other, &reference, &access).await.is_err());
    }

    #[test]
    fn t22_only_images_that_a_bundle_names_are_looked_up() {
        let csv = json!({ "spec": { "install": { "spec": { "deployments": [{ "spec": { "template": { "spec": {
            "containers": [{ "image": "a@sha256:1", "args": ["b"] }] } } } }] } }, "x": { "imagePolicy": "c" } } });
        assert!(names_image(&csv, "a@sha256:1"));
        for other in ["b", "c", "a", ""] {
            assert!(!names_image(&csv, other), "{other}");
        }
    }
}
