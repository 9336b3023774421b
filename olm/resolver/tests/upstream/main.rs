//! The cases of OLM's own tests, with the numbers of reference/olm.md 9.5: `case_NN_...`. Their text is our
//! own; deliberate differences are described with their reasons.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../world/mod.rs"]
mod world;

mod channels;
mod constraints;
mod edges;
mod index;
mod installed;
mod preference;
mod refusals;
mod solver;
mod version_field;
mod versions_of_v1;
