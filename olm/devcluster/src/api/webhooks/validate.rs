//! The validating webhooks: all at once, and none may say no.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use futures::future::join_all;
use serde_json::Value;

use super::{
    Asked,
    hook::Hook,
    matching::{self, Equivalents, Kind},
    review::{self, Question, Refusal},
};
use crate::api::{
    convert, policies,
    registry::Resource,
    status::{ApiError, ApiResult},
};

/// The objects of a request in one version.
struct Versioned {
    object: Option<Arc<Value>>,
    old: Option<Arc<Value>>,
    kind: Kind,
}

/// Asks all policies, then all validating webhooks that a request concerns; the first no, in their order, refuses it.
pub(crate) async fn validate(asked: &Asked<'_>, object: Option<&Value>) -> ApiResult<()> {
    if !asked.is_exempt() {
        policies::validate(asked, object).await?;
    }
    let hooks = asked.server.webhooks.validating();
    let chosen = choose(&hooks, asked, object)?;
    if chosen.is_empty() {
        return Ok(());
    }
    let request_kind = Kind::of(object, asked);
    let mut versions: HashMap<String, Versioned> = HashMap::new();
    for (_, resource) in &chosen {
        if let Entry::Vacant(entry) = versions.entry(resource.api_version()) {
            entry.insert(in_version(asked, resource, object, &request_kind).await?);
        }
    }
    let mut calls = Vec::new();
    for (hook, resource) in &chosen {
        let Some(versioned) = versions.get(&resource.api_version()) else { continue };
        let object = versioned.object.as_deref();
        let old = versioned.old.as_ref();
        let (kind, request_kind) = (&versioned.kind, &request_kind);
        let question = Question { resource, kind, request_kind, object, old, mutating: false };
        if !hook.conditions.hold(asked, &question, hook.ignores_failures)? {
            continue;
        }
        calls.push(async move { (hook, review::call(hook, asked, &question).await) });
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
    asked: &Asked<'_>,
    object: Option<&Value>,
) -> ApiResult<Vec<(&'h Hook, Arc<Resource>)>> {
    let mut chosen = Vec::new();
    if asked.is_exempt() {
        return Ok(chosen);
    }
    let others = Equivalents::default();
    for hook in hooks {
        if let Some(resource) = matching::by_rules(&hook.matching, asked, &others)
            && matching::by_selectors(&hook.matching, asked, object)?
        {
            chosen.push((hook, resource));
        }
    }
    Ok(chosen)
}

async fn in_version(
    asked: &Asked<'_>,
    resource: &Arc<Resource>,
    object: Option<&Value>,
    request_kind: &Kind,
) -> ApiResult<Versioned> {
    let object = object.map(|o| Arc::new(o.clone()));
    let old = asked.old.cloned();
    if resource.version == asked.resource.version && resource.group == asked.resource.group
        || !request_kind.is_of(asked.resource)
    {
        let kind = Kind {
            group: request_kind.group.clone(),
            version: request_kind.version.clone(),
            kind: request_kind.kind.clone(),
        };
        return Ok(Versioned { object, old, kind });
    }
    Ok(Versioned {
        object: to_version(asked, resource, object).await?,
        old: to_version(asked, resource, old).await?,
        kind: Kind::of_resource(resource),
    })
}

/// An object in another version of its resource; what cannot be converted refuses the request.
pub(crate) async fn to_version(
    asked: &Asked<'_>,
    resource: &Resource,
    object: Option<Arc<Value>>,
) -> ApiResult<Option<Arc<Value>>> {
    match object {
        None => Ok(None),
        Some(object) => match convert::present(asked.server, resource, &object).await {
            Ok(converted) => Ok(Some(converted)),
            Err(error) => Err(ApiError::internal(error.message())),
        },
    }
}
