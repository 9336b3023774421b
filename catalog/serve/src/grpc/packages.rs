//! Reads packages one at a time, without blocking other calls.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use olm_catalog::{Catalog, ContentError, Package};
use tonic::Status;

/// A streaming answer.
pub(super) type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(super) async fn read(catalog: &Arc<Catalog>, name: &str) -> Result<Option<Arc<Package>>, Status> {
    let (reader, name) = (Arc::clone(catalog), name.to_owned());
    match tokio::task::spawn_blocking(move || reader.package(&name)).await {
        Ok(read) => read.map_err(|error| unreadable(catalog, &error)),
        Err(error) => {
            tracing::error!(catalog = catalog.origin, %error, "failed to read a package");
            Err(Status::internal("failed to read the package"))
        }
    }
}

/// The status for unreadable content. A silently omitted package would look removed.
pub(super) fn unreadable(catalog: &Catalog, error: &ContentError) -> Status {
    tracing::error!(catalog = catalog.origin, %error, "failed to serve a catalog");
    Status::data_loss(error.to_string())
}

/// Iterator over the messages of one package.
pub(super) type Messages<T> = Box<dyn Iterator<Item = T> + Send>;

/// The messages of packages, one package after the other: the next one is read when the client has received
/// all of one. `none` ends an empty answer.
pub(super) fn each<T: Send + 'static>(
    catalog: Arc<Catalog>,
    names: impl IntoIterator<Item = String>,
    messages: impl Fn(Arc<Package>) -> Messages<T> + Send + 'static,
    none: Option<Status>,
) -> ResponseStream<T> {
    let state = State { catalog, names: names.into_iter().collect(), messages, current: None, none };
    Box::pin(futures::stream::unfold(state, |mut state| async {
        let item = state.next().await?;
        Some((item, state))
    }))
}

struct State<T, F> {
    catalog: Arc<Catalog>,
    names: VecDeque<String>,
    messages: F,
    current: Option<Messages<T>>,
    /// Taken by the first message.
    none: Option<Status>,
}

impl<T, F: Fn(Arc<Package>) -> Messages<T>> State<T, F> {
    async fn next(&mut self) -> Option<Result<T, Status>> {
        loop {
            if let Some(message) = self.current.as_mut().and_then(Iterator::next) {
                self.none = None;
                return Some(Ok(message));
            }
            self.current = None;
            let Some(name) = self.names.pop_front() else { return self.none.take().map(Err) };
            match read(&self.catalog, &name).await {
                Ok(package) => self.current = package.map(&self.messages),
                Err(status) => {
                    self.names.clear();
                    self.none = None;
                    return Some(Err(status));
                }
            }
        }
    }
}
