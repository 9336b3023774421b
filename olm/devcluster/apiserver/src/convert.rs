//! Converts objects between the stored and the requested version.
//!
//! Custom resources convert by their apiVersion only (strategy `None`) or by a webhook ([`webhook`]). Events
//! are stored as core/v1 and also served as events.k8s.io/v1.

pub(crate) mod webhook;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    resource::{Body, Resource},
    state::Server,
    status::{ApiError, ApiResult},
};

/// Field names of a core event and of an events.k8s.io event.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("source", "deprecatedSource"),
];

fn is_new_event(resource: &Resource) -> bool {
    resource.is("events.k8s.io", "events")
}

fn rename(object: &mut Value, fields: impl Iterator<Item = (&'static str, &'static str)> + Clone) {
    let Some(map) = object.as_object_mut() else { return };
    let renamed: Map<String, Value> = std::mem::take(map)
        .into_iter()
        .map(|(key, value)| {
            let new = fields.clone().find(|(from, _)| *from == key).map_or(key, |(_, to)| to.to_owned());
            (new, value)
        })
        .collect();
    *map = renamed;
}

/// Objects in the version of `resource`, whatever version they are stored in.
pub(crate) async fn present_all(
    server: &Server,
    resource: &Resource,
    objects: Vec<Arc<Value>>,
) -> ApiResult<Vec<Arc<Value>>> {
    let api_version = resource.api_version();
    if objects.iter().all(|o| has_version(o, &api_version)) {
        return Ok(objects);
    }
    to_version(server, resource, &api_version, objects).await
}

/// The object in the version of `resource`.
pub(crate) async fn present(
    server: &Server,
    resource: &Resource,
    object: &Arc<Value>,
) -> ApiResult<Arc<Value>> {
    if has_version(object, &resource.api_version()) {
        return Ok(object.clone());
    }
    let all = present_all(server, resource, vec![object.clone()]).await?;
    all.into_iter().next().ok_or_else(|| ApiError::internal("the conversion returned no object"))
}

/// The object in the storage version.
pub(crate) async fn store_form(server: &Server, resource: &Resource, mut object: Value) -> ApiResult<Value> {
    let Body::Custom { crd, .. } = &resource.body else {
        event_store_form(resource, &mut object);
        return Ok(object);
    };
    let storage = format!("{}/{}", crd.group, crd.storage().name);
    if has_version(&object, &storage) {
        return Ok(object);
    }
    let stored = to_version(server, resource, &storage, vec![Arc::new(object)]).await?;
    let stored = stored.into_iter().next();
    stored.map(Arc::unwrap_or_clone).ok_or_else(|| ApiError::internal("the conversion returned no object"))
}

/// Whether an object is stored in the current storage version.
pub(crate) fn is_store_form(resource: &Resource, stored: &Value) -> bool {
    match &resource.body {
        Body::Custom { crd, .. } => has_version(stored, &format!("{}/{}", crd.group, crd.storage().name)),
        Body::Builtin(_) => true,
    }
}

fn has_version(object: &Value, api_version: &str) -> bool {
    object.get("apiVersion").and_then(Value::as_str) == Some(api_version)
}

async fn to_version(
    server: &Server,
    resource: &Resource,
    api_version: &str,
    objects: Vec<Arc<Value>>,
) -> ApiResult<Vec<Arc<Value>>> {
    if let Body::Custom { crd, conversion: Some(webhook), .. } = &resource.body {
        return webhook.convert(&server.network(), crd, api_version, objects).await;
    }
    let by_name = |object: Arc<Value>| {
        if has_version(&object, api_version) {
            return object;
        }
        let mut shown = Arc::unwrap_or_clone(object);
        if is_new_event(resource) {
            rename(&mut shown, EVENT_FIELDS.iter().copied());
        }
        if let Some(map) = shown.as_object_mut() {
            map.insert("apiVersion".to_owned(), api_version.into());
        }
        Arc::new(shown)
    };
    Ok(objects.into_iter().map(by_name).collect())
}

/// Events have two forms; they are stored in that of the core group.
pub(crate) fn event_store_form(resource: &Resource, object: &mut Value) {
    if is_new_event(resource) {
        rename(object, EVENT_FIELDS.iter().map(|(old, new)| (*new, *old)));
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), "v1".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn events_have_two_shapes() {
        let registry = Registry::new();
        let served = registry.served();
        let new = served.find("events.k8s.io", "v1", "events").expect("built in");
        let written = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "hello", "regarding": {"name": "x"}});
        let mut stored = written.clone();
        event_store_form(new, &mut stored);
        assert_eq!(
            stored,
            json!({"apiVersion": "v1", "kind": "Event", "message": "hello", "involvedObject": {"name": "x"}})
        );
        let open = crate::ApiServer::open(crate::Config::default()).expect("in memory");
        let shown = futures::executor::block_on(present(&open.server, new, &Arc::new(stored)));
        assert_eq!(*shown.expect("events convert by themselves"), written);
    }
}
