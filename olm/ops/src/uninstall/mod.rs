//! Taking an operator away, the whole of it: nothing is left half-bound.
//!
//! [`Leaving::read`] looks at the cluster, [`Leaving::plan`] says what goes (the same plan that is previewed), and
//! [`uninstall`] carries that plan out and nothing else. A Subscription that is deleted with a `deletionPolicy` takes the same way
//! ([`advance`]), with the rights of the manager and without waiting. Both can be interrupted anywhere: what is left is planned anew.

mod elsewhere;
mod leaving;
mod owned;
mod remains;
mod remove;
mod stages;

use kube::{Client, ResourceExt};
use olm_api::{
    Subscription,
    subscription::{CrdPolicy, DeletionPolicy, DependencyRemoval, OperandPolicy},
};
use olm_plan::{Op, Plan, PlannedObject, Severity};
use serde::{Deserialize, Serialize};

use super::{
    approve::{changed, same_digest},
    error::Error,
};

pub use leaving::Leaving;

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

/// How far to go.
#[derive(Debug, Clone, Default)]
pub struct UninstallOptions {
    /// Custom resources of the operator.
    pub operands: Operands,
    /// Whether its CRDs go too, and with them every object of their kinds.
    pub delete_crds: bool,
    /// Whether operators go too that were installed for it and that nothing else needs.
    pub delete_dependencies: bool,
    /// The digest of the plan that was reviewed, or its first twelve digits: another plan is not carried out.
    pub digest: Option<String>,
}

impl UninstallOptions {
    /// The same as a Subscription says it.
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

/// The command that does for a Subscription what its `deletionPolicy` says.
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

/// What an uninstall did.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UninstallReport {
    /// Namespace of the operator.
    pub namespace: String,
    pub package: String,
    /// Digest of the plan that was carried out.
    pub digest: String,
    /// What is gone, in order, as `Kind namespace/name`.
    pub removed: Vec<String>,
    /// What stays on purpose.
    pub kept: Vec<String>,
    /// What should have gone with its ClusterServiceVersion and was still there a few seconds later, or could not be
    /// looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
}

/// What [`uninstall`] would do.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Forbidden`]. That instances stand in the way is no error: it is a finding of the plan.
pub async fn preview_uninstall(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<Plan, Error> {
    Ok(look(client, namespace, target, options).await?.plan(options))
}

/// CRDs go last, when nothing else is left that has the operator's name: whoever wants them gone means those too.
async fn look(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<Leaving, Error> {
    match options.delete_crds {
        true => Leaving::remains(client, namespace, target).await,
        false => Leaving::read(client, namespace, target).await,
    }
}

/// Uninstalls an operator: its instances if asked for, its Subscription, its ClusterServiceVersion with all that
/// belongs to it, what was installed for it and nothing else needs if asked for, the OperatorGroup if a plan made it and
/// nobody else needs it, and its CRDs if asked for. What is done is the plan of [`preview_uninstall`]. When it is interrupted, the
/// same call goes on where it stopped.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Refused`] with the code of the finding that stands in the way, with `plan-changed` when
/// the plan is not the one that was reviewed, or with `StuckFinalizer` when an object does not go.
pub async fn uninstall(
    client: &Client,
    namespace: Option<&str>,
    target: &str,
    options: &UninstallOptions,
) -> Result<UninstallReport, Error> {
    let leaving = look(client, namespace, target, options).await?;
    let plan = leaving.plan(options);
    refuse_another(&plan, options.digest.as_deref())?;
    refuse_unseen(&leaving, options)?;
    refuse_blocked(&plan)?;
    remove::carry_out(client, &leaving, &plan, options).await
}

/// How far the removal of what a deleted Subscription stands for has come.
#[derive(Debug)]
pub enum Progress {
    /// Objects are on their way out, in words.
    Waiting(String),
    /// A Subscription that goes along is held.
    HeldAlong {
        reason: String,
        /// It, what it says, and what that means for this one.
        message: String,
    },
    /// Nothing is left but the Subscription itself.
    Done,
}

/// Does the next step of what the `deletionPolicy` of a Subscription asks for, and never waits. What is done is the plan that
/// `olm uninstall` would carry out with that policy.
///
/// # Errors
/// [`Error::Refused`] with the code of the finding that stands in the way or `StuckFinalizer`; [`Error::Forbidden`] where
/// the caller may not delete something.
pub async fn advance(client: &Client, subscription: &Subscription) -> Result<Progress, Error> {
    let options = UninstallOptions::from(subscription.spec.deletion_policy.unwrap_or_default());
    let leaving = Leaving::of_subscription(client, subscription).await?;
    let plan = leaving.plan(&options);
    refuse_unseen(&leaving, &options)?;
    refuse_blocked(&plan)?;
    remove::advance(client, &leaving, &plan, subscription).await
}

/// Who wants all CRDs gone is not told that they are when some could not be looked for.
fn refuse_unseen(leaving: &Leaving, options: &UninstallOptions) -> Result<(), Error> {
    if !options.delete_crds || leaving.knows_all_crds(options) {
        return Ok(());
    }
    let text = "no permission to list CustomResourceDefinitions, so CRDs of previous versions were not found";
    Err(Error::Forbidden { text: text.into() })
}

fn refuse_blocked(plan: &Plan) -> Result<(), Error> {
    match plan.findings.iter().find(|finding| finding.severity == Severity::Block) {
        Some(finding) => Err(Error::Refused {
            code: finding.code.to_string(),
            text: format!("failed to uninstall {}: {}", plan.package, finding.text),
            fix: finding.fix.clone(),
        }),
        None => Ok(()),
    }
}

/// What was agreed to is what is lost; anything else has to be agreed to anew.
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

/// An object with the remark that the plan has about it.
fn described(object: &PlannedObject) -> String {
    match &object.note {
        Some(note) => format!("{} ({note})", object.reference),
        None => object.reference.to_string(),
    }
}
