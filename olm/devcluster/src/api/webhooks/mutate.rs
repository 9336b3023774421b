//! The mutating webhooks: one after the other, each sees what those before it made of the object.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

use super::{
    Asked,
    hook::Hook,
    matching::{self, Equivalents, Kind},
    review::{self, Question, Refusal},
    validate::to_version,
};
use crate::{
    api::{
        policies, prepare,
        registry::Resource,
        status::{ApiError, ApiResult},
    },
    machinery::patch,
};

/// Which webhooks are called again, by their place in the order.
#[derive(Default)]
struct Again {
    /// Called and willing to be called again; cleared when the object changed after them.
    earlier: HashSet<usize>,
    /// To be called in the second round.
    wanted: HashSet<usize>,
}

impl Again {
    fn changed(&mut self) {
        self.wanted.extend(self.earlier.drain());
    }
}

/// The object on its way through the webhooks, in the version of the last one that was asked.
struct Travelling {
    resource: Arc<Resource>,
    object: Option<Arc<Value>>,
    old: Option<Arc<Value>>,
}

/// Has the mutating policies that a request concerns change its object, then the webhooks; says whether it changed.
///
/// `built_in` is what the API server itself adds to objects; it runs again when somebody changed something. So do policies
/// that ask for it.
pub(crate) async fn mutate(
    asked: &Asked<'_>,
    object: Option<&mut Value>,
    built_in: &mut (dyn FnMut(&mut Value) -> ApiResult<()> + Send),
) -> ApiResult<bool> {
    let Some(object) = object else { return ask(asked, None, built_in).await };
    // Most requests concern nobody: they are neither copied nor looked at twice.
    if !asked.concerns_somebody() {
        return Ok(false);
    }
    let mut rounds = policies::Rounds::default();
    let mut changed = policies::mutate(asked, object, &mut rounds, false).await?;
    let made = object.clone();
    if changed {
        built_in(object)?;
    }
    changed |= ask(asked, Some(object), built_in).await?;
    if *object != made {
        rounds.changed();
    }
    if rounds.has_second() {
        changed |= policies::mutate(asked, object, &mut rounds, true).await?;
        built_in(object)?;
    }
    Ok(changed)
}

/// Asks the mutating webhooks that a request concerns and applies their patches; says whether the object changed.
async fn ask(
    asked: &Asked<'_>,
    object: Option<&mut Value>,
    built_in: &mut (dyn FnMut(&mut Value) -> ApiResult<()> + Send),
) -> ApiResult<bool> {
    let hooks = asked.server.webhooks.mutating();
    if !asked.concerns(&hooks) {
        return Ok(false);
    }
    let Some(object) = object else {
        let mut nothing =
            Travelling { resource: asked.resource.clone(), object: None, old: asked.old.cloned() };
        round(asked, &hooks, &mut nothing, &mut Again::default(), None).await?;
        return Ok(false);
    };
    let mut travelling = Travelling {
        resource: asked.resource.clone(),
        object: Some(Arc::new(object.clone())),
        old: asked.old.cloned(),
    };
    let mut again = Again::default();
    let mut changed = round(asked, &hooks, &mut travelling, &mut again, None).await?;
    if changed {
        let mut present = back(asked, &mut travelling).await?;
        let before = present.clone();
        built_in(&mut present)?;
        if present != before {
            again.changed();
        }
        travelling.object = Some(Arc::new(present));
        let wanted = std::mem::take(&mut again.wanted);
        if !wanted.is_empty() {
            changed |= round(asked, &hooks, &mut travelling, &mut again, Some(&wanted)).await?;
        }
        *object = back(asked, &mut travelling).await?;
    }
    Ok(changed)
}

/// The object in the version of the request.
async fn back(asked: &Asked<'_>, travelling: &mut Travelling) -> ApiResult<Value> {
    let object = to_version(asked, asked.resource, travelling.object.take()).await?;
    travelling.resource = asked.resource.clone();
    travelling.old = asked.old.cloned();
    object.map(Arc::unwrap_or_clone).ok_or_else(|| ApiError::internal("the object was lost between webhooks"))
}

/// Once through the webhooks; in the second round only through those that are to be called again.
async fn round(
    asked: &Asked<'_>,
    hooks: &[Hook],
    travelling: &mut Travelling,
    again: &mut Again,
    only: Option<&HashSet<usize>>,
) -> ApiResult<bool> {
    let request_kind = Kind::of(travelling.object.as_deref(), asked);
    let converts = request_kind.is_of(asked.resource);
    let mut any = false;
    for (place, hook) in hooks.iter().enumerate() {
        if only.is_some_and(|only| !only.contains(&place)) {
            continue;
        }
        // Not kept over a call: the lookup is cheap, and its cell is for one thread.
        let wanted = matching::by_rules(&hook.matching, asked, &Equivalents::default());
        let Some(resource) = wanted else { continue };
        if !matching::by_selectors(&hook.matching, asked, travelling.object.as_deref())? {
            continue;
        }
        if converts && travelling.resource.api_version() != resource.api_version() {
            travelling.object = to_version(asked, &resource, travelling.object.take()).await?;
            travelling.old = to_version(asked, &resource, travelling.old.take()).await?;
            travelling.resource = resource.clone();
        }
        let kind = Kind::of(travelling.object.as_deref().or(travelling.old.as_deref()), asked);
        let (object, old) = (travelling.object.as_deref(), travelling.old.as_ref());
        let question = Question {
            resource: &resource,
            kind: &kind,
            request_kind: &request_kind,
            object,
            old,
            mutating: true,
        };
        if !hook.conditions.hold(asked, &question, hook.ignores_failures)? {
            continue;
        }
        let answer = review::call(hook, asked, &question).await;
        let patched = match answer {
            Ok(answer) => apply(hook, travelling, &answer.patch, converts)?,
            Err(Refusal::Failed(error)) if hook.ignores_failures => {
                tracing::warn!(webhook = hook.name, %error, "webhook failed, ignored (failurePolicy Ignore)");
                false
            }
            Err(Refusal::Failed(error) | Refusal::Denied(error)) => return Err(error),
        };
        if patched {
            any = true;
            again.changed();
        }
        if hook.reinvocable {
            again.earlier.insert(place);
        }
    }
    Ok(any)
}

/// Applies a patch; says whether it changed anything.
fn apply(hook: &Hook, travelling: &mut Travelling, patch: &Value, whole: bool) -> ApiResult<bool> {
    if patch.as_array().is_none_or(Vec::is_empty) {
        return Ok(false);
    }
    let Some(object) = &travelling.object else {
        return Err(ApiError::internal(format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    };
    let mut patched = patch::json_patch(object, patch).map_err(ApiError::internal)?;
    if whole {
        prepare::conform(&travelling.resource, &mut patched)?;
    }
    let changed = patched != **object;
    travelling.object = Some(Arc::new(patched));
    Ok(changed)
}
