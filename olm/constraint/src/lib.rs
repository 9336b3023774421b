//! Constraints that a bundle places on another, and their evaluation.
//!
//! - [`Gvk`]: a kind with its group and version;
//! - [`Constraint`] and [`Rule`]: a requirement, read from an `olm.constraint` or made of a simpler property;
//! - [`Subject`]: the candidate bundle;
//! - [`Cel`]: a compiled rule of the Common Expression Language.
//!
//! Every constraint, also `all`, `any` and `not`, is a predicate on *one* bundle, as in OLM: no bundle
//! satisfies an `all` of two packages.

mod cel;
mod constraint;
mod gvk;
mod parse;
mod subject;

pub use cel::{Cel, CelError};
pub use constraint::{Constraint, Keys, Rule};
pub use gvk::Gvk;
pub use parse::{ConstraintError, Problem};
pub use subject::{Property, Subject};
