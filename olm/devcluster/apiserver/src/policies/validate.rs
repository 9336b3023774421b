//! Evaluates validating policies: all run, and the first denial refuses the request.

use std::sync::Arc;

use olm_kube_schema::Values;
use serde_json::Value;

use super::{
    params::{self, namespace_object},
    policy::{Binding, Policy, Validation},
};
use crate::{
    resource::Resource,
    status::{ApiError, ApiResult},
    webhooks::{
        matching::{Equivalents, Kind, by_rules, by_selectors},
        request::{AdmissionRequest, to_version},
        review::{ReviewSubject, request},
    },
};

/// Kubernetes' limit of a message from a `messageExpression`, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: String::new() }
    }
}

/// Evaluates all validating policies that match a request.
pub(crate) async fn validate(admission: &AdmissionRequest<'_>, object: Option<&Value>) -> ApiResult<()> {
    let policies = admission.server.policies.validating();
    let mut refusal = None;
    for policy in policies.iter() {
        let wanted = by_rules(&policy.matching, admission, &Equivalents::default());
        let Some(resource) = wanted else { continue };
        match by_selectors(&policy.matching, admission, object) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) if policy.ignores_failures => {
                tracing::warn!(policy = policy.name, error = error.message(), "failed to match a policy");
                continue;
            }
            Err(error) => {
                let denial = Denial::new(format!("failed to configure policy: {}", error.message()));
                refusal.get_or_insert_with(|| refuse(admission, &policy.name, None, denial));
                continue;
            }
        }
        let mut input = None;
        for binding in &policy.bindings {
            for denial in decide(admission, policy, binding, &resource, object, &mut input).await {
                if binding.warn {
                    admission.warn(&format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, denial.message
                    ));
                }
                if binding.deny {
                    refusal
                        .get_or_insert_with(|| refuse(admission, &policy.name, Some(&binding.name), denial));
                }
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

/// A request in the form that all bindings of a policy share.
struct PolicyInput {
    object: Option<Arc<Value>>,
    old: Option<Arc<Value>>,
    request: Value,
    namespace: Arc<Value>,
}

impl PolicyInput {
    /// Converts to the version that the policy's rules name.
    async fn of(
        admission: &AdmissionRequest<'_>,
        resource: &Arc<Resource>,
        object: Option<&Value>,
    ) -> Result<Self, String> {
        let request_kind = Kind::of(object, admission);
        let object = object.map(|object| Arc::new(object.clone()));
        let (object, old) = if request_kind.is_of(admission.resource) {
            let object = to_version(admission, resource, object).await;
            let old = to_version(admission, resource, admission.old.cloned()).await;
            match (object, old) {
                (Ok(object), Ok(old)) => (object, old),
                (Err(error), _) | (_, Err(error)) => {
                    return Err(format!("failed to convert object version: {}", error.message()));
                }
            }
        } else {
            (object, admission.old.cloned())
        };
        let kind = Kind::of(object.as_deref().or(old.as_deref()), admission);
        let question = ReviewSubject {
            resource,
            kind: &kind,
            request_kind: &request_kind,
            object: object.as_deref(),
            old: old.as_ref(),
            mutating: false,
        };
        let request = request(admission, &question, "");
        Ok(Self { object, old, request, namespace: namespace_object(admission) })
    }
}

/// Denials of a policy for one of its bindings. The first matching binding creates `input`, which may call a
/// conversion webhook.
async fn decide(
    admission: &AdmissionRequest<'_>,
    policy: &Policy<Validation>,
    binding: &Binding,
    resource: &Arc<Resource>,
    object: Option<&Value>,
    input: &mut Option<Result<PolicyInput, String>>,
) -> Vec<Denial> {
    let broken = |why: &str| match policy.ignores_failures {
        true => Vec::new(),
        false => vec![Denial::new(format!("failed to configure binding: {why}"))],
    };
    match binding.concerns(admission, object) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(error) => return broken(error.message()),
    }
    let params = match params::collect(admission, policy.param_kind.as_ref(), binding).await {
        Ok(params) => params,
        Err(why) => return broken(&why),
    };
    let input = match input {
        Some(input) => input,
        None => input.insert(PolicyInput::of(admission, resource, object).await),
    };
    let input = match input {
        Ok(input) => input,
        Err(why) => return broken(why),
    };
    let null = Value::Null;
    let mut denials = Vec::new();
    for param in &params {
        let values = policy.variables.bind(&[
            ("object", input.object.as_deref().unwrap_or(&null)),
            ("oldObject", input.old.as_deref().unwrap_or(&null)),
            ("request", &input.request),
            ("namespaceObject", input.namespace.as_ref()),
            ("params", param.as_ref()),
        ]);
        denials.extend(policy.denials(&values));
    }
    denials
}

impl Binding {
    /// Whether the binding matches a request.
    pub(super) fn concerns(
        &self,
        admission: &AdmissionRequest<'_>,
        object: Option<&Value>,
    ) -> ApiResult<bool> {
        let Some(matching) = &self.matching else { return Ok(true) };
        let rules = by_rules(matching, admission, &Equivalents::default()).is_some();
        Ok(rules && by_selectors(matching, admission, object)?)
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

    /// The message of the `messageExpression`, the literal message, or the failed expression.
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

fn refuse(admission: &AdmissionRequest<'_>, policy: &str, binding: Option<&str>, denial: Denial) -> ApiError {
    let with = binding.map(|binding| format!(" with binding '{binding}'")).unwrap_or_default();
    let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message);
    let reason = if denial.reason.is_empty() { "Invalid" } else { &denial.reason };
    let code = match reason {
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let resource = admission.resource;
    let text = ApiError::forbidden(&resource.plural, &resource.group, admission.name, &message);
    ApiError::new(code, reason, text.message())
        .with_object(&resource.plural, &resource.group, admission.name)
        .causes([message])
}
