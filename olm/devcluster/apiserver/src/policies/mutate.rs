//! Applies mutating policies in order: each sees the result of the previous ones.

use std::{collections::HashSet, sync::Arc};

use olm_devcluster_machinery::{
    layout::{Layout, List},
    patch::{self, PatchError},
    ssa,
};
use olm_kube_schema::{Expression, Values};
use serde_json::Value;

use super::{
    params::{self, namespace_object},
    policy::{Binding, Mutation, Policy},
};
use crate::{
    meta, prepare,
    resource::Resource,
    status::{ApiError, ApiResult},
    webhooks::{
        matching::{Equivalents, Kind, by_rules, by_selectors},
        request::{AdmissionRequest, to_version},
        review::{ReviewSubject, request},
    },
};

/// Policy, binding and parameters, which identify a call for reinvocation.
type Call = (String, String, String);

/// Tracks the policies to reinvoke after later changes of the object.
#[derive(Default)]
pub(crate) struct Reinvocations {
    /// Called and reinvocable.
    earlier: HashSet<Call>,
    /// To be called in the second round.
    scheduled: HashSet<Call>,
}

impl Reinvocations {
    /// Marks the earlier policies for reinvocation after a change of the object.
    pub(crate) fn changed(&mut self) {
        self.scheduled.extend(self.earlier.drain());
    }

    /// Whether any policy runs in the second round.
    pub(crate) fn has_second(&self) -> bool {
        !self.scheduled.is_empty()
    }
}

/// A policy that failed.
struct Failure {
    policy: String,
    binding: Option<String>,
    what: String,
    /// Whether the mutation itself failed.
    at_work: bool,
}

/// Applies all mutating policies that match a request; returns whether the object changed. The `second` round
/// calls only those that were called in the first, are reinvocable and have seen a change.
pub(crate) async fn mutate(
    admission: &AdmissionRequest<'_>,
    object: &mut Value,
    rounds: &mut Reinvocations,
    second: bool,
) -> ApiResult<bool> {
    let policies = admission.server.policies.mutating();
    let mut failures = Vec::new();
    let before = object.clone();
    for policy in policies.iter() {
        let wanted = by_rules(&policy.matching, admission, &Equivalents::default());
        let Some(resource) = wanted else { continue };
        let mut fail = |binding: Option<&Binding>, what: String, at_work: bool| {
            if policy.ignores_failures {
                tracing::warn!(policy = policy.name, what, "policy failed, ignored (failurePolicy Ignore)");
                return;
            }
            let binding = binding.map(|b| b.name.clone());
            failures.push(Failure { policy: policy.name.clone(), binding, what, at_work });
        };
        match by_selectors(&policy.matching, admission, Some(object)) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                fail(None, format!("failed to configure policy: {}", error.message()), false);
                continue;
            }
        }
        for binding in &policy.bindings {
            let unfit = |why: &str| format!("failed to configure binding: {why}");
            match binding.concerns(admission, Some(object)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    fail(Some(binding), unfit(error.message()), false);
                    continue;
                }
            }
            let params = match params::collect(admission, policy.param_kind.as_ref(), binding).await {
                Ok(params) => params,
                Err(why) => {
                    fail(Some(binding), unfit(&why), false);
                    continue;
                }
            };
            for param in params {
                let key = format!("{}/{}", meta::namespace(&param), meta::name(&param));
                let call = (policy.name.clone(), binding.name.clone(), key);
                if second && !rounds.scheduled.contains(&call) {
                    continue;
                }
                let outcome = apply(admission, policy, &resource, object, &param).await?;
                for what in outcome.failed {
                    fail(Some(binding), what, true);
                }
                let Some(changed) = outcome.changed else { continue };
                if let Some(new) = changed {
                    *object = new;
                    rounds.changed();
                }
                if policy.reinvocable && !second {
                    rounds.earlier.insert(call);
                }
            }
        }
    }
    match failures.first() {
        None => Ok(before != *object),
        Some(first) => Err(refuse(admission, first, &failures)),
    }
}

/// Result of a policy.
struct Outcome {
    /// `None` when its conditions did not hold; otherwise the changed object, if it changed.
    changed: Option<Option<Value>>,
    failed: Vec<String>,
}

/// Evaluates and applies a policy.
async fn apply(
    admission: &AdmissionRequest<'_>,
    policy: &Policy<Mutation>,
    resource: &Arc<Resource>,
    object: &Value,
    param: &Value,
) -> ApiResult<Outcome> {
    let request_kind = Kind::of(Some(object), admission);
    let whole = request_kind.is_of(admission.resource);
    let start = Arc::new(object.clone());
    let (mut current, old) = if whole {
        let current = to_version(admission, resource, Some(start)).await?;
        (current.unwrap_or_default(), to_version(admission, resource, admission.old.cloned()).await?)
    } else {
        (start, admission.old.cloned())
    };
    let first = Arc::clone(&current);
    let namespace = namespace_object(admission);
    let null = Value::Null;
    let mut failed = Vec::new();
    for (at, mutation) in policy.steps.iter().enumerate() {
        let made = {
            let kind = Kind::of(Some(&current), admission);
            let question = ReviewSubject {
                resource,
                kind: &kind,
                request_kind: &request_kind,
                object: Some(&current),
                old: old.as_ref(),
                mutating: true,
            };
            let request = request(admission, &question, "");
            let values = policy.variables.bind(&[
                ("object", current.as_ref()),
                ("oldObject", old.as_deref().unwrap_or(&null)),
                ("request", &request),
                ("namespaceObject", namespace.as_ref()),
                ("params", param),
            ]);
            if at == 0 {
                match policy.conditions.decide(&values) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Outcome { changed: None, failed }),
                    Err(why) => return Ok(Outcome { changed: None, failed: vec![why] }),
                }
            }
            mutation.patched(resource, &current, &values)
        };
        match made {
            Ok(mut made) => {
                if whole {
                    prepare::conform(resource, &mut made)?;
                }
                current = Arc::new(made);
            }
            Err(why) => failed.push(why),
        }
    }
    if current == first {
        return Ok(Outcome { changed: Some(None), failed });
    }
    let back =
        if whole { to_version(admission, admission.resource, Some(current)).await? } else { Some(current) };
    Ok(Outcome { changed: Some(back.map(Arc::unwrap_or_clone)), failed })
}

impl Mutation {
    fn patched(&self, resource: &Resource, object: &Value, values: &Values<'_>) -> Result<Value, String> {
        let value = |e: &Result<Expression, String>| e.as_ref().map_err(Clone::clone)?.value(values);
        match self {
            Self::Fields(expression) => {
                let fields = value(expression)?;
                let layout = resource.layout();
                let mut atomic = Vec::new();
                atomics(layout, &fields, "", &mut atomic);
                if !atomic.is_empty() {
                    return Err(format!(
                        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
                        atomic.join(", ")
                    ));
                }
                Ok(ssa::merged(layout, object, &fields))
            }
            Self::Patch(expression) => match patch::json_patch(object, &value(expression)?) {
                Ok(patched) => Ok(patched),
                // A failed test means that the patch does not apply.
                Err(PatchError::TestFailed(_)) => Ok(object.clone()),
                Err(error) => Err(format!("JSON Patch: {error}")),
            },
        }
    }
}

/// Paths of atomic values: setting some of their fields would drop the others.
fn atomics(layout: Layout<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if layout.is_atomic_object() {
                found.push(path.to_owned());
            }
            for (key, value) in map {
                atomics(layout.field(key), value, &format!("{path}.{key}"), found);
            }
        }
        Value::Array(list) => {
            if matches!(layout.list(), List::Atomic) {
                found.push(path.to_owned());
            }
            for (index, item) in list.iter().enumerate() {
                atomics(layout.item(), item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// The first failure is the message, all are causes.
fn refuse(admission: &AdmissionRequest<'_>, first: &Failure, all: &[Failure]) -> ApiError {
    let text = |failure: &Failure| match &failure.binding {
        Some(binding) => {
            format!("policy '{}' with binding '{binding}' denied request: {}", failure.policy, failure.what)
        }
        None => format!("policy {:?} denied request: {}", failure.policy, failure.what),
    };
    let reason = if first.at_work { "Invalid" } else { "Forbidden" };
    let resource = admission.resource;
    ApiError::new(403, reason, text(first))
        .with_object(&resource.plural, &resource.group, admission.name)
        .causes(all.iter().map(text))
}
