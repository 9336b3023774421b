//! A write together with its side effects in the server.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::{
    hooks,
    log::LogError,
    server::Call,
    store::{Key, WriteError},
};

/// Replaces, creates or deletes an object as [`super::store::Store::write`] does, and then runs the server's
/// hooks.
///
/// Runs to completion even when the client disconnects: a stored write without its hooks would leave a
/// deleted CRD served. `guard` is held until the object is stored.
pub(crate) async fn commit(
    call: &Call<'_>,
    key: &Key,
    expected: Option<&Arc<Value>>,
    new: Option<Value>,
    guard: Option<OwnedMutexGuard<()>>,
) -> Result<Option<Arc<Value>>, WriteError> {
    let (server, resource, key) = (call.server.clone(), call.resource.clone(), key.clone());
    let expected = expected.cloned();
    let both = tokio::spawn(async move {
        let (stored, _) = server.store.write(&key, expected.as_ref(), new).await?;
        drop(guard);
        match (&stored, &expected) {
            (Some(stored), _) => hooks::written(&server, &resource, stored).await,
            (None, Some(gone)) => hooks::deleted(&server, &resource, gone).await,
            (None, None) => {}
        }
        Ok(stored)
    });
    match both.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(LogError::Stopped.into()),
        },
    }
}
