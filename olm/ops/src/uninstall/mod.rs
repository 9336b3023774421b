//! Complete removal of an operator.
//!
//! [`UninstallTarget::read`] reads the cluster, [`UninstallTarget::plan`] makes the plan (the same that is previewed), and
//! [`uninstall`] applies exactly that plan. A Subscription that is deleted with a `deletionPolicy` is removed
//! by the same plan ([`advance`]), with the rights of the manager and without waiting. Both are interruptible
//! at any point: the rest is planned anew.

mod leases;
mod other_users;
mod owned;
mod remaining_crds;
mod remove;
mod stages;
mod target;

use kube::{Client, ResourceExt};
use olm_api::{
    Subscription,
    subscription::{CrdPolicy, DeletionPolicy, DependencyRemoval, OperandPolicy},
};
use olm_plan::{Op, Plan, PlannedObject};
use serde::{Deserialize, Serialize};

use super::{
    approve::{changed, same_digest},
    error::Error,
};

pub use target::UninstallTarget;

/// What to do with custom resources of the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operands {
    /// Refuse to uninstall while there are any.
    #[default]
    Abort,
    /// Leave them, without an operator.
    Keep,
    /// Delete them first, while the operator can still clean up after them.
    Delete,
}

#[derive(Debug, Clone, Default)]
pub struct UninstallOptions {
    /// Custom resources of the operator.
    pub operands: Operands,
    /// Whether to delete its CRDs, and with them every object of their kinds.
    pub delete_crds: bool,
    /// Whether to remove operators that were installed as its dependencies and that no other operator needs.
    pub delete_dependencies: bool,
    /// The digest of the reviewed plan, or its first twelve digits: another plan is not applied.
    pub digest: Option<String>,
}

impl UninstallOptions {
    /// The equivalent `deletionPolicy` of a Subscription.
    #[must_use]
    pub fn policy(&self) -> DeletionPolicy {
        DeletionPolicy {
            operands: match self.operands {
                Operands::Abort => OperandPolicy::Abort,
                Operands::Keep => OperandPolicy::Orphan,
                Operands::Delete => OperandPolicy::Delete,
            },
            crds: if self.delete_crds { CrdPolicy::Delete } else { CrdPolicy::Keep },
            dependencies: match self.delete_dependencies {
                true => DependencyRemoval::Delete,
                false => DependencyRemoval::Keep,
            },
        }
    }
}

/// The command equivalent to the `deletionPolicy` of a Subscription.
pub fn command(subscription: &Subscription) -> String {
    let options = UninstallOptions::from(subscription.spec.deletion_policy.unwrap_or_default());
    let namespace = subscription.namespace().unwrap_or_default();
    let mut out = format!("olm uninstall {} -n {namespace}", subscription.name_any());
    out.push_str(match options.operands {
        Operands::Abort => "",
        Operands::Keep => " --instances keep",
        Operands::Delete => " --instances delete",
    });
    for (wanted, flag) in
        [(options.delete_crds, " --delete-crds"), (options.delete_dependencies, " --delete-dependencies")]
    {
        out.push_str(if wanted { flag } else { "" });
    }
    out
}

impl From<DeletionPolicy> for UninstallOptions {
    fn from(policy: DeletionPolicy) -> Self {
        Self {
            operands: match policy.operands {
                OperandPolicy::Abort => Operands::Abort,
                OperandPolicy::Orphan => Operands::Keep,
                OperandPolicy::Delete => Operands::Delete,
            },
            delete_crds: policy.crds == CrdPolicy::Delete,
            delete_dependencies: policy.dependencies == DependencyRemoval::Delete,
            digest: None,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UninstallReport {
    pub namespace: String,
    pub package: String,
    /// Digest of the applied plan.
    pub digest: String,
    /// Removed objects in order, as `Kind namespace/name`.
    pub removed: Vec<String>,
    /// Objects that stay by design.
    pub kept: Vec<String>,
    /// Dependents of its ClusterServiceVersion that still existed a few seconds after its deletion, or were
    /// unreadable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
}

/// Previews [`uninstall`].
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`]. Instances that block the removal are no error: they are a
/// finding of the plan.
pub async fn preview_uninstall(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<Plan, Error> {
    Ok(read_target(client, namespace, target, options).await?.plan(options))
}

/// CRDs are deleted last, so a request to delete them also covers what an interrupted uninstall left.
async fn read_target(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<UninstallTarget, Error> {
    match options.delete_crds {
        true => UninstallTarget::remains(client, namespace, target).await,
        false => UninstallTarget::read(client, namespace, target).await,
    }
}

/// Uninstalls an operator: its instances on request, its Subscription, its ClusterServiceVersion with all its
/// objects, its unneeded dependencies on request, the OperatorGroup if a plan made it and no other operator
/// needs it, and its CRDs on request. The applied plan is that of [`preview_uninstall`]. After an
/// interruption, the same call resumes where it stopped.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Refused`] with the code of the blocking finding, with `plan-changed` when
/// the plan differs from the reviewed one, or with `StuckFinalizer` when an object is not deleted in time.
pub async fn uninstall(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<UninstallReport, Error> {
    let operator = read_target(client, namespace, target, options).await?;
    let plan = operator.plan(options);
    refuse_another(&plan, options.digest.as_deref())?;
    refuse_unlisted(&operator, options)?;
    Error::refuse_blocked("uninstall", &plan)?;
    remove::apply(client, &operator, &plan, options).await
}

/// Progress of the removal of the operator of a deleted Subscription.
#[derive(Debug)]
pub enum Progress {
    /// Objects that are being deleted, in words.
    Waiting(String),
    /// The Subscription of a dependency that is being removed as well is held.
    HeldAlong {
        reason: String,
        /// The Subscription, its message, and the consequence for this one.
        message: String,
    },
    /// Only the Subscription itself is left.
    Done,
}

/// Performs the next step of the `deletionPolicy` of a Subscription without waiting. The plan is that of `olm
/// uninstall` with the same policy.
///
/// # Errors
/// [`Error::Refused`] with the code of the blocking finding or `StuckFinalizer`; [`Error::Forbidden`] where
/// the caller may not delete an object.
pub async fn advance(client: &Client, subscription: &Subscription) -> Result<Progress, Error> {
    let options = UninstallOptions::from(subscription.spec.deletion_policy.unwrap_or_default());
    let operator = UninstallTarget::of_subscription(client, subscription).await?;
    let plan = operator.plan(&options);
    refuse_unlisted(&operator, &options)?;
    Error::refuse_blocked("uninstall", &plan)?;
    remove::advance(client, &operator, &plan, subscription).await
}

/// Refuses to delete CRDs when some were unreadable: the result would claim that all are gone.
fn refuse_unlisted(operator: &UninstallTarget, options: &UninstallOptions) -> Result<(), Error> {
    if !options.delete_crds || operator.knows_all_crds(options) {
        return Ok(());
    }
    let text = "no permission to list CustomResourceDefinitions, so CRDs of previous versions were not found";
    Err(Error::Forbidden { text: text.into() })
}

/// The confirmation applies to the reviewed losses; another plan needs a new one.
fn refuse_another(plan: &Plan, reviewed: Option<&str>) -> Result<(), Error> {
    match reviewed {
        Some(reviewed) if !same_digest(reviewed, &plan.digest) => {
            let deleted = plan.objects.iter().filter(|o| o.op == Op::Delete && o.goes_with.is_none());
            let names: Vec<String> = deleted.map(|o| o.reference.to_string()).collect();
            let how = format!("reviewed {reviewed}, now {}, which deletes {}", plan.digest, names.join(", "));
            Err(changed(&format!("to uninstall {}", plan.package), &how))
        }
        _ => Ok(()),
    }
}

/// An object with the plan's note about it.
fn described(object: &PlannedObject) -> String {
    match &object.note {
        Some(note) => format!("{} ({note})", object.reference),
        None => object.reference.to_string(),
    }
}
