//! What one bundle demands of another, and whether a bundle meets it.
//!
//! - [`Gvk`]: a kind with its group and version, the currency of everything below;
//! - [`Constraint`] and [`Rule`]: a demand, read from an `olm.constraint` or made of a simpler property;
//! - [`Subject`]: the bundle that is judged;
//! - [`Cel`]: a compiled rule of the Common Expression Language.
//!
//! Every constraint, also `all`, `any` and `not`, is a predicate on *one* bundle, as OLM has it:
//! `all` of two packages is met by nothing.

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
