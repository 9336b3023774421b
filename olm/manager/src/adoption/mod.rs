//! Adoption of OLM v0's objects: in place, and never while it runs.
//!
//! * [`standby`]: runs the controllers only while no other OLM runs
//! * [`adopt`]: adoption: roles and bindings under our names, then removal of OLM's, then its fields
//! * [`traces`]: finds Deployments with fields of OLM
//! * [`fields`]: renames the managers in `metadata.managedFields`; pure

mod adopt;
mod fields;
mod standby;
mod traces;

pub(crate) use standby::{Standby, run_without_other_olm};

/// Field managers of OLM v0: the names of its programs.
pub(crate) const LEGACY_MANAGERS: [&str; 3] = ["olm", "catalog", "olm.install"];
