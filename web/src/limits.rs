//! Limits per client or user, so that one of them does not affect the others.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::error::WebError;

/// Maximum number of buckets. Full buckets are evicted first.
const MAX: usize = 10_000;

/// Token buckets by key: a burst, then one token per interval.
pub(crate) struct RateLimits<K> {
    burst: f64,
    per_second: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// An attempt that was taken from a bucket.
pub(crate) struct Attempt<'a, K: Hash + Eq + Clone> {
    limits: &'a RateLimits<K>,
    key: K,
}

impl<K: Hash + Eq + Clone> RateLimits<K> {
    pub(crate) fn new(burst: u32, interval: Duration) -> Self {
        Self { burst: burst.into(), per_second: 1.0 / interval.as_secs_f64(), buckets: Mutex::default() }
    }

    /// Takes one attempt; `None` when the bucket of the key is empty.
    pub(crate) fn begin(&self, key: K) -> Option<Attempt<'_, K>> {
        self.take_at(&key, Instant::now()).then_some(Attempt { limits: self, key })
    }

    fn take_at(&self, key: &K, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(key) && buckets.len() >= MAX {
            buckets.retain(|_, bucket| bucket.refilled(now, self.per_second) < self.burst);
            if buckets.len() >= MAX {
                let fullest = buckets.iter().max_by(|(_, a), (_, b)| a.left.total_cmp(&b.left));
                if let Some(fullest) = fullest.map(|(key, _)| key.clone()) {
                    buckets.remove(&fullest);
                }
            }
        }
        let bucket = buckets.entry(key.clone()).or_insert(Bucket { left: self.burst, at: now });
        bucket.left = bucket.refilled(now, self.per_second).min(self.burst);
        bucket.at = now;
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

impl Bucket {
    fn refilled(&self, now: Instant, per_second: f64) -> f64 {
        self.left + now.saturating_duration_since(self.at).as_secs_f64() * per_second
    }
}

impl<K: Hash + Eq + Clone> Attempt<'_, K> {
    /// Returns a successful attempt to the bucket: only failures count.
    pub(crate) fn forgive(self) {
        let mut buckets = self.limits.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(&self.key) {
            bucket.left = (bucket.left + 1.0).min(self.limits.burst);
        }
    }
}

/// Maximum number of streams.
const MAX_STREAMS: usize = 512;
/// Maximum number of streams of one user.
const MAX_STREAMS_OF_USER: usize = 24;

/// Number of streams by user.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<String, usize>>>);

pub(crate) struct OpenStream {
    streams: Streams,
    user: String,
}

impl Streams {
    pub(crate) fn open(&self, user: &str) -> Result<OpenStream, WebError> {
        let mut by_user = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if by_user.get(user).copied().unwrap_or(0) >= MAX_STREAMS_OF_USER {
            return Err(WebError::too_many(format!(
                "limit of {MAX_STREAMS_OF_USER} live pages per user reached"
            ))
            .hint("close other live pages, or reload this page manually"));
        }
        if by_user.values().sum::<usize>() >= MAX_STREAMS {
            return Err(WebError::too_many("limit of live pages reached"));
        }
        *by_user.entry(user.to_owned()).or_default() += 1;
        Ok(OpenStream { streams: self.clone(), user: user.to_owned() })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut by_user = self.streams.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_user.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_lets_a_burst_through_and_then_one_per_interval() {
        let limits = RateLimits::new(2, Duration::from_secs(6));
        let now = Instant::now();
        assert!(limits.take_at(&"a", now) && limits.take_at(&"a", now));
        assert!(!limits.take_at(&"a", now));
        assert!(!limits.take_at(&"a", now + Duration::from_secs(5)));
        assert!(limits.take_at(&"a", now + Duration::from_secs(12)));
        // and another client has a separate bucket
        assert!(limits.take_at(&"b", now));
    }

    #[test]
    fn an_attempt_that_succeeds_does_not_count() {
        let limits = RateLimits::new(1, Duration::from_secs(1000));
        for _ in 0..10 {
            limits.begin("a").expect("nothing failed yet").forgive();
        }
        assert!(limits.begin("a").is_some() && limits.begin("a").is_none());
    }

    #[test]
    fn the_number_of_buckets_is_limited() {
        let limits = RateLimits::new(2, Duration::from_secs(1000));
        let now = Instant::now();
        assert!(limits.take_at(&0, now) && limits.take_at(&0, now));
        for key in 1..=MAX + 50 {
            limits.take_at(&key, now);
        }
        assert!(limits.buckets.lock().unwrap().len() <= MAX);
        assert!(
            !limits.take_at(&0, now),
            "the bucket of a client with failures is not the one that is dropped"
        );
    }
}
