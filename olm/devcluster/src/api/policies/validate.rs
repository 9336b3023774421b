//! What validating policies say of a request: all are asked, and the first no refuses it.

use std::sync::Arc;

use olm_crd::Values;
use serde_json::Value;

use super::{
    namespace_object, params,
    policy::{Binding, Policy, Validation},
};
use crate::api::{
    registry::Resource,
    status::{ApiError, ApiResult},
    webhooks::{Asked, Equivalents, Kind, Question, by_rules, by_selectors, request, to_version},
};

/// A message that an expression makes has at most this many bytes, in Kubernetes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A no.
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: String::new() }
    }
}

/// Asks all validating policies that a request concerns.
pub(crate) async fn validate(asked: &Asked<'_>, object: Option<&Value>) -> ApiResult<()> {
    let policies = asked.server.policies.validating();
    let mut refusal = None;
    for policy in policies.iter() {
        let wanted = by_rules(&policy.matching, asked, &Equivalents::default());
        let Some(resource) = wanted else { continue };
        match by_selectors(&policy.matching, asked, object) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) if policy.ignores_failures => {
                tracing::warn!(policy = policy.name, error = error.message(), "failed to match a policy");
                continue;
            }
            Err(error) => {
                let denial = Denial::new(format!("failed to configure policy: {}", error.message()));
                refusal.get_or_insert_with(|| refuse(asked, &policy.name, None, denial));
                continue;
            }
        }
        let mut seen = None;
        for binding in &policy.bindings {
            for denial in decide(asked, policy, binding, &resource, object, &mut seen).await {
                if binding.warn {
                    asked.warn(&format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, denial.message
                    ));
                }
                if binding.deny {
                    refusal.get_or_insert_with(|| refuse(asked, &policy.name, Some(&binding.name), denial));
                }
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// A request as all bindings of a policy look at it.
struct Seen {
    object: Option<Arc<Value>>,
    old: Option<Arc<Value>>,
    request: Value,
    namespace: Arc<Value>,
}

impl Seen {
    /// In the version that the policy's rules name.
    async fn of(asked: &Asked<'_>, resource: &Arc<Resource>, object: Option<&Value>) -> Result<Self, String> {
        let request_kind = Kind::of(object, asked);
        let object = object.map(|object| Arc::new(object.clone()));
        let (object, old) = if request_kind.is_of(asked.resource) {
            let object = to_version(asked, resource, object).await;
            let old = to_version(asked, resource, asked.old.cloned()).await;
            match (object, old) {
                (Ok(object), Ok(old)) => (object, old),
                (Err(error), _) | (_, Err(error)) => {
                    return Err(format!("failed to convert object version: {}", error.message()));
                }
            }
        } else {
            (object, asked.old.cloned())
        };
        let kind = Kind::of(object.as_deref().or(old.as_deref()), asked);
        let question = Question {
            resource,
            kind: &kind,
            request_kind: &request_kind,
            object: object.as_deref(),
            old: old.as_ref(),
            mutating: false,
        };
        let request = request(asked, &question, "");
        Ok(Self { object, old, request, namespace: namespace_object(asked) })
    }
}

/// What a policy has against a request, as one of its bindings has it. The first binding that concerns it makes `seen`, which may ask
/// a webhook to convert.
async fn decide(
    asked: &Asked<'_>,
    policy: &Policy<Validation>,
    binding: &Binding,
    resource: &Arc<Resource>,
    object: Option<&Value>,
    seen: &mut Option<Result<Seen, String>>,
) -> Vec<Denial> {
    let broken = |why: &str| match policy.ignores_failures {
        true => Vec::new(),
        false => vec![Denial::new(format!("failed to configure binding: {why}"))],
    };
    match binding.concerns(asked, object) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(error) => return broken(error.message()),
    }
    let params = match params::collect(asked, policy.param_kind.as_ref(), binding).await {
        Ok(params) => params,
        Err(why) => return broken(&why),
    };
    let seen = match seen {
        Some(seen) => seen,
        None => seen.insert(Seen::of(asked, resource, object).await),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => return broken(why),
    };
    let null = Value::Null;
    let mut denials = Vec::new();
    for param in &params {
        let values = policy.variables.bind(&[
            ("object", seen.object.as_deref().unwrap_or(&null)),
            ("oldObject", seen.old.as_deref().unwrap_or(&null)),
            ("request", &seen.request),
            ("namespaceObject", seen.namespace.as_ref()),
            ("params", param.as_ref()),
        ]);
        denials.extend(policy.denials(&values));
    }
    denials
}

impl Binding {
    /// Whether it binds its policy for a request.
    pub(super) fn concerns(&self, asked: &Asked<'_>, object: Option<&Value>) -> ApiResult<bool> {
        let Some(matching) = &self.matching else { return Ok(true) };
        let rules = by_rules(matching, asked, &Equivalents::default()).is_some();
        Ok(rules && by_selectors(matching, asked, object)?)
    }
}

impl Policy<Validation> {
    fn denials(&self, values: &Values<'_>) -> Vec<Denial> {
        match self.conditions.decide(values) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(_) if self.ignores_failures => return Vec::new(),
            Err(why) => return vec![Denial::new(why)],
        }
        self.steps.iter().filter_map(|step| step.denial(values, self.ignores_failures)).collect()
    }
}

impl Validation {
    fn denial(&self, values: &Values<'_>, ignores_failures: bool) -> Option<Denial> {
        match self.expression.as_ref().map_err(Clone::clone).and_then(|e| e.holds(values)) {
            Ok(true) => None,
            Ok(false) => Some(Denial { message: self.message(values), reason: self.reason.clone() }),
            Err(_) if ignores_failures => None,
            Err(why) => Some(Denial::new(format!("expression '{}' resulted in error: {why}", self.text))),
        }
    }

    /// What the expression for it makes, or the text, or the expression that is not true.
    fn message(&self, values: &Values<'_>) -> String {
        let made = self.message_expression.as_ref().and_then(|e| e.as_ref().ok()?.value(values).ok());
        let made = made.as_ref().and_then(Value::as_str).map(str::trim);
        let usable = |text: &&str| !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        match made.filter(usable) {
            Some(made) => made.to_owned(),
            None if !self.message.is_empty() => self.message.clone(),
            None => format!("failed expression: {}", self.text),
        }
    }
}

fn refuse(asked: &Asked<'_>, policy: &str, binding: Option<&str>, denial: Denial) -> ApiError {
    let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message);
    let reason = if denial.reason.is_empty() { "Invalid" } else { &denial.reason };
    let code = match reason {
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let resource = asked.resource;
    let text = ApiError::forbidden(&resource.plural, &resource.group, asked.name, &message);
    ApiError::new(code, reason, text.message())
        .about(&resource.plural, &resource.group, asked.name)
        .causes([message])
}
