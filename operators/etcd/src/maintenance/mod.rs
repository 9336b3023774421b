//! Maintenance of the members' databases: quota, automatic compaction, and defragmentation. [`due`](mod@due)
//! is a pure decision; [`next`](mod@next) adds it to the plan, after everything else.

mod due;
mod next;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use due::{Due, Facts, MemberFacts, due};
#[cfg(test)]
use next::after;
pub(crate) use next::{done, full, next};
pub use settings::Settings;
pub(crate) use settings::{bytes, settings};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::crd::MaintenanceStatus;

/// One maintenance step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Compact all revisions before this one.
    Compact {
        revision: i64,
        /// Pod of the member that receives the request.
        via: String,
    },
    Defragment {
        name: String,
    },
    /// Create user root and enable authentication.
    EnableAuth {
        /// Pod of the member that receives the request.
        via: String,
    },
    Disarm {
        /// Pod of the member that receives the request.
        via: String,
    },
    /// Disarm the alarm CORRUPT of a removed member.
    DisarmCorrupt {
        /// Id of that member.
        member: u64,
        /// Pod of the member that receives the request.
        via: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Schedule,
    /// The database is full.
    NoSpace,
}

/// Persistent state of a run, stored in the status of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Start of the current run.
    pub started: Option<Timestamp>,
    /// Cause of the current or last run.
    pub cause: Option<Cause>,
    /// Compacted revision.
    pub compacted: Option<i64>,
    /// Completed members.
    pub done: Vec<String>,
    /// End of the last run.
    pub finished: Option<Timestamp>,
}

impl From<&MaintenanceStatus> for Record {
    fn from(status: &MaintenanceStatus) -> Self {
        Self {
            started: status.started.as_ref().map(|time| time.0),
            cause: match status.cause.as_str() {
                "Schedule" => Some(Cause::Schedule),
                "NoSpace" => Some(Cause::NoSpace),
                _ => None,
            },
            compacted: status.compacted,
            done: status.done.clone(),
            finished: status.finished.as_ref().map(|time| time.0),
        }
    }
}

impl Record {
    /// The status of maintenance; none before the first run.
    #[must_use]
    pub fn status(&self) -> Option<MaintenanceStatus> {
        let cause = match self.cause {
            Some(Cause::Schedule) => "Schedule",
            Some(Cause::NoSpace) => "NoSpace",
            None => "",
        };
        (*self != Self::default()).then(|| MaintenanceStatus {
            started: self.started.map(Time),
            cause: cause.into(),
            compacted: self.compacted,
            done: self.done.clone(),
            finished: self.finished.map(Time),
        })
    }
}
