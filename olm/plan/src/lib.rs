//! Plans: what a change will do to the cluster, worked out before it does it.
//!
//! A [`Plan`] is made by [`make_plan`] or [`make_uninstall_plan`] from a snapshot; the caller first asks [`reads`] /
//! [`uninstall_reads`] which objects the snapshot must hold. What is shown ([`Plan::objects`]) and what is applied
//! ([`Plan::phases`], [`Plan::deletions`]) are the same objects, and [`Plan::digest`] covers them all.

mod desired;
mod diff;
mod digest;
mod finding;
mod input;
mod installed;
mod make;
mod object;
mod owner;
mod permissions;
mod plan;
mod preflight;
mod uninstall;
mod universe;

pub use desired::{OPERATOR_GROUP_NAME, operator_group_of};
pub use finding::{FINDING_CODES, Finding, FindingCode, Severity};
pub use input::{ClusterFacts, Live, Operand, PlanInput, UninstallInput};
pub use installed::installed_of;
pub use make::{make_plan, reads};
pub use object::ObjectRef;
pub use plan::{
    DependencyView, FieldDiff, Level, Op, PermissionDelta, PermissionRule, PhaseObjects, Plan, PlanAction,
    PlannedObject, RejectedView, Reversible, Why,
};
pub use uninstall::{make_uninstall_plan, uninstall_reads};
pub use universe::{bundle_of, needs_of, universe_of};

pub use olm_bundle::Phase;
