//! Housekeeping of the members' databases: how large they may become, what etcd forgets by itself, and when the space of
//! what was forgotten is given back. [`due`](mod@due) decides, purely; [`next`](mod@next) brings it into the plan, after everything else.

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

/// One thing that is done to the database of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Forget everything before a revision.
    Compact {
        revision: i64,
        /// Pod of the member that is asked.
        via: String,
    },
    /// Give the free space of one member back.
    Defragment {
        /// Its pod.
        name: String,
    },
    /// Create the user root and switch authentication on.
    EnableAuth {
        /// Pod of the member that is asked.
        via: String,
    },
    /// Take the alarm NOSPACE back.
    Disarm {
        /// Pod of the member that is asked.
        via: String,
    },
    /// Take the alarm CORRUPT of a member that is gone back.
    DisarmCorrupt {
        /// Id of that member.
        member: u64,
        /// Pod of the member that is asked.
        via: String,
    },
}

/// Why a run was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its time had come.
    Schedule,
    /// The database is full.
    NoSpace,
}

/// What must not be forgotten of a run. It lives in the status of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When the run began that is under way.
    pub started: Option<Timestamp>,
    /// Why it did, or the last one.
    pub cause: Option<Cause>,
    /// The revision that it compacted to.
    pub compacted: Option<i64>,
    /// Members that it is done with.
    pub done: Vec<String>,
    /// When the last one ended.
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
    /// As the status has it; nothing while there is nothing to say.
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
