//! Thousands of small universes, each with the result of a plain search over plain clauses next to that of
//! the resolver: is there a solution, is the result one, is it the one that OLM would prefer, and is a
//! conflict real and minimal.
//!
//! `OLM_TEST_LONG=1` runs a hundred times as many, `OLM_SEED=n` one of them.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../world/mod.rs"]
mod world;

mod abstract_problems;
mod universes;
