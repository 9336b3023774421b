//! Calls mutating webhooks in order: each sees the result of the previous ones.

use std::{collections::HashSet, sync::Arc};

use olm_devcluster_machinery::patch;
use serde_json::Value;

use super::{
    hook::Hook,
    matching::{self, Equivalents, Kind},
    request::{AdmissionRequest, to_version},
    review::{self, Refusal, ReviewSubject},
};
use crate::{
    policies, prepare,
    resource::Resource,
    status::{ApiError, ApiResult},
};

/// Tracks the webhooks to reinvoke, by index.
#[derive(Default)]
struct Reinvocation {
    /// Called and reinvocable; cleared when a later change of the object schedules them.
    earlier: HashSet<usize>,
    /// To be called in the second round.
    wanted: HashSet<usize>,
}

impl Reinvocation {
    fn changed(&mut self) {
        self.wanted.extend(self.earlier.drain());
    }
}

/// The object during the calls, in the version of the last called webhook.
struct ReviewedObject {
    resource: Arc<Resource>,
    object: Option<Arc<Value>>,
    old: Option<Arc<Value>>,
}

/// Applies the mutating policies that match a request, then the webhooks; returns whether the object changed.
///
/// `built_in` are the API server's own admission plugins; they run again after a change, as do reinvocable
/// policies.
pub(crate) async fn mutate(
    admission: &AdmissionRequest<'_>,
    object: Option<&mut Value>,
    built_in: &mut (dyn FnMut(&mut Value) -> ApiResult<()> + Send),
) -> ApiResult<bool> {
    let Some(object) = object else { return call_webhooks(admission, None, built_in).await };
    // Most requests match none: they are not copied.
    if !admission.matches_any() {
        return Ok(false);
    }
    let mut rounds = policies::Reinvocations::default();
    let mut changed = policies::mutate(admission, object, &mut rounds, false).await?;
    let made = object.clone();
    if changed {
        built_in(object)?;
    }
    changed |= call_webhooks(admission, Some(object), built_in).await?;
    if *object != made {
        rounds.changed();
    }
    if rounds.has_second() {
        changed |= policies::mutate(admission, object, &mut rounds, true).await?;
        built_in(object)?;
    }
    Ok(changed)
}

/// Calls the mutating webhooks that match a request and applies their patches; returns whether the object
/// changed.
async fn call_webhooks(
    admission: &AdmissionRequest<'_>,
    object: Option<&mut Value>,
    built_in: &mut (dyn FnMut(&mut Value) -> ApiResult<()> + Send),
) -> ApiResult<bool> {
    let hooks = admission.server.webhooks.mutating();
    if !admission.concerns(&hooks) {
        return Ok(false);
    }
    let Some(object) = object else {
        let mut nothing = ReviewedObject {
            resource: admission.resource.clone(),
            object: None,
            old: admission.old.cloned(),
        };
        round(admission, &hooks, &mut nothing, &mut Reinvocation::default(), None).await?;
        return Ok(false);
    };
    let mut reviewed = ReviewedObject {
        resource: admission.resource.clone(),
        object: Some(Arc::new(object.clone())),
        old: admission.old.cloned(),
    };
    let mut reinvocation = Reinvocation::default();
    let mut changed = round(admission, &hooks, &mut reviewed, &mut reinvocation, None).await?;
    if changed {
        let mut present = back(admission, &mut reviewed).await?;
        let before = present.clone();
        built_in(&mut present)?;
        if present != before {
            reinvocation.changed();
        }
        reviewed.object = Some(Arc::new(present));
        let wanted = std::mem::take(&mut reinvocation.wanted);
        if !wanted.is_empty() {
            changed |= round(admission, &hooks, &mut reviewed, &mut reinvocation, Some(&wanted)).await?;
        }
        *object = back(admission, &mut reviewed).await?;
    }
    Ok(changed)
}

/// Converts the object back to the version of the request.
async fn back(admission: &AdmissionRequest<'_>, reviewed: &mut ReviewedObject) -> ApiResult<Value> {
    let object = to_version(admission, admission.resource, reviewed.object.take()).await?;
    reviewed.resource = admission.resource.clone();
    reviewed.old = admission.old.cloned();
    object.map(Arc::unwrap_or_clone).ok_or_else(|| ApiError::internal("the object was lost between webhooks"))
}

/// One round of the webhooks; the second round only calls the scheduled ones.
async fn round(
    admission: &AdmissionRequest<'_>,
    hooks: &[Hook],
    reviewed: &mut ReviewedObject,
    reinvocation: &mut Reinvocation,
    only: Option<&HashSet<usize>>,
) -> ApiResult<bool> {
    let request_kind = Kind::of(reviewed.object.as_deref(), admission);
    let converts = request_kind.is_of(admission.resource);
    let mut any = false;
    for (place, hook) in hooks.iter().enumerate() {
        if only.is_some_and(|only| !only.contains(&place)) {
            continue;
        }
        // Not held across a call: the lookup is cheap, and its cell is not `Sync`.
        let wanted = matching::by_rules(&hook.matching, admission, &Equivalents::default());
        let Some(resource) = wanted else { continue };
        if !matching::by_selectors(&hook.matching, admission, reviewed.object.as_deref())? {
            continue;
        }
        if converts && reviewed.resource.api_version() != resource.api_version() {
            reviewed.object = to_version(admission, &resource, reviewed.object.take()).await?;
            reviewed.old = to_version(admission, &resource, reviewed.old.take()).await?;
            reviewed.resource = resource.clone();
        }
        let kind = Kind::of(reviewed.object.as_deref().or(reviewed.old.as_deref()), admission);
        let (object, old) = (reviewed.object.as_deref(), reviewed.old.as_ref());
        let subject = ReviewSubject {
            resource: &resource,
            kind: &kind,
            request_kind: &request_kind,
            object,
            old,
            mutating: true,
        };
        if !review::applies(hook, admission, &subject)? {
            continue;
        }
        let answer = review::call(hook, admission, &subject).await;
        let patched = match answer {
            Ok(answer) => apply(hook, reviewed, &answer.patch, converts)?,
            Err(Refusal::Failed(error)) if hook.ignores_failures => {
                tracing::warn!(webhook = hook.name, %error, "webhook failed, ignored (failurePolicy Ignore)");
                false
            }
            Err(Refusal::Failed(error) | Refusal::Denied(error)) => return Err(error),
        };
        if patched {
            any = true;
            reinvocation.changed();
        }
        if hook.reinvocable {
            reinvocation.earlier.insert(place);
        }
    }
    Ok(any)
}

/// Applies a patch; returns whether it changed the object.
fn apply(hook: &Hook, reviewed: &mut ReviewedObject, patch: &Value, whole: bool) -> ApiResult<bool> {
    if patch.as_array().is_none_or(Vec::is_empty) {
        return Ok(false);
    }
    let Some(object) = &reviewed.object else {
        return Err(ApiError::internal(format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    };
    let mut patched = patch::json_patch(object, patch).map_err(ApiError::internal)?;
    if whole {
        prepare::conform(&reviewed.resource, &mut patched)?;
    }
    let changed = patched != **object;
    reviewed.object = Some(Arc::new(patched));
    Ok(changed)
}
