//! The write path of an object up to the store: types, unknown fields, system metadata, defaults, admission,
//! validation, field ownership.

use olm_devcluster_machinery::{
    field_error::{FieldError, strict_decoding_status},
    openapi, ssa,
};
use serde_json::{Map, Value, json};

use super::{
    call::Call,
    convert, hooks, job_rules, meta,
    resource::Resource,
    status::{ApiError, ApiResult},
    validate,
};

/// Recording of field ownership.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tracking {
    /// Not an apply: the manager owns the changed fields.
    Update,
    /// An apply, already recorded.
    Applied,
    /// An apply without changes.
    Unchanged,
}

/// Validates `apiVersion`, `kind`, namespace and the types of the metadata; sets the values of the URL where
/// absent.
pub(crate) fn check_type(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let resource = call.resource;
    let expected = resource.api_version();
    if !object.is_object() {
        return Err(ApiError::bad_request("the request body is not a JSON object"));
    }
    match meta::text(object, "/apiVersion") {
        "" => {}
        version if version == expected => {}
        version => {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
    }
    match meta::text(object, "/kind") {
        "" => {}
        kind if kind == resource.kind => {}
        kind => {
            let (wanted, group) = (&resource.kind, &expected);
            return Err(ApiError::bad_request(format!(
                "{kind} in version {group:?} cannot be handled as a {wanted}: kind in the data ({kind}) does not match the expected kind ({wanted})"
            )));
        }
    }
    check_metadata_types(resource, object)?;
    if resource.namespaced {
        let given = meta::namespace(object);
        if !given.is_empty() && given != call.info.namespace {
            return Err(ApiError::bad_request(format!(
                "the namespace of the provided object does not match the namespace sent on the request: {given} instead of {}",
                call.info.namespace
            )));
        }
        meta::metadata(object).insert("namespace".to_owned(), call.info.namespace.clone().into());
    } else {
        meta::metadata(object).shift_remove("namespace");
    }
    let map = meta::as_map(object);
    map.insert("apiVersion".to_owned(), expected.into());
    map.insert("kind".to_owned(), resource.kind.clone().into());
    Ok(())
}

/// Metadata of the wrong type is refused for every kind, so that all other code can rely on its structure.
fn check_metadata_types(resource: &Resource, object: &mut Value) -> ApiResult<()> {
    let refuse = |field: &str, wanted: &str| {
        let (kind, version) = (&resource.kind, &resource.version);
        Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: metadata.{field} must be {wanted}"
        )))
    };
    let metadata = match object.get_mut("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::bad_request("metadata must be an object")),
    };
    metadata.retain(|_, value| !value.is_null());
    for (field, value) in metadata.iter() {
        let strings = |v: &Value| v.as_object().is_some_and(|m| m.values().all(Value::is_string));
        match field.as_str() {
            "labels" | "annotations" if !strings(value) => {
                return refuse(field, "a map of strings to strings");
            }
            "finalizers" if !value.as_array().is_some_and(|l| l.iter().all(Value::is_string)) => {
                return refuse(field, "a list of strings");
            }
            "ownerReferences" | "managedFields"
                if !value.as_array().is_some_and(|l| l.iter().all(Value::is_object)) =>
            {
                return refuse(field, "a list of objects");
            }
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "creationTimestamp"
            | "deletionTimestamp" | "selfLink"
                if !value.is_string() =>
            {
                return refuse(field, "a string");
            }
            "generation" | "deletionGracePeriodSeconds" if !value.is_i64() && !value.is_u64() => {
                return refuse(field, "an integer");
            }
            _ => {}
        }
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = metadata.get(field).is_some_and(|v| {
            v.as_array().is_some_and(Vec::is_empty) || v.as_object().is_some_and(Map::is_empty)
        });
        if empty {
            metadata.shift_remove(field);
        }
    }
    Ok(())
}

/// An apply of undeclared fields is refused, whatever `fieldValidation` specifies: they could not be owned.
pub(crate) fn declared(call: &Call<'_>, config: &mut Value) -> ApiResult<()> {
    let before = config.clone();
    if drop_unknown(call.resource, config)?.is_empty() {
        return Ok(());
    }
    let resource = call.resource;
    let mut causes: Vec<String> = ssa::undeclared(resource.layout(), &before, config)
        .into_iter()
        .map(|path| format!("{path}: field not declared in schema"))
        .collect();
    let causes = match causes.as_mut_slice() {
        [one] => std::mem::take(one),
        all => format!("errors:\n  {}", all.join("\n  ")),
    };
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    let name = format!("{}/{}", meta::namespace(config), meta::name(config));
    let message =
        format!("failed to create typed patch object ({name}; {group}/{version}, Kind={kind}): {causes}");
    Err(ApiError::from_status(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500,
    })))
}

/// Removes unknown fields and returns their paths; refuses wrong types of built-in kinds.
fn drop_unknown(resource: &Resource, object: &mut Value) -> ApiResult<Vec<String>> {
    let Some(custom) = resource.custom() else {
        let (group, version, kind) =
            (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
        if let Some(errors) = openapi::type_errors(group, version, kind, object).filter(|e| !e.is_empty()) {
            return Err(ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {}",
                errors.join(", ")
            )));
        }
        return Ok(openapi::drop_unknown(group, version, kind, object));
    };
    Ok(custom.schema.prune(object))
}

/// Handles unknown fields and wrong types according to `fieldValidation`. Unknown fields are removed.
pub(crate) fn strict(call: &Call<'_>, object: &mut Value) -> ApiResult<()> {
    let resource = call.resource;
    let unknown = drop_unknown(resource, object)?;
    if unknown.is_empty() {
        return Ok(());
    }
    match call.query.get("fieldValidation") {
        "Strict" => {
            Err(ApiError::from_status(strict_decoding_status(&resource.version, &resource.kind, &unknown)))
        }
        "Ignore" => Ok(()),
        "" | "Warn" => {
            for path in unknown {
                call.warn(format!("unknown field \"{path}\""));
            }
            Ok(())
        }
        other => {
            let error = FieldError::not_supported("fieldValidation", other, ["Ignore", "Strict", "Warn"]);
            Err(ApiError::invalid("meta.k8s.io", "CreateOptions", "", &[error]))
        }
    }
}

fn defaults(resource: &Resource, object: &mut Value) {
    match (resource.builtin(), resource.custom()) {
        (Some(builtin), _) => (builtin.default)(object),
        (None, Some(custom)) => custom.schema.default(object),
        (None, None) => {}
    }
}

/// Normalizes an object that a webhook returned: types, unknown fields, defaults.
pub(crate) fn conform(resource: &Resource, object: &mut Value) -> ApiResult<()> {
    let (api_version, kind) = (meta::text(object, "/apiVersion"), meta::text(object, "/kind"));
    if (api_version, kind) != (resource.api_version().as_str(), resource.kind.as_str()) {
        return Err(ApiError::internal(format!(
            "a webhook returned an object of {api_version}, Kind={kind}, expected {}, Kind={}",
            resource.api_version(),
            resource.kind
        )));
    }
    check_metadata_types(resource, object).map_err(|error| ApiError::internal(error.message()))?;
    match resource.custom() {
        Some(custom) => {
            custom.schema.prune(object);
        }
        None => {
            let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
            let errors = openapi::type_errors(group, version, kind, object);
            if let Some(errors) = errors.filter(|e| !e.is_empty()) {
                return Err(ApiError::internal(errors.join(", ")));
            }
            openapi::drop_unknown(group, version, kind, object);
        }
    }
    defaults(resource, object);
    Ok(())
}

/// Prepares a new object for the webhooks: removes server-managed fields, sets defaults and field ownership.
pub(crate) fn begin_create(call: &Call<'_>, mut object: Value, tracking: &Tracking) -> ApiResult<Value> {
    strict(call, &mut object)?;
    convert::event_store_form(call.resource, &mut object);
    normalize_new(call.resource, &mut object);
    if matches!(tracking, Tracking::Update) {
        let (manager, layout) = (call.manager(), call.resource.layout());
        ssa::track_update(None, &mut object, &manager, None, layout, &meta::now());
    }
    Ok(object)
}

/// Removes fields that clients and webhooks cannot set on a new object, and sets defaults.
fn normalize_new(resource: &Resource, object: &mut Value) {
    let metadata = meta::metadata(object);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
        "resourceVersion",
        "uid",
        "creationTimestamp",
    ] {
        metadata.shift_remove(field);
    }
    if resource.status
        && let Some(map) = object.as_object_mut()
    {
        map.shift_remove("status");
    }
    if let Some(builtin) = resource.builtin() {
        (builtin.prepare)(object, None);
    }
    defaults(resource, object);
}

/// Prepares an object for its first write. `again` means that it differs from the result of [`begin_create`].
pub(crate) fn finish_create(call: &Call<'_>, mut object: Value, again: bool) -> ApiResult<Value> {
    let resource = call.resource;
    if again {
        if resource.stored != "/events" {
            check_type(call, &mut object)?;
        }
        normalize_new(resource, &mut object);
    }
    let metadata = meta::metadata(&mut object);
    metadata.insert("uid".to_owned(), meta::new_uid().into());
    metadata.insert("creationTimestamp".to_owned(), meta::now().into());
    if resource.generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    if resource.is(job_rules::GROUP, "jobs") {
        job_rules::select(&mut object);
    }
    check(call, &object, None)?;
    hooks::before_write(call, &mut object, None)?;
    hooks::warn_if_unenforced(call, &object);
    Ok(object)
}

/// A pending update.
pub(crate) struct Draft {
    pub object: Value,
    /// No client-writable field changed, field ownership included.
    pub unchanged: bool,
}

/// Prepares a changed object for the webhooks. `live` is the stored object in the version of the request.
pub(crate) fn begin_update(
    call: &Call<'_>,
    live: &Value,
    mut object: Value,
    tracking: &Tracking,
) -> ApiResult<Draft> {
    let resource = call.resource;
    if !object.is_object() {
        return Err(ApiError::bad_request("the patched object is not a JSON object"));
    }
    check_type(call, &mut object)?;
    if meta::name(&object) != call.info.name && !meta::name(&object).is_empty() {
        let error = FieldError::invalid("metadata.name", meta::name(&object), "field is immutable");
        return Err(ApiError::invalid(&resource.group, &resource.kind, &call.info.name, &[error]));
    }
    let gives_fields_away = object
        .pointer("/metadata/managedFields")
        .is_some_and(|sent| Some(sent) != live.pointer("/metadata/managedFields"));
    strict(call, &mut object)?;
    normalize_changed(call, live, &mut object);
    let unchanged = match tracking {
        Tracking::Unchanged => true,
        Tracking::Update => !gives_fields_away && same(live, &object),
        Tracking::Applied => false,
    };
    if matches!(tracking, Tracking::Update) && !unchanged {
        let (manager, subresource) = (call.manager(), subresource(call));
        let now = meta::now();
        ssa::track_update(Some(live), &mut object, &manager, subresource, resource.layout(), &now);
    }
    Ok(Draft { object, unchanged })
}

fn subresource<'a>(call: &'a Call<'_>) -> Option<&'a str> {
    Some(call.info.subresource.as_str()).filter(|s| !s.is_empty())
}

/// Restores fields that clients and webhooks cannot change, and sets defaults.
fn normalize_changed(call: &Call<'_>, live: &Value, object: &mut Value) {
    let resource = call.resource;
    keep_system_metadata(live, object);
    match subresource(call) {
        Some("status") => only_status(resource.custom().is_some(), live, object),
        Some("finalize") => only_finalizers(live, object),
        Some("binding" | "eviction") => {}
        _ if resource.status => restore(live, object, "status"),
        _ => {}
    }
    if let Some(builtin) = resource.builtin()
        && subresource(call).is_none()
    {
        (builtin.prepare)(object, Some(live));
    }
    defaults(resource, object);
    if resource.generation {
        bump_generation(call, live, object);
    }
}

/// Adopts the webhooks' changes of an update.
pub(crate) fn changed_by_webhooks(call: &Call<'_>, live: &Value, draft: &mut Draft) -> ApiResult<()> {
    check_type(call, &mut draft.object)?;
    normalize_changed(call, live, &mut draft.object);
    draft.unchanged = draft.unchanged && same(live, &draft.object);
    Ok(())
}

/// Prepares a changed object for the write.
pub(crate) fn finish_update(call: &Call<'_>, live: &Value, object: &mut Value) -> ApiResult<()> {
    check(call, object, Some(live))?;
    hooks::before_write(call, object, Some(live))
}

/// Restores the metadata that no client may change.
fn keep_system_metadata(live: &Value, object: &mut Value) {
    let old = live.get("metadata").cloned().unwrap_or_default();
    let metadata = meta::metadata(object);
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ] {
        meta::set_or_remove(metadata, field, old.get(field).cloned());
    }
    metadata.shift_remove("selfLink");
    // An absent managedFields means no change, not a removal.
    if !metadata.contains_key("managedFields") {
        meta::set_or_remove(metadata, "managedFields", old.get("managedFields").cloned());
    }
}

fn restore(live: &Value, object: &mut Value, field: &str) {
    meta::set_or_remove(meta::as_map(object), field, live.get(field).cloned());
}

/// A write to `/status`: all other fields are restored.
fn only_status(custom: bool, live: &Value, object: &mut Value) {
    let status = object.get("status").cloned();
    let mut metadata = live.get("metadata").cloned().unwrap_or_default();
    if let (Some(to), Some(from)) =
        (metadata.as_object_mut(), object.get("metadata").and_then(Value::as_object))
    {
        meta::set_or_remove(to, "managedFields", from.get("managedFields").cloned());
        if !custom {
            // Built-in kinds also accept labels and annotations here.
            for field in ["labels", "annotations"] {
                meta::set_or_remove(to, field, from.get(field).cloned());
            }
        }
    }
    let mut new = live.clone();
    let map = meta::as_map(&mut new);
    meta::set_or_remove(map, "status", status);
    map.insert("metadata".to_owned(), metadata);
    *object = new;
}

/// A write to `/finalize` of a namespace.
fn only_finalizers(live: &Value, object: &mut Value) {
    let finalizers = object.pointer("/spec/finalizers").cloned();
    let mut new = live.clone();
    meta::set_or_remove(meta::child(&mut new, "spec"), "finalizers", finalizers);
    *object = new;
}

fn bump_generation(call: &Call<'_>, live: &Value, object: &mut Value) {
    let resource = call.resource;
    let changed = if resource.builtin().is_none() {
        let strip = |v: &Value| {
            let mut map = v.as_object().cloned().unwrap_or_default();
            map.shift_remove("metadata");
            map.shift_remove("apiVersion");
            if resource.status {
                map.shift_remove("status");
            }
            map
        };
        strip(live) != strip(object)
    } else {
        // ReplicaSets copy the annotations of their Deployment. The controller writes its own annotations
        // through the status.
        let annotated = resource.is("apps", "deployments") && subresource(call) != Some("status");
        live.get("spec") != object.get("spec") || annotated && annotations(live) != annotations(object)
    };
    let old = live.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(1);
    let new = if changed { old + 1 } else { old };
    meta::metadata(object).insert("generation".to_owned(), new.into());
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations").and_then(Value::as_object).filter(|map| !map.is_empty())
}

/// Whether two objects have the same client-writable fields.
fn same(live: &Value, object: &Value) -> bool {
    let strip = |v: &Value| {
        let mut v = v.clone();
        let metadata = meta::metadata(&mut v);
        metadata.shift_remove("managedFields");
        metadata.shift_remove("resourceVersion");
        v
    };
    strip(live) == strip(object)
}

fn check(call: &Call<'_>, object: &Value, live: Option<&Value>) -> ApiResult<()> {
    let resource = call.resource;
    let mut errors = Vec::new();
    validate::metadata(resource, object, live, &mut errors);
    match (resource.builtin(), resource.custom()) {
        (Some(builtin), _) => (builtin.validate)(object, live, &mut errors),
        (None, Some(custom)) => match live {
            None => errors.extend(custom.schema.validate(object)),
            Some(live) => {
                let found = custom.schema.validate_update(object, live);
                errors.extend(found.errors);
                found.known.iter().for_each(|known| call.warn(known.to_string()));
            }
        },
        (None, None) => {}
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&resource.group, &resource.kind, meta::name(object), &errors))
}

/// The `Status` of a success.
pub(crate) fn success(details: Value) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}
