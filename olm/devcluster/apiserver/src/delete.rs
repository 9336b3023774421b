//! Deletes objects: immediately, after a grace period, or after the last finalizer.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Value, json};

use super::{
    body::decode,
    call::Call,
    commit::{commit, is_finished, storage_error},
    convert, meta,
    prepare::{Tracking, success},
    resource::Resource,
    rest::change,
    status::{ApiError, ApiResult, json_response},
    store::{Key, WriteError},
    webhooks::{self, AdmissionRequest, Operation},
};

const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Default)]
struct Options {
    grace: Option<i64>,
    propagation: Option<String>,
    uid: String,
    resource_version: String,
    dry_run: bool,
    /// Admission webhooks were already called, for another request.
    admitted: bool,
}

impl Options {
    fn read(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Self> {
        let body = if bytes.is_empty() { Value::Null } else { decode(call.headers, bytes)? };
        Self::of(call, &body)
    }

    fn of(call: &Call<'_>, body: &Value) -> ApiResult<Self> {
        let orphan =
            body["orphanDependents"].as_bool().or_else(|| match call.query.get("orphanDependents") {
                "" => None,
                text => Some(text == "true"),
            });
        let propagation = match (meta::text(body, "/propagationPolicy"), call.query.get("propagationPolicy"))
        {
            ("", "") => orphan.map(|orphan| if orphan { "Orphan" } else { "Background" }.to_owned()),
            ("", text) | (text, _) => Some(text.to_owned()),
        };
        if let Some(policy) =
            propagation.as_deref().filter(|p| !matches!(*p, "Orphan" | "Background" | "Foreground"))
        {
            let error = olm_devcluster_machinery::field_error::FieldError::not_supported(
                "propagationPolicy",
                policy,
                ["Foreground", "Background", "Orphan", "nil"],
            );
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
        }
        let dry_run = !meta::list(body, "/dryRun").is_empty() || call.dry_run()?;
        let grace = body["gracePeriodSeconds"].as_i64().or(call.query.number("gracePeriodSeconds")?);
        Ok(Self {
            grace: grace.map(|g| g.max(0)),
            propagation,
            uid: meta::text(body, "/preconditions/uid").to_owned(),
            resource_version: meta::text(body, "/preconditions/resourceVersion").to_owned(),
            dry_run,
            admitted: false,
        })
    }
}

impl Options {
    /// In the form of `meta.k8s.io/v1`.
    fn to_value(&self) -> Value {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1" });
        if let Some(grace) = self.grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        if let Some(propagation) = &self.propagation {
            options["propagationPolicy"] = propagation.as_str().into();
        }
        for (key, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if !value.is_empty() {
                options["preconditions"][key] = value.as_str().into();
            }
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

/// State of an object after a delete.
enum Outcome {
    Gone(Arc<Value>),
    Marked(Arc<Value>),
}

/// DELETE of one object.
pub(crate) async fn delete(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let options = Options::read(call, bytes)?;
    let resource = call.resource;
    let outcome = delete_one(call, &call.info.name, &options).await?;
    Ok(match outcome {
        Outcome::Marked(object) => call.show(200, &object).await?,
        Outcome::Gone(object) if resource.is("", "pods") => call.show(200, &object).await?,
        Outcome::Gone(object) => {
            let mut details =
                json!({ "name": meta::name(&object), "kind": resource.plural, "uid": meta::uid(&object) });
            if !resource.group.is_empty() {
                details["group"] = resource.group.as_str().into();
            }
            json_response(200, &success(details))
        }
    })
}

/// Deletes a pod whose eviction is allowed, with these `DeleteOptions`; with a version, only if unchanged.
pub(crate) async fn evicted(
    call: &Call<'_>,
    sent: &Value,
    dry_run: bool,
    version: Option<&str>,
) -> ApiResult<()> {
    let mut options = Options::of(call, sent)?;
    options.dry_run |= dry_run;
    options.admitted = true;
    if let Some(version) = version.filter(|_| options.resource_version.is_empty()) {
        options.resource_version = version.to_owned();
    }
    if !options.dry_run {
        let wanted = std::mem::take(&mut options.resource_version);
        change(call, |pod| {
            let mut pod = Value::clone(pod);
            if !wanted.is_empty() {
                meta::metadata(&mut pod).insert("resourceVersion".to_owned(), wanted.as_str().into());
            }
            let conditions = meta::child(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
            if let Some(all) = conditions.as_array_mut() {
                all.retain(|condition| condition["type"] != "DisruptionTarget");
                all.push(json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": meta::now(),
                }));
            }
            Ok((pod, Tracking::Update))
        })
        .await?;
    }
    delete_one(call, &call.info.name, &options).await.map(drop)
}

/// DELETE of a collection: all objects that the selectors match.
pub(crate) async fn delete_collection(call: &Call<'_>, bytes: &[u8]) -> ApiResult<Response> {
    let options = Options::read(call, bytes)?;
    let (items, rv) = super::list::matching(call).await?;
    // Objects that cannot be converted are not deleted, as in Kubernetes: the response would be an error
    // after the deletion.
    convert::present_all(call.server, call.resource, items.clone()).await?;
    let mut deleted = Vec::new();
    for item in items {
        match delete_one(call, meta::name(&item), &options).await {
            Ok(Outcome::Gone(object) | Outcome::Marked(object)) => deleted.push(object),
            // A concurrent delete has the same result.
            Err(error) if error.code() == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let mut metadata = serde_json::Map::new();
    metadata.insert("resourceVersion".to_owned(), rv.to_string().into());
    let deleted = convert::present_all(call.server, call.resource, deleted).await?;
    let bytes = call.format.list(call.resource, &deleted, metadata, &call.server.serialized);
    Ok(super::status::bytes_response(200, "application/json", bytes))
}

async fn delete_one(call: &Call<'_>, name: &str, options: &Options) -> ApiResult<Outcome> {
    let resource = call.resource;
    let key: Key = call.key_of(name);
    let conflict = |why: String| ApiError::conflict(&resource.plural, &resource.group, name, &why);
    if resource.is("", "namespaces") && PROTECTED_NAMESPACES.contains(&name) {
        return Err(ApiError::forbidden("namespaces", "", name, "this namespace may not be deleted"));
    }
    loop {
        let Some(current) = call.server.store.get(&key) else {
            return Err(ApiError::not_found(&resource.plural, &resource.group, name));
        };
        for (what, wanted, have) in [
            ("UID", options.uid.as_str(), meta::uid(&current)),
            ("ResourceVersion", options.resource_version.as_str(), meta::resource_version(&current)),
        ] {
            if !wanted.is_empty() && wanted != have {
                return Err(conflict(format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {have}"
                )));
            }
        }
        let shown = convert::present(call.server, resource, &current).await?;
        if !options.admitted {
            admit(call, name, &shown, options).await?;
        }
        let marked = mark(resource, &current, options);
        let finished = is_finished(resource, &marked);
        if options.dry_run {
            return Ok(Outcome::Marked(Arc::new(marked)));
        }
        if !finished && marked == *current {
            return Ok(Outcome::Marked(current));
        }
        match commit(call, &key, Some(&current), (!finished).then_some(marked), None).await {
            Ok(Some(stored)) => {
                // The hook may have completed the deletion (a CRD without objects).
                return Ok(if call.server.store.get(&key).is_some() {
                    Outcome::Marked(stored)
                } else {
                    Outcome::Gone(stored)
                });
            }
            Ok(None) => return Ok(Outcome::Gone(current)),
            Err(WriteError::Raced) => {}
            Err(error) => return Err(storage_error(&error)),
        }
    }
}

/// Calls the admission webhooks for a delete.
async fn admit(call: &Call<'_>, name: &str, old: &Arc<Value>, options: &Options) -> ApiResult<()> {
    let sent = || options.to_value();
    let admission = AdmissionRequest {
        server: call.server,
        resource: call.resource,
        subresource: "",
        caller: call.caller,
        operation: Operation::Delete,
        namespace: &call.info.namespace,
        name,
        old: Some(old),
        dry_run: options.dry_run,
        options: &sent,
        warnings: &call.warnings,
    };
    webhooks::admit_request(&admission, None).await
}

/// The object with deletion timestamp, grace period, and the finalizers of the propagation policy.
fn mark(resource: &Resource, current: &Arc<Value>, options: &Options) -> Value {
    let mut object = Value::clone(current);
    let grace = if resource.is("", "pods") { pod_grace(current, options) } else { 0 };
    let was_deleting = meta::is_deleting(current);
    {
        let metadata = meta::metadata(&mut object);
        let mut finalizers: Vec<Value> =
            metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(policy) = &options.propagation {
            finalizers.retain(|f| f != "orphan" && f != "foregroundDeletion");
            match policy.as_str() {
                "Orphan" => finalizers.push("orphan".into()),
                "Foreground" => finalizers.push("foregroundDeletion".into()),
                _ => {}
            }
            meta::set_or_remove(metadata, "finalizers", (!finalizers.is_empty()).then(|| finalizers.into()));
        }
        let old = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        // A second delete can only shorten the grace period.
        if !was_deleting || old.is_some_and(|old| grace < old) {
            if !was_deleting || grace > 0 {
                metadata.insert("deletionTimestamp".to_owned(), meta::now_plus(grace).into());
            }
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
            if resource.generation && !was_deleting {
                let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
                metadata.insert("generation".to_owned(), (generation + 1).into());
            }
        }
    }
    if resource.is("", "namespaces") {
        meta::child(&mut object, "status").insert("phase".to_owned(), "Terminating".into());
    }
    object
}

/// As Kubernetes' pod strategy: an unscheduled or finished pod needs no grace period.
fn pod_grace(pod: &Value, options: &Options) -> i64 {
    if meta::text(pod, "/spec/nodeName").is_empty()
        || matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    options.grace.or_else(|| pod.pointer("/spec/terminationGracePeriodSeconds")?.as_i64()).unwrap_or(30)
}
