//! Operations shared by the console and the command line: install, approve, upgrade, roll back, uninstall,
//! list, diagnose.
//!
//! Functions that access the cluster use the caller's client and permissions, and are idempotent.
//!
//! * [`catalogs`]: the catalogs of a cluster
//! * [`doctor`]: what is wrong on a cluster, and the next step
//! * [`manifests`]: the objects of an installation of olm
//! * [`authority`]: who requested and who approved, as the API server records it

mod activity;
mod approve;
mod approve_all;
pub mod authority;
mod blockers;
mod can_i;
pub mod catalogs;
mod choose;
pub mod doctor;
mod error;
mod events;
mod install;
mod instances;
mod list;
pub mod manifests;
mod operand_state;
mod operator_config;
mod operator_pods;
mod other_olm;
mod overview;
mod pod_failure;
mod policy;
mod readable_instances;
mod revisions;
mod scoped_group;
mod settings;
mod status;
mod timeline;
mod uninstall;
mod wait;
mod watch_scope;
mod workloads;
mod write;

pub use activity::{Activity, ActivityLog, activity};
pub use approve::{Approved, PLAN_CHANGED, Upgraded, approve, preview_upgrade, upgrade};
pub use approve_all::{BulkApproval, BulkOutcome, approve_all};
pub use blockers::{Blocker, requirement_fix};
pub use can_i::{Operation, Right, administrators, rights};
pub use choose::suggested_namespace;
pub use error::{Error, Kind};
pub use events::{EventLine, list_events};
pub use install::{
    InstallRequest, InstallResult, check_version, install, preview_install, requested_subscription,
};
pub use instances::{Instance, list_instances, list_instances_of};
pub use list::{Installed, find_installed, list_installed};
pub use operand_state::{Health, OperandState};
pub use operator_config::{merge_config, parse_config};
pub use operator_pods::operator_pods;
pub use other_olm::{OTHER_OLM_SELECTOR, OtherOlm, find_other_olm};
pub use overview::{Overview, overview};
pub use pod_failure::PodFailure;
pub use policy::{Effect, PolicyTest, Subject, TestedPolicy, Verdict, test_policies};
pub use readable_instances::{ReadableInstances, readable_instances};
pub use revisions::{Approval, Revision, RolledBack, approval, history, preview_rollback, rollback};
pub use scoped_group::preview_scoped;
pub use settings::{Setting, SettingChange, SettingPreview, preview_set, set};
pub use status::{Status, rolls_back_to};
pub use timeline::{Step, StepState, Timeline, timeline};
pub use uninstall::{
    Operands, Progress as Removal, UninstallOptions, UninstallReport, UninstallTarget, advance,
    command as uninstall_command, preview_uninstall, uninstall,
};
pub use wait::{Diagnosis, Progress, WaitOptions, wait_installed};
pub use watch_scope::{GroupDecision, ScopeFacts, ScopeRefusal, WatchScope, decide_group};
pub use workloads::{DeploymentState, PodState, workloads};
pub use write::written_by;
