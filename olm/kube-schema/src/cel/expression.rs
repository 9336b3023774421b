//! Expressions outside of schemas: `matchConditions` of webhooks, and every expression of admission policies.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr, IdedExpr, StructExpr};
use serde_json::Value;

use super::check::{Declared, Dialect, check_with};
use super::eval::evaluate_with;
use super::functions::Library;
use super::parse::Parsed;
use super::types::Ty;
use super::value::{Fault, Outcome, error, untyped};

/// Required type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedType {
    Bool,
    Text,
    /// `Object{..}`: the fields to set.
    Object,
    /// A list of `JSONPatch{..}`.
    Patches,
    /// Any type: a variable for other expressions.
    Any,
}

/// A compiled expression over variables whose types are unknown at compile time.
#[derive(Debug, Clone)]
pub struct Expression {
    parsed: Arc<Parsed>,
    /// An object literal whose type differs from that of its field: reported at evaluation.
    misplaced: Option<String>,
}

impl Expression {
    /// Compiles an expression that may use the variables, those of `named` as `variables.<name>`.
    ///
    /// # Errors
    /// The defect, in the wording of Kubernetes' compiler.
    pub fn compile(
        text: &str,
        variables: &[&str],
        named: &Named,
        wanted: ExpectedType,
    ) -> Result<Self, String> {
        let failed = |what: String| format!("compilation failed: {what}");
        let parsed = Parsed::new(text).map_err(failed)?;
        let mut declared: Declared<'_> = variables.iter().map(|name| ((*name).to_owned(), Ty::Any)).collect();
        declared.extend(named.list.iter().map(|variable| (variable.name.clone(), Ty::Any)));
        let dialect = match wanted {
            ExpectedType::Object | ExpectedType::Patches => Dialect::Patches,
            ExpectedType::Bool | ExpectedType::Text | ExpectedType::Any => Dialect::Rules,
        };
        let ty = check_with(&parsed, declared, dialect).map_err(failed)?;
        let is_message = |ty: &Ty<'_>, name: &str| matches!(ty, Ty::Message(of) if &**of == name);
        let (fits, wanted) = match wanted {
            ExpectedType::Any => (true, ""),
            ExpectedType::Bool => (matches!(ty, Ty::Bool | Ty::Any), "bool"),
            ExpectedType::Text => (matches!(ty, Ty::Text | Ty::Any), "string"),
            ExpectedType::Object => (is_message(&ty, OBJECT), OBJECT),
            ExpectedType::Patches => {
                let fits = match &ty {
                    Ty::List(of) => matches!(**of, Ty::Nothing) || is_message(of, JSON_PATCH),
                    _ => false,
                };
                (fits, "list(JSONPatch)")
            }
        };
        if !fits {
            return Err(format!("must evaluate to {wanted} but got {ty}"));
        }
        let misplaced = misplaced(&parsed.root);
        Ok(Self { parsed, misplaced })
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// The evaluation error, such as `no such key: a`; also when the cost limit is exceeded.
    pub fn value(&self, values: &Values<'_>) -> Result<Value, String> {
        if let Some(what) = &self.misplaced {
            return Err(format!("type mismatch: {what}"));
        }
        let outcome = evaluate_with(&self.parsed, &values.0, &mut Library::default());
        outcome.and_then(|value| value.to_json()).map_err(|fault| fault.text())
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn holds(&self, values: &Values<'_>) -> Result<bool, String> {
        match self.value(values)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err("the result of the expression is not a bool".to_owned()),
        }
    }
}

/// Named expressions, which later ones may use as `variables.<name>`.
#[derive(Debug, Default)]
pub struct Named {
    list: Vec<Variable>,
}

#[derive(Debug)]
struct Variable {
    /// With the prefix `variables.`, as in expressions.
    name: String,
    expression: Result<Expression, String>,
}

impl Named {
    /// Adds an expression that may use `variables` and the earlier ones. When it does not compile, every use
    /// of it fails.
    ///
    /// # Errors
    /// The compile error.
    pub fn add(&mut self, name: &str, text: &str, variables: &[&str]) -> Result<(), String> {
        let expression = Expression::compile(text, variables, self, ExpectedType::Any);
        let result = expression.as_ref().map(drop).map_err(Clone::clone);
        self.list.push(Variable { name: format!("variables.{name}"), expression });
        result
    }

    /// Input values together with those of the named expressions: a failure appears only where the value is
    /// used.
    #[must_use]
    pub fn bind<'a>(&'a self, values: &[(&'a str, &'a Value)]) -> Values<'a> {
        let plain = values.iter().map(|(name, value)| (*name, Ok(untyped(value))));
        let mut bound = Values(plain.collect());
        for Variable { name, expression } in &self.list {
            let short = name.strip_prefix("variables.").unwrap_or(name);
            let outcome = match expression {
                Err(why) => Err(error(format!("composited variable {short:?} fails to compile: {why}"))),
                Ok(expression) => evaluate_with(&expression.parsed, &bound.0, &mut Library::default())
                    .map_err(|fault| match fault {
                        Fault::Limit => Fault::Limit,
                        Fault::Error(why) => {
                            error(format!("composited variable {short:?} fails to evaluate: {why}"))
                        }
                    }),
            };
            bound.0.push((name, outcome));
        }
        bound
    }
}

/// Input of expressions.
pub struct Values<'a>(Vec<(&'a str, Outcome<'a>)>);

/// Types that exist only in patches.
pub(super) const OBJECT: &str = "Object";
pub(super) const JSON_PATCH: &str = "JSONPatch";

/// The first object literal whose type is not the path of its field.
fn misplaced(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Struct(message) if message.type_name.starts_with(OBJECT) => in_object(message),
        Expr::Struct(message) => fields(message).find_map(|(_, value)| misplaced(value)),
        Expr::List(list) => list.elements.iter().find_map(misplaced),
        Expr::Call(call) => call.args.iter().find_map(misplaced),
        _ => None,
    }
}

fn fields(message: &StructExpr) -> impl Iterator<Item = (&str, &IdedExpr)> {
    message.entries.iter().filter_map(|entry| match &entry.expr {
        EntryExpr::StructField(field) => Some((field.field.as_str(), &field.value)),
        EntryExpr::MapEntry(_) => None,
    })
}

fn in_object(message: &StructExpr) -> Option<String> {
    fields(message).find_map(|(field, value)| {
        let wanted = format!("{}.{field}", message.type_name);
        let check = |inner: &IdedExpr| match &inner.expr {
            Expr::Struct(inner) if inner.type_name != wanted => {
                Some(format!("unexpected type name {:?}, expected {wanted:?}, which matches field name path from root Object type", inner.type_name))
            }
            Expr::Struct(inner) => in_object(inner),
            _ => misplaced(inner),
        };
        match &value.expr {
            Expr::List(list) => list.elements.iter().find_map(check),
            _ => check(value),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compile(text: &str, variables: &[&str], wanted: ExpectedType) -> Result<Expression, String> {
        Expression::compile(text, variables, &Named::default(), wanted)
    }

    fn condition(text: &str, variables: &[&str]) -> Result<Expression, String> {
        compile(text, variables, ExpectedType::Bool)
    }

    #[test]
    fn conditions_evaluate_their_variables() {
        let condition_ = condition(
            "request.operation == 'CREATE' && object.metadata.labels['a'].startsWith('b') && object.spec.n >= 2",
            &["object", "request"],
        )
        .expect("it compiles");
        let none = Named::default();
        let holds = |object: &Value, request: &Value| {
            condition_.holds(&none.bind(&[("object", object), ("request", request)]))
        };
        let object = json!({ "metadata": { "labels": { "a": "bc" } }, "spec": { "n": 2 } });
        let request = |operation: &str| json!({ "operation": operation });
        assert_eq!(holds(&object, &request("CREATE")), Ok(true));
        assert_eq!(holds(&object, &request("UPDATE")), Ok(false));
        assert_eq!(holds(&json!({}), &request("CREATE")), Err("no such key: metadata".to_owned()));
        assert!(condition("other == 1", &["object"]).is_err());
        assert!(condition("'a'", &[]).is_err());
        let null = condition("oldObject == null || has(oldObject.metadata)", &["oldObject"]);
        let nothing = json!(null);
        assert_eq!(null.expect("it compiles").holds(&none.bind(&[("oldObject", &nothing)])), Ok(true));
    }

    #[test]
    fn named_expressions_fail_only_where_they_are_used() {
        // given
        let mut named = Named::default();
        named.add("size", "object.spec.size", &["object"]).expect("it compiles");
        named.add("twice", "variables.size * 2", &["object"]).expect("it compiles");
        assert!(named.add("bad", "nothing.at.all", &["object"]).is_err());
        let compile = |text: &str| Expression::compile(text, &["object"], &named, ExpectedType::Any);
        let (twice, either) = (
            compile("variables.twice").unwrap(),
            compile("!has(object.spec) || variables.twice > 2").unwrap(),
        );
        assert!(compile("variables.other").is_err());

        // then
        let (whole, empty) = (json!({ "spec": { "size": 2 } }), json!({}));
        assert_eq!(twice.value(&named.bind(&[("object", &whole)])), Ok(json!(4)));
        let missing = twice.value(&named.bind(&[("object", &empty)])).unwrap_err();
        assert!(missing.contains("\"size\" fails to evaluate: no such key: spec"), "{missing}");
        assert_eq!(either.holds(&named.bind(&[("object", &empty)])), Ok(true));
        let bad = compile("variables.bad").unwrap().value(&named.bind(&[("object", &whole)])).unwrap_err();
        assert!(bad.contains("\"bad\" fails to compile"), "{bad}");
    }

    #[test]
    fn patches_are_made_of_objects() {
        let none = Named::default();
        let who = json!({ "name": "jane" });
        let value = |text: &str, wanted: ExpectedType| {
            compile(text, &["who"], wanted)
                .and_then(|expression| expression.value(&none.bind(&[("who", &who)])))
        };
        assert_eq!(
            value("Object{metadata: Object.metadata{annotations: {'by': who.name}}}", ExpectedType::Object),
            Ok(json!({ "metadata": { "annotations": { "by": "jane" } } }))
        );
        assert_eq!(
            value("[JSONPatch{op: 'add', path: '/a', value: [Object.a{b: 1}]}]", ExpectedType::Patches),
            Ok(json!([{ "op": "add", "path": "/a", "value": [{ "b": 1 }] }]))
        );
        assert_eq!(value("[]", ExpectedType::Patches), Ok(json!([])));
        let cases = [
            ("{'a': 'b'}", ExpectedType::Object, "must evaluate to Object but got map(string, string)"),
            ("Object{}", ExpectedType::Bool, "undeclared reference to 'Object'"),
            ("Other{}", ExpectedType::Object, "undeclared reference to 'Other'"),
            ("[JSONPatch{ops: 'add'}]", ExpectedType::Patches, "undefined field 'ops'"),
            ("Object{spec: Object.wrong{a: 1}}", ExpectedType::Object, "type mismatch: unexpected type name"),
            ("Object{list: [Object.list{a: 1}, Object.lost{a: 1}]}", ExpectedType::Object, "expected type"),
        ];
        for (text, wanted, message) in cases {
            let error = value(text, wanted).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
