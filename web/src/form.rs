//! Forms for custom resources, from the structural schema of the CRD and what the operator says about its fields.
//!
//! There is one document, the object; the form is a view of some of its fields. [`fields`] decides what is asked, with
//! which widget and in which order; [`read`](mod@read) puts answers into the document; [`show`](mod@show) draws. Names of inputs are JSON
//! pointers, and so are the places of errors.

mod descriptor;
mod field;
mod read;
mod show;

pub(crate) use descriptor::Descriptor;
pub(crate) use field::{Field, fields, id, in_words};
pub(crate) use read::{Problems, of_status, parse_yaml, read};
pub(crate) use show::show;
