//! Reads, creates and changes one object.

use std::sync::Arc;

use axum::response::Response;
use http::header;
use olm_devcluster_machinery::{
    field_error::FieldError,
    patch,
    ssa::{self, ApplyRequest},
};
use serde_json::{Value, json};

use super::{
    admission,
    body::{decode, yaml},
    call::Call,
    commit::{commit, is_finished, storage_error},
    convert, hooks, meta,
    prepare::{self, Draft, Tracking},
    status::{ApiError, ApiResult, json_response},
    store::WriteError,
    webhooks::{self, AdmissionRequest, Operation, UpdateAdmission},
};

/// Limit of retries: a bug must not loop forever, and this many concurrent writes are reported as a conflict.
const ATTEMPTS: usize = 100;

/// GET of one object.
pub(crate) async fn get(call: &Call<'_>) -> ApiResult<Response> {
    call.show(200, &call.current()?).await
}

/// POST.
pub(crate) async fn create(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let object = decode(call.headers, bytes)?;
    let stored = create_object(call, object, &Tracking::Update).await?;
    call.show(201, &stored).await
}

/// Creates an object of a create or apply request.
async fn create_object(call: &Call<'_>, mut object: Value, tracking: &Tracking) -> ApiResult<Arc<Value>> {
    let dry_run = call.dry_run()?;
    let resource = call.resource;
    prepare::check_type(call, &mut object)?;
    if !meta::resource_version(&object).is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let given = meta::name(&object).to_owned();
    let base = meta::text(&object, "/metadata/generateName").to_owned();
    let generated = given.is_empty() && !base.is_empty();
    if given.is_empty() && !generated {
        let error = FieldError::required("metadata.name", "name or generateName is required");
        return Err(ApiError::invalid(&resource.group, &resource.kind, "", &[error]));
    }
    hooks::namespace_accepts(call, &given)?;
    let mut draft = prepare::begin_create(call, object, tracking)?;
    admission::create(call, &mut draft)?;
    let options = || webhooks::options(call, "CreateOptions");
    // Requests for a namespace have itself as their namespace, including its creation.
    let namespace = if resource.is("", "namespaces") { given.as_str() } else { call.info.namespace.as_str() };
    let admission = AdmissionRequest {
        server: call.server,
        resource,
        subresource: "",
        caller: call.caller,
        operation: Operation::Create,
        namespace,
        name: &given,
        old: None,
        dry_run,
        options: &options,
        warnings: &call.warnings,
    };
    let mutated =
        webhooks::mutate(&admission, Some(&mut draft), &mut |object| admission::create(call, object)).await?;
    for _ in 0..ATTEMPTS {
        let mut object = draft.clone();
        if generated {
            let kept: String = base.chars().take(58).collect();
            let name = format!("{kept}{}", meta::random_suffix(5));
            meta::metadata(&mut object).insert("name".to_owned(), name.into());
        }
        let name = meta::name(&object).to_owned();
        let key = call.key_of(&name);
        if call.server.store.get(&key).is_some() {
            if generated {
                continue;
            }
            return Err(ApiError::already_exists(&resource.plural, &resource.group, &name));
        }
        let mut guard = hooks::lock_allocation(call).await;
        let mut object = prepare::finish_create(call, object, mutated || generated)?;
        let admission = AdmissionRequest { name: &name, ..admission };
        if admission.concerns_validating() {
            // A webhook may perform writes that need the guard.
            drop(guard.take());
            webhooks::validate(&admission, Some(&object)).await?;
            guard = hooks::lock_allocation(call).await;
            // The namespace may have changed during the webhook calls.
            hooks::namespace_accepts(call, &name)?;
            hooks::before_write(call, &mut object, None)?;
        }
        if dry_run {
            return Ok(Arc::new(object));
        }
        let object = convert::store_form(call.server, resource, object).await?;
        match commit(call, &key, None, Some(object), guard).await {
            Ok(Some(stored)) => return Ok(stored),
            Ok(None) | Err(WriteError::Raced) => {}
            Err(error) => return Err(storage_error(&error)),
        }
    }
    Err(ApiError::unavailable("too many writers at once, try again"))
}

/// PUT.
pub(crate) async fn update(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let mut object = decode(call.headers, bytes)?;
    prepare::check_type(call, &mut object)?;
    let stored = change(call, |current| {
        if !meta::name(&object).is_empty() && meta::name(&object) != call.info.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                meta::name(&object),
                call.info.name
            )));
        }
        let _ = current;
        Ok((object.clone(), Tracking::Update))
    })
    .await?;
    call.show(200, &stored).await
}

/// Reads, changes and writes an object, and retries after concurrent writes.
///
/// `f` gets the stored object in the version of the request and returns the changed one. A resourceVersion in
/// its result is the client's precondition.
pub(crate) async fn change<F>(call: &Call<'_>, mut f: F) -> ApiResult<Arc<Value>>
where
    F: FnMut(&Arc<Value>) -> ApiResult<(Value, Tracking)>,
{
    let dry_run = call.dry_run()?;
    let key = call.key();
    let resource = call.resource;
    for _ in 0..ATTEMPTS {
        let current = call.current()?;
        let shown = convert::present(call.server, resource, &current).await?;
        let (new, tracking) = f(&shown)?;
        let wanted = meta::resource_version(&new);
        if !wanted.is_empty() && wanted != meta::resource_version(&current) {
            return Err(call.modified());
        }
        if !meta::uid(&new).is_empty() && meta::uid(&new) != meta::uid(&current) {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {}",
                meta::uid(&new),
                meta::uid(&current)
            );
            return Err(ApiError::conflict(&resource.plural, &resource.group, &call.info.name, &why));
        }
        let mut draft = prepare::begin_update(call, &shown, new, &tracking)?;
        let unchanged = |draft: &Draft| draft.unchanged && convert::is_store_form(resource, &current);
        let admission = UpdateAdmission::new(call, &shown, dry_run);
        let concerned = admission.matches_any();
        if !concerned && unchanged(&draft) {
            return Ok(current);
        }
        if concerned && admission.mutate(&mut draft.object).await? {
            prepare::changed_by_webhooks(call, &shown, &mut draft)?;
        }
        let mut guard = hooks::lock_allocation(call).await;
        prepare::finish_update(call, &shown, &mut draft.object)?;
        if concerned {
            // A webhook may perform writes that need the guard.
            drop(guard.take());
            admission.validate(&draft.object).await?;
            guard = hooks::lock_allocation(call).await;
            hooks::before_write(call, &mut draft.object, Some(&shown))?;
        }
        if unchanged(&draft) {
            return Ok(current);
        }
        let mut new = draft.object;
        meta::metadata(&mut new)
            .insert("resourceVersion".to_owned(), meta::resource_version(&current).into());
        let remove = is_finished(resource, &new);
        if dry_run {
            return Ok(Arc::new(new));
        }
        let new = convert::store_form(call.server, resource, new).await?;
        let last = remove.then(|| Arc::new(new.clone()));
        match commit(call, &key, Some(&current), (!remove).then_some(new), guard).await {
            Ok(stored) => return Ok(last.or(stored).unwrap_or(current)),
            Err(WriteError::Raced) => {}
            Err(error) => return Err(storage_error(&error)),
        }
    }
    Err(ApiError::unavailable("too many writers at once, try again"))
}

/// PATCH in its four formats.
pub(crate) async fn patch(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let media = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    let json = |bytes: &[u8]| -> ApiResult<Value> {
        serde_json::from_slice(bytes)
            .map_err(|error| ApiError::bad_request(format!("failed to decode the patch: {error}")))
    };
    let resource = call.resource;
    match media {
        "application/apply-patch+yaml" => apply(call, yaml(bytes)?).await,
        "application/json-patch+json" => {
            let body = json(bytes)?;
            let stored = change(call, |live| Ok((patch::json_patch(live, &body)?, Tracking::Update))).await?;
            call.show(200, &stored).await
        }
        "application/merge-patch+json" => {
            let body = json(bytes)?;
            let stored = change(call, |live| {
                Ok((with_precondition(patch::merge_patch(live, &body)?, live, &body), Tracking::Update))
            })
            .await?;
            call.show(200, &stored).await
        }
        "application/strategic-merge-patch+json" => {
            if resource.custom().is_some() {
                return Err(unsupported_patch(
                    media,
                    &[
                        "application/json-patch+json",
                        "application/merge-patch+json",
                        "application/apply-patch+yaml",
                    ],
                ));
            }
            let body = json(bytes)?;
            let stored = change(call, |live| {
                let patched = patch::strategic_patch(live, &body, resource.layout())?;
                Ok((with_precondition(patched, live, &body), Tracking::Update))
            })
            .await?;
            call.show(200, &stored).await
        }
        other => Err(unsupported_patch(
            other,
            &[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
                "application/strategic-merge-patch+json",
            ],
        )),
    }
}

/// Only a resourceVersion in the patch itself is a precondition; the live one is always current.
fn with_precondition(mut patched: Value, live: &Value, body: &Value) -> Value {
    if meta::resource_version(body).is_empty() {
        let live = live.pointer("/metadata/resourceVersion").cloned();
        meta::set_or_remove(meta::metadata(&mut patched), "resourceVersion", live);
    }
    patched
}

fn unsupported_patch(media: &str, supported: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {} (got \"{media}\")",
        supported.join(", ")
    );
    ApiError::unsupported_media_type(message)
}

/// Server-side apply: creates the object when it is absent.
async fn apply(call: &Call<'_>, mut config: Value) -> ApiResult<Response> {
    let manager = call.query.get("fieldManager").to_owned();
    if manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let force = call.query.flag("force");
    prepare::check_type(call, &mut config)?;
    if meta::name(&config).is_empty() {
        meta::metadata(&mut config).insert("name".to_owned(), call.info.name.clone().into());
    } else if meta::name(&config) != call.info.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta::name(&config),
            call.info.name
        )));
    }
    if !meta::list(&config, "/metadata/managedFields").is_empty() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    prepare::declared(call, &mut config)?;
    let subresource = Some(call.info.subresource.as_str()).filter(|s| !s.is_empty());
    let request = |live: Option<&Value>, now: &str| -> ApiResult<ssa::Applied> {
        let request = ApplyRequest {
            live,
            config: &config,
            manager: &manager,
            force,
            subresource,
            layout: call.resource.layout(),
            now,
        };
        ssa::apply(&request).map_err(|error| ApiError::from_status(error.status()))
    };
    for _ in 0..ATTEMPTS {
        let now = meta::now();
        if call.server.store.get(&call.key()).is_none() {
            if subresource.is_some() {
                return Err(call.not_found());
            }
            if !matches!(meta::resource_version(&config), "" | "0") || !meta::uid(&config).is_empty() {
                return Err(if meta::uid(&config).is_empty() { call.not_found() } else { call.modified() });
            }
            let mut object = request(None, &now)?.object;
            meta::metadata(&mut object).shift_remove("resourceVersion");
            match create_object(call, object, &Tracking::Applied).await {
                // Created concurrently: apply to that object.
                Err(error) if error.code() == 409 && call.server.store.get(&call.key()).is_some() => continue,
                Err(error) => return Err(error),
                Ok(stored) => return call.show(201, &stored).await,
            }
        }
        let stored = change(call, |live| {
            let applied = request(Some(live), &now)?;
            let tracking = if applied.changed { Tracking::Applied } else { Tracking::Unchanged };
            let mut object = applied.object;
            let wanted = config.pointer("/metadata/resourceVersion").cloned();
            let wanted = wanted.or_else(|| live.pointer("/metadata/resourceVersion").cloned());
            meta::set_or_remove(meta::metadata(&mut object), "resourceVersion", wanted);
            Ok((object, tracking))
        })
        .await;
        match stored {
            Err(error)
                if error.code() == 404
                    && call.server.store.get(&call.key()).is_none()
                    && subresource.is_none() => {}
            Err(error) => return Err(error),
            Ok(stored) => return call.show(200, &stored).await,
        }
    }
    Err(ApiError::unavailable("too many writers at once, try again"))
}

/// POST pods/NAME/binding: binds a pod to a node.
pub(crate) async fn bind(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let mut binding = decode(call.headers, bytes)?;
    meta::default(&mut binding, "apiVersion", "v1");
    meta::default(&mut binding, "kind", "Binding");
    webhooks::posted(call, "binding", &mut binding, call.dry_run()?).await?;
    let node = meta::text(&binding, "/target/name");
    if node.is_empty() {
        let error = FieldError::required("target.name", "");
        return Err(ApiError::invalid("", "Binding", &call.info.name, &[error]));
    }
    change(call, |pod| {
        let bound = meta::text(pod, "/spec/nodeName");
        let refuse = |why: String| ApiError::conflict("pods/binding", "", &call.info.name, &why);
        if meta::is_deleting(pod) {
            return Err(refuse(format!("pod {} is being deleted, cannot be assigned to a host", call.info.name)));
        }
        if !bound.is_empty() {
            return Err(refuse(format!("pod {} is already assigned to node \"{bound}\"", call.info.name)));
        }
        let mut pod = Value::clone(pod);
        meta::child(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
        let condition = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": meta::now(),
        });
        let status = meta::child(&mut pod, "status");
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            list.retain(|c| c["type"] != "PodScheduled");
            list.push(condition);
        }
        Ok((pod, Tracking::Update))
    })
    .await?;
    Ok(json_response(
        201,
        &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }),
    ))
}
