//! Conditions of others in the same language, such as `matchConditions` of webhooks.

use std::sync::Arc;

use serde_json::Value;

use super::check::check_with;
use super::eval::evaluate_with;
use super::functions::Library;
use super::parse::Parsed;
use super::types::Ty;
use super::value::{Fault, Val, untyped};

/// A bool over variables about whose types nothing is known when it is compiled.
#[derive(Debug, Clone)]
pub struct Condition {
    expression: Arc<Parsed>,
}

impl Condition {
    /// Compiles an expression that may use the variables.
    ///
    /// # Errors
    /// What is wrong with it, in the words of Kubernetes' compiler.
    pub fn compile(expression: &str, variables: &[&str]) -> Result<Self, String> {
        let failed = |what: String| format!("compilation failed: {what}");
        let parsed = Parsed::new(expression).map_err(failed)?;
        let declared = variables.iter().map(|name| ((*name).to_owned(), Ty::Any)).collect();
        match check_with(&parsed, declared).map_err(failed)? {
            Ty::Bool | Ty::Any => Ok(Self { expression: parsed }),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        }
    }

    /// Whether it is true of the values of the variables.
    ///
    /// # Errors
    /// Why that cannot be said, such as `no such key: a`; also when it would do too much.
    pub fn holds(&self, values: &[(&str, &Value)]) -> Result<bool, String> {
        let locals: Vec<(&str, Val<'_>)> =
            values.iter().map(|(name, value)| (*name, untyped(value))).collect();
        match evaluate_with(&self.expression, locals, &mut Library::default()) {
            Ok(Val::Bool(holds)) => Ok(holds),
            Ok(_) => Err("the expression is no bool".to_owned()),
            Err(Fault::Limit) => Err("operation cancelled: actual cost limit exceeded".to_owned()),
            Err(Fault::Error(what)) => Err(what.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_see_what_they_are_given() {
        let condition = Condition::compile(
            "request.operation == 'CREATE' && object.metadata.labels['a'].startsWith('b') && object.spec.n >= 2",
            &["object", "request"],
        )
        .expect("it compiles");
        let object = json!({ "metadata": { "labels": { "a": "bc" } }, "spec": { "n": 2 } });
        let request = |operation: &str| json!({ "operation": operation });
        assert_eq!(condition.holds(&[("object", &object), ("request", &request("CREATE"))]), Ok(true));
        assert_eq!(condition.holds(&[("object", &object), ("request", &request("UPDATE"))]), Ok(false));
        let missing = condition.holds(&[("object", &json!({})), ("request", &request("CREATE"))]);
        assert_eq!(missing, Err("no such key: metadata".to_owned()));
        assert!(Condition::compile("other == 1", &["object"]).is_err());
        assert!(Condition::compile("'a'", &[]).is_err());
        let null = Condition::compile("oldObject == null || has(oldObject.metadata)", &["oldObject"]);
        assert_eq!(null.expect("it compiles").holds(&[("oldObject", &json!(null))]), Ok(true));
    }
}
