//! Hooks of the server for writes of certain kinds: namespaces, CRDs, cluster roles, Services, events.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::{
    aggregation::registered as aggregation,
    authz,
    call::Call,
    crds, meta, pod_security,
    policies::active as policies,
    quota,
    resource::Resource,
    service,
    state::Server,
    status::{ApiError, ApiResult},
    store::{Key, WriteError},
    volumes,
    webhooks::active as webhooks,
};

const EVENT_SECONDS: i64 = 3600;

/// Serializes writes that allocate from a shared pool.
pub(crate) async fn lock_allocation(call: &Call<'_>) -> Option<OwnedMutexGuard<()>> {
    let takes = call.resource.is("", "services") || quota::concerns(call);
    if takes { Some(call.server.allocation.clone().lock_owned().await) } else { None }
}

/// New objects need an existing namespace that is not being deleted.
pub(crate) fn namespace_accepts(call: &Call<'_>, name: &str) -> ApiResult<()> {
    if !call.resource.namespaced {
        return Ok(());
    }
    let namespace = call.info.namespace.as_str();
    let Some(object) = call.server.store.get(&Key::new("/namespaces", "", namespace)) else {
        return Err(ApiError::not_found("namespaces", "", namespace));
    };
    if !meta::is_deleting(&object) {
        return Ok(());
    }
    let (plural, group) = (&call.resource.plural, &call.resource.group);
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = ApiError::forbidden(plural, group, name, &why);
    let mut details = error.status()["details"].clone();
    details["causes"] = json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    }]);
    error = error.details(details);
    Err(error)
}

/// Checks that depend on other objects, and server-assigned fields.
pub(crate) fn before_write(call: &Call<'_>, object: &mut Value, live: Option<&Value>) -> ApiResult<()> {
    let (resource, store) = (call.resource, &call.server.store);
    pod_security::admit(call, object, live)?;
    quota::check(call, object, live)?;
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "services") => service::allocate(store, object, live),
        ("", "persistentvolumeclaims") => {
            match live.and_then(|live| volumes::refuse_growth(store, object, live)) {
                Some(why) => {
                    Err(ApiError::forbidden(&resource.plural, &resource.group, meta::name(object), &why))
                }
                None => Ok(()),
            }
        }
        (authz::GROUP, _) => authz::check_escalation(store, call.caller, &resource.kind, object, live),
        ("apiextensions.k8s.io", _) if call.info.subresource.is_empty() => {
            crds::before_write(call, object, live)
        }
        _ => Ok(()),
    }
}

/// Warns about fields of a new object that have no effect.
pub(crate) fn warn_if_unenforced(call: &Call<'_>, object: &Value) {
    let resource = call.resource;
    if resource.builtin().is_some_and(|b| !b.enforced) {
        call.warn(format!(
            "{} {}: stored, but not enforced by the dev cluster",
            resource.kind,
            meta::name(object)
        ));
    }
}

/// Runs after an object was created or changed.
pub(crate) async fn after_write(server: &Arc<Server>, resource: &Arc<Resource>, object: &Arc<Value>) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apiextensions.k8s.io", _) => crds::after_write(server, object).await,
        (authz::GROUP, "clusterroles") => aggregate(server).await,
        ("" | "events.k8s.io", "events") => purge_events(server).await,
        _ if webhooks::concerns(resource) => server.webhooks.reload(&server.store),
        _ if policies::concerns(resource) => server.policies.reload(&server.store),
        _ if aggregation::concerns(resource) => server.aggregation.reload(&server.store),
        _ => {}
    }
}

/// Runs after an object was deleted.
pub(crate) async fn deleted(server: &Arc<Server>, resource: &Arc<Resource>, object: &Arc<Value>) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apiextensions.k8s.io", _) => crds::deleted(server, object).await,
        (authz::GROUP, "clusterroles") => aggregate(server).await,
        _ if webhooks::concerns(resource) => server.webhooks.reload(&server.store),
        _ if policies::concerns(resource) => server.policies.reload(&server.store),
        _ if aggregation::concerns(resource) => server.aggregation.reload(&server.store),
        _ if resource.custom().is_some() => crds::object_deleted(server, resource).await,
        _ => {}
    }
}

/// Updates the rules of aggregated ClusterRoles, repeatedly until they are stable (aggregation can be
/// nested).
pub(crate) async fn aggregate(server: &Arc<Server>) {
    for _ in 0..8 {
        let all = server.store.list(&format!("{}/clusterroles", authz::GROUP), "").items;
        let (mut changed, roles) = (false, authz::Roles::of(&all));
        for role in &all {
            let Some(rules) = authz::aggregate(role, &roles) else { continue };
            if role.get("rules").and_then(Value::as_array) == Some(&rules) {
                continue;
            }
            let mut new = Value::clone(role);
            meta::as_map(&mut new).insert("rules".to_owned(), rules.into());
            let key = Key::new(&format!("{}/clusterroles", authz::GROUP), "", meta::name(role));
            match server.store.write(&key, Some(role), Some(new)).await {
                Ok(_) | Err(WriteError::Raced) => changed = true,
                Err(error) => {
                    tracing::warn!(role = meta::name(role), %error, "failed to aggregate the rules of a ClusterRole");
                    return;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

/// Events expire after an hour, as in Kubernetes.
pub(crate) async fn purge_events(server: &Arc<Server>) {
    if !server.purge_is_due() {
        return;
    }
    let oldest = meta::now_unix() - EVENT_SECONDS;
    for event in server.store.list("/events", "").items {
        let last =
            ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"]
                .iter()
                .filter_map(|p| meta::parse_time(meta::text(&event, p)))
                .map(jiff::Timestamp::as_second)
                .max();
        if last.is_none_or(|last| last < oldest) {
            let key = Key::new("/events", meta::namespace(&event), meta::name(&event));
            if let Err(WriteError::Log(error)) = server.store.write(&key, Some(&event), None).await {
                tracing::warn!(%error, "failed to remove old events");
                return;
            }
        }
    }
}
