//! Which of many things to select, so that every rule holds and the wishes come true in their order.
//!
//! The search is OLM's (`pkg/controller/registry/resolver/solver`): what must be there is looked at first, each selected
//! thing adds its own lists of alternatives to the end of a queue, of a list the first one that can be had is taken,
//! and a list with something already taken in it is passed over. The answer is therefore the first one in the order
//! of wishes, whatever the order of search. Ours differs in how it gets there: it learns from contradictions
//! (conflict-driven clause learning) instead of walking back one step at a time, asks for the rules of a thing only
//! when that is selected, stops after a number of decisions, and names a *minimal* set of rules that contradict each
//! other.

mod core;
mod engine;
mod problem;

pub(crate) use self::core::{fewest, minimal};
pub(crate) use engine::{Outcome, Rule, World, search};
pub use problem::{Answer, Constraint, Problem};

/// Something that can be selected.
pub type Var = u32;

/// A rule's name, by which a contradiction tells where it comes from.
pub(crate) type Tag = u32;

/// What the searches for one answer may cost together, in clauses and literals looked at: about a second. Real catalogs
/// need a thousandth of it.
pub const BUDGET: u64 = 40_000_000;

#[cfg(test)]
mod tests;
