//! CustomResourceDefinitions, and other rules of Kubernetes that are functions of an object.
//!
//! - [`schema`]: structural schemas: compile, default, prune, validate;
//! - [`definition`]: CustomResourceDefinition objects: validation and their parsed form;
//! - [`change`]: effects of a definition's change on its objects and clients;
//! - [`live`]: validity of existing objects under a new definition;
//! - [`field_error`]: field errors in Kubernetes' wording;
//! - [`quantity`]: amounts such as `100m` and `1.5Gi`;
//! - [`pod_security`]: the Pod Security Standards.
//!
//! Everything is a function of `serde_json` values; nothing here reads files or sends requests to a cluster.

mod cel;
pub mod change;
pub mod definition;
pub mod field_error;
pub mod live;
pub mod names;
pub mod pod_security;
pub mod quantity;
pub mod rbac;
pub mod schema;
mod view;

pub use cel::{Compare, Condition, ExpectedType, Expression, Language, Named, Values};
pub use change::{Change, ChangeCode, Severity, compare};
pub use field_error::{ErrorKind, FieldError};
pub use live::{LiveReport, check_objects};
