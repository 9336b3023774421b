//! Selects variables so that every rule holds and preferences are met in their order.
//!
//! The search is OLM's (`pkg/controller/registry/resolver/solver`): mandatory variables come first, each
//! selected one appends its lists of alternatives to a queue, of a list the first possible one is taken, and
//! a list with an already taken one is skipped. The result is therefore the first one in the order of
//! preferences, whatever the order of search. The algorithm differs: it learns from contradictions
//! (conflict-driven clause learning) instead of backtracking one step at a time, requests the rules of a
//! variable only when that is selected, stops after a number of decisions, and reports a *minimal* set of
//! contradicting rules.

mod core;
mod engine;
mod problem;

pub(crate) use self::core::{fewest, minimal};
pub(crate) use engine::{Outcome, Rule, World, search};
pub use problem::{Answer, Constraint, Problem};

/// A selectable variable.
pub type Var = u32;

/// Identifies a rule in a contradiction.
pub(crate) type Tag = u32;

/// Budget of all searches for one result, in visited clauses and literals: about a second. Real catalogs need
/// a thousandth of it.
pub const BUDGET: u64 = 40_000_000;

#[cfg(test)]
mod tests;
