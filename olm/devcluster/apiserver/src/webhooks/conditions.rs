//! `matchConditions`: CEL expressions that decide whether a webhook is called, or a policy applies.

use std::collections::HashSet;

use olm_devcluster_machinery::field_error::FieldError;
use olm_kube_schema::{ExpectedType, Expression, Named, Values};
use serde_json::Value;

use crate::{meta::text, names};

/// Variables of the expressions. Kubernetes' `authorizer` is not supported.
pub(crate) const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];
/// Kubernetes' limit.
const MOST: usize = 64;

/// The conditions of a webhook; all must hold.
pub(crate) struct Conditions {
    all: Vec<(String, Result<Expression, String>)>,
}

fn compile(expression: &str, variables: &[&str]) -> Result<Expression, String> {
    Expression::compile(expression, variables, &Named::default(), ExpectedType::Bool)
}

impl Conditions {
    pub(crate) fn of(conditions: &[Value], variables: &[&str]) -> Self {
        let compiled = |condition: &Value| {
            let expression = text(condition, "/expression");
            (text(condition, "/name").to_owned(), self::compile(expression, variables))
        };
        Self { all: conditions.iter().map(compiled).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether all conditions hold. A failed evaluation is an error, unless another condition is false.
    pub(crate) fn decide(&self, values: &Values<'_>) -> Result<bool, String> {
        let mut failed = Vec::new();
        for (name, condition) in &self.all {
            match condition.as_ref().map_err(Clone::clone).and_then(|c| c.holds(values)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => failed.push(format!("condition {name:?}: {why}")),
            }
        }
        if failed.is_empty() { Ok(true) } else { Err(failed.join(", ")) }
    }
}

/// Validates the conditions of a webhook or a policy.
pub(crate) fn check(conditions: &[Value], path: &str, variables: &[&str], errors: &mut Vec<FieldError>) {
    let path = format!("{path}.matchConditions");
    if conditions.len() > MOST {
        errors.push(FieldError::too_many(path.as_str(), conditions.len(), MOST as u64));
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().take(MOST).enumerate() {
        let (name, expression) = (text(condition, "/name"), text(condition, "/expression"));
        let name_path = format!("{path}[{index}].name");
        if name.is_empty() {
            errors.push(FieldError::required(name_path.as_str(), ""));
        } else if let Some(problem) = names::key_problem(name) {
            errors.push(FieldError::invalid(name_path.as_str(), name, problem));
        }
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(name_path, name));
        }
        let path = format!("{path}[{index}].expression");
        if expression.trim().is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if let Err(why) = compile(expression, variables) {
            errors.push(FieldError::invalid(path, expression, why));
        }
    }
}
