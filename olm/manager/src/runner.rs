//! The work queue of a controller: which objects are reconciled when, and how many concurrently.
//!
//! kube's own keeps each object twice in addition to the store, under keys of several strings each; for ten
//! thousand objects that is tens of megabytes. Here an object is one short string until it is reconciled.

#[cfg(test)]
mod tests;
mod work_queue;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    Stream, StreamExt,
    future::OptionFuture,
    stream::{self, BoxStream, SelectAll},
};
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use work_queue::WorkQueue;

/// `NAMESPACE/NAME` of an object; no namespace for a cluster-wide one. Neither part contains a slash.
pub(crate) type Key = Arc<str>;

pub(crate) fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}").into()
}

/// When to reconcile an object again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action(Option<Duration>);

impl Action {
    /// Reconcile again after this time, unless an event wakes it before.
    pub(crate) fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }

    /// Reconcile again on the next event.
    pub(crate) fn await_change() -> Self {
        Self(None)
    }
}

/// The source of a controller's objects.
pub(crate) trait Objects<K>: Send + Sync {
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<K>>;

    fn keys(&self) -> Vec<Key>;
}

/// The objects to reconcile.
enum Wake {
    One(Key),
    All,
}

/// The objects of a kind, and their triggers. An object is reconciled by one task at a time; a trigger
/// meanwhile causes one more run.
pub(crate) struct Controller<K> {
    objects: Arc<dyn Objects<K>>,
    wakes: SelectAll<BoxStream<'static, Wake>>,
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Controller<K> {
    /// A controller of these objects; `changed` yields the changed ones.
    pub(crate) fn new(
        objects: Arc<dyn Objects<K>>,
        changed: impl Stream<Item = Key> + Send + 'static,
    ) -> Self {
        Self { objects, wakes: stream::select_all([changed.map(Wake::One).boxed()]) }
    }

    /// Reconciles the objects of the stream.
    pub(crate) fn reconcile_on(mut self, wakes: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        let one = |object: ObjectRef<K>| {
            Wake::One(key(object.namespace.as_deref().unwrap_or_default(), &object.name))
        };
        self.wakes.push(wakes.map(one).boxed());
        self
    }

    /// Reconciles all objects on each item of the stream.
    pub(crate) fn reconcile_all_on(mut self, wakes: impl Stream<Item = ()> + Send + 'static) -> Self {
        self.wakes.push(wakes.map(|()| Wake::All).boxed());
        self
    }

    /// Reconciles objects, at most `at_once` concurrently, until shutdown; then running reconciliations are
    /// finished. Each runs in its own task, so that computations use all processors.
    pub(crate) async fn run<F, Fut>(mut self, at_once: usize, shutdown: CancellationToken, reconcile: F)
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Action> + Send + 'static,
    {
        let reconcile = Arc::new(reconcile);
        let mut queue = WorkQueue::default();
        let mut running = JoinSet::<(Key, Action)>::new();
        loop {
            while !shutdown.is_cancelled()
                && running.len() < at_once
                && let Some(key) = queue.take()
            {
                let (objects, reconcile) = (Arc::clone(&self.objects), Arc::clone(&reconcile));
                running.spawn(async move {
                    let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
                    let action = match objects.find(namespace, name) {
                        Some(object) => reconcile(object).await,
                        // The object is gone.
                        None => Action::await_change(),
                    };
                    (key, action)
                });
            }
            if shutdown.is_cancelled() && running.is_empty() {
                return;
            }
            let due = queue.next().map(|at| tokio::time::sleep_until(at.into()));
            tokio::select! {
                Some(finished) = running.join_next() => match finished {
                    Ok((key, Action(after))) => {
                        let again = after.and_then(|after| Instant::now().checked_add(after));
                        queue.done(&key, again);
                    }
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime is shutting down.
                        Err(_) => return,
                    },
                },
                Some(wake) = self.wakes.next(), if !shutdown.is_cancelled() => match wake {
                    Wake::One(key) => queue.wake(key),
                    Wake::All => self.objects.keys().into_iter().for_each(|key| queue.wake(key)),
                },
                Some(()) = OptionFuture::from(due) => queue.due(Instant::now()),
                () = shutdown.cancelled(), if !shutdown.is_cancelled() => {}
                // Nothing is running and no trigger is left.
                else => return,
            }
        }
    }
}
