//! Forms for custom resources, from the structural schema of the CRD and the descriptors of the operator.
//!
//! The object is the only document; the form is a view of some of its fields. [`fields`] selects the fields,
//! their widgets and their order; [`read`](mod@read) writes submitted values into the document;
//! [`show`](mod@show) renders the form. Names of inputs and positions of errors are JSON pointers.
//! For a live object, [`revision`] selects what users edit and merges two edits, and [`secrets`] hides the
//! values that no page shows.

mod descriptor;
mod field;
mod read;
mod revision;
mod secrets;
mod show;

pub(crate) use descriptor::Descriptor;
pub(crate) use field::{Field, fields, id, label_from};
pub(crate) use read::{Problems, at_fields, of_status, parse_yaml, read};
pub(crate) use revision::{Base, Difference, differences, editable, merge, renumbered, written};
pub(crate) use secrets::{HIDDEN, Secrets};
pub(crate) use show::show;
