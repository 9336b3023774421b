//! The scaffold of an operator: `olm init` and `olm create api` as pure functions.
//!
//! * [`names`]: what kinds, versions, groups, plurals, domains and projects may be called
//! * [`api`]: an API from the words of a command line, with the rule of its group
//! * [`project`]: a project, its `Cargo.toml` and `Cargo.lock`
//! * [`scaffold`]: the generated files
//!
//! The files are those of `operators/kit` and `operators/myapp`, with other names.

pub mod api;
mod lock;
mod manifest;
pub mod names;
pub mod project;
mod rename;
pub mod scaffold;
mod sources;

pub use api::{Api, ApiRequest};
pub use names::InvalidName;
pub use project::Project;
pub use scaffold::{Change, Existing, File, Refusal, create_api, init, record};
