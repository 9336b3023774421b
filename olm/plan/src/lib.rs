//! Plans: the changes of a request to the cluster, computed before they are applied. [`make_plan`] and
//! [`make_uninstall_plan`] create a [`Plan`] from a snapshot; [`reads`] / [`uninstall_reads`] list the
//! objects that the snapshot must contain.
//!
//! The shown objects ([`Plan::objects`]) and the applied ones ([`Plan::phases`], [`Plan::deletions`]) are the
//! same, and [`Plan::digest`] covers them all.

mod along;
mod demands;
mod desired;
mod diff;
mod digest;
mod equal;
mod facts;
mod finding;
mod images;
mod input;
mod installed;
mod json;
mod make;
mod object;
mod owner;
mod permissions;
mod plan;
mod planned;
mod policy;
mod preflight;
mod quantity;
mod reserved;
mod schema;
mod signatures;
mod uninstall;
mod universe;

pub use along::{
    DependencyInstall, dependency_installs, subscription as along_subscription, subscription_name,
};
pub use demands::{AccessRequest, Answers, Demands, Grant, Missing, Verdict};
pub use desired::{OPERATOR_GROUP_NAME, claim, operator_group_of, watched_namespaces};
pub use diff::{field_managers, without_secrets};
pub use digest::{Parts, what_changed};
pub use facts::{ClusterFacts, CustomObjects, Fact, Identity, Principal, RoleName};
pub use finding::{FINDING_CODES, Finding, FindingCode, Severity};
pub use images::PlanImage;
pub use input::{Live, PlanInput};
pub use installed::installed_of;
pub use make::{MOST_BYTES, make_plan, reads};
pub use object::ObjectRef;
pub use permissions::CatalogRisk;
pub use plan::{
    API_VERSION, Along, AlongRef, Cause, DependencyView, FieldDiff, Level, Op, PermissionDelta,
    PermissionRule, PhaseObjects, Plan, PlanAction, PlannedObject, RejectedView, Reversible, Why,
};
pub use policy::{Policies, PolicyInput, Right, rights_of};
pub use preflight::{
    Access, FactsNeeded, KindNeeded, Rule, kinds_needed, names_on_nodes, namespaces_to_review, roles_needed,
    services_needed,
};
pub use reserved::{Installed, is_reserved, reserved};
pub use schema::plan_schema;
pub use signatures::{
    ImageRole, ImageSignature, RequiredSignature, SignatureVerdict, findings as signature_findings,
    used_images,
};
pub use uninstall::{
    Dependency, Operand, OperatorLease, PendingDeletion, Requester, UninstallInput, make_uninstall_plan,
    no_longer_needed, uninstall_reads,
};
pub use universe::{bundle_of, prepare, universe_of};

pub use olm_bundle::Phase;
pub use olm_version::shell_word;
