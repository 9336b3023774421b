//! Work queues: each key is handled by one worker at a time, and once more if it was added meanwhile.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Display,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::error::Error;

const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(30);

pub(crate) struct Queue<T> {
    name: &'static str,
    state: Mutex<State<T>>,
    wake: Notify,
}

struct State<T> {
    waiting: VecDeque<T>,
    queued: HashSet<T>,
    running: HashSet<T>,
    /// Added while running: queued again when that run ends.
    again: HashSet<T>,
    later: HashMap<T, Instant>,
    failures: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash + Display + Send + Sync + 'static> Queue<T> {
    pub(crate) fn new(name: &'static str) -> Arc<Self> {
        let state = State {
            waiting: VecDeque::new(),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            later: HashMap::new(),
            failures: HashMap::new(),
        };
        Arc::new(Self { name, state: Mutex::new(state), wake: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a key.
    pub(crate) fn add(&self, key: T) {
        let mut state = self.state();
        if state.running.contains(&key) {
            state.again.insert(key);
        } else if state.queued.insert(key.clone()) {
            state.waiting.push_back(key);
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Queues a key after a delay; an earlier due time wins.
    pub(crate) fn add_after(self: &Arc<Self>, key: T, delay: Duration) {
        let due = Instant::now() + delay;
        let mut state = self.state();
        if state.later.get(&key).is_some_and(|known| *known <= due) {
            return;
        }
        state.later.insert(key.clone(), due);
        drop(state);
        let queue = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let Some(queue) = queue.upgrade() else { return };
            let mut state = queue.state();
            // A later call with an earlier due time replaced it, or it was already queued.
            if state.later.get(&key) != Some(&due) {
                return;
            }
            state.later.remove(&key);
            drop(state);
            queue.add(key);
        });
    }

    fn next(&self) -> Option<T> {
        let mut state = self.state();
        let key = state.waiting.pop_front()?;
        state.queued.remove(&key);
        state.running.insert(key.clone());
        Some(key)
    }

    fn done(&self, key: &T) {
        let mut state = self.state();
        state.running.remove(key);
        let again = state.again.remove(key);
        drop(state);
        if again {
            self.add(key.clone());
        }
    }

    /// Handles keys until `shutdown`, `concurrency` at a time. A handler returns the delay after which it
    /// runs again without an event, or an error, which is retried.
    pub(crate) async fn work<F, Fut>(
        self: Arc<Self>,
        concurrency: usize,
        shutdown: CancellationToken,
        handle: F,
    ) where
        F: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Duration>, Error>> + Send,
    {
        let handle = Arc::new(handle);
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..concurrency {
            let (queue, handle, shutdown) = (self.clone(), handle.clone(), shutdown.clone());
            workers.spawn(async move {
                loop {
                    let Some(key) = queue.next() else {
                        tokio::select! {
                            () = queue.wake.notified() => continue,
                            () = shutdown.cancelled() => return,
                        }
                    };
                    // More keys may be queued, and one notification wakes one worker.
                    queue.wake.notify_one();
                    let result = tokio::select! {
                        result = handle(key.clone()) => result,
                        () = shutdown.cancelled() => return,
                    };
                    queue.finish(&key, result);
                }
            });
        }
        while workers.join_next().await.is_some() {}
    }

    fn finish(self: &Arc<Self>, key: &T, result: Result<Option<Duration>, Error>) {
        match result {
            Ok(after) => {
                self.state().failures.remove(key);
                if let Some(after) = after {
                    self.add_after(key.clone(), after);
                }
            }
            Err(error) => {
                let failures = {
                    let mut state = self.state();
                    let failures = state.failures.entry(key.clone()).or_default();
                    *failures += 1;
                    *failures
                };
                if error.is_conflict() {
                    tracing::debug!(controller = self.name, %key, %error, "requeued");
                } else {
                    tracing::warn!(controller = self.name, %key, %error, failures, "reconciliation failed, \
                     will retry");
                }
                let delay = FIRST_RETRY.saturating_mul(1 << failures.min(16).saturating_sub(1));
                self.add_after(key.clone(), delay.min(LAST_RETRY));
            }
        }
        self.done(key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_key_runs_once_at_a_time_and_again_when_added_meanwhile() {
        let queue = Queue::new("test");
        let (started, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runs = Arc::new(AtomicUsize::new(0));
        let shutdown = CancellationToken::new();
        let worker = {
            let (started, release, runs) = (started.clone(), release.clone(), runs.clone());
            tokio::spawn(queue.clone().work(4, shutdown.clone(), move |_: String| {
                let (started, release, runs) = (started.clone(), release.clone(), runs.clone());
                async move {
                    runs.fetch_add(1, Ordering::SeqCst);
                    started.notify_one();
                    release.notified().await;
                    Ok(None)
                }
            }))
        };
        queue.add("a".to_owned());
        started.notified().await;
        // Added three times while it runs: one further run.
        for _ in 0..3 {
            queue.add("a".to_owned());
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        release.notify_one();
        started.notified().await;
        release.notify_one();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        shutdown.cancel();
        worker.await.unwrap();
    }

    #[tokio::test]
    async fn failures_are_retried_with_a_growing_delay() {
        let queue = Queue::new("test");
        let times = Arc::new(Mutex::new(Vec::new()));
        let shutdown = CancellationToken::new();
        let begin = tokio::time::Instant::now();
        let worker = {
            let (times, shutdown) = (times.clone(), shutdown.clone());
            tokio::spawn(queue.clone().work(1, shutdown.clone(), move |_: String| {
                let (times, shutdown) = (times.clone(), shutdown.clone());
                async move {
                    let mut times = times.lock().unwrap();
                    times.push(begin.elapsed().as_millis());
                    if times.len() == 4 {
                        shutdown.cancel();
                    }
                    Err(Error::Invalid("no".to_owned()))
                }
            }))
        };
        queue.add("a".to_owned());
        worker.await.unwrap();
        let times = times.lock().unwrap().clone();
        assert_eq!(times.len(), 4);
        assert!(times[3] >= 35, "{times:?}");
    }
}
