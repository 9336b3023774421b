//! A write together with its side effects in the server.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::{
    call::Call,
    hooks,
    log::LogError,
    meta,
    resource::Resource,
    status::ApiError,
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
            (Some(stored), _) => hooks::after_write(&server, &resource, stored).await,
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

/// Whether an object that is being deleted can be removed.
pub(crate) fn is_finished(resource: &Resource, object: &Value) -> bool {
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && grace == 0
        && (!resource.is("", "namespaces") || meta::list(object, "/spec/finalizers").is_empty())
}

/// Maps a failed write to the client's error.
pub(crate) fn storage_error(error: &WriteError) -> ApiError {
    match error {
        WriteError::Raced => ApiError::unavailable("too many writers at once, try again"),
        WriteError::Log(LogError::Full { .. }) => {
            ApiError::new(507, "InsufficientStorage", format!("failed to store the object: {error}"))
        }
        WriteError::Log(LogError::Stopped) => ApiError::unavailable(error.to_string()),
        WriteError::Log(_) => ApiError::internal(format!("failed to store the object: {error}")),
    }
}
