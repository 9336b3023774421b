//! Taking over from OLM v0: in place, and never beside one that runs.
//!
//! * [`guard`]: controllers run only while none does
//! * [`take_over`]: what it left becomes ours: rights under our names, then those under its names away, then the fields that
//!   it owned
//! * [`traces`]: on which Deployments it left fields of its own
//! * [`fields`]: `metadata.managedFields` from its names to ours: pure

mod fields;
mod guard;
mod take_over;
mod traces;

pub(crate) use guard::{Standby, guarded};

/// Field managers of OLM v0: the names of its programs.
pub(crate) const LEGACY_MANAGERS: [&str; 3] = ["olm", "catalog", "olm.install"];
