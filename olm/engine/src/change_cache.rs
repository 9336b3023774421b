//! Recently computed changes, kept until they are applied: computing one takes about thirty reads.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{Basis, Change};

/// How long a change stays valid. Other inputs (rights, quotas, objects of the same names) are not in its
/// basis, and may change in that time between any read and any write.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// Maximum number of cached changes, as many as controllers run concurrently: each holds its bundle.
const MOST: usize = 8;

/// Changes by the digests of their plans.
#[derive(Default)]
pub struct ChangeCache(Mutex<VecDeque<CachedChange>>);

struct CachedChange {
    namespace: String,
    digest: String,
    basis: Basis,
    change: Arc<Change>,
    at: Instant,
}

impl ChangeCache {
    pub fn insert(&self, basis: Basis, change: Arc<Change>) {
        let (namespace, digest) = (change.plan.namespace.clone(), change.plan.digest.clone());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| kept.at.elapsed() < GOOD_FOR);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(CachedChange { namespace, digest, basis, change, at: Instant::now() });
    }

    /// Removes and returns the change of a digest, if it was computed recently and on the same basis.
    pub fn take(&self, namespace: &str, digest: &str, basis: Basis) -> Option<Arc<Change>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|kept| kept.namespace == namespace && kept.digest == digest)?;
        let kept = all.remove(at)?;
        (kept.basis == basis && kept.at.elapsed() < GOOD_FOR).then_some(kept.change)
    }
}
