//! The plan and its JSON.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::names;
use olm_bundle::{Manifest, Phase};
use olm_resolver::{ChosenBundle, Code, group_by_cause, version_span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::demands::Demands;
use crate::digest::Parts;
use crate::finding::{Finding, FindingCode, Severity};
use crate::images::PlanImage;
use crate::object::{ObjectRef, RBAC};
use crate::schema;
use crate::signatures::ImageSignature;
use crate::uninstall::Operand;

pub use crate::permissions::PermissionDelta;
pub use crate::planned::{Cause, FieldDiff, Op, PlannedObject};
pub use olm_bundle::permissions::{Level, PermissionRule};

/// The format of [`Plan`], part of every plan.
pub const API_VERSION: &str = "plan.olm/v1";

/// A change of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Always `plan.olm/v1`.
    pub api_version: String,
    /// Digest of the content to apply, `sha256:...`. Independent of order and time.
    pub digest: String,
    /// Digest of the catalog of the bundle.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub catalog_digest: Option<String>,
    /// The type of change.
    pub action: PlanAction,
    /// Namespace of the operator.
    pub namespace: String,
    /// Name of the Subscription.
    pub subscription: String,
    /// The package.
    pub package: String,
    /// The channel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub channel: Option<String>,
    /// The previous channel, if it was a different one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_channel: Option<String>,
    /// Name of the bundle (ClusterServiceVersion) to install or remove.
    pub bundle: String,
    /// The installed version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// The version after the change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<String>,
    /// The upgrade path to the newest reachable version; its first version is `to`.
    pub path: Vec<String>,
    /// Namespaces that the operator watches, sorted; one empty string means all. Absent in plans of an uninstall.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub watches: Vec<String>,
    /// Why this version was selected.
    pub why: Why,
    /// Dependencies of the bundle and what satisfies them.
    pub dependencies: Vec<DependencyView>,
    /// Operators installed with it as dependencies, in the order of installation.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub along: Vec<Along>,
    /// Changes of objects, in the order of the phases; deletions last.
    pub objects: Vec<PlannedObject>,
    /// Permissions that the operator gains and loses.
    pub permissions: PermissionDelta,
    /// Findings of the preflight checks.
    pub findings: Vec<Finding>,
    /// Images that the plan runs, and images that the operator may run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub images: Vec<PlanImage>,
    /// Images that InstallPolicies require to be signed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub signatures: Vec<ImageSignature>,
    /// Whether the plan requires approval.
    pub requires_approval: bool,
    /// Whether the change can be rolled back.
    pub reversible: Reversible,
    /// Custom resources of the operator, in plans of an uninstall.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub operands: Vec<Operand>,
    /// The digests of its parts. Not part of the JSON: [`Plan::digest`] covers them.
    #[serde(skip)]
    pub(crate) parts: Parts,
    /// The digest of what is applied. Not part of the JSON: it covers less than [`Plan::digest`].
    #[serde(skip)]
    pub(crate) content: String,
    /// The rights that its authority needs to apply it. Not part of the JSON: the findings list the missing ones.
    #[serde(skip)]
    pub demands: Demands,
    /// Names of the InstallPolicies whose authors lend their rights to it. Not part of the JSON: it holds for those who make the plan.
    #[serde(skip)]
    pub lending: BTreeSet<String>,
    /// The manifests to apply, by reference. Not part of the JSON: they may hold secrets.
    #[serde(skip)]
    pub(crate) manifests: BTreeMap<ObjectRef, Manifest>,
}

/// An operator installed as a dependency, with its plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Along {
    /// What is remembered of it.
    #[serde(flatten)]
    pub entry: AlongRef,
    /// The plan of its installation.
    pub plan: Plan,
}

/// What an InstallPlan remembers of an operator that is installed along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlongRef {
    /// Name of its Subscription.
    pub subscription: String,
    /// The bundle to install.
    #[schemars(with = "schema::ChosenBundle")]
    pub bundle: ChosenBundle,
    /// Subscriptions of the namespace that require it.
    pub required_by: Vec<String>,
    /// Subscriptions whose operators must be running before this one is started.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub after: Vec<String>,
    /// Digest of its plan.
    pub digest: String,
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanAction {
    /// First installation.
    Install,
    /// Upgrade to a newer version.
    Upgrade,
    /// Rollback to an older version.
    Rollback,
    /// Switch of the channel with the installed version.
    ChannelChange,
    /// Removal.
    Uninstall,
    /// No change of the version.
    None,
}

impl PlanAction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::ChannelChange => "channel-change",
            Self::Uninstall => "uninstall",
            Self::None => "none",
        }
    }
}

/// Why a version was selected.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The selected version.
    pub chosen: String,
    /// The reason, in one sentence.
    pub text: String,
    /// Rejected versions.
    pub rejected: Vec<RejectedView>,
}

impl Why {
    /// The rejected versions by cause, such as `1.0.0 to 1.4.2 (47)`, with the first of each.
    pub fn rejected_by_cause(&self) -> Vec<(String, &RejectedView)> {
        let same_cause =
            |a: &&RejectedView, b: &&RejectedView| (a.code, &a.text, &a.fix) == (b.code, &b.text, &b.fix);
        let span = |group: &[&RejectedView]| {
            version_span(&group.iter().map(|rejected| rejected.version.as_str()).collect::<Vec<_>>())
        };
        let groups = group_by_cause(&self.rejected, same_cause).into_iter();
        groups.map(|group| (span(&group), group[0])).collect()
    }
}

/// A rejected version.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedView {
    /// The version, or the name of a bundle without one.
    pub version: String,
    /// Code of the reason; `docs/reasons/CODE.md` explains it.
    #[schemars(schema_with = "schema::word")]
    pub code: Code,
    /// The reason, in one sentence.
    pub text: String,
    /// The command that selects it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fix: Option<String>,
}

/// A dependency and what satisfies it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependencyView {
    /// The required API or package.
    pub need: String,
    /// The bundle that requires it.
    pub required_by: String,
    /// What satisfies it.
    pub satisfied_by: String,
    /// The bundle to install for it (`catalog namespace/name`, package, bundle), if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Option<schema::ChosenBundle>")]
    pub install: Option<olm_resolver::ChosenBundle>,
}

/// Whether the change can be rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reversible {
    /// Whether it can be rolled back.
    pub possible: bool,
    /// The reason, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// The manifests of one phase, to be applied together.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseObjects {
    pub phase: Phase,
    /// The manifests with their operations.
    pub objects: Vec<(Op, ObjectRef, Value)>,
}

impl Plan {
    /// The manifests to apply, phase by phase: exactly those in [`Plan::objects`]. Unchanged objects are
    /// among them, so that applying records field ownership.
    pub fn phases(&self) -> Vec<PhaseObjects> {
        let mut phases: Vec<PhaseObjects> = Vec::new();
        for object in &self.objects {
            let Some(phase) = object.phase else { continue };
            let Some(manifest) = self.manifests.get(&object.reference) else { continue };
            let item = (object.op, object.reference.clone(), Value::clone(manifest));
            match phases.iter_mut().find(|p| p.phase == phase) {
                Some(found) => found.objects.push(item),
                None => phases.push(PhaseObjects { phase, objects: vec![item] }),
            }
        }
        phases.sort_by_key(|p| p.phase);
        phases
    }

    /// The digest of the applied content: as [`Plan::digest`], but constant before, while and after the plan
    /// is applied.
    pub fn content_digest(&self) -> &str {
        &self.content
    }

    /// The digests of the parts that [`Plan::digest`] covers: to describe differences from a reviewed plan.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The objects to delete, in order.
    pub fn deletions(&self) -> Vec<ObjectRef> {
        self.objects.iter().filter(|o| o.op == Op::Delete).map(|o| o.reference.clone()).collect()
    }

    /// Whether a finding blocks the plan.
    pub fn is_blocked(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Block)
    }

    /// The plan in one line: `upgrade etcd 0.11.1 -> 0.11.2, channel stable -> candidate`.
    pub fn headline(&self) -> String {
        let version = match (&self.from, &self.to) {
            (Some(from), Some(to)) if from != to => format!(" {from} -> {to}"),
            (_, Some(version)) | (Some(version), None) => format!(" {version}"),
            (None, None) => String::new(),
        };
        let channel = match (&self.from_channel, &self.channel) {
            (Some(from), Some(to)) => format!(", channel {from} -> {to}"),
            _ => String::new(),
        };
        format!("{} {}{version}{channel}", self.action.as_str(), self.package)
    }

    /// Numbers of created, changed (adopted ones included) and deleted objects.
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |ops: &[Op]| self.objects.iter().filter(|o| ops.contains(&o.op)).count();
        (count(&[Op::Create]), count(&[Op::Update, Op::Adopt]), count(&[Op::Delete]))
    }

    /// What an approver must have seen, in words: new permissions of level HIGH, and deleted objects. The
    /// replaced version and its roles do not count: the permissions show their difference.
    pub fn review_points(&self) -> Vec<String> {
        let high = self.findings.iter().any(|finding| finding.code == FindingCode::HighRightsAdded);
        // Not by the reference, which is not part of the JSON.
        let replaced = |gvk: &str| {
            let parts: Vec<&str> = gvk.splitn(3, '.').collect();
            matches!(parts[..], ["ClusterServiceVersion", _, names::GROUP] | [_, _, RBAC])
        };
        let deleted = self.objects.iter().filter(|o| o.op == Op::Delete && !replaced(&o.gvk)).count();
        let deleted = match deleted {
            0 => None,
            1 => Some("1 object deleted".to_owned()),
            n => Some(format!("{n} objects deleted")),
        };
        high.then(|| "new permissions of level HIGH".to_owned()).into_iter().chain(deleted).collect()
    }

    /// The first part of the digest, usable in a name.
    pub fn short_digest(&self) -> &str {
        let hex = self.digest.strip_prefix("sha256:").unwrap_or(&self.digest);
        hex.get(..12).unwrap_or(hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_share_a_cause_are_one_entry() {
        let rejected = |version: &str, code: Code| RejectedView {
            version: version.to_owned(),
            code,
            text: format!("because of {code}"),
            fix: None,
        };
        let mut why = Why::default();
        why.rejected.push(rejected("2.0.0", Code::NotInChannel));
        why.rejected.extend(["1.3.0", "1.2.0", "1.1.0"].map(|version| rejected(version, Code::LaterHop)));
        let shown: Vec<_> =
            why.rejected_by_cause().into_iter().map(|(span, first)| (span, first.code)).collect();
        assert_eq!(
            shown,
            [("2.0.0".to_owned(), Code::NotInChannel), ("1.1.0 to 1.3.0 (3)".to_owned(), Code::LaterHop)]
        );
    }
}
