//! Changes that were worked out a moment ago, for whoever carries them out: to work one out is some thirty reads.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{Basis, Change};

/// How long a change is good for. What else is on the cluster (rights, quotas, objects of the same names) is not in its basis, and may
/// change like this between any look and any write.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// How many are kept: a change has its bundle with it. As many as controllers work on at a time.
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
    pub fn put(&self, basis: Basis, change: Arc<Change>) {
        let (namespace, digest) = (change.plan.namespace.clone(), change.plan.digest.clone());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| kept.at.elapsed() < GOOD_FOR);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(CachedChange { namespace, digest, basis, change, at: Instant::now() });
    }

    /// The change of that digest, where it was worked out on the same basis, and just now. It is for one.
    pub fn take(&self, namespace: &str, digest: &str, basis: Basis) -> Option<Arc<Change>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|kept| kept.namespace == namespace && kept.digest == digest)?;
        let kept = all.remove(at)?;
        (kept.basis == basis && kept.at.elapsed() < GOOD_FOR).then_some(kept.change)
    }
}
