//! Calls validating webhooks: all concurrently, and every one must allow the request.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use futures::future::join_all;
use serde_json::Value;

use super::{
    hook::Hook,
    matching::{self, Equivalents, Kind},
    request::{AdmissionRequest, to_version},
    review::{self, Refusal, ReviewSubject},
};
use crate::{policies, resource::Resource, status::ApiResult};

/// The objects of a request in one version.
struct Versioned {
    object: Option<Arc<Value>>,
    old: Option<Arc<Value>>,
    kind: Kind,
}

/// Evaluates all policies, then calls all validating webhooks that match a request; the first denial, in
/// their order, refuses it.
pub(crate) async fn validate(admission: &AdmissionRequest<'_>, object: Option<&Value>) -> ApiResult<()> {
    if !admission.is_exempt() {
        policies::validate(admission, object).await?;
    }
    let hooks = admission.server.webhooks.validating();
    let chosen = choose(&hooks, admission, object)?;
    if chosen.is_empty() {
        return Ok(());
    }
    let request_kind = Kind::of(object, admission);
    let mut versions: HashMap<String, Versioned> = HashMap::new();
    for (_, resource) in &chosen {
        if let Entry::Vacant(entry) = versions.entry(resource.api_version()) {
            entry.insert(in_version(admission, resource, object, &request_kind).await?);
        }
    }
    let mut calls = Vec::new();
    for (hook, resource) in &chosen {
        let Some(versioned) = versions.get(&resource.api_version()) else { continue };
        let object = versioned.object.as_deref();
        let old = versioned.old.as_ref();
        let (kind, request_kind) = (&versioned.kind, &request_kind);
        let subject = ReviewSubject { resource, kind, request_kind, object, old, mutating: false };
        if !review::applies(hook, admission, &subject)? {
            continue;
        }
        calls.push(async move { (hook, review::call(hook, admission, &subject).await) });
    }
    for (hook, answer) in join_all(calls).await {
        match answer {
            Ok(_) => {}
            Err(Refusal::Failed(error)) if hook.ignores_failures => {
                tracing::warn!(webhook = hook.name, %error, "webhook failed, ignored (failurePolicy Ignore)");
            }
            Err(Refusal::Failed(error) | Refusal::Denied(error)) => return Err(error),
        }
    }
    Ok(())
}

fn choose<'h>(
    hooks: &'h [Hook],
    admission: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> ApiResult<Vec<(&'h Hook, Arc<Resource>)>> {
    let mut chosen = Vec::new();
    if admission.is_exempt() {
        return Ok(chosen);
    }
    let others = Equivalents::default();
    for hook in hooks {
        if let Some(resource) = matching::by_rules(&hook.matching, admission, &others)
            && matching::by_selectors(&hook.matching, admission, object)?
        {
            chosen.push((hook, resource));
        }
    }
    Ok(chosen)
}

async fn in_version(
    admission: &AdmissionRequest<'_>,
    resource: &Arc<Resource>,
    object: Option<&Value>,
    request_kind: &Kind,
) -> ApiResult<Versioned> {
    let object = object.map(|o| Arc::new(o.clone()));
    let old = admission.old.cloned();
    if resource.version == admission.resource.version && resource.group == admission.resource.group
        || !request_kind.is_of(admission.resource)
    {
        let kind = Kind {
            group: request_kind.group.clone(),
            version: request_kind.version.clone(),
            kind: request_kind.kind.clone(),
        };
        return Ok(Versioned { object, old, kind });
    }
    Ok(Versioned {
        object: to_version(admission, resource, object).await?,
        old: to_version(admission, resource, old).await?,
        kind: Kind::of_resource(resource),
    })
}
