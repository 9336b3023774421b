//! Rules of definitions in the Common Expression Language (`x-kubernetes-validations`).
//!
//! The parser is that of the `cel` crate. Types and evaluation are here: the schema types the rules and
//! declares the visible fields, and the cost is counted in Kubernetes' units.
//!
//! - [`parse`], [`check`], [`signatures`], [`types`]: from text to a typed expression;
//! - [`eval`], [`value`], [`functions`]: evaluation on an object;
//! - [`rule`]: a rule with its message, reason and field path;
//! - [`validate`](mod@validate): the rules of a whole object, with those that compare it with its old
//!   version;
//! - [`expression`]: expressions outside of schemas;
//! - [`language`]: conditions of other languages.

mod check;
mod cost_units;
mod eval;
mod expression;
mod functions;
mod language;
mod parse;
mod rule;
mod signatures;
mod types;
mod validate;
mod value;

pub use self::expression::{ExpectedType, Expression, Named, Values};
pub use self::language::{Compare, Condition, Language};
pub(crate) use self::rule::{Cache, Rule, check_rules, has_all_functions};
pub(crate) use self::validate::{same_item, validate};

#[cfg(test)]
mod tests;
