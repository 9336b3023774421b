//! Runs a controller: which objects are looked at when, and how many at a time.
//!
//! kube's own keeps each object twice more beside the store, under names of several strings each; of ten thousand that is tens of
//! megabytes. Here an object is one short text until it is its turn.

mod agenda;
#[cfg(test)]
mod tests;

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

use agenda::Agenda;

/// `NAMESPACE/NAME` of an object; nothing before the slash where it is in no namespace. Neither has a slash in it.
pub(crate) type Key = Arc<str>;

pub(crate) fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}").into()
}

/// What to do about an object that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action(Option<Duration>);

impl Action {
    /// Look again after this time, if nothing wakes it before.
    pub(crate) fn requeue(after: Duration) -> Self {
        Self(Some(after))
    }

    /// Look again when something wakes it.
    pub(crate) fn await_change() -> Self {
        Self(None)
    }
}

/// Where a controller finds its objects.
pub(crate) trait Objects<K>: Send + Sync {
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<K>>;

    fn keys(&self) -> Vec<Key>;
}

/// What is to be looked at.
enum Wake {
    One(Key),
    All,
}

/// The objects of a kind, and what wakes them. An object is looked at by one at a time; what wakes it meanwhile has it looked at
/// once more.
pub(crate) struct Controller<K> {
    objects: Arc<dyn Objects<K>>,
    wakes: SelectAll<BoxStream<'static, Wake>>,
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Controller<K> {
    /// Of these objects, which `changed` tells of.
    pub(crate) fn new(
        objects: Arc<dyn Objects<K>>,
        changed: impl Stream<Item = Key> + Send + 'static,
    ) -> Self {
        Self { objects, wakes: stream::select_all([changed.map(Wake::One).boxed()]) }
    }

    /// Has those looked at that the stream names.
    pub(crate) fn reconcile_on(mut self, wakes: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        let one = |object: ObjectRef<K>| {
            Wake::One(key(object.namespace.as_deref().unwrap_or_default(), &object.name))
        };
        self.wakes.push(wakes.map(one).boxed());
        self
    }

    /// Has all of them looked at whenever the stream says so.
    pub(crate) fn reconcile_all_on(mut self, wakes: impl Stream<Item = ()> + Send + 'static) -> Self {
        self.wakes.push(wakes.map(|()| Wake::All).boxed());
        self
    }

    /// Looks at objects, so many at a time, until it is to stop; then those that are being looked at come to their end. Each look is a
    /// task of its own: of what there is to work out, no processor waits for another.
    pub(crate) async fn run<F, Fut>(mut self, at_once: usize, shutdown: CancellationToken, look: F)
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Action> + Send + 'static,
    {
        let look = Arc::new(look);
        let mut agenda = Agenda::default();
        let mut running = JoinSet::<(Key, Action)>::new();
        loop {
            while !shutdown.is_cancelled()
                && running.len() < at_once
                && let Some(key) = agenda.take()
            {
                let (objects, look) = (Arc::clone(&self.objects), Arc::clone(&look));
                running.spawn(async move {
                    let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
                    let action = match objects.find(namespace, name) {
                        Some(object) => look(object).await,
                        // It is gone.
                        None => Action::await_change(),
                    };
                    (key, action)
                });
            }
            if shutdown.is_cancelled() && running.is_empty() {
                return;
            }
            let due = agenda.next().map(|at| tokio::time::sleep_until(at.into()));
            tokio::select! {
                Some(looked) = running.join_next() => match looked {
                    Ok((key, Action(after))) => {
                        let again = after.and_then(|after| Instant::now().checked_add(after));
                        agenda.done(&key, again);
                    }
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime ends, and all that it runs.
                        Err(_) => return,
                    },
                },
                Some(wake) = self.wakes.next(), if !shutdown.is_cancelled() => match wake {
                    Wake::One(key) => agenda.wake(key),
                    Wake::All => self.objects.keys().into_iter().for_each(|key| agenda.wake(key)),
                },
                Some(()) = OptionFuture::from(due) => agenda.due(Instant::now()),
                () = shutdown.cancelled(), if !shutdown.is_cancelled() => {}
                // Nothing is running and nothing can wake anything any more.
                else => return,
            }
        }
    }
}
