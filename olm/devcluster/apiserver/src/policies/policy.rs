//! Policies and their bindings, compiled.

use std::sync::Arc;

use olm_kube_schema::{ExpectedType, Expression, Named};
use serde_json::Value;

use crate::{
    meta::{self, list, text},
    store::Store,
    webhooks::{
        active::GROUP,
        conditions::{Conditions, VARIABLES},
        hook::Matching,
    },
};

/// Variables of policy expressions; `params` only with a `paramKind`.
pub(super) const SEEN: [&str; 5] = [VARIABLES[0], VARIABLES[1], VARIABLES[2], "namespaceObject", "params"];

/// The variables of a policy's expressions.
pub(super) fn variables(spec: &Value) -> &'static [&'static str] {
    if spec["paramKind"].is_object() { &SEEN } else { &SEEN[..4] }
}

/// The variables of its `matchConditions`.
pub(super) fn condition_variables(spec: &Value) -> &'static [&'static str] {
    const WITH_PARAMS: [&str; 4] = [VARIABLES[0], VARIABLES[1], VARIABLES[2], "params"];
    if spec["paramKind"].is_object() { &WITH_PARAMS } else { &VARIABLES }
}

/// A compiled policy with its bindings.
pub(crate) struct Policy<S> {
    pub name: String,
    /// `failurePolicy: Ignore`.
    pub ignores_failures: bool,
    /// `reinvocationPolicy: IfNeeded`.
    pub reinvocable: bool,
    pub matching: Matching,
    /// Version and kind of its parameters.
    pub param_kind: Option<(String, String)>,
    pub conditions: Conditions,
    pub variables: Named,
    pub steps: Vec<S>,
    pub bindings: Vec<Binding>,
}

/// The scope and parameters of a policy.
pub(crate) struct Binding {
    pub name: String,
    pub matching: Option<Matching>,
    pub param: Option<Value>,
    pub deny: bool,
    pub warn: bool,
}

impl Binding {
    fn new(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let acts = |action: &str| list(spec, "/validationActions").iter().any(|a| a == action);
        let matching = spec.get("matchResources").filter(|m| m.is_object());
        Self {
            name: meta::name(binding).to_owned(),
            matching: matching
                .map(|matching| Matching { all: true, ..Matching::new(matching, "/resourceRules") }),
            param: spec.get("paramRef").filter(|p| p.is_object()).cloned(),
            deny: acts("Deny"),
            warn: acts("Warn"),
        }
    }
}

/// A validation or mutation of a policy.
pub(crate) trait Step: Sized {
    const POLICIES: &'static str;
    const BINDINGS: &'static str;
    /// Field of the spec with the steps.
    const STEPS: &'static str;

    fn compile(step: &Value, variables: &[&str], named: &Named) -> Self;
}

impl<S: Step> Policy<S> {
    /// All policies of a store with at least one binding, by name.
    pub(super) fn all(store: &Store) -> Arc<[Self]> {
        let stored = |plural: &str| store.list(&format!("{GROUP}/{plural}"), "").items;
        let bindings = stored(S::BINDINGS);
        let policies = stored(S::POLICIES);
        let bound = policies.iter().map(|policy| {
            let mine = bindings.iter().filter(|b| text(b, "/spec/policyName") == meta::name(policy));
            Self::new(policy, mine.map(|binding| Binding::new(binding)).collect())
        });
        bound.filter(|policy| !policy.bindings.is_empty()).collect()
    }

    fn new(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = &policy["spec"];
        let seen = variables(spec);
        let mut named = Named::default();
        for variable in list(spec, "/variables") {
            // Each use of the variable reports the error.
            let _ = named.add(text(variable, "/name"), text(variable, "/expression"), seen);
        }
        let kind = spec.get("paramKind").filter(|k| k.is_object());
        Self {
            name: meta::name(policy).to_owned(),
            ignores_failures: text(spec, "/failurePolicy") == "Ignore",
            reinvocable: text(spec, "/reinvocationPolicy") == "IfNeeded",
            matching: Matching::new(&spec["matchConstraints"], "/resourceRules"),
            param_kind: kind.map(|k| (text(k, "/apiVersion").to_owned(), text(k, "/kind").to_owned())),
            conditions: Conditions::of(list(spec, "/matchConditions"), condition_variables(spec)),
            steps: list(spec, S::STEPS).iter().map(|step| S::compile(step, seen, &named)).collect(),
            variables: named,
            bindings,
        }
    }
}

/// A condition on a request.
pub(crate) struct Validation {
    pub expression: Result<Expression, String>,
    /// As written, for refusals without a message.
    pub text: String,
    pub message: String,
    pub message_expression: Option<Result<Expression, String>>,
    pub reason: String,
}

impl Step for Validation {
    const POLICIES: &'static str = "validatingadmissionpolicies";
    const BINDINGS: &'static str = "validatingadmissionpolicybindings";
    const STEPS: &'static str = "/validations";

    fn compile(step: &Value, variables: &[&str], named: &Named) -> Self {
        let expression = text(step, "/expression");
        let message = Some(text(step, "/messageExpression")).filter(|m| !m.trim().is_empty());
        Self {
            expression: Expression::compile(expression, variables, named, ExpectedType::Bool),
            text: expression.trim().to_owned(),
            message: text(step, "/message").trim().to_owned(),
            message_expression: message.map(|m| Expression::compile(m, variables, named, ExpectedType::Text)),
            reason: text(step, "/reason").to_owned(),
        }
    }
}

/// A change of the requested object.
pub(crate) enum Mutation {
    /// Fields to merge, as in server-side apply.
    Fields(Result<Expression, String>),
    /// A JSON patch.
    Patch(Result<Expression, String>),
}

impl Step for Mutation {
    const POLICIES: &'static str = "mutatingadmissionpolicies";
    const BINDINGS: &'static str = "mutatingadmissionpolicybindings";
    const STEPS: &'static str = "/mutations";

    fn compile(step: &Value, variables: &[&str], named: &Named) -> Self {
        let compile = |at: &str, wanted| Expression::compile(text(step, at).trim(), variables, named, wanted);
        match text(step, "/patchType") {
            "JSONPatch" => Self::Patch(compile("/jsonPatch/expression", ExpectedType::Patches)),
            _ => Self::Fields(compile("/applyConfiguration/expression", ExpectedType::Object)),
        }
    }
}
