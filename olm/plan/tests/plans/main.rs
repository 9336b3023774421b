//! Plans over snapshots: what they show, what they apply, what stands in their way.
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
