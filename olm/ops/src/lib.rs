//! Operations shared by the console and the command line: install, approve, upgrade, roll back, uninstall,
//! list, diagnose.
//!
//! Functions that access the cluster use the caller's client and permissions, and are idempotent.
//!
//! * [`doctor`]: what is wrong on a cluster, and the next step
//! * [`manifests`]: the objects of an installation of olm
//! * [`authority`]: who requested and who approved, as the API server records it

mod approve;
pub mod authority;
mod blockers;
mod choose;
pub mod doctor;
mod error;
mod install;
mod instances;
mod list;
pub mod manifests;
mod operand_state;
mod other_olm;
mod overview;
mod pod_failure;
mod policy;
mod revisions;
mod settings;
mod status;
mod timeline;
mod uninstall;
mod wait;
mod write;

pub use approve::{Approved, PLAN_CHANGED, Upgraded, approve, preview_upgrade, upgrade};
pub use blockers::{Blocker, requirement_fix};
pub use choose::suggested_namespace;
pub use error::{Error, Kind};
pub use install::{InstallRequest, InstallResult, install, preview_install, requested_subscription};
pub use instances::{Instance, list_instances, list_instances_of};
pub use list::{Installed, find_installed, list_installed};
pub use operand_state::{Health, OperandState};
pub use other_olm::{OTHER_OLM_SELECTOR, OtherOlm, find_other_olm};
pub use overview::{Overview, overview};
pub use pod_failure::PodFailure;
pub use policy::{Effect, PolicyTest, Subject, TestedPolicy, Verdict, test_policies};
pub use revisions::{Approval, Revision, RolledBack, approval, history, preview_rollback, rollback};
pub use settings::{Setting, SettingChange, SettingPreview, preview_set, set};
pub use status::{Status, rolls_back_to};
pub use timeline::{EventLine, Step, StepState, Timeline, timeline};
pub use uninstall::{
    Operands, Progress as Removal, UninstallOptions, UninstallReport, UninstallTarget, advance,
    command as uninstall_command, preview_uninstall, uninstall,
};
pub use wait::{Diagnosis, Progress, WaitOptions, wait_installed};
pub use write::written_by;
