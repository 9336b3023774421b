//! Plans over snapshots: shown and applied objects, and blockers.
// the lints let `#[test]` functions panic, not the helpers they share
#![allow(clippy::unwrap_used, clippy::panic)]

mod along;
mod installs;
mod predecessor;
mod properties;
mod real;
mod schema;
mod uninstalls;
mod world;
