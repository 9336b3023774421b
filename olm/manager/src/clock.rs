//! The clock of the lease. In tests it is simulated: minutes pass at once and deterministically.

use std::time::{Duration, Instant};

#[cfg(test)]
use std::sync::{Arc, Mutex, PoisonError};

/// The monotonic clock of the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    #[cfg(test)]
    simulated: Option<Arc<Simulated>>,
}

impl Clock {
    pub(crate) fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            return simulated.now();
        }
        Instant::now()
    }

    pub(crate) async fn sleep_until(&self, at: Instant) {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            return simulated.sleep_until(at).await;
        }
        tokio::time::sleep_until(at.into()).await;
    }

    /// The output of the future; `None` at the time limit.
    pub(crate) async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.sleep_until(self.now() + limit) => None,
        }
    }
}

/// Time that a test advances.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Simulated {
    start: Instant,
    passed: Mutex<Duration>,
    moved: tokio::sync::Notify,
}

#[cfg(test)]
impl Simulated {
    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep_until(&self, at: Instant) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // From here on no move is missed.
            moved.as_mut().enable();
            if self.now() >= at {
                return;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
impl Clock {
    /// Step of the simulated time.
    const STEP: Duration = Duration::from_millis(100);

    pub(crate) fn simulated() -> Self {
        let simulated =
            Simulated { start: Instant::now(), passed: Mutex::default(), moved: tokio::sync::Notify::new() };
        Self { simulated: Some(Arc::new(simulated)) }
    }

    /// Advances the time and runs everything that waits for it. In a single-threaded runtime all tasks are
    /// idle afterwards.
    pub(crate) async fn pass(&self, time: Duration) {
        let end = self.now() + time;
        settle().await;
        while self.now() < end {
            let step = Self::STEP.min(end - self.now());
            if let Some(simulated) = &self.simulated {
                *simulated.passed.lock().unwrap_or_else(PoisonError::into_inner) += step;
                simulated.moved.notify_waiters();
            }
            settle().await;
        }
    }
}

/// Runs every task until all of them wait: the longest chain of tasks that wake each other has fewer links.
#[cfg(test)]
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
