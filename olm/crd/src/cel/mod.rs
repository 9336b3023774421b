//! Rules of definitions in the Common Expression Language (`x-kubernetes-validations`).
//!
//! The parser is that of the `cel` crate. Types and evaluation are here: rules are typed by the schema, see the object as
//! the schema declares it, and count what they do in Kubernetes' units.
//!
//! - [`parse`], [`check`], [`signatures`], [`types`]: from text to an expression that fits the schema;
//! - [`eval`], [`value`], [`functions`]: what an expression makes of an object;
//! - [`rule`]: a rule with its message, reason and field path;
//! - [`validate`](mod@validate): the rules of a whole object, with those that compare it with what it was before;
//! - [`expression`]: expressions of others.

mod check;
mod eval;
mod expression;
mod functions;
mod parse;
mod rule;
mod signatures;
mod types;
mod validate;
mod value;
mod weight;

pub use self::expression::{Expression, Named, Values, Wanted};
pub(crate) use self::rule::{Cache, Rule, check_rules};
pub(crate) use self::validate::{same_item, validate};

#[cfg(test)]
mod tests;
