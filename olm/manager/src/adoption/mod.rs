//! Adoption of OLM v0's objects: in place, and never while it runs.
//!
//! * [`guard`]: runs the controllers only while no other OLM runs
//! * [`adopt`]: adoption: roles and bindings under our names, then removal of OLM's, then its fields
//! * [`traces`]: finds Deployments with fields of OLM
//! * [`fields`]: renames the managers in `metadata.managedFields`; pure

mod adopt;
mod fields;
mod guard;
mod traces;

pub(crate) use guard::{Standby, guarded};

/// Field managers of OLM v0: the names of its programs.
pub(crate) const LEGACY_MANAGERS: [&str; 3] = ["olm", "catalog", "olm.install"];
