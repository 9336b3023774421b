//! What a console button and a CLI command both call.
//!
//! Every function takes the caller's own client: nothing here has rights of its own. All of them are idempotent:
//! asking twice does nothing the second time and says so.

mod approve;
mod choose;
pub mod doctor;
mod error;
mod install;
mod instances;
mod list;
mod overview;
mod policy;
mod revisions;
mod settings;
mod status;
mod timeline;
mod uninstall;
mod wait;
mod waits;

pub use crate::adoption::{Rival, rival};
pub use approve::{Approved, PLAN_CHANGED, Upgraded, approve, preview_upgrade, upgrade};
pub use choose::suggested_namespace;
pub use error::{Error, Kind};
pub use install::{InstallRequest, InstallResult, install, preview_install, wanted};
pub use instances::{Instance, list_instances, list_instances_of};
pub use list::{Installed, find_installed, list_installed};
pub use overview::{Overview, overview};
pub use policy::{Effect, PolicyTest, Subject, TestedPolicy, Verdict, test_policies};
pub(crate) use revisions::approval;
pub use revisions::{Approval, Revision, RolledBack, history, preview_rollback, rollback};
pub use settings::{Foreseen, Setting, SettingChange, preview_set, set};
pub use status::Status;
pub use timeline::{EventLine, Step, StepState, Timeline, timeline};
pub use uninstall::{Leaving, Operands, UninstallOptions, UninstallReport, preview_uninstall, uninstall};
pub(crate) use uninstall::{Progress as Removal, advance, command as uninstall_command};
pub use wait::{Diagnosis, Progress, WaitOptions, wait_installed};
pub use waits::Wait;
