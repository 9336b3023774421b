//! Hooks for the creation, update and deletion of CustomResourceDefinitions.

use std::sync::{Arc, PoisonError};

use olm_devcluster_machinery::crd;
use serde_json::{Value, json};

use super::{
    aggregation,
    call::Call,
    meta,
    resource::{Resource, stored_key},
    state::Server,
    status::{ApiError, ApiResult},
    store::{Key, WriteError},
};

pub(crate) const STORED: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// Blocks the deletion of a CRD until its objects are deleted.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Validates a CRD and computes its status: names are accepted and the resource is served as soon as it is
/// stored.
pub(crate) fn before_write(call: &Call<'_>, object: &mut Value, live: Option<&Value>) -> ApiResult<()> {
    let refuse = |errors: &[_]| {
        let name = call.info.name.as_str();
        ApiError::invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, errors)
    };
    let name = meta::name(object).to_owned();
    let parsed = crd::parse(object).map_err(|errors| {
        ApiError::invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &errors)
    })?;
    if let Some(live) = live {
        let errors = crd::validate_update(object, live);
        if !errors.is_empty() {
            return Err(refuse(&errors));
        }
    }
    let taken = |wanted: &str| call.server.registry.holder(&parsed.group, &parsed.plural, wanted);
    crd::compute_status(object, &taken, &meta::now());
    if live.is_none() {
        let finalizers = meta::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = finalizers.as_array_mut()
            && !list.iter().any(|f| f == FINALIZER)
        {
            list.push(FINALIZER.into());
        }
    }
    Ok(())
}

/// Serves a stored CRD, or cleans up after one that is being deleted.
///
/// With concurrent writers, the last call here need not be that of the last writer: the stored object is
/// authoritative.
pub(crate) async fn after_write(server: &Arc<Server>, object: &Arc<Value>) {
    let name = meta::name(object);
    follow(server, name);
    accept_waiting_names(server, meta::text(object, "/spec/group")).await;
    aggregation::sync(server).await;
    if server.store.get(&Key::new(STORED, "", name)).is_some_and(|crd| meta::is_deleting(&crd)) {
        sweep(server, name).await;
    }
}

/// Accepts released names for the pending definitions of a group; watches report it to clients.
pub(crate) async fn accept_waiting_names(server: &Arc<Server>, group: &str) {
    let waits = |crd: &&Arc<Value>| meta::text(crd, "/spec/group") == group && !crd::has_accepted_names(crd);
    // Sequentially: two definitions that wait for one name must not both get it.
    for waiting in server.store.list(STORED, "").items.iter().filter(waits) {
        let name = meta::name(waiting);
        if let Err(error) = accept_names(server, name).await {
            tracing::warn!(name, %error, "failed to accept the names of a CustomResourceDefinition");
        }
        follow(server, name);
    }
}

async fn accept_names(server: &Server, name: &str) -> Result<(), WriteError> {
    let key = Key::new(STORED, "", name);
    // The CRD may have concurrent writers; each iteration reads their result.
    while let Some(object) = server.store.get(&key).filter(|crd| !meta::is_deleting(crd)) {
        let (group, plural) = (meta::text(&object, "/spec/group"), meta::text(&object, "/spec/names/plural"));
        let taken = |wanted: &str| server.registry.holder(group, plural, wanted);
        let mut new = Value::clone(&object);
        if !crd::compute_status(&mut new, &taken, &meta::now()) {
            return Ok(());
        }
        match server.store.write(&key, Some(&object), Some(new)).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Raced) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Updates the registry to the stored definition of a name.
fn follow(server: &Server, name: &str) {
    // Of two concurrent updates, the last to read is the last to change the registry.
    let _turn = server.definitions.lock().unwrap_or_else(PoisonError::into_inner);
    match server.store.get(&Key::new(STORED, "", name)) {
        Some(object) => serve(server, &object),
        None => server.registry.remove_crd(name),
    }
}

/// Serves a stored CRD according to its status.
pub(crate) fn serve(server: &Server, object: &Value) {
    let name = meta::name(object);
    if crd::is_established(object) {
        if let Err(errors) = server.registry.set_crd(name, object) {
            tracing::error!(name, ?errors, "invalid stored CustomResourceDefinition");
        }
    } else {
        server.registry.remove_crd(name);
    }
}

/// Handles the deletion of a CRD.
pub(crate) async fn deleted(server: &Arc<Server>, object: &Value) {
    follow(server, meta::name(object));
    let group = meta::text(object, "/spec/group");
    server.store.close(&stored_key(group, meta::text(object, "/spec/names/plural")));
    accept_waiting_names(server, group).await;
    aggregation::sync(server).await;
}

/// Handles the deletion of a custom object: it may have been the last one that blocks the deletion of its
/// CRD.
pub(crate) async fn object_deleted(server: &Arc<Server>, resource: &Resource) {
    let name = resource.crd_name();
    let waiting = server.store.get(&Key::new(STORED, "", &name)).is_some_and(|crd| meta::is_deleting(&crd));
    if waiting {
        Box::pin(sweep(server, &name)).await;
    }
}

/// Deletes the objects of a deleted CRD, and the CRD itself after the last one.
pub(crate) async fn sweep(server: &Arc<Server>, name: &str) {
    if let Err(error) = try_sweep(server, name).await {
        tracing::warn!(name, %error, "failed to clean up after a deleted CustomResourceDefinition");
    }
}

async fn try_sweep(server: &Arc<Server>, name: &str) -> Result<(), WriteError> {
    let key = Key::new(STORED, "", name);
    let Some(object) = server.store.get(&key).filter(|o| meta::is_deleting(o)) else { return Ok(()) };
    if !meta::finalizers(&object).contains(&FINALIZER) {
        return Ok(());
    }
    let resource = stored_key(meta::text(&object, "/spec/group"), meta::text(&object, "/spec/names/plural"));
    for item in server.store.list(&resource, "").items {
        let key = Key::new(&resource, meta::namespace(&item), meta::name(&item));
        let result = if meta::finalizers(&item).is_empty() {
            server.store.write(&key, Some(&item), None).await
        } else if meta::is_deleting(&item) {
            continue;
        } else {
            let mut marked = Value::clone(&item);
            let metadata = meta::metadata(&mut marked);
            metadata.insert("deletionTimestamp".to_owned(), meta::now().into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            server.store.write(&key, Some(&item), Some(marked)).await
        };
        match result {
            Ok(_) | Err(WriteError::Raced) => {}
            Err(error) => return Err(error),
        }
    }
    if !server.store.is_empty(&resource) {
        return Ok(());
    }
    // The CRD may have concurrent writers; each iteration reads their result.
    while let Some(object) = server.store.get(&key).filter(|o| meta::finalizers(o).contains(&FINALIZER)) {
        let mut new = Value::clone(&object);
        if let Some(list) = meta::metadata(&mut new).get_mut("finalizers").and_then(Value::as_array_mut) {
            list.retain(|f| f != FINALIZER);
        }
        let last = meta::finalizers(&new).is_empty();
        match server.store.write(&key, Some(&object), (!last).then_some(new)).await {
            Ok(_) => {
                if last {
                    deleted(server, &object).await;
                }
                return Ok(());
            }
            Err(WriteError::Raced) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
