//! Languages smaller than that of Kubernetes, such as the constraints of OLM.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use super::check::{Dialect, check_with};
use super::eval::evaluate_with;
use super::functions::Library;
use super::parse::Parsed;
use super::types::Ty;
use super::value::{Outcome, Val, error, untyped};

/// The functions of CEL's standard library without times.
const FUNCTIONS: [&str; 13] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "dyn",
    "type",
];

/// Conditions on one value with the operators, macros and functions of standard CEL, times excepted. A list or
/// map may have values of several types.
#[derive(Debug)]
pub struct Language {
    /// The variable: a list of maps with texts as keys.
    pub variable: &'static str,
    /// A function of two values of any types, which returns -1, 0 or 1.
    pub comparison: (&'static str, Compare),
    /// Limit of the cost of an evaluation, in Kubernetes' units. Expressions are untrusted, so texts and keys of
    /// maps count even where Kubernetes ignores their size.
    pub limit: u64,
}

/// The order of two values, or the reason why they have none.
pub type Compare = fn(&Value, &Value) -> Result<Ordering, String>;

/// A compiled condition.
#[derive(Debug, Clone)]
pub struct Condition {
    parsed: Arc<Parsed>,
    language: &'static Language,
}

impl Language {
    /// Compiles a condition.
    ///
    /// # Errors
    /// The defect, in the wording of Kubernetes' compiler: a syntax error, an undeclared name, an expression
    /// that is not a `bool`, or one above the limits of length and depth.
    pub fn compile(&'static self, text: &str) -> Result<Condition, String> {
        let parsed = Parsed::new(text)?;
        let map = Ty::Map(Arc::new(Ty::Text), Arc::new(Ty::Any));
        let declared = vec![(self.variable.to_owned(), Ty::List(Arc::new(map)))];
        match check_with(&parsed, declared, Dialect::Language(self))? {
            Ty::Bool => Ok(Condition { parsed, language: self }),
            ty => Err(format!("must evaluate to bool but got {ty}")),
        }
    }

    /// Whether it has a function or operator.
    pub(super) fn has(&self, name: &str) -> bool {
        !name.starts_with(char::is_alphabetic) || name == self.comparison.0 || FUNCTIONS.contains(&name)
    }

    /// The result of its own function.
    pub(super) fn call<'a>(&self, name: &str, args: &[Val<'_>]) -> Option<Outcome<'a>> {
        let (own, compare) = self.comparison;
        let [a, b] = args else { return None };
        let compared = || compare(&a.to_json()?, &b.to_json()?).map_err(error);
        (name == own).then(|| compared().map(|order| Val::Int(order as i64)))
    }
}

impl Condition {
    /// Whether the condition is true.
    ///
    /// # Errors
    /// The evaluation error, such as `no such key: a`; also when the cost limit is exceeded.
    pub fn holds(&self, value: &Value) -> Result<bool, String> {
        let variables = [(self.language.variable, Ok(untyped(value)))];
        match evaluate_with(&self.parsed, &variables, &mut Library::of(self.language)) {
            Ok(value) => Ok(matches!(value, Val::Bool(true))),
            Err(fault) => Err(fault.text()),
        }
    }
}
